#!/usr/bin/env python3
"""Two coordinators from one copied state folder, both up: nodes are led to one and to the other, again and again, under streams at both.
Every token that a client gets is right, and a node never goes back to who it left: the older one's orders are dropped.

    copied_test.py BUTTERFLY WORK_FOLDER [RUNS]
"""
import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "chaos"))
from faulty_proxy import FaultyProxy  # noqa: E402
from harness import PROMPTS, Process, Server, layers_of, machine_env, make_model, write_capabilities  # noqa: E402

BUTTERFLY, WORK = sys.argv[1], sys.argv[2]
RUNS = int(sys.argv[3]) if len(sys.argv) > 3 else 3
os.makedirs(WORK, exist_ok=True)
MODEL = make_model(BUTTERFLY, f"{WORK}/model.gguf", "--layers", "8", "--dim", "128", "--hidden", "256", "--heads", "4")
CAPABILITIES = write_capabilities(BUTTERFLY, f"{WORK}/capabilities.json")
TOKENS = 100


def machine(name):
    return machine_env(WORK, name, CAPABILITIES)


def lead_to(proxy, target):
    """Whoever was connected has to connect again."""
    proxy.retarget(target)
    proxy.cut()


def serve(name):
    server = Server(BUTTERFLY, WORK, ["-m", MODEL, "-c", "512", "-t", "1", "--cluster", "--cluster-listen", "127.0.0.1:0", "--strategy",
                                      "uniform", "--no-discovery"], name=name, env=machine(name))
    return server, server.cluster()["nodes"][0]["address"]


class Streams(threading.Thread):
    """Asks one server again and again; whatever comes must be right."""

    def __init__(self, server, expected):
        super().__init__()
        self.server, self.expected, self.whole, self.refused, self.wrong, self.ended = server, expected, 0, 0, None, False
        self.start()

    def run(self):
        while not self.ended and self.wrong is None:
            try:
                got = self.server.stream(PROMPTS[0], TOKENS, temperature=0.8, seed=3)
            except AssertionError as error:  # 503: no node, and in words
                if "error" not in str(error) and "503" not in str(error):
                    self.wrong = str(error)
                self.refused += 1
                time.sleep(0.1)
                continue
            if got != self.expected:
                self.wrong = f"{len(got)} tokens, first difference at {next((i for i, (a, b) in enumerate(zip(got, self.expected)) if a != b), None)}"
            self.whole += 1
            time.sleep(0.05)  # others of the suite compute beside it


plain = Server(BUTTERFLY, WORK, ["-m", MODEL, "-c", "512", "-t", "1"], name="plain")
try:
    expected = plain.stream(PROMPTS[0], TOKENS, temperature=0.8, seed=3)
finally:
    plain.end()

random.seed(9)
whole = switched = dropped = 0
for run in range(RUNS):
    for name in ("a", "copy", "b", "c"):
        shutil.rmtree(f"{WORK}/{name}", ignore_errors=True)
    subprocess.run([BUTTERFLY, "init", "--name", "a", "--address", "127.0.0.1", "--json"], env=machine("a"), check=True, capture_output=True)
    first, at_first = serve("a")
    second, nodes, streams = None, [], []
    switch = FaultyProxy(at_first)
    try:
        for name in "bc":
            token = json.loads(subprocess.run([BUTTERFLY, "token", "new", "--address", switch.address, "--json"], env=machine("a"),
                                              check=True, capture_output=True).stdout)["token"]
            nodes.append(Process([BUTTERFLY, "join", switch.address, "--token", token, "--name", name, "-t", "1"], env=machine(name)))
        first.wait_serving(3)
        shutil.copytree(f"{WORK}/a", f"{WORK}/copy", ignore=shutil.ignore_patterns("*.sock", "butterfly-*"))
        second, at_second = serve("copy")
        streams = [Streams(server, expected) for server in (first, second) for _ in range(2)]
        for turn in range(3):
            time.sleep(random.uniform(0.2, 1.5))
            lead_to(switch, at_second if turn % 2 == 0 else at_first)
            switched += 1
        lead_to(switch, at_second)
        second.wait_serving(3)
        # The nodes stay with the newer one, wherever they are led.
        lead_to(switch, at_first)
        time.sleep(1.5)
        assert all(layers_of(n) is None or n["name"] == "a" for n in first.cluster()["nodes"]), first.cluster()["nodes"]
        dropped += sum("older coordinator" in line for node in nodes for line in node.lines)
        lead_to(switch, at_second)
        second.wait_serving(3)
    finally:
        for one in streams:
            one.ended = True
        for one in streams:
            one.join(120)
        switch.end()
        for process in [*nodes, first, *([second] if second else [])]:
            process.end()
    for one in streams:
        assert one.wrong is None, one.wrong
        whole += one.whole
assert whole > 0 and dropped > 0, (whole, dropped)
print(f"{RUNS} runs with two coordinators of one state folder, nodes led from one to the other {switched} times: {whole} streams, "
      f"none wrong; the older one was turned away {dropped} times")
