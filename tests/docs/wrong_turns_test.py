"""What people do at first, and the sentence that each gets: one line, with what to do.

wrong_turns_test.py BUTTERFLY WORK_FOLDER REPOSITORY
"""
import os
import re
import shutil
import socket
import subprocess
import sys

BUTTERFLY, WORK, REPOSITORY = (os.path.abspath(p) for p in sys.argv[1:4])
MODEL = f"{REPOSITORY}/models/caterpillar.gguf"
shutil.rmtree(WORK, ignore_errors=True)
os.makedirs(WORK)
ENV = {"PATH": os.environ["PATH"], "HOME": WORK, "XDG_RUNTIME_DIR": WORK, **{f"XDG_{n}_HOME": f"{WORK}/{n.lower()}" for n in ("DATA", "STATE", "CACHE", "CONFIG")}}
failures = 0


def said(*words, stdin=None):
    done = subprocess.run([BUTTERFLY, *words], env=ENV, cwd=WORK, input=stdin, capture_output=True, text=True, timeout=120, **({} if stdin is not None else {"stdin": subprocess.DEVNULL}))
    return done.returncode, done.stderr + done.stdout


def wrong_turn(what, pattern, *words, stdin=None):
    """It fails, in at most three lines, with the words that help, and without C++'s own."""
    global failures
    status, text = said(*words, stdin=stdin)
    ok = status not in (0, 134, 139) and re.search(pattern, text) and len(text.strip().split("\n")) <= 4 and not re.search(r"terminate called|std::|filesystem error", text)
    failures += not ok
    print("ok" if ok else "FAILED", what, "" if ok else f"(status {status}, wanted {pattern!r}): {text}", flush=True)


busy = socket.socket()
busy.bind(("127.0.0.1", 0))
busy.listen()
port = str(busy.getsockname()[1])
open(f"{WORK}/empty.gguf", "w").close()
open(f"{WORK}/page.html", "w").write("<html>sign in first</html>")
assert said("init")[0] == 0

wrong_turn("a model that is not here", r"butterfly (list|import|pull)", "chat", "llama3")
wrong_turn("a command that is mistyped", r"did you mean 'serve'|serve", "serv", "-m", MODEL)
wrong_turn("a flag of another program", r"there is no flag '--n-predict'.*|near", "run", MODEL, "--n-predict", "5", "-p", "x")
wrong_turn("a web page saved as a model", r"page\.html", "run", "page.html", "-p", "x")
wrong_turn("an empty file", r"empty\.gguf", "run", "empty.gguf", "-p", "x")
wrong_turn("a port that is taken", r"choose another port|--port", "serve", "-m", MODEL, "--port", port)
wrong_turn("a server for everybody without a key", r"API key|--api-key", "serve", "-m", MODEL, "--host", "0.0.0.0")
wrong_turn("a second init", r"already|there is a cluster|token new", "init")
wrong_turn("a token that was cut in the middle", r"token", "join", "127.0.0.1:1", "--token", "bf1-12ab", "--state", f"{WORK}/node")
wrong_turn("a type that does not exist", r"Q4_0|Q8_0", "quantize", MODEL, "x.gguf", "Q99")
wrong_turn("a context that no memory holds", r"memory|GiB|context|positions", "run", MODEL, "-p", "x", "-c", "999999999999")
wrong_turn("a cluster without init", r"butterfly init", "serve", "-m", MODEL, "--cluster", "--state", f"{WORK}/none")
wrong_turn("a plan for machines in a file that is not there", r"machines\.toml", "plan", "llama-8b", "--cluster", "machines.toml")
wrong_turn("a name where an address is needed", r"expected hf\.co/OWNER/REPO", "pull", "llama3")
print(f"{failures} failed")
sys.exit(1 if failures else 0)
