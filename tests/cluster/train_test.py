#!/usr/bin/env python3
"""Training on several processes of this machine, with real TLS: the model file of one machine, byte for byte.

train_test.py PROGRAM WORK [--kills N] [--steps S]

Runs with 1, 2, 3 and 5 nodes; some with a node that is much slower than the others; one with N workers killed in the middle of steps; one whose leader is killed and started
again; one on a cluster of machines that joined, of which one ends and another comes. Each model file has the SHA-256 of the
run alone.
"""
import argparse
import json
import os
import random
import signal
import socket
import subprocess
import threading
import time

from harness import Process, machine_env, write_capabilities
from train_runs import TrainRuns, children, finish, write_images

parser = argparse.ArgumentParser()
parser.add_argument("program")
parser.add_argument("work")
parser.add_argument("--kills", type=int, default=3)
parser.add_argument("--steps", type=int, default=40)
parser.add_argument("--seed", type=int, default=1)
options = parser.parse_args()
runs = TrainRuns(options.program, options.work)
WORK = runs.work
random.seed(options.seed)


def prepare():
    runs.program("make-corpus", f"{WORK}/corpus", "--items", "300", "--valid", "10", "--questions", "5")
    runs.program("train-tokenizer", "-o", f"{WORK}/t.gguf", "--vocab", "320", f"{WORK}/corpus/train.jsonl")
    runs.write("gpt.yml", "tokenizer: t.gguf\ndatasets: [corpus/train.jsonl]\nmodel:\n  model_type: gpt2\n  hidden_size: 96\n"
          "  intermediate_size: 384\n  num_hidden_layers: 2\n  num_attention_heads: 4\n  max_position_embeddings: 64\n"
          f"sequence_len: 64\nmicro_batch_size: 1\ngradient_accumulation_steps: 10\nmax_steps: {options.steps}\ndropout: 0.1\n"
          "learning_rate: 1e-3\nexport_type: F32\nsave_steps: 10\n")
    write_images(runs, 800)
    runs.write("net.toml", "input = [8, 8, 1]\n[[layer]]\ntype = 'conv2d'\nout = 8\nkernel = 3\n[[layer]]\ntype = 'batch_norm'\n"
          "[[layer]]\ntype = 'relu'\n[[layer]]\ntype = 'max_pool'\nkernel = 2\n[[layer]]\ntype = 'linear'\nout = 4\n")
    runs.write("cnn.yml", "model:\n  network: net.toml\ndatasets: some-images-idx3-ubyte\nmicro_batch_size: 8\n"
          f"gradient_accumulation_steps: 6\nmax_steps: {options.steps}\nlearning_rate: 1e-2\nsave_steps: 10\n")


def same_for_all_counts():
    for config in ("gpt.yml", "cnn.yml"):
        name = config[:3]
        runs.alone(config, name)
        expected = runs.sha256(name)
        for nodes in (2, 3, 5):
            run = runs.together(config, f"{name}-{nodes}", nodes)
            assert runs.sha256(f"{name}-{nodes}") == expected, f"{config} on {nodes} nodes:\n" + run.text()
            status = runs.status(f"{name}-{nodes}")
            assert len(status["nodes"]) == nodes and all(node["micro_batches"] > 0 for node in status["nodes"]), status
            assert status["step"] == options.steps and status["nodes_that_differed"] == 0, status
            print(f"{config} on {nodes} nodes: {expected[:16]}")


def unequal_speeds():
    """One worker computes a third of the time: it gets fewer micro-batches, and the file is the same."""
    for config in ("gpt.yml", "cnn.yml"):
        for nodes in (2, 3, 5):
            out, over = f"{config[:3]}-slow-{nodes}", threading.Event()
            run = runs.start(config, out, "--local-nodes", str(nodes), "--save_steps", "0")
            while run.process.poll() is None and runs.steps_done(out) < 1:
                time.sleep(0.01)
            slow = children(run.pid)[0]

            def hinder():
                while not over.wait(0.01):
                    os.kill(slow, signal.SIGSTOP)
                    time.sleep(0.02)
                    os.kill(slow, signal.SIGCONT)

            hindering = threading.Thread(target=hinder)
            hindering.start()
            while run.process.poll() is None and runs.steps_done(out) < options.steps - 1:
                time.sleep(0.01)
            over.set()
            hindering.join()
            finish(run)
            assert runs.sha256(out) == runs.sha256(config[:3]), f"{config} on {nodes} unequal nodes:\n" + run.text()
            dealt = sorted(node["micro_batches"] for node in runs.status(out)["nodes"])
            print(f"{config} on {nodes} unequal nodes: the same file; micro-batches {dealt}")


