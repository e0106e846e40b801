#!/usr/bin/env python3
"""Clocks that jump: the time of day of coordinator and nodes is set forth and back by minutes and days, each on its own, under streams.

    clock_test.py BUTTERFLY WORK_FOLDER
"""
import json
import os
import random
import shutil
import subprocess
import sys
import time

from harness import PROMPTS, SMALL, Process, Server, machine_env, make_model, skip, write_capabilities
from resuming import SETTINGS, ResumingClient, check_all

BUTTERFLY, WORK = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
os.makedirs(WORK, exist_ok=True)
SHIM = f"{WORK}/other_time.so"
source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../failures/other_time.c")
if subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-O1", source, "-o", SHIM]).returncode != 0:
    skip("no C compiler")
MODEL = make_model(BUTTERFLY, f"{WORK}/model.gguf", *SMALL)
CAPABILITIES = write_capabilities(BUTTERFLY, f"{WORK}/capabilities.json")
TOKENS = 150


def machine(name):
    return machine_env(WORK, name, CAPABILITIES)


def moved(name):
    return machine(name) | {"LD_PRELOAD": SHIM, "OTHER_TIME": f"{WORK}/time-{name}"}


def jump(name, seconds):
    with open(f"{WORK}/time-{name}.new", "w") as out:
        out.write(str(seconds))
    os.rename(f"{WORK}/time-{name}.new", f"{WORK}/time-{name}")


plain = Server(BUTTERFLY, WORK, ["-m", MODEL, "-c", "512", "-t", "1"], name="plain")
try:
    expected = [plain.stream(PROMPTS[i % 2], TOKENS, **SETTINGS[i]) for i in range(4)]
finally:
    plain.end()
for name in "abc":
    shutil.rmtree(f"{WORK}/{name}", ignore_errors=True)
    jump(name, 0)
subprocess.run([BUTTERFLY, "init", "--name", "a", "--address", "127.0.0.1", "--json"], env=machine("a"), check=True, capture_output=True)
server = Server(BUTTERFLY, WORK, ["-m", MODEL, "-c", "512", "-t", "1", "--cluster", "--cluster-listen", "127.0.0.1:0", "--strategy", "uniform", "--journal",
                                  f"{WORK}/a/journal"], name="a", env=moved("a"))
nodes = []
try:
    address = server.cluster()["nodes"][0]["address"]
    for name in "bc":
        token = json.loads(subprocess.run([BUTTERFLY, "token", "new", "--address", address, "--json"], env=machine("a"), check=True,
                                          capture_output=True).stdout)["token"]
        nodes.append(Process([BUTTERFLY, "join", address, "--token", token, "--name", name, "-t", "1"], env=moved(name)))
    plan = server.wait_serving(3)["jobs"][0]["plan"]
    random.seed(2)
    jumps = 0
    for _ in range(5):
        clients = [ResumingClient(i, TOKENS, lambda: [server]) for i in range(4)]
        while any(client.thread.is_alive() for client in clients):
            jump(random.choice("abc"), random.choice([-86400, -600, -5, 0, 5, 600, 86400, 30 * 86400]))
            jumps += 1
            time.sleep(0.05)
        check_all(clients, expected, server.text)
    state = server.cluster()
    assert state["serving"] and len(state["nodes"]) == 3 and all(n["state"] == "up" for n in state["nodes"]), state["nodes"]
    assert state["jobs"][0]["plan"] == plan, "nobody was lost for a clock"
    print(f"{jumps} jumps of clocks under 20 streams: all right, no new plan")
finally:
    for node in nodes:
        node.end()
    server.end()
