"""Nodes with links of little bandwidth: network namespaces of this machine, one bridge, a token bucket each way. Needs root, ip and tc."""
import os
import subprocess

TAG = f"bfw{os.getpid() % 10000}"


def run(*words):
    return subprocess.run([str(w) for w in words], check=True, capture_output=True, text=True)


class Network:
    """Namespaces with an address each on one bridge, which has a namespace of its own too."""

    def __init__(self, count, mbit):
        self.names = [f"{TAG}{i}" for i in range(count)] + [f"{TAG}sw"]
        switch = self.names[-1]
        run("ip", "netns", "add", switch)
        run("ip", "-n", switch, "link", "add", "br0", "type", "bridge")
        run("ip", "-n", switch, "link", "set", "br0", "up")
        for i, name in enumerate(self.names[:-1]):
            port = f"port{i}"
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", port, "netns", switch)
            run("ip", "-n", name, "addr", "add", f"10.80.0.{i + 1}/24", "dev", "eth0")
            for end in ("eth0", "lo"):
                run("ip", "-n", name, "link", "set", end, "up")
            run("ip", "-n", switch, "link", "set", port, "master", "br0", "up")
            for where, end in ((name, "eth0"), (switch, port)):
                # A large frame of the kernel's must fit into the bucket; 1 MB waits at most, as in a plain switch.
                run("ip", "netns", "exec", where, "tc", "qdisc", "add", "dev", end, "root", "tbf", "rate", f"{mbit}mbit",
                    "burst", 128 << 10, "limit", 1 << 20)

    def inside(self, i):
        return ["ip", "netns", "exec", self.names[i]]

    def remove(self):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
