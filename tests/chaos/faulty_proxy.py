"""A TCP proxy on loopback whose traffic can be made to fail: below TLS, so that nobody above it can tell it from a bad network."""
import random
import socket
import threading
import time

MODES = ("pass", "blackhole", "blackhole_in", "blackhole_out", "trickle", "drip", "delay")
PACE_S = {"trickle": 0.002, "drip": 1.0}  # for each byte


class Greeting:
    """Of one connection: it is over when the client says something after the server has answered."""

    def __init__(self):
        self.began, self.answered, self.over = time.time(), False, False


class FaultyProxy:
    """Listens on a port of its own and passes bytes to `target` ("host:port"), as `mode` says.

    pass: as they come. blackhole: none, in both directions (_in: towards the target, _out: from it); connections stay open,
    as behind a pulled cable. trickle: a byte at a time, 500 in a second; drip: one in a second. delay: 50 ms late. cut() closes
    what is open; flip() changes one bit of the next bytes that pass, and flipped_at, broken_at and linked_at say when that was, when the
    connection that carried them ended, and when the first one that was opened afterwards was set up; silence() stops one connection of those that are open, one
    way or both, as between two machines that cannot reach each other any more while others can.
    """

    def __init__(self, target, seed=1):
        host, port = target.rsplit(":", 1)
        self.target = (host, int(port))
        self.mode, self.flips, self.ended = "pass", 0, False
        self.random = random.Random(seed)
        self.lock = threading.Lock()
        self.open = set()
        self.silent = set()  # (source, sink) of connections that pass nothing
        self.hit = None  # the pair that carried the last changed bit, until it ends
        self.flipped_at = self.broken_at = self.linked_at = None
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(128)
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def retarget(self, target):
        host, port = target.rsplit(":", 1)
        self.target = (host, int(port))

    def cut(self):
        with self.lock:
            pairs, self.open = list(self.open), set()
        for pair in pairs:
            for end in pair:
                self._close(end)

    def silence(self, directions=("in", "out")):
        """False: nothing is open."""
        with self.lock:
            if not self.open:
                return False
            client, server = self.random.choice(sorted(self.open, key=id))
            self.silent |= {(client, server)} if "in" in directions else set()
            self.silent |= {(server, client)} if "out" in directions else set()
            return True

    def speak(self):
        with self.lock:
            self.silent = set()

    def flip(self):
        with self.lock:
            self.flips += 1
            self.flipped_at = self.broken_at = self.linked_at = None

    def end(self):
        self.ended = True
        self._close(self.listener)
        self.cut()

    @staticmethod
    def _close(end):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        end.close()

    def _accept(self):
        while not self.ended:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        while self.mode.startswith("blackhole") and not self.ended:
            time.sleep(0.02)  # nobody answers
        try:
            server = socket.create_connection(self.target, timeout=5)
        except OSError:
            return self._close(client)
        pair = (client, server)
        for end in pair:
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            end.settimeout(0.2)
        with self.lock:
            self.open.add(pair)
        greeting = Greeting()
        threads = [threading.Thread(target=self._pump, args=(client, server, "in", pair, greeting), daemon=True),
                   threading.Thread(target=self._pump, args=(server, client, "out", pair, greeting), daemon=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with self.lock:
            self.open.discard(pair)
            if pair is self.hit:
                self.hit, self.broken_at = None, time.time()
        for end in pair:
            self._close(end)

    def _set_up(self, greeting):
        """A connection has got past its greeting."""
        greeting.over = True
        with self.lock:
            if self.broken_at and greeting.began >= self.broken_at and not self.linked_at:
                self.linked_at = time.time()

    def _pass(self, sink, data):
        """All of it, however slowly the other end takes it. False: it is gone."""
        data = memoryview(data)
        while data and not self.ended:
            try:
                data = data[sink.send(data):]
            except TimeoutError:
                continue
            except OSError:
                return False
        return True

    def _pump(self, source, sink, direction, pair, greeting):
        """Until one of the two is closed."""
        while not self.ended:
            if self.mode in ("blackhole", f"blackhole_{direction}") or (source, sink) in self.silent:
                time.sleep(0.02)
                continue
            try:
                data = source.recv(1 if self.mode in PACE_S else 65536)
            except TimeoutError:
                continue
            except OSError:
                break
            if not data:
                break
            if direction == "out":
                greeting.answered = True
            elif greeting.answered and not greeting.over:
                self._set_up(greeting)
            with self.lock:
                flip = self.flips > 0
                self.flips -= flip
                if flip:
                    self.flipped_at, self.hit = time.time(), pair
            if flip:
                bit = self.random.randrange(8 * len(data))
                changed = bytearray(data)
                changed[bit // 8] ^= 1 << bit % 8
                data = bytes(changed)
            if self.mode == "delay":
                time.sleep(0.05)
            # By parts of a second, so that the end of the fault ends it.
            wait = PACE_S.get(self.mode, 0)
            until = time.monotonic() + wait
            while self.mode in PACE_S and time.monotonic() < until:
                time.sleep(min(0.05, wait))
            if not self._pass(sink, data):
                break
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
