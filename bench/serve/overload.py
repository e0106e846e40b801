#!/usr/bin/env python3
"""What a server does with ten times the requests that it can serve.

    overload.py BUTTERFLY MODEL [--seconds 15] [--times 10] [--tokens 16] [--prompt 32] [-- FLAGS OF SERVE]

First as many clients as the server works on at once, each sending its next request when it has its answer: that is full load.
Then requests come at `times` that rate, whatever the answers. Shown are rates and times; what is refused must be 429 with
Retry-After. Loopback only, against a server this script starts and ends.
"""
import argparse
import asyncio
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from http_load import ask, butterfly, percentile  # noqa: E402

IN_FLIGHT_MAX = 4000  # open requests of this script; more would measure its own queue


def body(rng, options):
    return {"prompt": [rng.randrange(300, 20000) for _ in range(options.prompt)], "max_tokens": options.tokens,
            "ignore_eos": True, "temperature": 0}


async def full_load(port, options, clients):
    rng = random.Random(1)
    answers = []
    end = time.monotonic() + options.seconds

    async def client():
        while time.monotonic() < end:
            answers.append(await ask(port, "/v1/completions", body(rng, options)))

    begin = time.monotonic()
    await asyncio.gather(*(client() for _ in range(clients)))
    return answers, len(answers) / (time.monotonic() - begin)


async def overload(port, options, rate):
    rng = random.Random(2)
    answers, open_now, late = [], set(), 0
    begin = time.monotonic()
    count = int(rate * options.seconds)
    for i in range(count):
        due = begin + i / rate
        if (wait := due - time.monotonic()) > 0:
            await asyncio.sleep(wait)
        elif wait < -0.5:
            late += 1
        if len(open_now) >= IN_FLIGHT_MAX:
            await asyncio.wait(open_now, return_when=asyncio.FIRST_COMPLETED)
        task = asyncio.create_task(ask(port, "/v1/completions", body(rng, options)))
        open_now.add(task)
        task.add_done_callback(lambda t: (open_now.discard(t), answers.append(t.result())))
    while open_now:
        await asyncio.wait(open_now)
    return answers, late


def times(answers, of="total"):
    values = [1e3 * getattr(a, of) for a in answers]
    return f"p50 {percentile(values, 0.5):.0f}, p99 {percentile(values, 0.99):.0f}, max {percentile(values, 1):.0f} ms"


def main():
    own, _, flags = " ".join(sys.argv[1:]).partition(" -- ")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("butterfly")
    parser.add_argument("model")
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--times", type=float, default=10)
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--prompt", type=int, default=32)
    parser.add_argument("--parallel", type=int, default=16)
    options = parser.parse_args(own.split())
    server = butterfly(options.butterfly, options.model, "--parallel", options.parallel, *flags.split(), "--log-level", "error")
    try:
        asyncio.run(full_load(server.port, argparse.Namespace(**{**vars(options), "seconds": 2}), options.parallel))  # warm
        normal, rate = asyncio.run(full_load(server.port, options, options.parallel))
        p99 = percentile([a.total for a in normal], 0.99)
        print(f"full load: {len(normal)} requests, {rate:.1f} a second, {times(normal)}")
        answers, late = asyncio.run(overload(server.port, options, options.times * rate))
        good = [a for a in answers if a.status == 200]
        refused = [a for a in answers if a.status == 429]
        other = [a for a in answers if a.status not in (200, 429)]
        without = [a for a in refused if not a.headers.get("retry-after", "").isdigit()]
        print(f"{options.times:g} x that: {len(answers)} requests; {len(good)} served, {times(good)}: p99 is "
              f"{percentile([a.total for a in good], 0.99) / p99:.2f} x that of full load")
        print(f"  {len(refused)} refused with 429, {times(refused)}; {len(without)} of them without Retry-After; "
              f"{len(other)} other answers; this script was late with {late}")
        again, _ = asyncio.run(full_load(server.port, argparse.Namespace(**{**vars(options), "seconds": 3}), options.parallel))
        print(f"afterwards: {times(again)}, {sum(a.status == 200 for a in again)} of {len(again)} served")
    finally:
        code = server.stop()
    print(f"the server ended with {code}")
    sys.exit(bool(other or without or code))


if __name__ == "__main__":
    main()
