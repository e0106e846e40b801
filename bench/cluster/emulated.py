#!/usr/bin/env python3
"""Predicted against measured tokens/s on emulated clusters: unequal CPUs, links with little bandwidth and long ways.

    emulated.py --model FILE [--butterfly BIN] [--delay-line BIN] [--clusters 1,2,..] [--ways choice,alone,chain,shared] [--work FOLDER]
                [--out FILE.json] [--read TOKENS] [--start-only] [--keep]

A node is a process of `butterfly serve --cluster` or `butterfly join` with
  - a network namespace of its own, joined to the others by a switch that delays every frame (delay_line: kernels without netem);
    what it sends passes a token bucket (tc tbf) of its link's bandwidth, whose bucket holds four frames, so that a row of a
    token does not slip through at once;
  - a control group that limits its CPU time (cpu.max, or cpu.cfs_quota_us in version 1) in periods of 20 ms. With the usual 100 ms
    a node that waits for others would find its quota unused and compute at full speed; with 4 ms, which is the kernel's tick, the
    same program on 30 % of a CPU did 2.6 tokens/s in one round and 3.8 to 3.9 in three others.
Nodes measure their own kernels and links inside these limits, with nothing told to them. The coordinator plans and predicts;
then one stream generates, around the depth for which the plan was made, and its tokens/s are compared. Ways to serve, one after
the other on the same nodes: what the planner chooses (`--groups auto`), the coordinator alone, a chain in which everybody has a
part (`--strategy balanced`), and layers that all nodes share (`--groups N`). Nodes start one after the other, so that they do not
measure each other. Needs root, ip and tc.
--read: also the tokens/s at which a prompt so long is read (in a context for which the plan was not made).
An --out file that exists is added to; without --clusters it is shown. Where a machine is quiet for minutes only, a cluster can be done in
two pieces: --start-only ends when all nodes have measured themselves, --keep then uses what they found.
"""
import argparse
import asyncio
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "serve"))
sys.path.insert(0, str(HERE.parent.parent / "tests" / "cluster"))
from harness import Process, skip  # noqa: E402
from http_load import ask  # noqa: E402

CONTEXT, TOKENS = 256, 48
PROMPT = CONTEXT // 2 - TOKENS // 2  # so that half of the context is full on average, as the planner counts
PERIOD_US = 20000
FRAME = 1514
# CPUs of each node, the coordinator first; then its link: Mbit/s and milliseconds of one way.
CLUSTERS = {
    "1": ("two equal, gigabit", [(1.0, 1000, 0.2), (1.0, 1000, 0.2)]),
    "2": ("fast coordinator, slow node", [(1.0, 1000, 0.5), (0.5, 1000, 0.5)]),
    "3": ("slow coordinator, 300 Mbit/s, 2 ms", [(0.4, 300, 2), (1.0, 300, 2)]),
    "4": ("three unequal, gigabit, 1 ms", [(1.0, 1000, 1), (0.7, 1000, 1), (0.4, 1000, 1)]),
    "5": ("three, 100 Mbit/s, 3 ms", [(0.8, 100, 3), (0.8, 100, 3), (0.5, 100, 3)]),
    "6": ("two weak, 100 Mbit/s, 5 ms", [(0.6, 100, 5), (0.3, 100, 5)]),
    "7": ("two equal, 10 gigabit", [(1.0, 10000, 0.1), (1.0, 10000, 0.1)]),
    "9": ("two of half a CPU, 300 Mbit/s", [(0.5, 300, 0.2), (0.5, 300, 0.2)]),
    "8": ("four equal, gigabit", [(0.5, 1000, 0.2), (0.5, 1000, 0.2), (0.5, 1000, 0.2), (0.5, 1000, 0.2)]),
}
# How to serve, and how many nodes must have a part; None: as the planner likes.
WAYS = {
    "choice": lambda count: (["--groups", "auto"], None),
    "alone": lambda count: (None, 1),
    "chain": lambda count: (["--strategy", "balanced"], count),
    "shared": lambda count: (["--groups", str(count)], count),
}
TAG = f"bfe{os.getpid() % 10000}"
GROUPS = []


