"""Requests to a running server: most are built from its routes, the others are samples with damage.

The server runs in this process over a small library and a model that writes at once. Wrong is: a
status of 500 or above, an error in the log, an answer without the headers of every answer or with
one for other origins, the token, the cookie or a path of this machine in an answer, something
that was told without the token, a server that does not answer the next request, and memory that
grows.
"""

from __future__ import annotations

import json
import logging
import random
import re
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parent.parent / "tests"

PATIENCE = 20.0
"""Seconds for an answer to a whole request."""
SILENCE = 0.05
"""Seconds after which a server that works on nothing waits for the rest of a request."""
LOOKED = 500
"""After so many requests memory is looked at."""
MOST_GROWTH = 64 * 2**20
"""Bytes that may be held more than after the first requests, when all had been loaded."""
WARM = 4 * LOOKED

OPEN = ("/", "/view", "/healthz", "/source", "/static/")
PLACES = {"document": ("@DOCUMENT@", "none", "..", "%2e%2e%2f", "%00", "茶", "a" * 300)}
NAMES = ("localrag", "localrag/@LIBRARY@", "@LIBRARY@", "default", "localrag:self-rag", "no", "")
WORDS = (
    "orchids",
    "云溪茶园",
    "",
    " ",
    "\ud800",
    "\x00",
    "[1]",
    "<b>",
    "x" * 5000,
    "../../etc/passwd",
)
NUMBERS: tuple[object, ...] = (0, 1, 3, -1, 2**31, 2**63, 10**30, 1.5, 1e308, None, True, "1", [])
FILES = (
    "a.txt",
    "../../a.md",
    "C:\\a.pdf",
    "CON",
    "a\x00.txt",
    "茶.html",
    "a/b.csv",
    "." * 300,
    "",
)
FIELDS: dict[str, tuple[object, ...]] = {
    "question": WORDS,
    "query": (*WORDS, ["orchids", "1907"]),
    "input": (*WORDS, ["a", "b"], [{"role": "user", "content": "orchids"}], [1, 2], []),
    "messages": (
        [{"role": "user", "content": "orchids"}],
        [{"role": "user", "content": [{"type": "text", "text": "orchids"}]}],
        [{"role": r, "content": r} for r in ("system", "user", "assistant", "user")],
        [{"role": "assistant", "content": None}],
        [],
        [[]],
    ),
    "documents": (["a", "b"], [], [""], "a", [{"text": "a"}]),
    "history": ([], [{"question": "a", "answer": "b"}], [{}], "a"),
    "library": NAMES,
    "model": NAMES,
    "mode": ("standard", "self-rag", "no", None),
    "rerank": ("keyword", "none", "no", None),
    "expand": ("none", "no", None),
    "encoding_format": ("float", "base64", "no"),
    "stream": (True, False, None, "yes"),
    "stream_options": ({"include_usage": True}, None, []),
    **dict.fromkeys(("k", "n", "top_n", "max_num_results", "dimensions"), NUMBERS),
    "name": FILES,
    "document": ("@DOCUMENT@", "none", ""),
    **dict.fromkeys(("start", "end"), ("0", "5", "-1", "9" * 30, "x", "")),
    "key": ("@KEY@", "none"),
    **dict.fromkeys(("token", "access_token", "_method"), ("@TOKEN@", "DELETE")),
}
"""Fields of bodies and of queries, and what may be in them."""
WHOLE: dict[str, tuple[str, ...]] = {
    "/api/ask": ("question", "history"),
    "/api/search": ("question", "k"),
    "/v1/chat/completions": ("messages", "model", "stream"),
    "/v1/responses": ("input", "model", "stream"),
    "/v1/embeddings": ("input", "encoding_format"),
    "/v1/rerank": ("query", "documents", "top_n"),
    "/v1/vector_stores/{name}/search": ("query", "max_num_results"),
    "/api/view": ("library", "document", "start", "end", "key"),
    "/api/view.png": ("library", "document", "start", "end", "key"),
    "/api/documents": ("library", "name"),
}
"""Fields without which a route says no at once."""
TOOLS = ("search", "ask", "get_page", "list_documents", "status", "add", "no")
METHODS = (
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "PATCH",
    "DELETE",
    "OPTIONS",
    "TRACE",
    "CONNECT",
    "get",
    "X",
)
MEDIA = (
    *("application/json", "application/json; charset=utf-16", "application/octet-stream"),
    *("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""),
)
HEADERS = (
    *("Origin: http://@HOST@", "Origin: null", "Origin: http://evil.example", "Range: bytes=0-9"),
    *("Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-origin", "Expect: 100-continue"),
    *("X-HTTP-Method-Override: DELETE", "X-Forwarded-For: 127.0.0.1", "Forwarded: host=evil"),
    *("Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: eA==", "Host: evil.example"),
    *("Accept: application/json, text/event-stream", "Accept: text/event-stream", "Accept: */*"),
    *("Accept-Language: zh", "Mcp-Session-Id: none", "If-None-Match: *", "If-Modified-Since: x"),
    *("Content-Length: 5", "Content-Length: -1", "Transfer-Encoding: gzip", "Connection: close"),
    *(f"X: {'y' * 40_000}", "Cookie: @COOKIE@", 'Cookie: a="\\"', "Last-Event-ID: 1", "TE: x"),
)
TARGETS = (
    *(
        "http://evil.example/",
        "http://@HOST@/api/status",
        "*",
        "//evil.example/",
        "/static/../rest.py",
    ),
    *("/static/%2e%2e/rest.py", "/static/..%5crest.py", "/static/%00", "/static/" + "a" * 5000),
    *("/static//etc/passwd", "/static/app.js", "/api/status/", "/%ff", "/?", "/api/view?%00=%ff"),
)
LETTING_IN = re.compile(rb"(?mi)^(authorization: bearer @TOKEN@|cookie: @COOKIE@)\r$")


def samples() -> list[bytes]:
    """Whole requests, one of each route, and what follows each other on one connection."""
    draw = random.Random(1)
    made = [_request(draw, _filled(draw, path), method, path, 1.0) for method, path in _routes()]
    return [
        *made,
        made[0] + made[1],
        b"GET / HTTP/1.0\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ]


def _routes() -> list[tuple[str, str]]:
    """Method and path of each route of the application."""
    from localrag.server.access import Access
    from localrag.server.app import routes_of
    from localrag.server.libraries import Libraries

    found: Any = routes_of(Libraries([], lambda _: None), Access("x" * 20, 1))  # type: ignore[arg-type,return-value]
    routes = ((getattr(one, "methods", None) or {"GET", "POST"}, one.path) for one in found)
    return sorted((method, path) for methods, path in routes for method in methods)


def _filled(draw: random.Random, path: str) -> str:
    """A path with something in its places."""

    def chosen(place: re.Match[str]) -> str:
        return draw.choice(PLACES.get(place[1].partition(":")[0], NAMES)) or "x"

    filled = re.sub(r"\{([^}]*)\}", chosen, path)
    return f"{filled}/{draw.choice(('app.js', 'words.js', 'no'))}" if path == "/static" else filled


def built(draw: random.Random) -> bytes:
    """A request from the grammar: mostly one that a route takes, with one thing odd or none."""
    method, path = draw.choice(_ROUTES)
    target = _filled(draw, path)
    order = draw.choice((1.0, 1.0, 0.97, 0.8))
    if draw.random() > order:
        method = draw.choice(METHODS)
    if draw.random() > order:
        target = draw.choice(TARGETS)
    return _request(draw, target, method, path, order)


def _request(draw: random.Random, target: str, method: str, path: str, order: float) -> bytes:
    def odd() -> bool:
        return draw.random() > order

    fields = {name: draw.choice(FIELDS[name]) for name in WHOLE.get(path, ())}
    for _ in range(draw.choice((0, 0, 1, 3)) if order < 1 else 0):
        name = draw.choice(sorted(FIELDS))
        fields[name] = draw.choice(
            draw.choice(sorted(FIELDS.items()))[1] if odd() else FIELDS[name]
        )
    media, body = "application/json", b""
    if method in ("GET", "HEAD", "DELETE") or path == "/api/documents":
        from urllib.parse import urlencode

        target += "?" + urlencode(
            {k: str(v) for k, v in fields.items()}, safe="@", errors="replace"
        )
    if path == "/mcp":
        body = json.dumps(_protocol(draw)).encode()
    elif path == "/api/documents" and method == "POST":
        media, body = "application/octet-stream", b"orchid %d" % draw.randrange(30)
    elif method == "POST":
        body = json.dumps(fields).encode()
    if odd():
        body = draw.choice((b"", b"[" * 100_000, b"\xff\xfe", b"null", b"x" * 200_000, body[:-1]))
    lines = [f"{method} {target} HTTP/1.{draw.choice((0, 1)) if odd() else 1}"]
    lines.append(f"Host: {'@HOST@' if not odd() else draw.choice(('evil', '', '0.0.0.0:@PORT@'))}")
    if not odd():
        lines.append(draw.choice(("Authorization: Bearer @TOKEN@", "Cookie: @COOKIE@")))
    if path == "/mcp":
        lines += ["Accept: application/json, text/event-stream", "MCP-Protocol-Version: 2025-06-18"]
    while odd():
        lines.append(draw.choice(HEADERS))
    if body:
        lines.append(f"Content-Type: {draw.choice(MEDIA) if odd() else media}")
        if odd():
            lines.append("Transfer-Encoding: chunked")
            body = b"%x\r\n%s\r\n" % (len(body), body) + (b"" if odd() else b"0\r\n\r\n")
        else:
            lines.append("Content-Length: @LENGTH@")
    return "\r\n".join((*lines, "", "")).encode("utf-8", "replace") + body


def _protocol(draw: random.Random) -> object:
    """A message of the Model Context Protocol."""
    tool = draw.choice(TOOLS)
    fields = {name: draw.choice(FIELDS[name]) for name in ("question", "query", "document", "k")}
    method, given = draw.choice(
        (
            ("tools/call", {"name": tool, "arguments": fields}),
            ("tools/list", {}),
            ("resources/list", {}),
            ("resources/read", {"uri": draw.choice(("localrag://x", "file:///etc/passwd", "x"))}),
            ("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}}),
            ("no", None),
        )
    )
    return {"jsonrpc": "2.0", "id": draw.choice((1, "x", None)), "method": method, "params": given}


_ROUTES: list[tuple[str, str]] = []


class Errors(logging.Handler):
    """What the server logs as an error: a traceback, which nobody may cause from outside."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        error = record.exc_info[1] if record.exc_info else None
        self.said.append(f"{record.getMessage().strip()} {type(error).__name__}: {error}")


class Target:
    """The running server, and what is known of it."""

    def __init__(self, folder: Path, held: ExitStack) -> None:
        sys.path.append(str(TESTS))
        from server.conftest import TOKEN, Writing, serving

        from localrag.server.access import Access
        from localrag.server.views import View, Views

        _ROUTES[:] = _routes()
        place = folder / "a-place-of-this-machine" / "garden"
        llm = Writing()
        llm.pause = 0.0
        llm._next = lambda *_: "orchids"  # type: ignore[method-assign]
        self.served = held.enter_context(serving(place, llm))
        self.errors = Errors()
        logging.getLogger().addHandler(self.errors)
        document = self.served.engine.library.documents()[0].id
        access = Access(TOKEN, self.served.port)
        key = Views(TOKEN, "").key(View("garden", document, 0, 5))
        self.known = {
            b"@HOST@": f"127.0.0.1:{self.served.port}",
            b"@PORT@": str(self.served.port),
            b"@TOKEN@": TOKEN,
            b"@COOKIE@": f"{access.cookie}={access.session}",
            b"@DOCUMENT@": document,
            b"@LIBRARY@": "garden",
            b"@KEY@": key,
        }
        self.secrets = [TOKEN.encode(), access.session.encode()]
        self.paths = [str(folder).encode(), b"a-place-of-this-machine", b"site-packages"]
        self.count = self.held = 0

    def replaced(self, data: bytes) -> bytes:
        """A request with what this server knows."""
        for name, value in self.known.items():
            data = data.replace(name, value.encode())
        _, _, body = data.partition(b"\r\n\r\n")
        return data.replace(b"@LENGTH@", b"%d" % len(body))

    def answers(self, data: bytes, whole: bool) -> Iterator[tuple[int, bytes, bytes]]:
        """Status, head and body of each answer."""
        got = self._sent(data, whole)
        while got.startswith(b"HTTP/1.1 "):
            head, _, rest = got.partition(b"\r\n\r\n")
            length = re.search(rb"(?i)\ncontent-length: (\d+)", head)
            size = int(length[1]) if length else len(rest)
            if data.startswith(b"HEAD") or head[9:10] == b"1":
                size = 0
            yield int(head[9:12]), head + b"\r\n", rest[:size]
            got = rest[size:]

    def _sent(self, data: bytes, whole: bool) -> bytes:
        """What comes back until the server is through with it."""
        got, end = b"", time.monotonic() + PATIENCE
        with socket.create_connection(("127.0.0.1", self.served.port), timeout=SILENCE) as raw:
            with suppress(OSError):
                raw.sendall(data)
            while time.monotonic() < end:
                try:
                    piece = raw.recv(1 << 16)
                except TimeoutError:
                    if not whole:
                        break
                    continue
                except OSError:
                    break
                if not piece:
                    break
                got += piece
                if _is_complete(got, data):
                    break
            else:
                raise AssertionError("no whole answer came to a whole request")
        return got


def _is_complete(got: bytes, data: bytes) -> bool:
    head, found, rest = got.partition(b"\r\n\r\n")
    if not found:
        return False
    if head[9:10] == b"1":
        return _is_complete(rest, data)
    length = re.search(rb"(?i)\ncontent-length: (\d+)", head)
    if length:
        return len(rest) >= int(length[1]) or data.startswith(b"HEAD")
    endless = data.startswith(b"GET") and b"text/event-stream" in head
    bodiless = data.startswith(b"HEAD") or head[9:12] in (b"204", b"304")
    return endless or bodiless or rest.endswith(b"0\r\n\r\n")


_running: dict[Path, Target] = {}
_held = ExitStack()


def read_request(folder: Path, draw: random.Random, data: bytes) -> str:
    """Send one request, and look at what comes of it; its status."""
    _take_limit_off()
    target = _running.get(folder)
    if target is None:
        target = _running[folder] = Target(folder, _held)
    grammar = draw.random() < 0.7
    template = built(draw) if grammar else data
    # Only of what is built it is known that all of it was sent.
    whole = grammar and b"Expect" not in template and b"chunked" not in template
    whole = whole and template.count(b"Content-Length") < 2 and b"Upgrade" not in template
    try:
        return _judged(target, template, whole)
    except AssertionError as error:
        raise AssertionError(f"{error} after {template[:400]!r}") from error


def _take_limit_off() -> None:
    """A limit of address space is none of memory where threads reserve it: that is looked at."""
    if sys.platform == "linux":
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def _judged(target: Target, template: bytes, whole: bool) -> str:
    data = target.replaced(template)
    sent_secret = any(
        secret in target.replaced(LETTING_IN.sub(b"", template)) for secret in target.secrets
    )
    told: list[str] = []
    for status, head, body in target.answers(data, whole):
        told.append(str(status))
        _expect(status < 500, f"status {status} {body[:200]!r}")
        if status < 200:
            continue
        lower = head.lower()
        _expect(b"default-src 'none'" in lower and b"nosniff" in lower, f"bare headers {head!r}")
        _expect(b"access-control" not in lower, "a header for other origins")
        plain = re.sub(rb"(?i)set-cookie: [^\r]*", b"", head) + body
        _expect(sent_secret or not any(one in plain for one in target.secrets), "a secret is told")
        found = [one for one in target.paths if one in plain and one not in data]
        _expect(not found, f"a path is told: {found}")
        _expect(b"Traceback" not in body and b'File "' not in body, "a traceback is told")
        if b"@" not in template and status < 300:
            route = template.split(b" ")[1:2]
            _expect(
                not route or route[0].startswith(tuple(o.encode() for o in OPEN)), "told to all"
            )
    if target.errors.said:
        said, target.errors.said[:] = target.errors.said[0], []
        raise AssertionError(f"in the log: {said}")
    target.count += 1
    alive = [one[0] for one in target.answers(target.replaced(ALIVE), whole=True)]
    _expect(alive == [200], f"a search is answered by {alive}")
    if target.count % LOOKED == 0:
        import psutil

        now = psutil.Process().memory_info().rss
        if target.count <= WARM:
            target.held = now
        _expect(now - target.held < MOST_GROWTH, f"{now - target.held} bytes more are held")
    return " ".join(told[:3]) or "no answer"


def _expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise AssertionError(otherwise)


ALIVE = (
    b"POST /api/search HTTP/1.1\r\nHost: @HOST@\r\nAuthorization: Bearer @TOKEN@\r\n"
    b'Content-Type: application/json\r\nContent-Length: 22\r\n\r\n{"question":"orchids"}'
)
