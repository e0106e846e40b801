#!/usr/bin/env python3
"""The second turn of an agent's long conversation: tokens read and time to the first token, before and after a restart.

    second_turn.py BUTTERFLY MODEL WORK_FOLDER [--tokens 16000] [--more 200] [--threads 2] [--llama-server FILE] [--node-modules FOLDER]

The prompt of the second turn is that of the first, `more` tokens longer. Ours through the server's HTTP, with --keep-prefixes over a
restart. With llama-server also that one, with a restart in which it is told nothing, and with one before and after which a client
saves and restores its slot (--slot-save-path). With a folder of npm packages that has node-llama-cpp also llama.cpp through it, without
HTTP. Loopback only, servers that this starts and ends.
"""
import argparse
import asyncio
import json
import os
import random
import shutil
import socket
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "serve"))
from http_load import Server, ask, butterfly  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("butterfly")
parser.add_argument("model")
parser.add_argument("work")
parser.add_argument("--tokens", type=int, default=16000)
parser.add_argument("--more", type=int, default=200)
parser.add_argument("--vocab", type=int, default=4000, help="ids are below it")
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--llama-server")
parser.add_argument("--node-modules")
options = parser.parse_args()
KEPT = f"{options.work}/kept"


def start(*flags):
    return butterfly(options.butterfly, options.model, "-t", options.threads, "-c", options.tokens + 1024, "--management", f"{options.work}/socket",
                     *flags, log=f"{options.work}/server.log")


def turn(server, name, prompt):
    """The time is that to the first text of a stream."""
    answer = asyncio.run(ask(server.port, "/v1/completions", {"prompt": prompt, "max_tokens": 8, "temperature": 0, "ignore_eos": True, "stream": True,
                                                              "stream_options": {"include_usage": True}}))
    assert answer.status == 200, answer.body[:300]
    usage = answer.usage
    read = usage["prompt_tokens"] - usage["prompt_tokens_details"]["cached_tokens"]
    print(f"butterfly, {name}: {read} of {usage['prompt_tokens']} tokens read, first token after {answer.first * 1e3:.0f} ms", flush=True)


def race_llama_server(first, second):
    slots = f"{options.work}/slots"
    shutil.rmtree(slots, ignore_errors=True)
    os.makedirs(slots)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def start_llama():
        return Server([options.llama_server, "-m", options.model, "-t", options.threads, "-c", options.tokens + 1024, "-np", 1, "--host", "127.0.0.1",
                       "--port", port, "--slot-save-path", slots], port=port, log=f"{options.work}/llama-server.log")

    def llama_turn(name, prompt):
        answer = asyncio.run(ask(port, "/completion", {"prompt": prompt, "n_predict": 8, "temperature": 0, "ignore_eos": True, "stream": True,
                                                       "cache_prompt": True}))
        assert answer.status == 200, answer.body[:300]
        print(f"llama-server, {name}: {answer.timings['prompt_n']} of {len(prompt)} tokens read, first token after {answer.first * 1e3:.0f} ms", flush=True)

    def slot(action):
        answer = asyncio.run(ask(port, f"/slots/0?action={action}", {"filename": "slot.bin"}))
        assert answer.status == 200, answer.body[:300]
        print(f"llama-server, {action} of its slot: {answer.total * 1e3:.0f} ms", flush=True)

    server = start_llama()
    llama_turn("first turn", first)
    llama_turn("second turn", second)
    server.stop(120)
    server = start_llama()
    llama_turn("first turn again", first)
    slot("save")
    server.stop(120)
    server = start_llama()
    llama_turn("second turn after a restart", second)
    server.stop(120)
    server = start_llama()
    slot("restore")
    llama_turn("second turn after a restart and a restored slot", second)
    server.stop(120)


def main():
    os.makedirs(options.work, exist_ok=True)
    shutil.rmtree(KEPT, ignore_errors=True)
    rng = random.Random(1)
    second = [rng.randrange(300, options.vocab) for _ in range(options.tokens + options.more)]
    first = second[: options.tokens]
    server = start("--keep-prefixes", KEPT)
    turn(server, "first turn", first)
    turn(server, "second turn", second)
    server.stop(120)
    # As a restart between the two turns would find it.
    shutil.rmtree(KEPT)
    server = start("--keep-prefixes", KEPT)
    turn(server, "first turn again", first)
    server.stop(120)
    server = start("--keep-prefixes", KEPT)
    turn(server, "second turn after a restart", second)
    server.stop(120)
    if options.llama_server:
        race_llama_server(first, second)
    if options.node_modules:
        job = f"{options.work}/job.json"
        with open(job, "w") as out:
            json.dump({"model": options.model, "threads": options.threads, "context": options.tokens + 1024, "turns": [first, second]}, out)
        done = subprocess.run(["node", str(Path(__file__).with_name("second_turn.mjs")), options.node_modules, job], capture_output=True, text=True, check=True)
        found = json.loads(done.stdout.splitlines()[-1])
        for name, one in zip(("first turn", "second turn", "second turn after a restart"), [*found["together"], found["restarted"]]):
            print(f"llama.cpp, {name}: {one['read']} tokens read, first token after {one['first_ms']:.0f} ms", flush=True)


main()
