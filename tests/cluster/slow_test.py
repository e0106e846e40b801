#!/usr/bin/env python3
"""A node becomes ten times slower while it works: its layers move to others, streams go on with the same tokens, and
nothing flaps. A freeze of two seconds changes nothing. Says how fast it goes half a minute later, and how fast without the node.

    slow_test.py BUTTERFLY WORK_FOLDER [FLAGS OF SERVE]
"""
import bisect
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

from harness import PROMPTS, START_MAX_S, Process, Server, layers_of, machine_env, make_model, write_capabilities

BUTTERFLY, WORK = sys.argv[1], sys.argv[2]
os.makedirs(WORK, exist_ok=True)
TOKENS = 250
# Large enough that two machines have to share it with the memory they are given, and a step takes milliseconds.
FLAGS = sys.argv[3:]  # --kept-rows 0, say: then nothing of a text is sent, all of it is computed again
SETTLE_S, MEASURE_S = 30, 10
MODEL = make_model(BUTTERFLY, f"{WORK}/model.gguf", "--layers", "12", "--dim", "512", "--hidden", "1024", "--heads", "8")
# As fast as machines are: steps of a slow node have to take longer than what is predicted.
CAPABILITIES = write_capabilities(BUTTERFLY, f"{WORK}/capabilities.json", speed=1e11)
SIZE = os.path.getsize(MODEL)


def machine(name):
    return machine_env(WORK, name, CAPABILITIES)


def run(name, *words):
    done = subprocess.run([BUTTERFLY, *words], env=machine(name), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def layers(name):
    part = next((layers_of(n) for n in server.cluster()["nodes"] if n["name"] == name), None)
    return part["end"] - part["begin"] if part else 0


class Slow:
    """A process that gets a tenth of the time, in slices shorter than a heartbeat."""

    def __init__(self, pid):
        self.pid, self.on = pid, True
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while self.on:
            os.kill(self.pid, signal.SIGSTOP)
            time.sleep(0.09)
            os.kill(self.pid, signal.SIGCONT)
            time.sleep(0.01)

    def end(self):
        self.on = False
        self.thread.join()


plain = Server(BUTTERFLY, WORK, ["-m", MODEL, "-c", "512", "-t", "1"], name="plain")
try:
    expected = [plain.stream(prompt, TOKENS, temperature=0) for prompt in PROMPTS]
finally:
    plain.end()

for name in "abc":
    shutil.rmtree(f"{WORK}/{name}", ignore_errors=True)
run("a", "init", "--name", "a", "--address", "127.0.0.1", "--json")
share = str(int(SIZE * 1.6))  # weights and cache of a part, not of all: the cache is larger than the weights
server = Server(BUTTERFLY, WORK, ["-m", MODEL, "-c", "512", "--parallel", "2", "-t", "1", "--cluster", "--cluster-listen",
                                  "127.0.0.1:0", "--memory", share, "--nodes", "3", *FLAGS], name="a", env=machine("a"), ready=False)
nodes, ended, errors, counts = {}, threading.Event(), [], [0, 0]
came = [[], []]  # when each stream's tokens came


def tokens_per_s(since, until):
    return sum(bisect.bisect(times, until) - bisect.bisect(times, since) for times in came) / (until - since)


def longest_pause(since, until):
    """Of a stream, in this while."""
    return max(after - before for times in came for before, after in zip(times, times[1:]) if after >= since and before <= until)


try:
    address = server.wait_for(r"nodes join at (\S+)")[1]
    token = json.loads(run("a", "token", "new", "--uses", "9", "--address", address, "--json"))["token"]
    for name in "bc":
        nodes[name] = Process([BUTTERFLY, "join", address, "--token", token, "--name", name, "-t", "1", "--memory", share],
                              env=machine(name))
    server.wait_ready()

    def streams(i):
        try:
            while not ended.is_set():
                got = server.stream(PROMPTS[i], TOKENS, lambda _: came[i].append(time.monotonic()), temperature=0)
                assert got == expected[i], f"stream {i}: other tokens"
                counts[i] += 1
        except BaseException as error:  # noqa: B902, told below
            errors.append(error)

    threads = [threading.Thread(target=streams, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    time.sleep(5)
    before = {name: layers(name) for name in "abc"}
    victim = max("bc", key=lambda name: before[name])
    assert before[victim] > 0, before
    # A freeze shorter than death is no reason to move anything: the plan is the same, and no token is lost.
    epoch = server.cluster()["jobs"][0]["epoch"]
    os.kill(nodes[victim].pid, signal.SIGSTOP)
    time.sleep(2)
    os.kill(nodes[victim].pid, signal.SIGCONT)
    time.sleep(1)
    assert server.cluster()["jobs"][0]["epoch"] == epoch, "a freeze of two seconds changed the plan"

    slow, began = Slow(nodes[victim].pid), time.monotonic()
    try:
        end = began + START_MAX_S
        while layers(victim) >= before[victim] or not server.cluster()["serving"]:
            assert time.monotonic() < end and not errors, f"{errors} {before} {json.dumps(server.cluster())[:3000]}\n{server.text()}"
            time.sleep(0.1)
        took = time.monotonic() - began
        state = server.cluster()
        assert any(e["kind"] == "rebalancing" for e in state["events"]), state["events"]
        after = {name: layers(name) for name in "abc"}
        time.sleep(max(0, began + SETTLE_S - time.monotonic()))
        settled = time.monotonic()
        time.sleep(MEASURE_S)
        measured = time.monotonic()
        print(f"{victim} became ten times slower: {before} -> {after} pieces after {took:.0f} s; longest pause until then {longest_pause(began, settled):.2f} s; "
              f"tokens/s {tokens_per_s(began - 5, began):.0f} before, {tokens_per_s(settled, measured):.0f} after {settled - began:.0f} s")
    finally:
        slow.end()
    moves = sum(e["kind"] == "rebalancing" for e in server.cluster()["events"])
    nodes.pop(victim).kill()
    end = time.monotonic() + START_MAX_S
    while layers(victim) or not server.cluster()["serving"]:
        assert time.monotonic() < end and not errors, f"{errors}\n{server.text()}"
        time.sleep(0.1)
    time.sleep(2)
    alone = time.monotonic()
    time.sleep(MEASURE_S)
    absent = tokens_per_s(alone, time.monotonic())
    print(f"without {victim}: {absent:.0f} tokens/s, so with it slow {100 * tokens_per_s(settled, measured) / absent:.0f} %")
    ended.set()
    for thread in threads:
        thread.join(300)
    assert not errors, f"{errors[0]}\n{server.text()}"
    assert moves <= 3, f"{moves} moves: it flaps"
    assert min(counts) > 0, counts
    print(f"{sum(counts)} streams of {TOKENS} tokens meanwhile: same tokens; {moves} move{'s' if moves > 1 else ''}")
finally:
    ended.set()
    for process in nodes.values():
        process.end()
    assert server.end() == 0, server.text()
