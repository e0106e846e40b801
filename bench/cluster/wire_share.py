#!/usr/bin/env python3
"""How much of a stage's time is the wire: what receiving and sending beside computing could gain at most.

    wire_share.py [--butterfly BIN] [--model FILE] [--work FOLDER] [--nodes 2] [--seconds 10]

A chain of processes of one thread each on loopback with TLS (`serve --local-nodes`, `uniform`). One stream, then eight at once, then prompts
alone; each for so many seconds. From the figures that nodes report (`work` in /cluster): microseconds in which a stage computed, and in which
it received or sent. The bound: a stage that did both at the same time would take the longer of the two instead of their sum.
"""
import argparse
import json
import os
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tests" / "cluster"))
from harness import Server, make_model  # noqa: E402

SHAPE = ["--type", "q4_0", "--layers", "22", "--dim", "2048", "--hidden", "5632", "--heads", "32", "--kv-heads", "4"]
parser = argparse.ArgumentParser()
parser.add_argument("--butterfly", default="build/release/bin/butterfly")
parser.add_argument("--model")
parser.add_argument("--work", default="/tmp/wire_share")
parser.add_argument("--nodes", type=int, default=2)
parser.add_argument("--seconds", type=float, default=10)
options = parser.parse_args()
os.makedirs(options.work, exist_ok=True)
model = options.model or make_model(options.butterfly, f"{options.work}/model.gguf", *SHAPE)


def work(server):
    return {node["name"]: node["jobs"][0]["work"] for node in server.cluster()["nodes"]}


def ask(server, end, words, tokens, seed):
    turn = 0
    while time.monotonic() < end:
        prompt = " ".join(f"{seed}-{turn}-{i}" for i in range(words))  # none that was read before
        status, answer = server.request("POST", "/v1/completions", {"prompt": prompt, "max_tokens": tokens, "ignore_eos": True,
                                                                    "temperature": 0})
        assert status == 200, answer
        turn += 1


def measure(server, name, streams, words, tokens):
    ask(server, time.monotonic() + 1, words, tokens, "warm")
    time.sleep(0.5)  # the last beat
    before, end = work(server), time.monotonic() + options.seconds
    threads = [threading.Thread(target=ask, args=(server, end, words, tokens, i)) for i in range(streams)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    time.sleep(0.5)
    after = work(server)
    for node in after:
        steps, compute, wait, wire = (after[node][key] - before[node][key] for key in ("steps", "compute_us", "wait_us", "wire_us"))
        bound = (compute + wire) / max(compute, wire, 1)
        print(f"{name:10} {node:10} {steps:6} steps: compute {compute / max(1, steps):9.0f} us, wire {wire / max(1, steps):7.1f} us a step, "
              f"waits {wait / max(1, steps):9.0f} us; wire {100 * wire / max(1, compute + wire):5.2f} % of its work, beside it at most x{bound:.4f}")


server = Server(options.butterfly, options.work, ["-m", model, "-c", "1024", "-t", "1", "--parallel", "8", "--local-nodes", str(options.nodes),
                                                  "--strategy", "uniform", "--no-speculation"])
try:
    server.wait_serving(options.nodes)
    print(json.dumps({"nodes": options.nodes, "model_bytes": os.path.getsize(model)}))
    measure(server, "one text", 1, 20, 100)
    measure(server, "8 texts", 8, 20, 100)
    measure(server, "prompts", 1, 60, 1)
finally:
    server.end()
