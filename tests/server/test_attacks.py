"""What is sent by hand to get in, to hold the server up, or to have it say more than it should."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from server.conftest import GARDEN, TOKEN, Served
from waiting import until

from localrag.server import access, listening
from localrag.server.access import Access
from localrag.server.views import View, Views

BEARER = f"Authorization: Bearer {TOKEN}\r\n"


@contextmanager
def connected(served: Served) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as raw:
        yield raw


def said(raw: socket.socket) -> bytes:
    """All that comes until the server closes."""
    data = b""
    while piece := raw.recv(1 << 16):
        data += piece
    return data


def answer(served: Served, text: str | bytes) -> tuple[int, bytes]:
    """Status and all of the answer to what is sent as it stands; `@HOST@` is the right one."""
    data = text.encode("latin-1") if isinstance(text, str) else text
    with connected(served) as raw:
        raw.sendall(data.replace(b"@HOST@", f"127.0.0.1:{served.port}".encode()))
        response = said(raw)
    return int(response.split(None, 2)[1]), response


CLOSE = "Connection: close\r\n"


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        ("GET /healthz HTTP/1.0\r\n\r\n", 421),
        (f"GET /healthz HTTP/1.1\r\n{CLOSE}\r\n", 400),
        (f"GET http://@HOST@/api/status HTTP/1.1\r\nHost: evil.example\r\n{CLOSE}\r\n", 421),
        (f"GET http://@HOST@/api/status HTTP/1.1\r\nHost: @HOST@\r\n{CLOSE}\r\n", 401),
        (f"GET http://@HOST@/api/status HTTP/1.1\r\nHost: @HOST@\r\n{CLOSE}{BEARER}\r\n", 404),
        (f"GET //evil.example/ HTTP/1.1\r\nHost: @HOST@\r\n{CLOSE}{BEARER}\r\n", 404),
        (f"GET /api/status/ HTTP/1.1\r\nHost: @HOST@\r\n{CLOSE}{BEARER}\r\n", 404),
        (f"CONNECT evil.example:443 HTTP/1.1\r\nHost: @HOST@\r\n{CLOSE}{BEARER}\r\n", 404),
        (f"TRACE /api/status HTTP/1.1\r\nHost: @HOST@\r\n{CLOSE}{BEARER}\r\n", 405),
        (f"OPTIONS /api/status HTTP/1.1\r\nHost: @HOST@\r\n{CLOSE}Origin: null\r\n\r\n", 403),
        (f"GET /api/status?token={TOKEN} HTTP/1.1\r\nHost: @HOST@\r\n{CLOSE}\r\n", 401),
        (f"GET /api/status?access_token={TOKEN} HTTP/1.1\r\nHost: @HOST@\r\n{CLOSE}\r\n", 401),
        (f"GET /api/status HTTP/1.1\r\nHost: @HOST@\r\n{CLOSE}Cookie: token={TOKEN}\r\n\r\n", 401),
        # A method that another header names is not the method.
        (
            f"POST /api/search HTTP/1.1\r\nHost: @HOST@\r\n{CLOSE}X-HTTP-Method-Override: GET\r\n"
            "Content-Length: 0\r\n\r\n",
            401,
        ),
        # There are no WebSockets, also not for who has the token.
        (
            f"GET /api/ask HTTP/1.1\r\nHost: @HOST@\r\nConnection: Upgrade, close\r\n{BEARER}"
            "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eA==\r\n\r\n",
            405,
        ),
        # Who could be understood in two ways is not understood.
        (
            f"POST /api/search HTTP/1.1\r\nHost: @HOST@\r\n{BEARER}Content-Length: 2\r\n"
            "Content-Length: 3\r\n\r\n{}",
            400,
        ),
        (
            f"POST /api/search HTTP/1.1\r\nHost: @HOST@\r\n{CLOSE}{BEARER}Content-Length: 2\r\n"
            "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            400,
        ),
        (f"GET /healthz HTTP/1.1\r\nHost: @HOST@\r\nContent-Length: {'9' * 5000}\r\n\r\n", 400),
        ("GET /healthz HTTP/1.1\r\nHost: @HOST@\r\nX : y\r\n\r\n", 400),
        (f"GET / HTTP/1.1\r\nHost: @HOST@\r\n{CLOSE}X: {'y' * 40_000}\r\n\r\n", 431),
        (f"GET / HTTP/1.1\r\nHost: @HOST@\r\nX: {'y' * 100_000}", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 300 + b"\r\n\r\n", 400),
    ],
)
def test_odd_requests_are_refused_with_all_headers(
    served: Served, request_: str | bytes, status: int
) -> None:
    code, response = answer(served, request_)
    assert code == status
    head = response.partition(b"\r\n\r\n")[0].lower()
    assert b"default-src 'none'" in head
    assert b"nosniff" in head
    assert b"access-control" not in head
    assert b"location:" not in head
    assert TOKEN.encode() not in response


@pytest.mark.parametrize("head", ["", "Origin: http://evil.example\r\n"])
def test_who_is_refused_is_answered_before_the_body(served: Served, head: str) -> None:
    """The body never comes: whoever waited for it would not answer."""
    with connected(served) as raw:
        raw.sendall(
            f"POST /api/documents?name=a.txt HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n{head}"
            "Content-Type: application/octet-stream\r\nContent-Length: 1000000\r\n\r\n".encode()
        )
        assert int(said(raw).split(None, 2)[1]) == (403 if head else 401)


@pytest.mark.parametrize(
    "path",
    [
        *(
            "../rest.py",
            "..%2frest.py",
            "%2e%2e/rest.py",
            "..%5crest.py",
            "..\\rest.py",
            "/etc/passwd",
        ),
        *("%00", "app.js%00", "a" * 3000, "%ff", "", ".", "../static", "../../pyproject.toml"),
    ],
)
def test_nothing_beside_the_static_files_is_served(served: Served, path: str) -> None:
    raw = path.encode("utf-8", "replace")
    status, response = answer(
        served, b"GET /static/" + raw + b" HTTP/1.1\r\nHost: @HOST@\r\nConnection: close\r\n\r\n"
    )
    assert status in (400, 404)
    assert b"import " not in response


@pytest.mark.parametrize(
    "media", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
@pytest.mark.parametrize("path", ["/api/search", "/v1/embeddings", "/api/documents"])
def test_nothing_that_a_form_can_send_is_taken(served: Served, path: str, media: str) -> None:
    with served.client() as client:
        headers = {"content-type": media} if media else {}
        response = client.post(path, content=b'{"question": "x"}', headers=headers)
        assert response.status_code == 400
        assert served.engine.library.counts().documents == 2


def test_a_body_where_none_belongs_changes_nothing(served: Served) -> None:
    with served.client() as client:
        response = client.request("GET", "/api/status", content=b"x" * 1000)
        assert response.status_code == 200
        assert client.get("/healthz").status_code == 200


def test_whoever_sends_no_request_is_cut_off(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "SLOWEST_HEAD", 0.5)
    host = f"Host: 127.0.0.1:{served.port}\r\n"
    for beginning in ("", "GET /healthz HTTP/1.1\r\n", f"GET /healthz HTTP/1.1\r\n{host}"):
        # Cut off amid what is sent, where this machine is slow.
        with connected(served) as raw, suppress(ConnectionError):
            for _ in range(3):  # drop by drop, which does not prolong it
                raw.sendall(beginning[:1].encode())
                beginning = beginning[1:]
                time.sleep(0.1)
            raw.sendall(beginning.encode())
            assert said(raw) == b""


def test_the_rest_of_a_body_that_nobody_wants_is_not_waited_for(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "SLOWEST_HEAD", 0.5)
    with connected(served) as raw:
        head = f"POST /no HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n{BEARER}"
        raw.sendall(f"{head}Content-Length: 1000\r\n\r\nx".encode())
        assert raw.recv(100).split()[1] == b"404"
        said(raw)  # ends


def test_a_body_that_trickles_is_not_waited_for(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "SLOWEST_BODY", 0.5)
    with connected(served) as raw:
        raw.sendall(
            f"POST /api/search HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n{BEARER}"
            "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n".encode()
        )
        raw.settimeout(0.1)
        for _ in range(600):
            raw.sendall(b" ")
            try:
                response = raw.recv(100)
                break
            except TimeoutError:
                continue
        assert response.split()[1] == b"408"


def test_the_protocol_of_assistants_has_the_same_bounds(served: Served) -> None:
    with served.client(accept="application/json, text/event-stream") as client:
        pieces = (b" " * 2**16 for _ in range(access.LARGEST_BODY // 2**16 + 2))
        headers = {"content-type": "application/json"}
        assert client.post("/mcp", content=pieces, headers=headers).status_code == 413
        for media in ("text/plain", "application/x-www-form-urlencoded"):
            response = client.post("/mcp", content=b"{}", headers={"content-type": media})
            assert 400 <= response.status_code < 500


def test_connections_beyond_a_number_are_closed(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "MOST_CONNECTIONS", 5)
    raws = [socket.create_connection(("127.0.0.1", served.port), timeout=60) for _ in range(8)]

    def closed() -> int:
        return sum(raw.recv(1) == b"" for raw in select.select(raws, [], [], 0.1)[0])

    until(lambda: closed() >= 3)
    assert closed() == 3
    for raw in raws:
        raw.close()
    with served.client() as client:
        assert client.get("/healthz").status_code == 200


def test_a_client_that_leaves_amid_its_body_leaves_nothing_in_the_log(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    head = f"POST /api/search HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n{BEARER}"
    head += "Content-Type: application/json\r\n"
    for rest in ("Content-Length: 10\r\n\r\n{", "Transfer-Encoding: chunked\r\n\r\nno number\r\n"):
        for path in ("/api/search", "/mcp"):
            with connected(served) as raw:
                raw.sendall((head.replace("/api/search", path) + rest).encode())
                time.sleep(0.1)
    with served.client() as client:
        assert client.get("/healthz").status_code == 200
    assert not [record for record in caplog.records if record.exc_info]


def test_a_cookie_is_for_one_port(served: Served) -> None:
    own_access, other = Access(TOKEN, served.port), Access(TOKEN, served.port + 1)
    with served.client(authorization="") as client:
        for name, value, status in (
            (own_access.cookie, own_access.session, 200),
            (own_access.cookie, other.session, 401),
            (other.cookie, other.session, 401),
            (other.cookie, own_access.session, 401),
        ):
            response = client.get("/api/status", headers={"cookie": f"{name}={value}"})
            assert response.status_code == status


def test_the_key_of_a_view_opens_that_view_alone(served: Served) -> None:
    document, other = served.engine.library.documents()
    view = View("garden", document.id, 0, 5)
    fields = {"library": "garden", "document": document.id, "start": "0", "end": "5"}
    fields["key"] = Views(TOKEN, "").key(view)
    with served.client(authorization="") as client:
        assert client.get("/api/view", params=fields).status_code == 200
        for name, value in {
            "document": other.id,
            "library": "",
            "start": "1",
            "end": "6",
            "key": fields["key"][:-1],
            "more": "1",
        }.items():
            assert client.get("/api/view", params=fields | {name: value}).status_code == 401
        # Who checks and who opens must read the same: no value twice, none that is left out.
        for twice in ("library=", f"document={other.id}", "document=", "end=9"):
            query = "&".join(f"{name}={value}" for name, value in fields.items())
            assert client.get(f"/api/view?{query}&{twice}").status_code == 401
            assert client.get(f"/api/view?{twice}&{query}").status_code == 401
        for path in ("/api/status", "/api/documents", "/v1/models", "/metrics", "/mcp"):
            assert client.get(path, params=fields).status_code == 401
        key = {"authorization": f"Bearer {fields['key']}"}
        for path in ("/api/search", "/api/ask", "/api/view"):
            response = client.post(path, params=fields, json={"question": GARDEN}, headers=key)
            assert response.status_code == 401


def test_the_source_is_all_that_runs(served: Served) -> None:
    import io
    import zipfile

    import localrag

    with served.client(authorization="") as client:
        archive = zipfile.ZipFile(io.BytesIO(client.get("/source").content))
    names = set(archive.namelist())
    package = Path(localrag.__file__).parent
    running = {
        path.relative_to(package.parent).as_posix()
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert names >= running
    assert "localrag/server/static/app.js" in names
    assert "LICENSE" in names
    for path in ("server/access.py", "server/static/app.js"):
        assert archive.read(f"localrag/{path}") == (package / path).read_bytes()
