"""A person at a terminal, played by tmux: types, edits, stops, sets, saves, leaves.

chat_test.py BUTTERFLY WORK_FOLDER MODEL        exit 77: skipped, with the reason
"""
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time

BUTTERFLY, WORK, MODEL = sys.argv[1:4]
if shutil.which("tmux") is None:
    print("skipped: tmux is not installed")
    sys.exit(77)
shutil.rmtree(WORK, ignore_errors=True)
os.makedirs(WORK)
SOCKET = f"butterfly-chat-{os.getpid()}"
PATIENCE = 60  # seconds, for a busy machine


def tmux(*words):
    return subprocess.run(["tmux", "-L", SOCKET, *words], check=True, capture_output=True, text=True).stdout


class Terminal:
    """One window with the program in it, in a home of its own."""

    def __init__(self, name, *flags, width=80, height=40, env=(), command="run"):
        self.home = f"{WORK}/{name}"
        os.makedirs(self.home, exist_ok=True)
        settings = {"HOME": self.home, "XDG_STATE_HOME": f"{self.home}/state", "XDG_DATA_HOME": f"{self.home}/data", "TERM": "screen-256color", "LC_ALL": "C.UTF-8", **dict(env)}
        words = ["env", "-u", "NO_COLOR", *[f"{k}={v}" for k, v in settings.items()], BUTTERFLY, command, *flags]
        tmux("new-session", "-d", "-s", name, "-x", str(width), "-y", str(height), "sh", "-c", "trap : INT; " + shlex.join(words) + '; echo "left with $?"; exec sleep 600')
        self.name = name

    def screen(self, colours=False):
        return tmux("capture-pane", "-p", "-J", *(["-e"] if colours else []), "-S", "-500", "-t", self.name)

    def keys(self, *keys):
        tmux("send-keys", "-t", self.name, *keys)

    def type(self, text):
        tmux("send-keys", "-t", self.name, "-l", text)

    def say(self, text):
        self.type(text)
        self.keys("Enter")

    def until(self, pattern, times=1):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            screen = self.screen()
            if len(re.findall(pattern, screen, re.M)) >= times:
                return screen
            if re.search(r"left with [1-9]", screen):  # nothing more will come
                break
            time.sleep(0.05)
        raise AssertionError(f"{self.name}: {pattern!r} did not come {times} times:\n{self.screen()}")

    def ready(self, times=1):
        """The prompt stands alone, after so many answers."""
        return self.until(r"^>>> *$", 1)

    def leave(self):
        self.keys("C-d")
        self.until("left with 0")
        tmux("kill-session", "-t", self.name)


FIGURES = r"^\[\d+ tokens?, [\d.]+ tokens/s, first after "


def test_type_history_and_leave():
    t = Terminal("history", MODEL, "--temp", "0")
    t.until(r"/help shows")
    t.ready()
    t.say("Hello there")
    t.until(FIGURES)
    t.ready()
    t.keys("Up")
    t.until(r"^>>> Hello there *$", 2)
    t.keys("C-a")
    t.type("Oh! ")  # at the beginning
    t.keys("Enter")
    t.until(r"^>>> Oh! Hello there *$")
    t.until(FIGURES, 2)
    t.leave()
    # The next one remembers, and nobody else reads it.
    path = f"{t.home}/state/butterfly/chat-history"
    assert os.stat(path).st_mode & 0o077 == 0, oct(os.stat(path).st_mode)
    t = Terminal("history", MODEL, "--temp", "0")
    t.ready()
    t.keys("Up")
    t.until(r"^>>> Oh! Hello there *$")
    t.keys("C-u")
    t.leave()


def test_unicode_is_edited_by_character():
    t = Terminal("unicode", MODEL, "--temp", "0", env={"LC_ALL": "POSIX"}.items())
    t.ready()
    t.type("naïve 日本")
    t.keys("Left", "BSpace")
    t.type("x")
    t.until(r"^>>> naïve x本 *$")
    t.keys("Enter")
    t.until(FIGURES)
    t.leave()


def test_stop_keeps_the_program():
    slow = f"{WORK}/slow.gguf"
    subprocess.run([BUTTERFLY, "make-model", slow, "--dim", "512", "--hidden", "2048", "--layers", "24", "--heads", "8", "--vocab", "400", "--context", "4096", "--seed", "3"], check=True, capture_output=True)
    t = Terminal("stop", slow, "--ignore-eos", command="chat")
    t.ready()
    t.say("go on")
    t.until(r"^>>> go on *\n.")  # it has begun, and is far from its end
    t.keys("C-c")
    t.until(r"^\[stopped; \d+ tokens")
    t.ready()
    t.say("/show")
    t.until(r"^turns +2, \d+ of 4096 tokens")
    # At the prompt: the first clears the line, the second leaves.
    t.type("half a line")
    t.keys("C-c")
    t.until(r"Ctrl-C again, Ctrl-D or /bye leaves")
    t.say("/show")
    t.until(r"^turns +2", 2)
    t.keys("C-c")
    t.until(r"Ctrl-C again", 2)
    t.keys("C-c")
    t.until("left with 0")


