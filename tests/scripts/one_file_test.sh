#!/usr/bin/env bash
# The program as one file: needs no library, and writes, serves and answers in a folder where there is nothing else.
#   one_file_test.sh REPOSITORY BUILD_FOLDER WORK_FOLDER       exit 77: skipped, with the reason
set -euo pipefail
repository=$1 build=$2 work=$3
check() { if ! eval "$2"; then echo "FAILED: $1"; exit 1; fi; echo "ok $1"; }
mkdir -p "$work/empty/tmp"
targets=$(cmake --build "$build" --target help)
if [[ $targets != *butterfly_one_file* ]]; then
  echo "skipped: static libraries are missing (./scripts/deps.sh build)"
  exit 77
fi
cmake --build "$build" --target butterfly_one_file > "$work/build.log" 2>&1 || { tail -n 30 "$work/build.log"; exit 1; }
program=$build/one-file/butterfly-one-file
check "it needs no other file" '! readelf -l "$program" | grep -q INTERP && ! readelf -d "$program" | grep -q NEEDED'
check "it chooses the same instructions" \
  '[[ $("$program" version | grep -E "^(target|numerics)") == $("$build/bin/butterfly" version | grep -E "^(target|numerics)") ]]'
((EUID == 0)) || { echo "skipped: a chroot needs root"; exit 77; }
cp "$program" "$work/empty/butterfly"
cp "$repository/models/caterpillar.gguf" "$work/empty/"
inside=(env -i PATH=/ HOME=/tmp "$(command -v chroot)" "$work/empty" /butterfly)
alone() { "${inside[@]}" "$@"; }
check "it says what it is" '[[ $(alone --version) == "butterfly 0."* ]]'
words=(run caterpillar.gguf -p "Once upon a time" -n 16 --temp 0 -q)
text=$(alone "${words[@]}")
check "it writes what the other one writes" '[[ $text == $(cd "$repository/models" && "$build/bin/butterfly" "${words[@]}") ]]'
check "local nodes say what they need" '(alone serve -m caterpillar.gguf --local-nodes 2 --port 0 2>&1 || true) | grep -q "mount /proc"'
"${inside[@]}" serve -m caterpillar.gguf --port 0 --management /tmp/serve.sock > /dev/null 2> "$work/serve.log" &
server=$!
trap 'kill $server 2> /dev/null || true' EXIT
for ((i = 0; i < 300; ++i)); do
  url=$(sed -nE 's|^Serving .* at (http://[^ ]*).*|\1|p' "$work/serve.log")
  [[ -n $url ]] && break
  sleep 0.1
done
check "it serves" '[[ $(curl -sS "$url/v1/completions" -d "{\"prompt\": \"Once\", \"max_tokens\": 4}") == *\"choices\"* ]]'
