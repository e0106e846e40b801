#!/usr/bin/env python3
"""Local nodes that are killed come back by themselves, a bounded number of times, and everybody can read why.

    restart_test.py BUTTERFLY WORK_FOLDER
"""
import os
import signal
import subprocess
import sys
import time

from harness import PROMPTS, SMALL, START_MAX_S, Server, make_model, unfailed_stream

BUTTERFLY, WORK = sys.argv[1], sys.argv[2]
os.makedirs(WORK, exist_ok=True)
MODEL = make_model(BUTTERFLY, f"{WORK}/small.gguf", *SMALL)
FLAGS = ["-m", MODEL, "-c", "512"]


def name_of(pid):
    words = open(f"/proc/{pid}/cmdline").read().split("\0")
    return words[words.index("--name") + 1]


def wait_until(server, what, true):
    """The state of the cluster in which it is true."""
    end = time.monotonic() + START_MAX_S
    while True:
        state = server.cluster()
        if true(state):
            return state
        assert time.monotonic() < end, f"{what}: not after {START_MAX_S} s: {state['events']}\n{server.text()}"
        time.sleep(0.05)


def events_of(state, kind, node):
    return [e for e in state["events"] if e["kind"] == kind and e["node"] == node]


def status_text(server):
    return subprocess.run([BUTTERFLY, "status", "--management", server.socket], check=True, capture_output=True, text=True).stdout


def a_killed_node_comes_back():
    expected = unfailed_stream(BUTTERFLY, WORK, FLAGS)
    server = Server(BUTTERFLY, WORK, [*FLAGS, "--local-nodes", "3"], name="back")
    try:
        keys = {n["name"]: n["key"] for n in server.wait_serving(3)["nodes"]}
        for kill in (1, 2):
            victim = server.workers()[0]
            name = name_of(victim)
            found = server.stream(PROMPTS[0], 60, lambda count: count == 20 and os.kill(victim, signal.SIGKILL), temperature=0)
            assert found == expected, f"other tokens\n{found}\n{expected}\n{server.text()}"
            wait_until(server, f"{name} is back", lambda s: len(events_of(s, "returned", name)) == kill)
            state = server.wait_serving(3)
            ended = events_of(state, "ended", name)
            assert len(ended) == kill and "killed by signal 9" in ended[-1]["text"] and "started again in" in ended[-1]["text"], ended
            assert {n["name"]: n["key"] for n in state["nodes"]} == keys, "it came back as another node"
            assert victim not in server.workers() and len(server.workers()) == 2
            assert server.stream(PROMPTS[0], 60, temperature=0) == expected, "other tokens on the restarted node"
        text = status_text(server)
        assert "3 of 3 nodes up" in text and f"last failure: {name}: its process was killed by signal 9" in text, text
        print("a node that was killed twice came back twice; same tokens before, while and after")
    finally:
        assert server.end() == 0, server.text()


def nobody_is_started_for_ever():
    server = Server(BUTTERFLY, WORK, [*FLAGS, "--local-nodes", "3", "--local-restarts", "1"], name="bounded")
    try:
        server.wait_serving(3)
        expected = server.complete(PROMPTS[1])
        name = name_of(server.workers()[0])
        for kill in (1, 2):
            victim = next(pid for pid in server.workers() if name_of(pid) == name)
            os.kill(victim, signal.SIGKILL)
            if kill == 1:
                wait_until(server, f"{name} is back", lambda s: events_of(s, "returned", name))
        state = wait_until(server, f"{name} is given up", lambda s: events_of(s, "given_up", name))
        failure = state["jobs"][0]["last_failure"]
        assert "after 1 restart in a row" in failure and "the others go on" in failure, failure
        server.wait_serving(2)
        assert server.complete(PROMPTS[1]) == expected
        text = status_text(server)
        assert "2 of 3 nodes up" in text and "it is not started again" in text, text
        print(f"given up: {failure}")
    finally:
        assert server.end() == 0, server.text()


def a_removed_node_stays_away():
    server = Server(BUTTERFLY, WORK, [*FLAGS, "--local-nodes", "3"], name="removed")
    try:
        server.wait_serving(3)
        victim = server.workers()[0]
        name = name_of(victim)
        subprocess.run([BUTTERFLY, "node", "remove", name, "--management", server.socket], check=True, capture_output=True)
        wait_until(server, "its process ended", lambda _: victim not in server.workers())
        time.sleep(1.5)  # three times the first wait
        assert len(server.workers()) == 1, server.text()
        assert not events_of(server.cluster(), "ended", name)
        server.wait_serving(2)
        print("a node that was removed is not started again")
    finally:
        assert server.end() == 0, server.text()


def the_first_plan_does_not_wait_for_a_node_that_never_comes():
    server = Server(BUTTERFLY, WORK, [*FLAGS, "--local-nodes", "3", "--local-restarts", "0"], name="never", ready=False)
    try:
        while len(server.workers()) < 2:
            time.sleep(0.001)
        os.kill(server.workers()[0], signal.SIGKILL)
        server.wait_ready()
        server.complete(PROMPTS[0])
        server.wait_serving(2)
        print("one of three died before it joined: the other two serve")
    finally:
        assert server.end() == 0, server.text()


a_killed_node_comes_back()
nobody_is_started_for_ever()
a_removed_node_stays_away()
the_first_plan_does_not_wait_for_a_node_that_never_comes()
