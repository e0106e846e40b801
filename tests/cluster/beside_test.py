#!/usr/bin/env python3
"""A training run beside models that are served, on one cluster and within one memory: streams have the bits of one machine, and
so has the trained model, also where a node is lost under both. A model that needs the memory of the run gets it; the run
rests, and goes on when there is room again.

    beside_test.py BUTTERFLY WORK_FOLDER [STEPS]
"""
import json
import os
import signal
import subprocess
import sys
import time

from harness import PROMPTS, START_MAX_S, Server, machine_env, make_model, write_capabilities
from train_runs import TrainRuns

BUTTERFLY, STEPS = os.path.abspath(sys.argv[1]), int(sys.argv[3]) if len(sys.argv) > 3 else 150
runs = TrainRuns(BUTTERFLY, sys.argv[2])
WORK, TOKENS = runs.work, 120
ONE = make_model(BUTTERFLY, f"{WORK}/one.gguf", "--layers", "8", "--dim", "128", "--hidden", "256", "--heads", "4")
TWO = make_model(BUTTERFLY, f"{WORK}/two.gguf", "--layers", "6", "--dim", "192", "--hidden", "320", "--heads", "6")
FLAGS = ["-m", f"one={ONE}", "-c", "512", "-t", "1"]
TRAINING = 33
runs.program("make-corpus", f"{WORK}/corpus", "--items", "300", "--valid", "10", "--questions", "5")
runs.program("train-tokenizer", "-o", f"{WORK}/t.gguf", "--vocab", "320", f"{WORK}/corpus/train.jsonl")


def write_config(name, out):
    runs.write(name, "tokenizer: t.gguf\ndatasets: [corpus/train.jsonl]\nmodel:\n  model_type: gpt2\n  hidden_size: 128\n"
               "  intermediate_size: 512\n  num_hidden_layers: 2\n  num_attention_heads: 4\n  max_position_embeddings: 64\n"
               f"sequence_len: 64\nmicro_batch_size: 1\ngradient_accumulation_steps: 4\nmax_steps: {STEPS}\nlearning_rate: 1e-3\n"
               f"export_type: F32\nsave_steps: 25\nthreads: 1\noutput_dir: {WORK}/{out}\n")
    return f"{WORK}/{name}"


def wait(what, words, server, seconds=START_MAX_S):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, f"not {words} after {seconds} s: {json.dumps(server.cluster())[:3000]}\n{server.text()}"
        time.sleep(0.05)


def job(server, number):
    return next((row for row in server.cluster()["jobs"] if row["job"] == number), None)


def trains_on(server, nodes):
    row = job(server, TRAINING)
    return row is not None and row["serving"] and len(row["stages"]) == nodes


config = write_config("alone.yml", "alone")
subprocess.run([BUTTERFLY, "train", config], env=runs.env, check=True, capture_output=True, timeout=900)
expected_model = runs.sha256("alone")
plain = Server(BUTTERFLY, WORK, [*FLAGS, "-m", f"two={TWO}"], name="plain")
try:
    expected = {name: plain.stream(PROMPTS[0], TOKENS, temperature=0, model=name) for name in ("one", "two")}
finally:
    plain.end()

# Three processes: the run is on all of them, one of the others is lost in the middle.
server = Server(BUTTERFLY, WORK, [*FLAGS, "--local-nodes", "3", "--train", write_config("beside.yml", "beside")])
try:
    wait(lambda: trains_on(server, 3), "trained on 3 nodes", server)
    wait(lambda: runs.steps_done("beside") > 0, "at its first step", server)
    found = server.stream(PROMPTS[0], TOKENS, lambda n: n == 20 and os.kill(server.workers()[0], signal.SIGKILL), temperature=0)
    assert found == expected["one"], f"beside training: other tokens: {found[:5]}"
    wait(lambda: job(server, TRAINING) is None, "at the end of the run", server, 600)
    assert runs.sha256("beside") == expected_model, "beside a model: other weights\n" + server.text()
    took_part = [line for line in server.lines if "takes part" in line]
    assert took_part, "no other node took part\n" + server.text()
    assert server.stream(PROMPTS[0], TOKENS, temperature=0) == expected["one"]
finally:
    assert server.end() == 0, server.text()
print(f"{STEPS} steps beside a model on 3 nodes, one killed: same tokens, same weights; {len(took_part)} times a node came in")

# One machine whose memory holds a model and the run, or both models.
env = machine_env(WORK, "a", write_capabilities(BUTTERFLY, f"{WORK}/capabilities.json"))
subprocess.run([BUTTERFLY, "init", "--name", "a", "--address", "127.0.0.1"], env=env, check=True, capture_output=True)


def serve(*more):
    return Server(BUTTERFLY, WORK, [*FLAGS, "--cluster", "--cluster-listen", "127.0.0.1:0", *more], name="a", env=env)


def bytes_of(server, number):
    return sum(row["layers"]["bytes"] for node in server.cluster()["nodes"] for row in node["jobs"]
               if row["job"] == number and "layers" in row)


def manage(server, *words):
    return subprocess.run([BUTTERFLY, *words, "--management", server.socket], env=env, capture_output=True, text=True, timeout=300)


server = serve("-m", f"two={TWO}", "--train", write_config("sizes.yml", "sizes"))
try:
    wait(lambda: trains_on(server, 1) and job(server, 2)["serving"], "all three at once", server)
    sizes = {number: bytes_of(server, number) for number in (1, 2, TRAINING)}
finally:
    assert server.end() == 0, server.text()
ACTIVATIONS = 7 << 20  # of both models, and what plans leave free: sizes are of weights and cache
assert sizes[TRAINING] > ACTIVATIONS + (1 << 20), sizes
memory = sizes[1] + sizes[2] + ACTIVATIONS
server = serve("--memory", str(memory), "--train", write_config("rests.yml", "rests"))
try:
    wait(lambda: trains_on(server, 1) and runs.steps_done("rests") > 0, "trained", server)
    done = manage(server, "load", f"two={TWO}")
    assert done.returncode == 0, done.stderr + server.text()
    wait(lambda: (job(server, 2) or {}).get("serving"), "serving the second", server)
    assert not job(server, TRAINING)["serving"], job(server, TRAINING)
    server.wait_for(r"training: rests at step \d+")
    steps = runs.steps_done("rests")
    for name in ("one", "two"):
        assert server.stream(PROMPTS[0], TOKENS, temperature=0, model=name) == expected[name], name
    assert runs.steps_done("rests") == steps, "it has no memory, and trains"
    done = manage(server, "unload", "two")
    assert done.returncode == 0, done.stderr
    wait(lambda: job(server, TRAINING) is None, "at the end of the run", server, 600)
    assert runs.sha256("rests") == expected_model, "after a rest: other weights\n" + server.text()
finally:
    assert server.end() == 0, server.text()
print(f"within {memory >> 10} KiB ({ {k: v >> 10 for k, v in sizes.items()} }): the run rested at step {steps} of {STEPS}, same weights")