def run(*words):
    subprocess.run([str(w) for w in words], check=True, capture_output=True)


def limited(name, cpus):
    """A control group with so much CPU time; what puts a process into it."""
    quota = int(cpus * PERIOD_US)
    for root, files in (("/sys/fs/cgroup/cpu", {"cpu.cfs_period_us": PERIOD_US, "cpu.cfs_quota_us": quota}),
                        ("/sys/fs/cgroup", {"cpu.max": f"{quota} {PERIOD_US}"})):
        folder = f"{root}/{TAG}-{name}"
        try:
            os.mkdir(folder)
            GROUPS.append(folder)
            for file, value in files.items():
                with open(f"{folder}/{file}", "w") as out:
                    out.write(str(value))
            return ["bash", "-c", f'echo $$ > {folder}/cgroup.procs && exec "$@"', "node"]
        except OSError:
            continue
    skip("control groups with CPU limits are not allowed here")


class Network:
    """Namespaces with an address each, behind one switch with a delay."""

    def __init__(self, delay_line, nodes):
        self.names = [f"{TAG}{i}" for i in range(len(nodes))] + [f"{TAG}sw"]
        self.switch = None
        run("ip", "netns", "add", self.names[-1])
        ports = []
        for i, (_, mbit, _) in enumerate(nodes):
            name, port = self.names[i], f"port{i}"
            ports.append(port)
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", port, "netns", self.names[-1])
            run("ip", "-n", name, "addr", "add", f"10.79.0.{i + 1}/24", "dev", "eth0")
            for end in ("eth0", "lo"):
                run("ip", "-n", name, "link", "set", end, "up")
            run("ip", "-n", self.names[-1], "link", "set", port, "up")
            run("ip", "netns", "exec", name, "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", f"{mbit}mbit",
                "burst", 4 * FRAME, "limit", 4 << 20)
        delay_us = int(1000 * nodes[0][2])
        self.switch = subprocess.Popen(["ip", "netns", "exec", self.names[-1], str(delay_line), str(delay_us), *ports])

    def inside(self, i):
        """Not `ip netns exec`, which hides /sys/fs/cgroup: a node must see its quota."""
        return ["nsenter", f"--net=/run/netns/{self.names[i]}"]

    def remove(self):
        if self.switch is not None:
            self.switch.terminate()
            self.switch.wait()
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def machine(work, i):
    home = f"{work}/node{i}"
    os.makedirs(home, exist_ok=True)
    env = {k: v for k, v in os.environ.items() if not k.startswith(("XDG_", "BUTTERFLY_"))}
    return {**env, "HOME": home, "XDG_RUNTIME_DIR": home}


