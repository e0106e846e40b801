"""What a machine has and can be taken from it: a network with a cable of its own, a disk that fills up, memory with a limit. Needs root."""
import ctypes
import os
import subprocess
import threading
import time

CLONE_NEWNET = 0x40000000


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Network:
    """Machines in network namespaces, on one bridge that is in a namespace of its own: nothing of this machine is touched.

    The calling thread, and what it starts from then on, moves to the first of them: make it before any thread.
    """

    def __init__(self, names):
        self.tag, self.names = f"bfx{os.getpid() % 100000}", names
        self.address = {name: f"10.77.0.{i + 1}" for i, name in enumerate(names)}
        self.lock = threading.Lock()
        try:
            self._make()
        except subprocess.CalledProcessError as error:
            self.remove()
            raise OSError(f"network namespaces are not allowed here: {error.stderr.decode().strip()}") from None
        with open(f"/run/netns/{self.tag}{names[0]}") as namespace:
            if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")

    def _make(self):
        switch = f"{self.tag}sw"
        ip("netns", "add", switch)
        ip("-n", switch, "link", "add", "bridge", "type", "bridge")
        ip("-n", switch, "link", "set", "bridge", "up")
        for i, name in enumerate(self.names):
            space = f"{self.tag}{name}"
            ip("netns", "add", space)
            ip("-n", space, "link", "add", "eth0", "type", "veth", "peer", "name", f"port{i}", "netns", switch)
            ip("-n", switch, "link", "set", f"port{i}", "master", "bridge", "up")
            ip("-n", space, "addr", "add", f"{self.address[name]}/24", "dev", "eth0")
            ip("-n", space, "link", "set", "eth0", "up")
            ip("-n", space, "link", "set", "lo", "up")

    def before(self, name):
        """What puts a process there."""
        return ["ip", "netns", "exec", f"{self.tag}{name}"]

    def _way(self, verb, name, other):
        ip("-n", f"{self.tag}{name}", "route", verb, "blackhole", f"{self.address[other]}/32")

    def cut(self, ways):
        """What `name` sends to `other` is lost, for each (name, other)."""
        for name, other in ways:
            self._way("add", name, other)

    def mend(self, ways):
        for name, other in ways:
            self._way("del", name, other)

    def unplug(self, name, plugged=False):
        ip("-n", f"{self.tag}sw", "link", "set", f"port{self.names.index(name)}", "up" if plugged else "down")

    def lose(self, ways, seconds):
        """About a fifth of what passes there is lost, a few packets in a row each time."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.cut(ways)
            time.sleep(0.02)
            self.mend(ways)
            time.sleep(0.15)

    def remove(self):
        for name in [*self.names, "sw"]:
            subprocess.run(["ip", "netns", "del", f"{self.tag}{name}"], capture_output=True)


class SmallDisk:
    """A tmpfs: needs mounts of its own."""

    def __init__(self, path, size):
        self.path, self.size = path, size
        os.makedirs(path, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "none", path], check=True)

    def fill(self):
        """Until nothing fits any more."""
        with open(f"{self.path}/filler", "wb", buffering=0) as out:
            for size in (1 << 20, 4096):
                try:
                    while True:
                        out.write(b"x" * size)
                except OSError:
                    pass

    def empty(self):
        os.unlink(f"{self.path}/filler")

    def resize(self, size=None):
        """For disks that are large, and have nothing on them; None: as it was."""
        subprocess.run(["mount", "-o", f"remount,size={size or self.size}", self.path], check=True)


# Takes memory of a control group until somebody in it is ended for it.
HOG = "import time\nkept = []\nwhile True:\n    kept.append(bytearray(4 << 20))\n    time.sleep(0.002)\n"


def run_out_of_memory(before, victim, seconds=20):
    """The system ends `victim` (a process in the group that `before` puts into). True: it did."""
    with open(f"/proc/{victim.pid}/oom_score_adj", "w") as out:
        out.write("1000")
    hog = subprocess.Popen([*before, "python3", "-c", HOG], stderr=subprocess.DEVNULL)
    try:
        return victim.process.wait(seconds) == -9
    except subprocess.TimeoutExpired:
        return False
    finally:
        hog.kill()
        hog.wait()
