#!/usr/bin/env python3
"""kill -9 of any worker at any moment: streams go on with the tokens of the unfailed run, and new requests are served.

    kill_test.py BUTTERFLY WORK_FOLDER [--kills 50] [--nodes 5] [--model FILE | --arch NAME] [--tokens 200] [--limit SECONDS] [--seed 11]

Four sampled streams with unequal prompts run on local nodes; a random worker is killed when they have a random number of tokens,
one in four times while they read their prompts, and half of the time another one within a fifth of a second, in the recovery. A
request that comes in right then must be answered too. One line for each kill; at the end the median, the worst, and with --limit
whether all were back in time. Without it nothing is judged by time.
"""
import argparse
import os
import random
import signal
import statistics
import sys
import threading
import time

from harness import SMALL, Server, layers_of, make_model

STREAMS = 4
LENGTH = 200  # tokens of each, unless --tokens says otherwise


class Run:
    """The streams at once, with the times of their tokens."""

    def __init__(self, server, settings, length):
        self.server, self.settings, self.length = server, settings, length
        self.found = [None] * STREAMS
        self.times = [[] for _ in range(STREAMS)]
        self.errors = []
        self.threads = [threading.Thread(target=self._stream, args=(i,)) for i in range(STREAMS)]
        for thread in self.threads:
            thread.start()

    def _stream(self, i):
        try:
            prompt, more = self.settings[i]
            self.found[i] = self.server.stream(prompt, self.length, lambda _: self.times[i].append(time.monotonic()), **more)
        except Exception as error:  # shown by whoever waits
            self.errors.append(f"stream {i}: {error}")

    def wait(self):
        for thread in self.threads:
            thread.join()
        assert not self.errors, "\n".join(self.errors) + "\n" + self.server.text()

    def wait_tokens(self, count):
        while self.tokens() < count and any(thread.is_alive() for thread in self.threads):
            time.sleep(0.001)

    def tokens(self):
        return sum(map(len, self.times))

    def longest_pause(self, moment):
        """Seconds without a token of a stream that had not ended, behind this moment."""
        pauses = [0.0]
        for times in self.times:
            after = [moment, *(t for t in times if t > moment)]
            pauses += [b - a for a, b in zip(after, after[1:])]
        return max(pauses)


def name_of(pid):
    words = open(f"/proc/{pid}/cmdline").read().split("\0")
    return words[words.index("--name") + 1]


def probe(server, moment, out):
    """A new request: seconds from the kill to its whole answer."""
    server.complete("Is anybody there?", tokens=1, temperature=0)
    out.append(time.monotonic() - moment)


def kill_one(server, rng, run, after):
    """Kills a worker when the streams have `after` tokens together, or a moment later; what is known of it."""
    workers = server.workers()
    pid = rng.choice(workers)
    name = name_of(pid)
    layers = next((layers_of(n) for n in server.cluster()["nodes"] if n["name"] == name), None)
    run.wait_tokens(after)
    time.sleep(rng.random() * 0.03)
    tokens = run.tokens()
    moment = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    return {"moment": moment, "node": name, "layers": f"{layers['begin']}-{layers['end'] - 1}" if layers else "none", "tokens": tokens,
            "left": len(workers)}  # this process is a node too


def kills_of(server, rng, settings, length, expected, count):
    """So many kills in the streams of one server; rows for the table."""
    rows = []
    while len(rows) < count:
        run = Run(server, settings, length)
        together = 2 if count - len(rows) > 1 and rng.random() < 0.5 else 1
        after = 0 if rng.random() < 0.25 else rng.randrange(STREAMS * length * 9 // 10)
        made, probes = [], []
        for i in range(together):
            if i:
                time.sleep(rng.random() * 0.2)
            made.append(kill_one(server, rng, run, after))
            out = []
            thread = threading.Thread(target=probe, args=(server, made[-1]["moment"], out))
            thread.start()
            probes.append((thread, out))
        run.wait()
        for row, (thread, out) in zip(made, probes):
            thread.join()
            assert out, f"a new request was not served:\n{server.text()}"
            row["pause"], row["new"] = run.longest_pause(row["moment"]), out[0]
        wrong = [i for i in range(STREAMS) if run.found[i] != expected[i]]
        assert not wrong, f"other tokens in streams {wrong}:\n{server.text()}"
        rows += made
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("butterfly")
    parser.add_argument("work")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--nodes", type=int, default=5)
    parser.add_argument("--model")
    parser.add_argument("--arch", default="llama")
    parser.add_argument("--tokens", type=int, default=LENGTH)
    parser.add_argument("--limit", type=float)
    parser.add_argument("--seed", type=int, default=11)
    options = parser.parse_args()
    os.makedirs(options.work, exist_ok=True)
    model = options.model or make_model(options.butterfly, f"{options.work}/{options.arch}.gguf", *SMALL, "--arch", options.arch)
    rng = random.Random(options.seed)
    settings = [(f"word{i} " * (10 + 15 * i), {"temperature": 0.8, "seed": i}) for i in range(STREAMS)]
    flags = ["-m", model, "-c", "512", "--parallel", str(STREAMS + 4)]

    plain = Server(options.butterfly, options.work, flags, name="plain")
    first = Run(plain, settings, options.tokens)
    first.wait()
    plain.end()
    expected = first.found

    rows = []
    print(f"{'kill':>4} {'node':>8} {'layers':>8} {'left':>4} {'tokens':>6} {'pause s':>8} {'new s':>8}")
    while len(rows) < options.kills:
        server = Server(options.butterfly, options.work, [*flags, "--local-nodes", str(options.nodes), "--local-restarts", "0"], name="nodes")
        try:
            if not rows:
                unfailed = Run(server, settings, options.tokens)
                unfailed.wait()
                assert unfailed.found == expected, "other tokens without a kill"
            count = min(options.nodes - 1, options.kills - len(rows))
            for row in kills_of(server, rng, settings, options.tokens, expected, count):
                rows.append(row)
                print(f"{len(rows):>4} {row['node']:>8} {row['layers']:>8} {row['left']:>4} {row['tokens']:>6} {row['pause']:>8.2f} {row['new']:>8.2f}", flush=True)
        finally:
            assert server.end() == 0, server.text()
    for key, what in (("pause", "pause of a running stream"), ("new", "answer to a new request")):
        values = sorted(row[key] for row in rows)
        print(f"{what}: median {statistics.median(values):.2f} s, nine of ten below {values[int(0.9 * len(values))]:.2f} s, worst {values[-1]:.2f} s")
    print(f"{len(rows)} kills: the tokens of the unfailed run in all streams")
    worst = max(max(row["pause"], row["new"]) for row in rows)
    if options.limit and worst > options.limit:
        sys.exit(f"{worst:.2f} s, expected at most {options.limit:.2f} s")


main()
