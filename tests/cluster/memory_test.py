#!/usr/bin/env python3
"""A model larger than the memory of every node runs on three of them, each in a control group with its limit.

    memory_test.py BUTTERFLY WORK_FOLDER

Needs root and control groups with memory limits; skipped without.
"""
import json
import os
import shutil
import subprocess
import sys

from harness import PROMPTS, Process, Server, machine_env, make_model, skip, write_capabilities
from memory_groups import MemoryGroups

BUTTERFLY, WORK = sys.argv[1], sys.argv[2]
LIMIT = 160 << 20  # of each node
GROUPS = MemoryGroups(LIMIT)
CAPABILITIES = f"{WORK}/capabilities.json"


def machine(name):
    return machine_env(WORK, name, CAPABILITIES)


def main():
    shutil.rmtree(WORK, ignore_errors=True)
    os.makedirs(WORK)
    write_capabilities(BUTTERFLY, CAPABILITIES)
    model = make_model(BUTTERFLY, f"{WORK}/large.gguf", "--layers", "14", "--dim", "1024", "--hidden", "3584", "--heads", "16", "--type", "Q8_0")
    size = os.path.getsize(model)
    assert size > LIMIT, f"the model has {size} bytes, the limit is {LIMIT}"
    flags = ["-m", model, "-c", "256", "--parallel", "2", "-b", "32", "-t", "1"]
    plain = Server(BUTTERFLY, WORK, flags, name="plain", env=machine("plain"))
    expected = plain.complete(PROMPTS[0], tokens=8, temperature=0)
    plain.end()

    befores = [GROUPS.make(name) for name in "abc"]
    if None in befores:
        skip("control groups with memory limits are not allowed here")
    made = json.loads(subprocess.run([BUTTERFLY, "init", "--name", "a", "--address", "127.0.0.1", "--json"], env=machine("a"),
                                     capture_output=True, text=True, check=True).stdout)
    second = json.loads(subprocess.run([BUTTERFLY, "token", "new", "--json"], env=machine("a"), capture_output=True, text=True,
                                       check=True).stdout)
    # Alone it is refused, with figures.
    listen = ["--cluster-listen", "127.0.0.1:17741", "--strategy", "balanced"]
    server = Process([BUTTERFLY, "serve", "--port", "0", "--management", f"{WORK}/sock", *flags, "--cluster", *listen, "--nodes", "1"],
                     env=machine("a"), before=befores[0])
    nodes = []
    try:
        refused = server.wait_for(r"needs .* of memory .*")
        print("one node:", refused[0])
        for name, before, token in (("b", befores[1], made["token"]), ("c", befores[2], second["token"])):
            nodes.append(Process([BUTTERFLY, "join", "127.0.0.1:17741", "--token", token, "--name", name, "-t", "1"],
                                 env=machine(name), before=before))
        found = server.wait_for(r"Serving (\S+) at http://([^ ]+):(\d+)")
        server.host, server.port = found[2], int(found[3])
        answer = Server.complete(server, PROMPTS[0], tokens=8, temperature=0)
        assert answer == expected, f"{answer}\n{expected}"
        print(f"three nodes of {LIMIT >> 20} MiB run a model of {size >> 20} MiB with the same bits; peaks:",
              GROUPS.peaks())
    finally:
        for process in [*nodes, server]:
            if process.process.poll() is None:
                process.end()


Process.request = Server.request
try:
    main()
finally:
    GROUPS.remove()
