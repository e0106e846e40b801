#!/usr/bin/env python3
"""A network whose training fits no node's memory trains on three, each in a control group with its limit: the file of one machine.

train_memory_test.py PROGRAM WORK [--steps S] [--adapter]

With --adapter a quantised model that fits no node stays as it is, and an adapter beside it learns.

Needs root and control groups with memory limits; skipped without.
"""
import argparse
import json
import socket
import subprocess

from harness import Process, machine_env, skip, write_capabilities
from memory_groups import MemoryGroups
from train_runs import TrainRuns, finish

parser = argparse.ArgumentParser()
parser.add_argument("program")
parser.add_argument("work")
parser.add_argument("--steps", type=int, default=4)
parser.add_argument("--adapter", action="store_true")
options = parser.parse_args()
runs = TrainRuns(options.program, options.work)
WORK = runs.work
GROUPS = MemoryGroups(176 << 20)
RESULT = "adapter.gguf" if options.adapter else "model.gguf"


def prepare_adapter():
    runs.program("make-model", f"{WORK}/base.gguf", "--type", "Q8_0", "--dim", "1024", "--hidden", "2816", "--layers", "14", "--heads", "16",
                 "--vocab", "4096", "--context", "64")
    runs.write("text.txt", "a few words of some text, again and again. " * 400)
    runs.write("net.yml", "base_model: base.gguf\ndatasets: [text.txt]\nadapter: lora\nlora_r: 8\nsequence_len: 32\nmicro_batch_size: 1\n"
               f"gradient_accumulation_steps: 4\nmax_steps: {options.steps}\nlearning_rate: 1e-3\n")


def prepare():
    runs.program("make-corpus", f"{WORK}/corpus", "--items", "300", "--valid", "10", "--questions", "5")
    runs.program("train-tokenizer", "-o", f"{WORK}/t.gguf", "--vocab", "320", f"{WORK}/corpus/train.jsonl")
    runs.write("net.yml", "tokenizer: t.gguf\ndatasets: [corpus/train.jsonl]\nmodel:\n  model_type: llama\n  hidden_size: 256\n"
               "  intermediate_size: 1024\n  num_hidden_layers: 9\n  num_attention_heads: 4\n  max_position_embeddings: 64\n"
               f"sequence_len: 64\nmicro_batch_size: 1\ngradient_accumulation_steps: 8\nmax_steps: {options.steps}\n"
               "learning_rate: 1e-3\nexport_type: F32\n")


def main():
    befores = [GROUPS.make(name) for name in "abc"]
    if None in befores:
        skip("control groups with memory limits are not allowed here")
    prepare_adapter() if options.adapter else prepare()
    runs.alone("net.yml", "alone")
    capabilities = write_capabilities(options.program, f"{WORK}/capabilities.json")

    def machine(name):
        return machine_env(WORK, f"machine-{name}", capabilities)

    def ask(*words):
        result = subprocess.run([options.program, *words], env=machine("a"), capture_output=True, text=True, timeout=60)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    tokens = [ask("init", "--name", "a", "--address", "127.0.0.1", "--json")["token"],
              ask("token", "new", "--address", address, "--json")["token"]]
    words = runs.words("net.yml", "three", "--cluster", "--nodes", "1", "--cluster-listen", address, "--pipeline_stages", "3")
    run = Process(words, machine("a"), before=befores[0])
    nodes = []
    try:
        refused = run.wait_for(r"too little memory: .*")
        print("one node:", refused[0])
        for name, before, token in zip("bc", befores[1:], tokens):
            nodes.append(Process([options.program, "join", address, "--token", token, "--name", name, "-t", "1"], machine(name), before=before))
        finish(run)
    finally:
        for process in [*nodes, run]:
            if process.process.poll() is None:
                process.kill()
    assert runs.sha256("three", RESULT) == runs.sha256("alone", RESULT), run.text()
    print(f"three nodes of {GROUPS.limit >> 20} MiB: the same file; peaks: {GROUPS.peaks()}")


try:
    main()
finally:
    GROUPS.remove()
