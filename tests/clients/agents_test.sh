#!/usr/bin/env bash
# Coding agents from npm against the real server: `butterfly launch` starts each with one scripted task.
#   agents_test.sh BUTTERFLY WORK_FOLDER       exit 77: skipped, with the reason
set -euo pipefail
butterfly=$1 work=$2
here=$(cd "$(dirname "$0")" && pwd)
for tool in node npm; do
  command -v "$tool" > /dev/null || { echo "skipped: $tool is not installed"; exit 77; }
done

mkdir -p "$work"
if ! cmp -s "$here/agents/package.json" "$work/installed.json"; then
  cp "$here/agents/package.json" "$work/"
  if ! npm install --prefix "$work" --no-audit --no-fund > "$work/npm.log" 2>&1; then
    echo "skipped: npm cannot install the agents: $(grep -m1 -iE 'err' "$work/npm.log" || tail -n 1 "$work/npm.log")"
    exit 77
  fi
  cp "$here/agents/package.json" "$work/installed.json"
fi
cp "$here/harness.mjs" "$here/agents/agents_test.mjs" "$work/"
exec timeout 900 node "$work/agents_test.mjs" "$butterfly" "$work"
