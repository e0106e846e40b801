#!/usr/bin/env python3
"""Races butterfly against llama.cpp and ik_llama.cpp: interleaved rounds, medians, spread, ratio to the better peer.

    race.py --model FILE... [--llama DIR] [--ik DIR] [--threads 1,2] [--tests p512,p64,n32,n16@2048,b4,b8,b16,load,memory]
            [--rounds 5] [--butterfly BIN] [--out FILE.json]

DIR is the folder with a peer's llama-bench and llama-batched-bench (built from its newest sources with native flags); nN@D also
needs bench/peers/depth.cc there, compiled with that peer:
    g++ -O2 -std=c++20 [-DPEER_IK] depth.cc -I include -I ggml/include -L build/bin -lllama -lggml -o build/bin/depth
Tests: pN reads N tokens in, nN generates N, nN@D generates N after D, bN runs N sequences at once (12 tokens each), all in
tokens/s; load is the time of a process that generates one token, in ms; memory its largest resident size, in MiB.
Every engine runs once per round, in turn, so that a slow spell of the machine meets all of them. An --out file that exists
is added to: a long race can be run in pieces, and --rounds 0 prints what it holds.
"""
import argparse
import csv
import io
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BATCH_TOKENS = 12
WARM_UP = 32  # prompt tokens of an untimed first test: pages are in, threads awake
LOWER_IS_BETTER = ("load", "memory")


def run(command, errors=subprocess.DEVNULL):
    return subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=errors, text=True).stdout


def parse_test(text):
    """(kind, count, depth) of a test such as n16@2048."""
    if text in LOWER_IS_BETTER:
        return text, 0, 0
    match = re.fullmatch(r"([pnb])(\d+)(?:@(\d+))?", text)
    if not match:
        sys.exit(f"race.py: '{text}' is not a test: pN, nN, nN@D, bN, load or memory")
    return match[1], int(match[2]), int(match[3] or 0)


def counts_of(tests, kind):
    return ",".join(str(count) for k, count, _ in map(parse_test, tests) if k == kind) or "0"


def together(tests):
    """Tests that one process of an engine can do: plain ones, one group per depth, batches, and load with memory."""
    groups = {}
    for test in tests:
        kind, _, depth = parse_test(test)
        groups.setdefault(("b",) if kind == "b" else ("start",) if kind in LOWER_IS_BETTER else ("pn", depth), []).append(test)
    return list(groups.values())


