#!/usr/bin/env python3
"""Races two one-thread nodes of butterfly that share every layer against two one-thread nodes of distributed-llama, on one machine.

    dllama_race.py --dllama BIN --model FILE.gguf --work FOLDER [--butterfly BIN] [--rounds 3] [--tests n48,p512] [--out FILE.json]

BIN is distributed-llama's `dllama`, built outside of this repository (`make dllama`). FILE.gguf is Q4_0 with the shape below; a
file of the same shape with random Q40 blocks is written into FOLDER for the other side, which reads its own format only:
    butterfly make-model FILE.gguf --type q4_0 --layers 22 --dim 2048 --hidden 5632 --heads 32 --kv-heads 4 --vocab 32000 --context 2048

    dllama      `dllama worker` and `dllama inference`, --nthreads 1 each, one pinned to CPU 0 and one to CPU 1, plain TCP, rows
                rounded to 8 bits on the wire (its only mode for Q40); its own figures, which leave sampling and printing out
    butterfly   `serve -t 1 --local-nodes 2 --groups 2`: two processes, TLS, exact rows; asked over HTTP, which is in its times
Tests: nN generates N tokens, pN reads N; tokens/s. Sides take turns. An --out file that exists is added to.
"""
import argparse
import json
import random
import re
import socket
import statistics
import struct
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "groups"))
import served  # noqa: E402

SHAPE = {"dim": 2048, "hidden": 5632, "layers": 22, "heads": 32, "kv_heads": 4, "vocab": 32000, "context": 2048}
BLOCK = 32  # weights that share a scale, in 18 bytes
LLAMA, SILU, Q40 = 0xABCD00, 1, 2
GOAL = 2.5


def write_blocks(out, weights, pool):
    """Random Q40 blocks; one pool of them again and again, for speed does not depend on values."""
    left = weights // BLOCK * 18
    while left > 0:
        left -= out.write(pool[:left])


def write_model(path):
    s = SHAPE
    head = s["dim"] // s["heads"]
    rng = random.Random(1)
    pool = b"".join(struct.pack("<e", 0.01) + rng.randbytes(16) for _ in range(1 << 16))
    values = {0: 1, 1: LLAMA, 2: s["dim"], 3: s["hidden"], 4: s["layers"], 5: s["heads"], 6: s["kv_heads"], 7: 0, 8: 0, 9: s["vocab"], 10: s["context"],
              11: SILU, 12: 10000, 13: Q40}
    data = b"".join(struct.pack("<ii", key, value) for key, value in values.items())
    with open(path, "wb") as out:
        out.write(struct.pack("<ii", 0xA00ABCD, 8 + len(data)) + data)
        row = b"".join(struct.pack("<f", rng.uniform(-1, 1)) for _ in range(s["dim"]))
        for _ in range(s["vocab"]):
            out.write(row)
        ones = struct.pack("<f", 1) * s["dim"]
        for _ in range(s["layers"]):
            for rows in (s["dim"], head * s["kv_heads"], head * s["kv_heads"], s["dim"], s["hidden"], s["hidden"], s["hidden"]):
                write_blocks(out, rows * s["dim"], pool)
            out.write(ones + ones)
        out.write(ones)
        write_blocks(out, s["vocab"] * s["dim"], pool)


def write_tokenizer(path):
    """Letters are tokens, so a prompt has as many tokens as letters; the rest fills the vocabulary."""
    tokens = [bytes([i]) if 33 <= i < 127 else b"<%d>" % i for i in range(SHAPE["vocab"])]
    values = {0: 1, 1: len(tokens), 2: max(map(len, tokens)), 3: len(tokens) - 2, 9: 1, 10: 1}
    data = b"".join(struct.pack("<ii", key, value) for key, value in values.items())
    with open(path, "wb") as out:
        out.write(struct.pack("<ii", 0x567124, 8 + len(data)) + data + struct.pack("<i", len(tokens) - 1))
        for token in tokens:
            out.write(struct.pack("<fI", 0, len(token)) + token)


def theirs(options, test):
    count = int(test[1:])
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    worker = subprocess.Popen(["taskset", "-c", "1", options.dllama, "worker", "--port", str(port), "--nthreads", "1"], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
    try:
        time.sleep(1)
        prompt = "ab" if test[0] == "n" else "".join(random.choices("abcdefgh", k=count))
        steps = (len(prompt) if test[0] == "n" else count) + (count if test[0] == "n" else 2)
        done = subprocess.run(["taskset", "-c", "0", options.dllama, "inference", "--model", options.files[0], "--tokenizer", options.files[1], "--prompt", prompt,
                               "--steps", str(steps), "--nthreads", "1", "--buffer-float-type", "q80", "--max-seq-len", "1024", "--temperature", "0",
                               "--workers", f"127.0.0.1:{port}"], capture_output=True, timeout=240)
        text = done.stdout.decode(errors="replace")
        found = re.findall(r"tokens/s: ([\d.]+)", text)
        if done.returncode != 0 or len(found) != 2:
            sys.exit(f"dllama: {text[-1000:]} {done.stderr[-1000:]!r}")
        return float(found[1] if test[0] == "n" else found[0])
    finally:
        worker.kill()
        worker.wait()


def show(results):
    print("| test | butterfly, tokens/s | distributed-llama | ratio | goal |\n|---|---|---|---|---|")
    for test, sides in results.items():
        a, b = (statistics.median(sides[name]) for name in ("butterfly", "dllama"))
        cells = " | ".join(f"{statistics.median(v):.1f} [{min(v):.1f}-{max(v):.1f}]" for v in (sides["butterfly"], sides["dllama"]))
        print(f"| {test} | {cells} | {a / b:.2f} x | {GOAL} x |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--dllama", required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--butterfly", default="build/release/bin/butterfly")
    parser.add_argument("--tests", default="n48,p512")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    options.other, options.log, options.repeats = None, None, 1
    options.work.mkdir(parents=True, exist_ok=True)
    options.files = [str(options.work / "random_q40.m"), str(options.work / "letters.t")]
    for path, write in zip(options.files, (write_model, write_tokenizer)):
        if not Path(path).exists():
            write(path)
    results = json.loads(options.out.read_text()) if options.out and options.out.exists() else {}
    tests = options.tests.split(",")
    for _ in range(options.rounds):
        for test, values in served.one_side(options, "group", options.model, tests).items():
            results.setdefault(test, {}).setdefault("butterfly", []).extend(values)
        for test in tests:
            results.setdefault(test, {}).setdefault("dllama", []).append(theirs(options, test))
        if options.out:
            options.out.write_text(json.dumps(results, indent=1))
    if results:
        show(results)


if __name__ == "__main__":
    main()
