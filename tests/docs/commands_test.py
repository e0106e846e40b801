"""Commands of the README and the how-to pages, as they are written there.

Every line of a block is judged: those of a block with `<!-- run -->` before it are run; of the others, lines that call butterfly have
their command and flags looked up in its help; whatever else they call must be among programs that cannot be run here.

commands_test.py BUTTERFLY WORK_FOLDER REPOSITORY
"""
import glob
import os
import re
import shlex
import shutil
import subprocess
import sys
import time

BUTTERFLY, WORK, REPOSITORY = (os.path.abspath(p) for p in sys.argv[1:4])
PAGES = ["README.md", "docs/install.md", "examples/README.md", *sorted(glob.glob("docs/how-to/*.md", root_dir=REPOSITORY))]
# What a test cannot do here: other machines, other people's systems, minutes of compiling, the whole system's packages.
ELSEWHERE = {"apt", "systemctl", "journalctl", "sudo", "scp", "ssh", "docker", "kubectl", "ufw", "firewall-cmd", "srun", "mpirun", "cmake", "ctest", "g++",
             "./scripts/quickstart", "./scripts/test", "./scripts/package", "./scripts/deps.sh", "chown", "build/examples/partition"}
SHELL_WORDS = {"export", "#!/bin/bash", "#SBATCH"}
failures = []


def blocks(page):
    """(lines, whether they are to be run, line number) of each fenced block."""
    lines = open(f"{REPOSITORY}/{page}").read().split("\n")
    inside, begin = None, 0
    for number, line in enumerate(lines, 1):
        if line.startswith("```"):
            if inside is None:
                inside, begin = [], number
            else:
                before = next((lines[i] for i in range(begin - 2, -1, -1) if lines[i].strip()), "")
                yield inside, before.strip() == "<!-- run -->", begin
                inside = None
        elif inside is not None:
            inside.append(line)


def command_of(line):
    """Without the prompt of a transcript and without the comment."""
    line = re.sub(r"^\$ ", "", line)
    return re.sub(r"\s+#( .*)?$", "", line).strip()


helps = {}


def help_of(command):
    if command not in helps:
        done = subprocess.run([BUTTERFLY, command, "--help"], capture_output=True, text=True)
        helps[command] = done.stdout + done.stderr if done.returncode == 0 else None
    return helps[command]


def check_flags(place, line):
    """A call of butterfly: does the command exist, and do all its flags?"""
    for call in re.split(r"\s*(?:&&|\|\||;|\|)\s*", line):
        try:
            words = shlex.split(re.sub(r"\$\([^)]*\)", "X", call.rstrip("&")))
        except ValueError:
            words = call.split()
        # Also behind `sudo -u butterfly`, and on another machine.
        while words and (os.path.basename(words[0]) != "butterfly" or words[1:2] == ["butterfly"]):
            words.pop(0)
        if len(words) < 2 or words[1].startswith("-"):
            continue
        text = help_of(words[1])
        if text is None:
            failures.append(f"{place}: there is no command '{words[1]}': {line}")
            continue
        for word in words[2:]:
            flag = word.split("=")[0]
            if re.match(r"^--?[a-z]", flag) and flag != "-h" and not re.search(rf"(^|[\s,]){re.escape(flag)}\b", text):
                failures.append(f"{place}: {words[1]} has no flag {flag}: {line}")


def check_elsewhere(place, line):
    first = line.split()[0]
    if re.match(r"^[A-Za-z_]+=", first):
        return
    if os.path.basename(first) == "butterfly" or (re.search(r"\bbutterfly [a-z]", line) and first in ELSEWHERE - {"scp"}):
        check_flags(place, line)
    elif first not in ELSEWHERE and first not in SHELL_WORDS and first != "curl":
        failures.append(f"{place}: '{first}' is neither run nor known to be impossible here: {line}")


class Sandbox:
    """A folder with what a clone has, a home, and the program on the path."""

    def __init__(self, name):
        self.home = f"{WORK}/{name}"
        shutil.rmtree(self.home, ignore_errors=True)
        self.folder = f"{self.home}/clone"
        os.makedirs(f"{self.folder}/build/release/bin")
        os.makedirs(f"{self.home}/bin")
        for entry in ("models", "docs", "examples", "README.md"):
            os.symlink(f"{REPOSITORY}/{entry}", f"{self.folder}/{entry}")
        os.symlink(BUTTERFLY, f"{self.home}/bin/butterfly")
        os.symlink(BUTTERFLY, f"{self.folder}/build/release/bin/butterfly")
        self.env = {**os.environ, "HOME": self.home, "PATH": f"{self.home}/bin:{os.environ['PATH']}", "XDG_RUNTIME_DIR": self.home,
                    **{f"XDG_{n}_HOME": f"{self.home}/{n.lower()}" for n in ("DATA", "STATE", "CACHE", "CONFIG")}}
        self.servers = []
        # Another port than the page says, so that a server of the machine is in nobody's way.
        self.port = None

    def run(self, place, line):
        line = line.replace("127.0.0.1:8080", f"127.0.0.1:{self.port}") if self.port else line
        if re.search(r"\bbutterfly serve\b", line):
            return self.serve(place, line)
        if "examples/chat" in line and self.port:
            line += f" http://127.0.0.1:{self.port}"
        done = subprocess.run(["bash", "-c", line], cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        if done.returncode != 0 or '"error"' in done.stdout[:40]:
            failures.append(f"{place}: status {done.returncode}: {line}\n{done.stdout[-400:]}{done.stderr[-400:]}")
        return None

    def serve(self, place, line):
        child = subprocess.Popen(["bash", "-c", f"exec {line} --port 0"], cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=open(f"{self.home}/serve.log", "w"))
        self.servers.append(child)
        end = time.monotonic() + 60
        while time.monotonic() < end and child.poll() is None:
            found = re.search(r"at http://127\.0\.0\.1:(\d+)", open(f"{self.home}/serve.log").read())
            if found:
                self.port = found.group(1)
                return
            time.sleep(0.1)
        failures.append(f"{place}: does not serve: {line}\n{open(f'{self.home}/serve.log').read()[-400:]}")

    def close(self):
        for child in self.servers:
            child.terminate()
            child.wait(30)


ran = looked = 0
for page in PAGES:
    for lines, to_run, begin in blocks(page):
        sandbox = Sandbox(re.sub(r"\W+", "-", f"{page}-{begin}")) if to_run else None
        for number, line in enumerate(lines, begin + 1):
            command = command_of(line)
            place = f"{page}:{number}"
            # What a transcript shows besides commands.
            transcript = any(other.startswith("$ ") for other in lines)
            if not command or command.startswith("#") or (transcript and not line.startswith("$ ")):
                continue
            if to_run:
                if command.startswith("node ") and not shutil.which("node"):
                    continue
                sandbox.run(place, command)
                ran += 1
            else:
                check_elsewhere(place, command)
                looked += 1
        if sandbox:
            sandbox.close()
for failure in failures:
    print("FAILED", failure)
print(f"{ran} commands run, {looked} looked up, {len(failures)} failed")
sys.exit(1 if failures or ran < 10 else 0)
