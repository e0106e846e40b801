#!/usr/bin/env python3
"""The coordinator is killed under streams and started again: its nodes keep their weights, and every client goes on where
it was, with Last-Event-ID. No token is lost or comes twice.

    journal_test.py BUTTERFLY WORK_FOLDER [KILLS]
"""
import http.client
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import threading
import time

from harness import PROMPTS, START_MAX_S, Process, Server, machine_env, make_model, write_capabilities

BUTTERFLY, WORK = sys.argv[1], sys.argv[2]
KILLS = int(sys.argv[3]) if len(sys.argv) > 3 else 2
os.makedirs(WORK, exist_ok=True)
TOKENS, STREAMS = 200, 4
MODEL = make_model(BUTTERFLY, f"{WORK}/model.gguf", "--layers", "8", "--dim", "128", "--hidden", "256", "--heads", "4")
CAPABILITIES = write_capabilities(BUTTERFLY, f"{WORK}/capabilities.json")
SETTINGS = [{"temperature": 0}, {"temperature": 0.9, "seed": 5}, {"temperature": 0}, {"temperature": 0.7, "seed": 6}]


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


class Client:
    """Reads a stream, and asks for the rest of it whenever the connection ends early."""

    def __init__(self, number):
        self.number, self.texts, self.last, self.done, self.resumed, self.error = number, [], None, False, 0, None
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        end = time.monotonic() + START_MAX_S
        while not self.done and self.error is None:
            try:
                self.read()
            except (OSError, http.client.HTTPException):  # the server is gone
                pass
            if time.monotonic() > end:
                self.error = f"not done after {START_MAX_S} s: {self.last}"
            time.sleep(0.02)

    def read(self):
        connection = http.client.HTTPConnection(server.host, server.port, timeout=60)
        if self.last is None:
            connection.request("POST", "/v1/completions", json.dumps({
                "prompt": PROMPTS[self.number % 2], "max_tokens": TOKENS, "stream": True, "ignore_eos": True, "logprobs": 1,
                **SETTINGS[self.number % 4]}), {"Content-Type": "application/json"})
        else:
            connection.request("GET", "/v1/streams", headers={"Last-Event-ID": self.last})
        answer = connection.getresponse()
        if answer.status != 200:
            text = answer.read().decode()
            if answer.status not in (429, 503):
                self.error = f"{answer.status}: {text}"
            return
        self.resumed += self.last is not None
        number = None
        for line in answer:
            line = line.decode().rstrip("\n")
            if line.startswith("id: "):
                number = line[4:]
            elif line == "data: [DONE]":
                self.done = True
            elif line.startswith("data: "):
                event = json.loads(line[6:])
                if "error" in event:
                    self.error = event
                    return
                for choice in event["choices"]:
                    logs = choice.get("logprobs") or {}
                    self.texts += list(zip(logs.get("tokens") or [], logs.get("token_logprobs") or []))
            elif line == "" and number is not None:
                self.last = number
        connection.close()


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
        clients = [Client(i) for i in range(STREAMS)]
        reached = random.randint(5, TOKENS // 2)
        end = time.monotonic() + START_MAX_S
        while max(len(c.texts) for c in clients) < reached:
            assert time.monotonic() < end and not any(c.error for c in clients), [c.error for c in clients]
            time.sleep(0.005)
        server.kill()
        began = time.monotonic()
        server = serve()
        back.append(time.monotonic() - began)
        for client in clients:
            client.thread.join(START_MAX_S)
            assert client.error is None, f"{client.error}\n{server.text()}"
            assert client.done and client.texts == expected[client.number % 4], \
                f"stream {client.number}: {len(client.texts)} tokens, {client.resumed} resumed\n{server.text()}"
            resumed += client.resumed
        server.wait_serving(2)
    assert resumed > 0
    back.sort()
    print(f"killed {KILLS} times under {STREAMS} streams: {resumed} resumed, no token lost or doubled; serving again after "
          f"{back[len(back) // 2]:.1f} s (median), {back[-1]:.1f} s (worst)")
    # What was never asked here cannot be taken up.
    status, answer = server.request("GET", "/v1/streams?after=cmpl-none:3")
    assert status == 404, (status, answer)
    status, answer = server.request("GET", "/v1/streams")
    assert status == 400, (status, answer)
finally:
    if node is not None:
        node.end()
    assert server.end() == 0, server.text()
