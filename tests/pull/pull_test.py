"""`butterfly pull` against a hub of our own: whole, resumed, cut off, lied to, led astray.

pull_test.py BUTTERFLY WORK_FOLDER MODEL        exit 77: skipped, with the reason
"""
import glob
import hashlib
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(__file__))
from hub import Hub  # noqa: E402

BUTTERFLY, WORK, MODEL = sys.argv[1:4]
shutil.rmtree(WORK, ignore_errors=True)
os.makedirs(WORK)
DATA = open(MODEL, "rb").read()
STORE = "data/butterfly/models"
checks = 0


def pull(hub, *words, home=None, env=(), ok=True):
    """Runs it in a home of its own; what it said."""
    home = home or f"{WORK}/{len(os.listdir(WORK))}"
    os.makedirs(home, exist_ok=True)
    settings = {"PATH": os.environ["PATH"], "HOME": home, "XDG_DATA_HOME": f"{home}/data", "HF_ENDPOINT": hub.url, **dict(env)}
    done = subprocess.run([BUTTERFLY, "pull", "--tries", "3", *words], env=settings, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    said = done.stdout + done.stderr
    assert (done.returncode == 0) == ok, f"{words}: status {done.returncode}: {said}"
    return home, said


def stored(home, name):
    path = f"{home}/{STORE}/{name}"
    return open(path, "rb").read() if os.path.exists(path) else None


def left(home):
    """What a pull left behind besides models."""
    return glob.glob(f"{home}/{STORE}/.*")


def check(what, condition, said=""):
    global checks
    checks += 1
    assert condition, f"{what}: {said}"
    print(f"ok {what}", flush=True)


hub = Hub()
hub.repos["some/Tiny-GGUF"] = {"README.md": b"hello", "tiny-Q8_0.gguf": DATA, "tiny-Q4_K_M.gguf": DATA[:-1] + b"x"}

home, said = pull(hub, "hf.co/some/Tiny-GGUF:Q8_0")
check("a type by its name", stored(home, "tiny-Q8_0.gguf") == DATA and "as the server says" in said and not left(home), said)
run = subprocess.run([BUTTERFLY, "run", "tiny-Q8_0", "-p", "Once", "-n", "4", "--temp", "0", "-q"], env={**os.environ, "XDG_DATA_HOME": f"{home}/data"}, capture_output=True, text=True)
check("it runs by its name", run.returncode == 0 and run.stdout.strip(), run.stderr)
count = len(hub.seen)
home, said = pull(hub, "hf.co/some/Tiny-GGUF:Q8_0", home=home)
check("what is here is not fetched again", "already" in said and all("/cdn/" not in path for path, _ in hub.seen[count:]), said)

hub.cut_after = [100_000, 0, 300_000]
home, said = pull(hub, "hf.co/some/Tiny-GGUF:Q8_0")
ranges = [headers.get("Range") for path, headers in hub.seen if path.startswith("/cdn/")]
check("connections that are cut are made again, from there", stored(home, "tiny-Q8_0.gguf") == DATA and ranges[-1] == "bytes=400000-", ranges)

hub.cut_after = [100_000] + [0] * 3
home, said = pull(hub, "hf.co/some/Tiny-GGUF:Q8_0", ok=False)
check("a server that is gone: what came is kept", "goes on from there" in said and stored(home, "tiny-Q8_0.gguf") is None and left(home), said)
hub.cut_after = []
home, said = pull(hub, "hf.co/some/Tiny-GGUF:Q8_0", home=home)
check("the next start goes on", "of them from before" in said and stored(home, "tiny-Q8_0.gguf") == DATA and not left(home), said)

hub.cut_after = [100_000]
hub.no_ranges = True
home, said = pull(hub, "hf.co/some/Tiny-GGUF:Q8_0")
check("a server without ranges: from the beginning", stored(home, "tiny-Q8_0.gguf") == DATA, said)
hub.no_ranges = False

hub.lie = {"tiny-Q8_0.gguf": "0" * 64}
home, said = pull(hub, "hf.co/some/Tiny-GGUF:Q8_0", ok=False)
check("a wrong hash: nothing is kept", "SHA-256" in said and "0" * 64 in said and not os.listdir(f"{home}/{STORE}"), said)
hub.lie = {}

home, said = pull(hub, "hf.co/some/Tiny-GGUF:Q3_K", ok=False)
check("a type that is not there: those that are", "Q4_K_M, Q8_0" in said, said)
home, said = pull(hub, "hf.co/some/None", ok=False)
check("a name that is not there", "there is no such model" in said and "HF_TOKEN" in said, said)
home, said = pull(hub, "some/Tiny-GGUF", ok=False)
check("neither address nor file", "expected hf.co/OWNER/REPO" in said, said)

hub.token = "secret-of-mine"
home, said = pull(hub, "hf.co/some/Tiny-GGUF:Q8_0", ok=False)
check("a token is asked for", "HF_TOKEN" in said, said)
cdn = Hub()
cdn.repos = hub.repos
hub.redirect = f"{cdn.url}/cdn/some/Tiny-GGUF/tiny-Q8_0.gguf"
home, said = pull(hub, "hf.co/some/Tiny-GGUF:Q8_0", env={"HF_TOKEN": "secret-of-mine"}.items())
check("the token goes to the hub, and not to where it redirects", stored(home, "tiny-Q8_0.gguf") == DATA and all("Authorization" not in h for _, h in cdn.seen) and cdn.seen, said)
check("and is not said", "secret-of-mine" not in said, said)
hub.token = None
hub.redirect = f"{hub.url}/some/Tiny-GGUF/resolve/main/tiny-Q8_0.gguf"
home, said = pull(hub, "hf.co/some/Tiny-GGUF:Q8_0", ok=False)
check("circles of redirects end", "redirects" in said, said)
hub.redirect = "file:///etc/passwd"
home, said = pull(hub, "hf.co/some/Tiny-GGUF:Q8_0", ok=False)
check("redirects lead to web servers only", "expected https://" in said and not glob.glob(f"{home}/{STORE}/*"), said)
hub.redirect = None

hub.repos["evil/Names"] = {"../../../../evil.gguf": DATA, "/tmp/evil.gguf": DATA, "a/../evil.gguf": DATA}
home, said = pull(hub, "hf.co/evil/Names", ok=False)
check("names that lead out of the folder are not taken", "no model that can be run" in said and not glob.glob(f"{WORK}/**/evil.gguf", recursive=True), said)
hub.list_override = b"[" * 100_000
home, said = pull(hub, "hf.co/some/Tiny-GGUF", ok=False)
check("a list that is none", "cannot be read" in said, said)
hub.list_override = None

hub.repos["some/Parts"] = {f"q/p-Q8_0-0000{i}-of-00002.gguf": DATA for i in (1, 2)}
home, said = pull(hub, "hf.co/some/Parts")
check("all parts come", sorted(os.listdir(f"{home}/{STORE}")) == ["p-Q8_0-00001-of-00002.gguf", "p-Q8_0-00002-of-00002.gguf"], said)

hub.fail = [503, 503]
home, said = pull(hub, f"{hub.url}/cdn/some/Tiny-GGUF/tiny-Q8_0.gguf", "mine")
check("an address, by another name, from a server that is busy at first", stored(home, "mine.gguf") == DATA and "names none" in said, said)
home, said = pull(hub, f"{hub.url}/cdn/some/Tiny-GGUF/README.md", ok=False)
check("an address of something else", "what it is to be called" in said, said)
home, said = pull(hub, f"{hub.url}/cdn/some/Tiny-GGUF/README.md", "mine", ok=False)
check("a file that is no model is said to be none", "cannot be run" in said, said)
hub.cut_after = [50_000] + [0] * 3
url = f"{hub.url}/cdn/some/Tiny-GGUF/tiny-Q8_0.gguf"
home, said = pull(hub, url, ok=False)
hub.cut_after = []
hub.repos["some/Tiny-GGUF"]["tiny-Q8_0.gguf"] = DATA[:-4] + b"tail"
home, said = pull(hub, url, home=home)
check("a file that changed meanwhile is fetched anew", stored(home, "tiny-Q8_0.gguf") == hub.repos["some/Tiny-GGUF"]["tiny-Q8_0.gguf"], said)
hub.repos["some/Tiny-GGUF"]["tiny-Q8_0.gguf"] = DATA

if shutil.which("openssl"):
    key, cert = f"{WORK}/key.pem", f"{WORK}/cert.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=hub", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert], check=True, capture_output=True)
    safe = Hub(tls=(cert, key))
    safe.repos = hub.repos
    home, said = pull(safe, "hf.co/some/Tiny-GGUF:Q8_0", ok=False)
    check("a certificate that nobody vouches for", "is not believed" in said and "SSL_CERT_FILE" in said, said)
    home, said = pull(safe, "hf.co/some/Tiny-GGUF:Q8_0", env={"SSL_CERT_FILE": cert}.items())
    check("https", stored(home, "tiny-Q8_0.gguf") == DATA, said)
    safe.redirect = f"{hub.url}/cdn/some/Tiny-GGUF/tiny-Q8_0.gguf"
    home, said = pull(safe, "hf.co/some/Tiny-GGUF:Q8_0", env={"SSL_CERT_FILE": cert}.items(), ok=False)
    check("https is not left for http", "from https to http" in said, said)

print(f"{checks} checks, 0 failed; SHA-256 {hashlib.sha256(DATA).hexdigest()[:12]}")
