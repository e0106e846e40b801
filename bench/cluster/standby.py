#!/usr/bin/env python3
"""What a standby costs: time to the first event of a stream, and to its end, of the same cluster without a journal, with one, and with one
that a standby has too.

    standby.py BUTTERFLY WORK_FOLDER [--streams N] [--tokens N]
"""
import argparse
import http.client
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/cluster"))
from harness import SMALL, Process, Server, machine_env, make_model, write_capabilities  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("butterfly")
parser.add_argument("work")
parser.add_argument("--streams", type=int, default=60)
parser.add_argument("--tokens", type=int, default=64)
options = parser.parse_args()
BUTTERFLY, WORK = os.path.abspath(options.butterfly), os.path.abspath(options.work)
os.makedirs(WORK, exist_ok=True)
MODEL = make_model(BUTTERFLY, f"{WORK}/model.gguf", *SMALL)
CAPABILITIES = write_capabilities(BUTTERFLY, f"{WORK}/capabilities.json")


def machine(name):
    return machine_env(WORK, name, CAPABILITIES)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def one_stream(server, number):
    """Seconds to the first event, and to the last."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=60)
    began = time.perf_counter()
    connection.request("POST", "/v1/completions", json.dumps({"prompt": f"{number} times", "max_tokens": options.tokens, "stream": True,
                                                              "ignore_eos": True, "temperature": 0}), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    times = [time.perf_counter() for line in answer if line.startswith(b"data: {")]
    connection.close()
    return times[0] - began, times[-1] - began


def measure(journal, standby):
    for name in "abc":
        shutil.rmtree(f"{WORK}/{name}", ignore_errors=True)
    subprocess.run([BUTTERFLY, "init", "--name", "a", "--address", "127.0.0.1", "--json"], env=machine("a"), check=True, capture_output=True)
    address = {name: f"127.0.0.1:{free_port()}" for name in "ab"}
    started = []

    def serve(name, *flags, ready):
        server = Server(BUTTERFLY, WORK, ["-m", MODEL, "-c", "512", "-t", "1", "--cluster", "--cluster-listen", address[name], *flags], name=name,
                        env=machine(name), ready=ready)
        started.append(server)
        return server

    def token():
        return json.loads(subprocess.run([BUTTERFLY, "token", "new", "--address", address["a"], "--json"], env=machine("a"), check=True,
                                         capture_output=True).stdout)["token"]

    try:
        flags = (["--journal", f"{WORK}/a/journal"] if journal else []) + (["--standby", "b", "--witness", "c"] if standby else [])
        lead = serve("a", *flags, ready=True)
        if standby:
            subprocess.run([BUTTERFLY, "join", address["a"], "--token", token(), "--name", "b", "--enrol-only"], env=machine("b"), check=True,
                           capture_output=True)
            serve("b", ready=False)
            started.append(Process([BUTTERFLY, "join", address["a"], "--token", token(), "--name", "c", "-t", "1"], env=machine("c")))
            lead.wait_for("standby b has the journal")
        one_stream(lead, 0)
        return [one_stream(lead, number) for number in range(1, options.streams + 1)]
    finally:
        for process in reversed(started):
            process.end()


print(subprocess.run([BUTTERFLY, "version"], capture_output=True, text=True).stdout.strip())
print(f"{options.streams} streams of {options.tokens} tokens, one after the other; a model of 8 small layers, not split")
for name, journal, standby in (("no journal", False, False), ("journal", True, False), ("journal and standby", True, True)):
    rows = measure(journal, standby)
    first, whole = sorted(row[0] for row in rows), sorted(row[1] for row in rows)
    print(f"{name:20}  first event {1e3 * statistics.median(first):6.2f} ms (90 %: {1e3 * first[int(0.9 * len(first))]:6.2f})   "
          f"whole stream {1e3 * statistics.median(whole):6.2f} ms (90 %: {1e3 * whole[int(0.9 * len(whole))]:6.2f})", flush=True)
