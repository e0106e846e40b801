#!/usr/bin/env python3
"""One text in a chain of local nodes, with steps that begin before the text in front of them is known and without.

    ahead.py BUTTERFLY MODEL WORK_FOLDER [--nodes N] [--rounds N] [--tokens N] [--json]

Sides, in turns: the chain, the chain with --no-speculation, one node, one node with --no-speculation; every node has one thread. Texts:
  misleads  one of 64 tokens is drawn each time (logit_bias, temperature 1): what stood before is found all the time, and is no guide to
            what comes;
  repeats   one token is made the likeliest, greedy: guesses are right.
Tokens/s between the first token and the last, median and range over the rounds; whether all sides said the same; and how many steps
were begun ahead, and in vain. Nothing is shown where nodes share cores: use as many nodes as the machine has.
"""
import argparse
import http.client
import json
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/cluster"))
from harness import Server, machine_env  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("butterfly")
parser.add_argument("model")
parser.add_argument("work")
parser.add_argument("--nodes", type=int, default=2)
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--tokens", type=int, default=128)
parser.add_argument("--json", action="store_true")
options = parser.parse_args()
BUTTERFLY, WORK = os.path.abspath(options.butterfly), os.path.abspath(options.work)
os.makedirs(WORK, exist_ok=True)
CHAIN = ["--local-nodes", str(options.nodes), "--groups", "off", "--strategy", "uniform"]
SIDES = {"chain": CHAIN, "chain, no guesses": [*CHAIN, "--no-speculation"], "one": [], "one, no guesses": ["--no-speculation"]}
# Token ids, so that a vocabulary of random weights is no matter.
PROMPT = list(range(300, 320)) * 6
TEXTS = {"misleads": {"logit_bias": {str(id): 100 for id in range(500, 564)}, "temperature": 1, "seed": 7},
         "repeats": {"logit_bias": {"777": 100}, "temperature": 0}}


def tokens_per_second(server, text):
    connection = http.client.HTTPConnection(server.host, server.port, timeout=120)
    body = {"prompt": PROMPT, "max_tokens": options.tokens, "stream": True, "ignore_eos": True, **TEXTS[text]}
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    times, said = [], []
    for line in connection.getresponse():
        if line.startswith(b"data: {"):
            choices = json.loads(line[6:]).get("choices")
            if choices and choices[0].get("text"):
                times.append(time.perf_counter())
                said.append(choices[0]["text"])
    connection.close()
    return (options.tokens - 1) / (times[-1] - times[0]), "".join(said)


def counted(server):
    connection = http.client.HTTPConnection(server.host, server.port, timeout=30)
    connection.request("GET", "/metrics")
    lines = connection.getresponse().read().decode().splitlines()
    connection.close()
    return {name: sum(float(line.split()[-1]) for line in lines if line.startswith(f"butterfly_steps_{name}_total"))
            for name in ("ahead", "ahead_void")}


def main():
    rates = {(text, side): [] for text in TEXTS for side in SIDES}
    texts, ahead = {}, {}
    for _ in range(options.rounds):
        for side, flags in SIDES.items():
            server = Server(BUTTERFLY, WORK, ["-m", options.model, "-c", "1024", "-t", "1", *flags], env=machine_env(WORK, "node"))
            try:
                for text in TEXTS:
                    before = counted(server)
                    rate, said = tokens_per_second(server, text)
                    after = counted(server)
                    rates[text, side].append(rate)
                    texts.setdefault(text, set()).add(said)
                    ahead[text, side] = {name: after[name] - before[name] for name in after}
            finally:
                server.end()
    rows = [{"text": text, "side": side, "tokens_per_second": statistics.median(found), "from": min(found), "to": max(found), **ahead[text, side]}
            for (text, side), found in rates.items()]
    same = all(len(said) == 1 for said in texts.values())
    if options.json:
        print(json.dumps({"rows": rows, "same_text": same}))
    else:
        for row in rows:
            print(f"{row['text']:9} {row['side']:18} {row['tokens_per_second']:7.1f} tokens/s ({row['from']:.1f} to {row['to']:.1f}), "
                  f"{row['ahead']:.0f} steps ahead, {row['ahead_void']:.0f} in vain")
        print("all sides said the same" if same else "SIDES DIFFER")
    return 0 if same else 1


sys.exit(main())
