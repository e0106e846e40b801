#!/usr/bin/env python3
"""A Llama of Hugging Face's form with an adapter of PEFT's, in PyTorch, f32: losses to compare Butterfly's with.

  peft_llama.py --model FOLDER --windows FOLDER [--learn ADAPTER --batch 8 --lr 1e-3] [--adapter ADAPTER]

--model has config.json and model.safetensors. --windows has tokens.npy and targets.npy (rows of equal length; a target below 0
does not count) to learn from, and valid_tokens.npy and valid_targets.npy. --learn: the adapter of this folder learns all rows, in
order, a batch a step (AdamW without decay), then a line "learned LOSS" with its loss on the validation rows. --adapter: a line
"adapter LOSS" for this one as it is. The first line is "base LOSS", without any. Exit code 77: no PyTorch here.
"""
import argparse
import ast
import json
import os
import struct
import sys

try:
    import torch
    import torch.nn.functional as F
except ImportError as error:
    print(error)
    sys.exit(77)

parser = argparse.ArgumentParser()
for name in ("model", "windows", "learn", "adapter"):
    parser.add_argument("--" + name)
parser.add_argument("--batch", type=int, default=8)
parser.add_argument("--lr", type=float, default=1e-3)
args = parser.parse_args()
torch.set_num_threads(1)


def read_npy(name):
    """A .npy file of floats; numpy may not be installed."""
    with open(os.path.join(args.windows, name + ".npy"), "rb") as file:
        assert file.read(8) == b"\x93NUMPY\x01\x00"
        header = ast.literal_eval(file.read(int.from_bytes(file.read(2), "little")).decode())
        return torch.frombuffer(bytearray(file.read()), dtype=torch.float32).reshape(header["shape"]).long()


def read_safetensors(path):
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        head = json.loads(file.read(size))
        data = file.read()
    tensors = {}
    for name, entry in head.items():
        if name == "__metadata__":
            continue
        assert entry["dtype"] == "F32", (name, entry)
        begin, end = entry["data_offsets"]
        tensors[name] = torch.frombuffer(bytearray(data[begin:end]), dtype=torch.float32).reshape(entry["shape"])
    return tensors


config = json.load(open(os.path.join(args.model, "config.json")))
weights = read_safetensors(os.path.join(args.model, "model.safetensors"))
heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
dim = config["hidden_size"] // heads
# Tied ones are stored once, under either name.
embedding = weights.get("model.embed_tokens.weight", weights.get("lm_head.weight"))
head = weights.get("lm_head.weight", embedding)


class Adapter:
    """y + scale * (x A^T) B^T for every module that adapter_model.safetensors names."""

    def __init__(self, folder):
        self.pairs, self.scale = {}, 0.0
        if folder is None:
            return
        options = json.load(open(os.path.join(folder, "adapter_config.json")))
        assert options["peft_type"] == "LORA"
        self.scale = options["lora_alpha"] / (options["r"] ** 0.5 if options.get("use_rslora") else options["r"])
        for name, value in read_safetensors(os.path.join(folder, "adapter_model.safetensors")).items():
            prefix, suffix = "base_model.model.", ".weight"
            assert name.startswith(prefix) and name.endswith(suffix), name
            module, part = name[len(prefix):-len(suffix)].rsplit(".", 1)
            self.pairs.setdefault(module, {})[part] = value.clone().requires_grad_()
        assert all(module + ".weight" in weights and set(pair) == {"lora_A", "lora_B"} for module, pair in self.pairs.items())

    def parameters(self):
        return [value for pair in self.pairs.values() for value in pair.values()]

    def linear(self, module, x):
        y = x @ weights[module + ".weight"].T
        pair = self.pairs.get(module)
        return y if pair is None else y + self.scale * ((x @ pair["lora_A"].T) @ pair["lora_B"].T)


def rms(x, name):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + config["rms_norm_eps"]) * weights[name + ".weight"]


def rope(x, cos, sin):
    """Halves of a head, as Hugging Face rotates them."""
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def loss_of(adapter, tokens, targets):
    n, length = tokens.shape
    angles = torch.outer(torch.arange(length).double(), config["rope_theta"] ** (-torch.arange(0, dim, 2).double() / dim))
    cos, sin = angles.cos().float(), angles.sin().float()
    mask = torch.full((length, length), float("-inf")).triu(1)
    x = embedding[tokens]
    for i in range(config["num_hidden_layers"]):
        p = f"model.layers.{i}."
        y = rms(x, p + "input_layernorm")
        q = adapter.linear(p + "self_attn.q_proj", y).view(n, length, heads, dim).transpose(1, 2)
        k = adapter.linear(p + "self_attn.k_proj", y).view(n, length, kv_heads, dim).transpose(1, 2)
        v = adapter.linear(p + "self_attn.v_proj", y).view(n, length, kv_heads, dim).transpose(1, 2)
        q, k = rope(q, cos, sin), rope(k, cos, sin)
        k, v = (z.repeat_interleave(heads // kv_heads, 1) for z in (k, v))
        seen = (q @ k.transpose(-1, -2) / dim ** 0.5 + mask).softmax(-1) @ v
        x = x + adapter.linear(p + "self_attn.o_proj", seen.transpose(1, 2).reshape(n, length, heads * dim))
        y = rms(x, p + "post_attention_layernorm")
        gated = F.silu(adapter.linear(p + "mlp.gate_proj", y)) * adapter.linear(p + "mlp.up_proj", y)
        x = x + adapter.linear(p + "mlp.down_proj", gated)
    logits = rms(x, "model.norm") @ head.T
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100)


def rows(name):
    tokens, targets = read_npy(name + "tokens"), read_npy(name + "targets")
    targets[targets < 0] = -100
    return tokens, targets


def validate(word, adapter):
    with torch.no_grad():
        print(word, float(loss_of(adapter, *valid)), flush=True)


valid = rows("valid_")
validate("base", Adapter(None))
if args.learn:
    tokens, targets = rows("")
    adapter = Adapter(args.learn)
    optimizer = torch.optim.AdamW(adapter.parameters(), lr=args.lr, weight_decay=0)
    for begin in range(0, len(tokens), args.batch):
        loss = loss_of(adapter, tokens[begin:begin + args.batch], targets[begin:begin + args.batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    validate("learned", adapter)
if args.adapter:
    validate("adapter", Adapter(args.adapter))