def kills():
    """Workers are killed at random moments; they are started again, and take part again."""
    # Who was killed is back after tenths of a second: many kills need steps that are not much shorter.
    longer = ("--gradient_accumulation_steps", "96") if options.kills > 10 else ()
    if longer:
        runs.alone("gpt.yml", "longer", "--save_steps", "0", *longer)
    run = runs.start("gpt.yml", "kills", "--local-nodes", "4", "--save_steps", "0", *longer)
    killed, started = 0, time.monotonic()
    while killed < options.kills and run.process.poll() is None:
        before = runs.steps_done("kills")
        while run.process.poll() is None and runs.steps_done("kills") < max(2, before + options.steps // (options.kills + 1)):
            time.sleep(0.01)
        # At any moment of a step, but not steps later: there would be too few kills in the run.
        time.sleep(random.random() * min(0.1, (time.monotonic() - started) / max(1, runs.steps_done("kills"))))
        try:
            victims = children(run.pid)
            if victims:
                os.kill(random.choice(victims), signal.SIGKILL)
                killed += 1
        except (FileNotFoundError, ProcessLookupError):
            pass  # it ended meanwhile
    finish(run)
    assert killed > options.kills // 2, f"only {killed} were killed in {options.steps} steps"
    assert runs.sha256("kills") == runs.sha256("longer" if longer else "gpt"), run.text()
    seconds = sorted(row["seconds"] for row in runs.metrics("kills"))
    print(f"{killed} workers killed: the same file; {[line for line in run.lines if 'joined' in line][-1]}; a step takes "
          f"{seconds[len(seconds) // 2]:.3f} s (median), the longest with what was lost in it {seconds[-1]:.2f} s")


def lossy_modes():
    """Gradients in fewer bits: another file than that of exact sums, and one for all who share its slots, also over kills."""
    for mode, most in (("bf16", 0.51), ("int8", 0.27)):
        words = ("--wire_mode", mode, "--wire_slots", "5", "--save_steps", "7")
        runs.alone("gpt.yml", mode, *words)
        expected = runs.sha256(mode)
        assert expected != runs.sha256("gpt"), mode
        for nodes in (2, 4):
            run = runs.together("gpt.yml", f"{mode}-{nodes}", nodes, *words)
            assert runs.sha256(f"{mode}-{nodes}") == expected, f"{mode} on {nodes} nodes:\n" + run.text()
            status = runs.status(f"{mode}-{nodes}")
            assert status["wire_mode"] == mode and status["wire_slots"] == 5, status
            floats = sum(node["gradient_bytes"] for node in status["nodes"])
            sent = sum(node["gradient_bytes_sent"] for node in status["nodes"])
            assert 0 < sent <= most * floats, status
        run = runs.start("gpt.yml", f"{mode}-kill", "--local-nodes", "3", *words)
        while run.process.poll() is None and runs.steps_done(f"{mode}-kill") < options.steps // 2:
            time.sleep(0.01)
        os.kill(random.choice(children(run.pid)), signal.SIGKILL)
        finish(run)
        assert runs.sha256(f"{mode}-kill") == expected, f"{mode} over a kill:\n" + run.text()
        exact, lossy = runs.metrics("gpt")[-1]["loss"], runs.metrics(mode)[-1]["loss"]
        assert abs(lossy - exact) < 0.05 * exact and lossy < 0.9 * runs.metrics(mode)[0]["loss"], f"{mode}: {lossy}, exact {exact}"
        print(f"{mode}: {expected[:16]} on 1, 2, 3, 4 nodes, gradients {floats / sent:.2f} x smaller, loss {lossy:.4f} (exact {exact:.4f})")


def leader_killed():
    """The leader's process is killed, its workers end with it; the same command goes on from the checkpoint."""
    run = runs.start("gpt.yml", "leader", "--local-nodes", "3")
    while run.process.poll() is None and runs.steps_done("leader") < options.steps // 2:
        time.sleep(0.01)
    workers = children(run.pid)
    run.kill()
    for _ in range(500):
        if not any(os.path.exists(f"/proc/{pid}") for pid in workers):
            break
        time.sleep(0.01)
    assert not any(os.path.exists(f"/proc/{pid}") for pid in workers), "workers outlived their leader"
    again = runs.start("gpt.yml", "leader", "--local-nodes", "2")
    again.wait_for(r"goes on from step \d+")
    finish(again)
    assert runs.sha256("leader") == runs.sha256("gpt"), again.text()
    print("leader killed: the same file")


def stands_still():
    """A worker that is stopped keeps its links: the others go on without it, and it takes part again later."""
    run = runs.start("gpt.yml", "still", "--local-nodes", "3", "--save_steps", "0")
    while run.process.poll() is None and runs.steps_done("still") < 3:
        time.sleep(0.01)
    worker = children(run.pid)[0]
    os.kill(worker, signal.SIGSTOP)
    run.wait_for("is lost at step")
    os.kill(worker, signal.SIGCONT)
    finish(run)
    assert runs.sha256("still") == runs.sha256("gpt"), run.text()
    print("a worker stood still: the same file")


def paused_and_cancelled():
    """A run stands still while it is told to, ends when it is cancelled, and the same command goes on."""
    run = runs.start("gpt.yml", "paused", "--local-nodes", "3", "--save_steps", "0")
    while run.process.poll() is None and runs.steps_done("paused") < 3:
        time.sleep(0.01)
    folder = ("--output_dir", f"{WORK}/paused")
    runs.program("train", "pause", *folder)
    run.wait_for("paused after step")
    assert runs.status("paused")["state"] == "paused", runs.status("paused")
    done = runs.steps_done("paused")
    time.sleep(0.5)
    assert runs.steps_done("paused") == done < options.steps, run.text()
    second = subprocess.run(runs.words("gpt.yml", "paused"), env=runs.env, capture_output=True, text=True, timeout=60)
    assert second.returncode != 0 and "trains here" in second.stderr, second.stderr
    runs.program("train", "resume", *folder)
    run.wait_for("goes on")
    runs.program("train", "cancel", *folder)
    run.process.wait(timeout=600)
    assert any("cancelled" in line for line in run.lines), run.text()
    again = runs.start("gpt.yml", "paused", "--local-nodes", "2")
    again.wait_for(r"goes on from step \d+")
    finish(again)
    assert runs.sha256("paused") == runs.sha256("gpt"), again.text()
    assert "</svg>" in open(f"{WORK}/paused/step.svg").read() and runs.status("paused")["state"] == "ended"
    assert "butterfly_train_seconds_total" in runs.program("train", "status", "--metrics", *folder).stdout
    print("paused, resumed, cancelled and started again: the same file")


def joined_cluster():
    """Machines that joined: they have neither data nor tokenizer. One ends in the middle, another one comes."""
    capabilities = write_capabilities(options.program, f"{WORK}/capabilities.json")

    def machine(name):
        return machine_env(WORK, f"machine-{name}", capabilities)

    def ask(*words):
        result = subprocess.run([options.program, *words], env=machine("a"), capture_output=True, text=True, timeout=60)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    tokens = [ask("init", "--name", "a", "--address", "127.0.0.1", "--json")["token"]]
    tokens += [ask("token", "new", "--address", address, "--json")["token"] for _ in range(2)]
    run = runs.start("gpt.yml", "joined", "--cluster", "--nodes", "3", "--cluster-listen", address, env=machine("a"))
    nodes = []
    try:
        for name, token in zip("bc", tokens):
            nodes.append(Process([options.program, "join", address, "--token", token, "--name", name, "-t", "1"], machine(name)))
        while run.process.poll() is None and runs.steps_done("joined") < options.steps // 3:
            time.sleep(0.01)
        nodes[0].kill()
        nodes.append(Process([options.program, "join", address, "--token", tokens[2], "--name", "d", "-t", "1"], machine("d")))
        finish(run)
    finally:
        for node in nodes:
            if node.process.poll() is None:
                node.kill()
    assert runs.sha256("joined") == runs.sha256("gpt"), run.text()
    assert any("b is lost" in line for line in run.lines), run.text()
    print("a cluster of machines that joined: the same file")


prepare()
same_for_all_counts()
unequal_speeds()
kills()
lossy_modes()
leader_killed()
stands_still()
paused_and_cancelled()
joined_cluster()
