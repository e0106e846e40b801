#!/usr/bin/env python3
"""What strangers may try with the server: it must live, stay small and go on serving.

    abuse_test.py BUTTERFLY WORK_FOLDER [NAME...]

Only on this machine's loopback, against a server this script starts. Prints for each attack what came of it: growth of
resident memory, and the time of good requests meanwhile (median and 99th percentile of 200) against those just before. Fails when
the process dies, when memory grows by more than 256 MiB, when a good request fails, or when something leaks. Times are shown,
not judged. Attackers run in a process of their own that comes last for the CPU: they would have machines of their own.
"""
import atexit
import json
import os
import random
import re
import resource
import select
import signal
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time

BUTTERFLY, WORK = sys.argv[1], sys.argv[2]
ONLY = sys.argv[3:]
GROWTH_MAX = 256 << 20
GOOD = json.dumps({"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 32, "temperature": 0, "ignore_eos": True}).encode()
GOOD_COUNT = 200
# A published model whose vocabulary has no braces; where it is not there, this is left out.
BRACELESS = os.path.join(os.path.dirname(__file__), "../../../shared/data/models/tinystories-656k/tinystories-656k-f32.gguf")


def set_template(source, target, template):
    """A copy of a GGUF file with a chat template: one more key in its head."""
    data = open(source, "rb").read()
    count_tensors, count_keys = struct.unpack_from("<QQ", data, 8)
    at = 24
    sizes = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}

    def skip_text(at):
        return at + 8 + struct.unpack_from("<Q", data, at)[0]

    def skip_value(kind, at):
        if kind == 8:
            return skip_text(at)
        if kind == 9:
            inner, count = struct.unpack_from("<IQ", data, at)
            at += 12
            if inner in sizes:
                return at + sizes[inner] * count
            for _ in range(count):
                at = skip_value(inner, at)
            return at
        return at + sizes[kind]

    for _ in range(count_keys):
        at = skip_text(at)
        kind, = struct.unpack_from("<I", data, at)
        at = skip_value(kind, at + 4)
    tensors = at
    for _ in range(count_tensors):
        at = skip_text(at)
        dims, = struct.unpack_from("<I", data, at)
        at += 4 + 8 * dims + 4 + 8
    begin = (at + 31) // 32 * 32
    key = b"tokenizer.chat_template"
    text = template.encode()
    more = struct.pack("<Q", len(key)) + key + struct.pack("<IQ", 8, len(text)) + text
    head = data[:16] + struct.pack("<Q", count_keys + 1) + data[24:tensors] + more + data[tensors:at]
    with open(target, "wb") as out:
        out.write(head + b"\0" * (-len(head) % 32) + data[begin:])


class Server:
    def __init__(self, *flags, management=f"{WORK}/socket"):
        self.log = open(f"{management.replace('socket', 'server')}.log", "wb")
        self.process = subprocess.Popen(
            [BUTTERFLY, "serve", "--port", "0", "--management", management, "-t", "1", *flags], stderr=subprocess.PIPE)
        atexit.register(self.process.kill)  # however this ends
        line = b""
        while b" at http" not in line:
            line = self.process.stderr.readline()
            if not line:
                sys.exit("the server did not start")
        self.port = int(re.search(rb":(\d+) ", line).group(1))
        self.tail = []
        threading.Thread(target=self.drain, daemon=True).start()

    def drain(self):
        for line in self.process.stderr:
            self.log.write(line)

    def status(self, key):
        for line in open(f"/proc/{self.process.pid}/status"):
            if line.startswith(key):
                return int(line.split()[1]) << 10
        return 0

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def alive(self):
        return self.process.poll() is None

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(90)


def connect(port, timeout=120):  # attackers come last for the CPU, and so does what they ask for
    s = socket.create_connection(("127.0.0.1", port), timeout)
    return s


def head(path, length, more=""):
    return (f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {length}\r\nConnection: close\r\n{more}\r\n").encode()


def read_all(s):
    data = b""
    try:
        while True:
            piece = s.recv(65536)
            if not piece:
                break
            data += piece
    except OSError:
        pass
    return data


def post(port, body, path="/v1/chat/completions", more=""):
    """Status and body; status 0 when the connection was cut."""
    s = connect(port)
    try:
        s.sendall(head(path, len(body), more) + body)
    except OSError:
        pass
    data = read_all(s)
    s.close()
    return (int(data[9:12]) if data.startswith(b"HTTP/1.1 ") else 0), data.partition(b"\r\n\r\n")[2]


class Times:
    def __init__(self, times):
        self.median = statistics.median(times)
        self.p99 = sorted(times)[max(0, (len(times) * 99 + 99) // 100 - 1)]

    def against(self, normal):
        return (f"median {self.median * 1e3:.1f} ms ({self.median / normal.median:.2f} x), "
                f"p99 {self.p99 * 1e3:.1f} ms ({self.p99 / normal.p99:.2f} x)")


def good_times(port, count=GOOD_COUNT):
    times = []
    for _ in range(count):
        start = time.monotonic()
        status, body = post(port, GOOD)
        times.append(time.monotonic() - start)
        if status != 200:
            raise AssertionError(f"a good request was answered {status}: {body[:300]}")
    return Times(times)


def half_open(server, during):
    sockets = []
    for i in range(5000):
        s = connect(server.port)
        s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nX-Half: " if i % 2 else head("/v1/chat/completions", 1 << 20) + b"{" * 64)
        sockets.append(s)
    during()
    for s in sockets:
        s.close()


def idle(server, during):
    sockets = [connect(server.port) for _ in range(10000)]
    during()
    for s in sockets:
        s.close()


def large_body(server, during):
    s = connect(server.port)
    s.sendall(head("/v1/chat/completions", 1 << 30))
    sent = 0
    try:
        while sent < 1 << 30:
            if select.select([s], [], [], 0)[0]:
                break
            sent += s.send(b" " * 65536)
    except OSError:
        pass
    answer = read_all(s)
    assert answer.startswith(b"HTTP/1.1 413"), answer[:200]
    s.close()
    s = connect(server.port)
    s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
    sent = 0
    try:
        while sent < 1 << 30 and not select.select([s], [], [], 0)[0]:
            s.sendall(b"10000\r\n" + b" " * 65536 + b"\r\n")
            sent += 65536
    except OSError:
        pass
    answer = read_all(s)
    assert answer.startswith(b"HTTP/1.1 413") or sent < 64 << 20, answer[:200]
    s.close()
    # Many bodies that never end, 7 MiB each.
    sockets = []
    for _ in range(64):
        s = connect(server.port)
        try:
            s.settimeout(2)
            s.sendall(head("/v1/chat/completions", 8 << 20) + b" " * (7 << 20))
        except OSError:
            pass
        sockets.append(s)
    during()
    for s in sockets:
        s.close()


def expect(server, body, status, words=b""):
    found, answer = post(server.port, body)
    assert found == status, (found, answer[:300])
    assert words in answer, answer[:300]


def bad_json(server, during):
    expect(server, b"[" * 1_000_000, 400, b"nested deeper")
    expect(server, b'{"a":' * 1_000_000, 400, b"nested deeper")
    expect(server, b'{"messages":[{"role":"user","content":"\xff\xfe"}]}', 400, b"UTF-8")
    expect(server, b'{"messages":[{"role":"user","content":"\\ud800"}]}', 400)
    numbers, lists = b"[" + b"0," * 4_000_000 + b"0]", b"[" + b"[]," * 2_500_000 + b"0]"
    expect(server, numbers, 400, b"values")
    expect(server, lists, 400, b"values")

    def attack():
        for body in (numbers, lists, b"[" * 1_000_000):
            status, answer = post(server.port, body)
            assert status in (400, 429), (status, answer[:300])

    beside(during, attack)


def bad_numbers(server, during):
    base = {"messages": [{"role": "user", "content": "x"}]}
    for more in ({"n": 10**6}, {"n": -1}, {"max_tokens": -7}, {"max_tokens": 10**30}, {"temperature": -1}, {"top_p": 2}, {"top_k": -9},
                 {"seed": 10**40}, {"top_logprobs": -1}, {"logprobs": True, "top_logprobs": 10**9}, {"repeat_penalty": 0},
                 {"logit_bias": {"-1": 5}}, {"logit_bias": {str(i): 1 for i in range(5000)}}, {"stop": ["x"] * 1000}, {"n": 1.5},
                 {"presence_penalty": 1e308}, {"stop": "y" * 100000}, {"messages": []}, {"messages": [[]]}, {"tools": [1]}):
        expect(server, json.dumps({**base, **more}).encode(), 400)
    beside(during, lambda: expect(server, json.dumps({**base, "logit_bias": {str(i): 1 for i in range(5000)}}).encode(), 400))


def deep_grammars(server, during):
    base = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 4}
    deep = 60_000
    for grammar in ("root ::= " + "(" * deep + '"a"' + ")" * deep, "root ::= " + "(" * deep,
                    "\n".join(f"r{i} ::= r{i + 1}" for i in range(deep)) + f'\nr{deep} ::= "a"\nroot ::= r0', "root ::= root", "root ::= \"a\"{1000000000}"):
        status, answer = post(server.port, json.dumps({**base, "grammar": grammar}).encode())
        assert status in (200, 400), (status, answer[:300])
    schema = {}
    for _ in range(40):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    # Each part within its limit, together minutes and gigabytes without a bound on the whole.
    patterns = {"allOf": [{"properties": {f"p{i}": {"pattern": f"\\p{{L}}{{3}}[a-f]{{0,9}}x{i}"}}} for i in range(4000)]}
    ways = {"properties": {f"n{i}": {} for i in range(2000)}, "allOf": [{"anyOf": [{"required": [f"a{i}"]}, {"required": [f"b{i}"]}]} for i in range(8)]}
    nested = {"allOf": [{"oneOf": [{"pattern": f"[a-z]{{0,{50 + i}}}x"}, {"minLength": i}]} for i in range(60)]}
    def send(format):
        status, answer = post(server.port, json.dumps({**base, "response_format": {"type": "json_schema", "json_schema": {"schema": format}}}).encode())
        assert status in (200, 400, 429), (status, answer[:300])

    formats = (schema, patterns, ways, nested, {"$ref": "#"}, {"enum": list(range(20000))}, {"type": "string", "pattern": "(a*)*" * 50}, {"allOf": [{"$ref": "#"}]})
    for format in formats:
        send(format)
    beside(during, lambda: [send({**format, "title": str(random.random())}) for format in formats])


def templates(server, during):
    """The model's own template calls itself, and another never ends."""
    for model in ("selfcall", "endless", "huge"):
        status, answer = post(server.port, json.dumps({"model": model, "messages": [{"role": "user", "content": "x"}]}).encode())
        assert status == 400 and b"chat template" in answer, (status, answer[:300])

    def attack():
        for model in ("selfcall", "endless", "huge"):
            status, answer = post(server.port, json.dumps({"model": model, "messages": [{"role": "user", "content": "x"}]}).encode())
            assert status in (400, 429), (status, answer[:300])

    beside(during, attack, 2)


def aborted(server, during):
    before = server.descriptors()
    rng = random.Random(1)
    body = json.dumps({"messages": [{"role": "user", "content": "Hello"}], "stream": True, "ignore_eos": True}).encode()
    request = head("/v1/chat/completions", len(body)) + body

    def worker(count):
        for _ in range(count):
            s = connect(server.port)
            s.sendall(request)
            if rng.random() < 0.5:
                select.select([s], [], [], rng.random() * 0.02)
            s.close()

    threads = [threading.Thread(target=worker, args=(1250,)) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    deadline = time.monotonic() + 60
    while True:
        out = subprocess.run([BUTTERFLY, "ps", "--management", f"{WORK}/socket", "--json"], capture_output=True, text=True, check=True)
        state = json.loads(out.stdout)[0]
        model = state["models"][0]
        left = (model["running"], model["waiting"], model["pages_used"], max(0, server.descriptors() - before))
        if left == (0, 0, 0, 0) and state["open_requests"] <= 1:
            break
        assert time.monotonic() < deadline, f"running, waiting, pages, descriptors that stay: {left}"
        time.sleep(0.05)
    during()


def beside(during, attack, threads=4):
    """Runs the attack again and again, in threads of another process, while good requests are timed."""
    to_parent, to_child = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.close(to_parent[0])
        os.close(to_child[1])
        os.nice(19)
        ended = threading.Event()
        failures = []
        counts = [0] * threads

        def work(index):
            while not ended.is_set():
                try:
                    attack()
                    counts[index] += 1
                except AssertionError as error:
                    failures.append(str(error))
                    return
                except OSError:
                    pass

        workers = [threading.Thread(target=work, args=(i,)) for i in range(threads)]
        for worker in workers:
            worker.start()
        os.read(to_child[0], 1)
        ended.set()
        for worker in workers:
            worker.join()
        os.write(to_parent[1], (failures[0][:2000] if failures else f"ran {sum(counts)}").encode())
        os._exit(0)
    os.close(to_parent[1])
    os.close(to_child[0])
    time.sleep(0.3)  # until they are at it
    try:
        during()
    finally:
        os.close(to_child[1])
        said = b""
        while piece := os.read(to_parent[0], 4096):
            said += piece
        os.close(to_parent[0])
        os.waitpid(child, 0)
    assert said.startswith(b"ran "), said.decode() or "the attacker died"
    assert said != b"ran 0", "nothing was tried"


def many_keys(server, during):
    """Objects whose keys cost more the more there are."""
    def keys(count):
        return b"{" + b",".join(b'"k%d":0' % i for i in range(count)) + b"}"

    base = b'{"messages":[{"role":"user","content":"x"}],"max_tokens":1,'
    allowed, many, schema = base + b'"metadata":' + keys(16_000) + b"}", base + b'"a":' + keys(200_000) + b"}", \
        base + b'"response_format":{"type":"json_schema","json_schema":{"schema":{"properties":' + keys(16_000) + b"}}}}"
    expect(server, many, 400, b"keys")

    def attack():
        status, answer = post(server.port, allowed)
        assert status in (200, 429), (status, answer[:300])
        status, answer = post(server.port, schema)
        assert status in (200, 400, 429), (status, answer[:300])

    beside(during, attack)


def bodies_of_gets(server, during):
    """Bodies for routes that read none, and lines between chunks that never end."""
    held = []
    for _ in range(8):
        s = connect(server.port)
        try:
            s.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8388608\r\n\r\n" + b" " * 8388607)
        except OSError:
            pass
        held.append(s)
    for method, path in ((b"GET", b"/health"), (b"POST", b"/v1/chat/completions")):
        s = connect(server.port)
        s.sendall(method + b" " + path + b" HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1;")
        sent = 0
        try:
            while sent < 200 << 20 and not select.select([s], [], [], 0)[0]:
                sent += s.send(b"a" * 65536)
        except OSError:
            pass
        answer = read_all(s)
        assert answer.startswith(b"HTTP/1.1 400") or sent < 16 << 20, (sent, answer[:200])
        s.close()
    s = connect(server.port)
    s.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert read_all(s).startswith(b"HTTP/1.1 200"), "health while others hold bodies"
    s = connect(server.port)
    s.sendall(b"HEAD /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert read_all(s).endswith(b"\r\n\r\n"), "HEAD got a body"
    during()
    for s in held:
        s.close()


def pieces(server, during):
    body = json.dumps({"content": "a b" * (256 << 10), "with_pieces": True}).encode()

    def attack():
        status, answer = post(server.port, body, "/tokenize")
        assert status in (200, 429), (status, answer[:200])

    beside(during, attack, 2)


def costly_templates(server, during):
    """Operations that cost more than they seem to."""
    def attack():
        for model in ("ljust", "batch", "strip"):
            status, answer = post(server.port, json.dumps({"model": model, "messages": [{"role": "user", "content": "a" * 200_000}]}).encode())
            assert status in (400, 429), (model, status, answer[:300])

    attack()
    beside(during, attack, 2)


def costly_rules(server, during):
    """Grammars and schemas whose masks take long: they hold up their own requests only.

    What is left is that steps are shared: shown beside it is the time beside as many ordinary requests.
    """
    base = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 20, "temperature": 0}
    ambiguous = {**base, "grammar": 'root ::= "a" root "b" root | [a-z] root root | [a-z]*'}  # 0.1 s and more for a mask
    wide = {"anyOf": [{"type": "object", "properties": {f"p{i}": {"type": "string", "minLength": i % 7}}, "required": [f"p{i}"]} for i in range(120)]}
    open_ended = {**base, "response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "array", "uniqueItems": True, "items": wide}}}}

    def attack():
        for body in (ambiguous, open_ended):
            status, answer = post(server.port, json.dumps(body).encode())
            assert status in (200, 429, 503) or b"cannot be finished" in answer, (status, answer[:300])

    def shared():
        status, answer = post(server.port, json.dumps({**base, "ignore_eos": True}).encode())
        assert status == 200, (status, answer[:300])

    ordinary = []
    beside(lambda: ordinary.append(good_times(server.port)), shared, 3)
    print(f"beside three ordinary requests: median {ordinary[0].median * 1e3:.1f}, p99 {ordinary[0].p99 * 1e3:.1f} ms", flush=True)
    beside(during, attack, 3)


def kept_promises(server, during):
    """What is called JSON of a schema is that, or it is an error, or it was cut and says so."""
    odd = {"type": "object", "maxProperties": 1, "patternProperties": {"^...a$": True}, "additionalProperties": False, "not": {"patternProperties": {"^11": False}}}
    plain = {"type": "object", "properties": {"count": {"type": "integer"}, "on": {"type": "boolean"}}, "required": ["count", "on"], "additionalProperties": False}
    for seed in range(12):
        for schema in (odd, plain):
            body = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 60, "seed": seed, "response_format": {"type": "json_schema", "json_schema": {"schema": schema}}}
            status, answer = post(server.port, json.dumps(body).encode())
            assert status in (200, 400), (status, answer[:300])
            if status == 200:
                choice = json.loads(answer)["choices"][0]
                if choice["finish_reason"] == "stop":
                    text = choice["message"]["content"]
                    value = json.loads(text)
                    assert not re.search(r"\s", re.sub(r'"(\\.|[^"\\])*"', '""', text)), f"not compact: {text}"
                    if schema is odd:
                        assert len(value) == 1 and list(value)[0].startswith("11"), text
    if os.path.exists(BRACELESS):
        status, answer = post(server.port, json.dumps({**json.loads(GOOD), "model": "braceless", "response_format": {"type": "json_object"}}).encode())
        assert status == 400 and b"vocabulary" in answer, (status, answer[:300])
    expect(server, json.dumps({**json.loads(GOOD), "regex": "[^\\s\\S]"}).encode(), 400, b"no text matches")
    forced = {**json.loads(GOOD), "max_tokens": 7, "tool_choice": "required", "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"t": {"type": "string", "minLength": 300}}, "required": ["t"]}}}]}
    status, answer = post(server.port, json.dumps(forced).encode())
    choice = json.loads(answer)["choices"][0]
    assert status == 200 and choice["finish_reason"] == "length" and not choice["message"]["content"], answer[:300]
    during()


def words(server, during):
    """Nothing is ignored that a client relies on, and no words of libraries come back."""
    base = json.loads(GOOD)
    for more, word in (({"functions": [{"name": "f"}]}, b"tools"), ({"temperature": 9}, b"temperature"), ({"tools": [{"function": {"name": "f"}}] * 2}, b"twice"),
                       ({"guided_json": 7}, b"guided_json"), ({"tools": [{"function": {"name": "f", "strict": "yes"}}]}, b"strict")):
        status, answer = post(server.port, json.dumps({**base, **more}).encode())
        assert status == 400 and word in answer and b"json.exception" not in answer and b"tools: tools" not in answer, (status, answer[:300])
    status, answer = post(server.port, b'{"a":1,}')
    assert status == 400 and b"json.exception" not in answer, answer[:300]
    # Controls of a terminal in a path, which the log shows.
    s = connect(server.port)
    s.sendall("GET /\u009b31mred%C2%9B HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    read_all(s)
    during()
    server.log.flush()
    log = open(f"{WORK}/server.log", "rb").read()
    assert b"\xc2\x9b" not in log and b"\x1b" not in log, "controls in the log"


def slow_reader(server, during):
    """A client that reads slowly, but reads, gets all of a long answer."""
    ids = [65] * 200_000
    body = json.dumps({"tokens": ids}).encode()

    def attack():
        s = connect(server.port)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.sendall(head("/detokenize", len(body)) + body)
        data = b""
        while True:
            piece = s.recv(65536)
            if not piece:
                break
            data += piece
            time.sleep(0.005)
        assert data.startswith(b"HTTP/1.1 200") and data.endswith(b"}"), data[:100]

    beside(during, attack)


def another_server(server, during):
    """What is decided at the start: lazy loading, keys that do not see each other, files that others may write."""
    keys = f"{WORK}/keys"
    with open(keys, "w") as out:
        out.write("bf-0123456789abcdef\nbf-fedcba9876543210\n")
    os.chmod(keys, 0o644)
    refused = subprocess.run([BUTTERFLY, "serve", "-m", f"{WORK}/m.gguf", "--port", "0", "--api-key-file", keys], capture_output=True, text=True, timeout=60)
    assert refused.returncode != 0 and "chmod 600" in refused.stderr, refused.stderr
    os.chmod(keys, 0o600)
    slow = f"{WORK}/slow.gguf"  # cannot be loaded: asked for, it is tried again and again
    with open(slow, "wb") as out:
        out.write(b"GGUF" + b"\xff" * 4096)
    flags = ["--lazy", "-m", f"tiny={WORK}/m.gguf", "-m", f"slow={slow}", "--api-key-file", keys, "--api-key", "bf-in-the-command-line"]
    other = Server(*flags, management=f"{WORK}/other-socket")
    try:
        shown = open(f"/proc/{other.process.pid}/cmdline", "rb").read()
        assert b"bf-in-the-command-line" not in shown, "a key is shown by ps"
        prompt = {"model": "tiny", "prompt": "x" * 300, "max_tokens": 1}

        def cached(key):
            status, answer = post(other.port, json.dumps(prompt).encode(), "/v1/completions", f"Authorization: Bearer {key}\r\n")
            assert status == 200, answer[:300]
            return json.loads(answer)["usage"]["prompt_tokens_details"]["cached_tokens"]

        assert cached("bf-0123456789abcdef") == 0 and cached("bf-0123456789abcdef") > 0
        assert cached("bf-fedcba9876543210") == 0, "one key sees what another sent"
        waiting = []
        for _ in range(8):
            s = connect(other.port)
            body = json.dumps({"model": "slow", "prompt": "x", "max_tokens": 1}).encode()
            s.sendall(head("/v1/completions", len(body), "Authorization: Bearer bf-0123456789abcdef\r\n") + body)
            waiting.append(s)
        time.sleep(0.2)
        cached("bf-0123456789abcdef")  # served while eight wait for a model
        during()
        for s in waiting:
            assert read_all(s).startswith(b"HTTP/1.1 503"), "a model that cannot be loaded"
            s.close()
    finally:
        other.process.kill()
        other.process.wait()


def listeners(server, during):
    """Those who listen to a cluster's events are so many at most, HEAD of a stream has no body, and a quiet log is quiet."""
    other = Server("-m", f"tiny={WORK}/m.gguf", "--local-nodes", "2", "--log-level", "warn", management=f"{WORK}/events-socket")
    try:
        request = b"GET /cluster/events HTTP/1.1\r\nHost: localhost\r\n\r\n"
        listening, refused = [], 0
        for _ in range(200):
            s = connect(other.port)
            s.sendall(request)
            answer = s.recv(4096)
            if answer.startswith(b"HTTP/1.1 200"):
                listening.append(s)
            else:
                assert answer.startswith(b"HTTP/1.1 429") or answer.startswith(b"HTTP/1.1 503"), answer[:200]
                refused += 1
                s.close()
        assert 0 < len(listening) <= 64 and refused > 0, f"{len(listening)} listen"
        s = connect(other.port)
        s.sendall(request.replace(b"GET", b"HEAD").replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert read_all(s).endswith(b"\r\n\r\n"), "HEAD of a stream got a body"
        during()
        assert good_times(other.port, 3).median > 0
        for s in listening:
            s.close()
    finally:
        other.stop()
    other.log.flush()
    assert b" info " not in open(f"{WORK}/events-server.log", "rb").read(), "--log-level warn logs more"


ATTACKS = {
    "listeners to events, HEAD of a stream, a quiet log": listeners,
    "objects of many keys": many_keys,
    "bodies of GETs, lines between chunks without end": bodies_of_gets,
    "pieces of 768 KiB": pieces,
    "templates that cost more than they seem to": costly_templates,
    "grammars and schemas with slow masks": costly_rules,
    "promises of structured output": kept_promises,
    "words of errors, controls in the log": words,
    "a slow reader": slow_reader,
    "lazy loading, keys, modes of files": another_server,
    "5,000 half-open requests": half_open,
    "10,000 idle connections": idle,
    "bodies of 1 GiB, and 64 that never end": large_body,
    "JSON of depth 10^6, bad UTF-8, millions of values": bad_json,
    "n = 10^6, negative and huge numbers": bad_numbers,
    "grammars of depth 60,000, odd schemas": deep_grammars,
    "templates that call themselves or never end": templates,
    "10,000 aborted requests": aborted,
}


def main():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard < 10500:
        print(f"skipped: only {hard} descriptors are allowed")
        sys.exit(77)
    os.makedirs(WORK, exist_ok=True)
    model = f"{WORK}/m.gguf"
    subprocess.run([BUTTERFLY, "make-model", model, "--dim", "256", "--hidden", "512", "--layers", "4", "--heads", "4", "--vocab", "400",
                    "--context", "512", "--type", "f32"], check=True, stderr=subprocess.DEVNULL)
    set_template(model, f"{WORK}/selfcall.gguf", "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}")
    set_template(model, f"{WORK}/endless.gguf", "{% for i in range(100000) %}{% for j in range(100000) %}{{ i }}{% endfor %}{% endfor %}")
    set_template(model, f"{WORK}/huge.gguf", "{% set ns = namespace(a='x') %}{% for i in range(60) %}{% set ns.a = ns.a ~ ns.a %}{% endfor %}{{ ns.a }}")
    set_template(model, f"{WORK}/ljust.gguf", "{{ 'a'.ljust(4611686018427387915, 'x') }}")
    set_template(model, f"{WORK}/batch.gguf", "{{ [1] | batch(768614336404564651, 0) | list }}")
    set_template(model, f"{WORK}/strip.gguf", "{% for i in range(100000) %}{% if messages[0].content.strip(messages[0].content) %}{% endif %}{% endfor %}")
    names = ("selfcall", "endless", "huge", "ljust", "batch", "strip")
    more = [f"{n}={WORK}/{n}.gguf" for n in names] + ([f"braceless={BRACELESS}"] if os.path.exists(BRACELESS) else [])
    server = Server("-m", f"tiny={model}", *[x for m in more for x in ("-m", m)])
    good_times(server.port, 30)
    normal = good_times(server.port)
    start_rss = server.status("VmRSS")
    print(f"a good request takes {normal.median * 1e3:.1f} ms (median), {normal.p99 * 1e3:.1f} ms (p99); {start_rss >> 20} MiB resident", flush=True)
    failed = 0
    for name, attack in ATTACKS.items():
        if ONLY and not any(word in name for word in ONLY):
            continue
        measured = {}
        normal = good_times(server.port)  # just before: machines have moods

        def during():
            measured["time"] = good_times(server.port)
            measured["rss"] = server.status("VmRSS")

        start = time.monotonic()
        try:
            attack(server, during)
            assert server.alive(), "the process died"
            growth = max(server.status("VmHWM"), measured["rss"]) - start_rss
            assert growth <= GROWTH_MAX, f"memory grew by {growth >> 20} MiB"
            print(f"ok {name}: {time.monotonic() - start:.1f} s, good requests alone median {normal.median * 1e3:.1f}, p99 {normal.p99 * 1e3:.1f} ms, meanwhile "
                  f"{measured['time'].against(normal)}, "
                  f"memory at most +{growth >> 20} MiB", flush=True)
        except Exception as error:
            failed += 1
            print(f"FAILED {name}: {type(error).__name__}: {error}")
            if not server.alive():
                break
    if server.alive():
        status = server.stop()
        print(f"ended with {status} after SIGTERM")
        failed += status != 0
    sys.exit(1 if failed else 0)


main()
