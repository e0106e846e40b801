"""Clients of a cluster that is hurt, and what they saw: the history that check_history.py judges."""
import http.client
import json
import os
import random
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cluster"))
from harness import PROMPTS, START_MAX_S  # noqa: E402

GAP_S = 0.02  # shorter times without a token are no stall
SETTINGS = [{"temperature": 0}, {"temperature": 0.9, "seed": 11}]


class Clients:
    """Streams without a pause, each resumed where its connection ends early. Writes the history."""

    def __init__(self, cluster, pauses, streams, tokens, aborts, pause):
        self.tokens, self.aborts, self.pause, self.open = tokens, aborts, pause, set()
        self.cluster, self.pauses, self.history, self.lock, self.ended, self.count = cluster, pauses, [], threading.Lock(), False, 0
        self.last, self.gaps = {}, []  # of streams that are open: when something came; (from, to) of long times in which nothing did
        self.began = time.monotonic()
        self.threads = [threading.Thread(target=self.run, args=(i,)) for i in range(streams)]
        for thread in self.threads:
            thread.start()

    def note(self, stream, prompt, event, **more):
        with self.lock:
            now = round(time.monotonic() - self.began, 4)
            self.history.append({"stream": stream, "prompt": prompt, "t": now, "event": event, **more})
            before = self.last.get(stream, now)
            if now - before > GAP_S:
                self.gaps.append((before, now))
            if event in ("done", "error", "left"):
                self.last.pop(stream, None)
            elif event in ("token", "begin"):
                self.last[stream] = now

    def run(self, index):
        while not self.ended:
            with self.lock:
                self.count += 1
                stream = self.count
                self.open.add(stream)
            prompt = (stream + index) % 4
            self.note(stream, prompt, "begin")
            state = {"last": None, "done": False, "leaves": random.randint(1, self.tokens) if random.random() < self.aborts else None}
            limit = self.pauses.awake + START_MAX_S
            while not state["done"]:
                try:
                    self.read(stream, prompt, state)
                except (OSError, http.client.HTTPException):
                    time.sleep(0.05)
                if self.pauses.awake > limit and not state["done"]:
                    self.note(stream, prompt, "error", text=f"no end after {START_MAX_S} s, at {state['last']}")
                    break
            with self.lock:
                self.open.discard(stream)
            time.sleep(self.pause)

    def wait_for_those_open(self):
        """All that were asked for until now have ended."""
        with self.lock:
            until = set(self.open)
        limit = time.monotonic() + START_MAX_S
        while until & self.open and time.monotonic() < limit:
            time.sleep(0.05)

    def read(self, stream, prompt, state):
        server = self.cluster.server
        connection = http.client.HTTPConnection(server.host, server.port, timeout=30)
        if state["last"] is None:
            connection.request("POST", "/v1/completions", json.dumps({
                "prompt": PROMPTS[prompt % 2], "max_tokens": self.tokens, "stream": True, "ignore_eos": True, "logprobs": 1,
                **SETTINGS[prompt // 2]}), {"Content-Type": "application/json"})
        else:
            self.note(stream, prompt, "resume", behind=state["last"])
            connection.request("GET", "/v1/streams", headers={"Last-Event-ID": state["last"]})
        answer = connection.getresponse()
        if answer.status in (429, 503) and state["last"] is None:
            answer.read()
            time.sleep(0.1)
            return
        if answer.status == 404 and self.pauses.within(self.began + self.last[stream], time.monotonic()):
            self.note(stream, prompt, "left")  # this client stood still for longer than a server waits for one
            state["done"] = True
            return
        if answer.status != 200:
            self.note(stream, prompt, "error", text=f"{answer.status}: {answer.read().decode()}")
            state["done"] = True
            return
        pending, number = [], None
        for line in answer:
            line = line.decode().rstrip("\n")
            if line.startswith("id: "):
                number = line[4:]
            elif line.startswith("data: ") and line != "data: [DONE]":
                event = json.loads(line[6:])
                if "error" in event:
                    self.note(stream, prompt, "error", text=json.dumps(event["error"]))
                    state["done"] = True
                    return
                for choice in event["choices"]:
                    logs = choice.get("logprobs") or {}
                    pending += zip(logs.get("tokens") or [], logs.get("token_logprobs") or [])
            elif line == "data: [DONE]":
                state["done"] = True
            elif line == "":
                # An event counts when all of it is here: then its number is what is resumed behind.
                for token, logprob in pending:
                    self.note(stream, prompt, "token", token=token, logprob=logprob)
                    if state["leaves"] is not None:
                        state["leaves"] -= 1
                pending = []
                state["last"] = number or state["last"]
                if state["leaves"] == 0:
                    connection.close()
                    self.note(stream, prompt, "left")
                    state["done"] = True
                    return
        connection.close()
        if state["done"]:
            self.note(stream, prompt, "done")

    def end(self):
        self.ended = True
        for thread in self.threads:
            thread.join(2 * START_MAX_S)

    def stall(self, since, until):
        """The longest time without a token of a stream that was open, in this while."""
        with self.lock:
            return max((end - begin for begin, end in self.gaps if end >= since and begin <= until), default=0.0)