def request(network, body):
    """Seconds to the first token and to the last, of a stream that is asked for on the coordinator's machine."""
    done = subprocess.run([*network.inside(0), sys.executable, __file__, "--ask", json.dumps(body)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    return json.loads(done.stdout)


def status(options, network, env):
    done = subprocess.run([*network.inside(0), options.butterfly, "status", "--json"], env=env, capture_output=True, text=True)
    return json.loads(done.stdout) if done.returncode == 0 else {"nodes": [], "links": [], "serving": False, "change": "none"}


def settled(options, network, env, count, with_part):
    """The state of the cluster when it serves, all links are measured and no other plan is on its way."""
    end = time.monotonic() + 600
    quiet_since = None
    while time.monotonic() < end:
        state = status(options, network, env)
        ready = state["serving"] and not state["jobs"][0]["change"] and len(state["links"]) == count * (count - 1) and \
            with_part in (None, sum("layers" in n["jobs"][0] for n in state["nodes"]))
        quiet_since = (quiet_since or time.monotonic()) if ready else None
        if quiet_since and time.monotonic() - quiet_since > 1.5:
            return state
        time.sleep(0.2)
    sys.exit(f"not ready: {json.dumps(state)[:3000]}")


def work_of(state):
    return {n["name"]: n["jobs"][0]["work"] for n in state["nodes"]}


def measure(options, network, env, on_cluster):
    """Tokens/s of one stream, and seconds of a step on each node."""
    rng = random.Random(1)
    prompt = [rng.randrange(300, 4000) for _ in range(PROMPT)]
    body = {"prompt": prompt, "max_tokens": TOKENS, "stream": True, "ignore_eos": True, "temperature": 1.0, "top_k": 40,
            "stream_options": {"include_usage": True}}
    for seed in range(2):  # the prompt is in the cache, and the weights come to lie in huge pages
        request(network, {**body, "seed": 1 + seed})
    before = work_of(status(options, network, env)) if on_cluster else {}
    rates = []
    for seed in range(options.repeats):
        answer = request(network, {**body, "seed": 10 + seed})
        rates.append((TOKENS - 1) / (answer["total"] - answer["first"]))
    after = work_of(status(options, network, env)) if on_cluster else {}
    reads = []
    for _ in range(options.repeats if options.read else 0):
        fresh = [rng.randrange(300, 4000) for _ in range(options.read)]
        reads.append(options.read / request(network, {**body, "prompt": fresh, "max_tokens": 1})["first"])
    steps = {name: (after[name]["compute_us"] - before[name]["compute_us"]) / max(1, after[name]["steps"] - before[name]["steps"]) / 1e6
             for name in after if name in before}
    return rates, steps, reads


def tokens_of(options, work, network, env, count):
    """One for each node that joins; those of a cluster that was made before."""
    kept = Path(work) / "tokens.json"
    if not kept.exists():
        made = subprocess.run([*network.inside(0), options.butterfly, "init", "--name", "node0", "--address", "10.79.0.1", "--json"],
                              env=env, capture_output=True, text=True)
        if made.returncode != 0:
            sys.exit(made.stderr)
        tokens = [json.loads(made.stdout)["token"]]
        while len(tokens) < count:
            new = subprocess.run([*network.inside(0), options.butterfly, "token", "new", "--address", "10.79.0.1", "--json"], env=env,
                                 capture_output=True, text=True, check=True)
            tokens.append(json.loads(new.stdout)["token"])
        kept.write_text(json.dumps(tokens))
    return json.loads(kept.read_text())


def one_cluster(options, number):
    words, nodes = CLUSTERS[number]
    work = f"{options.work}/{number}"
    if not options.keep:
        shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work, exist_ok=True)
    network = Network(options.delay_line, nodes)
    processes, joined = [], [None]  # the coordinator is no node that joins
    try:
        env = machine(work, 0)
        tokens = tokens_of(options, work, network, env, len(nodes) - 1)
        rows = []
        for way in options.ways.split(","):
            flags, with_part = WAYS[way](len(nodes))
            on_cluster = flags is not None
            flags = ["--cluster", "--nodes", str(len(nodes)), "--nodes-wait", "600", "--no-rebalance", *flags] if on_cluster else []
            server = Process([options.butterfly, "serve", "-m", options.model, "--port", "8080", "-c", str(max(CONTEXT, options.read + 64)), "--parallel", "1", "-t", "1", *flags],
                             env=env, before=[*network.inside(0), *limited(f"{way}-node0", nodes[0][0])])
            processes.append(server)
            server.wait_for(r"cluster does not serve|Serving|waiting")
            for i in range(len(joined), len(nodes)) if on_cluster else []:
                joined.append(Process([options.butterfly, "join", "10.79.0.1", "--token", tokens[i - 1], "--name", f"node{i}", "-t", "1", "-m", options.model],
                                      env=machine(work, i), before=[*network.inside(i), *limited(f"node{i}", nodes[i][0])]))
                processes.insert(0, joined[-1])
                joined[-1].wait_for("works for", seconds=300)
            if options.start_only:
                return []
            state = settled(options, network, env, len(nodes), with_part) if on_cluster else None
            server.wait_for("Serving")
            rates, steps, reads = measure(options, network, env, on_cluster)
            row = {"cluster": number, "way": way, "words": words, "predicted": state["jobs"][0]["predicted_tokens_per_s"] if on_cluster else None,
                   "measured": statistics.median(rates), "rates": rates, "reads": reads, "links": {}, "stages": []}
            if on_cluster:
                row["links"] = {f"{k['from']}-{k['to']}": [k["rtt_s"], k["bytes_per_s"]] for k in state["links"]}
                row["stages"] = [{"node": n["name"], "pieces": part["end"] - part["begin"], "begin": part["begin"], "predicted_s": part["predicted_s"],
                                  "measured_s": steps.get(n["name"])} for n in state["nodes"] if (part := n["jobs"][0].get("layers"))]
            rows.append(row)
            if reads:
                print(f"{words}, {way}: a prompt of {options.read}: {', '.join(f'{r:.1f}' for r in reads)} tokens/s", flush=True)
            print(f"{words}, {way}: {row['predicted'] or 0:.2f} predicted, {row['measured']:.2f} measured ({', '.join(f'{r:.2f}' for r in rates)}); "
                  f"{', '.join(str(x['node']) + ' ' + str(x['begin']) + '+' + str(x['pieces']) for x in row['stages'])}", flush=True)
            server.end()
        return rows
    except AssertionError as error:
        sys.exit(f"cluster {number}: {error}")
    finally:
        for process in reversed(processes):
            if process.process.poll() is None:
                process.end()
        network.remove()
        while GROUPS:
            try:
                os.rmdir(GROUPS.pop())
            except OSError as error:
                print(error, file=sys.stderr)


def show(rows):
    print("| cluster | CPUs | links | way | pieces | tokens/s predicted | measured | off by |\n|---|---|---|---|---|---|---|---|")
    for row in rows:
        _, nodes = CLUSTERS[row["cluster"]]
        pieces = {s["node"]: s["pieces"] for s in row["stages"]}
        predicted = f"{row['predicted']:.2f}" if row["predicted"] else "-"
        off = f"{100 * (row['predicted'] / row['measured'] - 1):+.1f} %" if row["predicted"] else "-"
        print(f"| {row['words']} | {', '.join(str(n[0]) for n in nodes)} | {nodes[0][1]} Mbit/s, {nodes[0][2]} ms | {row['way']} | "
              f"{', '.join(str(pieces.get(f'node{i}', 0)) for i in range(len(nodes)))} | {predicted} | {row['measured']:.2f} | {off} |")
    for row in rows:
        if not row["stages"]:
            continue
        stages = "; ".join(f"{s['node']} {1e3 * s['predicted_s']:.1f} / " + (f"{1e3 * s['measured_s']:.1f}" if s["measured_s"] else "?") for s in row["stages"])
        links = "; ".join(f"{name} {1e3 * rtt:.2f} ms, {rate * 8e-6:.0f} Mbit/s" for name, (rtt, rate) in row["links"].items())
        print(f"\n{row['words']}, {row['way']}: ms of a step predicted / computed: {stages}\n  links as measured: {links}\n  rounds: {', '.join(f'{r:.2f}' for r in row['rates'])}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model")
    parser.add_argument("--butterfly", default="build/release/bin/butterfly")
    parser.add_argument("--delay-line", default="build/release/bin/delay_line")
    parser.add_argument("--clusters", default="")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--read", type=int, default=0)
    parser.add_argument("--work", default="/tmp/butterfly-emulated")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--start-only", action="store_true")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--ask", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ask:
        answer = asyncio.run(ask(8080, "/v1/completions", json.loads(options.ask)))
        if answer.status != 200:
            sys.exit(f"status {answer.status}: {answer.body!r}")
        print(json.dumps({"first": answer.first, "total": answer.total, "tokens": answer.tokens}))
        return
    if os.geteuid() != 0 or not all(map(shutil.which, ("ip", "tc", "nsenter"))):
        skip("needs root, ip and tc (iproute2) and nsenter")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("told to end"))  # namespaces and groups are removed on the way out
    rows = json.loads(options.out.read_text()) if options.out and options.out.exists() else []
    options.butterfly, options.delay_line = os.path.abspath(options.butterfly), os.path.abspath(options.delay_line)
    for number in filter(None, options.clusters.split(",")):
        found = one_cluster(options, number)
        if not found:
            continue
        rows = [r for r in rows if r["cluster"] != number or r["way"] not in options.ways.split(",")] + found
        rows.sort(key=lambda r: (r["cluster"], list(WAYS).index(r["way"])))
        if options.out:
            options.out.write_text(json.dumps(rows, indent=1))
    show(rows)


if __name__ == "__main__":
    main()
