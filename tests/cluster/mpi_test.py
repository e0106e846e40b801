#!/usr/bin/env python3
"""Ranks of an MPI job: the bits of one process for layers that ranks share, chains, and chains of groups; what is said about
it; and that a lost rank ends the job.

    mpi_test.py BUTTERFLY WORK_FOLDER WITH_MPI

WITH_MPI: 0 where the program was built without.
"""
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import time

from harness import PROMPTS, Server, layers_of, machine_env, make_model, skip, write_capabilities

BUTTERFLY, WORK = sys.argv[1], sys.argv[2]
if shutil.which("mpirun") is None:
    skip("mpirun is not here: ./scripts/deps.sh mpi")
os.makedirs(WORK, exist_ok=True)
MODEL = make_model(BUTTERFLY, f"{WORK}/shards.gguf", "--layers", "4", "--dim", "512", "--hidden", "1024", "--heads", "8",
                   "--kv-heads", "4", "--vocab", "1024", "--context", "512", "--type", "q8_0")
SETTINGS = [{"temperature": 0}, {"temperature": 1, "top_p": 0.9}]
# More ranks than CPUs, as root in a container: only a test needs these.
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
ENV = machine_env(WORK, "home", write_capabilities(BUTTERFLY, f"{WORK}/capabilities.json"))


class Job(Server):
    def __init__(self, ranks, *flags):
        super().__init__(BUTTERFLY, WORK, ["-m", MODEL, "-c", "512", "-t", "1", *flags], name=f"r{ranks}", env=ENV,
                         before=[*MPIRUN, "-n", str(ranks)])

    def ranks(self):
        """Process ids by rank."""
        found = {}
        for children in glob.glob(f"/proc/{self.pid}/task/*/children"):
            for pid in open(children).read().split():
                environment = open(f"/proc/{pid}/environ").read().split("\0")
                rank = [row.split("=")[1] for row in environment if row.startswith("OMPI_COMM_WORLD_RANK=")]
                if rank:
                    found[int(rank[0])] = int(pid)
        return found

    def end(self, seconds=90):
        """The first rank is told to end, and ends the job."""
        ranks = self.ranks()
        if 0 in ranks:
            os.kill(ranks[0], signal.SIGTERM)
        return self.process.wait(seconds)


def answers(server):
    return [server.complete(prompt, **settings) for prompt in PROMPTS for settings in SETTINGS]


def bytes_over_mpi(state):
    found = re.search(r"(\d+) bytes sent by this rank", state["caution"])
    assert found, state["caution"]
    return int(found[1])


def same_bits():
    plain = Server(BUTTERFLY, WORK, ["-m", MODEL, "-c", "512", "-t", "1"], name="plain")
    try:
        expected = answers(plain)
        assert "caution" not in plain.request("GET", "/health")[1]
    finally:
        plain.end()
    for ranks, flags, stages in [(4, ["--groups", "4"], [4]), (3, ["--strategy", "uniform"], [1, 1, 1]),
                                 (4, ["--groups", "2", "--strategy", "uniform"], [2, 2])]:
        job = Job(ranks, *flags)
        try:
            before = bytes_over_mpi(job.wait_serving(ranks))
            found = answers(job)
            assert found == expected, f"{ranks} ranks {flags}: other bits\n{found}\n{expected}"
            state = job.wait_serving(ranks)
            begins = [layers_of(node)["begin"] for node in state["nodes"]]
            assert [begins.count(begin) for begin in sorted(set(begins))] == stages, state["nodes"]
            # Rows of four texts of 24 tokens went that way: in groups of 512 values eight times a token; the first rank of a
            # chain sends tokens only.
            sent = bytes_over_mpi(state) - before
            assert sent > (4 * 24 * 8 * 2048 if max(stages) > 1 else 4 * 24 * 30), f"{flags}: only {sent} bytes over MPI"
            assert "not encrypt" in job.text(), "nothing is said at the start:\n" + job.text()
            status = subprocess.run([BUTTERFLY, "status", "--management", job.socket], check=True, capture_output=True, text=True)
            assert "caution: rows between" in status.stdout, status.stdout
            print(f"{ranks} ranks {' '.join(flags)}, stages of {stages}: {len(found)} texts with the same tokens and logarithms, {sent:.0f} bytes over MPI")
        finally:
            code = job.end()
        assert code == 0, f"ended with {code}:\n{job.text()}"


def a_lost_rank_ends_the_job():
    job = Job(3, "--groups", "3")
    ranks = job.ranks()
    job.wait_serving(3)
    os.kill(ranks[2], signal.SIGKILL)
    code = job.process.wait(60)
    assert code != 0, "a rank was killed, and the job ended as if nothing had been"
    end = time.monotonic() + 20
    while any(os.path.exists(f"/proc/{pid}") for pid in ranks.values()):
        assert time.monotonic() < end, "a rank outlived the job"
        time.sleep(0.05)
    print(f"a lost rank ends the job, with {code}")


def mistakes_are_said():
    for flags, words in [(["-m", MODEL, "--local-nodes", "2"], "leave out --local-nodes"), (["-m", f"{WORK}/none.gguf"], "none.gguf")]:
        done = subprocess.run([*MPIRUN, "-n", "2", BUTTERFLY, "serve", "--port", "0", *flags], capture_output=True, text=True, env=ENV, timeout=120)
        assert done.returncode != 0 and words in done.stderr, f"{flags}: {done.returncode}\n{done.stderr}"
    print("mistakes are said")


if sys.argv[3] == "0":
    done = subprocess.run([*MPIRUN, "-n", "2", BUTTERFLY, "serve", "--port", "0", "-m", MODEL], capture_output=True, text=True, env=ENV, timeout=120)
    assert done.returncode != 0 and "built without MPI" in done.stderr, f"{done.returncode}\n{done.stderr}"
    print("a program without MPI says so")
    sys.exit(0)
same_bits()
a_lost_rank_ends_the_job()
mistakes_are_said()
