#!/usr/bin/env python3
"""The client that other tests resume streams with, against a server that breaks off at every byte of its answer: no token may be
lost or come twice because of the client.

    resuming_test.py
"""
import json
import re
import socket
import threading

from resuming import ResumingClient

EVENTS = 4
WANTED = [(f"t{i}", -float(i)) for i in range(1, EVENTS + 1)]


def answer(after):
    """The rest of a stream behind event `after`, as a server sends it."""
    events = [json.dumps({"choices": [{"logprobs": {"tokens": [token], "token_logprobs": [logprob]}}]}) for token, logprob in WANTED]
    pieces = [f"id: s:{i + 1}\ndata: {data}\n\n".encode() for i, data in enumerate([*events, "[DONE]"])]
    body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in [b": ping\n\n", *pieces[after:]])
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body + b"0\r\n\r\n"


class BreakingServer:
    """Ends its first answer after so many bytes; the ones behind it are whole."""

    def __init__(self, size):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.host, self.port = self.listener.getsockname()
        self.size = size
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            with client:
                after = re.search(r"Last-Event-ID: s:(\d+)", client.recv(65536).decode())
                client.sendall(answer(int(after[1]) if after else 0)[:self.size])
                self.size = None

    def end(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()


cuts = range(len(answer(0)) + 1)
for first in range(0, len(cuts), 64):
    servers = [BreakingServer(size) for size in cuts[first:first + 64]]
    clients = [ResumingClient(0, EVENTS, lambda s=server: [s], timeout=30) for server in servers]
    for server, client in zip(servers, clients):
        client.thread.join()
        server.end()
    for size, client in zip(cuts[first:], clients):
        assert client.error is None and client.done and client.texts == WANTED, \
            f"broken off after {size} bytes: {client.texts}, done: {client.done}, error: {client.error}, {client.story()}"
print(f"broken off at each of {len(cuts)} places: every token once")
