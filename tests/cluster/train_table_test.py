#!/usr/bin/env python3
"""A small classification task on many workers, each a process with its own TLS links.

train_table_test.py PROGRAM WORK [--nodes N] [--steps S] [--seconds T]

1,000 rows of 10 normal values, class floor(sum mod 10); a network of 10, 20, 10; batches of 32, one for each worker in a
step, Adam. The loss must fall to 0.5 (chance is 2.30), the parameters of all workers have one hash, and the model file is
that of one process alone. With --seconds the figures are those of the steps in that time.
"""
import argparse
import math
import os
import random
import signal
import time

from train_runs import TrainRuns

parser = argparse.ArgumentParser()
parser.add_argument("program")
parser.add_argument("work")
parser.add_argument("--nodes", type=int, default=10)
parser.add_argument("--steps", type=int, default=1500)
parser.add_argument("--seconds", type=float, default=0)
options = parser.parse_args()
runs = TrainRuns(options.program, options.work)

random.seed(7)
rows = []
for _ in range(1000):
    row = [random.gauss(0, 1) for _ in range(10)]
    rows.append(",".join(f"{value:.6f}" for value in row) + f",{math.floor(sum(row) % 10)}\n")
runs.write("table.csv", "".join(rows))
runs.write("net.toml", "input = [1, 1, 10]\n[[layer]]\ntype = 'linear'\nout = 20\nactivation = 'relu'\n"
           "[[layer]]\ntype = 'linear'\nout = 10\n")
runs.write("table.yml", "model:\n  network: net.toml\ndatasets: table.csv\nmicro_batch_size: 32\n"
           f"gradient_accumulation_steps: {options.nodes}\noptimizer: adam\nlearning_rate: 1e-2\nlr_scheduler: constant\n"
           f"max_grad_norm: 0\nmax_steps: {options.steps}\n")


def reached(out):
    """The first step whose loss is at most 0.5; chance is 2.30."""
    loss = [row["loss"] for row in runs.metrics(out)]
    step = next((step for step, value in enumerate(loss) if value <= 0.5), None)
    assert step is not None, f"{out}: the loss is {loss[-1]} after {len(loss)} steps"
    print(f"{out}: loss {loss[0]:.2f} -> {min(loss):.3f}, at most 0.5 from step {step} on")


def figures(out, what):
    seconds = sorted(row["seconds"] for row in runs.metrics(out))
    total = sum(seconds)
    print(f"{what}: {len(seconds)} steps, {len(seconds) / total:.0f}/s, {options.nodes * len(seconds) / total:.0f} batches/s, step "
          f"p50 {1e3 * seconds[len(seconds) // 2]:.2f} ms, p99 {1e3 * seconds[len(seconds) * 99 // 100]:.2f} ms")


runs.together("table.yml", "many", options.nodes)
status = runs.status("many")
assert len(status["nodes"]) == options.nodes and all(node["micro_batches"] > 0 for node in status["nodes"]), status
assert status["lost"] == 0 and status["nodes_that_differed"] == 0, status
parameters = 4 * (10 * 20 + 20 + 20 * 10 + 10)
print(f"bytes sent per step, all nodes: {sum(node['bytes_sent'] for node in status['nodes']) / options.steps:.0f}; gradients and weights alone "
      f"are 2 (n - 1) x {parameters} = {2 * (options.nodes - 1) * parameters}")
reached("many")
figures("many", f"{options.nodes} workers")

runs.alone("table.yml", "alone")
assert runs.sha256("many") == runs.sha256("alone"), "not the bytes of one process"
figures("alone", "one thread alone")

# In fewer bits it learns too, and the same on nodes as alone.
for mode in ("bf16", "int8"):
    runs.alone("table.yml", mode, "--wire_mode", mode, "--wire_slots", "4")
    runs.together("table.yml", f"{mode}-4", 4, "--wire_mode", mode)
    assert runs.sha256(mode) == runs.sha256(f"{mode}-4"), f"{mode}: not the bytes of one process"
    reached(mode)

if options.seconds > 0:
    timed = runs.start("table.yml", "timed", "--local-nodes", str(options.nodes), "--max_steps", "100000000")
    deadline = time.monotonic() + 600
    while not os.path.exists(f"{runs.work}/timed/metrics.jsonl") and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(options.seconds)
    timed.process.send_signal(signal.SIGTERM)
    timed.process.wait(timeout=120)
    steps = runs.steps_done("timed")
    print(f"{steps} steps, {steps * options.nodes} batches of 32 processed and committed in {options.seconds:.0f} s")
    figures("timed", "of these")
