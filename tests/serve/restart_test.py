#!/usr/bin/env python3
"""The second turn of a long conversation with an agent, before and after a restart of the server.

    restart_test.py BUTTERFLY WORK_FOLDER [--tokens N] [--arch NAME] [--dim N --layers N]

On loopback, with a server that this starts. Prints how many tokens of the second turn's prompt were read and the time to its first
token: in the same process, after a restart with --keep-prefixes, and after one without. Fails when answers differ, or when a kept
conversation is read again. Times are shown, not judged.
"""
import argparse
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

parser = argparse.ArgumentParser()
parser.add_argument("butterfly")
parser.add_argument("work")
parser.add_argument("--tokens", type=int, default=2000)
parser.add_argument("--arch", default="llama")
parser.add_argument("--dim", type=int, default=256)
parser.add_argument("--layers", type=int, default=4)
parser.add_argument("--threads", default="2")
options = parser.parse_args()
BUTTERFLY, WORK = options.butterfly, options.work


class Server:
    def __init__(self, *flags):
        start = time.monotonic()
        self.process = subprocess.Popen([BUTTERFLY, "serve", "-m", f"{WORK}/m.gguf", "--port", "0", "--management", f"{WORK}/socket",
                                         "-t", options.threads, *flags], stderr=subprocess.PIPE)
        line = b""
        while b" at http" not in line:
            line = self.process.stderr.readline()
            if not line:
                sys.exit("the server did not start")
            if b"texts of up to" in line:
                print("  " + line.decode().strip())
        self.port = int(re.search(rb":(\d+) ", line).group(1))
        self.started = time.monotonic() - start
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def stop(self):
        start = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(120) == 0
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


def main():
    os.makedirs(WORK, exist_ok=True)
    shutil.rmtree(f"{WORK}/kept", ignore_errors=True)
    context = 1 << (options.tokens + 1024).bit_length()
    subprocess.run([BUTTERFLY, "make-model", f"{WORK}/m.gguf", "--arch", options.arch, "--dim", str(options.dim), "--hidden", str(4 * options.dim),
                    "--layers", str(options.layers), "--heads", "4", "--vocab", "400", "--context", str(context), "--type", "q8_0"],
                   check=True, stderr=subprocess.DEVNULL)
    words = " ".join(f"tool{i} reads the file number {i * 7 % 1000} and says what is in it." for i in range(options.tokens))
    first = [{"role": "system", "content": words[: options.tokens]}, {"role": "user", "content": "Begin."}]
    kept = ("--keep-prefixes", f"{WORK}/kept")
    server = Server(*kept)
    said, time_first, usage = ask(server.port, first)
    second = first + [{"role": "assistant", "content": said}, {"role": "user", "content": "Go on with the next file."}]
    print(f"first turn: {usage['prompt_tokens']} tokens read, first token after {time_first * 1e3:.0f} ms")
    def show(name, found):
        cached = found[2]["prompt_tokens_details"]["cached_tokens"]
        print(f"second turn, {name}: {found[2]['prompt_tokens'] - cached} of {found[2]['prompt_tokens']} tokens read, "
              f"first token after {found[1] * 1e3:.0f} ms", flush=True)
        return cached

    took = server.stop()
    print(f"ended within {took:.1f} s, {sum(os.path.getsize(f'{WORK}/kept/{n}') for n in os.listdir(f'{WORK}/kept')) >> 20} MiB kept")
    server = Server(*kept)
    restarted = ask(server.port, second)
    cached = show("after a restart with --keep-prefixes", restarted)
    assert cached > usage["prompt_tokens"] * 0.9, "a kept conversation was read again"
    again = ask(server.port, second + [{"role": "assistant", "content": restarted[0]}, {"role": "user", "content": "And the next."}])
    show("in the same process (a third one)", again)
    server.stop()
    server = Server()
    fresh = ask(server.port, second)
    assert show("after a restart without", fresh) == 0
    server.stop()
    assert fresh[0] == restarted[0], "kept beginnings changed the answer"


main()