def started(command):
    """Milliseconds and MiB of one whole process."""
    begin = time.monotonic()
    child = subprocess.Popen([str(c) for c in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return {"load": 1000 * (time.monotonic() - begin), "memory": usage.ru_maxrss / 1024}


def rates(rows, tests):
    """Tokens/s of each test out of the rows a bench printed: those with its counts."""
    found = {}
    for test in tests:
        kind, count, _ = parse_test(test)
        key = "n_prompt" if kind == "p" else "n_gen"
        other = "n_gen" if kind == "p" else "n_prompt"
        exact = [row for row in rows if int(row[key]) == count and (kind == "n" or int(row[other]) == 0)]
        found[test] = float(exact[-1]["avg_ts"])
    return found


def ours(binary, model, threads, tests):
    kind, _, depth = parse_test(tests[0])
    base = [binary, "bench", "-m", model, "-t", threads, "-r", 1, "-o", "json"]
    if kind in LOWER_IS_BETTER:
        return started(base + ["-p", 0, "-n", 1, "--no-warmup"])
    if kind == "b":
        return {test: float(json.loads(run(base + ["-p", 0, "-n", BATCH_TOKENS, "--streams", parse_test(test)[1]]))[-1]["avg_ts"])
                for test in tests}
    prompts = counts_of(tests, "p") if depth else f"{WARM_UP},{counts_of(tests, 'p')}"
    command = base + ["-p", prompts, "-n", counts_of(tests, "n")] + (["-d", depth] if depth else [])
    return rates(json.loads(run(command)), tests)


def behind_context(folder, is_fork, model, threads, test):
    """Tokens/s of a peer behind a context, with the attention that suits it better: flash halves llama.cpp's rate at 2048
    tokens (3.2 against 6.5, 2026-11-16), and makes no difference to the fork's."""
    kind, count, depth = parse_test(test)
    if kind != "n":
        sys.exit(f"race.py: '{test}': only decode is raced behind a context")
    state = Path(tempfile.gettempdir()) / f"{folder.parent.parent.name}-{Path(model).stem}-{depth}.state"
    return float(run([folder / "depth", model, threads, depth, count, int(is_fork), state]))


def peer(folder, is_fork, model, threads, tests):
    kind, _, depth = parse_test(tests[0])
    if kind == "b":
        command = [folder / "llama-batched-bench", "-m", model, "-t", threads, "-c", 4096, "-b", 512, "-npp", 4,
                   "-ntg", BATCH_TOKENS, "-npl", counts_of(tests, "b")] + (["-rtr"] if is_fork else [])
        rows = [[cell.strip() for cell in line.split("|")] for line in run(command, errors=subprocess.STDOUT).splitlines()
                if line.startswith("|")]
        batch, speed = rows[0].index("B"), rows[0].index("S_TG t/s")
        return {test: float(next(row[speed] for row in rows if row[batch] == str(parse_test(test)[1]))) for test in tests}
    base = [folder / "llama-bench", "-m", model, "-t", threads, "-r", 1, "-o", "csv"] + (["-rtr", 1] if is_fork else [])
    if kind in LOWER_IS_BETTER:
        return started(base + ["-p", 0, "-n", 1] + (["-w", 0] if is_fork else ["--no-warmup"]))
    if depth:
        return {test: behind_context(folder, is_fork, model, threads, test) for test in tests}
    command = base + ["-p", f"{WARM_UP},{counts_of(tests, 'p')}", "-n", counts_of(tests, "n")]
    command += ["-w", 0] if is_fork else ["--no-warmup"]
    return rates(list(csv.DictReader(io.StringIO(run(command)))), tests)


def summary(samples, test):
    """Medians of the engines, and how often the better peer butterfly is (above 1: ahead)."""
    medians = {name: statistics.median(values) for name, values in samples.items()}
    others = [value for name, value in medians.items() if name != "butterfly"]
    if not others:
        return medians, None
    mine = medians["butterfly"]
    return medians, min(others) / mine if test in LOWER_IS_BETTER else mine / max(others)


def print_table(results):
    engines = list(next(iter(results.values())))
    print(f"| model | threads | test | {' | '.join(engines)} | ratio |\n|{'---|' * (len(engines) + 4)}")
    for key, samples in results.items():
        model, threads, test = key.split(" ")
        medians, ratio = summary(samples, test)
        cells = " | ".join(f"{medians[n]:.1f} [{min(v):.1f}-{max(v):.1f}]" for n, v in samples.items())
        print(f"| {model} | {threads} | {test} | {cells} | {f'{ratio:.2f}' if ratio else ''} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", nargs="+", default=[])
    parser.add_argument("--butterfly", default="build/release/bin/butterfly")
    parser.add_argument("--llama", type=Path)
    parser.add_argument("--ik", type=Path)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--tests", default="p512,p64,n32,n16@2048,b4,b8,b16,load,memory")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()

    engines = {"butterfly": lambda *a: ours(args.butterfly, *a)}
    if args.llama:
        engines["llama.cpp"] = lambda *a: peer(args.llama, False, *a)
    if args.ik:
        engines["ik"] = lambda *a: peer(args.ik, True, *a)

    results = json.loads(args.out.read_text()) if args.out and args.out.exists() else {}
    for _ in range(args.rounds):
        for model in args.model:
            for threads in args.threads.split(","):
                for tests in together(args.tests.split(",")):
                    for name, engine in engines.items():
                        for test, value in engine(model, threads, tests).items():
                            key = f"{Path(model).stem} {threads} {test}"
                            results.setdefault(key, {}).setdefault(name, []).append(value)
                    if args.out:
                        args.out.write_text(json.dumps(results, indent=1))
    if results:
        print_table(results)


if __name__ == "__main__":
    main()
