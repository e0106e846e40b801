#!/usr/bin/env python3
"""The commands of the README on two machines, exactly as written, and the same bits on three: machines are network
namespaces with their own addresses. The third one finds the cluster by itself; a certificate that is about to end is
renewed; a page that follows the events sees each of them.

    namespaces_test.py BUTTERFLY WORK_FOLDER README

Needs root and network namespaces; skipped without.
"""
import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time

from harness import PROMPTS, SMALL, Process, Server, machine_env, make_model, skip

BUTTERFLY, WORK, README = sys.argv[1:4]
if os.geteuid() != 0:
    skip("network namespaces need root")
if any(shutil.which(program) is None for program in ("ip", "curl", "openssl")):
    skip("needs ip (iproute2), curl and openssl")
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
    env = machine_env(WORK, name)
    return env | {"PATH": f"{home}/bin:{env['PATH']}"}


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


def state_of(name):
    return f"{WORK}/{name}/.local/state/butterfly"


def openssl(*words, **more):
    return subprocess.run(["openssl", *words], check=True, capture_output=True, text=True, **more).stdout


def end_of_certificate(name):
    text = openssl("x509", "-noout", "-enddate", "-in", f"{state_of(name)}/node.crt").strip().split("=", 1)[1]
    return datetime.datetime.strptime(text, "%b %d %H:%M:%S %Y %Z")


def age_certificate(name):
    """Gives the node a certificate of its authority that has ten days left."""
    folder = f"{WORK}/authority"
    os.makedirs(folder, exist_ok=True)
    own = f"{state_of(name)}/node.crt"
    names = openssl("x509", "-noout", "-ext", "subjectAltName", "-in", own).splitlines()[1].replace(" ", "")
    with open(f"{folder}/ca.cnf", "w") as out:
        out.write(f"""[ca]\ndefault_ca=d\n[d]\ndatabase={folder}/index\nnew_certs_dir={folder}\nrand_serial=yes\ndefault_md=default
policy=p\nx509_extensions=e\nunique_subject=no\n[p]\ncommonName=supplied\n[e]\nbasicConstraints=critical,CA:FALSE
keyUsage=critical,digitalSignature\nextendedKeyUsage=serverAuth,clientAuth\nsubjectAltName={names}\n""")
    open(f"{folder}/index", "w").close()
    openssl("req", "-new", "-key", f"{state_of(name)}/node.key", "-subj", f"/CN={names.split(',')[0][4:]}", "-out", f"{folder}/request")
    now = datetime.datetime.utcnow()
    days = lambda count: (now + datetime.timedelta(days=count)).strftime("%Y%m%d%H%M%SZ")
    authority = state_of("a")
    openssl("ca", "-batch", "-notext", "-config", f"{folder}/ca.cnf", "-in", f"{folder}/request", "-cert", f"{authority}/ca.crt",
            "-keyfile", f"{authority}/ca.key", "-startdate", days(-80), "-enddate", days(10), "-out", own)
    os.chmod(own, 0o600)
    return end_of_certificate(name)


class Events:
    """What the event stream says, from its first event on."""

    def __init__(self, name, url):
        self.found = []
        self.process = subprocess.Popen(["ip", "netns", "exec", f"{TAG}{name}", "curl", "-sN", url], stdout=subprocess.PIPE, text=True)
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        number = None
        for line in self.process.stdout:
            if line.startswith("id: "):
                number = int(line[4:])
            elif line.startswith("data: "):
                event = json.loads(line[6:])
                assert event["number"] == number, line
                self.found.append(event)

    def wait_for(self, kind, node, seconds=120):
        end = time.monotonic() + seconds
        while not any(e["kind"] == kind and e["node"] == node for e in self.found):
            assert time.monotonic() < end, f"no '{kind}' of {node}: {self.found}"
            time.sleep(0.02)

    def end(self):
        self.process.terminate()
        self.process.wait()
        self.thread.join()
        numbers = [e["number"] for e in self.found]
        assert numbers == list(range(1, len(numbers) + 1)), f"events are missing or twice: {numbers}"


