"""A small hub: Hugging Face's lists and redirects, and a file server that cuts, lies and changes as tests ask."""
import hashlib
import http.server
import json
import ssl
import threading
import urllib.parse


class Hub:
    """Files of repositories, over HTTP on loopback; `seen` has every request."""

    def __init__(self, tls=None):
        self.repos = {}  # "owner/repo" -> {name: bytes}
        self.token = None  # that is asked for
        self.cut_after = []  # bytes after which the next answers are cut off
        self.no_ranges = False
        self.lie = {}  # name -> hash that is told instead
        self.list_override = None
        self.redirect = None  # where files lead instead
        self.fail = []  # status codes of the next answers
        self.seen = []
        hub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *words):
                pass

            def do_GET(self):
                try:
                    hub.answer(self)
                except (BrokenPipeError, ConnectionResetError):
                    pass  # it knew enough

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, request):
        path = urllib.parse.unquote(request.path.split("?")[0])
        self.seen.append((path, dict(request.headers)))
        if self.fail:
            return self.say(request, self.fail.pop(0), b"{}")
        if self.token and not path.startswith("/cdn/") and request.headers.get("Authorization") != f"Bearer {self.token}":
            return self.say(request, 401, b"{}")
        if path.startswith("/api/models/"):
            repo = self.repos.get(path[len("/api/models/") :])
            if repo is None:
                return self.say(request, 404, b"{}")
            return self.say(request, 200, self.list_override or json.dumps({"siblings": [self.row(n, b) for n, b in repo.items()]}).encode())
        words = path.strip("/").split("/")
        if path.startswith("/cdn/"):
            return self.send_file(request, self.file("/".join(words[1:3]), "/".join(words[3:])))
        if len(words) > 4 and words[2] == "resolve":
            name = "/".join(words[4:])
            data = self.file("/".join(words[:2]), name)
            if data is None:
                return self.say(request, 404, b"Entry not found")
            target = self.redirect or f"/cdn/{words[0]}/{words[1]}/{urllib.parse.quote(name)}"
            return self.say(request, 302, b"", {"Location": target, "X-Linked-Etag": f'"{self.hash(name, data)}"', "X-Linked-Size": str(len(data))})
        return self.say(request, 404, b"{}")

    def file(self, repo, name):
        return self.repos.get(repo, {}).get(name)

    def hash(self, name, data):
        return self.lie.get(name) or hashlib.sha256(data).hexdigest()

    def row(self, name, data):
        return {"rfilename": name, "size": len(data), "lfs": {"sha256": self.hash(name, data), "size": len(data)}}

    def say(self, request, status, body, headers=()):
        request.send_response(status)
        for key, value in {"Content-Length": str(len(body)), "Connection": "close", **dict(headers)}.items():
            request.send_header(key, value)
        request.end_headers()
        request.wfile.write(body)
        request.close_connection = True

    def send_file(self, request, data):
        if data is None:
            return self.say(request, 404, b"")
        begin = 0
        asked = request.headers.get("Range")
        headers = {"ETag": f'"{hashlib.md5(data).hexdigest()}"'}
        if asked and not self.no_ranges:
            begin = int(asked[len("bytes=") :].split("-")[0])
            if begin >= len(data):
                return self.say(request, 416, b"")
            headers["Content-Range"] = f"bytes {begin}-{len(data) - 1}/{len(data)}"
        body = data[begin:]
        request.send_response(206 if "Content-Range" in headers else 200)
        for key, value in {"Content-Length": str(len(body)), "Connection": "close", **headers}.items():
            request.send_header(key, value)
        request.end_headers()
        if self.cut_after:
            body = body[: self.cut_after.pop(0)]
        request.wfile.write(body)
        request.close_connection = True