def test_commands():
    t = Terminal("commands", MODEL, "--temp", "0", "--system", "You are a cat.")
    t.ready()
    t.say("/help")
    t.until(r"^  /regen")
    t.say("/set temp 0.5")
    t.until(r"^temp is 0.5\.")
    t.say("/set temp warm")
    t.until(r"expected a number, found 'warm'")
    t.say("/set top-p 7")
    t.say("/set colour 1")
    t.until(r"there is no setting 'colour'")
    t.say("/set")
    t.until(r"^temp 0.5 .*seed \d+")
    t.say("/clera")
    t.until(r"there is no /clera; did you mean /clear\?")
    t.say("Hello")
    t.until(FIGURES)
    t.say(f"/save {t.home}/talk.json")
    t.until(r"^Kept in")
    kept = json.load(open(f"{t.home}/talk.json"))
    assert kept["system"] == "You are a cat.", kept
    assert [m["role"] for m in kept["messages"]] == ["user", "assistant"], kept
    t.say("/regen")
    t.until(FIGURES, 2)
    t.say("/clear")
    t.until(r"^The conversation is forgotten")
    t.say(f"/load {t.home}/talk.json")
    t.until(r"^2 turns\.")
    t.say("/load /etc/passwd")
    t.until(r"no conversation that was kept with /save")
    t.say("/system")
    t.until(r"^No system message")
    t.say("/etc/hosts is a file")  # a message, not a command
    t.until(FIGURES, 3)
    t.say("/bye")
    t.until("left with 0")


def test_several_lines():
    t = Terminal("lines", MODEL, "--temp", "0")
    t.ready()
    t.say('"""first')
    t.until(r"^\.\.\. *$")
    t.say('second"""')
    t.until(FIGURES)
    # What is pasted is one message, however many lines it has.
    tmux("set-buffer", "-b", "p", "one\ntwo\nthree")
    tmux("paste-buffer", "-p", "-b", "p", "-t", t.name)
    t.until(r"^>>> one⏎two⏎three *$")
    t.keys("Enter")
    t.until(FIGURES, 2)
    t.say(f"/save {t.home}/talk.json")
    t.until(r"^Kept in")
    said = [m["content"] for m in json.load(open(f"{t.home}/talk.json"))["messages"] if m["role"] == "user"]
    assert said == ["first\nsecond", "one\ntwo\nthree"], said
    t.leave()


def test_too_long_changes_nothing():
    t = Terminal("long", MODEL, "--temp", "0", "-c", "128")
    t.ready()
    t.say("Hello")
    t.until(FIGURES)
    t.say("long " * 300)
    t.until(r"the message is too long: \d+ tokens")
    t.say("/show")
    t.until(r"^turns +2,")
    assert "forgotten" not in t.screen(), t.screen()
    t.leave()


def test_colours_and_their_refusal():
    for name, env in ("colour", {}), ("plain", {"NO_COLOR": "1"}):
        t = Terminal(name, MODEL, "--temp", "0", env=env.items())
        t.ready()
        t.say("Hello")
        t.until(FIGURES)
        coloured = "\x1b[" in t.screen(colours=True)
        assert coloured == (name == "colour"), t.screen(colours=True)
        t.leave()


def test_a_narrow_window_wraps_between_words():
    t = Terminal("narrow", MODEL, "--temp", "0", "--chat", width=24, height=60)
    t.ready()
    t.say("Tell me a story")
    t.until(r"first after")
    lines = tmux("capture-pane", "-p", "-t", t.name).splitlines()
    assert all(len(line) <= 24 for line in lines)
    t.leave()


def test_pipes():
    def piped(*flags, text="Hello"):
        return subprocess.run([BUTTERFLY, "run", MODEL, "-n", "8", "--temp", "0", *flags], input=text, capture_output=True, text=True, timeout=60)

    raw, message = piped(), piped("--chat")
    assert "note: the text is gone on with as it is" in raw.stderr, raw.stderr
    assert "note:" not in message.stderr, message.stderr
    assert raw.stdout != message.stdout
    plain = subprocess.run([BUTTERFLY, "run", MODEL, "Hello", "-n", "8", "--temp", "0"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert plain.returncode == 0 and plain.stdout == raw.stdout, plain
    wrong = piped("--system", "x")
    assert wrong.returncode != 0 and "add --chat" in wrong.stderr, wrong.stderr


failures = 0
try:
    # The last session takes the server with it: this one stays.
    tmux("-f", "/dev/null", "new-session", "-d", "-s", "keeper", "sleep 3600")
    for name, test in list(globals().items()):
        if not name.startswith("test_"):
            continue
        try:
            test()
            print(f"ok {name}", flush=True)
        except Exception as error:  # noqa: BLE001
            failures += 1
            print(f"FAILED {name}: {error}", flush=True)
finally:
    subprocess.run(["tmux", "-L", SOCKET, "kill-server"], capture_output=True)
sys.exit(1 if failures else 0)
