#!/usr/bin/env python3
"""Full disks (small tmpfs): a journal that cannot be written, and goes on when there is room; a node whose cache has no room for its layers.

    disk_test.py BUTTERFLY WORK_FOLDER

Needs root for mounts of its own; skipped without.
"""
import json
import os
import shutil
import subprocess
import sys

from harness import PROMPTS, SMALL, Process, Server, machine_env, make_model, skip, write_capabilities
from resuming import SETTINGS, ResumingClient, check_all, wait_until_reached

BUTTERFLY, WORK = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
if os.environ.get("BUTTERFLY_OWN_MOUNTS") != "1":
    if subprocess.run(["unshare", "-m", "true"], stderr=subprocess.DEVNULL).returncode != 0:
        skip("no mounts of its own")
    sys.exit(subprocess.run(["unshare", "-m", sys.executable, *sys.argv], env=os.environ | {"BUTTERFLY_OWN_MOUNTS": "1"}).returncode)
os.makedirs(WORK, exist_ok=True)
MODEL = make_model(BUTTERFLY, f"{WORK}/model.gguf", *SMALL)
CAPABILITIES = write_capabilities(BUTTERFLY, f"{WORK}/capabilities.json")
TOKENS = 120


def small_disk(path, size):
    os.makedirs(path, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "none", path], check=True)
    return path


def fill(path):
    """Until nothing fits any more."""
    with open(f"{path}/filler", "wb", buffering=0) as out:
        try:
            while True:
                out.write(b"x" * 4096)
        except OSError:
            pass


plain = Server(BUTTERFLY, WORK, ["-m", MODEL, "-c", "512", "-t", "1"], name="plain")
try:
    expected = [plain.stream(PROMPTS[i % 2], TOKENS, **SETTINGS[i]) for i in range(4)]
finally:
    plain.end()

disk = small_disk(f"{WORK}/journal_disk", "64k")
flags = ["-m", MODEL, "-c", "512", "-t", "1", "--journal", f"{disk}/journal"]
server = Server(BUTTERFLY, WORK, flags, name="serve")
try:
    check_all([ResumingClient(i, TOKENS, lambda: [server]) for i in range(4)], expected, server.text)
    fill(disk)
    # More than what is left of the file's last block.
    for _ in range(12):
        check_all([ResumingClient(i, TOKENS, lambda: [server]) for i in range(4)], expected, server.text)
    server.wait_for("cannot be gone on with", 10)
    os.unlink(f"{disk}/filler")
    clients = [ResumingClient(i, TOKENS, lambda: [server]) for i in range(4)]
    wait_until_reached(clients, 10)
    server.kill()
    server = Server(BUTTERFLY, WORK, flags, name="serve")
    resumed, _ = check_all(clients, expected, server.text)
    assert resumed > 0
    print("a full disk under the journal: streams are right and said to be kept no more; with room again they are")
finally:
    server.end()

for name in "ab":
    shutil.rmtree(f"{WORK}/{name}", ignore_errors=True)
env, node_env = machine_env(WORK, "a", CAPABILITIES), machine_env(WORK, "b", CAPABILITIES)
subprocess.run([BUTTERFLY, "init", "--name", "a", "--address", "127.0.0.1", "--json"], env=env, check=True, capture_output=True)
server = Server(BUTTERFLY, WORK, ["-m", MODEL, "-c", "512", "-t", "1", "--cluster", "--cluster-listen", "127.0.0.1:0", "--strategy", "uniform"], name="a",
                env=env)
node = None
try:
    address = server.cluster()["nodes"][0]["address"]
    token = json.loads(subprocess.run([BUTTERFLY, "token", "new", "--address", address, "--json"], env=env, check=True,
                                      capture_output=True).stdout)["token"]
    cache = small_disk(f"{WORK}/b/.cache", "128k")
    node = Process([BUTTERFLY, "join", address, "--token", token, "--name", "b", "-t", "1"], env=node_env)
    node.wait_for("Joined as")
    assert server.stream(PROMPTS[0], TOKENS, **SETTINGS[0]) == expected[0]
    node.wait_for(r"disk|space|room|needs")
    assert server.stream(PROMPTS[0], TOKENS, **SETTINGS[0]) == expected[0], "it serves without the node"
    subprocess.run(["mount", "-o", "remount,size=3g", cache], check=True)
    server.wait_serving(2)
    assert server.stream(PROMPTS[0], TOKENS, **SETTINGS[0]) == expected[0]
    print("a full disk on a node: it says so, the cluster serves without it, and uses it when there is room")
finally:
    if node is not None:
        node.end()
    server.end()
