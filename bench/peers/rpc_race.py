#!/usr/bin/env python3
"""Races two one-thread nodes of butterfly against two one-thread servers of llama.cpp's RPC, on one machine.

    rpc_race.py --model FILE... --llama DIR [--butterfly BIN] [--rounds 3] [--tests n48,p512,b8,bytes] [--out FILE.json]

DIR is the folder with llama.cpp's ggml-rpc-server, llama-bench and llama-batched-bench (built with -DGGML_RPC=ON).

Whole programs as people start them, on the same file:
    llama.cpp   two `ggml-rpc-server -t 1`, one pinned to CPU 0 and one to CPU 1; `llama-bench --rpc` and `llama-batched-bench --rpc`
                drive them from a third process, which is free to use either CPU
    butterfly   `serve --local-nodes 2 -t 1`: two processes, TLS between them, a share of the CPUs each; asked over HTTP
So our times contain HTTP, sampling and encryption, theirs do not. Tests: nN generates N tokens, pN reads N in, bN runs N streams at
once (tokens/s); bytes: on the wire for each generated token. All of it happens in a network namespace of its own, so that the
counters of its loopback device see this race and nothing else, headers and acknowledgements included, both sides alike: a run that
generates 48 tokens less one that generates 16, divided by 32. Needs root. Sides take turns. An --out file that exists is
added to, so that a race can be run in pieces; --rounds 0 prints what it holds.
"""
import argparse
import asyncio
import csv
import io
import json
import os
import random
import re
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "serve"))
from http_load import butterfly, together  # noqa: E402

INSIDE = "BUTTERFLY_RPC_RACE_INSIDE"
FEW, MANY = 16, 48  # tokens of the two runs whose bytes are compared
STREAM_TOKENS = 32
GOALS = {"n": 1.5, "p": 1.5, "b": 2.5, "bytes": 4.0}


def enter_namespace():
    """Starts this script again with a loopback device of its own."""
    if os.environ.get(INSIDE):
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        return
    os.environ[INSIDE] = "1"
    os.execvp("unshare", ["unshare", "--net", sys.executable, *sys.argv])


def wire_bytes():
    """Sent over loopback so far."""
    for line in open("/proc/self/net/dev"):
        name, _, figures = line.partition(":")
        if name.strip() == "lo":
            return int(figures.split()[8])
    sys.exit("no loopback device")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class RpcServers:
    """Two of them, each on a CPU."""

    def __init__(self, folder):
        self.env = {**os.environ, "LD_LIBRARY_PATH": str(folder)}
        self.ports = [free_port(), free_port()]
        self.processes = [subprocess.Popen(["taskset", "-c", str(cpu), folder / "ggml-rpc-server", "-t", "1", "-p", str(port)],
                                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=self.env)
                          for cpu, port in enumerate(self.ports)]
        for port in self.ports:
            self.wait_for(port)

    def wait_for(self, port):
        for _ in range(600):
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                time.sleep(0.1)
        sys.exit("ggml-rpc-server did not start")

    def address(self):
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait()

    def run(self, command):
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, env=self.env)
        if done.returncode != 0:
            sys.exit(f"{command[0]}: {done.stderr[-2000:]}")
        return done.stdout + done.stderr


def parse_test(text):
    match = re.fullmatch(r"([npb])(\d+)", text)
    if text != "bytes" and not match:
        sys.exit(f"rpc_race.py: '{text}' is not a test: nN, pN, bN or bytes")
    return ("bytes", 0) if text == "bytes" else (match[1], int(match[2]))


def theirs(options, model, tests):
    servers = RpcServers(options.llama)
    common = ["-m", model, "--rpc", servers.address(), "-t", 1, "-ngl", 99]
    bench = [options.llama / "llama-bench", *common, "-r", 1, "--no-warmup", "-o", "csv"]
    found = {}
    try:
        counts = {kind: [n for k, n in map(parse_test, tests) if k == kind] for kind in "npb"}
        if counts["n"] or counts["p"]:
            # The first prompt warms up and is not counted.
            text = servers.run([*bench, "-p", ",".join(map(str, [32, *counts["p"]])), "-n", ",".join(map(str, counts["n"])) or 0])
            rows = list(csv.DictReader(io.StringIO(text[text.index("build_commit"):])))
            for row in rows:
                prompt, generate = int(row["n_prompt"]), int(row["n_gen"])
                if generate in counts["n"] and prompt == 0:
                    found[f"n{generate}"] = float(row["avg_ts"])
                if prompt in counts["p"] and generate == 0:
                    found[f"p{prompt}"] = float(row["avg_ts"])
        for streams in counts["b"]:
            text = servers.run([options.llama / "llama-batched-bench", *common, "-c", 4096, "-b", 512, "-npp", 4, "-ntg", STREAM_TOKENS, "-npl", streams])
            rows = [[cell.strip() for cell in line.split("|")] for line in text.splitlines() if line.startswith("|")]
            batch, speed = rows[0].index("B"), rows[0].index("S_TG t/s")
            found[f"b{streams}"] = float(next(row[speed] for row in rows if row[batch] == str(streams)))
        if "bytes" in tests:
            sums = []
            for tokens in (FEW, MANY):
                before = wire_bytes()
                servers.run([*bench, "-p", 0, "-n", tokens])
                sums.append(wire_bytes() - before)
            found["bytes"] = (sums[1] - sums[0]) / (MANY - FEW)
            found["start_bytes"] = sums[0] - FEW * found["bytes"]
    finally:
        servers.stop()
    return found


