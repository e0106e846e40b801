#!/usr/bin/env python3
"""The n-th allocation, mmap, write, fsync, rename or send fails, for n = 1, 2, ...: in loading, checkpoints, fetching weights, the journal and serving. Each time there is the right result, or an error in words; nothing dies of a signal, and nothing that was kept is lost.

    nth_failure_test.py BUTTERFLY WORK_FOLDER [--most N] [--only PART]
"""
import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cluster"))
from harness import PROMPTS, SMALL, Process, Server, machine_env, make_model, skip, write_capabilities  # noqa: E402
from resuming import SETTINGS, ResumingClient, check_all, wait_until_reached  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("butterfly")
parser.add_argument("work")
parser.add_argument("--most", type=int, default=40, help="calls of one kind that fail, one after the other")
parser.add_argument("--only", default="")
options = parser.parse_args()
BUTTERFLY, WORK = os.path.abspath(options.butterfly), os.path.abspath(options.work)
os.makedirs(WORK, exist_ok=True)
SHIM, TOLD, GATE = f"{WORK}/nth_failure.so", f"{WORK}/told", f"{WORK}/gate"
built = subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-O1",
                        os.path.join(os.path.dirname(os.path.abspath(__file__)), "nth_failure.c"), "-o", SHIM])
if built.returncode != 0:
    skip("no C compiler")
MODEL = make_model(BUTTERFLY, f"{WORK}/model.gguf", *SMALL)
FETCH_MAX_S = 120
counts = {}


def failing(env, call, at, path="", count=1, above=0, gate=""):
    if os.path.exists(TOLD):
        os.unlink(TOLD)
    more = {"LD_PRELOAD": SHIM, "FAIL_CALL": call, "FAIL_AT": str(at), "FAIL_COUNT": str(count), "FAIL_ABOVE": str(above),
            "FAIL_TOLD": TOLD}
    if path:
        more["FAIL_PATH"] = path
    if gate:
        more["FAIL_GATE"] = gate
    return env | more


def failed():
    return os.path.exists(TOLD)


