#!/usr/bin/env python3
"""Races butterfly against llama.cpp and ik_llama.cpp: interleaved rounds, medians, spread, ratio to the better peer.

    race.py --model FILE... [--llama DIR] [--ik DIR] [--threads 1,2] [--tests p512,p64,n32,n16@2048,b4,b8,b16]
            [--rounds 5] [--butterfly BIN] [--out FILE.json]

DIR is the folder with a peer's llama-bench and llama-batched-bench (built from its newest sources with native flags).
Tests: pN reads N tokens in, nN generates N, nN@D generates N after D, bN runs N sequences at once (32 tokens each).
Every engine runs once per round, in turn, so that a slow spell of the machine meets all of them.
"""
import argparse
import csv
import io
import json
import re
import statistics
import subprocess
import sys
from pathlib import Path

BATCH_TOKENS = 32


def run(command, errors=subprocess.DEVNULL):
    return subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=errors, text=True).stdout


def parse_test(text):
    """(kind, count, depth) of a test such as n16@2048."""
    match = re.fullmatch(r"([pnb])(\d+)(?:@(\d+))?", text)
    if not match:
        sys.exit(f"race.py: '{text}' is not a test: pN, nN, nN@D or bN")
    return match[1], int(match[2]), int(match[3] or 0)


def ours(binary, model, threads, test):
    kind, count, depth = parse_test(test)
    prompt, generated = (count, 0) if kind == "p" else (0, BATCH_TOKENS if kind == "b" else count)
    command = [binary, "bench", "-m", model, "-t", threads, "-p", prompt, "-n", generated, "-r", 1, "-o", "json"]
    if depth:
        command += ["-d", depth]
    if kind == "b":
        command += ["--streams", count]
    rows = json.loads(run(command))
    return float(rows[-1]["avg_ts"])


def peer(folder, repack, model, threads, test):
    kind, count, depth = parse_test(test)
    if kind == "b":
        command = [folder / "llama-batched-bench", "-m", model, "-t", threads, "-c", 4096, "-b", 512, "-npp", 16,
                   "-ntg", BATCH_TOKENS, "-npl", count]
        rows = [line.split("|") for line in run(command + repack, errors=subprocess.STDOUT).splitlines()
                if line.startswith("|")]
        heads = [head.strip() for head in rows[0]]
        return float(rows[-1][heads.index("S_TG t/s")])
    prompt, generated = (count, 0) if kind == "p" else (0, count)
    command = [folder / "llama-bench", "-m", model, "-t", threads, "-r", 1, "-o", "csv"]
    if depth and repack:  # the fork has no -d: -gp reads `depth` in, then times the rest
        command += ["-p", 0, "-n", 0, "-gp", f"{depth},{count}"]
    else:
        command += ["-p", prompt, "-n", generated] + (["-d", depth] if depth else [])
    rows = list(csv.DictReader(io.StringIO(run(command + ([*repack, 1] if repack else [])))))
    return float(rows[-1]["avg_ts"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", nargs="+", required=True)
    parser.add_argument("--butterfly", default="build/release/bin/butterfly")
    parser.add_argument("--llama", type=Path)
    parser.add_argument("--ik", type=Path)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--tests", default="p512,p64,n32,n16@2048,b4,b8,b16")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out")
    args = parser.parse_args()

    engines = {"butterfly": lambda m, t, x: ours(args.butterfly, m, t, x)}
    if args.llama:
        engines["llama.cpp"] = lambda m, t, x: peer(args.llama, [], m, t, x)
    if args.ik:
        engines["ik"] = lambda m, t, x: peer(args.ik, ["-rtr"], m, t, x)

    results = []
    for model in args.model:
        for threads in args.threads.split(","):
            for test in args.tests.split(","):
                samples = {name: [] for name in engines}
                for _ in range(args.rounds):
                    for name, engine in engines.items():
                        samples[name].append(engine(model, threads, test))
                medians = {name: statistics.median(values) for name, values in samples.items()}
                peers = [value for name, value in medians.items() if name != "butterfly"]
                ratio = medians["butterfly"] / max(peers) if peers else None
                results.append({"model": Path(model).stem, "threads": int(threads), "test": test,
                                "samples": samples, "medians": medians, "ratio": ratio})
                cells = " | ".join(f"{medians[n]:.1f} [{min(v):.1f}-{max(v):.1f}]" for n, v in samples.items())
                print(f"| {Path(model).stem} | {threads} | {test} | {cells} | {ratio:.2f} |" if ratio else
                      f"| {Path(model).stem} | {threads} | {test} | {cells} |", flush=True)
                if args.out:
                    Path(args.out).write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
