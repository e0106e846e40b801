#!/usr/bin/env bash
# The page in Chromium against the real server.
#   browser_test.sh BUTTERFLY WORK_FOLDER NAME       exit 77: skipped, with the reason
# BUTTERFLY_SCREENSHOTS=FOLDER also keeps the pictures that the docs show.
set -euo pipefail
butterfly=$1 work=$2 name=$3
here=$(cd "$(dirname "$0")" && pwd)
for tool in node npm chromium; do
  command -v "$tool" > /dev/null || { echo "skipped: $tool is not installed (./scripts/deps.sh page browser)"; exit 77; }
done
if (($(node -p 'process.versions.node.split(".")[0]') < 20)); then
  echo "skipped: node $(node --version) is here, playwright-core needs 20 or later"
  exit 77
fi
# Through grep alone: grep -q would close the pipe early, and strings would fail for that.
if ! grep -qa 'page/index-' "$butterfly"; then
  echo "skipped: this program was built without its page"
  exit 77
fi

mkdir -p "$work/$name"
exec 9> "$work/lock"
flock 9 # several tests may start at once
if ! cmp -s "$here/package-lock.json" "$work/installed.json"; then
  cp "$here/package.json" "$here/package-lock.json" "$work/"
  if ! npm ci --prefix "$work" --ignore-scripts --no-audit --no-fund > "$work/npm.log" 2>&1; then
    echo "skipped: npm cannot install the driver: $(grep -m1 -iE 'err' "$work/npm.log" || tail -n 1 "$work/npm.log")"
    exit 77
  fi
  cp "$here/package-lock.json" "$work/installed.json"
fi
flock -u 9
# Beside the packages, so that they are found.
cp "$here/../clients/harness.mjs" "$here/browser.mjs" "$here/${name}_test.mjs" "$work/$name/"
CHROMIUM=$(command -v chromium) exec timeout 280 node "$work/$name/${name}_test.mjs" "$butterfly" "$work/$name" "$(cd "$here/../.." && pwd)"
