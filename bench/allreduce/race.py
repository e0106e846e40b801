#!/usr/bin/env python3
"""The collective of a training step against Open MPI's MPI_Allreduce, both over TCP on loopback, in turns.

race.py ALLREDUCE_BENCH [--nodes 2 4] [--rounds 3] [--sizes BYTES...]

Needs mpicc and mpirun (Debian: libopenmpi-dev, openmpi-bin). Prints Markdown: the best median of the rounds for each, and CPU
seconds of all processes per GB that is summed.
"""
import argparse
import json
import os
import subprocess
import tempfile

parser = argparse.ArgumentParser()
parser.add_argument("bench")
parser.add_argument("--nodes", type=int, nargs="+", default=[2, 4])
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--sizes", type=int, nargs="+", default=[1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26, 1 << 28])
options = parser.parse_args()
HERE = os.path.dirname(os.path.abspath(__file__))
MPI_WORDS = ["--allow-run-as-root", "--oversubscribe", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo",
             "--mca", "pml", "ob1"]


def repeats(size):
    return max(3, min(200, (1 << 26) // size))


def run(words):
    out = subprocess.run(words, capture_output=True, text=True, timeout=600)
    assert out.returncode == 0, f"{words}: {out.stderr[-2000:]}"
    return json.loads(next(line for line in out.stdout.splitlines() if line.startswith("{")))


with tempfile.TemporaryDirectory() as folder:
    mpi = f"{folder}/mpi_allreduce"
    subprocess.run(["mpicc", "-O2", "-o", mpi, f"{HERE}/mpi_allreduce.c"], check=True)
    print("| nodes | bytes | plain ms | TLS ms | Open MPI ms | Open MPI / plain | CPU s/GB plain | TLS | Open MPI |\n"
          "|---|---|---|---|---|---|---|---|---|")
    for nodes in options.nodes:
        for size in options.sizes:
            best = {}
            for _ in range(options.rounds):
                for name, words in (("plain", [options.bench, str(nodes), "plain", str(repeats(size)), str(size)]),
                                    ("tls", [options.bench, str(nodes), "tls", str(repeats(size)), str(size)]),
                                    ("mpi", ["mpirun", "-n", str(nodes), *MPI_WORDS, mpi, str(repeats(size)), str(size)])):
                    row = run(words)
                    if name not in best or row["p50_s"] < best[name]["p50_s"]:
                        best[name] = row
            ms = {name: 1e3 * row["p50_s"] for name, row in best.items()}
            cpu = {name: row["cpu_s_per_gb"] for name, row in best.items()}
            print(f"| {nodes} | {size} | {ms['plain']:.3f} | {ms['tls']:.3f} | {ms['mpi']:.3f} | {ms['mpi'] / ms['plain']:.2f} | "
                  f"{cpu['plain']:.2f} | {cpu['tls']:.2f} | {cpu['mpi']:.2f} |", flush=True)
