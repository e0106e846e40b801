"""The processes of a cluster, and how they are hurt: a coordinator and workers that joined it, each with its own state folder, TLS on, weights fetched."""
import http.client
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cluster"))
from faulty_proxy import FaultyProxy  # noqa: E402
from harness import START_MAX_S, Process, Server, machine_env  # noqa: E402
from machines import Network, SmallDisk, run_out_of_memory  # noqa: E402
from memory_groups import MemoryGroups  # noqa: E402

# Kinds of faults that need nothing, and those that need machines with a cable of their own (--namespaces) instead of a proxy before each worker.
ANYWHERE = ["kill", "stop", "freeze", "term", "coordinator", "none", "disk", "memory", "clock"]
PROXIED = ["cut", "blackhole", "blackhole_in", "blackhole_out", "link", "link_in", "link_out", "trickle", "drip", "delay", "flip", "flips"]
CABLED = ["unplug", "oneway", "pair", "loss"]
FLIPS = 25
GROUP_BYTES = 192 << 20
JUMPS_S = [-86400, -600, -5, 0, 5, 600, 86400, 30 * 86400]


def free_port(host="127.0.0.1"):
    with socket.socket() as probe:
        probe.bind((host, 0))
        return probe.getsockname()[1]


class Cluster:
    """`kinds`: the faults there will be, for which it is prepared. `clients`: set before the first fault."""

    def __init__(self, butterfly, work, model, capabilities, kinds, workers, streams, threads, seed, namespaces):
        self.butterfly, self.work, self.model, self.capabilities = butterfly, work, model, capabilities
        self.streams, self.threads, self.clients = streams, threads, None
        self.names = [f"w{i}" for i in range(workers)]
        for name in ["a", *self.names]:
            shutil.rmtree(f"{work}/{name}", ignore_errors=True)
            os.makedirs(f"{work}/{name}")
        self.network = Network(["a", *self.names]) if namespaces else None
        self.groups = MemoryGroups(GROUP_BYTES) if "memory" in kinds else None
        self.before = {name: self._before(name) for name in self.names}
        self.journal_disk = self.cache_disk = None
        if "disk" in kinds:
            self.journal_disk, self.cache_disk = SmallDisk(f"{work}/disk", "16m"), SmallDisk(f"{work}/w0/.cache", "3g")
        self.journal = f"{work}/disk/journal" if self.journal_disk else f"{work}/journal"
        if os.path.exists(self.journal):
            os.unlink(self.journal)
        self.shim = self._shim() if "clock" in kinds else None
        host = self.network.address["a"] if self.network else "127.0.0.1"
        self.address = f"{host}:{free_port(host)}"
        subprocess.run([butterfly, "init", "--name", "a", "--address", host], env=self.machine("a"), check=True, capture_output=True)
        self.aborts, self.alarms, self.found = [], [], []
        # Damaged frames, and for each the seconds until its connection ended, until there was another one, and until a plan was served again.
        self.flipped, self.noticed, self.linked, self.served = 0, [], [], []
        self.server = self.serve()
        token = json.loads(subprocess.run([butterfly, "token", "new", "--uses", "99", "--address", self.address, "--json"],
                                          env=self.machine("a"), check=True, capture_output=True).stdout)["token"]
        self.proxies, self.workers, self.where = {}, {}, {}
        for i, name in enumerate(self.names):
            if self.network:
                self.where[name] = ["--listen", f"{self.network.address[name]}:{7801 + i}"]
            else:
                listen = f"127.0.0.1:{free_port()}"
                self.proxies[name] = FaultyProxy(listen, seed)
                self.where[name] = ["--listen", listen, "--advertise", self.proxies[name].address]
            self.workers[name] = self.join(name, self.address, "--token", token, "--name", name)
        self.server.wait_serving(len(self.names) + 1)

    def _before(self, name):
        """What puts a worker's process where it belongs."""
        words = self.network.before(name) if self.network else []
        group = self.groups.make(name) if self.groups else []
        if group is None:
            raise OSError("control groups for memory are not allowed here")
        return [*words, *group]

    def _shim(self):
        """The library that moves the time of day of a process."""
        shim = f"{self.work}/other_time.so"
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../failures/other_time.c")
        subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-O1", source, "-o", shim], check=True)
        for name in ["a", *self.names]:
            self._jump(name, 0)
        return shim

    def _jump(self, name, seconds):
        with open(f"{self.work}/time-{name}.new", "w") as out:
            out.write(str(seconds))
        os.rename(f"{self.work}/time-{name}.new", f"{self.work}/time-{name}")

    def machine(self, name):
        env = machine_env(self.work, name, self.capabilities)
        return env | {"LD_PRELOAD": self.shim, "OTHER_TIME": f"{self.work}/time-{name}"} if self.shim else env

    def serve(self):
        return Server(self.butterfly, self.work, ["-m", self.model, "-c", "512", "-t", self.threads, "--parallel", str(self.streams), "--cluster",
                                                  "--cluster-listen", self.address, "--strategy", "uniform", "--journal", self.journal],
                      name="a", env=self.machine("a"))

    def join(self, name, *words):
        return Process([self.butterfly, "join", *words, *self.where[name], "-t", self.threads], env=self.machine(name), before=self.before[name])

    def start_again(self, name):
        self.look_at(self.workers[name])
        self.workers[name] = self.join(name)

    def look_at(self, process):
        """What nobody may say, however it is treated."""
        self.aborts += [line for line in process.lines if "check failed" in line or "terminate called" in line or "Sanitizer" in line]

    def state(self):
        try:
            return self.server.cluster()
        except (OSError, http.client.HTTPException, AttributeError):  # it is just being started
            return None

    def whole(self):
        state = self.state()
        return bool(state) and state["serving"] and len(state["jobs"][0]["stages"]) == len(self.names) + 1

    def linked_again(self, plan):
        """Everybody is here, and served by a later plan."""
        state = self.state()
        return bool(state) and state["serving"] and state["jobs"][0]["plan"] > plan and sum(n["state"] == "up" for n in state["nodes"]) == len(self.names) + 1

    def served_at(self, plan):
        """When the first plan after this one began to serve: seconds since 1970. None: that is too long ago."""
        return next((e["unix_ms"] / 1000 for e in self.server.cluster()["events"] if e["kind"] == "serving" and e["plan"] > plan), None)

    def alarm_events(self):
        return [e for e in self.server.cluster()["events"] if e["kind"] in ("dead", "halted")]

    def fault(self, kind):
        """Returns when it is over: its place."""
        name = random.choice(self.names)
        getattr(self, f"_{kind}", self._mode)(name, kind)
        return name

    def _none(self, name, kind):
        before = len(self.alarm_events())
        time.sleep(10)
        self.found = self.alarm_events()[before:]

    def _kill(self, name, kind):
        self.workers[name].kill()
        time.sleep(random.choice([0, 0, 2]))
        self.start_again(name)

    def _stop(self, name, kind, seconds=None):
        os.kill(self.workers[name].pid, signal.SIGSTOP)
        time.sleep(seconds or random.uniform(4, 8))
        os.kill(self.workers[name].pid, signal.SIGCONT)

    def _freeze(self, name, kind):
        self._stop(name, kind, 1)

    def _term(self, name, kind):
        assert self.workers[name].end() == 0, self.workers[name].text()
        self.start_again(name)

    def _coordinator(self, name, kind):
        self.look_at(self.server)
        self.server.kill()
        self.server = self.serve()

    def _cut(self, name, kind):
        self.proxies[name].cut()

    def _flip(self, name, kind):
        self.proxies[name].flip()

    def _flips(self, name, kind):
        """One after the other, at any workers; each once the one before has been got over."""
        for _ in range(FLIPS):
            proxy = random.choice(list(self.proxies.values()))
            plan = (self.state() or {"jobs": [{"plan": 0}]})["jobs"][0]["plan"]
            proxy.flip()
            limit = time.monotonic() + START_MAX_S
            while time.monotonic() < limit and not (proxy.linked_at and self.linked_again(plan)):
                time.sleep(0.02)
            self.flipped += proxy.flipped_at is not None
            served_at = self.served_at(plan)
            if proxy.linked_at and served_at:
                self.noticed.append(round(proxy.broken_at - proxy.flipped_at, 3))
                self.linked.append(round(proxy.linked_at - proxy.flipped_at, 3))
                self.served.append(round(served_at - proxy.flipped_at, 3))
            time.sleep(random.uniform(0, 0.5))

    def _silent_link(self, name, kind):
        self.proxies[name].silence({"link_in": "in", "link_out": "out"}.get(kind, ("in", "out")))
        time.sleep(random.uniform(5, 9))
        self.proxies[name].speak()

    _link = _link_in = _link_out = _silent_link

    def _mode(self, name, kind):
        self.proxies[name].mode = kind
        time.sleep(2 if kind == "delay" else random.uniform(5, 9))
        self.proxies[name].mode = "pass"

    def _unplug(self, name, kind):
        self.network.unplug(name)
        time.sleep(random.uniform(5, 9))
        self.network.unplug(name, plugged=True)

    def _ways(self, name, kind):
        """Between this machine and one other, which may be the coordinator's."""
        other = random.choice([n for n in ["a", *self.names] if n != name])
        return random.choice([[(name, other)], [(other, name)]]) if kind == "oneway" else [(name, other), (other, name)]

    def _pair(self, name, kind):
        ways = self._ways(name, kind)
        self.network.cut(ways)
        time.sleep(random.uniform(5, 9))
        self.network.mend(ways)

    _oneway = _pair

    def _loss(self, name, kind):
        self.network.lose([(name, other) for other in ["a", *self.names] if other != name], random.uniform(5, 9))

    def _clock(self, name, kind):
        self._jump(random.choice(["a", *self.names]), random.choice(JUMPS_S))

    def _memory(self, name, kind):
        assert run_out_of_memory(self.before[name], self.workers[name]), f"{name} was not ended for its memory"
        self.start_again(name)

    def _disk(self, name, kind):
        if random.random() < 0.5:
            self.journal_disk.fill()
            time.sleep(3)
            self.journal_disk.empty()
            # What was asked meanwhile is not in the journal: it must not be there when the coordinator is killed next.
            return self.clients.wait_for_those_open()
        # A node without its weights, and without room for them.
        self.workers["w0"].kill()
        for entry in os.listdir(self.cache_disk.path):
            shutil.rmtree(f"{self.cache_disk.path}/{entry}")
        self.cache_disk.resize("128k")
        self.start_again("w0")
        self.workers["w0"].wait_for(r"disk|space|room|needs")
        self.cache_disk.resize()

    def end(self):
        try:
            for process in self.workers.values():
                process.end()
                self.look_at(process)
            for proxy in self.proxies.values():
                proxy.end()
            status = self.server.end()
            self.look_at(self.server)
            assert status == 0, self.server.text()
        finally:
            for process in [*self.workers.values(), self.server]:
                if process.process.poll() is None:
                    process.kill()
            if self.groups:
                self.groups.remove()
            if self.network:
                self.network.remove()