def numbers():
    """1, 2, 3, ... and then further apart: a program allocates often."""
    n = 1
    while n < 1 << 22:
        yield n
        n += 1 if n < 24 else max(1, n // 6)


def count(part, call, error):
    row = counts.setdefault((part, call), [0, 0])
    row[0] += 1
    row[1] += bool(error)


def one_command(part, words, env, call, right, **how):
    """Runs it again and again, each time with a later failure, until none happens any more; right(): its result is as it should be."""
    tries = 0
    for at in numbers():
        done = subprocess.run(words, env=failing(env, call, at, **how), capture_output=True, text=True, timeout=300)
        if not failed():
            assert done.returncode == 0 and right(done), f"{part}: without a failure: {done.stderr[-1500:]}"
            break
        tries += 1
        assert done.returncode >= 0, f"{part}, {call} {at}: died of signal {-done.returncode}\n{done.stderr[-3000:]}"
        if done.returncode == 0:
            assert right(done), f"{part}, {call} {at}: another result\n{done.stderr[-1500:]}"
        else:
            assert done.stderr.strip(), f"{part}, {call} {at}: exit status {done.returncode} without a word"
            assert "terminate called" not in done.stderr, f"{part}, {call} {at}: {done.stderr[-3000:]}"
        count(part, call, done.returncode)
        if tries >= options.most:
            break


def load():
    env = machine_env(WORK, "load")
    words = [BUTTERFLY, "run", "-m", MODEL, "-p", PROMPTS[0], "-n", "8", "--temp", "0", "-t", "2"]
    expected = subprocess.run(words, env=env, capture_output=True, text=True, check=True).stdout
    for call in ("mmap", "malloc"):
        one_command("load", words, env, call, lambda done: done.stdout == expected, above=4096)


def checkpoint():
    """A run that fails at its n-th write goes on afterwards, to the weights of one that did not fail."""
    env = machine_env(WORK, "train")
    home = f"{WORK}/train"
    subprocess.run([BUTTERFLY, "make-corpus", f"{home}/corpus", "--items", "60", "--valid", "5", "--questions", "5"], env=env, check=True,
                   capture_output=True)
    subprocess.run([BUTTERFLY, "train-tokenizer", "-o", f"{home}/t.gguf", "--vocab", "300", f"{home}/corpus/train.jsonl"], env=env,
                   check=True, capture_output=True)
    with open(f"{home}/c.yml", "w") as out:
        out.write("tokenizer: t.gguf\ndatasets: [corpus/train.jsonl]\nmodel:\n  model_type: gpt2\n  hidden_size: 32\n"
                  "  intermediate_size: 64\n  num_hidden_layers: 1\n  num_attention_heads: 2\n  max_position_embeddings: 32\n"
                  "sequence_len: 32\nmicro_batch_size: 1\ngradient_accumulation_steps: 2\nmax_steps: 6\nlearning_rate: 1e-3\n"
                  "export_type: F32\nsave_steps: 2\n")

    def words(out):
        return [BUTTERFLY, "train", f"{home}/c.yml", "--output_dir", f"{home}/{out}", "--threads", "1"]

    def digest(out):
        with open(f"{home}/{out}/model.gguf", "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()

    shutil.rmtree(f"{home}/whole", ignore_errors=True)
    subprocess.run(words("whole"), env=env, check=True, capture_output=True)
    expected = digest("whole")
    for call in ("write", "fsync", "rename"):
        for at in range(1, options.most + 1):
            shutil.rmtree(f"{home}/out", ignore_errors=True)
            done = subprocess.run(words("out"), env=failing(env, call, at, path=f"{home}/out"), capture_output=True, text=True, timeout=300)
            if not failed():
                break
            assert done.returncode >= 0 and "terminate called" not in done.stderr, f"checkpoint, {call} {at}: {done.stderr[-3000:]}"
            assert done.returncode == 0 or done.stderr.strip(), f"checkpoint, {call} {at}: no word"
            again = subprocess.run(words("out"), env=env, capture_output=True, text=True, timeout=300)
            assert again.returncode == 0, f"checkpoint, {call} {at}: cannot go on: {again.stderr[-2000:]}"
            assert digest("out") == expected, f"checkpoint, {call} {at}: other weights"
            count("checkpoint", call, done.returncode)


def fetch():
    """A node that joins and fetches its layers: it says what failed and gets its part in the end, or it ends with an error; the cluster serves all the while."""
    for call, how in (("write", {"path": "/b/.cache"}), ("fsync", {"path": "/b/.cache"}), ("rename", {"path": "/b/.cache"}), ("mmap", {"above": 65536}),
                      ("send", {})):
        for at in list(numbers())[:options.most]:
            if not fetch_once(call, at, how):
                break


def fetch_once(call, at, how):
    """In a cluster of its own: one that knows the node would leave it out for longer each time. Whether it came to the n-th call."""
    capabilities = write_capabilities(BUTTERFLY, f"{WORK}/capabilities.json")
    env, node_env = machine_env(WORK, "a", capabilities), machine_env(WORK, "b", capabilities)
    for name in "ab":
        shutil.rmtree(f"{WORK}/{name}", ignore_errors=True)
        os.makedirs(f"{WORK}/{name}")
    subprocess.run([BUTTERFLY, "init", "--name", "a", "--address", "127.0.0.1", "--json"], env=env, check=True, capture_output=True)
    server = Server(BUTTERFLY, WORK, ["-m", MODEL, "-c", "512", "-t", "1", "--cluster", "--cluster-listen", "127.0.0.1:0", "--strategy", "uniform"], name="a",
                    env=env)
    node = None
    try:
        expected = server.stream(PROMPTS[0], 40, temperature=0)
        address = server.cluster()["nodes"][0]["address"]
        token = json.loads(subprocess.run([BUTTERFLY, "token", "new", "--address", address, "--json"], env=env, check=True,
                                          capture_output=True).stdout)["token"]
        subprocess.run([BUTTERFLY, "join", address, "--token", token, "--name", "b", "--enrol-only"], env=node_env, check=True, capture_output=True)
        node = Process([BUTTERFLY, "join", "-t", "1"], env=failing(node_env, call, at, **how))
        until = time.monotonic() + FETCH_MAX_S
        while True:
            state = server.cluster()
            status = node.process.poll()
            if status is not None or (state["serving"] and len(state["jobs"][0]["stages"]) == 2):
                break
            assert time.monotonic() < until, f"fetch, {call} {at}: no end\n{node.text()}\n{server.text()}"
            time.sleep(0.02)
        assert server.stream(PROMPTS[0], 40, temperature=0) == expected, f"fetch, {call} {at}: other tokens\n{server.text()}"
        assert status is None or (status > 0 and node.lines), f"fetch, {call} {at}: ended with {status}\n{node.text()}"
        happened = failed()
        if happened:
            count("fetch", call, status is not None or any("warning" in line or "error" in line for line in node.lines))
        return happened
    finally:
        if node is not None and node.process.poll() is None:
            node.end()
        server.end()


def stream_and_serve():
    """Streams are right whatever happens to the journal; what it said is kept is there after a kill."""
    plain = Server(BUTTERFLY, WORK, ["-m", MODEL, "-c", "512", "-t", "1"], name="plain")
    try:
        expected = [plain.stream(PROMPTS[i % 2], 120, **SETTINGS[i]) for i in range(4)]
    finally:
        plain.end()
    env = machine_env(WORK, "serve")
    journal = f"{WORK}/serve/the-journal"
    flags = ["-m", MODEL, "-c", "512", "-t", "1", "--journal", journal]
    for call in ("write", "fsync", "rename"):
        for at in range(1, min(options.most, 12) + 1):
            for file in (journal, journal + ".new"):
                if os.path.exists(file):
                    os.unlink(file)
            server = Server(BUTTERFLY, WORK, flags, name="serve", env=failing(env, call, at, path="the-journal"), ready=False)
            try:
                server.wait_ready()
            except AssertionError:  # its first write: it does not start without what was asked for
                assert failed() and "the-journal" in server.text(), server.text()
                assert server.process.wait(60) > 0, server.text()
                count("journal", call, True)
                continue
            try:
                clients = [ResumingClient(i, 120, lambda: [server]) for i in range(4)]
                wait_until_reached(clients, 10)
                if failed():  # what comes after it is kept again
                    later = ResumingClient(0, 120, lambda: [server])
                    wait_until_reached([later], 2)
                    server.kill()
                    server = Server(BUTTERFLY, WORK, flags, name="serve", env=env)
                    later.thread.join(180)
                    assert later.error is None and later.texts == expected[0], f"journal, {call} {at}: {later.error}"
                    # Those whose question could not be kept are told so; others go on.
                    for client in clients:
                        client.thread.join(180)
                        assert (client.error and "404" in str(client.error)) or client.texts == expected[client.number], \
                            f"journal, {call} {at}: {client.error}"
                    count("journal", call, any(c.error for c in clients))
                else:
                    check_all(clients, expected, server.text)
            finally:
                server.end()
            if not failed():
                break
    # Sends to clients, and whatever else a server sends: the others do not notice.
    for call, above in (("send", 0), ("mmap", 4096)):
        for at in list(numbers())[:options.most]:
            for file in (GATE, journal):  # else the answers of all servers before would be made again
                if os.path.exists(file):
                    os.unlink(file)
            server = Server(BUTTERFLY, WORK, flags, name="serve", env=failing(env, call, at, above=above, gate=GATE))
            try:
                open(GATE, "w").close()
                clients = [ResumingClient(i, 120, lambda: [server]) for i in range(4)]
                end = time.monotonic() + 120
                for client in clients:
                    client.thread.join(max(1, end - time.monotonic()))
                    # A request that found no memory is told; one that was cut off went on by itself.
                    words = str(client.error)
                    assert client.texts == expected[client.number] or (client.error and ("memory" in words or "500" in words or "503" in words)), \
                        f"serve, {call} {at}: stream {client.number}: {client.error}\n{server.text()}"
                assert server.process.poll() is None, f"serve, {call} {at}: died\n{server.text()}"
                os.unlink(GATE)
                print(f"serve, {call} {at}: {'failed' if failed() else 'not reached'}, {sum(c.error is not None for c in clients)} told", flush=True)
                assert server.stream(PROMPTS[0], 120, **SETTINGS[0]) == expected[0], f"serve, {call} {at}: after it"
                if not failed():
                    break
                count("serve", call, any(c.error for c in clients))
            finally:
                if os.path.exists(GATE):
                    os.unlink(GATE)
                if server.process.poll() is None:
                    server.process.kill()
                    server.process.wait()


for part in (load, checkpoint, fetch, stream_and_serve):
    if options.only in part.__name__:
        part()
for (part, call), (tried, errors) in counts.items():
    print(f"{part}: the n-th {call} failed, n = 1 ... ({tried} times): {errors} ended with an error in words, {tried - errors} with the right result")
