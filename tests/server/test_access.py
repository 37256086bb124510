"""Who is answered: hosts, origins, tokens, cookies, and how much may be sent."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest
from server.conftest import TOKEN, Served

from localrag.errors import ConfigError
from localrag.server import access
from localrag.server.token import own_token

HEADER = {"authorization": f"Bearer {TOKEN}"}


def test_an_empty_page_and_health_need_no_token(served: Served) -> None:
    with served.client(authorization="") as client:
        assert client.get("/healthz").json()["status"] == "ok"
        assert client.get("/api/status").status_code == 401
        assert client.get("/api/status").headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(
    "given",
    ["", "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer 茶".encode()],
)
def test_a_wrong_token_is_refused(served: Served, given: str | bytes) -> None:
    with served.client() as client:
        assert client.get("/api/status", headers={"authorization": given}).status_code == 401


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"])
def test_names_of_this_machine_are_answered(served: Served, name: str) -> None:
    with served.client() as client:
        response = client.get("/api/status", headers={"host": f"{name}:{served.port}"})
    assert response.status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "evil.example:{port}",
        "0.0.0.0:{port}",
        "127.0.0.1",
        "localhost:1",
        "127.0.0.1:{port}.evil.example",
        "[::]:{port}",
        "127.0.0.2:{port}",
    ],
)
@pytest.mark.parametrize("path", ["/", "/healthz", "/api/status", "/static/x"])
def test_other_hosts_are_refused(served: Served, host: str, path: str) -> None:
    with served.client() as client:
        response = client.get(path, headers={"host": host.format(port=served.port)})
    assert response.status_code == 421


@pytest.mark.parametrize(
    "origin", ["null", "http://evil.example", "http://127.0.0.1:1", "https://127.0.0.1:{port}", ""]
)
def test_other_origins_are_refused_also_with_the_token(served: Served, origin: str) -> None:
    with served.client(origin=origin.format(port=served.port)) as client:
        assert client.get("/api/status").status_code == 403
    with served.client(origin=served.url) as client:
        assert client.get("/api/status").status_code == 200
    with served.client(**{"sec-fetch-site": "cross-site"}) as client:
        assert client.get("/api/status").status_code == 403


@pytest.mark.parametrize(
    ("method", "path", "english", "chinese"),
    [
        ("GET", "/nothing", "There is nothing at this address.", "该地址不存在。"),
        ("GET", "/static/nothing.js", "There is nothing at this address.", "该地址不存在。"),
        ("PUT", "/", "This address does not take this method.", "该地址不支持此请求方法。"),
        ("PUT", "/static/x", "This address does not take this method.", "该地址不支持此请求方法。"),
    ],
)
def test_what_is_not_there_is_refused_in_the_language_of_who_asks(
    served: Served, method: str, path: str, english: str, chinese: str
) -> None:
    with served.client() as client:
        for language, message in (("en", english), ("zh-CN,en", chinese)):
            response = client.request(method, path, headers={"accept-language": language})
            assert response.status_code == (405 if method == "PUT" else 404)
            assert response.json()["error"]["message"] == message


def test_two_hosts_or_none_are_refused(served: Served) -> None:
    good = f"Host: 127.0.0.1:{served.port}\r\n"
    for lines in (good + "Host: evil.example\r\n", good + good, ""):
        with socket.create_connection(("127.0.0.1", served.port), timeout=60) as raw:
            raw.sendall(f"GET /healthz HTTP/1.1\r\n{lines}\r\n".encode())
            assert raw.recv(100).split()[1] in (b"400", b"421")


def test_the_token_is_changed_for_a_cookie_that_no_script_reads(served: Served) -> None:
    with served.client() as client:
        response = client.post("/session")
        cookie = response.headers["set-cookie"]
    assert response.status_code == 204
    assert cookie.startswith(f"localrag-{served.port}=")
    assert TOKEN not in cookie
    assert {"httponly", "samesite=strict"} <= {part.strip().lower() for part in cookie.split(";")}
    name_value = cookie.split(";")[0]
    with served.client(authorization="") as client:
        assert client.get("/api/status", headers={"cookie": name_value}).status_code == 200
        other = name_value.replace(f"{served.port}", "1", 1)
        assert client.get("/api/status", headers={"cookie": other}).status_code == 401


def test_too_much_is_refused_before_it_is_read(served: Served) -> None:
    with served.client() as client:
        large = client.post("/v1/embeddings", content=b"x" * (access.LARGEST_BODY + 1))
        assert large.status_code == 413
        endless = client.post(
            "/v1/embeddings",
            content=(b"x" * 2**16 for _ in range(access.LARGEST_BODY // 2**16 + 2)),
            headers={"content-type": "application/json"},
        )
        assert endless.status_code == 413
        assert client.get("/api/status", headers={"x": "y" * 40_000}).status_code == 431
        assert client.get("/healthz").status_code == 200


def test_a_body_that_does_not_come_is_not_waited_for(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "SLOWEST_BODY", 0.2)
    head = (
        f"POST /v1/embeddings HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n"
        f"Authorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n"
        "Content-Length: 10\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as raw:
        raw.sendall(head.encode())
        assert raw.recv(100).split()[1] == b"408"


def test_every_response_says_what_a_page_may_do(served: Served) -> None:
    with served.client() as client:
        for response in (client.get("/api/status"), client.get("/healthz"), client.get("/nothing")):
            assert "default-src 'none'" in response.headers["content-security-policy"]
            assert response.headers["x-content-type-options"] == "nosniff"
            assert not any(name.startswith("access-control") for name in response.headers)
        assert client.options("/api/status").status_code == 405


def test_the_token_is_kept_for_this_user_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LOCALRAG_TOKEN", raising=False)
    place = tmp_path / "server" / "token"
    token = own_token(place)
    assert len(token) >= 40
    assert own_token(place) == token
    if os.name != "nt":
        assert stat.S_IMODE(place.stat().st_mode) == 0o600
        assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700
    monkeypatch.setenv("LOCALRAG_TOKEN", "chosen-by-a-script-itself")
    assert own_token(place) == "chosen-by-a-script-itself"
    for bad in ("short", "with spaces in the middle", "茶" * 30, "x" * 2000):
        monkeypatch.setenv("LOCALRAG_TOKEN", bad)
        with pytest.raises(ConfigError, match="LOCALRAG_TOKEN"):
            own_token(place)
