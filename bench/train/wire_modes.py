#!/usr/bin/env python3
"""Steps of a GPT of 10 M parameters over links of little bandwidth: seconds of a step in every wire mode, beside what the run with
exact gradients had predicted of it.

    wire_modes.py --butterfly BIN [--nodes 2,4] [--mbit 100,1000] [--modes exact,bf16,int8,local-steps,local-steps-int4] [--steps 20] [--set KEY=VALUE ..]
                  [--sweep KEY=VALUE,VALUE ..] [--rounds R] [--threads T] [--work FOLDER] [--out FILE.json] [--show]

A node is a process with a network namespace of its own (`train --cluster` and `join`, so links have TLS); what it sends and what it gets each
passes a token bucket (tc tbf) of the link's bandwidth. All processes share this machine's CPUs, so with more nodes than cores each computes
slower; the prediction knows what was measured, and no more. The first three steps are not timed. A prediction is made by the exact run of
the same cluster from what it has measured (`train status --json`, `forecasts`). Needs root, ip and tc.
--set: further keys of the config, for all modes. --sweep: steps with exact gradients for each value of a key, the others as they are by
default, R times in turns: `--sweep wire_bucket_bytes=1048576,4194304,8388608,16777216 --sweep wire_socket_bytes=0,1048576,4194304,8388608,16777216`. An --out file that exists is added to, and predictions of its exact runs hold for modes that
are run later, where a machine is quiet for minutes only; with `--show` it is only printed.
--alone: after a run with exact gradients the same in one process, without a network: all losses and the model file must have the same bits.
"""
import argparse
import hashlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tests" / "cluster"))
sys.path.insert(0, str(HERE.parent / "cluster"))
from harness import Process, skip  # noqa: E402
from limited_network import Network, run  # noqa: E402

UNTIMED = 3


def machine(work, i):
    home = f"{work}/node{i}"
    os.makedirs(home, exist_ok=True)
    env = {k: v for k, v in os.environ.items() if not k.startswith(("XDG_", "BUTTERFLY_"))}
    return {**env, "HOME": home, "XDG_RUNTIME_DIR": home}


def write_data(options):
    """Text from a grammar and a vocabulary; 6 blocks of 352 with 1,024 tokens are 9.4 M parameters."""
    data = f"{options.work}/data"
    if not os.path.exists(f"{data}/t.gguf"):
        os.makedirs(data, exist_ok=True)
        run(options.butterfly, "make-corpus", f"{data}/corpus", "--items", "2000", "--valid", "10", "--questions", "5")
        run(options.butterfly, "train-tokenizer", "-o", f"{data}/t.gguf", "--vocab", "1024", f"{data}/corpus/train.jsonl")
    keys = "".join(f"{key}: {value}\n" for key, value in (pair.split("=", 1) for pair in options.set))
    Path(f"{data}/gpt.yml").write_text(
        f"tokenizer: {data}/t.gguf\ndatasets: [{data}/corpus/train.jsonl]\nmodel:\n  model_type: gpt2\n  hidden_size: 352\n"
        "  intermediate_size: 1408\n  num_hidden_layers: 6\n  num_attention_heads: 8\n  max_position_embeddings: 128\n"
        "sequence_len: 128\nmicro_batch_size: 2\nlearning_rate: 5e-4\nwarmup_steps: 5\nlogging_steps: 1\nexport_type: F16\n"
        "outer_momentum: 0\n" + keys)
    return f"{data}/gpt.yml"


def metrics(out):
    return [row for row in map(json.loads, open(f"{out}/metrics.jsonl")) if "loss" in row and "seconds" in row]


def train_words(options, config, out, count, mode):
    shutil.rmtree(out, ignore_errors=True)
    return [options.butterfly, "train", config, "--output_dir", out, "--threads", str(options.threads), "--wire_mode", mode, "--max_steps",
            str(UNTIMED + options.steps), "--gradient_accumulation_steps", str(4 * count)]


def compare_alone(options, work, config, count):
    """One process against what the cluster has made with exact gradients."""
    out, made = f"{work}/alone", f"{work}/exact"
    run(*train_words(options, config, out, count, "exact"))
    losses, expected = ([row["loss"] for row in metrics(each)] for each in (made, out))
    files = [hashlib.sha256(Path(f"{each}/model.gguf").read_bytes()).hexdigest() for each in (made, out)]
    if losses != expected or files[0] != files[1]:
        sys.exit(f"{count} nodes are not one: {losses} and {expected}, model files {files}")
    print(f"{count} nodes, exact: all {len(losses)} losses ({losses[0]:.4f} to {losses[-1]:.4f}) and the model file are those of one process: {files[0]}",
          flush=True)


def one_run(options, network, work, config, count, mbit, mode, *more):
    """Seconds of timed steps, and the report of the run."""
    out = f"{work}/{mode}"
    words = [*train_words(options, config, out, count, mode), "--cluster", "--nodes", str(count)]
    if mode.startswith("local-steps"):
        words += ["--local_steps", "4"]
    words += more
    leader = Process(words, env=machine(work, 0), before=network.inside(0))
    try:
        leader.process.wait(timeout=1800)
    finally:
        if leader.process.poll() is None:
            leader.end()
    if leader.process.returncode != 0:
        sys.exit(f"{mode}: {leader.text()[-3000:]}")
    steps = [row["seconds"] for row in metrics(out)]
    report = json.loads(run(options.butterfly, "train", "status", "--json", "--output_dir", out).stdout)
    if len(report["nodes"]) != count:
        sys.exit(f"{mode}: {len(report['nodes'])} nodes took part, expected {count}")
    return steps[UNTIMED:UNTIMED + options.steps], report


