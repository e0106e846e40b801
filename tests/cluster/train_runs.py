"""Training runs of the program for tests: a folder of configs and outputs, and what can be read from them."""
import hashlib
import json
import os
import shutil
import struct
import subprocess

from harness import Process, machine_env


class TrainRuns:
    """Everything below the folder WORK, which is emptied first."""

    def __init__(self, program, work):
        self.program_file = program
        self.work = os.path.abspath(work)
        shutil.rmtree(self.work, ignore_errors=True)
        os.makedirs(self.work)
        self.env = machine_env(self.work, "home")

    def write(self, name, text, mode="w"):
        with open(f"{self.work}/{name}", mode) as out:
            out.write(text)

    def program(self, *words):
        result = subprocess.run([self.program_file, *words], env=self.env, capture_output=True, text=True, timeout=600)
        assert result.returncode == 0, f"{words}: {result.stderr[-2000:]}"
        return result

    def words(self, config, out, *more):
        return [self.program_file, "train", f"{self.work}/{config}", "--output_dir", f"{self.work}/{out}", "--threads", "1", *more]

    def alone(self, config, out, *more):
        subprocess.run(self.words(config, out, *more), env=self.env, check=True, capture_output=True, timeout=600)

    def start(self, config, out, *more, env=None):
        return Process(self.words(config, out, *more), env or self.env)

    def together(self, config, out, nodes, *more):
        run = self.start(config, out, "--local-nodes", str(nodes), *more)
        finish(run)
        return run

    def sha256(self, out, file="model.gguf"):
        with open(f"{self.work}/{out}/{file}", "rb") as model:
            return hashlib.sha256(model.read()).hexdigest()

    def metrics(self, out):
        try:
            with open(f"{self.work}/{out}/metrics.jsonl") as lines:
                return [json.loads(line) for line in lines]
        except FileNotFoundError:
            return []

    def steps_done(self, out):
        try:
            with open(f"{self.work}/{out}/metrics.jsonl") as lines:
                return sum(1 for _ in lines)
        except FileNotFoundError:
            return 0

    def status(self, out):
        return json.loads(self.program("train", "status", "--json", "--output_dir", f"{self.work}/{out}").stdout)


def write_images(runs, count):
    """Digits in the corners of a picture, as MNIST's files are."""
    rows = bytearray()
    for i in range(count):
        for p in range(64):
            rows.append((200 if (p // 32) * 2 + (p % 8) // 4 == i % 4 else 20) + (i * 7 + p * 13) % 50)
    runs.write("some-images-idx3-ubyte", struct.pack(">IIII", 0x803, count, 8, 8) + bytes(rows), "wb")
    runs.write("some-labels-idx1-ubyte", struct.pack(">II", 0x801, count) + bytes(i % 4 for i in range(count)), "wb")


def finish(process):
    """Waits for its end; the process prints nothing to stdout that is kept."""
    process.process.wait(timeout=900)
    assert process.process.returncode == 0, process.text()


def children(pid):
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/children") as row:
            found += [int(child) for child in row.read().split()]
    return found
