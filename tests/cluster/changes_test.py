#!/usr/bin/env python3
"""A cluster that changes while it serves: nodes that join under load, that nobody can reach, that fetch slowly, that are
removed. Machines of their own with fetched weights, on loopback, with real TLS, one and two threads.

    changes_test.py BUTTERFLY WORK_FOLDER [BYTES_PER_SECOND]

The last node fetches its weights at that rate (2 MB/s if it is not given). At 150 kB/s a chunk of 4 MiB takes longer than a node may
be without progress.
"""
import json
import os
import shutil
import subprocess
import sys
import threading

from harness import PROMPTS, Process, Server, layers_of, machine_env, make_model, unfailed_stream, write_capabilities

BUTTERFLY, WORK = sys.argv[1], sys.argv[2]
shutil.rmtree(WORK, ignore_errors=True)
os.makedirs(f"{WORK}/model")
# Large enough that hashing what was fetched takes longer than a step.
MODEL = make_model(BUTTERFLY, f"{WORK}/model/model.gguf", "--layers", "10", "--dim", "512", "--hidden", "1536", "--heads", "8")
CAPABILITIES = write_capabilities(BUTTERFLY, f"{WORK}/capabilities.json")
TOKENS = 160
FETCH_RATE = sys.argv[3] if len(sys.argv) > 3 else "2000000"


def machine(name):
    return machine_env(WORK, name, CAPABILITIES)


def run(name, *words):
    return subprocess.run([BUTTERFLY, *words], env=machine(name), capture_output=True, text=True)


flags = ["-m", MODEL, "-c", "512"]
expected = unfailed_stream(BUTTERFLY, WORK, flags, tokens=TOKENS)
made = run("a", "init", "--name", "a", "--address", "127.0.0.1", "--json")
assert made.returncode == 0, made.stderr
server = Server(BUTTERFLY, WORK, [*flags, "-t", "2", "--cluster", "--cluster-listen", "127.0.0.1:0", "--strategy", "uniform"],
                name="a", env=machine("a"))
address = [n for n in server.cluster()["nodes"] if n["name"] == "a"][0]["address"]
nodes = {}


def join(name, *words):
    if name not in nodes:
        token = json.loads(run("a", "token", "new", "--address", address, "--json").stdout)["token"]
        words = [address, "--token", token, "--name", name, *words]
    nodes[name] = Process([BUTTERFLY, "join", *words], env=machine(name))
    nodes[name].wait_for("works for")


def streams_while(what, count=3):
    """`count` streams run; when the first has some tokens, what() happens; all must end with the bits of one machine."""
    begun, errors = threading.Event(), []

    def one():
        try:
            got = server.stream(PROMPTS[0], TOKENS, lambda n: n == 10 and begun.set(), temperature=0)
            assert got == expected, f"other tokens: {got[:5]} ..."
        except BaseException as error:  # noqa: B902, it is told below
            errors.append(error)
            begun.set()

    threads = [threading.Thread(target=one) for _ in range(count)]
    for thread in threads:
        thread.start()
    assert begun.wait(120)
    what()
    for thread in threads:
        thread.join(300)
        assert not thread.is_alive(), server.text()
    assert not errors, f"{errors[0]}\n{server.text()}"
    for name, node in nodes.items():
        assert node.process.poll() is None, f"{name} ended:\n{node.text()}"


def reach_a_laptop():
    join("laptop", "-t", "1", "--advertise", "127.0.0.1:9")


try:
    join("b", "-t", "2")
    server.wait_serving(2)
    streams_while(lambda: None)

    # A third one joins under load: what the second one has fetched is looked at again while it computes.
    streams_while(lambda: join("c", "-t", "2"))
    server.wait_serving(3)
    streams_while(lambda: None)
    print("a node joined under three streams: same bits, nobody ended")

    # One that can call and cannot be called: what works goes on without it.
    streams_while(reach_a_laptop)
    streams_while(lambda: None)
    state = server.cluster()
    assert state["serving"], state
    stages = {n["name"] for n in state["nodes"] if layers_of(n)}
    assert stages == {"a", "b", "c"}, stages
    events = [e for e in state["events"] if e["kind"] == "unreachable"]
    assert events and "laptop" in events[0]["text"], state["events"]
    print("a node that nobody can reach:", events[0]["node"], events[0]["text"])
    nodes.pop("laptop").end()

    # Slow is not dead.
    streams_while(lambda: join("d", "-t", "1", "--fetch-rate", FETCH_RATE), count=1)
    server.wait_serving(4, seconds=600)
    assert not any(e["kind"] == "dead" and e["node"] == "d" for e in server.cluster()["events"])
    streams_while(lambda: None, count=1)
    print(f"a node that fetches {FETCH_RATE} bytes a second joined")

    # Who is removed is out everywhere: it ends, and the others have its key on their lists.
    removed = run("a", "node", "remove", "d", "--management", server.socket)
    assert removed.returncode == 0, removed.stderr
    gone = nodes.pop("d")
    assert gone.process.wait(60) != 0, gone.text()
    server.wait_serving(3)
    streams_while(lambda: None, count=1)
    key = [n for n in server.cluster()["nodes"] if n["name"] == "d"][0]["key"]
    for name in ("b", "c"):
        listed = subprocess.run(["grep", "-rl", key, machine(name)["HOME"]], capture_output=True, text=True).stdout
        assert listed, f"{name} has not heard that d is removed"
    print("removed: its process ended, and every node knows")
finally:
    for node in nodes.values():
        if node.process.poll() is None:
            node.end()
    status = server.end()
assert status == 0, server.text()
