#!/usr/bin/env python3
"""Two models on one cluster: each has a plan of its own, both answer at the same time with the bits of one machine, a
node that both used is lost under both, one that joins fetches parts of both, and where only one fits, that one is served.

    jobs_test.py BUTTERFLY WORK_FOLDER [KILLS]

KILLS: so often, after all that, a random worker is killed or stopped under both.
"""
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

from harness import PROMPTS, START_MAX_S, Process, Server, machine_env, make_model, write_capabilities

BUTTERFLY, WORK = sys.argv[1], sys.argv[2]
os.makedirs(WORK, exist_ok=True)
KILLS = int(sys.argv[3]) if len(sys.argv) > 3 else 0
TOKENS, NODES = 400, 3
# The second has another shape, so that tokens of the wrong model cannot pass.
MODELS = {
    "one": make_model(BUTTERFLY, f"{WORK}/one.gguf", "--layers", "8", "--dim", "128", "--hidden", "256", "--heads", "4"),
    "two": make_model(BUTTERFLY, f"{WORK}/two.gguf", "--layers", "6", "--dim", "192", "--hidden", "320", "--heads", "6"),
}
FLAGS = [word for name, path in MODELS.items() for word in ("-m", f"{name}={path}")] + ["-c", "512"]


def wait_jobs(nodes, jobs=2):
    """Until so many jobs are served, each on so many nodes."""
    end = time.monotonic() + START_MAX_S
    while True:
        state = server.cluster()
        if len(state["jobs"]) == jobs and all(j["serving"] and len(j["stages"]) == nodes for j in state["jobs"]):
            return state
        assert time.monotonic() < end, f"not on {nodes} nodes: {json.dumps(state)[:3000]}\n{server.text()}"
        time.sleep(0.05)


def both(what=lambda: None, at=8):
    """A stream of each model at the same time; when both have so many tokens, what() happens."""
    begun, errors = {name: threading.Event() for name in MODELS}, []

    def one(name):
        try:
            got = server.stream(PROMPTS[0], TOKENS, lambda n: n == at and begun[name].set(), temperature=0, model=name)
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
THIRD = make_model(BUTTERFLY, f"{WORK}/three.gguf", "--layers", "4", "--dim", "64", "--hidden", "128", "--heads", "2")
plain = Server(BUTTERFLY, WORK, ["-m", f"three={THIRD}", "-c", "512", "-t", "1"], name="plain")
try:
    expected_third = plain.stream(PROMPTS[0], TOKENS, temperature=0)
finally:
    plain.end()

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



def machine(name):
    return machine_env(WORK, name, CAPABILITIES)


def run(name, *words):
    done = subprocess.run([BUTTERFLY, *words], env=machine(name), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def serve(*more, **how):
    return Server(BUTTERFLY, WORK, [*FLAGS, "-t", "1", "--cluster", "--cluster-listen", "127.0.0.1:0", *more], name="a", env=machine("a"), **how)


CAPABILITIES = write_capabilities(BUTTERFLY, f"{WORK}/capabilities.json")
for name in "ab":
    shutil.rmtree(f"{WORK}/{name}", ignore_errors=True)
run("a", "init", "--name", "a", "--address", "127.0.0.1", "--json")

# A machine without the files: it fetches its parts of both, and loads them side by side.
server, node = serve("--strategy", "uniform"), None
try:
    address = server.cluster()["nodes"][0]["address"]
    token = json.loads(run("a", "token", "new", "--address", address, "--json"))["token"]
    node = Process([BUTTERFLY, "join", address, "--token", token, "--name", "b", "-t", "1"], env=machine("b"))
    wait_jobs(2)
    both()
    lines = run("a", "status", "--management", server.socket)
    assert "1: one for" in lines and "2: two for" in lines, lines
    print("a machine that joined fetched parts of both: same bits")

    # A third begins while the two are served, and ends again; the numbers of jobs that ended are used again.
    def load_third():
        run("a", "load", f"three={THIRD}", "--management", server.socket)

    epochs = {j["model"]: j["epoch"] for j in server.cluster()["jobs"]}
    both(load_third)
    wait_jobs(2, 3)
    assert server.stream(PROMPTS[0], TOKENS, temperature=0, model="three") == expected_third
    run("a", "unload", "three", "--management", server.socket)
    state = wait_jobs(2)
    assert {j["model"]: j["epoch"] for j in state["jobs"]} == epochs, "what was served before was changed"
    run("a", "unload", "one", "--management", server.socket)
    assert [j["model"] for j in server.cluster()["jobs"]] == ["two"]
    load_third()
    state = wait_jobs(2)
    assert [(j["job"], j["model"]) for j in state["jobs"]] == [(1, "three"), (2, "two")], state["jobs"]
    assert server.stream(PROMPTS[0], TOKENS, temperature=0, model="three") == expected_third
    print("a third model came and went while others were served: same bits")
finally:
    if node is not None:
        node.end()
    assert server.end() == 0, server.text()


# With almost nothing it says what it needs; with enough for the first, the first is served, and the second says why not.
NEEDS = r"needs ([0-9.]+) MiB of memory"
poor = serve("--memory", str(1 << 20), ready=False)
needed = float(poor.wait_for(f"the cluster does not serve one yet: .*{NEEDS}")[1])
poor.end()
server = serve("--memory", str(int(needed * 1.25 * 2**20)))
try:
    assert server.stream(PROMPTS[0], TOKENS, temperature=0, model="one") == expected["one"]
    jobs = server.cluster()["jobs"]
    assert jobs[0]["serving"] and not jobs[1]["serving"], jobs
    status, answer = server.request("POST", "/v1/completions", {"model": "two", "prompt": "a", "max_tokens": 2})
    assert status == 503 and re.search(NEEDS, json.dumps(answer)), (status, answer)
    print("room for one: it is served, and the other says", json.dumps(answer)[:160])
finally:
    assert server.end() == 0, server.text()

same = Server(BUTTERFLY, WORK, ["-m", f"one={MODELS['one']}", "-m", f"again={MODELS['one']}", "--local-nodes", "2"], ready=False)
assert same.process.wait(60) != 0
same.reader.join(10)
assert "the same model" in same.text(), same.text()
print("one model under two names is refused in words")


def strike():
    """A worker with a part of both is killed or stopped."""
    os.kill(random.choice(server.workers()), random.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP]))


random.seed(5)
for i in range(KILLS // 2):
    # Who fails often is left out for long, so each pair of kills has a cluster of its own.
    server = Server(BUTTERFLY, WORK, [*FLAGS, "--local-nodes", "4", "--local-restarts", "0"])
    try:
        wait_jobs(4)
        for left in (3, 2):
            both(strike, at=random.randint(1, 200))
            wait_jobs(left)
            for pid in server.workers():
                if open(f"/proc/{pid}/stat").read().split(")")[-1].split()[0] == "T":
                    os.kill(pid, signal.SIGKILL)
    finally:
        status = server.end()
    assert status == 0, server.text()
    assert not any("check failed" in line for line in server.lines), server.text()
if KILLS:
    print(f"{KILLS // 2 * 2} nodes killed or stopped under both: same bits")
