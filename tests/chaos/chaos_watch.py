"""What processes use while they live."""
import os
import threading
import time


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
        """Of every process that lived long enough: a line through the second half of its time."""
        out = []
        for (name, _), rows in sorted(self.rows.items()):
            rows = [row for row in rows if row[0] >= (rows[0][0] + rows[-1][0]) / 2]
            if len(rows) < 60:
                continue
            mean_t, mean_kib = (sum(column) / len(rows) for column in list(zip(*rows))[:2])
            slope = sum((t - mean_t) * (kib - mean_kib) for t, kib, _, _ in rows) / sum((t - mean_t) ** 2 for t, *_ in rows)
            half = len(rows) // 2
            out.append(f"{name}: {rows[-1][1] / 1024:.1f} MiB, slope {slope * 3600 / 1024:+.2f} MiB/h over {(rows[-1][0] - rows[0][0]) / 60:.0f} min; descriptors "
                       f"{max(r[2] for r in rows[:half])} then {max(r[2] for r in rows[half:])} at most, threads {max(r[3] for r in rows[:half])} then "
                       f"{max(r[3] for r in rows[half:])}")
        return out
