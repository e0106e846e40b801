#!/usr/bin/env python3
"""A node that has no copy of the base model fetches it from who leads, and the adapter has the bytes of one machine.

train_fetch_test.py PROGRAM WORK

The second node sees an empty folder where the model is, by a mount of its own: needs root, and is skipped without.
"""
import argparse
import json
import os
import socket
import subprocess

from harness import Process, machine_env, skip, write_capabilities
from train_runs import TrainRuns, finish

parser = argparse.ArgumentParser()
parser.add_argument("program")
parser.add_argument("work")
options = parser.parse_args()
runs = TrainRuns(options.program, options.work)
WORK = runs.work
HIDDEN = ["unshare", "-m", "bash", "-c", f'mount -t tmpfs none {WORK}/models && exec "$@"', "node"]


def main():
    os.makedirs(f"{WORK}/models")
    if subprocess.run([*HIDDEN, "true"], capture_output=True).returncode != 0:
        skip("mounts of one's own are not allowed here")
    runs.program("make-model", f"{WORK}/models/base.gguf", "--type", "Q8_0", "--dim", "128", "--hidden", "256", "--layers", "4", "--heads", "4",
                 "--vocab", "600", "--context", "64")
    runs.write("text.txt", "a few words of some text, again and again. " * 400)
    runs.write("net.yml", "base_model: models/base.gguf\ndatasets: [text.txt]\nadapter: lora\nlora_r: 4\nsequence_len: 32\nmicro_batch_size: 1\n"
               "gradient_accumulation_steps: 4\nmax_steps: 12\nlearning_rate: 1e-3\n")
    runs.alone("net.yml", "alone")
    capabilities = write_capabilities(options.program, f"{WORK}/capabilities.json")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"

    def ask(*words):
        result = subprocess.run([options.program, *words], env=machine_env(WORK, "machine-a", capabilities), capture_output=True, text=True, timeout=60)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    token = ask("init", "--name", "a", "--address", "127.0.0.1", "--json")["token"]
    first = True
    for out, more in (("data", []), ("stages", ["--pipeline_stages", "2"])):
        run = Process(runs.words("net.yml", out, "--cluster", "--nodes", "2", "--cluster-listen", address, *more),
                      machine_env(WORK, "machine-a", capabilities))
        words = [options.program, "join", address, "--name", "b", "-t", "1", "--log-level", "info"] + (["--token", token] if first else [])
        node = Process(words, machine_env(WORK, "machine-b", capabilities), before=HIDDEN)
        first = False
        try:
            finish(run)
            text = node.text()
        finally:
            for process in (node, run):
                if process.process.poll() is None:
                    process.kill()
        assert runs.sha256(out, "adapter.gguf") == runs.sha256("alone", "adapter.gguf"), run.text()
        shares = {node["name"]: node["micro_batches"] for node in runs.status(out)["nodes"]}
        print(f"{out}: the adapter of one machine; micro-batches {shares}")
        assert out == "stages" or shares["b"] > 0, shares
        assert out == "stages" or "fetched" in text, text


main()
