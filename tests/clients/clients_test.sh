#!/usr/bin/env bash
# One client library against the real server.
#   clients_test.sh BUTTERFLY WORK_FOLDER NAME       exit 77: skipped, with the reason
set -euo pipefail
butterfly=$1 work=$2 name=$3
here=$(cd "$(dirname "$0")" && pwd)
for tool in node npm; do
  command -v "$tool" > /dev/null || { echo "skipped: $tool is not installed"; exit 77; }
done

mkdir -p "$work/$name"
exec 9> "$work/lock"
flock 9 # several tests may start at once
if ! cmp -s "$here/package-lock.json" "$work/installed.json"; then
  cp "$here/package.json" "$here/package-lock.json" "$work/"
  if ! npm ci --prefix "$work" --ignore-scripts --no-audit --no-fund > "$work/npm.log" 2>&1; then
    echo "skipped: npm cannot install the clients: $(grep -m1 -iE 'err' "$work/npm.log" || tail -n 1 "$work/npm.log")"
    exit 77
  fi
  cp "$here/package-lock.json" "$work/installed.json"
fi
flock -u 9
# Beside the packages, so that they are found.
cp "$here/harness.mjs" "$here/${name}_test.mjs" "$work/$name/"
exec timeout 300 node "$work/$name/${name}_test.mjs" "$butterfly" "$work/$name"
