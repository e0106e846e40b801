"""Control groups with a memory limit, for tests: root and the memory controller are needed."""
import os


class MemoryGroups:
    def __init__(self, limit):
        self.limit = limit
        self.folders = []

    def make(self, name):
        """What puts a process into a new group; None where that is not allowed."""
        for root, file in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
            folder = f"{root}/butterfly-test-{os.getpid()}-{name}"
            if not os.path.exists(f"{root}/cgroup.procs") or (file == "memory.max" and not os.path.exists(f"{root}/cgroup.controllers")):
                continue
            try:
                os.mkdir(folder)
                self.folders.append(folder)
                with open(f"{folder}/{file}", "w") as out:
                    out.write(str(self.limit))
                return ["bash", "-c", f'echo $$ > {folder}/cgroup.procs && exec "$@"', "node"]
            except OSError:
                continue
        return None

    def peaks(self):
        """Of each group, in words."""
        peaks = []
        for folder in self.folders:
            for file in ("memory.max_usage_in_bytes", "memory.peak"):
                if os.path.exists(f"{folder}/{file}"):
                    peaks.append(f"{int(open(f'{folder}/{file}').read()) >> 20} MiB")
                    break
        return ", ".join(peaks)

    def remove(self):
        for folder in self.folders:
            try:
                os.rmdir(folder)
            except OSError as error:
                print(f"{folder}: {error}")
