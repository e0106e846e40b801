#!/usr/bin/env python3
"""Faults at random moments under streams, on real processes: a coordinator and workers that joined it, TLS on, weights fetched.
Every byte that clients get is written down, and judged by check_history.py.

    chaos.py BUTTERFLY WORK_FOLDER [--faults N] [--workers N] [--streams N] [--kinds a,b,...] [--seed N] [--threads N]
             [--every SECONDS] [--aborts SHARE]

It may be run again and again: figures add up in WORK_FOLDER/figures.json. With --every a fault comes so often (a soak: memory,
descriptors and threads of every process are watched, and said at the end), with --aborts that share of the clients leaves in the
middle of a stream. Kinds:
    kill          kill -9 of a worker, which is started again
    stop          SIGSTOP of a worker until it is noticed and beyond, then SIGCONT
    freeze        the same for a second: nothing may change
    term          SIGTERM of a worker: its layers move first; it is started again
    cut           every connection to a worker is closed
    blackhole     nothing passes to and from a worker's address, connections stay; blackhole_in, blackhole_out: one way
    link          one connection to a worker passes nothing, others do; link_in, link_out: one way
    trickle       bytes pass one at a time, 500 in a second;  drip: one in a second;  delay: 50 ms late
    flip          a bit changes below TLS;  flips: 25 of them, one after the other, at any workers
    coordinator   kill -9 of the coordinator, which is started again; clients resume with Last-Event-ID
"""
import argparse
import collections
import http.client
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "cluster"))
from check_history import check  # noqa: E402
from check_history import test as test_checker  # noqa: E402
from faulty_proxy import FaultyProxy  # noqa: E402
from harness import PROMPTS, START_MAX_S, Process, Server, machine_env, make_model, write_capabilities  # noqa: E402

KINDS = ["kill", "stop", "freeze", "term", "cut", "blackhole", "blackhole_in", "blackhole_out", "link", "link_in", "link_out", "trickle",
         "drip", "delay", "flip", "coordinator"]
FLIPS = 25
parser = argparse.ArgumentParser()
parser.add_argument("butterfly")
parser.add_argument("work")
parser.add_argument("--faults", type=int, default=12)
parser.add_argument("--workers", type=int, default=3)
parser.add_argument("--streams", type=int, default=4)
parser.add_argument("--tokens", type=int, default=150)
parser.add_argument("--kinds", default=",".join(KINDS))
parser.add_argument("--seed", type=int, default=int(time.time()))
parser.add_argument("--threads", default="1")
parser.add_argument("--every", type=float, default=0)
parser.add_argument("--aborts", type=float, default=0)
options = parser.parse_args()
BUTTERFLY, WORK, KINDS = options.butterfly, options.work, options.kinds.split(",")
os.makedirs(WORK, exist_ok=True)
random.seed(options.seed)
MODEL = make_model(BUTTERFLY, f"{WORK}/model.gguf", "--layers", "8", "--dim", "128", "--hidden", "256", "--heads", "4")
CAPABILITIES = write_capabilities(BUTTERFLY, f"{WORK}/capabilities.json")
SETTINGS = [{"temperature": 0}, {"temperature": 0.9, "seed": 11}]
QUIET_S = 20  # after a fault, for the cluster to be whole again


