#!/usr/bin/env python3
"""Validation losses of a GPT of 1.3 M parameters in every wire mode, over several seeds, beside the exact line of one node.

    wire_losses.py --butterfly BIN [--modes ..] [--seeds 1,2,3] [--steps 150] [--target LOSS] [--step-seconds FILE.json]
                   [--work FOLDER] [--out FILE.json] [--svg FILE.svg]

The bits of a mode depend on its slots and not on nodes, so runs are made by one process with `wire_slots: 4`; `quorum` alone is made by four
processes, of which one computes a third of the time, since who is late decides its result. --target: the first step whose validation loss is at
most that. --step-seconds: what wire_modes.py --out wrote, of the same model; steps become seconds with its means. --out is added to.
"""
import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tests" / "cluster"))
from harness import Process  # noqa: E402
from train_runs import children  # noqa: E402

LOCAL = ["--local_steps", "2", "--outer_momentum", "0"]
MODES = {"exact": ["--wire_mode", "exact"], "bf16": ["--wire_mode", "bf16"], "int8": ["--wire_mode", "int8"],
         "local-steps": ["--wire_mode", "local-steps", *LOCAL], "local-steps-int4": ["--wire_mode", "local-steps-int4", *LOCAL],
         "quorum": ["--wire_mode", "local-steps", *LOCAL, "--merge_quorum", "0.75", "--merge_grace", "0.02", "--local-nodes", "4"]}
COLOURS = {"exact": "#111", "bf16": "#1f77b4", "int8": "#2ca02c", "local-steps": "#d62728", "local-steps-int4": "#9467bd", "quorum": "#ff7f0e"}


def write_config(options):
    data = f"{options.work}/data"
    os.makedirs(data, exist_ok=True)
    if not os.path.exists(f"{data}/t.gguf"):
        for words in (["make-corpus", f"{data}/corpus", "--items", "2000", "--valid", "60", "--questions", "5"],
                      ["train-tokenizer", "-o", f"{data}/t.gguf", "--vocab", "512", f"{data}/corpus/train.jsonl"]):
            subprocess.run([options.butterfly, *words], check=True, capture_output=True)
    Path(f"{data}/gpt.yml").write_text(
        f"tokenizer: {data}/t.gguf\ndatasets: [{data}/corpus/train.jsonl]\ntest_datasets: [{data}/corpus/valid.jsonl]\nmodel:\n  model_type: gpt2\n"
        "  hidden_size: 160\n  intermediate_size: 640\n  num_hidden_layers: 4\n  num_attention_heads: 4\n  max_position_embeddings: 64\n"
        "sequence_len: 64\nmicro_batch_size: 1\ngradient_accumulation_steps: 8\nwire_slots: 4\nlearning_rate: 1e-3\nwarmup_steps: 10\nlogging_steps: 1\n"
        f"eval_steps: 10\nsave_steps: 0\nthreads: 1\nmax_steps: {options.steps}\n")
    return f"{data}/gpt.yml"


def hinder(pid, over):
    """The process computes a third of the time."""
    while not over.wait(0.01):
        try:
            os.kill(pid, signal.SIGSTOP)
            time.sleep(0.02)
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            return


def one_run(options, config, mode, seed):
    out = f"{options.work}/{mode}-{seed}"
    shutil.rmtree(out, ignore_errors=True)
    over = threading.Event()
    run = Process([options.butterfly, "train", config, "--output_dir", out, "--seed", str(seed), *MODES[mode]], dict(os.environ))
    if mode == "quorum":
        while run.process.poll() is None and not os.path.exists(f"{out}/metrics.jsonl"):
            time.sleep(0.02)
        threading.Thread(target=hinder, args=(children(run.pid)[0], over)).start()
    run.process.wait(timeout=900)
    over.set()
    assert run.process.returncode == 0, run.text()
    rows = [json.loads(line) for line in open(f"{out}/metrics.jsonl")]
    row = {"mode": mode, "seed": seed, "valid": [[r["step"], r["eval_loss"]] for r in rows if "eval_loss" in r]}
    if mode == "quorum":
        row["cut_short"] = json.loads(Path(f"{out}/nodes.json").read_text())["nodes_cut_short"] if os.path.exists(f"{out}/nodes.json") else None
    return row


