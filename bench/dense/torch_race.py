#!/usr/bin/env python3
"""Convolutions of ResNet-50 by turns: dense_race conv, then torch, shape after shape; medians of the rounds.

    bench/dense/torch_race.py build/release/bin/dense_race [--threads 1] [--rounds 3] [--only TEXT] [--cpu-time]

torch may choose between plain and channels-last images: the faster one counts. Prints GFLOP/s, ours / torch (ratio).
"""
import argparse
import re
import statistics
import subprocess
import time

import torch

# As in conv_race.cc: name, batch, size, in, out, kernel, stride, padding.
SHAPES = [
    ("resnet conv1 7x7", 8, 224, 3, 64, 7, 2, 3),
    ("resnet 56 64-64 1x1", 8, 56, 64, 64, 1, 1, 0),
    ("resnet 56 64-64 3x3", 8, 56, 64, 64, 3, 1, 1),
    ("resnet 56 64-256 1x1", 8, 56, 64, 256, 1, 1, 0),
    ("resnet 56 256-64 1x1", 8, 56, 256, 64, 1, 1, 0),
    ("resnet 56 128 3x3 s2", 8, 56, 128, 128, 3, 2, 1),
    ("resnet 56 256-512 s2", 8, 56, 256, 512, 1, 2, 0),
    ("resnet 28 128 3x3", 8, 28, 128, 128, 3, 1, 1),
    ("resnet 28 512-128 1x1", 8, 28, 512, 128, 1, 1, 0),
    ("resnet 14 256 3x3", 8, 14, 256, 256, 3, 1, 1),
    ("resnet 14 1024-256", 8, 14, 1024, 256, 1, 1, 0),
    ("resnet 7 512 3x3", 8, 7, 512, 512, 3, 1, 1),
    ("resnet 7 512-2048 1x1", 8, 7, 512, 2048, 1, 1, 0),
]
PASSES = ("forward", "to data", "to weights")


def ours(arguments, name):
    """GFLOP/s of the three passes."""
    program = arguments.program
    command = [program, "conv", "--threads", str(arguments.threads), "--rounds", "1", "--seconds", str(arguments.seconds),
               "--only", name] + ["--cpu-time"] * arguments.cpu_time
    for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
        if line.startswith(name):
            return [float(rate) for rate in re.findall(r"([\d.]+) \( *\d+%\)", line[len(name):])]
    raise SystemExit(f"{program} does not know the shape {name}")


def speed(run, flops, arguments):
    clock = time.process_time if arguments.cpu_time else time.perf_counter
    run()
    begin, calls = clock(), 0
    while clock() - begin < arguments.seconds:
        run()
        calls += 1
    return flops * calls / (clock() - begin) / 1e9


def torch_rates(arguments, shape):
    _, batch, size, inputs, outputs, kernel, stride, pad = shape
    best = [0.0] * len(PASSES)
    for layout in (torch.contiguous_format, torch.channels_last):
        x = torch.randn(batch, inputs, size, size).contiguous(memory_format=layout)
        w = torch.randn(outputs, inputs, kernel, kernel).contiguous(memory_format=layout)
        y = torch.nn.functional.conv2d(x, w, None, stride, pad)
        dy = torch.randn(y.shape).contiguous(memory_format=layout)
        flops = 2.0 * y.numel() * inputs * kernel * kernel

        def backward(mask, x=x, w=w, dy=dy):
            torch.ops.aten.convolution_backward(dy, x, w, [0], [stride] * 2, [pad] * 2, [1, 1], False, [0, 0], 1, mask)

        runs = (lambda x=x, w=w: torch.nn.functional.conv2d(x, w, None, stride, pad),
                lambda: backward([True, False, False]), lambda: backward([False, True, False]))
        best = [max(b, speed(run, flops, arguments)) for b, run in zip(best, runs)]
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="dense_race")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.05, help="per pass and turn")
    parser.add_argument("--only", default="", help="shapes whose name holds this text")
    parser.add_argument("--cpu-time", action="store_true", help="processor time instead of the clock: for 1 thread on a busy machine")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.set_grad_enabled(False)
    print(f"torch {torch.__version__}, {arguments.threads} thread(s): GFLOP/s, ours / torch (ratio)")
    for shape in SHAPES:
        if arguments.only not in shape[0]:
            continue
        turns = [(ours(arguments, shape[0]), torch_rates(arguments, shape)) for _ in range(arguments.rounds)]
        cells = []
        for i in range(len(PASSES)):
            mine, theirs = (statistics.median(turn[side][i] for turn in turns) for side in (0, 1))
            cells.append(f"{mine:7.1f} / {theirs:5.1f} ({mine / theirs:4.2f} x)")
        print(f"{shape[0]:<22}" + "  ".join(cells), flush=True)


if __name__ == "__main__":
    main()
