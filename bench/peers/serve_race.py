#!/usr/bin/env python3
"""Races butterfly serve against llama-server: the same streams at once, interleaved rounds, total tokens/s and first tokens.

    serve_race.py --model FILE... --llama LLAMA_SERVER [--butterfly BIN] [--streams 8] [--prompt 128] [--tokens 64]
                  [--threads 2] [--rounds 3] [--llama-flags "..."] [--out FILE.json]

Every stream has a prompt of random tokens of its own (so nothing is reused) and generates to its end whatever comes
(ignore_eos), at temperature 1 (so that guesses ahead do not help). One server runs at a time, started anew in each round.
tokens/s counts generated tokens from the first request to the last answer; "decode" those from the time on when every
stream had begun. An --out file that exists is added to; --rounds 0 shows it.
"""
import argparse
import asyncio
import json
import random
import socket
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "serve"))
from http_load import Server, butterfly, percentile, together  # noqa: E402


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def context(options):
    """Of one stream; both caches have room for all streams at once."""
    return options.prompt + options.tokens + 64


def llama(options, model):
    port = free_port()
    return Server([options.llama, "-m", model, "--port", port, "--host", "127.0.0.1", "-np", options.streams, "-t", options.threads,
                   "-tb", options.threads, "-c", options.streams * context(options), *options.llama_flags.split()],
                  port=port, log=options.log)


def ours(options, model):
    return butterfly(options.butterfly, model, "-t", options.threads, "--parallel", options.streams, "-c", context(options),
                     "--cache-positions", options.streams * context(options), "--log-level", "error", log=options.log)


def bodies(options, seed):
    rng = random.Random(seed)
    return [{"prompt": [rng.randrange(300, 30000) for _ in range(options.prompt)], "max_tokens": options.tokens, "stream": True,
             "n_predict": options.tokens, "stream_options": {"include_usage": True}, "ignore_eos": True, "temperature": 1.0, "top_k": 40, "seed": seed + i,
             "cache_prompt": False} for i in range(options.streams)]


def measure(server, options, seed):
    begin = time.monotonic()
    # Without tokens that are single bytes (3 to 258 in Llama's vocabulary): llama-server ends a stream with an error where the
    # bytes of a random model are not UTF-8.
    theirs = server.process.args[0] == options.llama
    asked = bodies(options, seed)
    for body in asked:
        body["logit_bias"] = [[i, False] for i in range(3, 259)] if theirs else {str(i): -100 for i in range(3, 259)}
    answers = asyncio.run(together(server.port, "/completion" if theirs else "/v1/completions", asked))
    end = time.monotonic()
    for a in answers:
        if a.status != 200 or a.tokens != options.tokens:
            sys.exit(f"expected {options.tokens} tokens, found status {a.status} and {a.tokens} tokens: {a.body[-500:]}")
    tokens = sum(a.tokens for a in answers)
    all_begun = max(a.begin + a.first for a in answers)
    return {"tokens_s": tokens / (end - begin), "first_ms": [1e3 * a.first for a in answers],
            "decode_s": (tokens - options.streams) / (end - all_begun)}


def show(rows):
    for model in sorted({r["model"] for r in rows}):
        found = {}
        for engine in ("butterfly", "llama-server"):
            mine = [r for r in rows if r["model"] == model and r["engine"] == engine]
            if not mine:
                continue
            rates = [r["tokens_s"] for r in mine]
            firsts = [ms for r in mine for ms in r["first_ms"]]
            found[engine] = statistics.median(rates), percentile(firsts, 0.5)
            print(f"{model:14} {engine:13} {statistics.median(rates):7.1f} tokens/s ({min(rates):.1f}-{max(rates):.1f}, {len(mine)} rounds), "
                  f"first token p50 {percentile(firsts, 0.5):6.0f} ms, last {max(firsts):6.0f} ms, "
                  f"decode {statistics.median(r['decode_s'] for r in mine):.1f} tokens/s")
        if len(found) == 2:
            (a, a_first), (b, b_first) = found["butterfly"], found["llama-server"]
            print(f"{model:14} tokens/s {a / b:.2f} x, first token {a_first / b_first:.2f} x the time")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", action="append", default=[])
    parser.add_argument("--llama", required=True)
    parser.add_argument("--butterfly", default="build/release/bin/butterfly")
    parser.add_argument("--llama-flags", default="")
    for name, value in (("streams", 8), ("prompt", 128), ("tokens", 64), ("threads", 2), ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--out")
    parser.add_argument("--log")
    options = parser.parse_args()
    rows = json.load(open(options.out)) if options.out and Path(options.out).exists() else []
    for model in options.model if options.rounds else []:
        for _ in range(options.rounds):
            seed = 1000 * (1 + len(rows))
            for engine, start in (("butterfly", ours), ("llama-server", llama)):
                server = start(options, model)
                try:
                    measure(server, argparse.Namespace(**{**vars(options), "tokens": 4, "prompt": 16}), 1)  # threads awake
                    rows.append({"model": Path(model).stem, "engine": engine, **measure(server, options, seed)})
                finally:
                    server.stop()
                if options.out:
                    json.dump(rows, open(options.out, "w"))
    show(rows)


if __name__ == "__main__":
    main()
