#!/usr/bin/env python3
"""Adapters on clusters: the bits of one machine in chains, in shared layers, after a loss, and where the files come over the wire.

    lora_test.py BUTTERFLY WORK_FOLDER
"""
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys

from harness import PROMPTS, Process, Server, machine_env, make_model, write_capabilities

BUTTERFLY, WORK = sys.argv[1], sys.argv[2]
shutil.rmtree(WORK, ignore_errors=True)
os.makedirs(f"{WORK}/model")
LAYERS, DIM, HIDDEN, KV = 4, 512, 1024, 256
MODEL = make_model(BUTTERFLY, f"{WORK}/model/shards.gguf", "--layers", str(LAYERS), "--dim", str(DIM), "--hidden", str(HIDDEN),
                   "--heads", "8", "--kv-heads", "4", "--vocab", "1024", "--context", "512", "--type", "q8_0")


def write_adapter(folder, rank=4):
    """As PEFT saves one: random matrices beside all that a llama has."""
    random.seed(7)
    shapes = {"self_attn.q_proj": (DIM, DIM), "self_attn.k_proj": (KV, DIM), "self_attn.v_proj": (KV, DIM), "self_attn.o_proj": (DIM, DIM),
              "mlp.gate_proj": (HIDDEN, DIM), "mlp.up_proj": (HIDDEN, DIM), "mlp.down_proj": (DIM, HIDDEN)}
    header, data = {}, b""
    for layer in range(LAYERS):
        for module, (rows, columns) in shapes.items():
            for part, shape in [("lora_A", (rank, columns)), ("lora_B", (rows, rank))]:
                values = [random.gauss(0, 0.1) for _ in range(shape[0] * shape[1])]
                raw = struct.pack(f"<{len(values)}f", *values)
                header[f"base_model.model.model.layers.{layer}.{module}.{part}.weight"] = {
                    "dtype": "F32", "shape": list(shape), "data_offsets": [len(data), len(data) + len(raw)]}
                data += raw
    os.makedirs(folder)
    with open(f"{folder}/adapter_config.json", "w") as out:
        json.dump({"peft_type": "LORA", "r": rank, "lora_alpha": 2 * rank}, out)
    text = json.dumps(header).encode()
    with open(f"{folder}/adapter_model.safetensors", "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + data)
    return folder


ADAPTER = write_adapter(f"{WORK}/adapter")
FLAGS = ["-m", f"base={MODEL}", "--lora", f"tuned={ADAPTER}:0.5", "-c", "512", "-t", "1"]


def texts(server):
    return {model: [server.complete(prompt, model=model, temperature=temperature) for prompt in PROMPTS for temperature in (0, 1)]
            for model in ("base", "tuned")}


plain = Server(BUTTERFLY, WORK, FLAGS, name="plain")
try:
    expected = texts(plain)
    stream = plain.stream(PROMPTS[0], 40, model="tuned", temperature=0)
finally:
    plain.end()
assert expected["base"] != expected["tuned"], "the adapter does nothing: this would prove nothing"

for nodes, more in [(2, []), (3, []), (2, ["--groups", "2"]), (3, ["--groups", "3"]), (4, ["--groups", "2"])]:
    server = Server(BUTTERFLY, WORK, [*FLAGS, "--local-nodes", str(nodes), "--local-restarts", "0", *more], name="local")
    try:
        found = texts(server)
        assert found == expected, f"{nodes} nodes {more}: other bits\n{found}\n{expected}\n{server.text()}"
        if nodes == 3:
            def on_token(count):
                if count == 12:
                    os.kill(server.workers()[0], signal.SIGKILL)

            found = server.stream(PROMPTS[0], 40, on_token, model="tuned", temperature=0)
            assert found == stream, f"{nodes} nodes {more}, one killed: other tokens\n{found}\n{stream}\n{server.text()}"
    finally:
        server.end()
    print(f"{nodes} nodes {' '.join(more)}: same bits with and without the adapter")

# A machine that has neither the model nor the adapter gets its part of both over the wire.
CAPABILITIES = write_capabilities(BUTTERFLY, f"{WORK}/capabilities.json")


def machine(name):
    return machine_env(WORK, name, CAPABILITIES)


made = subprocess.run([BUTTERFLY, "init", "--name", "a", "--address", "127.0.0.1", "--json"], env=machine("a"), capture_output=True,
                      text=True, check=True)
server = Server(BUTTERFLY, WORK, [*FLAGS, "--cluster", "--cluster-listen", "127.0.0.1:0", "--strategy", "uniform", "--nodes", "2",
                                  "--nodes-wait", "600"], name="a", env=machine("a"), ready=False)
address = server.wait_for(r"nodes join at (\S+)")[1]
node = Process([BUTTERFLY, "join", address, "--token", json.loads(made.stdout)["token"], "--name", "b", "-t", "1"], env=machine("b"))
try:
    server.wait_ready()
    found = texts(server)
    assert found == expected, f"two machines: other bits\n{found}\n{expected}\n{server.text()}"
    node.wait_for(r"fetched in \d+ chunks")
    stored = [name for _, _, names in os.walk(f"{WORK}/b") for name in names]
    assert "adapter_model.safetensors" in stored, stored
finally:
    node.end()
    server.end()
print("two machines: the adapter came over the wire, same bits")

# An adapter for another shape is refused in words before anything starts.
other = make_model(BUTTERFLY, f"{WORK}/model/other.gguf", "--layers", "2", "--dim", "128", "--hidden", "256", "--heads", "4")
wrong = subprocess.run([BUTTERFLY, "serve", "--port", "0", "-m", other, "--lora", f"tuned={ADAPTER}", "--local-nodes", "2"],
                       capture_output=True, text=True, timeout=120)
assert wrong.returncode != 0 and "adapter" in wrong.stderr, wrong.stderr
print("an adapter of another shape:", wrong.stderr.strip().splitlines()[-1][:160])
