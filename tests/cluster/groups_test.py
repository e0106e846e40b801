#!/usr/bin/env python3
"""Nodes that share every layer: the bits of one machine on two to five of them, and over the loss of a member.

    groups_test.py BUTTERFLY WORK_FOLDER [KILLS]

The model has eight logical shards in each product that is summed over members: smaller ones would prove nothing.
"""
import os
import random
import signal
import sys

from harness import PROMPTS, Server, layers_of, make_model

BUTTERFLY, WORK = sys.argv[1], sys.argv[2]
KILLS = int(sys.argv[3]) if len(sys.argv) > 3 else 2
os.makedirs(WORK, exist_ok=True)
MODEL = make_model(BUTTERFLY, f"{WORK}/shards.gguf", "--layers", "4", "--dim", "512", "--hidden", "1024", "--heads", "8",
                   "--kv-heads", "4", "--vocab", "1024", "--context", "512", "--type", "q8_0")
SETTINGS = [{"temperature": 0}, {"temperature": 1, "top_p": 0.9}]


def serve(nodes, groups="off"):
    flags = ["-m", MODEL, "-c", "512"]
    cluster = ["--local-nodes", str(nodes), "--local-restarts", "0", "--groups", groups]
    return Server(BUTTERFLY, WORK, flags + (cluster if nodes else ["-t", "1"]), name=f"g{nodes}")


def same_on_every_group():
    expected = None
    for nodes in (0, 2, 3, 5):
        server = serve(nodes, str(nodes) if nodes else "off")
        try:
            found = [server.complete(prompt, **settings) for prompt in PROMPTS for settings in SETTINGS]
            if nodes:
                state = server.wait_serving(nodes)
                begins = {layers_of(n)["begin"] for n in state["nodes"]}
                assert begins == {0}, f"not all share all layers: {state['nodes']}"
            expected = expected or found
            assert found == expected, f"{nodes} nodes: other bits\n{found}\n{expected}"
            print(f"{nodes or 'no'} nodes share every layer: {len(found)} texts with the same tokens and logarithms")
        finally:
            assert server.end() == 0, server.text()


def same_after_losses():
    """A member dies; the others make another plan and go on with the tokens they would have had."""
    random.seed(5)
    length = 60
    plain = serve(0)
    try:
        expected = plain.stream(PROMPTS[0], length, temperature=0)
    finally:
        plain.end()
    left = KILLS
    while left > 0:
        server = serve(3, "3")
        try:
            server.wait_serving(3)
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
    print(f"{KILLS} members killed: same tokens")


same_on_every_group()
same_after_losses()
