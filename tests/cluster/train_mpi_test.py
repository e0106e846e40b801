#!/usr/bin/env python3
"""Training as ranks of an MPI job: the model file of one machine, byte for byte.

train_mpi_test.py PROGRAM WORK [--steps S] [--mpi 0|1]

Needs mpirun and a program built with it; skipped without.
"""
import argparse
import os
import shutil

from harness import Process, skip, write_capabilities
from train_runs import TrainRuns, finish

parser = argparse.ArgumentParser()
parser.add_argument("program")
parser.add_argument("work")
parser.add_argument("--steps", type=int, default=8)
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
runs.alone("net.yml", "alone")
for ranks, more in ((2, ()), (4, ()), (3, ("--pipeline_stages", "3"))):
    out = f"ranks-{ranks}"
    run = Process(runs.words("net.yml", out, *more), ENV, before=[*MPIRUN, "-n", str(ranks)])
    finish(run)
    assert runs.sha256(out) == runs.sha256("alone"), run.text()
    status = runs.status(out)
    assert len(status["nodes"]) == ranks and status["step"] == options.steps, status
    print(f"{ranks} ranks {' '.join(more)}: {runs.sha256(out)[:16]}")
