"""Real nodes for tests: processes of the program on loopback or in network namespaces, with real TLS.

Everything a test starts is ended with it, by its own process ids.
"""
import glob
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

SKIP = 77
START_MAX_S = 180  # machines under load are slow; nothing here is judged by time


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIP)


def machine_env(work, name, capabilities=None):
    """The environment of a user on a machine of its own, as far as files can tell."""
    home = f"{work}/{name}"
    os.makedirs(home, exist_ok=True)
    kept = lambda k: k == "BUTTERFLY_SPIN" or not k.startswith(("XDG_", "BUTTERFLY_"))  # noqa: E731
    env = {k: v for k, v in os.environ.items() if kept(k)}
    env |= {"HOME": home, "XDG_RUNTIME_DIR": home}
    return env | {"BUTTERFLY_CAPABILITIES": capabilities} if capabilities else env


class Process:
    """A process whose stderr is kept, line by line."""

    def __init__(self, words, env=None, before=()):
        self.words = [*before, *words]
        self.process = subprocess.Popen(self.words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, env=env)
        self.lines = []
        self.changed = threading.Condition()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stderr:
            with self.changed:
                self.lines.append(line.decode(errors="replace").rstrip())
                self.changed.notify_all()
        with self.changed:
            self.lines.append("(ended)")
            self.changed.notify_all()

    def wait_for(self, pattern, seconds=START_MAX_S, after=0):
        """The first match in a line from number `after` on."""
        end = time.monotonic() + seconds
        at = after
        with self.changed:
            while True:
                while at < len(self.lines):
                    found = re.search(pattern, self.lines[at])
                    at += 1
                    if found:
                        return found
                    if self.lines[at - 1] == "(ended)":
                        raise AssertionError(f"{' '.join(self.words[:3])}: ended without '{pattern}':\n" + self.text())
                if time.monotonic() > end:
                    raise AssertionError(f"no '{pattern}' after {seconds} s:\n" + self.text())
                self.changed.wait(1)

    def text(self):
        return "\n".join(self.lines[-60:])

    @property
    def pid(self):
        return self.process.pid

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def end(self, seconds=90):
        """Ends it as an operator would; the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"{' '.join(self.words[:3])}: did not end:\n" + self.text())


class Server(Process):
    """A running `serve`; ready when it says where."""

    def __init__(self, butterfly, work, flags, name="server", ready=True, **more):
        self.socket = f"{work}/{name}.sock"
        super().__init__([butterfly, "serve", "--port", "0", "--management", self.socket, *flags], **more)
        if ready:
            try:
                self.wait_ready()
            except AssertionError:
                self.kill()
                raise

    def wait_ready(self):
        found = self.wait_for(r"Serving (\S+) at http://([^ ]+):(\d+)")
        self.model, self.host, self.port = found[1], found[2], int(found[3])

    def request(self, method, path, body=None, seconds=300):
        connection = http.client.HTTPConnection(self.host, self.port, timeout=seconds)
        text = json.dumps(body) if body is not None else None
        connection.request(method, path, text, {"Content-Type": "application/json"} if text else {})
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        return answer.status, json.loads(data) if data else None

    def complete(self, prompt, tokens=24, **more):
        """Everything that depends on bits: texts, token by token, with their logarithms."""
        status, answer = self.request("POST", "/v1/completions", {
            "prompt": prompt, "max_tokens": tokens, "logprobs": 3, "seed": 7, "ignore_eos": True, **more})
        assert status == 200, f"{status}: {answer}\n{self.text()}"
        choice = answer["choices"][0]
        return choice["text"], choice["logprobs"]["tokens"], choice["logprobs"]["token_logprobs"]

    def stream(self, prompt, tokens, on_token=None, **more):
        """The tokens of a stream as they come; on_token(count) after each."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=300)
        connection.request("POST", "/v1/completions", json.dumps({
            "prompt": prompt, "max_tokens": tokens, "stream": True, "logprobs": 1, "ignore_eos": True, **more}),
            {"Content-Type": "application/json"})
        answer = connection.getresponse()
        assert answer.status == 200, f"{answer.status}: {answer.read()}"
        found = []
        for line in answer:
            line = line.decode().strip()
            if not line.startswith("data: ") or line == "data: [DONE]":
                continue
            event = json.loads(line[6:])
            assert "error" not in event, f"{event}\n{self.text()}"
            for choice in event["choices"]:
                logs = choice.get("logprobs") or {}
                for token, logarithm in zip(logs.get("tokens") or [], logs.get("token_logprobs") or []):
                    found.append((token, logarithm))
                    if on_token:
                        on_token(len(found))
        connection.close()
        return found

    def cluster(self):
        status, answer = self.request("GET", "/cluster")
        assert status == 200, answer
        return answer

    def workers(self):
        """Process ids of the local nodes that live, by name. Some may be just about to become the program, or have just ended."""
        found = {}
        for children in glob.glob(f"/proc/{self.pid}/task/*/children"):
            try:
                pids = open(children).read().split()
            except OSError:  # the thread ended
                continue
            for pid in pids:
                try:
                    words = open(f"/proc/{pid}/cmdline").read().split("\0")  # empty: it ended
                except OSError:
                    continue
                if words[1:2] == ["join"]:
                    found[int(pid)] = words[words.index("--name") + 1]
        return [pid for pid, _ in sorted(found.items(), key=lambda row: row[1])]

    def wait_serving(self, nodes, seconds=START_MAX_S):
        end = time.monotonic() + seconds
        while True:
            state = self.cluster()
            stages = [n for n in state["nodes"] if layers_of(n)]
            if state["serving"] and len(stages) == nodes:
                return state
            assert time.monotonic() < end, f"not on {nodes} nodes after {seconds} s: {json.dumps(state)[:2000]}\n{self.text()}"
            time.sleep(0.05)


