#!/usr/bin/env bash
# The library as its users get it: installed into a prefix, found by CMake and by pkg-config, used by examples/.
#   library_test.sh REPOSITORY BUILD_FOLDER WORK_FOLDER BUTTERFLY       exit 77: skipped, with the reason
set -euo pipefail
repository=$1 build=$2 work=$3 butterfly=$4
model=$repository/models/caterpillar.gguf
check() { if ! eval "$2"; then echo "FAILED: $1"; exit 1; fi; echo "ok $1"; }
logged() { "$@" > "$work/log" 2>&1 || { tail -n 30 "$work/log"; exit 1; }; }
if grep -qE '^BUTTERFLY_SANITIZE:[A-Z]+=.' "$build/CMakeCache.txt"; then echo "skipped: a build with sanitizers"; exit 77; fi
rm -rf "$work"
mkdir -p "$work"
logged cmake --build "$build" --target butterfly_library
logged cmake --install "$build" --prefix "$work/prefix" --component library
check "headers stand below butterfly/ and include nothing of the source tree" \
  '[[ -e $work/prefix/include/butterfly/cluster.h ]] && ! grep -rqE "^#include \"" "$work/prefix/include"'
check "nothing installed names the source tree" '! grep -rqF "$repository" "$work/prefix/lib/cmake" "$work/prefix/lib/pkgconfig"'
mv "$work/prefix" "$work/elsewhere" # wherever it is, it is found
logged cmake -S "$repository/examples" -B "$work/examples" -G Ninja -DCMAKE_PREFIX_PATH="$work/elsewhere"
logged cmake --build "$work/examples"

"$work/examples/partition" | tee "$work/partition.txt"
check "a 24-layer transformer over three unequal nodes" \
  'grep -q "^optimal:" "$work/partition.txt" && grep -q "server .*layers" "$work/partition.txt" && grep -q "ms per token" "$work/partition.txt"'
check "the example is short" '(($(grep -vcE "^ *(//|$)" "$repository/examples/partition.cc") <= 17))'
check "a conversation" '[[ $(echo "What is 7 plus 5?" | "$work/examples/chat" "$model") == *"It is 12."* ]]'
check "wrong files are said in words" '! "$work/examples/chat" /nowhere.gguf 2> "$work/err" && grep -q /nowhere.gguf "$work/err"'
check "plans, load and a slow machine" '"$work/examples/cluster" > "$work/cluster.txt" && grep -q "tokens/s" "$work/cluster.txt"'
for ((i = 0; i < 40; ++i)); do printf 'The owl lives in a tree and the frog lives in a pond. '; done > "$work/text.txt"
check "training" '[[ $("$work/examples/train" "$model" "$work/text.txt" 3 "$work/out" | tail -n 1) == "wrote "*.gguf ]]'

flags=$(PKG_CONFIG_PATH=$work/elsewhere/lib/pkgconfig pkg-config --cflags --libs butterfly)
# shellcheck disable=SC2086  # flags are words
logged g++ "$repository/examples/partition.cc" -o "$work/partition" $flags
check "the same by pkg-config" '[[ $("$work/partition") == $(cat "$work/partition.txt") ]]'

"$butterfly" serve -m "$model" --port 0 --management "$work/serve.sock" 2> "$work/serve.log" &
server=$!
trap 'kill $server 2> /dev/null || true' EXIT
for ((i = 0; i < 300; ++i)); do
  url=$(sed -nE 's|^Serving .* at (http://[^ ]*).*|\1|p' "$work/serve.log")
  [[ -n $url ]] && break
  sleep 0.1
done
check "curl" '[[ $("$repository/examples/chat.sh" "What is 7 plus 5?" "$url") == *"It is 12."* ]]'
if command -v node > /dev/null && (($(node -p 'process.versions.node.split(".")[0]') >= 18)); then
  check "node" '[[ $(node "$repository/examples/chat.mjs" "What is 7 plus 5?" "$url") == "It is 12." ]]'
fi
