#!/usr/bin/env python3
"""The network of mnist_cnn.toml in PyTorch: images a second with Adam, or losses from given weights.

  mnist_torch.py [--steps 100] [--batch 64] [--threads 2] [--weights FOLDER]

With --weights, FOLDER holds <tensor>.npy under the names of mnist_cnn.toml's layers, and one loss is printed per step; images
are the same function of the step as in torch_test.cc. Exit code 77: no PyTorch here.
"""
import argparse
import ast
import os
import sys
import time

try:
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
except ImportError as error:
    print(error)
    sys.exit(77)

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--batch", type=int, default=64)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--weights")
args = parser.parse_args()
torch.set_num_threads(args.threads)
torch.manual_seed(1)
model = nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                      nn.Linear(9216, 128), nn.ReLU(), nn.Linear(128, 10))


def read_npy(name):
    with open(os.path.join(args.weights, name + ".npy"), "rb") as file:
        data = bytearray(file.read())
    begin = 10 + int.from_bytes(data[8:10], "little")
    shape = ast.literal_eval(data[10:begin].decode())["shape"]
    return torch.frombuffer(data, dtype=torch.float32, offset=begin).view(shape)


def load():
    """Channels stand last in our kernels and in our flat rows."""
    for index, name in ((0, "conv2d_0"), (2, "conv2d_1"), (6, "linear_4"), (8, "linear_5")):
        weight = read_npy(name + ".weight")
        if weight.dim() == 4:
            weight = weight.permute(0, 3, 1, 2)
        if index == 6:
            weight = weight.view(128, 12, 12, 64).permute(0, 3, 1, 2).reshape(128, 9216)
        model[index].weight.data = weight.clone().contiguous()
        model[index].bias.data = read_npy(name + ".bias").clone()


def data_of(step):
    index = torch.arange(args.batch * 784, dtype=torch.int64)
    x = ((index * 7919 + step * 104729 + index * index % 1009 * 31) % 256).float() / 255 - 0.5
    y = (torch.arange(args.batch, dtype=torch.int64) * 31 + step) % 10
    return x.view(args.batch, 1, 28, 28), y


if args.weights:
    load()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)


def train(x, y):
    optimizer.zero_grad(set_to_none=True)
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()


if args.weights:
    for step in range(args.steps):
        print(step, f"{train(*data_of(step)):.7f}")
    sys.exit(0)
x, y = data_of(0)
for _ in range(5):
    train(x, y)
start = time.perf_counter()
for _ in range(args.steps):
    train(x, y)
seconds = time.perf_counter() - start
print("images_per_second", f"{args.steps * args.batch / seconds:.1f}")