def layers_of(node, job=0):
    """What a node of /cluster has of a job (the first one unless told): begin, end, bytes; None: nothing."""
    return node["jobs"][job].get("layers") if len(node["jobs"]) > job else None


def unfailed_stream(butterfly, work, flags, tokens=60):
    """What one process makes of the first prompt: the tokens that a cluster must have whatever happens to it."""
    plain = Server(butterfly, work, [*flags, "-t", "1"], name="plain")
    try:
        return plain.stream(PROMPTS[0], tokens, temperature=0)
    finally:
        plain.end()


def make_model(butterfly, path, *flags):
    if not os.path.exists(path):
        subprocess.run([butterfly, "make-model", path, *flags], check=True, stdout=subprocess.DEVNULL)
    return path


def write_capabilities(butterfly, path, speed=1e10):
    """Round figures for a node, so that a test does not measure the machine. `speed`: bytes and operations a second."""
    version = json.loads(subprocess.run([butterfly, "version", "--json"], check=True, capture_output=True).stdout)
    rate = {"one": speed, "all": speed}
    numbers = ["packages", "numa_nodes", "cores", "threads", "l1d_bytes", "l2_bytes", "l3_bytes", "measured_unix_s"]
    with open(path, "w") as out:
        json.dump({"cpu": "some", "target": version["target"], "int8_instruction": "", "program": "test",
                   "numerics_id": version["numerics_id"], **{name: 1 for name in numbers}, "disk_bytes_per_s": speed, "ram_bytes": 8 << 30,
                   "ram_limit_bytes": 8 << 30, "memory_bytes_per_s": rate, "f32_flops_per_s": rate, "int8_ops_per_s": rate,
                   "kernels": []}, out)
    return path


SMALL = ["--layers", "8", "--dim", "128", "--hidden", "256", "--heads", "4"]
PROMPTS = ["Once upon a time there was", "The machines of the cluster are"]
