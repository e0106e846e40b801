#!/usr/bin/env python3
"""The network of mnist_cnn.toml in PyTorch: images a second over some steps of batch 64 with Adam.

  mnist_torch.py [--steps 100] [--batch 64] [--threads 2]
"""
import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--batch", type=int, default=64)
parser.add_argument("--threads", type=int, default=2)
args = parser.parse_args()
torch.set_num_threads(args.threads)
torch.manual_seed(1)
model = nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                      nn.Linear(9216, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
x = torch.randn(args.batch, 1, 28, 28)
y = torch.randint(0, 10, (args.batch,))


def step():
    optimizer.zero_grad(set_to_none=True)
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()


for _ in range(5):
    step()
start = time.perf_counter()
for _ in range(args.steps):
    step()
seconds = time.perf_counter() - start
print("images_per_second", f"{args.steps * args.batch / seconds:.1f}")
