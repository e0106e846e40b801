#!/usr/bin/env python3
"""The collective of a training step against Open MPI's MPI_Allreduce and Gloo's allreduce, all over TCP on loopback, in turns.

race.py ALLREDUCE_BENCH [--nodes 2 4] [--rounds 3] [--sizes BYTES...] [--mbit 1000 [--socket-bytes N...]]

Needs mpicc and mpirun (Debian: libopenmpi-dev, openmpi-bin), and libgloo-dev. Prints Markdown: the best median of the rounds for each (in each half of
the rounds of a program are not timed), and CPU
seconds of all processes per GB that is summed. With --mbit instead ours alone, with TLS, between network namespaces with links of that
bandwidth: which part of it a node's bytes take (2 (n - 1) / n of those that are summed, without frames of the network), for each size of
socket buffers (0: the system's). Needs root.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

parser = argparse.ArgumentParser()
parser.add_argument("bench")
parser.add_argument("--nodes", type=int, nargs="+", default=[2, 4])
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--sizes", type=int, nargs="+", default=[1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26, 1 << 28])
parser.add_argument("--mbit", type=int)
parser.add_argument("--socket-bytes", type=int, nargs="+", default=[0])
options = parser.parse_args()
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, f"{HERE}/../cluster")
from limited_network import TAG, Network  # noqa: E402

MPI_WORDS = ["--allow-run-as-root", "--oversubscribe", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo",
             "--mca", "pml", "ob1"]


def repeats(size):
    return max(3, min(500, (1 << 28) // size))


def run(words, **env):
    out = subprocess.run(words, capture_output=True, text=True, timeout=600, env={**os.environ, **env})
    assert out.returncode == 0, f"{words}: {out.stderr[-2000:]}"
    return json.loads(next(line for line in out.stdout.splitlines() if line.startswith("{")))


def run_gloo(program, nodes, size):
    """The longest of all ranks, round by round."""
    with tempfile.TemporaryDirectory() as store:
        ranks = [subprocess.Popen([program, str(rank), str(nodes), store, str(repeats(size)), str(size)], stdout=subprocess.PIPE, text=True)
                 for rank in range(nodes)]
        rows = [json.loads(rank.communicate(timeout=600)[0]) for rank in ranks]
    longest = [max(times) for times in zip(*(row["seconds"] for row in rows))]
    return {"p50_s": statistics.median(longest), "cpu_s_per_gb": sum(row["cpu_s"] for row in rows) / (size * repeats(size)) * 1e9}


def limited():
    print("| nodes | links | bytes | socket buffers | ms | part of the link | CPU s/GB |\n|---|---|---|---|---|---|---|")
    for nodes in options.nodes:
        network = Network(nodes, options.mbit)
        try:
            for size in options.sizes:
                best = {}
                for _ in range(options.rounds):
                    for room in options.socket_bytes:
                        env = {"ALLREDUCE_NETNS": TAG, **({"ALLREDUCE_SOCKET_BYTES": str(room)} if room else {})}
                        row = run([options.bench, str(nodes), "tls", str(max(3, min(20, (1 << 24) // size))), str(size)], **env)
                        if room not in best or row["p50_s"] < best[room]["p50_s"]:
                            best[room] = row
                for room, row in best.items():
                    part = 2 * (nodes - 1) / nodes * size * 8 / row["p50_s"] / (options.mbit * 1e6)
                    print(f"| {nodes} | {options.mbit} Mbit/s | {size} | {room or 'system'} | {1e3 * row['p50_s']:.2f} | {100 * part:.1f} % | "
                          f"{row['cpu_s_per_gb']:.2f} |", flush=True)
        finally:
            network.remove()


def race(mpi, gloo):
    print("| nodes | bytes | plain ms | TLS ms | Open MPI ms | Gloo ms | better of the two / plain | CPU s/GB plain | TLS | Open MPI | Gloo |\n"
          "|---|---|---|---|---|---|---|---|---|---|---|")
    for nodes in options.nodes:
        for size in options.sizes:
            best = {}
            for _ in range(options.rounds):
                for name, once in (("plain", lambda: run([options.bench, str(nodes), "plain", str(repeats(size)), str(size)])),
                                   ("tls", lambda: run([options.bench, str(nodes), "tls", str(repeats(size)), str(size)])),
                                   ("mpi", lambda: run(["mpirun", "-n", str(nodes), *MPI_WORDS, mpi, str(repeats(size)), str(size)])),
                                   ("gloo", lambda: run_gloo(gloo, nodes, size))):
                    row = once()
                    if name not in best or row["p50_s"] < best[name]["p50_s"]:
                        best[name] = row
            ms = {name: 1e3 * row["p50_s"] for name, row in best.items()}
            cpu = {name: row["cpu_s_per_gb"] for name, row in best.items()}
            print(f"| {nodes} | {size} | {ms['plain']:.3f} | {ms['tls']:.3f} | {ms['mpi']:.3f} | {ms['gloo']:.3f} | "
                  f"{min(ms['mpi'], ms['gloo']) / ms['plain']:.2f} | {cpu['plain']:.2f} | {cpu['tls']:.2f} | {cpu['mpi']:.2f} | {cpu['gloo']:.2f} |",
                  flush=True)


if options.mbit:
    limited()
else:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["mpicc", "-O2", "-o", f"{folder}/mpi", f"{HERE}/mpi_allreduce.c"], check=True)
        subprocess.run(["g++", "-std=c++17", "-O2", "-o", f"{folder}/gloo", f"{HERE}/gloo_allreduce.cc", "-lgloo", "-lpthread"], check=True)
        race(f"{folder}/mpi", f"{folder}/gloo")
