#!/usr/bin/env python3
"""What two one-thread processes that share every layer gain over one thread, beside two threads of one process; all served over HTTP.

    served.py --model FILE... [--butterfly BIN] [--other BIN] [--rounds 3] [--tests n48,b8,p740] [--sides one,two,group,chain] [--out FILE.json]

Sides take turns, one server at a time:
    one     serve -t 1                    two     serve -t 2
    group   serve -t 1 --local-nodes 2 --groups 2 (TLS over loopback)
    chain   serve -t 1 --local-nodes 2    other   `group` of another program, --other, for changes of the program itself
    four-S  serve -t 1 --local-nodes 4 --strategy S; four-shared and four-auto: --groups 4 and auto
Tests: nN generates N tokens of one text, bN runs N texts of 32 tokens at once, pN reads a prompt of N; tokens/s. An --out file that exists
is added to; --rounds 0 prints what it holds. Everything else on the machine should stand still.
"""
import argparse
import asyncio
import json
import random
import re
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "serve"))
from http_load import butterfly, together  # noqa: E402

STREAM_TOKENS = 32
NODES = ["-t", 1, "--local-nodes", 2, "--local-restarts", 0]
FOUR = ["-t", 1, "--local-nodes", 4, "--local-restarts", 0]
SIDES = {"one": ["-t", 1], "two": ["-t", 2], "group": [*NODES, "--groups", 2], "chain": NODES, "other": [*NODES, "--groups", 2],
         "four-shared": [*FOUR, "--groups", 4], "four-auto": [*FOUR, "--groups", "auto"],
         **{f"four-{name}": [*FOUR, "--strategy", name] for name in ("uniform", "balanced", "annealing", "optimal")}}


def body(rng, prompt, tokens):
    """Random tokens, so that nothing is reused; temperature 1, so that guesses ahead do not help."""
    return {"prompt": [rng.randrange(300, 30000) for _ in range(prompt)], "max_tokens": tokens, "stream": True, "ignore_eos": True, "temperature": 1.0,
            "top_k": 40, "seed": rng.randrange(1 << 30), "stream_options": {"include_usage": True}}


def asked(server, bodies):
    answers = asyncio.run(together(server.port, "/v1/completions", bodies))
    for answer, wanted in zip(answers, bodies):
        if answer.status != 200 or answer.tokens != wanted["max_tokens"]:
            sys.exit(f"expected {wanted['max_tokens']} tokens, found status {answer.status} and {answer.tokens}: {answer.body[-500:]}")
    return answers


def timed(server, rng, test):
    kind, count = test[0], int(test[1:])
    if kind == "n":
        answer, = asked(server, [body(rng, 4, count + 1)])
        return count / (answer.total - answer.first)
    if kind == "p":
        answer, = asked(server, [body(rng, count, 1)])
        return count / answer.total
    begin = time.monotonic()
    asked(server, [body(rng, 4, STREAM_TOKENS) for _ in range(count)])
    return count * STREAM_TOKENS / (time.monotonic() - begin)


def one_side(options, side, model, tests):
    streams = max([int(t[1:]) for t in tests if t[0] == "b"], default=1)
    context = max([int(t[1:]) for t in tests if t[0] == "p"], default=0) + 256
    server = butterfly(options.other if side == "other" else options.butterfly, model, *SIDES[side], "--parallel", streams, "-c", context,
                       "--log-level", "error", log=options.log)
    rng = random.Random(1)
    try:
        asked(server, [body(rng, 32, 4)])  # warms up
        return {test: [timed(server, rng, test) for _ in range(options.repeats)] for test in tests}
    finally:
        server.stop()


def show(results):
    print("| model | test | one thread, tokens/s | two threads | two nodes, a group | of the threads' gain | others |\n|---|---|---|---|---|---|---|")
    for key, sides in results.items():
        middle = {side: statistics.median(values) for side, values in sides.items()}
        if "one" not in middle:
            continue
        gain = {side: value / middle["one"] for side, value in middle.items()}
        share = f"{gain['group'] / gain['two']:.2f}" if {"two", "group"} <= gain.keys() else ""
        rest = ", ".join(f"{side} {gain[side]:.2f} x" for side in gain if side not in ("one", "two", "group"))
        cell = {side: f"{gain[side]:.2f} x" if side in gain else "" for side in ("two", "group")}
        model, test = key.rsplit(" ", 1)
        print(f"| {model} | {test} | {middle['one']:.1f} | {cell['two']} | {cell['group']} | {share} | {rest} |")
    print(f"\nmedians of {min(len(v) for s in results.values() for v in s.values())} or more")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", nargs="+", default=[])
    parser.add_argument("--butterfly", default="build/release/bin/butterfly")
    parser.add_argument("--other")
    parser.add_argument("--tests", default="n48,b8,p740")
    parser.add_argument("--sides", default="one,two,group")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=1, help="of each test within a round")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--log")
    options = parser.parse_args()
    results = json.loads(options.out.read_text()) if options.out and options.out.exists() else {}
    tests, sides = options.tests.split(","), options.sides.split(",")
    if bad := [t for t in tests if not re.fullmatch(r"[nbp]\d+", t)] + [s for s in sides if s not in SIDES]:
        sys.exit(f"served.py: {bad[0]} is no test (nN, bN, pN) and no side ({', '.join(SIDES)})")
    for _ in range(options.rounds if options.model else 0):
        for model in options.model:
            for side in sides:
                for test, values in one_side(options, side, model, tests).items():
                    results.setdefault(f"{Path(model).stem} {test}", {}).setdefault(side, []).extend(values)
            if options.out:
                options.out.write_text(json.dumps(results, indent=1))
    show(results)


if __name__ == "__main__":
    main()