def machine(name):
    return machine_env(WORK, name, CAPABILITIES)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Cluster:
    """The processes, and how they are hurt."""

    def __init__(self):
        self.address = f"127.0.0.1:{free_port()}"
        self.names = [f"w{i}" for i in range(options.workers)]
        for name in ["a", *self.names]:
            shutil.rmtree(f"{WORK}/{name}", ignore_errors=True)
        if os.path.exists(f"{WORK}/journal"):
            os.unlink(f"{WORK}/journal")
        subprocess.run([BUTTERFLY, "init", "--name", "a", "--address", "127.0.0.1"], env=machine("a"), check=True, capture_output=True)
        self.lines, self.aborts, self.flipped = [], [], 0
        self.server = self.serve()
        token = json.loads(subprocess.run([BUTTERFLY, "token", "new", "--uses", "99", "--address", self.address, "--json"],
                                          env=machine("a"), check=True, capture_output=True).stdout)["token"]
        self.proxies, self.workers = {}, {}
        for name in self.names:
            listen = f"127.0.0.1:{free_port()}"
            self.proxies[name] = FaultyProxy(listen, options.seed)
            self.workers[name] = self.join(name, self.address, "--token", token, "--name", name, "--listen", listen,
                                           "--advertise", self.proxies[name].address)
            self.workers[name].listen = listen
        self.server.wait_serving(len(self.names) + 1)

    def serve(self):
        return Server(BUTTERFLY, WORK, ["-m", MODEL, "-c", "512", "-t", options.threads, "--parallel", str(options.streams), "--cluster",
                                        "--cluster-listen", self.address, "--strategy", "uniform", "--journal", f"{WORK}/journal"],
                      name="a", env=machine("a"))

    def join(self, name, *words):
        return Process([BUTTERFLY, "join", *words, "-t", options.threads], env=machine(name))

    def start_again(self, name):
        before = self.workers[name]
        self.look_at(before)
        self.workers[name] = self.join(name, "--listen", before.listen, "--advertise", self.proxies[name].address)
        self.workers[name].listen = before.listen

    def look_at(self, process):
        """What nobody may say, however it is treated."""
        self.aborts += [line for line in process.lines if "check failed" in line or "terminate called" in line or "Sanitizer" in line]

    def whole(self):
        try:
            state = self.server.cluster()
        except (OSError, http.client.HTTPException):
            return False
        return state["serving"] and len(state["jobs"][0]["stages"]) == len(self.names) + 1

    def fault(self, kind):
        name = random.choice(self.names)
        worker, proxy = self.workers[name], self.proxies[name]
        if kind == "kill":
            worker.kill()
            time.sleep(random.choice([0, 0, 2]))
            self.start_again(name)
        elif kind in ("stop", "freeze"):
            os.kill(worker.pid, signal.SIGSTOP)
            time.sleep(1 if kind == "freeze" else random.uniform(4, 8))
            os.kill(worker.pid, signal.SIGCONT)
        elif kind == "term":
            assert worker.end() == 0, worker.text()
            self.start_again(name)
        elif kind == "cut":
            proxy.cut()
        elif kind == "flip":
            proxy.flip()
        elif kind == "flips":
            for _ in range(FLIPS):
                proxy = random.choice(list(self.proxies.values()))
                proxy.flip()
                limit = time.monotonic() + START_MAX_S
                while proxy.flips > 0 and time.monotonic() < limit:  # until something passes
                    time.sleep(0.02)
                self.flipped += proxy.flips == 0
                while not self.whole() and time.monotonic() < limit:
                    time.sleep(0.05)
        elif kind.startswith("link"):
            proxy.silence({"link_in": "in", "link_out": "out"}.get(kind, ("in", "out")))
            time.sleep(random.uniform(5, 9))
            proxy.speak()
        elif kind == "coordinator":
            self.look_at(self.server)
            self.server.kill()
            self.server = self.serve()
        else:
            proxy.mode = kind
            time.sleep(2 if kind == "delay" else random.uniform(5, 9))
            proxy.mode = "pass"
        return name

    def end(self):
        for process in self.workers.values():
            process.end()
            self.look_at(process)
        for proxy in self.proxies.values():
            proxy.end()
        status = self.server.end()
        self.look_at(self.server)
        assert status == 0, self.server.text()


