#!/usr/bin/env python3
"""A link between stages that passes nothing while something on the way acknowledges all that is sent (a middlebox that lost
its state, a machine in the middle that hangs): noticed, told by both names, planned around while it lasts, with the same bits.

    silence_test.py BUTTERFLY WORK_FOLDER [--groups]

Nobody mends the link before the streams have ended: whoever does not notice never ends.
"""
import json
import os
import shutil
import socket
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "chaos"))
from faulty_proxy import FaultyProxy  # noqa: E402
from harness import PROMPTS, SMALL, START_MAX_S, Process, Server, machine_env, make_model, unfailed_stream, write_capabilities  # noqa: E402

BUTTERFLY, WORK = sys.argv[1:3]
GROUPS = ["--groups", "3"] if "--groups" in sys.argv else []
TOKENS, NAMES = 150, ["b", "c"]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


shutil.rmtree(WORK, ignore_errors=True)
os.makedirs(WORK)
MODEL = make_model(BUTTERFLY, f"{WORK}/model.gguf", *SMALL)
CAPABILITIES = write_capabilities(BUTTERFLY, f"{WORK}/capabilities.json")
FLAGS = ["-m", MODEL, "-c", "512"]
EXPECTED = unfailed_stream(BUTTERFLY, WORK, FLAGS, TOKENS)


def machine(name):
    return machine_env(WORK, name, CAPABILITIES)


def run(silent, mode):
    """The way to one node falls silent under two streams."""
    address = f"127.0.0.1:{free_port()}"
    for name in ["a", *NAMES]:
        shutil.rmtree(f"{WORK}/{name}", ignore_errors=True)
    subprocess.run([BUTTERFLY, "init", "--name", "a", "--address", "127.0.0.1"], env=machine("a"), check=True, capture_output=True)
    server = Server(BUTTERFLY, WORK, [*FLAGS, "-t", "1", "--parallel", "2", "--cluster", "--cluster-listen", address, "--strategy", "uniform", *GROUPS],
                    name="a", env=machine("a"))
    token = json.loads(subprocess.run([BUTTERFLY, "token", "new", "--uses", "9", "--address", address, "--json"],
                                      env=machine("a"), check=True, capture_output=True).stdout)["token"]
    proxies, workers = {}, []
    try:
        for name in NAMES:
            listen = f"127.0.0.1:{free_port()}"
            proxies[name] = FaultyProxy(listen)
            workers.append(Process([BUTTERFLY, "join", address, "--token", token, "--name", name, "--listen", listen,
                                    "--advertise", proxies[name].address, "-t", "1"], env=machine(name)))
        server.wait_serving(3)
        found, fault = [None, None], threading.Event()

        def on_token(count):
            if count == 40 and not fault.is_set():
                fault.set()
                proxies[silent].mode = mode

        def read(index):
            found[index] = server.stream(PROMPTS[0], TOKENS, on_token=on_token, temperature=0)

        threads = [threading.Thread(target=read, args=(i,), daemon=True) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(START_MAX_S)
        assert found == [EXPECTED, EXPECTED], f"{silent}, {mode}: other tokens, or none\n{server.text()}"
        said = [e["text"] for e in server.cluster()["events"] if "trouble" in e["text"]]
        assert any(silent in text and "nothing has come from it" in text for text in said), f"{said}\n{server.text()}"
        assert not any("check failed" in line for process in [server, *workers] for line in process.lines)
        print(f"{mode} on the way to {silent}: the same tokens; {said[0]}", flush=True)
    finally:
        for proxy in proxies.values():
            proxy.mode = "pass"
        for process in [*workers, server]:
            process.end()
        for proxy in proxies.values():
            proxy.end()


run("b", "blackhole")
run("c", "blackhole_in")
