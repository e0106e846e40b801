#!/usr/bin/env python3
"""What strangers may try with the server: it must live, stay small and go on serving.

    abuse_test.py BUTTERFLY WORK_FOLDER [NAME...]

Only on this machine's loopback, against a server this script starts. Prints for each attack what came of it: growth of
resident memory, and the time of a good request meanwhile against the time of one before. Fails when the process dies, when
memory grows by more than 256 MiB, when a good request fails, or when something leaks. Times are shown, not judged.
"""
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
GOOD = json.dumps({"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 16, "temperature": 0}).encode()


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
    def __init__(self, *flags):
        self.log = open(f"{WORK}/server.log", "wb")
        self.process = subprocess.Popen(
            [BUTTERFLY, "serve", "--port", "0", "--management", f"{WORK}/socket", "-t", "1", *flags], stderr=subprocess.PIPE)
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


def connect(port, timeout=30):
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


def post(port, body, path="/v1/chat/completions"):
    """Status and body; status 0 when the connection was cut."""
    s = connect(port)
    try:
        s.sendall(head(path, len(body)) + body)
    except OSError:
        pass
    data = read_all(s)
    s.close()
    return (int(data[9:12]) if data.startswith(b"HTTP/1.1 ") else 0), data.partition(b"\r\n\r\n")[2]


def good_time(port, count=9):
    times = []
    for _ in range(count):
        start = time.monotonic()
        status, body = post(port, GOOD)
        times.append(time.monotonic() - start)
        if status != 200:
            raise AssertionError(f"a good request was answered {status}: {body[:300]}")
    return statistics.median(times)


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
    expect(server, b"[" + b"0," * 4_000_000 + b"0]", 400, b"values")
    expect(server, b"[" + b"[]," * 2_500_000 + b"0]", 400, b"values")
    during()


def bad_numbers(server, during):
    base = {"messages": [{"role": "user", "content": "x"}]}
    for more in ({"n": 10**6}, {"n": -1}, {"max_tokens": -7}, {"max_tokens": 10**30}, {"temperature": -1}, {"top_p": 2}, {"top_k": -9},
                 {"seed": 10**40}, {"top_logprobs": -1}, {"logprobs": True, "top_logprobs": 10**9}, {"repeat_penalty": 0},
                 {"logit_bias": {"-1": 5}}, {"logit_bias": {str(i): 1 for i in range(5000)}}, {"stop": ["x"] * 1000}, {"n": 1.5},
                 {"presence_penalty": 1e308}, {"stop": "y" * 100000}, {"messages": []}, {"messages": [[]]}, {"tools": [1]}):
        expect(server, json.dumps({**base, **more}).encode(), 400)
    during()


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
    for format in (schema, patterns, ways, nested, {"$ref": "#"}, {"enum": list(range(20000))}, {"type": "string", "pattern": "(a*)*" * 50}, {"allOf": [{"$ref": "#"}]}):
        status, answer = post(server.port, json.dumps({**base, "response_format": {"type": "json_schema", "json_schema": {"schema": format}}}).encode())
        assert status in (200, 400), (status, answer[:300])
    during()


def templates(server, during):
    """The model's own template calls itself, and another never ends."""
    for model in ("selfcall", "endless", "huge"):
        status, answer = post(server.port, json.dumps({"model": model, "messages": [{"role": "user", "content": "x"}]}).encode())
        assert status == 400 and b"chat template" in answer, (status, answer[:300])
    during()


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


ATTACKS = {
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
    subprocess.run([BUTTERFLY, "make-model", model, "--dim", "64", "--hidden", "128", "--layers", "2", "--heads", "4", "--vocab", "400",
                    "--context", "512", "--type", "f32"], check=True, stderr=subprocess.DEVNULL)
    set_template(model, f"{WORK}/selfcall.gguf", "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}")
    set_template(model, f"{WORK}/endless.gguf", "{% for i in range(100000) %}{% for j in range(100000) %}{{ i }}{% endfor %}{% endfor %}")
    set_template(model, f"{WORK}/huge.gguf", "{% set ns = namespace(a='x') %}{% for i in range(60) %}{% set ns.a = ns.a ~ ns.a %}{% endfor %}{{ ns.a }}")
    server = Server("-m", f"tiny={model}", *[x for n in ("selfcall", "endless", "huge") for x in ("-m", f"{n}={WORK}/{n}.gguf")])
    good_time(server.port, 30)
    normal = good_time(server.port, 30)
    start_rss = server.status("VmRSS")
    print(f"a good request takes {normal * 1e3:.1f} ms; {start_rss >> 20} MiB resident")
    failed = 0
    for name, attack in ATTACKS.items():
        if ONLY and not any(word in name for word in ONLY):
            continue
        measured = {}

        def during():
            measured["time"] = good_time(server.port)
            measured["rss"] = server.status("VmRSS")

        start = time.monotonic()
        try:
            attack(server, during)
            assert server.alive(), "the process died"
            growth = max(server.status("VmHWM"), measured["rss"]) - start_rss
            assert growth <= GROWTH_MAX, f"memory grew by {growth >> 20} MiB"
            print(f"ok {name}: {time.monotonic() - start:.1f} s, a good request meanwhile {measured['time'] * 1e3:.1f} ms "
                  f"({measured['time'] / normal:.2f} x), memory at most +{growth >> 20} MiB")
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
