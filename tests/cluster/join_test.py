#!/usr/bin/env python3
"""Machines that join: keys, tokens, weights over the wire, leaving and coming back. On loopback, with real TLS.

    join_test.py BUTTERFLY WORK_FOLDER
"""
import json
import os
import re
import shutil
import subprocess
import sys
import time

from harness import PROMPTS, SMALL, Process, Server, machine_env, make_model, write_capabilities

BUTTERFLY, WORK = sys.argv[1], sys.argv[2]
shutil.rmtree(WORK, ignore_errors=True)
os.makedirs(WORK)
MODEL = make_model(BUTTERFLY, f"{WORK}/model/small.gguf", *SMALL) if os.makedirs(f"{WORK}/model") is None else None


CAPABILITIES = write_capabilities(BUTTERFLY, f"{WORK}/capabilities.json")


def machine(name):
    return machine_env(WORK, name, CAPABILITIES)


def run(name, *words):
    return subprocess.run([BUTTERFLY, *words], env=machine(name), capture_output=True, text=True)


def files_below(folder):
    return [os.path.join(at, file) for at, _, files in os.walk(folder) for file in files]


def join(name, *words):
    node = Process([BUTTERFLY, "join", *words], env=machine(name))
    node.wait_for("works for")
    return node


made = run("a", "init", "--name", "a", "--address", "127.0.0.1", "--json")
assert made.returncode == 0, made.stderr
made = json.loads(made.stdout)
for path in files_below(made["state"]):
    assert os.stat(path).st_mode & 0o077 == 0, f"others may look into {path}"

flags = ["-m", MODEL, "-c", "512", "-t", "1"]
plain = Server(BUTTERFLY, WORK, flags, name="plain", env=machine("plain"))
expected = plain.complete(PROMPTS[0], temperature=0)
plain.end()

server = Server(BUTTERFLY, WORK, [*flags, "--cluster", "--cluster-listen", "127.0.0.1:0", "--strategy", "uniform"],
                name="a", env=machine("a"))
address = [n for n in server.cluster()["nodes"] if n["name"] == "a"][0]["address"]
nodes = []
try:
    # Alone it serves the model itself.
    assert server.complete(PROMPTS[0], temperature=0) == expected

    # A second machine joins with the token of init, a third one with another; both get their layers over the wire.
    nodes.append(join("b", address, "--token", made["token"], "--name", "b", "-t", "1"))
    server.wait_serving(2)
    assert server.complete(PROMPTS[0], temperature=0) == expected, server.text()
    nodes[0].wait_for(r"fetched in \d+ chunks")
    print("two nodes: same bits, weights fetched")

    used = run("c", "join", address, "--token", made["token"], "--name", "c", "--enrol-only")
    assert used.returncode != 0, "a token for one node let in two"
    more = json.loads(run("a", "token", "new", "--address", address, "--json").stdout)
    nodes.append(join("c", address, "--token", more["token"], "--name", "c", "-t", "1"))
    server.wait_serving(3)
    assert server.complete(PROMPTS[0], temperature=0) == expected, server.text()
    print("three nodes: same bits; a token that was used lets nobody else in")

    # A node that ends and comes back knows where it belongs, and fetches nothing.
    assert nodes[0].end() == 0, nodes[0].text()
    server.wait_serving(2)
    assert server.complete(PROMPTS[1], temperature=0)
    nodes[0] = join("b", "-t", "1")
    server.wait_serving(3)
    assert server.complete(PROMPTS[0], temperature=0) == expected, server.text()
    assert not any("fetched in" in line for line in nodes[0].lines), nodes[0].text()
    print("a node came back: same bits, nothing fetched")

    # A node that is removed is out at once, and stays out.
    start = time.monotonic()
    removed = run("a", "node", "remove", "c", "--management", server.socket)
    assert removed.returncode == 0, removed.stderr
    assert nodes[1].process.wait(60) != 0, nodes[1].text()
    print(f"removed: its process ended after {time.monotonic() - start:.2f} s")
    server.wait_serving(2)
    assert server.complete(PROMPTS[0], temperature=0) == expected, server.text()
    again = join("c")
    nodes.append(again)
    again.wait_for("was removed from the cluster")  # its certificate is refused, and it does not stay for ever
    assert again.process.wait(60) != 0, again.text()
    states = {n["name"]: n["state"] for n in server.cluster()["nodes"]}
    assert states == {"a": "up", "b": "up", "c": "removed"}, states
    kinds = {event["kind"] for event in server.cluster()["events"]}
    assert {"joined", "serving", "left", "returned", "removed"} <= kinds, kinds
finally:
    for node in nodes:
        if node.process.poll() is None:
            node.end()
    status = server.end()
assert status == 0, server.text()

# Two nodes that only together have the memory: without the other one requests end with figures, with it they are served.
small = ["--memory", "9MiB"]
server = Server(BUTTERFLY, WORK, [*flags, "--cluster", "--cluster-listen", "127.0.0.1:0", "--strategy", "balanced", "--nodes", "2",
                                  "--nodes-wait", "600", *small], name="a", env=machine("a"), ready=False)
address = server.wait_for(r"nodes join at (\S+)")[1]
node = join("b", address, "-t", "1", *small)
try:
    server.wait_ready()
    assert server.complete(PROMPTS[0], temperature=0) == expected, server.text()
    node.kill()
    end = time.monotonic() + 60
    status = 200
    while status != 503 and time.monotonic() < end:
        status, answer = server.request("POST", "/v1/completions", {"prompt": PROMPTS[0], "max_tokens": 4})
    assert status == 503 and "of memory" in answer["error"]["message"], f"{status} {answer}\n{server.text()}"
    print("one of two is lost:", answer["error"]["message"])
    node = join("b", "-t", "1", *small)
    server.wait_serving(2)
    assert server.complete(PROMPTS[0], temperature=0) == expected, server.text()
    print("it came back: same bits")
finally:
    node.end()
    status = server.end()
assert status == 0, server.text()
