#!/usr/bin/env python3
"""Faults at random moments under streams, on real processes: a coordinator and workers that joined it, TLS on, weights fetched.
Every byte that clients get is written down, and judged by check_history.py.

    chaos.py BUTTERFLY WORK_FOLDER [--faults N] [--minutes N] [--workers N] [--streams N] [--kinds a,b,...] [--seed N] [--threads N]
             [--every SECONDS] [--aborts SHARE] [--pause SECONDS] [--burn N] [--namespaces]

It may be run again and again: figures add up in WORK_FOLDER/figures.json. With --every a fault comes so often (a soak: memory,
descriptors and threads of every process are watched, and said at the end), with --aborts that share of the clients leaves in the
middle of a stream; --pause is between two streams of a client; --burn starts so many other programs that only compute. Kinds:
    none          nothing for ten seconds: whoever is taken for dead is a false alarm
    kill          kill -9 of a worker, which is started again
    stop          SIGSTOP of a worker until it is noticed and beyond, then SIGCONT
    freeze        the same for a second: nothing may change
    term          SIGTERM of a worker: its layers move first; it is started again
    coordinator   kill -9 of the coordinator, which is started again; clients resume with Last-Event-ID
    disk          a disk that is full for seconds: the journal's, or that of a node which has lost its weights (small tmpfs; root)
    memory        the system ends a worker whose control group has no memory left (root)
    clock         the time of day of one machine jumps, by seconds to a month
Below TLS, by a proxy before each worker:
    cut           every connection to a worker is closed
    blackhole     nothing passes to and from a worker's address, connections stay; blackhole_in, blackhole_out: one way
    link          one connection to a worker passes nothing, others do; link_in, link_out: one way
    trickle       bytes pass one at a time, 500 in a second;  drip: one in a second;  delay: 50 ms late
    flip          a bit changes;  flips: 25 of them, one after the other, at any workers
With --namespaces (root), instead of those, on machines that are network namespaces:
    unplug        a worker's cable
    pair          two machines do not reach each other, others do;  oneway: one way only
    loss          a fifth of what a worker sends is lost, for seconds
"""
import argparse
import collections
import json
import os
import signal
import random
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cluster"))
from chaos_clients import SETTINGS, Clients  # noqa: E402
from chaos_cluster import ANYWHERE, CABLED, PROXIED, Cluster  # noqa: E402
from chaos_watch import Pauses, Watch  # noqa: E402
from check_history import check  # noqa: E402
from check_history import test as test_checker  # noqa: E402
from harness import PROMPTS, START_MAX_S, Server, make_model, skip, write_capabilities  # noqa: E402

DEFAULT = ["kill", "stop", "freeze", "term", "cut", "blackhole", "blackhole_in", "blackhole_out", "link", "link_in", "link_out", "trickle",
           "drip", "delay", "flip", "coordinator"]
LONG_S, LONG_WHOLE_S = 2, 15
parser = argparse.ArgumentParser()
parser.add_argument("butterfly")
parser.add_argument("work")
parser.add_argument("--faults", type=int, default=12)
parser.add_argument("--minutes", type=float, default=1e9)
parser.add_argument("--workers", type=int, default=3)
parser.add_argument("--streams", type=int, default=4)
parser.add_argument("--tokens", type=int, default=150)
parser.add_argument("--kinds", default="")
parser.add_argument("--seed", type=int, default=int(time.time()))
parser.add_argument("--threads", default="1")
parser.add_argument("--every", type=float, default=0)
parser.add_argument("--aborts", type=float, default=0)
parser.add_argument("--pause", type=float, default=0)
parser.add_argument("--burn", type=int, default=0)
parser.add_argument("--namespaces", action="store_true")
options = parser.parse_args()
BUTTERFLY, WORK = os.path.abspath(options.butterfly), os.path.abspath(options.work)
KINDS = options.kinds.split(",") if options.kinds else ["kill", "stop", "coordinator", *CABLED] if options.namespaces else DEFAULT
for kind in KINDS:
    assert kind in [*ANYWHERE, *(CABLED if options.namespaces else PROXIED)], f"no fault '{kind}' here"
if (options.namespaces or {"disk", "memory"} & set(KINDS)) and os.geteuid() != 0:
    skip("namespaces, mounts and control groups need root")
if os.environ.get("BUTTERFLY_OWN_MOUNTS") != "1" and "disk" in KINDS:
    os.execvpe("unshare", ["unshare", "-m", sys.executable, *sys.argv], os.environ | {"BUTTERFLY_OWN_MOUNTS": "1"})
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # everything that was started is ended
os.makedirs(WORK, exist_ok=True)
random.seed(options.seed)
MODEL = make_model(BUTTERFLY, f"{WORK}/model.gguf", "--layers", "8", "--dim", "128", "--hidden", "256", "--heads", "4")
CAPABILITIES = write_capabilities(BUTTERFLY, f"{WORK}/capabilities.json")

