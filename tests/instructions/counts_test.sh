#!/usr/bin/env bash
# Instructions per token under callgrind against counts.txt, per weight type: unlike times, they do not move with the
# machine's mood. More than 3 % above the stored count fails; 3 % below asks for the new count to be stored.
#
#   counts_test.sh BUTTERFLY WORK_DIR [--store]     exit 77: skipped
set -euo pipefail

butterfly=$1
work=$2
store=${3:-}
table=$(dirname "${BASH_SOURCE[0]}")/counts.txt
export BUTTERFLY_TARGET=AVX2  # the widest that valgrind runs

if ! command -v valgrind >/dev/null; then echo "skipped: valgrind is not installed" && exit 77; fi
if ! grep -qw avx2 /proc/cpuinfo 2>/dev/null; then echo "skipped: this machine has no AVX2" && exit 77; fi
compiler=$(sed -n 's/^# compiler: //p' "$table" 2>/dev/null || true)
here=$(g++ -dumpfullversion)
if [[ -z $store && $compiler != "$here" ]]; then
  echo "skipped: the counts were stored with g++ $compiler, this is $here" && exit 77
fi
mkdir -p "$work"

# Instructions of one benchmark of P prompt and N generated tokens.
count() {
  local model=$1 prompt=$2 generated=$3
  valgrind --tool=callgrind --callgrind-out-file=/dev/null "$butterfly" bench -m "$model" -t 1 -r 1 \
    -p "$prompt" -n "$generated" -o json 2>&1 >/dev/null | sed -nE 's/.*Collected *: *([0-9]+).*/\1/p'
}

status=0
measured=()
for type in Q4_0 Q8_0 Q4_K Q6_K F16; do
  model=$work/$type.gguf
  [[ -f $model ]] || "$butterfly" make-model "$model" --type "$type" --dim 512 --layers 2 --hidden 1536 --heads 8 \
    --kv-heads 2 --vocab 1024 --context 128 >/dev/null 2>&1
  prefill=$((($(count "$model" 96 0) - $(count "$model" 32 0)) / 128))   # a warm-up and a timed run of 64 more each
  decode=$((($(count "$model" 0 24) - $(count "$model" 0 8)) / 16))
  measured+=("$type $prefill $decode")
  read -r _ want_prefill want_decode < <(grep "^$type " "$table" 2>/dev/null || echo "$type 0 0")
  for what in "prefill $prefill $want_prefill" "decode $decode $want_decode"; do
    read -r name now want <<<"$what"
    note=
    if [[ $store == --store ]]; then :; elif ((now * 100 > want * 103)); then note="MORE than stored" && status=1; fi
    if ((now * 100 < want * 97)); then note="fewer: store it (--store)"; fi
    printf '%-5s %-8s %10d instructions per token, stored %10d  %s\n' "$type" "$name" "$now" "$want" "$note"
  done
done
if [[ $store == --store ]]; then
  {
    echo "# Instructions per token: type, prefill of 64 rows, decode. Made by counts_test.sh --store, target AVX2."
    echo "# compiler: $here"
    printf '%s\n' "${measured[@]}"
  } >"$table"
  echo "stored in $table" && exit 0
fi
exit $status
