#!/usr/bin/env python3
"""Layers of one network on several processes of this machine, with real TLS: the model file of one machine, byte for byte.

train_pipeline_test.py PROGRAM WORK [--steps S]

Runs with two and three stages, with and without a head that shares the embedding's table; one whose stage is killed in the
middle; one whose leader is killed and started again; where control groups can be made, one that no node has memory for.
"""
import argparse
import os
import random
import signal
import time

from train_runs import TrainRuns, children, finish

parser = argparse.ArgumentParser()
parser.add_argument("program")
parser.add_argument("work")
parser.add_argument("--steps", type=int, default=24)
options = parser.parse_args()
runs = TrainRuns(options.program, options.work)
WORK = runs.work
random.seed(1)


def prepare():
    runs.program("make-corpus", f"{WORK}/corpus", "--items", "300", "--valid", "10", "--questions", "5")
    runs.program("train-tokenizer", "-o", f"{WORK}/t.gguf", "--vocab", "320", f"{WORK}/corpus/train.jsonl")
    for name, model, tied in (("tied", "gpt2", "true"), ("free", "llama", "false")):
        runs.write(f"{name}.yml", f"tokenizer: t.gguf\ndatasets: [corpus/train.jsonl]\nmodel:\n  model_type: {model}\n  hidden_size: 96\n"
                   "  intermediate_size: 384\n  num_hidden_layers: 4\n  num_attention_heads: 4\n  max_position_embeddings: 64\n"
                   f"  tie_word_embeddings: {tied}\nsequence_len: 64\nmicro_batch_size: 1\ngradient_accumulation_steps: 8\n"
                   f"max_steps: {options.steps}\ndropout: 0.1\nlearning_rate: 1e-3\nexport_type: F32\nsave_steps: 6\n")


def same_for_all_cuts():
    for name in ("tied", "free"):
        runs.alone(f"{name}.yml", name)
        for stages in (2, 3):
            more = ("--gradient_checkpointing", "true") if stages == 3 else ()
            run = runs.together(f"{name}.yml", f"{name}-{stages}", stages, "--pipeline_stages", str(stages), *more)
            assert runs.sha256(f"{name}-{stages}") == runs.sha256(name), f"{name} in {stages} stages:\n" + run.text()
            assert runs.metrics(f"{name}-{stages}")[-1]["loss"] == runs.metrics(name)[-1]["loss"]
        print(f"{name}: {runs.sha256(name)[:16]} in 1, 2 and 3 stages")


def stage_killed():
    """A stage is killed twice: all go back to the last snapshot, and the stage is started again."""
    run = runs.start("tied.yml", "kill", "--local-nodes", "3", "--pipeline_stages", "3", "--save_steps", "0")
    for at in (options.steps // 4, options.steps // 2):
        while run.process.poll() is None and runs.steps_done("kill") < at:
            time.sleep(0.01)
        os.kill(random.choice(children(run.pid)), signal.SIGKILL)
    finish(run)
    assert runs.sha256("kill") == runs.sha256("tied"), run.text()
    lost = [line for line in run.lines if "is lost at step" in line]
    assert lost, run.text()
    print(f"stages killed: the same file; {lost[-1]}")


def leader_killed():
    """The same command goes on from the checkpoint, with other stages or alone."""
    run = runs.start("free.yml", "leader", "--local-nodes", "3", "--pipeline_stages", "3")
    while run.process.poll() is None and runs.steps_done("leader") < options.steps * 2 // 3:
        time.sleep(0.01)
    run.kill()
    again = runs.start("free.yml", "leader", "--local-nodes", "2", "--pipeline_stages", "2", "--max_steps", str(options.steps))
    again.wait_for(r"goes on from step \d+")
    finish(again)
    assert runs.sha256("leader") == runs.sha256("free"), again.text()
    print("leader killed: the same file")


prepare()
same_for_all_cuts()
stage_killed()
leader_killed()