test_checker()
plain = Server(BUTTERFLY, WORK, ["-m", MODEL, "-c", "512", "-t", "1"], name="plain")
try:
    expected = [plain.stream(PROMPTS[i % 2], options.tokens, **SETTINGS[i // 2]) for i in range(4)]
finally:
    plain.end()

try:
    cluster = Cluster(BUTTERFLY, WORK, MODEL, CAPABILITIES, KINDS, options.workers, options.streams, options.threads, options.seed, options.namespaces)
except OSError as error:
    skip(str(error))
burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(options.burn)]
pauses = Pauses()
clients = cluster.clients = Clients(cluster, pauses, options.streams, options.tokens, options.aborts, options.pause)
watch, paused = Watch(cluster), 0
faults, stalls, wholes = collections.Counter(), collections.defaultdict(list), collections.defaultdict(list)
failure = None
try:
    for number in range(options.faults):
        kind = KINDS[number % len(KINDS)] if options.faults >= len(KINDS) else random.choice(KINDS)
        time.sleep(random.uniform(0.5, 2))
        while options.every and pauses.awake < options.every * number:
            time.sleep(0.1)
        if pauses.awake > options.minutes * 60:
            break
        began = time.monotonic() - clients.began
        name = cluster.fault(kind)
        limit, back = pauses.awake + START_MAX_S, time.monotonic()
        while not cluster.whole():
            assert pauses.awake < limit, f"{kind} of {name}: not whole again: {json.dumps(cluster.server.cluster())[:3000]}\n{cluster.server.text()}"
            time.sleep(0.1)
        whole = round(time.monotonic() - back, 2)
        time.sleep(0.5)
        now = time.monotonic()
        stall = round(clients.stall(began, now - clients.began), 2)
        faults[kind] += 1
        found, cluster.found = cluster.found, []
        if pauses.within(clients.began + began, now):  # times say nothing then, tokens do
            paused += 1
            print(f"{number + 1}: {kind} of {name}: this machine stood still meanwhile", *[e["text"] for e in found], flush=True)
            continue
        cluster.alarms += found
        stalls[kind].append(stall)
        wholes[kind].append(whole)
        if stall > LONG_S or whole > LONG_WHOLE_S:  # why it took so long, as the coordinator that runs now saw it
            with open(f"{WORK}/events-{options.seed}-{number + 1}-{kind}.json", "w") as out:
                json.dump(cluster.server.cluster()["events"][-60:], out)
        print(f"{number + 1}: {kind} of {name}: stall {stall} s, whole after {whole} s, load {os.getloadavg()[0]:.0f}", flush=True)
except AssertionError as error:
    failure = str(error)
except KeyboardInterrupt:  # what there is until now counts
    signal.signal(signal.SIGINT, signal.SIG_IGN)
finally:
    for burner in burners:
        burner.kill()
        burner.wait()
    clients.end()
    watch.ended = pauses.ended = True
    try:
        cluster.end()
    finally:
        with open(f"{WORK}/history.jsonl", "w") as out:
            out.writelines(json.dumps(event) + "\n" for event in clients.history)
        with open(f"{WORK}/watch.json", "w") as out:
            json.dump([[name, rows] for (name, _), rows in watch.rows.items()], out)
        with open(f"{WORK}/expected.json", "w") as out:
            json.dump(expected, out)
wrong = check(clients.history, expected)
done = sum(e["event"] == "done" for e in clients.history)
left = sum(e["event"] == "left" for e in clients.history)
resumed = len({e["stream"] for e in clients.history if e["event"] == "resume"})
seconds = round(pauses.awake)
figures = {}
if os.path.exists(f"{WORK}/figures.json"):
    figures = json.load(open(f"{WORK}/figures.json"))
for kind in faults:
    row = figures.setdefault(kind, {"faults": 0, "stalls": [], "whole": []})
    row["faults"] += faults[kind]
    row["stalls"] += stalls[kind]
    row["whole"] += wholes[kind]
total = figures.setdefault("total", {})
for key, count in {"runs": 1, "streams": done, "left": left, "resumed": resumed, "wrong": len(wrong), "aborts": len(cluster.aborts), "flipped": cluster.flipped,
                   "alarms": len(cluster.alarms), "failed": failure is not None, "paused": paused, "seconds": seconds}.items():
    total[key] = total.get(key, 0) + count
LINK_TIMES = {"noticed": cluster.noticed, "linked": cluster.linked, "served": cluster.served}
for key, times in LINK_TIMES.items():
    total[key] = total.get(key, []) + times
with open(f"{WORK}/figures.json", "w") as out:
    json.dump(figures, out)
print(f"seed {options.seed}: {sum(faults.values())} faults in {seconds} s, {done} streams of {options.tokens} tokens, {left} left by their clients, {resumed} resumed; "
      f"{len(wrong)} wrong, {len(cluster.aborts)} aborts, {len(cluster.alarms)} false alarms; so far {json.dumps({k: v for k, v in total.items() if k not in LINK_TIMES})}")


def part(ordered, share):
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def words_of(times):
    ordered = sorted(times)
    return f"median {part(ordered, .5)} s, p99 {part(ordered, .99)} s, worst {ordered[-1]} s"


for kind, row in figures.items():
    if kind != "total" and row["stalls"]:
        print(f"  {kind}: {row['faults']} so far, stall {words_of(row['stalls'])}; whole again after {words_of(row['whole'])}")
if total["linked"]:
    print(f"  {len(total['linked'])} damaged frames so far: noticed after {words_of(total['noticed'])}; another link after {words_of(total['linked'])}; "
          f"served again after {words_of(total['served'])}")
if options.every:
    print("\n".join(watch.words()))
assert failure is None, failure
assert not wrong, "\n".join(wrong[:20])
assert not cluster.aborts, "\n".join(cluster.aborts[:20])
assert not cluster.alarms, cluster.alarms[:5]
