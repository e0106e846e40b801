#!/usr/bin/env python3
"""What whoever runs a cluster meets: the wrong port, a plan of one's own, status from any machine, a node behind a firewall,
a node removed that has not been seen. On loopback, with real TLS.

    operator_test.py BUTTERFLY WORK_FOLDER
"""
import json
import os
import re
import shutil
import subprocess
import sys
import time

from harness import PROMPTS, SMALL, Process, Server, layers_of, machine_env, make_model, write_capabilities

BUTTERFLY, WORK = sys.argv[1], sys.argv[2]
shutil.rmtree(WORK, ignore_errors=True)
os.makedirs(f"{WORK}/model")
MODEL = make_model(BUTTERFLY, f"{WORK}/model/small.gguf", *SMALL)  # 8 blocks: 10 pieces
CAPABILITIES = write_capabilities(BUTTERFLY, f"{WORK}/capabilities.json")
FLAGS = ["-m", MODEL, "-c", "512", "-t", "1"]


def machine(name):
    return machine_env(WORK, name, CAPABILITIES)


def run(name, *words, **more):
    return subprocess.run([BUTTERFLY, *words], env=machine(name), capture_output=True, text=True, **more)


def token(address):
    return json.loads(run("a", "token", "new", "--address", address, "--json").stdout)["token"]


def wait_until(what, true, seconds=180):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"not after {seconds} s: {what}"
        time.sleep(0.05)


made = run("a", "init", "--name", "a", "--address", "127.0.0.1", "--json")
assert made.returncode == 0, made.stderr
made = json.loads(made.stdout)
plain = Server(BUTTERFLY, WORK, FLAGS, name="plain", env=machine("plain"))
expected = plain.complete(PROMPTS[0], temperature=0)
plain.end()
processes = []


def join(name, *words):
    node = Process([BUTTERFLY, "join", *words, "-t", "1"], env=machine(name))
    processes.append(node)
    node.wait_for("works for")
    return node


# A plan of one's own: faults of the file at once, nodes that are not there are waited for.
plan = f"{WORK}/plan.toml"


def write_plan(*stages):
    with open(plan, "w") as out:
        for node, pieces in stages:
            out.write(f"[[stage]]\nnode = '{node}'\npieces = {pieces}\n")


cluster = ["--cluster", "--cluster-listen", "127.0.0.1:0", "--port", "0"]
write_plan(("b", 4), ("a", 5))
wrong = run("a", "serve", *FLAGS, *cluster, "--plan", plan, timeout=120)
assert wrong.returncode != 0 and "expected 10 together" in wrong.stderr, wrong.stderr
write_plan(("a", 6), ("b", 4))
wrong = run("a", "serve", *FLAGS, *cluster, "--plan", plan, timeout=120)
assert wrong.returncode != 0 and "expected 'a' for the last stage" in wrong.stderr, wrong.stderr

write_plan(("b", 7), ("a", 3))
server = Server(BUTTERFLY, WORK, [*FLAGS, *cluster[:3], "--plan", plan], name="a", env=machine("a"), ready=False)
try:
    address = server.wait_for(r"nodes join at (\S+)")[1]
    server.wait_for("waiting for b of .*plan.toml")
    state = json.loads(run("a", "status", "--json", "--management", server.socket).stdout)
    assert not state["serving"] and "waiting for b of" in state["reason"], state["reason"]
    print("waits by name:", state["reason"])
    b = join("b", address, "--token", made["token"], "--name", "b")
    server.wait_ready()
    state = server.wait_serving(2)
    layers = {n["name"]: (layers_of(n)["begin"], layers_of(n)["end"]) for n in state["nodes"]}
    assert layers == {"b": (0, 7), "a": (7, 10)}, layers
    assert server.complete(PROMPTS[0], temperature=0) == expected, server.text()
    print("a plan of one's own, to the letter:", layers)

    # The HTTP port is not the cluster's: said at once, with the right one.
    start = time.monotonic()
    wrong = run("c", "join", f"127.0.0.1:{server.port}", "--token", token(address), "--name", "c", timeout=60)
    port = address.rsplit(":", 1)[1]
    assert wrong.returncode != 0 and f"this is an HTTP port; the cluster's port there is {port}" in wrong.stderr, wrong.stderr
    print(f"the wrong port, after {time.monotonic() - start:.1f} s:", wrong.stderr.strip().splitlines()[-1])

    # A node that can call and cannot be called: it says so itself, status says so, doctor says so there and here.
    laptop = join("laptop", address, "--token", token(address), "--name", "laptop", "--advertise", "127.0.0.1:9")
    laptop.wait_for(r"[ab] cannot reach this node at 127\.0\.0\.1:9: .*the cluster plans around it\. To mend it: ")
    wait_until("status names the pair", lambda: server.cluster()["unreachable"])
    text = run("a", "status", "--management", server.socket).stdout
    assert re.search(r"unreachable: [ab] cannot reach laptop at 127\.0\.0\.1:9", text) and "ufw allow 9/tcp" in text, text
    looked = json.loads(run("laptop", "doctor", "--json").stdout)
    assert any(row["check"] == "reach" and "cannot reach this node at 127.0.0.1:9" in row["text"] for row in looked), looked
    assert server.complete(PROMPTS[0], temperature=0) == expected, server.text()
    laptop.end()
    wait_until("it is forgotten with the node", lambda: not server.cluster()["unreachable"])
    print("a node that nobody reaches knows it")

    # Status from any machine.
    asked = run("b", "status", "--json")
    assert asked.returncode == 0, asked.stderr
    assert "as the coordinator at" in asked.stderr, asked.stderr
    assert {n["name"] for n in json.loads(asked.stdout)["nodes"]} >= {"a", "b"}, asked.stdout
    d = join("d", address, "--token", token(address), "--name", "d")
    d.end()
    server.end()
    wait_until("b says what it knows", lambda: "cannot be asked" in run("b", "status").stdout)
    asked = run("b", "status")
    assert asked.returncode != 0 and "as it sees itself" in asked.stdout, asked.stdout
    print("without a coordinator:", asked.stdout.strip().splitlines()[1])

    # After a restart of the coordinator: d has not been seen since, and is removed all the same.
    server = Server(BUTTERFLY, WORK, [*FLAGS, "--cluster", "--cluster-listen", address, "--strategy", "uniform"], name="a", env=machine("a"))
    assert "d" not in {n["name"] for n in server.cluster()["nodes"]}
    state = server.wait_serving(2)
    assert state["links"] and not any(e["kind"] == "measured" for e in state["events"]), state["events"]
    print("links were not measured again:", state["links"][0]["rtt_s"], "s")
    removed = run("a", "node", "remove", "d", "--management", server.socket)
    assert removed.returncode == 0, removed.stderr
    again = Process([BUTTERFLY, "join", "-t", "1"], env=machine("d"))
    processes.append(again)
    again.wait_for("was removed from the cluster")
    assert again.process.wait(60) != 0
    print("removed without having been seen since the restart")
finally:
    for process in processes:
        if process.process.poll() is None:
            process.end()
    if server.process.poll() is None:
        status = server.end()
        assert status == 0, server.text()
