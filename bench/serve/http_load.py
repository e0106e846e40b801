"""Requests to a server on this machine, many at once, with their times. For the scripts beside and under peers/."""
import asyncio
import atexit
import json
import math
import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field


signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # servers are ended when a script is


@dataclass
class Answer:
    status: int = 0                              # 0: the connection was cut
    headers: dict = field(default_factory=dict)  # names in small letters
    body: bytes = b""
    tokens: int = 0                              # generated, as the server counts them
    usage: dict = field(default_factory=dict)    # all that the server counted, of a stream that was asked for it
    timings: dict = field(default_factory=dict)  # llama-server's own, of a stream
    first: float = math.nan                      # seconds until the answer began; of a stream: until its first text
    total: float = math.nan                      # until it was whole
    begin: float = math.nan                      # on the clock of time.monotonic()


def percentile(values, share):
    """The value below which this share of them lies; nan if there are none."""
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))] if values else math.nan


def is_text(line):
    """Whether a line of a stream is a piece with text in it."""
    if not line.startswith(b"data: {"):
        return False
    piece = json.loads(line[6:])
    if piece.get("content"):  # llama-server's own form
        return True
    choices = piece.get("choices") or []
    return bool(choices) and bool(choices[0].get("text") or (choices[0].get("delta") or {}).get("content"))


async def read_stream(reader, answer):
    """Server-sent events until their end; chunk sizes are lines that are no events."""
    async for line in reader:
        if math.isnan(answer.first) and is_text(line):
            answer.first = time.monotonic() - answer.begin
        if line.startswith(b'data: {') and b'"usage"' in line:
            usage = json.loads(line[6:]).get("usage")
            answer.usage = usage or answer.usage
            answer.tokens = usage["completion_tokens"] if usage else answer.tokens
        if line.startswith(b'data: {') and b'"tokens_predicted"' in line:
            end = json.loads(line[6:])
            answer.tokens = end["tokens_predicted"]
            answer.timings = end.get("timings", answer.timings)
        if line.startswith(b"data: [DONE]"):
            return
        answer.body = line if line.strip() else answer.body  # the last one, for messages


async def ask(port, path, body=None):
    """One request on a connection of its own."""
    answer = Answer(begin=time.monotonic())
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return answer
    try:
        data = json.dumps(body).encode() if body is not None else b""
        method = "POST" if body is not None else "GET"
        writer.write((f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                      f"Content-Length: {len(data)}\r\nConnection: close\r\n\r\n").encode() + data)
        line = await reader.readline()
        answer.status = int(line.split()[1]) if line.startswith(b"HTTP/") else 0
        while (line := await reader.readline()) not in (b"\r\n", b""):
            name, _, value = line.decode().partition(":")
            answer.headers[name.lower()] = value.strip()
        if answer.status == 200 and body is not None and body.get("stream"):
            await read_stream(reader, answer)
        else:
            answer.first = time.monotonic() - answer.begin
            answer.body = await reader.read()
            if answer.status == 200 and answer.body.startswith(b"{"):
                answer.tokens = json.loads(answer.body).get("usage", {}).get("completion_tokens", 0)
    except (OSError, asyncio.IncompleteReadError):
        answer.status = 0
    finally:
        writer.close()
    answer.total = time.monotonic() - answer.begin
    return answer


async def together(port, path, bodies):
    return await asyncio.gather(*(ask(port, path, body) for body in bodies))


class Server:
    """A process that serves. `ready`: a pattern for the line of its output that gives the port, or None if it is `port`."""

    def __init__(self, command, port=0, ready=None, log=None, wait_s=300):
        self.log = open(log or os.devnull, "wb")
        self.process = subprocess.Popen([str(c) for c in command], stdout=self.log,
                                        stderr=subprocess.PIPE if ready else self.log)
        atexit.register(self.kill)  # however the script ends
        self.port = port
        if ready:
            self.port = self._read_port(ready)
        deadline = time.monotonic() + wait_s
        while asyncio.run(ask(self.port, "/health")).status != 200:
            if self.process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"{command[0]} did not start; see {log}")
            time.sleep(0.1)

    def _read_port(self, ready):
        for line in self.process.stderr:
            self.log.write(line)
            if match := re.search(ready, line):
                # What follows goes to the log as well, or the pipe would fill up.
                threading.Thread(target=lambda: [self.log.write(more) for more in self.process.stderr], daemon=True).start()
                return int(match.group(1))
        sys.exit(f"{self.process.args[0]} ended before it served")

    def stop(self, wait_s=20):
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(wait_s)
        except subprocess.TimeoutExpired:
            return self.kill()

    def kill(self):
        self.process.kill()
        return self.process.wait()


def butterfly(binary, model, *flags, log=None):
    return Server([binary, "serve", "-m", model, "--port", 0, *flags], ready=rb"at http://[^:]+:(\d+)", log=log)