def picture(rows):
    width, height, left, bottom = 720, 420, 60, 40
    last = max(step for row in rows for step, _ in row["valid"])
    losses = [loss for row in rows for _, loss in row["valid"]]
    low, high = min(losses), max(losses)
    def at(step, loss):
        return f"{left + (width - left - 20) * step / last:.1f},{20 + (height - 20 - bottom) * (high - loss) / (high - low):.1f}"
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
             f'<rect width="{width}" height="{height}" fill="#fff"/>']
    for i in range(6):
        loss = low + (high - low) * i / 5
        y = at(0, loss).split(",")[1]
        parts.append(f'<line x1="{left}" x2="{width - 20}" y1="{y}" y2="{y}" stroke="#ddd"/><text x="{left - 8}" y="{y}" text-anchor="end">{loss:.2f}</text>')
        step = round(last * i / 5)
        parts.append(f'<text x="{at(step, low).split(",")[0]}" y="{height - 20}" text-anchor="middle">{step}</text>')
    for row in rows:
        points = " ".join(at(*point) for point in row["valid"])
        thick = 2 if row["mode"] == "exact" else 1
        parts.append(f'<polyline fill="none" stroke="{COLOURS[row["mode"]]}" stroke-width="{thick}" points="{points}"/>')
    for i, mode in enumerate(dict.fromkeys(row["mode"] for row in rows)):
        words = mode + (" (one node)" if mode == "exact" else "")
        parts.append(f'<text x="{width - 170}" y="{40 + 16 * i}" fill="{COLOURS[mode]}">{words}</text>')
    parts.append(f'<text x="{width / 2}" y="{height - 4}" text-anchor="middle">steps; validation loss of each seed</text></svg>')
    return "\n".join(parts) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--butterfly", default="build/release/bin/butterfly")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--target", type=float, default=3.5)
    parser.add_argument("--step-seconds")
    parser.add_argument("--work", default="/tmp/wire_losses")
    parser.add_argument("--out")
    parser.add_argument("--svg")
    options = parser.parse_args()
    options.butterfly = os.path.abspath(options.butterfly)
    rows = json.loads(Path(options.out).read_text()) if options.out and os.path.exists(options.out) else []
    config = write_config(options)
    for mode in filter(None, options.modes.split(",")):
        for seed in map(int, options.seeds.split(",")):
            if any((row["mode"], row["seed"]) == (mode, seed) for row in rows):
                continue
            rows.append(one_run(options, config, mode, seed))
            if options.out:
                Path(options.out).write_text(json.dumps(rows))
    seconds = {row["mode"]: row["mean_s"] for row in json.loads(Path(options.step_seconds).read_text())} if options.step_seconds else {}
    print(f"| mode | steps to {options.target} (each seed) | seconds | final loss (each seed) | mean |\n| --- | --- | --- | --- | --- |")
    for mode in dict.fromkeys(row["mode"] for row in rows):
        own = sorted((row for row in rows if row["mode"] == mode), key=lambda row: row["seed"])
        reached = [next((step for step, loss in row["valid"] if loss <= options.target), None) for row in own]
        final = [row["valid"][-1][1] for row in own]
        took = ", ".join("-" if step is None or mode not in seconds else f"{step * seconds[mode]:.0f}" for step in reached)
        print(f"| `{mode}` | {', '.join(str(step) for step in reached)} | {took} | {', '.join(f'{loss:.3f}' for loss in final)} | {sum(final) / len(final):.3f} |")
    if options.svg:
        Path(options.svg).write_text(picture(rows))


main()
