#!/usr/bin/env bash
# The page's own functions.   units_test.sh WEB_FOLDER       exit 77: skipped, with the reason
set -euo pipefail
command -v node > /dev/null || { echo "skipped: node is not installed"; exit 77; }
if (($(node -p 'process.versions.node.split(".")[0]') < 18)); then echo "skipped: node is older than 18"; exit 77; fi
exec node --test "$1"/test/
