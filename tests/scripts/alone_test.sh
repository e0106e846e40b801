#!/usr/bin/env bash
# Every file compiles by itself. Builds from clean join files, where one may live on what another includes.
#
#   alone_test.sh SOURCE_FOLDER WORK_FOLDER
set -euo pipefail
source_folder=$1 work=$2

rm -rf "$work"
cmake -S "$source_folder" -B "$work" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUTTERFLY_UNITY=OFF -DBUTTERFLY_BENCHES=OFF >"$work.log" 2>&1 ||
  { cat "$work.log" && exit 1; }
cmake --build "$work" --target butterfly_revision butterfly_test_headers >>"$work.log" 2>&1 || { tail -20 "$work.log" && exit 1; }
python3 - "$work/compile_commands.json" <<'END'
import concurrent.futures, json, os, shlex, subprocess, sys

def check(entry):
    words = [w for w in shlex.split(entry["command"]) if not w.endswith("ccache")]
    words[words.index("-o"):words.index("-o") + 2] = []
    words = [w for w in words if not w.startswith("-O")] + ["-O0", "-U_FORTIFY_SOURCE", "-fsyntax-only"]
    done = subprocess.run(words, cwd=entry["directory"], capture_output=True, text=True)
    return entry["file"], done.returncode, done.stderr

entries = [e for e in json.load(open(sys.argv[1])) if e["file"].endswith(".cc")]
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    failed = [(file, text) for file, code, text in pool.map(check, entries) if code != 0]
for file, text in failed:
    print(f"{file} does not compile alone:\n" + "\n".join(text.splitlines()[:5]))
print(f"{len(entries)} files, {len(failed)} do not compile alone")
sys.exit(bool(failed) or not entries)
END
