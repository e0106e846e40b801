#!/usr/bin/env bash
# Files of convert, quantize and make-model are read by npm's @huggingface/gguf.
#   gguf_test.sh BUTTERFLY WORK_FOLDER       exit 77: skipped, with the reason
set -euo pipefail
butterfly=$1 work=$2
here=$(cd "$(dirname "$0")" && pwd)
for tool in node npm; do
  command -v "$tool" > /dev/null || { echo "skipped: $tool is not installed"; exit 77; }
done

mkdir -p "$work"
cp "$here/package.json" "$work/"
if [[ ! -d $work/node_modules/@huggingface/gguf ]]; then
  if ! npm install --prefix "$work" --ignore-scripts --no-audit --no-fund > "$work/npm.log" 2>&1; then
    echo "skipped: npm cannot install @huggingface/gguf (see $work/npm.log)"
    exit 77
  fi
fi

models=$work/models
rm -rf "$models"
mkdir -p "$models"
"$butterfly" make-model "$models/f32.gguf" --dim 256 --hidden 512 --layers 2 --heads 4 --vocab 400 --type f32
"$butterfly" convert "$models/f32.gguf" "$models/f16.gguf" --type f16
"$butterfly" quantize --help | sed '1,/^Types:/d' | awk 'NF { print $1 }' > "$work/types"
[[ $(wc -l < "$work/types") -ge 18 ]] || { echo "quantize --help lists too few types: $(cat "$work/types")"; exit 1; }
while read -r type; do
  "$butterfly" quantize "$models/f32.gguf" "$models/$type.gguf" "$type"
done < "$work/types"
for arch in mixtral qwen2 qwen3 qwen3moe gpt2 phi3 gemma2 gemma3; do
  "$butterfly" make-model "$models/$arch.gguf" --arch "$arch" --dim 256 --hidden 512 --layers 2 --heads 4 --vocab 400 --type q8_0
done
NODE_MODULES_PARENT=$work node "$here/gguf_test.mjs" "$butterfly" "$models"/*.gguf
