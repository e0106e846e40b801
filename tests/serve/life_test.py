#!/usr/bin/env python3
"""How a server's life ends and stalls, on the real process: readiness that is true, drain, and the end at once.

    life_test.py BUTTERFLY WORK_FOLDER

Loopback only. The threads that compute are held by ptrace, as a hung disk or a broken stage would hold them, while the
network's thread goes on. What happens is judged; the times are shown (they depend on the machine).
"""
import asyncio
import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench/serve"))
from http_load import ask, butterfly  # noqa: E402

BUTTERFLY, WORK = sys.argv[1], sys.argv[2]
PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
WALL = 0x40000000  # __WALL: also threads of others


def ptrace(request, tid):
    if libc.ptrace(request, tid, None, None) != 0:
        raise OSError(ctypes.get_errno(), f"ptrace {request:#x} of {tid}")


def cpu_ticks(pid):
    """CPU time of each thread."""
    ticks = {}
    for tid in os.listdir(f"/proc/{pid}/task"):
        fields = open(f"/proc/{pid}/task/{tid}/stat").read().rpartition(")")[2].split()
        ticks[int(tid)] = int(fields[11]) + int(fields[12])
    return ticks


class Stream:
    """A text that is being written, read in a thread of its own."""

    def __init__(self, port, tokens):
        body = {"prompt": "Once", "max_tokens": tokens, "ignore_eos": True, "stream": True, "stream_options": {"include_usage": True}}
        self.answer = None
        self.thread = threading.Thread(target=self.run, args=(port, body), daemon=True)
        self.thread.start()

    def run(self, port, body):
        self.answer = asyncio.run(ask(port, "/v1/completions", body))

    def ended(self, timeout):
        self.thread.join(timeout)
        return self.answer


def start(model, *flags):
    # Steps of some milliseconds, so that a stream lasts for as long as it is asked to.
    return butterfly(BUTTERFLY, model, "-t", 1, "-c", 16384, "--management", f"{WORK}/socket", "--no-speculation", *flags, log=f"{WORK}/server.log")


def health(server):
    return asyncio.run(ask(server.port, "/health"))


def until(what, seconds, message):
    """Seconds until `what` is true."""
    begin = time.monotonic()
    while not what():
        assert time.monotonic() - begin < seconds, message
        time.sleep(0.02)
    return time.monotonic() - begin


def stalls(model):
    server = start(model)
    pid = server.process.pid
    stream = Stream(server.port, 1 << 20)
    try:
        time.sleep(0.5)
        before = cpu_ticks(pid)

        def used():
            return {tid: ticks - before.get(tid, 0) for tid, ticks in cpu_ticks(pid).items()}

        until(lambda: max(used().values()) >= 20, 60, f"no thread computes: {used()}")
        workers = [tid for tid, ticks in used().items() if ticks >= 5]
        assert health(server).status == 200
        for tid in workers:
            ptrace(PTRACE_SEIZE, tid)
            ptrace(PTRACE_INTERRUPT, tid)
            os.waitpid(tid, WALL)
        late = until(lambda: health(server).status == 503, 60, "still ready without steps")
        reason = json.loads(health(server).body)
        for tid in workers:
            ptrace(PTRACE_DETACH, tid)
        back = until(lambda: health(server).status == 200, 60, "not ready again")
        return f"not ready {late:.2f} s after steps stopped ({reason}), ready {back:.2f} s after they went on"
    finally:
        server.process.kill()
        server.process.wait()


def drains(model):
    """A stream that ends in time is whole, and nothing new is taken."""
    server = start(model)
    stream = Stream(server.port, 300)
    time.sleep(0.3)
    begin = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    time.sleep(0.2)
    refused = asyncio.run(ask(server.port, "/v1/completions", {"prompt": "x", "max_tokens": 1}))
    assert refused.status in (0, 503), refused.status
    answer = stream.ended(60)
    code = server.process.wait(60)
    assert answer is not None and answer.status == 200 and answer.tokens == 300, answer
    assert code == 0, code
    return f"a stream of 300 tokens ended whole, the process {time.monotonic() - begin:.2f} s after SIGTERM, exit {code}"


def is_cut(model):
    """One that does not is cut at the drain time."""
    server = start(model, "--drain-time", 2)
    stream = Stream(server.port, 1 << 20)
    time.sleep(0.5)
    begin = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    code = server.process.wait(60)
    late = time.monotonic() - begin
    assert stream.ended(10) is not None
    assert code == 1, code
    return f"an endless stream was cut after --drain-time 2, the process ended {late:.2f} s after SIGTERM, exit {code}"


def ends_at_once(model):
    server = start(model)
    Stream(server.port, 1 << 20)
    time.sleep(0.5)
    server.process.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    assert server.process.poll() is None, "it should drain"
    begin = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    code = server.process.wait(30)
    late = time.monotonic() - begin
    assert code == 1, code
    assert not os.path.exists(f"{WORK}/socket"), "the socket stays"
    return f"ended {late * 1e3:.0f} ms after the second SIGTERM, exit {code}"


def main():
    os.makedirs(WORK, exist_ok=True)
    model = f"{WORK}/m.gguf"
    subprocess.run([BUTTERFLY, "make-model", model, "--dim", "512", "--hidden", "1024", "--layers", "8", "--heads", "8", "--vocab", "400",
                    "--context", "16384", "--type", "f32"], check=True, stderr=subprocess.DEVNULL)
    for test in (stalls, drains, is_cut, ends_at_once):
        print(f"{test.__name__}: {test(model)}", flush=True)


if __name__ == "__main__":
    main()
