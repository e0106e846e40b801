#!/usr/bin/env python3
"""LoRA beside a frozen Llama in PyTorch, f32: the losses and the speed that Butterfly's are compared with.

  lora_torch.py --layers 22 --dim 2048 --heads 32 --kv-heads 4 --ff 5632 --vocab 32000 --batch 1 --length 512
                --rank 16 --steps 3 [--threads 2] [--lr 1e-3] [--weights FOLDER] [--beta 0.1]

With --weights, FOLDER holds <tensor>.npy under GGUF's names, those of the adapter too (<tensor>.lora_a, .lora_b), and
tokens.npy and targets.npy with a row for each sequence of each step (targets below 0 do not count); else all is random.
With --beta, sequences are pairs of answers, the better one first, and the loss is that of direct preference optimisation.
One line per step: step, loss, seconds. With --weights, FOLDER/grad.<tensor>.lora_a.npy (Butterfly's gradients of the first
step) are compared: a line "gradients" with the largest relative distance. Exit code 77: no PyTorch here.
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
for name, default in (("layers", 2), ("dim", 256), ("heads", 4), ("kv-heads", 2), ("ff", 256), ("vocab", 272), ("batch", 2),
                      ("length", 12), ("rank", 4), ("steps", 5), ("threads", 2)):
    parser.add_argument("--" + name, type=int, default=default)
parser.add_argument("--lr", type=float, default=1e-3)
parser.add_argument("--scale", type=float, default=2.0)
parser.add_argument("--eps", type=float, default=1e-5)
parser.add_argument("--base", type=float, default=10000.0)
parser.add_argument("--beta", type=float, default=0.0)
parser.add_argument("--weights")
args = parser.parse_args()
torch.set_num_threads(args.threads)
torch.manual_seed(1)


def read_npy(path):
    """A .npy file of floats; numpy may not be installed."""
    with open(path, "rb") as file:
        assert file.read(8) == b"\x93NUMPY\x01\x00"
        size = int.from_bytes(file.read(2), "little")
        header = ast.literal_eval(file.read(size).decode())
        return torch.frombuffer(bytearray(file.read()), dtype=torch.float32).reshape(header["shape"])


def load(name, *shape):
    if args.weights:
        return read_npy(os.path.join(args.weights, name + ".npy"))
    return torch.ones(shape) if len(shape) == 1 else 0.02 * torch.randn(shape)


adapters = {}


class Linear:
    """A frozen matrix and its adapter."""

    def __init__(self, name, out, inner):
        self.weight = load(name, out, inner)
        self.name = name
        self.a = load(name + ".lora_a", args.rank, inner).clone().requires_grad_()
        b = load(name + ".lora_b", out, args.rank) if args.weights else torch.zeros(out, args.rank)
        self.b = b.clone().requires_grad_()
        adapters[name + ".lora_a"], adapters[name + ".lora_b"] = self.a, self.b

    def __call__(self, x, adapted):
        y = x @ self.weight.T
        return y + args.scale * ((x @ self.a.T) @ self.b.T) if adapted else y


head_dim = args.dim // args.heads
kv_dim = head_dim * args.kv_heads
layers = []
for i in range(args.layers):
    p = f"blk.{i}."
    layers.append({
        "attn_norm": load(p + "attn_norm.weight", args.dim), "ffn_norm": load(p + "ffn_norm.weight", args.dim),
        "q": Linear(p + "attn_q.weight", args.dim, args.dim), "k": Linear(p + "attn_k.weight", kv_dim, args.dim),
        "v": Linear(p + "attn_v.weight", kv_dim, args.dim), "o": Linear(p + "attn_output.weight", args.dim, args.dim),
        "gate": Linear(p + "ffn_gate.weight", args.ff, args.dim), "up": Linear(p + "ffn_up.weight", args.ff, args.dim),
        "down": Linear(p + "ffn_down.weight", args.dim, args.ff)})
embedding = load("token_embd.weight", args.vocab, args.dim)
final_norm = load("output_norm.weight", args.dim)
head = load("output.weight", args.vocab, args.dim)

angles = torch.outer(torch.arange(args.length).double(), args.base ** (-torch.arange(0, head_dim, 2).double() / head_dim))
cos, sin = angles.cos().float(), angles.sin().float()
mask = torch.full((args.length, args.length), float("-inf")).triu(1)


def rms(x, weight):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + args.eps) * weight


def rope(x):
    """Pairs of neighbours, as GGUF's llama rotates them."""
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)


def losses(tokens, targets, adapted=True):
    """The cross-entropy of every position, 0 where there is no target."""
    x = embedding[tokens]
    n, t = tokens.shape
    for layer in layers:
        y = rms(x, layer["attn_norm"])
        q = rope(layer["q"](y, adapted).view(n, t, args.heads, head_dim).transpose(1, 2))
        k = rope(layer["k"](y, adapted).view(n, t, args.kv_heads, head_dim).transpose(1, 2))
        v = layer["v"](y, adapted).view(n, t, args.kv_heads, head_dim).transpose(1, 2)
        k, v = (z.repeat_interleave(args.heads // args.kv_heads, 1) for z in (k, v))
        scores = q @ k.transpose(-1, -2) / head_dim ** 0.5 + mask
        seen = (scores.softmax(-1) @ v).transpose(1, 2).reshape(n, t, args.dim)
        x = x + layer["o"](seen, adapted)
        y = rms(x, layer["ffn_norm"])
        x = x + layer["down"](F.silu(layer["gate"](y, adapted)) * layer["up"](y, adapted), adapted)
    logits = rms(x, final_norm) @ head.T
    rows = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100, reduction="none")
    return rows.view(n, t)


def loss_of(tokens, targets):
    rows = losses(tokens, targets)
    if args.beta == 0:
        return rows.sum() / (targets >= 0).sum()
    with torch.no_grad():
        before = losses(tokens, targets, adapted=False).sum(1)
    gained = before - rows.sum(1)
    return -F.logsigmoid(args.beta * (gained[0::2] - gained[1::2])).mean()


if args.weights:
    all_tokens = read_npy(os.path.join(args.weights, "tokens.npy")).long()
    all_targets = read_npy(os.path.join(args.weights, "targets.npy")).long()
    all_targets[all_targets < 0] = -100
else:
    all_tokens = torch.randint(args.vocab, (args.steps * args.batch, args.length))
    all_targets = torch.randint(args.vocab, (args.steps * args.batch, args.length))
optimizer = torch.optim.AdamW(list(adapters.values()), lr=args.lr, weight_decay=0)
for step in range(args.steps):
    start = time.time()
    rows = slice(step * args.batch, (step + 1) * args.batch)
    loss = loss_of(all_tokens[rows], all_targets[rows])
    optimizer.zero_grad()
    loss.backward()
    if step == 0 and args.weights:
        worst = 0.0
        for name, value in adapters.items():
            path = os.path.join(args.weights, "grad." + name + ".npy")
            if os.path.exists(path):
                worst = max(worst, float((read_npy(path) - value.grad).norm() / (value.grad.norm() + 1e-12)))
        print("gradients", worst)
    optimizer.step()
    print(step, float(loss), time.time() - start, flush=True)
print("peak", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
