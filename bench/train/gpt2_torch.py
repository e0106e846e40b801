#!/usr/bin/env python3
"""A GPT-2 of any size in PyTorch: the losses and the speed that Butterfly's are compared with.

  gpt2_torch.py --layers 12 --dim 768 --heads 12 --vocab 50257 --context 1024 --batch 4 --length 64 --steps 10
                [--weights FOLDER] [--threads 2] [--lr 1e-4] [--text FOLDER]

With --weights, FOLDER holds <tensor>.npy under GGUF's names (what gpt2_step --dump writes); else weights are random. Tokens
are the same function of the step as in gpt2_step. One line per step: step, loss, seconds. Exit code 77: no PyTorch here.

With --text, tokens are the bytes of FOLDER/train.bin in windows of --length; FOLDER/order.txt has the windows of one step a
line. The loss over all windows of FOLDER/valid.bin is printed at the end: valid, loss.
"""
import argparse
import ast
import os
import resource
import sys
import time

try:
    import torch
    import torch.nn.functional as F
except ImportError as error:
    print(error)
    sys.exit(77)

parser = argparse.ArgumentParser()
for name, default in (("layers", 2), ("dim", 64), ("heads", 4), ("vocab", 256), ("context", 64), ("batch", 4), ("length", 32),
                      ("steps", 10), ("threads", 2)):
    parser.add_argument("--" + name, type=int, default=default)
parser.add_argument("--lr", type=float, default=1e-4)
parser.add_argument("--weights")
parser.add_argument("--text")
args = parser.parse_args()
torch.set_num_threads(args.threads)
torch.manual_seed(1)


def read_npy(path):
    """A .npy file of floats; numpy may not be installed."""
    with open(path, "rb") as file:
        data = bytearray(file.read())
    begin = 10 + int.from_bytes(data[8:10], "little")
    shape = ast.literal_eval(data[10:begin].decode())["shape"]
    return torch.frombuffer(data, dtype=torch.float32, offset=begin).view(shape)


def load(name, *shape):
    if args.weights:
        value = read_npy(os.path.join(args.weights, name + ".npy"))
    elif len(shape) == 1:
        value = torch.ones(shape) if name.endswith("norm.weight") else torch.zeros(shape)
    else:
        value = torch.randn(shape) * 0.02
    assert tuple(value.shape) == shape, (name, value.shape, shape)
    parameters[name] = torch.nn.Parameter(value.clone())


parameters = {}
D, H, T, B = args.dim, args.heads, args.length, args.batch
load("token_embd.weight", args.vocab, D)
load("position_embd.weight", args.context, D)
for i in range(args.layers):
    b = f"blk.{i}."
    for norm in ("attn_norm", "ffn_norm"):
        load(b + norm + ".weight", D)
        load(b + norm + ".bias", D)
    for layer, out, inner in (("attn_qkv", 3 * D, D), ("attn_output", D, D), ("ffn_up", 4 * D, D), ("ffn_down", D, 4 * D)):
        load(b + layer + ".weight", out, inner)
        load(b + layer + ".bias", out)
load("output_norm.weight", D)
load("output_norm.bias", D)
p = parameters
mask = torch.full((T, T), float("-inf")).triu(1)


def linear(x, name):
    return F.linear(x, p[name + ".weight"], p[name + ".bias"])


def norm(x, name):
    return F.layer_norm(x, (D,), p[name + ".weight"], p[name + ".bias"], 1e-5)


def loss_of(tokens, targets):
    B = tokens.shape[0]
    x = F.embedding(tokens, p["token_embd.weight"]) + p["position_embd.weight"][:T]
    for i in range(args.layers):
        b = f"blk.{i}."
        q, k, v = linear(norm(x, b + "attn_norm"), b + "attn_qkv").split(D, dim=2)
        q, k, v = (t.view(B, T, H, D // H).transpose(1, 2) for t in (q, k, v))
        scores = q @ k.transpose(2, 3) / (D // H) ** 0.5 + mask
        y = (scores.softmax(3) @ v).transpose(1, 2).reshape(B, T, D)
        x = x + linear(y, b + "attn_output")
        x = x + linear(F.gelu(linear(norm(x, b + "ffn_norm"), b + "ffn_up"), approximate="tanh"), b + "ffn_down")
    logits = F.linear(norm(x, "output_norm"), p["token_embd.weight"])
    return F.cross_entropy(logits.view(-1, args.vocab), targets.view(-1))


def tokens_of(step):
    index = torch.arange(B * (T + 1), dtype=torch.int64)
    mixed = (index * 7919 + step * 104729 + index * index % 1009 * 31) % args.vocab
    rows = mixed.view(B, T + 1)
    return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()


def read_bytes(name):
    with open(os.path.join(args.text, name), "rb") as file:
        return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).long()


def windows_of(data, items):
    rows = torch.stack([data[i * T : (i + 1) * T + 1] for i in items])
    return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()


if args.text:
    train, valid = read_bytes("train.bin"), read_bytes("valid.bin")
    with open(os.path.join(args.text, "order.txt")) as file:
        order = [[int(i) for i in line.split()] for line in file]

matrices = [t for t in p.values() if t.dim() > 1]
vectors = [t for t in p.values() if t.dim() == 1]
optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.01}, {"params": vectors, "weight_decay": 0.0}],
                              lr=args.lr, betas=(0.9, 0.999), eps=1e-8)
for step in range(args.steps):
    tokens, targets = windows_of(train, order[step]) if args.text else tokens_of(step)
    start = time.perf_counter()
    optimizer.zero_grad(set_to_none=True)
    loss = loss_of(tokens, targets)
    loss.backward()
    optimizer.step()
    print(step, f"{loss.item():.7f}", f"{time.perf_counter() - start:.4f}", flush=True)
if args.text:
    with torch.no_grad():
        count = (len(valid) - 1) // T
        batches = [range(i, min(count, i + 64)) for i in range(0, count, 64)]
        total = sum(len(items) * loss_of(*windows_of(valid, items)).item() for items in batches)
    print("valid", f"{total / count:.7f}")
print("peak_bytes", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
