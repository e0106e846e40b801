#!/usr/bin/env python3
"""One result: the same bits on 1, 2, 3 and 5 local nodes, and while one of them is killed.

    bits_test.py BUTTERFLY WORK_FOLDER [KILLS]

KILLS: how often a random worker is killed at a random moment of a stream (default 2). Prints how long the next token
took each time; that is shown, not judged.
"""
import os
import random
import signal
import sys
import threading
import time

from harness import PROMPTS, SMALL, Server, make_model

BUTTERFLY, WORK = sys.argv[1], sys.argv[2]
KILLS = int(sys.argv[3]) if len(sys.argv) > 3 else 2
os.makedirs(WORK, exist_ok=True)
MODEL = make_model(BUTTERFLY, f"{WORK}/small.gguf", *SMALL)
SETTINGS = [{"temperature": 0}, {"temperature": 1, "top_p": 0.9}]


def serve(nodes):
    flags = ["-m", MODEL, "-c", "512"]
    # Who is killed here stays away; restart_test.py is about the others.
    cluster = ["--local-nodes", str(nodes), "--local-restarts", "0"]
    return Server(BUTTERFLY, WORK, flags + (cluster if nodes else ["-t", "1"]), name=f"n{nodes}")


def answers(server):
    return [server.complete(prompt, **settings) for prompt in PROMPTS for settings in SETTINGS]


def same_on_every_number_of_nodes():
    expected = None
    for nodes in (0, 1, 2, 3, 5):
        server = serve(nodes)
        try:
            found = answers(server)
            if nodes:
                server.wait_serving(nodes)
            expected = expected or found
            assert found == expected, f"{nodes} nodes: other bits\n{found}\n{expected}"
            print(f"{nodes or 'no cluster,'} nodes: {len(found)} texts with the same tokens and logarithms")
        finally:
            workers = server.workers()
            assert server.end() == 0, server.text()
        for pid in workers:
            assert not os.path.exists(f"/proc/{pid}"), "a worker outlived its parent"


def same_after_losses():
    """Streams go on over the loss of a worker with the tokens they would have had."""
    random.seed(11)
    length = 80
    plain = serve(0)
    try:
        expected = plain.stream(PROMPTS[0], length, temperature=0)
    finally:
        plain.end()
    gaps = []
    left = KILLS
    while left > 0:
        server = serve(3)
        try:
            kills = min(left, 2)  # of two workers
            left -= kills
            for _ in range(kills):
                moment = random.randrange(1, length - 20)
                times = []

                def on_token(count):
                    times.append(time.monotonic())
                    if count == moment:
                        os.kill(random.choice(server.workers()), signal.SIGKILL)

                found = server.stream(PROMPTS[0], length, on_token, temperature=0)
                assert found == expected, f"killed at token {moment}: other tokens\n{found}\n{expected}\n{server.text()}"
                after = times[moment - 1:]
                gaps.append(max(b - a for a, b in zip(after, after[1:])))
            server.complete(PROMPTS[1])
        finally:
            server.end()
    print(f"{KILLS} kills: same tokens; service back after {max(gaps):.2f} s at most, {sorted(gaps)[len(gaps) // 2]:.2f} s median")


def same_for_many_streams():
    """Eight sampled streams, prompts of unequal length, and every worker dies, one after the other."""
    length = 60
    prompts = [f"word{i} " * (10 + 15 * i) for i in range(8)]
    settings = [{"temperature": 0.8, "seed": i} for i in range(8)]
    plain = serve(0)
    try:
        expected = [plain.stream(p, length, **s) for p, s in zip(prompts, settings)]
    finally:
        plain.end()
    for _ in range(max(1, KILLS // 5)):
        server = serve(4)
        try:
            found = [None] * 8

            def run(i):
                found[i] = server.stream(prompts[i], length, **settings[i])

            threads = [threading.Thread(target=run, args=(i,)) for i in range(8)]
            for thread in threads:
                thread.start()
            for _ in range(3):
                time.sleep(random.random() * 0.15)
                os.kill(random.choice(server.workers()), signal.SIGKILL)
            for thread in threads:
                thread.join()
            assert found == expected, f"other tokens in {[i for i in range(8) if found[i] != expected[i]]}\n{server.text()}"
        finally:
            server.end()
    print(f"{max(1, KILLS // 5)} times: eight streams outlived three of four nodes with the same tokens")


same_on_every_number_of_nodes()
same_after_losses()
same_for_many_streams()
