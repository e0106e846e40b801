"""Clients that go on with their streams wherever the cluster is led now: every token once, in order."""
import http.client
import json
import threading
import time

from harness import PROMPTS, START_MAX_S

SETTINGS = [{"temperature": 0}, {"temperature": 0.9, "seed": 5}, {"temperature": 0}, {"temperature": 0.7, "seed": 6}]


class ResumingClient:
    """Reads a stream, and asks for the rest of it whenever the connection ends early, of each of `servers()` in turn."""

    def __init__(self, number, tokens, servers, timeout=60):
        self.number, self.tokens, self.servers, self.timeout = number, tokens, servers, timeout
        self.texts, self.last, self.done, self.resumed, self.error = [], None, False, 0, None
        self.places, self.server = [], None  # the number of every event that counted, and who sent it
        self.stall, self.heard = 0.0, None
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        end = time.monotonic() + START_MAX_S
        turn = 0
        while not self.done and self.error is None:
            servers = self.servers()
            turn += 1
            if servers:
                try:
                    self.read(servers[turn % len(servers)])
                except (OSError, http.client.HTTPException):  # the server is gone
                    pass
                except Exception as error:  # the thread must not end without a word
                    self.error = f"{type(error).__name__}: {error}, behind {self.last}"
            if time.monotonic() > end:
                self.error = f"not done after {START_MAX_S} s: {self.last}"
            time.sleep(0.02)

    def read(self, server):
        self.server = server
        connection = http.client.HTTPConnection(server.host, server.port, timeout=self.timeout)
        if self.last is None:
            connection.request("POST", "/v1/completions", json.dumps({
                "prompt": PROMPTS[self.number % 2], "max_tokens": self.tokens, "stream": True, "ignore_eos": True,
                "logprobs": 1, **SETTINGS[self.number % 4]}), {"Content-Type": "application/json"})
        else:
            connection.request("GET", "/v1/streams", headers={"Last-Event-ID": self.last})
        answer = connection.getresponse()
        if answer.status != 200:
            text = answer.read().decode()
            if answer.status not in (429, 503):
                self.error = f"{answer.status}: {text}"
            return
        self.resumed += self.last is not None
        number, data = None, None
        for line in answer:
            line = line.decode().rstrip("\n")
            if line.startswith("id: "):
                number = line[4:]
            elif line.startswith("data: "):
                data = line[6:]
            elif line == "":
                # An event counts when all of it is here, the empty line too: its number is what is resumed behind.
                if data is not None and not self.take(number, data):
                    return
                number, data = None, None
        connection.close()

    def story(self):
        """Which events came from which port, for a stream that is not as it should be."""
        rows = []
        for number, port in self.places:
            number = int(number.rsplit(":", 1)[1]) if number else 0
            if rows and rows[-1][2] == port and rows[-1][1] + 1 == number:
                rows[-1][1] = number
            else:
                rows.append([number, number, port])
        return ", ".join(f"{first} to {last} of {port}" for first, last, port in rows)

    def take(self, number, data):
        """A whole event. False: the answer ends with it, and nothing of it counts."""
        event = None if data == "[DONE]" else json.loads(data)
        if event is not None and "error" in event:
            if number is not None:  # else "the server is shutting down", say: not a part of the answer
                self.error = event
            return False
        self.places.append((number, self.server.port))
        if number is not None:
            place, before = int(number.rsplit(":", 1)[1]), int(self.last.rsplit(":", 1)[1]) if self.last else 0
            if place != before + 1:
                self.error = f"event {place} came behind {before}: {self.story()}"
                return False
            self.last = number
        if event is None:
            self.done = True
            return True
        now = time.monotonic()
        if self.heard is not None:
            self.stall = max(self.stall, now - self.heard)
        self.heard = now
        for choice in event["choices"]:
            logs = choice.get("logprobs") or {}
            self.texts += list(zip(logs.get("tokens") or [], logs.get("token_logprobs") or []))
        return True


def wait_until_reached(clients, tokens):
    end = time.monotonic() + START_MAX_S
    while max(len(c.texts) for c in clients) < tokens:
        assert time.monotonic() < end and not any(c.error for c in clients), [c.error for c in clients]
        time.sleep(0.005)


def check_all(clients, expected, text=lambda: ""):
    """All of them are whole and right; how many were resumed, and the longest stall."""
    resumed, stall = 0, 0.0
    for client in clients:
        client.thread.join(START_MAX_S)
        assert client.error is None, f"{client.error}\n{text()}"
        whole = expected[client.number % 4]
        same = next((i for i, pair in enumerate(zip(client.texts, whole)) if pair[0] != pair[1]), min(len(client.texts), len(whole)))
        assert client.done and client.texts == whole, \
            f"stream {client.number}: {len(client.texts)} tokens of {len(whole)}, the first {same} as they should be, done: {client.done}, " \
            f"{client.resumed} resumed, last event {client.last}; events: {client.story()}\n{text()}"
        resumed += client.resumed
        stall = max(stall, client.stall)
    return resumed, stall


# Where other interfaces have the text of a piece.
INTERFACES = {
    "/v1/responses": ({"input": "Say something.", "max_output_tokens": 60, "temperature": 0}, lambda piece: piece.get("delta") if piece["type"] == "response.output_text.delta" else None),
    "/v1/messages": ({"messages": [{"role": "user", "content": "Say something."}], "max_tokens": 60, "temperature": 0.8, "seed": 2},
                     lambda piece: piece["delta"].get("text") if piece["type"] == "content_block_delta" else None),
    "/api/chat": ({"messages": [{"role": "user", "content": "Say something."}], "options": {"num_predict": 60, "seed": 4}},
                  lambda piece: piece["message"]["content"] or None),
    "/api/generate": ({"prompt": "Say something.", "options": {"num_predict": 60, "temperature": 0}}, lambda piece: piece["response"] or None),
}


def interface_stream(server, path, model, pieces=None, place=None):
    """Texts of a stream, at most so many, and the place behind the last of them: "id:number"; `place`: goes on from there."""
    body, text_of = INTERFACES[path]
    connection = http.client.HTTPConnection(server.host, server.port, timeout=60)
    if place is None:
        connection.request("POST", path, json.dumps(body | {"model": model, "stream": True, "ignore_eos": True}), {"Content-Type": "application/json"})
    else:
        connection.request("GET", f"/v1/streams?after={place}")
    answer = connection.getresponse()
    assert answer.status == 200, f"{path}: {answer.status}: {answer.read()}"
    texts, number = [], None
    lines = answer.getheader("X-Stream-Id")
    seen = int(place.rsplit(":", 1)[1]) if place else 0
    for line in answer:
        line = line.decode().rstrip("\n")
        if line.startswith("id: "):
            number = line[4:]
        if lines is None and not line.startswith("data: ") or not line:
            continue
        piece = json.loads(line if lines else line[6:])
        seen += 1
        place = f"{lines}:{seen}" if lines else number
        text = text_of(piece)
        if text is not None:
            texts.append(text)
        if pieces is not None and len(texts) >= pieces:
            break
    connection.close()
    return texts, place
