"""What processes use while they live."""
import os
import threading
import time


PAUSE_S = 3
LEAST_S = 180


def slope(rows):
    """Of a line through (seconds, KiB, ...): MiB an hour."""
    mean_t, mean_kib = (sum(column) / len(rows) for column in list(zip(*rows))[:2])
    return sum((t - mean_t) * (kib - mean_kib) for t, kib, *_ in rows) / max(1, sum((t - mean_t) ** 2 for t, *_ in rows)) * 3600 / 1024


class Pauses:
    """Times in which this runner itself stood still, as on a machine that slept: nobody is to blame for a stall then. `awake`: seconds without them."""

    def __init__(self):
        self.rows, self.ended, self.awake = [], False, 0.0
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        before = time.monotonic()
        while not self.ended:
            time.sleep(0.1)
            now = time.monotonic()
            if now - before > PAUSE_S:
                self.rows.append((before, now))
            else:
                self.awake += now - before
            before = now

    def within(self, since, until):
        return any(begin < until and end > since for begin, end in self.rows)


class Watch:
    """Memory, descriptors and threads of the processes while they live, every few seconds."""

    def __init__(self, cluster):
        self.cluster, self.rows, self.ended = cluster, {}, False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.ended:
            if not self.cluster.whole():  # what a node has while others do its work says nothing
                time.sleep(1)
                continue
            for name, process in [("a", self.cluster.server), *self.cluster.workers.items()]:
                try:
                    status = dict(line.split(":", 1) for line in open(f"/proc/{process.pid}/status") if ":" in line)
                    kib = sum(int(status[key].split()[0]) for key in ("RssAnon", "VmSwap"))
                    row = (time.monotonic(), kib, len(os.listdir(f"/proc/{process.pid}/fd")), int(status["Threads"]))
                    self.rows.setdefault((name, process.pid), []).append(row)
                except (OSError, KeyError, ValueError):  # it has just ended
                    pass
            time.sleep(2)

    def words(self):
        """Of every process that lived long enough: lines through what it had after a third of its time, all of it, and the least of every few
        minutes. The caches of layers that left stay for up to two minutes; a leak raises the least, too."""
        out = []
        for (name, _), rows in sorted(self.rows.items()):
            rows = [row for row in rows if row[0] >= (2 * rows[0][0] + rows[-1][0]) / 3]
            least = {}
            for row in rows:
                part = int((row[0] - rows[0][0]) / LEAST_S)
                least[part] = min(least.get(part, row), row, key=lambda r: r[1])
            if len(least) < 3:
                continue
            half = len(rows) // 2
            out.append(f"{name}: {rows[-1][1] / 1024:.1f} MiB, over {(rows[-1][0] - rows[0][0]) / 60:.0f} min {slope(rows):+.2f} MiB/h, the least of every {LEAST_S // 60} min "
                       f"{slope(list(least.values())):+.2f} MiB/h; descriptors {max(r[2] for r in rows[:half])} then {max(r[2] for r in rows[half:])} at most, threads "
                       f"{max(r[3] for r in rows[:half])} then {max(r[3] for r in rows[half:])}")
        return out
