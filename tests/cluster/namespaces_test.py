#!/usr/bin/env python3
"""The commands of the README on two machines, exactly as written, and the same bits on three: machines are network
namespaces with their own addresses.

    namespaces_test.py BUTTERFLY WORK_FOLDER README

Needs root and network namespaces; skipped without.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import time

from harness import PROMPTS, SMALL, Process, Server, make_model, skip

BUTTERFLY, WORK, README = sys.argv[1:4]
if os.geteuid() != 0:
    skip("network namespaces need root")
if shutil.which("ip") is None or shutil.which("curl") is None:
    skip("needs ip (iproute2) and curl")
TAG = f"bf{os.getpid() % 10000}"
NAMES = ["a", "b", "c"]


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


def make_network():
    """Namespaces on one bridge, which is in a namespace of its own: nothing of this machine is touched."""
    ip("netns", "add", f"{TAG}sw")
    ip("-n", f"{TAG}sw", "link", "add", "bridge", "type", "bridge")
    ip("-n", f"{TAG}sw", "link", "set", "bridge", "up")
    for i, name in enumerate(NAMES):
        ns = f"{TAG}{name}"
        ip("netns", "add", ns)
        ip("-n", ns, "link", "add", "eth0", "type", "veth", "peer", "name", f"port{i}", "netns", f"{TAG}sw")
        ip("-n", f"{TAG}sw", "link", "set", f"port{i}", "master", "bridge", "up")
        ip("-n", ns, "addr", "add", f"10.77.0.{i + 1}/24", "dev", "eth0")
        ip("-n", ns, "link", "set", "eth0", "up")
        ip("-n", ns, "link", "set", "lo", "up")


def remove_network():
    for name in [*NAMES, "sw"]:
        subprocess.run(["ip", "netns", "del", f"{TAG}{name}"], capture_output=True)


def machine(name):
    home = f"{WORK}/{name}"
    os.makedirs(f"{home}/bin", exist_ok=True)
    if not os.path.lexists(f"{home}/bin/butterfly"):
        os.symlink(os.path.abspath(BUTTERFLY), f"{home}/bin/butterfly")
    env = {k: v for k, v in os.environ.items() if not k.startswith(("XDG_", "BUTTERFLY_"))}
    return {**env, "HOME": home, "XDG_RUNTIME_DIR": home, "PATH": f"{home}/bin:{env['PATH']}"}


def inside(name, line, cwd):
    """A command line as a person would type it there."""
    return Process(["bash", "-c", f"cd {cwd} && exec {line}"], env=machine(name), before=["ip", "netns", "exec", f"{TAG}{name}"])


def readme_commands():
    """The lines between <!-- two nodes --> and the end of the block behind it."""
    text = open(README).read()
    block = text.split("<!-- two nodes -->", 1)[1].split("```", 2)[1]
    lines = [line.split("#")[0].strip() for line in block.splitlines()]
    return [line for line in lines if line]


def main():
    shutil.rmtree(WORK, ignore_errors=True)
    os.makedirs(f"{WORK}/a")
    model = make_model(BUTTERFLY, f"{WORK}/a/model.gguf", *SMALL)
    init, serve, join, ask = readme_commands()
    print("as the README has it:", init, "|", serve, "|", join, "|", ask, sep="\n  ")
    done = subprocess.run(["ip", "netns", "exec", f"{TAG}a", "bash", "-c", init], env=machine("a"), cwd=f"{WORK}/a",
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    line = done.stdout.strip()
    # The README shows the line that init prints, with dots for its secret.
    assert re.fullmatch(re.escape(join).replace(re.escape("10.0.0.5"), r"10\.77\.0\.1").replace(re.escape("..."), r"\S+"), line), \
        f"README: {join}\nprinted: {line}"
    server = inside("a", serve, f"{WORK}/a")
    node = third = None
    try:
        # Both begin by measuring their machine.
        server.wait_for(r"waiting|Serving|Measuring")
        time.sleep(1)
        node = inside("b", line, WORK)
        node.wait_for("works for")
        server.wait_for("Serving", after=0)
        answer = subprocess.run(["ip", "netns", "exec", f"{TAG}a", "bash", "-c", ask], env=machine("a"),
                                capture_output=True, text=True, timeout=300)
        assert '"choices"' in answer.stdout, f"{answer.stdout}\n{answer.stderr}\n{server.text()}"
        status = subprocess.run(["ip", "netns", "exec", f"{TAG}a", "butterfly", "status", "--json"], env=machine("a"),
                                capture_output=True, text=True)
        state = json.loads(status.stdout)
        addresses = sorted(n["address"].rsplit(":", 1)[0] for n in state["nodes"])
        assert addresses[-1] == "10.77.0.2" and len(state["nodes"]) == 2, addresses
        print("two machines answer; nodes at", ", ".join(n["address"] for n in state["nodes"]))
    finally:
        for process in (node, server):
            if process is not None:
                process.end()


def same_bits():
    """Split evenly over three machines."""
    model = f"{WORK}/a/model.gguf"
    flags = ["-m", model, "-c", "512", "-t", "1"]
    plain = Server(BUTTERFLY, WORK, flags, name="plain", env=machine("a"))
    expected = [plain.complete(p, temperature=0) for p in PROMPTS]
    plain.end()
    nodes = []
    server = Process([BUTTERFLY, "serve", "--port", "8080", *flags, "--cluster", "--nodes", "3", "--nodes-wait", "600", "--strategy", "uniform"],
                     env=machine("a"), before=["ip", "netns", "exec", f"{TAG}a"])
    try:
        server.wait_for(r"cluster does not serve|Serving")
        for name in ("b", "c"):
            made = subprocess.run([BUTTERFLY, "token", "new", "--address", "10.77.0.1", "--json"], env=machine("a"),
                                  capture_output=True, text=True)
            words = ["join"] if name == "b" else ["join", "10.77.0.1", "--token", json.loads(made.stdout)["token"], "--name", "c"]
            nodes.append(Process([BUTTERFLY, *words, "-t", "1"], env=machine(name), before=["ip", "netns", "exec", f"{TAG}{name}"]))
        server.wait_for("Serving")
        for prompt, wanted in zip(PROMPTS, expected):
            body = json.dumps({"prompt": prompt, "max_tokens": 24, "logprobs": 3, "seed": 7, "ignore_eos": True, "temperature": 0})
            answer = subprocess.run(["ip", "netns", "exec", f"{TAG}a", "curl", "-s", "http://127.0.0.1:8080/v1/completions",
                                     "-H", "Content-Type: application/json", "-d", body], capture_output=True, text=True, timeout=300)
            choice = json.loads(answer.stdout)["choices"][0]
            found = (choice["text"], choice["logprobs"]["tokens"], choice["logprobs"]["token_logprobs"])
            assert found == wanted, f"{found}\n{wanted}"
        print("three machines: the same tokens and logarithms as one")
    finally:
        for process in [*nodes, server]:
            process.end()


try:
    make_network()
except subprocess.CalledProcessError as error:
    remove_network()
    skip(f"network namespaces are not allowed here: {error.stderr.decode().strip()}")
try:
    main()
    same_bits()
finally:
    remove_network()
