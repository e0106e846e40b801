#!/usr/bin/env python3
"""Layers that move between live nodes take their caches with them: long texts under way when a node is drained, comes back, ends or
joins are not read again, and every token is that of one machine. When a node is killed, what it had is read again and the rest is not.

    moving_test.py BUTTERFLY WORK_FOLDER [ARCHITECTURE]
"""
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time

from harness import Process, Server, layers_of, machine_env, make_model, write_capabilities

BUTTERFLY, WORK = sys.argv[1], sys.argv[2]
ARCHITECTURE = sys.argv[3] if len(sys.argv) > 3 else "llama"
os.makedirs(WORK, exist_ok=True)
TOKENS = 800  # so that streams run on while a node joins
LAYERS = 8
MODEL = make_model(BUTTERFLY, f"{WORK}/{ARCHITECTURE}.gguf", "--arch", ARCHITECTURE, "--layers", str(LAYERS), "--dim", "256",
                   "--hidden", "512", "--heads", "4")
CAPABILITIES = write_capabilities(BUTTERFLY, f"{WORK}/capabilities.json")
NAMES = "bc"
FLAGS = ["-m", MODEL, "-c", "4096", "-t", "1"]
# Long ones: to read them again takes far longer than to send them.
PROMPTS = [" ".join(f"{i} and {n}" for n in range(100 + 40 * i)) for i in range(4)]


def machine(name):
    return machine_env(WORK, name, CAPABILITIES)


def run(name, *words):
    done = subprocess.run([BUTTERFLY, *words], env=machine(name), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done


def join(name, *more):
    return Process([BUTTERFLY, "join", *more, "-t", "1"], env=machine(name))


def counted():
    connection = http.client.HTTPConnection(server.host, server.port, timeout=60)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    names = ("rows_again", "row_layers_again", "moves_sent", "moves_computed", "moved_bytes", "moved_row_layers")
    return {name: int(float(re.search(rf"^butterfly_{name}_total{{.*}} (\S+)$", text, re.M)[1])) for name in names}


def streams(what, happens, nodes):
    """All texts; when each has a few tokens, happens(); what was counted meanwhile."""
    begun, errors, pauses, moment = [threading.Event() for _ in PROMPTS], [], [0.0] * len(PROMPTS), []

    def one(i):
        last = None

        def token(n):
            nonlocal last
            now = time.monotonic()
            if moment and last:
                pauses[i] = max(pauses[i], now - max(last, moment[0]))
            last = now
            if n == 5:
                begun[i].set()

        try:
            got = server.stream(PROMPTS[i], TOKENS, token, temperature=0)
            assert got == expected[i], f"{what}: stream {i} has other tokens"
        except BaseException as error:  # noqa: B902, told below
            errors.append(error)
        begun[i].set()

    before = counted()
    threads = [threading.Thread(target=one, args=(i,)) for i in range(len(PROMPTS))]
    for thread in threads:
        thread.start()
    for event in begun:
        assert event.wait(120)
    moment.append(time.monotonic())
    happens()
    server.wait_serving(nodes)
    for thread in threads:
        thread.join(300)
        assert not thread.is_alive(), server.text()
    assert not errors, f"{errors[0]}\n{server.text()}"
    found = {name: value - before[name] for name, value in counted().items()}
    print(f"{what}: {found}, longest pause {max(pauses):.2f} s", flush=True)
    return found


plain = Server(BUTTERFLY, WORK, FLAGS, name="plain")
try:
    expected = [plain.stream(prompt, TOKENS, temperature=0) for prompt in PROMPTS]
finally:
    plain.end()

for name in "a" + NAMES:
    shutil.rmtree(f"{WORK}/{name}", ignore_errors=True)
run("a", "init", "--name", "a", "--address", "127.0.0.1", "--json")
server = Server(BUTTERFLY, WORK, [*FLAGS, "--cluster", "--cluster-listen", "127.0.0.1:0", "--strategy", "uniform"], name="a",
                env=machine("a"))
nodes = {}
try:
    address = server.cluster()["nodes"][0]["address"]
    token = json.loads(run("a", "token", "new", "--uses", "9", "--address", address, "--json").stdout)["token"]
    for name in NAMES:
        nodes[name] = join(name, address, "--token", token, "--name", name)
    server.wait_serving(3)

    def moved(what, happens, count):
        found = streams(what, happens, count)
        assert found["moves_sent"] >= 1 and found["moves_computed"] == 0 and found["moved_bytes"] > 0, found
        assert found["rows_again"] == 0, f"{what}: {found}\n{server.text()}"

    moved("drained", lambda: run("a", "node", "drain", "b", "--management", server.socket), 2)
    moved("used again", lambda: run("a", "node", "resume", "b", "--management", server.socket), 3)

    def terminate():
        ended = time.monotonic()
        assert nodes["c"].end() == 0, nodes["c"].text()
        print(f"its process ended after {time.monotonic() - ended:.2f} s")

    moved("told to end", terminate, 2)

    def again():
        nodes["c"] = join("c")

    moved("joined again", again, 3)
    status = run("a", "status", "--management", server.socket).stdout
    assert re.search(r"caches of layers that moved were sent after \d+ changes", status), status

    # What a killed node had is gone: it is read again.
    killed = next(n["name"] for n in server.cluster()["nodes"] if n["name"] != "a" and layers_of(n))
    found = streams("killed", lambda: nodes[killed].kill(), 2)
    assert 0 < found["row_layers_again"] <= LAYERS * found["rows_again"], found
    del nodes[killed]

    # Without streams nobody asks for anything: a node ends at once.
    last = next(iter(nodes))
    began = time.monotonic()
    assert nodes[last].end() == 0, nodes[last].text()
    seconds = time.monotonic() - began
    assert seconds < 30, f"it waited for {seconds:.0f} s for nodes that want nothing\n{nodes[last].text()}"
    server.wait_serving(1)
    assert server.stream(PROMPTS[0], TOKENS, temperature=0) == expected[0]
finally:
    for process in nodes.values():
        if process.process.poll() is None:
            process.end()
    assert server.end() == 0, server.text()