def sweep(options, network, work, config, count, mbit):
    """Medians of all steps with one key changed at a time, in turns."""
    cases = [(key, value) for key, values in (pair.split("=", 1) for pair in options.sweep) for value in values.split(",")]
    steps = {case: [] for case in cases}
    for _ in range(options.rounds):
        for key, value in cases:
            steps[key, value] += one_run(options, network, work, config, count, mbit, "exact", f"--{key}", value)[0]
    for (key, value), seconds in steps.items():
        print(f"| {count} | {mbit} Mbit/s | `{key}: {value}` | {statistics.median(seconds):.3f} s | {min(seconds):.3f} to {max(seconds):.3f} | "
              f"{len(seconds)} steps |", flush=True)
    return []


def cluster(options, count, mbit, earlier):
    work = f"{options.work}/{count}-{mbit}"
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    config = write_data(options)
    network = Network(count, mbit)
    joined, rows, predicted = [], [], {}
    for row in earlier:
        if (row["nodes"], row["mbit"], row["mode"]) == (count, mbit, "exact"):
            predicted = {forecast["mode"]: forecast for forecast in row["forecasts"]}
    try:
        made = subprocess.run([*network.inside(0), options.butterfly, "init", "--name", "node0", "--address", "10.80.0.1", "--json"],
                              env=machine(work, 0), capture_output=True, text=True, check=True)
        tokens = [json.loads(made.stdout)["token"]]
        while len(tokens) < count - 1:
            new = subprocess.run([*network.inside(0), options.butterfly, "token", "new", "--address", "10.80.0.1", "--json"],
                                 env=machine(work, 0), capture_output=True, text=True, check=True)
            tokens.append(json.loads(new.stdout)["token"])
        for i in range(1, count):
            joined.append(Process([options.butterfly, "join", "10.80.0.1", "--token", tokens[i - 1], "--name", f"node{i}", "-t", str(options.threads)],
                                  env=machine(work, i), before=network.inside(i)))
        if options.sweep:
            return sweep(options, network, work, config, count, mbit)
        for mode in options.modes.split(","):
            began = time.monotonic()
            steps, report = one_run(options, network, work, config, count, mbit, mode)
            if mode == "exact":
                predicted = {row["mode"]: row for row in report.get("forecasts", [])}
            first = report["nodes"][0]
            total = UNTIMED + options.steps
            row = {"nodes": count, "mbit": mbit, "mode": mode, "steps": steps, "median_s": statistics.median(steps), "mean_s": statistics.mean(steps),
                   "predicted_s": predicted.get(mode, {}).get("step_s"), "predicted_by": predicted.get(mode),
                   "node_seconds_per_step": {k: v / total for k, v in first["seconds"].items()},
                   "beside_s_per_step": first.get("seconds_beside", 0) / total,
                   "gradient_bytes_per_step": sum(n["gradient_bytes_sent"] for n in report["nodes"]) / total,
                   "weight_bytes_per_step": sum(n["weight_bytes_sent"] for n in report["nodes"]) / total,
                   "forecast": report["wire_forecast"], "forecasts": report.get("forecasts", []), "set": options.set, "run_s": time.monotonic() - began}
            rows.append(row)
            print_row(row)
            if options.out:
                Path(options.out).write_text(json.dumps(earlier + rows, indent=1))
            if options.alone and mode == "exact":
                compare_alone(options, work, config, count)
        return rows
    finally:
        for process in joined:
            if process.process.poll() is None:
                process.end()
        network.remove()


def print_row(row):
    parts = row["node_seconds_per_step"]
    if row["predicted_s"]:
        predicted = f"{row['predicted_s']:.3f} s | {100 * (row['predicted_s'] / row['mean_s'] - 1):+.0f} %"
    else:
        predicted = "- | -"
    print(f"| {row['nodes']} | {row['mbit']} Mbit/s | `{row['mode']}` | {row['mean_s']:.3f} s ({row['median_s']:.3f}) | {predicted} | {parts['compute']:.3f} | "
          f"{parts['wire']:.3f} | {parts['wait']:.3f} | {row['beside_s_per_step']:.3f} | {row['gradient_bytes_per_step'] / 1e6:.1f} + "
          f"{row['weight_bytes_per_step'] / 1e6:.1f} MB |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--butterfly", default="build/release/bin/butterfly")
    parser.add_argument("--nodes", default="2,4")
    parser.add_argument("--mbit", default="100,1000")
    parser.add_argument("--modes", default="exact,bf16,int8,local-steps,local-steps-int4")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--sweep", action="append", default=[], metavar="KEY=VALUE,VALUE")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--work", default="/tmp/wire_modes")
    parser.add_argument("--out")
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    options.butterfly = os.path.abspath(options.butterfly)
    rows = json.loads(Path(options.out).read_text()) if options.out and os.path.exists(options.out) else []
    print("| nodes | links | mode | a step: mean (median) | predicted | off by | compute | wire | wait | beside | gradients + weights, all nodes |\n"
          "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for row in rows if options.show else []:
        print_row(row)
    if options.show:
        return
    if os.geteuid() != 0:
        skip("network namespaces need root")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # nodes and namespaces go with it
    for count in map(int, options.nodes.split(",")):
        for mbit in map(int, options.mbit.split(",")):
            rows += cluster(options, count, mbit, rows)


main()
