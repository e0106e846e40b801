#!/usr/bin/env python3
"""LoRA on the shape of a 1.1 B Llama (random weights): Butterfly on quantised files beside PyTorch in f32, in turns.

  lora_race.py BUTTERFLY FOLDER [--types Q8_0,Q4_0,Q4_K_M] [--length 256] [--steps 3] [--rounds 2] [--threads 2] [--layers 22]
               [--set KEY=VALUE]... [--no-torch]

FOLDER keeps the model files. Prints for each type the file, the peak of resident memory of a run (the bound: file + activations +
10 %), tokens/s of every step but the first, and the same of bench/train/lora_torch.py, whose weights are f32. Steps are 1 x length tokens,
rank 16 on all matrices, AdamW; --set gives keys of `train` besides, such as bf16_moments=true. Needs 8 GB for PyTorch; without it only Butterfly runs.
"""
import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys

if "avx512f" in open("/proc/cpuinfo").read():
    os.environ.setdefault("OPENBLAS_CORETYPE", "SkylakeX")  # it does not see AVX-512 in many virtual machines

parser = argparse.ArgumentParser()
parser.add_argument("butterfly")
parser.add_argument("folder")
parser.add_argument("--types", default="Q8_0,Q4_0,Q4_K_M")
for name, default in (("length", 256), ("steps", 3), ("rounds", 2), ("threads", 2), ("layers", 22)):
    parser.add_argument("--" + name, type=int, default=default)
parser.add_argument("--no-torch", action="store_true")
parser.add_argument("--set", action="append", default=[])
args = parser.parse_args()
SHAPE = {"layers": args.layers, "dim": 2048, "heads": 32, "kv-heads": 4, "vocab": 32000}
os.makedirs(args.folder, exist_ok=True)


def peak_of(command):
    """Runs it: its lines, and its peak in bytes."""
    done = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    text = done.stdout.read()
    _, status, usage = os.wait4(done.pid, 0)
    if status != 0:
        sys.exit(f"{' '.join(command)}: {text}")
    return text, usage.ru_maxrss * 1024


def model_of(kind):
    path = os.path.join(args.folder, f"llama-{args.layers}-{kind}.gguf")
    if not os.path.exists(path):
        flags = [x for name, value in SHAPE.items() for x in ("--" + name, str(value))]
        mixed = kind.endswith(("_S", "_M", "_L"))  # tensors of several types: by quantising a file of halves
        plain = path + ".F16" if mixed else path
        quiet = {"check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run([args.butterfly, "make-model", plain, "--hidden", "5632", "--context", "2048", "--type", "F16" if mixed else kind, *flags],
                       **quiet)
        if mixed:
            subprocess.run([args.butterfly, "quantize", plain, path, kind], **quiet)
            os.remove(plain)
    return path


def butterfly_run(kind, model):
    text = os.path.join(args.folder, "text.txt")
    with open(text, "w") as out:
        out.write("a few words of some text, again and again. " * (args.length * (args.steps + 3)))
    output = os.path.join(args.folder, "out-" + kind)
    shutil.rmtree(output, ignore_errors=True)
    command = [args.butterfly, "train", "--base_model", model, "--datasets", text, "--adapter", "lora", "--lora_r", "16", "--sequence_len",
               str(args.length), "--micro_batch_size", "1", "--max_steps", str(args.steps + 1), "--logging_steps", "1", "--threads",
               str(args.threads), "--output_dir", output]
    for pair in args.set:
        key, value = pair.split("=", 1)
        command += ["--" + key, value]
    plan = subprocess.run(command + ["--dry-run"], capture_output=True, text=True, check=True).stdout
    _, peak = peak_of(command)
    steps = [json.loads(line)["seconds"] for line in open(os.path.join(output, "metrics.jsonl"))]
    shutil.rmtree(output, ignore_errors=True)
    return plan, peak, [args.length / seconds for seconds in steps[1:]]


def torch_run():
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lora_torch.py")
    flags = [x for name, value in SHAPE.items() for x in ("--" + name, str(value))]
    text, peak = peak_of(["/usr/bin/python3", script, *flags, "--ff", "5632", "--batch", "1", "--length", str(args.length), "--rank", "16",
                          "--steps", str(args.steps + 1), "--threads", str(args.threads)])
    seconds = [float(line.split()[2]) for line in text.splitlines() if re.match(r"\d+ ", line)]
    return peak, [args.length / s for s in seconds[1:]]


kinds = args.types.split(",")
speeds = {kind: [] for kind in kinds + ["torch"]}
peaks, plans = {}, {}
for _ in range(args.rounds):
    for kind in kinds:
        plans[kind], peak, found = butterfly_run(kind, model_of(kind))
        print(f"{kind}: {[round(x, 1) for x in found]} tokens/s", flush=True)
        peaks[kind] = max(peaks.get(kind, 0), peak)
        speeds[kind] += found
    if not args.no_torch:
        peaks["torch"], found = torch_run()
        print(f"torch: {[round(x, 1) for x in found]} tokens/s", flush=True)
        speeds["torch"] += found
MIB = 1 << 20
for kind in kinds:
    size = os.path.getsize(model_of(kind))
    pool = re.search(r"^all\s+\d+\s+[\d.]+ \w+\s+[\d.]+ \w+\s+([\d.]+) (\w+)", plans[kind], re.M)
    activations = float(pool[1]) * {"KiB": 1 << 10, "MiB": MIB, "GiB": 1 << 30}[pool[2]] if pool else 0
    bound = 1.1 * (size + activations)
    print(f"{kind}: file {size / MIB:.0f} MiB, activations {activations / MIB:.0f} MiB, bound {bound / MIB:.0f} MiB, peak {peaks[kind] / MIB:.0f} MiB, "
          f"{statistics.median(speeds[kind]):.1f} tokens/s ({min(speeds[kind]):.1f} to {max(speeds[kind]):.1f})")
if speeds["torch"]:
    base = statistics.median(speeds["torch"])
    print(f"torch f32: peak {peaks['torch'] / MIB:.0f} MiB, {base:.1f} tokens/s ({min(speeds['torch']):.1f} to {max(speeds['torch']):.1f})")
    for kind in kinds:
        print(f"{kind}: {statistics.median(speeds[kind]) / base:.2f} x")
