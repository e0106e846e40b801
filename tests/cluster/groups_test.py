#!/usr/bin/env python3
"""Nodes that share layers: the bits of one machine on two to five of them, all in one group or in groups that form a chain,
and over the loss of members.

    groups_test.py BUTTERFLY WORK_FOLDER [KILLS [ARCHITECTURE]]

The model has eight logical shards in each product that is summed over members: smaller ones would prove nothing.
"""
import json
import os
import random
import signal
import subprocess
import sys

from harness import PROMPTS, Server, layers_of, make_model

BUTTERFLY, WORK = sys.argv[1], sys.argv[2]
KILLS = int(sys.argv[3]) if len(sys.argv) > 3 else 2
ARCHITECTURE = sys.argv[4] if len(sys.argv) > 4 else "llama"
os.makedirs(WORK, exist_ok=True)
MODEL = make_model(BUTTERFLY, f"{WORK}/shards-{ARCHITECTURE}.gguf", "--arch", ARCHITECTURE, "--layers", "4", "--dim", "512", "--hidden", "1024", "--heads", "8",
                   "--kv-heads", "4", "--vocab", "1024", "--context", "512", "--type", "q8_0")
SETTINGS = [{"temperature": 0}, {"temperature": 1, "top_p": 0.9}]
# Who has which pieces of the six, in eighths of each layer.
WRITTEN = """
[[stage]]
nodes = ["node-4", "node-2"]
shares = [3, 5]
pieces = 2
[[stage]]
node = "node-5"
pieces = 1
[[stage]]
nodes = ["node-1", "node-3"]
shares = [6, 2]
pieces = 3
"""


def serve(nodes, *cluster):
    flags = ["-m", MODEL, "-c", "512"]
    cluster = ["--local-nodes", str(nodes), "--local-restarts", "0", *cluster]
    return Server(BUTTERFLY, WORK, flags + (cluster if nodes else ["-t", "1"]), name=f"g{nodes}")


def stages_of(state):
    """How many nodes have a part of each stage, in the order of the chain."""
    begins = [layers_of(node)["begin"] for node in state["nodes"]]
    return [begins.count(begin) for begin in sorted(set(begins))]


def same_on_every_group():
    with open(f"{WORK}/written.toml", "w") as out:
        out.write(WRITTEN)
    expected = None
    for nodes, flags, stages in [(0, [], []), (2, ["--groups", "2"], [2]), (3, ["--groups", "3"], [3]), (5, ["--groups", "5"], [5]),
                                 (3, ["--groups", "2"], [1, 2]), (4, ["--groups", "2"], [2, 2]), (5, ["--groups", "2"], [1, 2, 2]),
                                 (5, ["--plan", f"{WORK}/written.toml"], [2, 1, 2])]:
        server = serve(nodes, *flags)
        try:
            found = [server.complete(prompt, **settings) for prompt in PROMPTS for settings in SETTINGS]
            if nodes:
                state = server.wait_serving(nodes)
                assert stages_of(state) == stages, f"{flags}: expected stages of {stages} nodes: {state['nodes']}"
                # What it gains is said before anything is loaded.
                text = "\n".join(server.lines)
                said, loaded = text.find(" shared: "), text.find("Serving ")
                assert "--plan" in flags or 0 <= said < loaded, text
            expected = expected or found
            assert found == expected, f"{nodes} nodes {flags}: other bits\n{found}\n{expected}"
            print(f"{nodes or 'no'} nodes {' '.join(flags[:1])}, stages of {stages}: {len(found)} texts with the same tokens and logarithms")
        finally:
            assert server.end() == 0, server.text()


def same_after_losses():
    """Members die; the others make another plan and go on with the tokens they would have had."""
    random.seed(5)
    length = 60
    plain = serve(0)
    try:
        expected = plain.stream(PROMPTS[0], length, temperature=0)
    finally:
        plain.end()
    left = KILLS
    for turn in range(KILLS):
        nodes, group = [(3, "3"), (4, "2"), (5, "2")][turn % 3]
        server = serve(nodes, "--groups", group)
        try:
            server.wait_serving(nodes)
            kills = min(left, 2)
            left -= kills
            for _ in range(kills):
                moment = random.randrange(1, length - 20)

                def on_token(count):
                    if count == moment:
                        os.kill(random.choice(server.workers()), signal.SIGKILL)

                found = server.stream(PROMPTS[0], length, on_token, temperature=0)
                assert found == expected, f"killed at token {moment}: other tokens\n{found}\n{expected}\n{server.text()}"
            server.complete(PROMPTS[1])
        finally:
            server.end()
        if left == 0:
            break
    print(f"{KILLS} members killed: same tokens")


def same_with_run():
    found = set()
    for nodes in ([], ["--local-nodes", "2"], ["--local-nodes", "2", "--groups", "2"], ["--local-nodes", "3", "--groups", "2"]):
        done = subprocess.run([BUTTERFLY, "run", MODEL, PROMPTS[0], "-n", "24", "--temp", "0.7", "-s", "5", "--ignore-eos", "-c", "128", "--json", *nodes],
                              check=True, capture_output=True, text=True)
        found.add(tuple(json.loads(done.stdout)["tokens"]))
    assert len(found) == 1, f"run: other tokens on several nodes: {found}"
    print("run: same tokens on several nodes")


same_with_run()
same_on_every_group()
same_after_losses()
