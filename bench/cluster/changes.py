#!/usr/bin/env python3
"""What a change of plan costs the streams: rows computed again, and the longest pause of each.

    changes.py [--butterfly BIN] [--model FILE] [--work FOLDER] [--tokens 160] [--prompt 300] [--rounds 1] [--kept 0,64MiB]
               [--streams 4] [--context 1024] [--changes join,kill]

A coordinator and nodes that joined it, processes of one thread each on loopback with real TLS. Four streams with prompts of unequal
length generate; in the middle of it a node joins (two nodes become three), or one is killed (three become two): the one with the first layers,
or the one behind it. With `--changes drain` the last of three is drained and used again instead: nobody is lost, and caches can move. Plans are `uniform`, so every node has a part, and boundaries move. Each for every --kept: the setting --kept-rows of the server; with 0 nothing is kept when plans change. The model has the
shape of a 1.1B Llama with random Q4_0 weights, unless --model names another. Nodes have the weights on disk before anything is timed.
"""
import argparse
import http.client
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tests" / "cluster"))
from harness import Process, Server, layers_of, make_model, write_capabilities  # noqa: E402

SHAPE = ["--type", "q4_0", "--layers", "22", "--dim", "2048", "--hidden", "5632", "--heads", "32", "--kv-heads", "4"]


class Cluster:
    def __init__(self, options, kept):
        self.options, self.nodes = options, {}
        for name in "abc":  # a new cluster each time; weights that were fetched stay
            shutil.rmtree(f"{options.work}/{name}/.local", ignore_errors=True)
        made = self.run("a", "init", "--name", "a", "--address", "127.0.0.1", "--json")
        if made.returncode != 0:
            raise SystemExit(made.stderr)
        self.server = Server(options.butterfly, options.work, ["-m", options.model, "-c", str(options.context), "-t", "1", "--cluster", "--strategy", "uniform",
                                                               "--cluster-listen", "127.0.0.1:0", "--kept-rows", kept],
                             name="a", env=self.machine("a"))
        self.address = [n for n in self.server.cluster()["nodes"] if n["name"] == "a"][0]["address"]

    def machine(self, name):
        home = f"{self.options.work}/{name}"
        os.makedirs(home, exist_ok=True)
        env = {k: v for k, v in os.environ.items() if not k.startswith(("XDG_", "BUTTERFLY_"))}
        return {**env, "HOME": home, "XDG_RUNTIME_DIR": home, "BUTTERFLY_CAPABILITIES": self.options.capabilities}

    def run(self, name, *words):
        return subprocess.run([self.options.butterfly, *words], env=self.machine(name), capture_output=True, text=True)

    def join(self, name):
        token = json.loads(self.run("a", "token", "new", "--address", self.address, "--json").stdout)["token"]
        self.nodes[name] = Process([self.options.butterfly, "join", self.address, "--token", token, "--name", name, "-t", "1"],
                                   env=self.machine(name))
        self.nodes[name].wait_for("works for")

    def again(self):
        connection = http.client.HTTPConnection(self.server.host, self.server.port, timeout=60)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        found = [float(re.search(rf"^{name}{{.*}} (\S+)$", text, re.M)[1])
                 for name in ("butterfly_rows_again_total", "butterfly_row_layers_again_total")]
        return found

    def end(self):
        for node in self.nodes.values():
            if node.process.poll() is None:
                node.end()
        self.server.end()


def change(cluster, options, what):
    """The streams, and `what` when they have a quarter of their tokens: rows, rows times layers, the pause of each stream."""
    times, errors = [[] for _ in range(options.streams)], []

    def stream(i):
        try:
            prompt = f"{i} " + "word " * (options.prompt // 2 * (i + 1) // 2)
            cluster.server.stream(prompt, options.tokens, lambda _: times[i].append(time.monotonic()), temperature=0)
        except Exception as error:  # told below
            errors.append(error)

    before = cluster.again()
    threads = [threading.Thread(target=stream, args=(i,)) for i in range(options.streams)]
    for thread in threads:
        thread.start()
    while sum(map(len, times)) < options.streams * options.tokens // 4 and not errors:
        time.sleep(0.01)
    moment = time.monotonic()
    what()
    for thread in threads:
        thread.join()
    assert not errors, errors
    pauses = []
    for stamps in times:
        after = [t for t in stamps if t <= moment][-1:] + [t for t in stamps if t > moment]
        pauses.append(max((b - a for a, b in zip(after, after[1:])), default=0.0))  # 0: it had ended
    again = cluster.again()
    return again[0] - before[0], again[1] - before[1], pauses


def one_round(options, kept):
    cluster = Cluster(options, kept)
    rows = []
    try:
        cluster.join("b")
        cluster.server.wait_serving(2)
        cluster.join("c")  # it fetches its weights
        cluster.server.wait_serving(3)
        cluster.nodes.pop("c").end()
        cluster.server.wait_serving(2)
        if "join" in options.changes:
            rows.append(("a node joins", *change(cluster, options, lambda: cluster.join("c"))))
        else:
            cluster.join("c")
        cluster.server.wait_serving(3)
        if "drain" in options.changes:
            for what, order, left in (("a node is drained", "drain", 2), ("it is used again", "resume", 3)):
                rows.append((what, *change(cluster, options,
                                           lambda: cluster.run("a", "node", order, "c", "--management", cluster.server.socket))))
                cluster.server.wait_serving(left)
        if "kill" not in options.changes:
            return rows
        for what, which in (("the first is killed", 0), ("the middle one is", 1)):
            state = cluster.server.wait_serving(3)
            layers = {layers_of(n)["begin"]: n["name"] for n in state["nodes"] if layers_of(n)}
            victim = layers[sorted(layers)[which]]
            rows.append((what, *change(cluster, options, lambda: cluster.nodes[victim].kill())))
            cluster.nodes.pop(victim)
            cluster.server.wait_serving(2)
            if which == 0:
                cluster.join(victim)
    finally:
        cluster.end()
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--butterfly", default=str(HERE.parent.parent / "build/release/bin/butterfly"))
    parser.add_argument("--model")
    parser.add_argument("--work", default="/tmp/butterfly-changes")
    parser.add_argument("--tokens", type=int, default=160)
    parser.add_argument("--prompt", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--kept", default="0,64MiB")
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--changes", default="join,kill", type=lambda text: text.split(","))
    options = parser.parse_args()
    os.makedirs(options.work, exist_ok=True)
    options.model = options.model or make_model(options.butterfly, f"{options.work}/model.gguf", *SHAPE)
    options.capabilities = write_capabilities(options.butterfly, f"{options.work}/capabilities.json")
    print(f"{'what':>20} {'kept rows':>10} {'rows again':>11} {'x layers':>9} {'longest pause of each stream, s'}")
    for kept in options.kept.split(","):
        found = {}
        for _ in range(options.rounds):
            for what, rows, row_layers, pauses in one_round(options, kept):
                found.setdefault(what, []).append((rows, row_layers, pauses))
                print(f"{what:>20} {kept:>10} {rows:>11.0f} {row_layers:>9.0f} {'  '.join(f'{p:.2f}' for p in pauses)}", flush=True)
        for what, all_rounds in found.items():
            worst = [max(pauses) for _, _, pauses in all_rounds]
            print(f"{what:>20} {kept:>10} median of the longest pauses {statistics.median(worst):.2f} s, x layers {statistics.median(r[1] for r in all_rounds):.0f}")


main()