class Clients:
    """Streams without a pause, each resumed where its connection ends early. Writes the history."""

    def __init__(self, cluster):
        self.cluster, self.history, self.lock, self.ended, self.count = cluster, [], threading.Lock(), False, 0
        self.began = time.monotonic()
        self.threads = [threading.Thread(target=self.run, args=(i,)) for i in range(options.streams)]
        for thread in self.threads:
            thread.start()

    def note(self, stream, prompt, event, **more):
        with self.lock:
            self.history.append({"stream": stream, "prompt": prompt, "t": round(time.monotonic() - self.began, 4), "event": event, **more})

    def run(self, index):
        while not self.ended:
            with self.lock:
                self.count += 1
                stream = self.count
            prompt = (stream + index) % 4
            self.note(stream, prompt, "begin")
            state = {"last": None, "done": False, "leaves": random.randint(1, options.tokens) if random.random() < options.aborts else None}
            limit = time.monotonic() + START_MAX_S
            while not state["done"]:
                try:
                    self.read(stream, prompt, state)
                except (OSError, http.client.HTTPException):
                    time.sleep(0.05)
                if time.monotonic() > limit and not state["done"]:
                    self.note(stream, prompt, "error", text=f"no end after {START_MAX_S} s, at {state['last']}")
                    break

    def read(self, stream, prompt, state):
        server = self.cluster.server
        connection = http.client.HTTPConnection(server.host, server.port, timeout=30)
        if state["last"] is None:
            connection.request("POST", "/v1/completions", json.dumps({
                "prompt": PROMPTS[prompt % 2], "max_tokens": options.tokens, "stream": True, "ignore_eos": True, "logprobs": 1,
                **SETTINGS[prompt // 2]}), {"Content-Type": "application/json"})
        else:
            self.note(stream, prompt, "resume", behind=state["last"])
            connection.request("GET", "/v1/streams", headers={"Last-Event-ID": state["last"]})
        answer = connection.getresponse()
        if answer.status in (429, 503) and state["last"] is None:
            answer.read()
            time.sleep(0.1)
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
        worst, last = 0.0, {}
        with self.lock:
            events = list(self.history)
        for event in events:
            at = event["t"]
            before = last.get(event["stream"])
            if before is not None and at >= since and before <= until:
                worst = max(worst, at - before)
            if event["event"] in ("done", "error", "left"):
                last.pop(event["stream"], None)
            elif event["event"] in ("token", "begin"):
                last[event["stream"]] = at
        return worst


class Watch:
    """Memory, descriptors and threads of the processes while they live, every few seconds."""

    def __init__(self, cluster):
        self.cluster, self.rows, self.ended = cluster, {}, False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.ended:
            for name, process in [("a", self.cluster.server), *self.cluster.workers.items()]:
                try:
                    status = dict(line.split(":", 1) for line in open(f"/proc/{process.pid}/status") if ":" in line)
                    kib = sum(int(status[key].split()[0]) for key in ("RssAnon", "VmSwap"))
                    row = (time.monotonic(), kib, len(os.listdir(f"/proc/{process.pid}/fd")), int(status["Threads"]))
                    self.rows.setdefault((name, process.pid), []).append(row)
                except (OSError, KeyError, ValueError):  # it has just ended
                    pass
            time.sleep(2)

    def words(self):
        """Of every process that lived long enough: a line through the second half of its time."""
        out = []
        for (name, _), rows in sorted(self.rows.items()):
            rows = [row for row in rows if row[0] >= (rows[0][0] + rows[-1][0]) / 2]
            if len(rows) < 60:
                continue
            mean_t, mean_kib = (sum(column) / len(rows) for column in list(zip(*rows))[:2])
            slope = sum((t - mean_t) * (kib - mean_kib) for t, kib, _, _ in rows) / sum((t - mean_t) ** 2 for t, *_ in rows)
            half = len(rows) // 2
            out.append(f"{name}: {rows[-1][1] / 1024:.1f} MiB, slope {slope * 3600 / 1024:+.2f} MiB/h over {(rows[-1][0] - rows[0][0]) / 60:.0f} min; descriptors "
                       f"{max(r[2] for r in rows[:half])} then {max(r[2] for r in rows[half:])} at most, threads {max(r[3] for r in rows[:half])} then "
                       f"{max(r[3] for r in rows[half:])}")
        return out


test_checker()
plain = Server(BUTTERFLY, WORK, ["-m", MODEL, "-c", "512", "-t", "1"], name="plain")
try:
    expected = [plain.stream(PROMPTS[i % 2], options.tokens, **SETTINGS[i // 2]) for i in range(4)]
finally:
    plain.end()

cluster = Cluster()
clients = Clients(cluster)
watch = Watch(cluster)
faults, stalls, wholes = collections.Counter(), collections.defaultdict(list), collections.defaultdict(list)
try:
    for number in range(options.faults):
        kind = KINDS[number % len(KINDS)] if options.faults >= len(KINDS) else random.choice(KINDS)
        time.sleep(random.uniform(0.5, 2))
        while options.every and time.monotonic() - clients.began < options.every * number:
            time.sleep(0.1)
        began = time.monotonic() - clients.began
        name = cluster.fault(kind)
        limit = time.monotonic() + START_MAX_S
        back = time.monotonic()
        while not cluster.whole():
            assert time.monotonic() < limit, f"{kind} of {name}: not whole again: {json.dumps(cluster.server.cluster())[:3000]}\n{cluster.server.text()}"
            time.sleep(0.1)
        wholes[kind].append(round(time.monotonic() - back, 2))
        time.sleep(0.5)
        stalls[kind].append(round(clients.stall(began, time.monotonic() - clients.began), 2))
        with open(f"{WORK}/events.json", "w") as out:  # of the coordinator that runs now: why it took so long
            json.dump(cluster.server.cluster()["events"], out)
        faults[kind] += 1
        print(f"{number + 1}: {kind} of {name}: stall {stalls[kind][-1]} s, whole after {wholes[kind][-1]} s", flush=True)
finally:
    clients.end()
    watch.ended = True
    try:
        cluster.end()
    finally:
        with open(f"{WORK}/history.jsonl", "w") as out:
            out.writelines(json.dumps(event) + "\n" for event in clients.history)
        with open(f"{WORK}/expected.json", "w") as out:
            json.dump(expected, out)
wrong = check(clients.history, expected)
done = sum(e["event"] == "done" for e in clients.history)
left = sum(e["event"] == "left" for e in clients.history)
resumed = len({e["stream"] for e in clients.history if e["event"] == "resume"})
figures = {}
if os.path.exists(f"{WORK}/figures.json"):
    figures = json.load(open(f"{WORK}/figures.json"))
for kind in faults:
    row = figures.setdefault(kind, {"faults": 0, "stalls": [], "whole": []})
    row["faults"] += faults[kind]
    row["stalls"] += stalls[kind]
    row["whole"] += wholes[kind]
total = figures.setdefault("total", {"runs": 0, "streams": 0, "left": 0, "resumed": 0, "wrong": 0, "aborts": 0, "flipped": 0})
for key, count in {"runs": 1, "streams": done, "left": left, "resumed": resumed, "wrong": len(wrong), "aborts": len(cluster.aborts),
                   "flipped": cluster.flipped}.items():
    total[key] += count
with open(f"{WORK}/figures.json", "w") as out:
    json.dump(figures, out)
print(f"seed {options.seed}: {sum(faults.values())} faults, {done} streams of {options.tokens} tokens, {left} left by their clients, {resumed} resumed; "
      f"{len(wrong)} wrong, {len(cluster.aborts)} aborts; so far {json.dumps(total)}")


def part(ordered, share):
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


for kind, row in figures.items():
    if kind == "total":
        continue
    ordered, whole = sorted(row["stalls"]), sorted(row["whole"])
    print(f"  {kind}: {row['faults']} so far, stall median {part(ordered, .5)} s, p99 {part(ordered, .99)} s, worst {ordered[-1]} s; "
          f"whole again after {part(whole, .5)} s, p99 {part(whole, .99)} s")
if options.every:
    print("\n".join(watch.words()))
assert not wrong, "\n".join(wrong[:20])
assert not cluster.aborts, "\n".join(cluster.aborts[:20])
