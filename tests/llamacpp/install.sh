#!/bin/bash
# Installs npm's node-llama-cpp, which ships llama.cpp prebuilt, into the folder $1, once. 77: cannot, with the reason.
set -u
modules=$1
mkdir -p "$modules" || exit 77
exec 9>"$modules/.lock"
flock 9 # several tests may start at once
[ -e "$modules/.installed" ] && exit 0
command -v node >/dev/null || { echo "node is not installed"; exit 77; }
command -v npm >/dev/null || { echo "npm is not installed"; exit 77; }
[ "$(uname -m)" = x86_64 ] || { echo "there is no prebuilt llama.cpp for $(uname -m) here"; exit 77; }
# Scripts are left out: the package's own would compile llama.cpp from source.
(cd "$modules" && timeout 300 npm install --no-audit --no-fund --ignore-scripts --omit=optional \
  node-llama-cpp @node-llama-cpp/linux-x64 >install.log 2>&1) ||
  { echo "npm install failed: $(tail -n 1 "$modules/install.log")"; exit 77; }
touch "$modules/.installed"
