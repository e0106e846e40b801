#!/usr/bin/env python3
"""Two models on one cluster: each has a plan of its own, both answer at the same time with the bits of one machine, and a
node that both used is lost under both.

    jobs_test.py BUTTERFLY WORK_FOLDER
"""
import json
import os
import signal
import sys
import threading
import time

from harness import PROMPTS, START_MAX_S, Server, make_model

BUTTERFLY, WORK = sys.argv[1], sys.argv[2]
os.makedirs(WORK, exist_ok=True)
TOKENS, NODES = 60, 3
# The second has another shape, so that tokens of the wrong model cannot pass.
MODELS = {
    "one": make_model(BUTTERFLY, f"{WORK}/one.gguf", "--layers", "8", "--dim", "128", "--hidden", "256", "--heads", "4"),
    "two": make_model(BUTTERFLY, f"{WORK}/two.gguf", "--layers", "6", "--dim", "192", "--hidden", "320", "--heads", "6"),
}
FLAGS = [word for name, path in MODELS.items() for word in ("-m", f"{name}={path}")] + ["-c", "512"]


def wait_jobs(nodes):
    """Until every job is served on so many nodes."""
    end = time.monotonic() + START_MAX_S
    while True:
        state = server.cluster()
        if len(state["jobs"]) == 2 and all(j["serving"] and len(j["stages"]) == nodes for j in state["jobs"]):
            return state
        assert time.monotonic() < end, f"not on {nodes} nodes: {json.dumps(state)[:3000]}\n{server.text()}"
        time.sleep(0.05)


def both(what=lambda: None):
    """A stream of each model at the same time; when both have some tokens, what() happens."""
    begun, errors = {name: threading.Event() for name in MODELS}, []

    def one(name):
        try:
            got = server.stream(PROMPTS[0], TOKENS, lambda n: n == 8 and begun[name].set(), temperature=0, model=name)
            assert got == expected[name], f"{name}: other tokens: {got[:5]} ..."
        except BaseException as error:  # noqa: B902, it is told below
            errors.append(error)
        begun[name].set()

    threads = [threading.Thread(target=one, args=(name,)) for name in MODELS]
    for thread in threads:
        thread.start()
    for event in begun.values():
        assert event.wait(120)
    what()
    for thread in threads:
        thread.join(300)
        assert not thread.is_alive(), server.text()
    assert not errors, f"{errors[0]}\n{server.text()}"


plain = Server(BUTTERFLY, WORK, [*FLAGS, "-t", "1"], name="plain")
try:
    expected = {name: plain.stream(PROMPTS[0], TOKENS, temperature=0, model=name) for name in MODELS}
finally:
    plain.end()
assert expected["one"] != expected["two"]

# Who is killed here stays away.
server = Server(BUTTERFLY, WORK, [*FLAGS, "--local-nodes", str(NODES), "--local-restarts", "0"])
try:
    state = wait_jobs(NODES)
    assert [j["model"] for j in state["jobs"]] == ["one", "two"], state["jobs"]
    assert state["jobs"][0]["epoch"] != state["jobs"][1]["epoch"], state["jobs"]
    for node in state["nodes"]:
        assert [j["job"] for j in node["jobs"]] == [1, 2] and all("layers" in j for j in node["jobs"]), node
        needed = sum(j["layers"]["bytes"] for j in node["jobs"])
        assert 0 < needed <= node["ram_free_bytes"], node
    both()
    print("two models at the same time on", NODES, "nodes: same bits")

    before = {j["model"]: j["epoch"] for j in state["jobs"]}
    both(lambda: os.kill(server.workers()[0], signal.SIGKILL))
    after = {j["model"]: j["epoch"] for j in wait_jobs(NODES - 1)["jobs"]}
    assert all(after[name] > before[name] for name in MODELS), (before, after)
    both()
    print("a node lost under both: both went on with the same bits, on", NODES - 1, "nodes")
finally:
    workers = server.workers()
    status = server.end()
assert status == 0, server.text()
for pid in workers:
    assert not os.path.exists(f"/proc/{pid}"), "a worker outlived its parent"

same = Server(BUTTERFLY, WORK, ["-m", f"one={MODELS['one']}", "-m", f"again={MODELS['one']}", "--local-nodes", "2"], ready=False)
assert same.process.wait(60) != 0
same.reader.join(10)
assert "the same model" in same.text(), same.text()
print("one model under two names is refused in words")
