#!/usr/bin/env python3
"""Training as ranks of an MPI job: the model file of one machine, byte for byte.

train_mpi_test.py PROGRAM WORK [--steps S] [--ranks 2,4] [--mpi 0|1]

A small GPT and a convolutional network on so many ranks each, and the GPT in three stages.

Needs mpirun and a program built with it; skipped without.
"""
import argparse
import os
import shutil

from harness import Process, skip, write_capabilities
from train_runs import TrainRuns, finish, write_images

parser = argparse.ArgumentParser()
parser.add_argument("program")
parser.add_argument("work")
parser.add_argument("--steps", type=int, default=8)
parser.add_argument("--ranks", default="2,4")
parser.add_argument("--mpi", default="1", help="0: the program is built without")
options = parser.parse_args()
if options.mpi == "0":
    skip("the program is built without Open MPI")
if shutil.which("mpirun") is None:
    skip("mpirun is not here: ./scripts/deps.sh mpi")
runs = TrainRuns(options.program, options.work)
WORK = runs.work
# More ranks than CPUs, as root in a container: only a test needs these.
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
ENV = dict(runs.env, BUTTERFLY_CAPABILITIES=os.path.abspath(write_capabilities(options.program, f"{WORK}/capabilities.json")))

runs.program("make-corpus", f"{WORK}/corpus", "--items", "300", "--valid", "10", "--questions", "5")
runs.program("train-tokenizer", "-o", f"{WORK}/t.gguf", "--vocab", "320", f"{WORK}/corpus/train.jsonl")
runs.write("net.yml", "tokenizer: t.gguf\ndatasets: [corpus/train.jsonl]\nmodel:\n  model_type: gpt2\n  hidden_size: 160\n"
           "  intermediate_size: 640\n  num_hidden_layers: 4\n  num_attention_heads: 4\n  max_position_embeddings: 64\n"
           f"sequence_len: 64\nmicro_batch_size: 1\ngradient_accumulation_steps: 8\nmax_steps: {options.steps}\ndropout: 0.1\n"
           "learning_rate: 1e-3\nexport_type: F32\n")
write_images(runs, 800)
runs.write("cnn.toml", "input = [8, 8, 1]\n[[layer]]\ntype = 'conv2d'\nout = 8\nkernel = 3\n[[layer]]\ntype = 'relu'\n[[layer]]\ntype = 'linear'\nout = 4\n")
runs.write("cnn.yml", "model:\n  network: cnn.toml\ndatasets: some-images-idx3-ubyte\nmicro_batch_size: 8\ngradient_accumulation_steps: 6\n"
           f"max_steps: {options.steps}\nlearning_rate: 1e-2\n")
RANKS = [int(ranks) for ranks in options.ranks.split(",")]
for config, ranks, more in [*(("net", r, ()) for r in RANKS), *(("cnn", r, ()) for r in RANKS), ("net", 3, ("--pipeline_stages", "3"))]:
    if not os.path.exists(f"{WORK}/{config}"):
        runs.alone(f"{config}.yml", config)
    out = f"{config}-{ranks}-{len(more)}"
    run = Process(runs.words(f"{config}.yml", out, *more), ENV, before=[*MPIRUN, "-n", str(ranks)])
    finish(run)
    assert runs.sha256(out) == runs.sha256(config), run.text()
    status = runs.status(out)
    assert len(status["nodes"]) == ranks and status["step"] == options.steps, status
    print(f"{config} on {ranks} ranks {' '.join(more)}: {runs.sha256(out)[:16]}")
