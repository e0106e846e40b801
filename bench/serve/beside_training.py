#!/usr/bin/env python3
"""Gaps between the tokens of streams, without and with a training run beside them, in turns; and how far the run came.

    beside_training.py BUTTERFLY WORK [--nodes N] [--streams 1] [--tokens 400] [--rounds 3]

A server of N local nodes (1: none but itself) and a random model of some 60 M weights; `serve --train` of a small GPT for the second of each pair.
Prints p50, p99 and the largest gap in ms over all streams of all rounds, tokens/s, and steps of the run while streams ran and while none did.
"""
import argparse
import json
import os
import statistics
import sys
import threading
import time
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tests" / "cluster"))
from harness import Server, make_model, write_capabilities  # noqa: E402,F401
from train_runs import TrainRuns  # noqa: E402

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("butterfly")
parser.add_argument("work")
parser.add_argument("--nodes", type=int, default=2)
parser.add_argument("--streams", type=int, default=1)
parser.add_argument("--tokens", type=int, default=400)
parser.add_argument("--rounds", type=int, default=3)
options = parser.parse_args()
BUTTERFLY = os.path.abspath(options.butterfly)
runs = TrainRuns(BUTTERFLY, options.work)
WORK = runs.work
MODEL = make_model(BUTTERFLY, f"{WORK}/m.gguf", "--layers", "12", "--dim", "512", "--hidden", "1536", "--heads", "8")
runs.program("make-corpus", f"{WORK}/corpus", "--items", "300", "--valid", "10", "--questions", "5")
runs.program("train-tokenizer", "-o", f"{WORK}/t.gguf", "--vocab", "320", f"{WORK}/corpus/train.jsonl")


def config(name):
    runs.write(f"{name}.yml", "tokenizer: t.gguf\ndatasets: [corpus/train.jsonl]\nmodel:\n  model_type: gpt2\n  hidden_size: 256\n"
               "  intermediate_size: 1024\n  num_hidden_layers: 4\n  num_attention_heads: 4\n  max_position_embeddings: 64\nsequence_len: 64\n"
               f"micro_batch_size: 1\ngradient_accumulation_steps: 4\nmax_steps: 100000\nsave_steps: 0\nthreads: 1\noutput_dir: {WORK}/{name}\n")
    return f"{WORK}/{name}.yml"


def stream(port, gaps, totals):
    body = json.dumps({"prompt": "Once upon a time", "max_tokens": options.tokens, "temperature": 0, "stream": True, "ignore_eos": True}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/completions", body, {"Content-Type": "application/json"})
    last, first = None, None
    with urllib.request.urlopen(request, timeout=600) as answer:
        for line in answer:
            if not line.startswith(b"data: {"):
                continue
            now = time.monotonic()
            if last is not None:
                gaps.append(now - last)
            first, last = first or now, now
    totals.append(last - first)


def one_round(name, training, gaps, totals, steps):
    out = f"run-{name}"
    flags = ["-m", MODEL, "-c", "2048", "-t", "1" if options.nodes > 1 else "2"]
    flags += ["--local-nodes", str(options.nodes)] if options.nodes > 1 else []
    server = Server(BUTTERFLY, WORK, [*flags, *(["--train", config(out)] if training else [])], name=name)
    try:
        stream(server.port, [], [])  # brings everything up
        end = time.monotonic() + 60
        while training and runs.steps_done(out) < 3 and time.monotonic() < end:
            time.sleep(0.1)
        before, began = runs.steps_done(out), time.monotonic()
        threads = [threading.Thread(target=stream, args=(server.port, gaps, totals)) for _ in range(options.streams)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        middle, half = runs.steps_done(out), time.monotonic()
        if training:
            time.sleep(5)
            steps.append(((middle - before) / (half - began), (runs.steps_done(out) - middle) / (time.monotonic() - half)))
    finally:
        server.end()


figures = {False: ([], [], []), True: ([], [], [])}
for i in range(options.rounds):
    for training in (False, True):
        one_round(f"{i}-{int(training)}", training, *figures[training])
print("| training | p50 | p99 | largest | tokens/s of a stream | steps/s of the run beside streams, alone |\n| --- | --- | --- | --- | --- | --- |")
for training, (gaps, totals, steps) in figures.items():
    gaps.sort()
    beside = ", ".join(f"{a:.1f} / {b:.1f}" for a, b in steps)
    print(f"| {'yes' if training else 'no'} | {1e3 * statistics.median(gaps):.2f} ms | {1e3 * gaps[int(0.99 * len(gaps))]:.2f} ms | {1e3 * gaps[-1]:.1f} ms | "
          f"{(options.tokens - 1) / statistics.mean(totals):.1f} | {beside} |")
