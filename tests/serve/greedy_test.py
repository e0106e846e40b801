#!/usr/bin/env python3
"""What a greedy API key costs another one, when its line in the key file says background.

    greedy_test.py BUTTERFLY WORK_FOLDER

On loopback, with a server that this starts. Sixteen long requests of one key run all the time; another key asks one thing after
the other. Prints the time of the other key's requests alone, with the greedy key in the background between two runs alone
(machines change their speed within minutes), and beside it as an equal. Fails when a request fails or nothing of the
background's gets done; times are shown, not judged.
"""
import http.client
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench/serve"))
from http_load import butterfly  # noqa: E402

BUTTERFLY, WORK = sys.argv[1], sys.argv[2]
GOOD, GREEDY = "bf-good-0123456789abcdef", "bf-greedy-0123456789abcdef"


def start(word):
    keys = f"{WORK}/keys"
    with open(keys, "w") as out:
        out.write(f"{GOOD}\n{GREEDY}{word}\n")
    os.chmod(keys, 0o600)
    return butterfly(BUTTERFLY, f"{WORK}/m.gguf", "--management", f"{WORK}/socket", "-t", "1", "--api-key-file", keys, "--queue", "64", log=f"{WORK}/server.log")


def ask(port, key, body):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json", "Authorization": f"Bearer {key}"})
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer.status, text


def measure(word, greedy):
    server = start(word)
    ended, done = threading.Event(), []

    def work(index):
        number = 0
        while not ended.is_set():
            number += 1
            try:
                status, text = ask(server.port, GREEDY, {"prompt": f"{index} {number} " + "x y z " * 100, "max_tokens": 200, "ignore_eos": True})
            except (OSError, http.client.HTTPException):
                return  # the server was ended
            if status == 200:
                done.append(json.loads(text)["usage"]["completion_tokens"])

    workers = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(16 if greedy else 0)]
    for worker in workers:
        worker.start()
    time.sleep(1)
    times = []
    before = len(done)
    for i in range(30):
        asked = time.monotonic()
        status, text = ask(server.port, GOOD, {"prompt": f"{i} hello", "max_tokens": 100, "ignore_eos": True})
        times.append(time.monotonic() - asked)
        assert status == 200, text[:300]
    began = time.monotonic()
    while greedy and len(done) == before and time.monotonic() - began < 60:
        time.sleep(0.05)
    assert not greedy or len(done) > before, "nothing of the greedy key's gets done"
    ended.set()
    server.kill()
    for worker in workers:
        worker.join(5)
    return statistics.median(times), sorted(times)[-2], sum(done)


def main():
    os.makedirs(WORK, exist_ok=True)
    subprocess.run([BUTTERFLY, "make-model", f"{WORK}/m.gguf", "--dim", "512", "--hidden", "1024", "--layers", "6", "--heads", "8", "--vocab", "400",
                    "--context", "1024", "--type", "q8_0"], check=True, stderr=subprocess.DEVNULL)
    before = measure("", False)
    background = measure(" background", True)
    after = measure("", False)
    equal = measure("", True)
    alone = [(one + other) / 2 for one, other in zip(before, after)]
    print(f"alone: median {before[0] * 1e3:.0f} and {after[0] * 1e3:.0f} ms, second largest {before[1] * 1e3:.0f} and {after[1] * 1e3:.0f} ms")
    for name, found in (("in the background", background), ("as an equal", equal)):
        print(f"a greedy key {name}: median {found[0] * 1e3:.0f} ms ({found[0] / alone[0]:.2f} x), second largest {found[1] * 1e3:.0f} ms "
              f"({found[1] / alone[1]:.2f} x); its own answers had {found[2]} tokens")


main()
