#!/usr/bin/env bash
# HTTPS with files of one's own, and the unix socket, with curl.
#   https_test.sh BUTTERFLY WORK_FOLDER       exit 77: skipped, with the reason
set -euo pipefail
butterfly=$1 work=$2
for tool in curl openssl; do
  command -v "$tool" > /dev/null || { echo "skipped: $tool is not installed"; exit 77; }
done
rm -rf "$work"
mkdir -p "$work"
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1 \
  -keyout "$work/key.pem" -out "$work/cert.pem" 2> /dev/null
"$butterfly" make-model "$work/m.gguf" --dim 64 --hidden 128 --layers 2 --heads 4 --vocab 400 --type f32 2> /dev/null
"$butterfly" serve -m "$work/m.gguf" -t 1 --port 0 --management "$work/socket" --tls-cert "$work/cert.pem" --tls-key "$work/key.pem" 2> "$work/log" &
server=$!
trap 'kill "$server" 2> /dev/null || true' EXIT
for _ in $(seq 200); do grep -q ' at https' "$work/log" && break; sleep 0.05; done
url=$(grep -oE 'https://[0-9.:]+' "$work/log" | head -n 1)
ask() { curl --silent --show-error --fail --max-time 60 --cacert "$work/cert.pem" "$@"; }
ask "$url/health" | grep -q '"ok"'
ask "$url/v1/completions" -d '{"prompt": "a", "max_tokens": 4}' | grep -q '"completion_tokens":4'
ask -N "$url/v1/completions" -d '{"prompt": "a", "max_tokens": 4, "stream": true}' | grep -q 'DONE'
if curl --silent --max-time 10 "${url/https/http}/health" > /dev/null; then echo "plain HTTP was answered"; exit 1; fi
if ask --tls-max 1.1 "$url/health" > /dev/null 2>&1; then echo "TLS 1.1 was accepted"; exit 1; fi
[[ $(stat -c %a "$work/socket") == 600 ]] || { echo "the socket's mode is $(stat -c %a "$work/socket")"; exit 1; }
"$butterfly" ps --management "$work/socket" | grep -q ready
"$butterfly" stop --management "$work/socket" | grep -q ended
wait "$server"
[[ ! -e $work/socket ]] || { echo "the socket stays behind"; exit 1; }
echo "https, ps and stop work"
