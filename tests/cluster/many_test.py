#!/usr/bin/env python3
"""A cluster of many processes: machines of their own that join, fetch their layers and serve; then several are killed, one after
another, while a stream runs. Small model, on loopback, with real TLS.

    many_test.py BUTTERFLY WORK_FOLDER [--nodes 32] [--kills 10]

Prints the time from the last join to service, from each kill to the next token, and what the coordinator's process takes. Judged are
tokens, ends of processes, and that threads and descriptors do not grow with kills.
"""
import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import threading
import time

from harness import PROMPTS, Process, Server, machine_env, make_model, unfailed_stream, write_capabilities

TOKENS = 200


def usage(pid):
    """Threads, descriptors and MiB of a process."""
    status = dict(line.split(":", 1) for line in open(f"/proc/{pid}/status"))
    return {"threads": int(status["Threads"]), "files": len(os.listdir(f"/proc/{pid}/fd")),
            "MiB": int(status["VmRSS"].split()[0]) // 1024}


class Cluster:
    def __init__(self, options):
        self.butterfly, self.work = options.butterfly, options.work
        shutil.rmtree(self.work, ignore_errors=True)
        os.makedirs(f"{self.work}/model")
        self.capabilities = write_capabilities(self.butterfly, f"{self.work}/capabilities.json")
        # A layer for every node, and some.
        self.model = make_model(self.butterfly, f"{self.work}/model/model.gguf", "--layers", str(options.nodes + 8), "--dim", "64",
                                "--hidden", "128", "--heads", "4")
        self.flags = ["-m", self.model, "-c", "512"]
        self.nodes = {}

    def machine(self, name):
        return machine_env(self.work, name, self.capabilities)

    def run(self, *words):
        done = subprocess.run([self.butterfly, *words], env=self.machine("a"), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(self):
        self.run("init", "--name", "a", "--address", "127.0.0.1", "--json")
        self.server = Server(self.butterfly, self.work,
                             [*self.flags, "-t", "1", "--cluster", "--cluster-listen", "127.0.0.1:0", "--strategy", "uniform"],
                             name="a", env=self.machine("a"))
        self.address = next(n["address"] for n in self.server.cluster()["nodes"] if n["name"] == "a")

    def join(self, name):
        token = json.loads(self.run("token", "new", "--address", self.address, "--json"))["token"]
        self.nodes[name] = Process([self.butterfly, "join", self.address, "--token", token, "--name", name, "-t", "1"],
                                   env=self.machine(name))

    def end(self):
        for node in self.nodes.values():
            node.process.terminate()
        for node in self.nodes.values():
            node.end()
        assert self.server.end() == 0, self.server.text()


def streamed(cluster, expected, during):
    """One stream; when it has some tokens, during() happens. The longest time without a token."""
    begun, times, errors = threading.Event(), [], []

    def on_token(count):
        times.append(time.monotonic())
        if count == 20:
            begun.set()

    def one():
        try:
            got = cluster.server.stream(PROMPTS[0], TOKENS, on_token, temperature=0)
            assert got == expected, f"other tokens: {got[:5]} ..."
        except BaseException as error:  # noqa: B902, it is told below
            errors.append(error)
        begun.set()

    thread = threading.Thread(target=one)
    thread.start()
    assert begun.wait(300), cluster.server.text()
    during()
    thread.join(300)
    assert not thread.is_alive(), cluster.server.text()
    assert not errors, f"{errors[0]}\n{cluster.server.text()}"
    return max(b - a for a, b in zip(times, times[1:]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("butterfly")
    parser.add_argument("work")
    parser.add_argument("--nodes", type=int, default=32)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=3)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    cluster = Cluster(options)
    expected = unfailed_stream(options.butterfly, options.work, cluster.flags, tokens=TOKENS)
    cluster.start()
    try:
        began = time.monotonic()
        for i in range(1, options.nodes):
            cluster.join(f"n{i}")
        for node in cluster.nodes.values():
            node.wait_for("works for", seconds=600)
        joined = time.monotonic()
        cluster.server.wait_serving(options.nodes, seconds=600)
        print(f"{options.nodes} nodes: all joined after {joined - began:.1f} s, serving on all {time.monotonic() - joined:.1f} s later")
        quiet = streamed(cluster, expected, lambda: None)
        before = usage(cluster.server.pid)
        print(f"coordinator while serving: {before}; longest gap between tokens without a kill {quiet:.2f} s")

        pauses = []
        for count in range(1, options.kills + 1):
            name = rng.choice(sorted(cluster.nodes))
            gap = streamed(cluster, expected, cluster.nodes.pop(name).kill)
            cluster.server.wait_serving(options.nodes - count, seconds=300)
            pauses.append(gap)
            print(f"{name} killed: the same tokens, the longest gap {gap:.2f} s", flush=True)
        after = usage(cluster.server.pid)
        print(f"coordinator after {options.kills} kills: {after}")
        if pauses:
            print(f"pause: median {statistics.median(pauses):.2f} s, worst {max(pauses):.2f} s")
        assert after["threads"] <= before["threads"] and after["files"] <= before["files"], f"it grew: {before} -> {after}"
        for name, node in cluster.nodes.items():
            assert node.process.poll() is None, f"{name} ended:\n{node.text()}"
    finally:
        cluster.end()


main()