def body(rng, prompt, tokens, stream=True):
    """Random tokens, so that nothing is reused; temperature 1, so that guesses ahead do not help."""
    return {"prompt": [rng.randrange(300, 30000) for _ in range(prompt)], "max_tokens": tokens, "stream": stream, "ignore_eos": True,
            "temperature": 1.0, "top_k": 40, "seed": rng.randrange(1 << 30), **({"stream_options": {"include_usage": True}} if stream else {})}


def asked(server, bodies):
    answers = asyncio.run(together(server.port, "/v1/completions", bodies))
    for answer, wanted in zip(answers, bodies):
        if answer.status != 200 or answer.tokens != wanted["max_tokens"]:
            sys.exit(f"expected {wanted['max_tokens']} tokens, found status {answer.status} and {answer.tokens}: {answer.body[-500:]}")
    return answers


def ours(options, model, tests, seed):
    rng = random.Random(seed)
    before = wire_bytes()
    streams = max([n for k, n in map(parse_test, tests) if k == "b"], default=1)
    server = butterfly(options.butterfly, model, "--local-nodes", 2, "-t", 1, "--parallel", streams, "-c", 1024, "--log-level", "error", log=options.log)
    found = {"start_bytes": wire_bytes() - before}
    try:
        asked(server, [body(rng, 32, 4)])  # warms up
        for test in tests:
            kind, count = parse_test(test)
            if kind == "n":
                answer, = asked(server, [body(rng, 4, count + 1)])
                found[test] = count / (answer.total - answer.first)
            elif kind == "p":
                answer, = asked(server, [body(rng, count, 1)])
                found[test] = count / answer.total
            elif kind == "b":
                begin = time.monotonic()
                asked(server, [body(rng, 4, STREAM_TOKENS) for _ in range(count)])
                found[test] = count * STREAM_TOKENS / (time.monotonic() - begin)  # their prompts are in it
            else:
                sums = []
                for tokens in (FEW, MANY):
                    before = wire_bytes()
                    asked(server, [body(rng, 4, tokens, stream=False)])
                    sums.append(wire_bytes() - before)
                found["bytes"] = (sums[1] - sums[0]) / (MANY - FEW)
    finally:
        server.stop()
    return found


def show(results):
    print("| model | test | butterfly | llama.cpp RPC | ratio | goal |\n|---|---|---|---|---|---|")
    for key, samples in results.items():
        model, test = key.split(" ")
        mine, other = samples.get("butterfly"), samples.get("llama.cpp")
        if not mine or not other:
            continue
        fewer = test.endswith("bytes")
        a, b = statistics.median(mine), statistics.median(other)
        ratio = b / max(a, 1) if fewer else a / b
        goal = GOALS.get(test if fewer else test[0])
        cells = " | ".join(f"{m:,.0f} [{min(v):,.0f}-{max(v):,.0f}]" if fewer else f"{m:.1f} [{min(v):.1f}-{max(v):.1f}]" for m, v in ((a, mine), (b, other)))
        print(f"| {model} | {test} | {cells} | {ratio:,.2f} x | {f'{goal} x' if goal else ''} |")
    rounds = [len(v) for samples in results.values() for v in samples.values()]
    print(f"\n{min(rounds)} to {max(rounds)} rounds; medians [least-most]; bytes: times fewer")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", nargs="+", default=[])
    parser.add_argument("--llama", type=Path)
    parser.add_argument("--butterfly", default="build/release/bin/butterfly")
    parser.add_argument("--tests", default="n48,p512,b8,bytes")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--log", default=None)
    options = parser.parse_args()
    results = json.loads(options.out.read_text()) if options.out and options.out.exists() else {}
    if options.rounds and options.model:
        enter_namespace()
        tests = options.tests.split(",")
        for round_number in range(options.rounds):
            for model in options.model:
                sides = {"butterfly": lambda m: ours(options, m, tests, time.time_ns()), "llama.cpp": lambda m: theirs(options, m, tests)}
                for name, run in sides.items():
                    for test, value in run(model).items():
                        results.setdefault(f"{Path(model).stem} {test}", {}).setdefault(name, []).append(value)
                if options.out:
                    options.out.write_text(json.dumps(results, indent=1))
                print(f"round {round_number} of {Path(model).stem} is done", file=sys.stderr)
    if results:
        show(results)


if __name__ == "__main__":
    main()
