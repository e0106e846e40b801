#!/usr/bin/env python3
"""The coordinator is killed under streams and started again: its nodes keep their weights, and every client goes on where
it was, with Last-Event-ID. No token is lost or comes twice.

    journal_test.py BUTTERFLY WORK_FOLDER [KILLS]
"""
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import time

from harness import PROMPTS, Process, Server, machine_env, make_model, write_capabilities
from resuming import INTERFACES, SETTINGS, ResumingClient, check_all, interface_stream, wait_until_reached

BUTTERFLY, WORK = sys.argv[1], sys.argv[2]
KILLS = int(sys.argv[3]) if len(sys.argv) > 3 else 2
os.makedirs(WORK, exist_ok=True)
TOKENS, STREAMS = 200, 4
MODEL = make_model(BUTTERFLY, f"{WORK}/model.gguf", "--layers", "8", "--dim", "128", "--hidden", "256", "--heads", "4")
CAPABILITIES = write_capabilities(BUTTERFLY, f"{WORK}/capabilities.json")


def machine(name):
    return machine_env(WORK, name, CAPABILITIES)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


ADDRESS = f"127.0.0.1:{free_port()}"


def serve():
    return Server(BUTTERFLY, WORK, ["-m", MODEL, "-c", "512", "-t", "1", "--cluster", "--cluster-listen", ADDRESS, "--strategy",
                                    "uniform", "--journal", f"{WORK}/journal"], name="a", env=machine("a"))


plain = Server(BUTTERFLY, WORK, ["-m", MODEL, "-c", "512", "-t", "1"], name="plain")
try:
    expected = [plain.stream(PROMPTS[i % 2], TOKENS, **SETTINGS[i]) for i in range(4)]
finally:
    plain.end()

for name in "ab":
    shutil.rmtree(f"{WORK}/{name}", ignore_errors=True)
if os.path.exists(f"{WORK}/journal"):
    os.unlink(f"{WORK}/journal")
done = subprocess.run([BUTTERFLY, "init", "--name", "a", "--address", "127.0.0.1", "--json"], env=machine("a"), capture_output=True, text=True)
assert done.returncode == 0, done.stderr
server, node = serve(), None
try:
    token = json.loads(subprocess.run([BUTTERFLY, "token", "new", "--address", ADDRESS, "--json"], env=machine("a"), check=True,
                                      capture_output=True).stdout)["token"]
    node = Process([BUTTERFLY, "join", ADDRESS, "--token", token, "--name", "b", "-t", "1"], env=machine("b"))
    server.wait_serving(2)
    random.seed(3)
    resumed, back = 0, []
    for kill in range(KILLS):
        clients = [ResumingClient(i, TOKENS, lambda: [server]) for i in range(STREAMS)]
        wait_until_reached(clients, random.randint(5, TOKENS // 2))
        server.kill()
        began = time.monotonic()
        server = serve()
        back.append(time.monotonic() - began)
        resumed += check_all(clients, expected, server.text)[0]
        server.wait_serving(2)
    assert resumed > 0
    back.sort()
    print(f"killed {KILLS} times under {STREAMS} streams: {resumed} resumed, no token lost or doubled; serving again after "
          f"{back[len(back) // 2]:.1f} s (median), {back[-1]:.1f} s (worst)")
    # The other interfaces, whose pieces look otherwise.
    for path in INTERFACES:
        whole, _ = interface_stream(server, path, server.model)
        begun, place = interface_stream(server, path, server.model, pieces=7)
        assert begun == whole[:7] and place, (path, begun, place)
        server.kill()
        server = serve()
        rest, _ = interface_stream(server, path, server.model, place=place)
        assert begun + rest == whole and len(rest) > 0, f"{path}: {begun} {rest} {whole}"
    print(f"{len(INTERFACES)} other interfaces: streams go on after the kill, piece for piece")
    # What was never asked here cannot be taken up.
    status, answer = server.request("GET", "/v1/streams?after=cmpl-none:3")
    assert status == 404, (status, answer)
    status, answer = server.request("GET", "/v1/streams")
    assert status == 400, (status, answer)
finally:
    if node is not None:
        node.end()
    assert server.end() == 0, server.text()
