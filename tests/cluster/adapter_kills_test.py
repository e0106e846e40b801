#!/usr/bin/env python3
"""A run that teaches an adapter is killed at random moments spread over all of it, and goes on each time: the adapter has the same bytes.

adapter_kills_test.py PROGRAM WORK [--kills 5] [--steps 40] [--seed 1]

One moment in each of as many equal parts of the run: a random step of the part, and a random time after it was logged, so
that kills meet the forward and backward pass, the update and checkpoints that are being written.
"""
import argparse
import random
import time

from train_runs import TrainRuns

parser = argparse.ArgumentParser()
parser.add_argument("program")
parser.add_argument("work")
parser.add_argument("--kills", type=int, default=5)
parser.add_argument("--steps", type=int, default=40)
parser.add_argument("--seed", type=int, default=1)
options = parser.parse_args()
random.seed(options.seed)
runs = TrainRuns(options.program, options.work)
runs.program("make-model", f"{runs.work}/base.gguf", "--type", "Q4_K", "--dim", "256", "--hidden", "512", "--layers", "3", "--heads", "4",
             "--kv-heads", "2", "--vocab", "1024", "--context", "128")
runs.write("text.txt", "a few words of some text, and then a few more of another kind. " * 800)
runs.write("net.yml", "base_model: base.gguf\ndatasets: [text.txt]\nadapter: lora\nlora_r: 8\nlora_dropout: 0.1\nsequence_len: 64\nmicro_batch_size: 1\n"
           f"gradient_accumulation_steps: 3\nmax_steps: {options.steps}\nlearning_rate: 1e-3\nlogging_steps: 1\nsave_steps: 2\n")


def last_step(out):
    lines = runs.metrics(out)
    return lines[-1]["step"] if lines else 0


began = time.time()
runs.alone("net.yml", "alone")
a_step = (time.time() - began) / options.steps
expected = runs.sha256("alone", "adapter.gguf")
part = options.steps / options.kills
killed = []
for i in range(options.kills):
    moment = max(1, min(options.steps - 1, int(part * i + random.random() * part)))
    run = runs.start("net.yml", "killed")
    try:
        while last_step("killed") < moment:
            assert run.process.poll() is None, f"ended before step {moment}: {run.text()}"
            time.sleep(a_step / 20)
        time.sleep(random.random() * a_step)
        assert run.process.poll() is None, f"ended before it was killed at step {moment}: {run.text()}"
        killed.append(last_step("killed"))
    finally:
        run.kill()
runs.alone("net.yml", "killed")
assert last_step("killed") == options.steps, last_step("killed")
found = runs.sha256("killed", "adapter.gguf")
assert found == expected, f"killed after steps {killed}: {found} instead of {expected}"
assert killed[-1] > options.steps / 2 and killed[0] <= part + 1, killed
print(f"killed after steps {', '.join(map(str, killed))} of {options.steps}: the adapter of an undisturbed run, {expected[:16]}")