def complete(prompt):
    body = json.dumps({"prompt": prompt, "max_tokens": 24, "logprobs": 3, "seed": 7, "ignore_eos": True, "temperature": 0})
    answer = subprocess.run(["ip", "netns", "exec", f"{TAG}a", "curl", "-s", "http://127.0.0.1:8080/v1/completions",
                             "-H", "Content-Type: application/json", "-d", body], capture_output=True, text=True, timeout=300)
    choice = json.loads(answer.stdout)["choices"][0]
    return choice["text"], choice["logprobs"]["tokens"], choice["logprobs"]["token_logprobs"]


def same_bits():
    """Split evenly over three machines."""
    model = f"{WORK}/a/model.gguf"
    flags = ["-m", model, "-c", "512", "-t", "1"]
    plain = Server(BUTTERFLY, WORK, flags, name="plain", env=machine("a"))
    expected = [plain.complete(p, temperature=0) for p in PROMPTS]
    plain.end()
    nodes = []
    events = None
    ends = age_certificate("b")
    server = Process([BUTTERFLY, "serve", "--port", "8080", *flags, "--cluster", "--nodes", "3", "--nodes-wait", "600", "--strategy", "uniform"],
                     env=machine("a"), before=["ip", "netns", "exec", f"{TAG}a"])
    try:
        server.wait_for(r"cluster does not serve|Serving")
        made = subprocess.run([BUTTERFLY, "token", "new", "--address", "10.77.0.1", "--json"], env=machine("a"),
                              capture_output=True, text=True)
        looked = subprocess.run(["ip", "netns", "exec", f"{TAG}c", BUTTERFLY, "doctor", "--discover", "--json"], env=machine("c"),
                                capture_output=True, text=True)
        found = [row["text"] for row in json.loads(looked.stdout) if row["check"] == "network"]
        assert len(found) == 1 and "at 10.77.0.1:7741" in found[0], looked.stdout
        # The third machine is told no address.
        for name, words in (("b", ["join"]), ("c", ["join", "--token", json.loads(made.stdout)["token"], "--name", "c"])):
            nodes.append(Process([BUTTERFLY, *words, "-t", "1"], env=machine(name), before=["ip", "netns", "exec", f"{TAG}{name}"]))
        nodes[1].wait_for("Found cluster 'butterfly' at 10.77.0.1:7741")
        server.wait_for("Serving")
        events = Events("a", "http://127.0.0.1:8080/cluster/events")
        events.wait_for("serving", "")
        nodes[0].wait_for(r"the certificate of node \S+ was renewed")
        assert end_of_certificate("b") > ends + datetime.timedelta(days=70), f"{end_of_certificate('b')} after {ends}"
        print("found on the local network; a certificate with ten days left was renewed")
        for prompt, wanted in zip(PROMPTS, expected):
            assert complete(prompt) == wanted
        print("three machines: the same tokens and logarithms as one")

        # Two workers do not reach each other any more; everybody else reaches both. It is found, named and planned around.
        for name, other in (("b", "10.77.0.3"), ("c", "10.77.0.2")):
            ip("-n", f"{TAG}{name}", "route", "add", "blackhole", f"{other}/32")
        start = time.monotonic()
        assert complete(PROMPTS[0]) == expected[0]
        print(f"a cut between two machines: the same tokens, {time.monotonic() - start:.1f} s after it")
        named = [e for e in events.found if e["kind"] in ("halted", "load_failed") and "b" in e["text"] and "c" in e["text"]]
        assert named, events.found
        print("named:", named[0]["text"])
        for name, other in (("b", "10.77.0.3"), ("c", "10.77.0.2")):
            ip("-n", f"{TAG}{name}", "route", "del", "blackhole", f"{other}/32")
        nodes[1].end()
        events.wait_for("left", "c")
        print(f"{len(events.found)} events, none missing, up to the node that left")
    finally:
        for process in [*nodes, server]:
            process.end()
        if events:
            events.end()


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
