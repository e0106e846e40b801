#!/usr/bin/env python3
"""A small classification task on many workers, each a process with its own TLS links.

train_table_test.py PROGRAM WORK [--nodes N] [--steps S] [--seconds T]

1,000 rows of 10 normal values, class floor(sum mod 10); a network of 10, 20, 10; batches of 32, one for each worker in a
step, Adam. The loss must fall to 0.5 (chance is 2.30), the parameters of all workers have one hash, and the model file is
that of one process alone. With --seconds the figures are those of the steps in that time.
"""
import argparse
import hashlib
import json
import math
import os
import random
import shutil
import signal
import subprocess
import time

from harness import Process, machine_env

parser = argparse.ArgumentParser()
parser.add_argument("program")
parser.add_argument("work")
parser.add_argument("--nodes", type=int, default=10)
parser.add_argument("--steps", type=int, default=1500)
parser.add_argument("--seconds", type=float, default=0)
options = parser.parse_args()
WORK = os.path.abspath(options.work)
shutil.rmtree(WORK, ignore_errors=True)
os.makedirs(WORK)
ENV = machine_env(WORK, "home")

random.seed(7)
with open(f"{WORK}/table.csv", "w") as out:
    for _ in range(1000):
        row = [random.gauss(0, 1) for _ in range(10)]
        out.write(",".join(f"{value:.6f}" for value in row) + f",{math.floor(sum(row) % 10)}\n")
with open(f"{WORK}/net.toml", "w") as out:
    out.write("input = [1, 1, 10]\n[[layer]]\ntype = 'linear'\nout = 20\nactivation = 'relu'\n"
              "[[layer]]\ntype = 'linear'\nout = 10\n")
with open(f"{WORK}/table.yml", "w") as out:
    out.write("model:\n  network: net.toml\ndatasets: table.csv\nmicro_batch_size: 32\n"
              f"gradient_accumulation_steps: {options.nodes}\noptimizer: adam\nlearning_rate: 1e-2\nlr_scheduler: constant\n"
              f"max_grad_norm: 0\nmax_steps: {options.steps}\n")


def train(out, *words):
    return [options.program, "train", f"{WORK}/table.yml", "--output_dir", f"{WORK}/{out}", "--threads", "1", *words]


def metrics(out):
    with open(f"{WORK}/{out}/metrics.jsonl") as lines:
        return [json.loads(line) for line in lines]


def sha256(out):
    with open(f"{WORK}/{out}/model.gguf", "rb") as model:
        return hashlib.sha256(model.read()).hexdigest()


def figures(out, what):
    seconds = sorted(row["seconds"] for row in metrics(out))
    total = sum(seconds)
    print(f"{what}: {len(seconds)} steps, {len(seconds) / total:.0f}/s, {options.nodes * len(seconds) / total:.0f} batches/s, step "
          f"p50 {1e3 * seconds[len(seconds) // 2]:.2f} ms, p99 {1e3 * seconds[len(seconds) * 99 // 100]:.2f} ms")


run = Process(train("many", "--local-nodes", str(options.nodes)), ENV)
run.process.wait(timeout=900)
assert run.process.returncode == 0, run.text()
with open(f"{WORK}/many/nodes.json") as text:
    status = json.load(text)
assert len(status["nodes"]) == options.nodes and all(node["micro_batches"] > 0 for node in status["nodes"]), status
assert status["lost"] == 0 and status["nodes_that_differed"] == 0, status
parameters = 4 * (10 * 20 + 20 + 20 * 10 + 10)
print(f"bytes sent per step, all nodes: {sum(node['bytes_sent'] for node in status['nodes']) / options.steps:.0f}; gradients and weights alone "
      f"are 2 (n - 1) x {parameters} = {2 * (options.nodes - 1) * parameters}")
loss = [row["loss"] for row in metrics("many")]
reached = next((step for step, value in enumerate(loss) if value <= 0.5), None)
assert reached is not None, f"the loss is {loss[-1]} after {len(loss)} steps"
print(f"loss {loss[0]:.2f} -> {min(loss):.3f}, at most 0.5 from step {reached} on")
figures("many", f"{options.nodes} workers")

subprocess.run(train("alone"), env=ENV, check=True, capture_output=True, timeout=600)
assert sha256("many") == sha256("alone"), "not the bytes of one process"
figures("alone", "one thread alone")

if options.seconds > 0:
    timed = Process(train("timed", "--local-nodes", str(options.nodes), "--max_steps", "100000000"), ENV)
    deadline = time.monotonic() + 600
    while not os.path.exists(f"{WORK}/timed/metrics.jsonl") and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(options.seconds)
    timed.process.send_signal(signal.SIGTERM)
    timed.process.wait(timeout=120)
    steps = len(metrics("timed"))
    print(f"{steps} steps, {steps * options.nodes} batches of 32 processed and committed in {options.seconds:.0f} s")
    figures("timed", "of these")
