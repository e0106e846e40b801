#!/usr/bin/env python3
"""Nodes that go on purpose: `node drain`, SIGTERM, and joining again, under streams. No request fails, none waits for a
loss to be noticed, and every token is that of one machine.

    drain_test.py BUTTERFLY WORK_FOLDER [ROUNDS]
"""
import json
import os
import shutil
import subprocess
import sys
import threading
import time

from harness import PROMPTS, START_MAX_S, Process, Server, layers_of, machine_env, make_model, write_capabilities

BUTTERFLY, WORK = sys.argv[1], sys.argv[2]
ROUNDS = int(sys.argv[3]) if len(sys.argv) > 3 else 1
os.makedirs(WORK, exist_ok=True)
TOKENS = 300
MODEL = make_model(BUTTERFLY, f"{WORK}/model.gguf", "--layers", "8", "--dim", "128", "--hidden", "256", "--heads", "4")
CAPABILITIES = write_capabilities(BUTTERFLY, f"{WORK}/capabilities.json")
NAMES = "bc"


def machine(name):
    return machine_env(WORK, name, CAPABILITIES)


def run(name, *words, ok=True):
    done = subprocess.run([BUTTERFLY, *words], env=machine(name), capture_output=True, text=True)
    assert not ok or done.returncode == 0, done.stderr
    return done


def join(name, *more):
    """The line that is pasted once; later plain `join`."""
    return Process([BUTTERFLY, "join", *more, "-t", "1"], env=machine(name))


def node(name):
    return next(n for n in server.cluster()["nodes"] if n["name"] == name)


def wait_until(what, holds):
    end = time.monotonic() + START_MAX_S
    while not holds():
        assert time.monotonic() < end, f"{what}: not after {START_MAX_S} s: {json.dumps(server.cluster())[:3000]}\n{server.text()}"
        time.sleep(0.05)


def streams(what, count=4):
    """So many streams; after a few tokens of each, what() happens; all must be those of one machine."""
    begun, errors = [threading.Event() for _ in range(count)], []

    def one(i):
        try:
            got = server.stream(PROMPTS[i % 2], TOKENS, lambda n: n == 5 and begun[i].set(), temperature=0)
            assert got == expected[i % 2], f"stream {i}: other tokens"
        except BaseException as error:  # noqa: B902, told below
            errors.append(error)
        begun[i].set()

    threads = [threading.Thread(target=one, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for event in begun:
        assert event.wait(120)
    what()
    for thread in threads:
        thread.join(300)
        assert not thread.is_alive(), server.text()
    assert not errors, f"{errors[0]}\n{server.text()}"


def events(*kinds):
    return [e for e in server.cluster()["events"] if e["kind"] in kinds]


plain = Server(BUTTERFLY, WORK, ["-m", MODEL, "-c", "512", "-t", "1"], name="plain")
try:
    expected = [plain.stream(prompt, TOKENS, temperature=0) for prompt in PROMPTS]
finally:
    plain.end()

for name in "a" + NAMES:
    shutil.rmtree(f"{WORK}/{name}", ignore_errors=True)
run("a", "init", "--name", "a", "--address", "127.0.0.1", "--json")
server = Server(BUTTERFLY, WORK, ["-m", MODEL, "-c", "512", "-t", "1", "--cluster", "--cluster-listen", "127.0.0.1:0",
                                  "--strategy", "uniform"], name="a", env=machine("a"))
nodes = {}
try:
    address = server.cluster()["nodes"][0]["address"]
    token = json.loads(run("a", "token", "new", "--uses", "9", "--address", address, "--json").stdout)["token"]
    for name in NAMES:
        nodes[name] = join(name, address, "--token", token, "--name", name)
    server.wait_serving(3)

    for number in range(ROUNDS):
        # Drained by the operator: when the command returns, it has nothing; the process stays.
        def drain():
            run("a", "node", "drain", "b", "--management", server.socket)
            assert layers_of(node("b")) is None and node("b")["drain"]["state"] == "done", node("b")

        streams(drain)
        server.wait_serving(2)
        assert "drained" in run("a", "status", "--management", server.socket).stdout
        streams(lambda: run("a", "node", "resume", "b", "--management", server.socket))
        server.wait_serving(3)

        # Its process is told to end: it ends when its layers are elsewhere.
        def terminate():
            assert nodes["c"].end() == 0, nodes["c"].text()

        streams(terminate)
        state = server.wait_serving(2)
        assert node("c")["state"] == "left", node("c")

        def again():
            nodes["c"] = join("c")

        streams(again)
        server.wait_serving(3)
        if number % 10 == 9:
            print(f"{number + 1} rounds")
    assert not events("halted", "dead"), events("halted", "dead")  # a busy machine makes suspects
    print(f"{ROUNDS} drained and resumed, {ROUNDS} ended and started again, under 4 streams each: same tokens, nothing halted")

    assert run("a", "node", "drain", "a", "--management", server.socket, ok=False).returncode != 0
    assert "no node" in run("a", "node", "drain", "x", "--management", server.socket, ok=False).stderr
finally:
    for process in nodes.values():
        if process.process.poll() is None:
            process.end()
    assert server.end() == 0, server.text()

# Nothing fits without b: the command says so and why, and what is served goes on.
nodes = {}
server = Server(BUTTERFLY, WORK, ["-m", MODEL, "-c", "512", "-t", "1", "--cluster", "--cluster-listen", "127.0.0.1:0",
                                  "--strategy", "uniform", "--memory", "9MiB", "--nodes", "2"],
                name="a", env=machine("a"), ready=False)
try:
    address = server.wait_for(r"nodes join at (\S+)")[1]
    nodes["b"] = join("b", address)
    server.wait_ready()
    server.wait_serving(2)
    done = run("a", "node", "drain", "b", "--management", server.socket, ok=False)
    assert done.returncode != 0 and "no plan without it" in done.stderr, done.stderr
    assert server.stream(PROMPTS[0], TOKENS, temperature=0) == expected[0]
    print("where nothing fits without it:", done.stderr.strip()[:160])
finally:
    for process in nodes.values():
        process.end()
    assert server.end() == 0, server.text()
