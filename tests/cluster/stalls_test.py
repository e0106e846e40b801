#!/usr/bin/env python3
"""Processes that stand still, as a whole or in part, and a cluster that goes on.

    stalls_test.py BUTTERFLY WORK_FOLDER

A thread is stopped with ptrace, as a debugger does it; that part is skipped where the system does not allow it.
"""
import ctypes
import os
import signal
import sys
import time

from harness import PROMPTS, SMALL, Server, make_model, unfailed_stream

BUTTERFLY, WORK = sys.argv[1], sys.argv[2]
os.makedirs(WORK, exist_ok=True)
MODEL = make_model(BUTTERFLY, f"{WORK}/small.gguf", *SMALL)
FLAGS = ["-m", MODEL, "-c", "512"]

PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
WALL = 0x40000000


def ptrace(request, thread):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    if libc.ptrace(request, thread, None, None) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def stage_thread(pid):
    """The thread of a node that computes its layers."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        if open(f"/proc/{pid}/task/{thread}/comm").read().strip() == "bf-stage":
            return int(thread)
    raise AssertionError(f"process {pid} has no stage")


def stop_thread(thread):
    ptrace(PTRACE_SEIZE, thread)
    ptrace(PTRACE_INTERRUPT, thread)
    os.waitpid(thread, WALL)


def a_hung_stage_is_found():
    """Its process beats on, so only its steps tell. The engine's own patience (60 s) must not be needed."""
    expected = unfailed_stream(BUTTERFLY, WORK, FLAGS)
    server = Server(BUTTERFLY, WORK, [*FLAGS, "--local-nodes", "3"], name="hung")
    stopped = None
    try:
        victim = server.workers()[0]
        times = []

        def on_token(count):
            nonlocal stopped
            times.append(time.monotonic())
            if count == 20:
                stopped = stage_thread(victim)
                stop_thread(stopped)

        try:
            found = server.stream(PROMPTS[0], 60, on_token, temperature=0)
        except PermissionError as error:
            print(f"a hung thread: not tried, {error}")
            return
        assert found == expected, f"other tokens\n{found}\n{expected}\n{server.text()}"
        dead = [e for e in server.cluster()["events"] if e["kind"] == "dead"]
        assert len(dead) == 1 and "no progress" in dead[0]["text"], f"{dead}\n{server.text()}"
        gap = max(b - a for a, b in zip(times, times[1:]))
        print(f"a hung stage: {dead[0]['text']}; same tokens, the next one after {gap:.1f} s")
    finally:
        if stopped:
            ptrace(PTRACE_DETACH, stopped)
        server.end()


def nodes_join_a_coordinator_that_stands_still():
    """Longer than a handshake may take: whoever asked in vain asks again."""
    server = Server(BUTTERFLY, WORK, [*FLAGS, "--local-nodes", "3"], name="still", ready=False)
    try:
        while len(server.workers()) < 2:
            time.sleep(0.001)
        os.kill(server.pid, signal.SIGSTOP)
        time.sleep(12)
        os.kill(server.pid, signal.SIGCONT)
        server.wait_ready()
        server.wait_serving(3)
        server.complete(PROMPTS[0])
        print("a coordinator that stood still for 12 s has its three nodes")
    finally:
        server.end()


a_hung_stage_is_found()
nodes_join_a_coordinator_that_stands_still()
