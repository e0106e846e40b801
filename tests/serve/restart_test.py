#!/usr/bin/env python3
"""The second turn of a long conversation with an agent, before and after a restart of the server.

    restart_test.py BUTTERFLY WORK_FOLDER [--tokens N] [--arch NAMES] [--dim N --layers N]

On loopback, with a server that this starts. Prints how many tokens of the second turn's prompt were read and the time to its first
token: in the same process, after a restart with --keep-prefixes, and after one without. Fails when answers differ, or when a kept
conversation is read again. Times are shown, not judged.
"""
import argparse
import http.client
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench/serve"))
from http_load import butterfly  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("butterfly")
parser.add_argument("work")
parser.add_argument("--tokens", type=int, default=2000)
parser.add_argument("--arch", default="llama,gemma3,qwen35,lfm2", help="one or several, with commas")
parser.add_argument("--dim", type=int, default=256)
parser.add_argument("--layers", type=int, default=4)
parser.add_argument("--threads", default="2")
options = parser.parse_args()
BUTTERFLY, WORK = options.butterfly, options.work


def start(*flags):
    return butterfly(BUTTERFLY, f"{WORK}/m.gguf", "--management", f"{WORK}/socket", "-t", options.threads, *flags, log=f"{WORK}/server.log")


def stop(server):
    """Seconds it took."""
    start = time.monotonic()
    assert server.stop(120) == 0
    return time.monotonic() - start


def ask(port, messages):
    """Answer, time to the first piece of text, and the usage."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1200)
    start = time.monotonic()
    body = {"messages": messages, "max_tokens": 32, "temperature": 0, "ignore_eos": True, "stream": True, "stream_options": {"include_usage": True}}
    connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()[:300]
    text, first, usage = "", None, None
    for line in answer:
        if not line.startswith(b"data: {"):
            continue
        piece = json.loads(line[6:])
        assert "error" not in piece, piece
        usage = piece.get("usage") or usage
        for choice in piece["choices"]:
            if choice["delta"].get("content"):
                first = first or time.monotonic() - start
                text += choice["delta"]["content"]
    connection.close()
    return text, first, usage


def show(name, found):
    cached = found[2]["prompt_tokens_details"]["cached_tokens"]
    print(f"  second turn, {name}: {found[2]['prompt_tokens'] - cached} of {found[2]['prompt_tokens']} tokens read, "
          f"first token after {found[1] * 1e3:.0f} ms", flush=True)
    return cached


def conversation(arch):
    shutil.rmtree(f"{WORK}/kept", ignore_errors=True)
    context = 1 << (options.tokens + 1024).bit_length()
    subprocess.run([BUTTERFLY, "make-model", f"{WORK}/m.gguf", "--arch", arch, "--dim", str(options.dim), "--hidden", str(4 * options.dim),
                    "--layers", str(options.layers), "--heads", "4", "--vocab", "400", "--context", str(context), "--type", "q8_0"],
                   check=True, stderr=subprocess.DEVNULL)
    words = " ".join(f"tool{i} reads the file number {i * 7 % 1000} and says what is in it." for i in range(options.tokens))
    first = [{"role": "system", "content": words[: options.tokens]}, {"role": "user", "content": "Begin."}]
    kept = ("--keep-prefixes", f"{WORK}/kept")
    server = start(*kept)
    said, time_first, usage = ask(server.port, first)
    print(f"{arch}, first turn: {usage['prompt_tokens']} tokens read, first token after {time_first * 1e3:.0f} ms")
    second = first + [{"role": "assistant", "content": said}, {"role": "user", "content": "Go on with the next file."}]
    took = stop(server)
    print(f"  ended within {took:.1f} s, {sum(os.path.getsize(f'{WORK}/kept/{n}') for n in os.listdir(f'{WORK}/kept')) >> 20} MiB kept")
    server = start(*kept)
    restarted = ask(server.port, second)
    cached = show("after a restart with --keep-prefixes", restarted)
    assert cached > usage["prompt_tokens"] * 0.9, f"{arch}: a kept conversation was read again"
    stop(server)
    server = start()
    fresh = ask(server.port, second)
    assert show("after a restart without", fresh) == 0
    stop(server)
    assert fresh[0] == restarted[0], f"{arch}: kept beginnings changed the answer"
    server = start()
    assert ask(server.port, first)[0] == said, f"{arch}: the same question got another answer"
    same = ask(server.port, second)
    show("in the same process", same)
    assert same[0] == fresh[0], f"{arch}: the cache of the first turn changed the answer"
    stop(server)


def main():
    os.makedirs(WORK, exist_ok=True)
    for arch in options.arch.split(","):
        conversation(arch)


main()
