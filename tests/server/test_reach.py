"""Where the server listens: other machines only over TLS, by the names that were stated."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from server.conftest import TOKEN

from localrag.errors import UsageError
from localrag.server.access import Access
from localrag.server.app import make_app
from localrag.server.libraries import Libraries
from localrag.server.listening import bind, in_thread
from localrag.server.reach import Reach, reach

OPENSSL = shutil.which("openssl")
Made = Callable[..., tuple[Path, Path]]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """A certificate that nobody but itself signed, and its key."""
    if OPENSSL is None:
        pytest.skip("only where OpenSSL has its command line")

    def make(names: str = "DNS:studio.example,IP:127.0.0.1", *more: str) -> tuple[Path, Path]:
        certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
        command = [OPENSSL, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
        command += ["-subj", "/CN=studio", "-out", str(certificate), "-keyout", str(key)]
        command += ["-addext", f"subjectAltName={names}"] if names else []
        more = more or ("-nodes",)
        subprocess.run([*command, *more], check=True, capture_output=True)
        return certificate, key

    return make


@contextmanager
def served(reached: Reach, tmp_path: Path) -> Iterator[Access]:
    """A server as `localrag serve` starts it; no route that is asked needs its library."""
    listening = bind(reached.host, 0)
    port = listening.getsockname()[1]
    secure = reached.tls is not None
    access = Access(TOKEN, port, names=reached.names, tls=secure, proxy=reached.proxy)

    def opened(_: Path) -> None:
        raise AssertionError("no route needs a library")

    app = make_app(Libraries([tmp_path], opened), access)  # type: ignore[arg-type]
    with in_thread(app, listening, reached.tls):
        yield access


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "192.168.1.5", "10.0.0.1", "fe80::1", "2001:db8::1"]
)
def test_other_machines_are_served_over_tls_alone(host: str) -> None:
    with pytest.raises(UsageError, match="could read along") as error:
        reach(host, None, None, None)
    assert "--behind-proxy" in error.value.hint
    with pytest.raises(UsageError, match="on this machine only"):
        reach(host, None, None, "https://studio.example")


@pytest.mark.parametrize(
    "host", ["", "studio.example", "127.1", "0", "fe80::1%eth0", "127.0.0.1:1"]
)
def test_what_is_no_address_is_refused(host: str) -> None:
    with pytest.raises(UsageError, match="is not an IP address"):
        reach(host, None, None, None)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.0.0.2"])
def test_this_machine_needs_neither(host: str) -> None:
    reached = reach(host, None, None, None)
    assert (reached.names, reached.tls, reached.proxy) == ((), None, "")


@pytest.mark.parametrize(
    "url",
    [
        *("", "studio.example", "http://studio.example", "https://", "https://studio.example/rag"),
        *("https://a@studio.example", "https://studio.example?x", "https://studio.example:x"),
        *("https://*.example", "https://a,https://b", "https://茶.example", "https://[::1"),
    ],
)
def test_an_odd_proxy_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="is not the address of a reverse proxy"):
        reach("127.0.0.1", None, None, url)


def test_certificate_and_key_come_together(made: Made, tmp_path: Path) -> None:
    certificate, key = made()
    for certificate_file, key_file in ((certificate, None), (None, key)):
        with pytest.raises(UsageError, match="belong together"):
            reach("0.0.0.0", certificate_file, key_file, None)
    with pytest.raises(UsageError, match="on this machine only"):
        reach("127.0.0.1", certificate, key, "https://studio.example")
    with pytest.raises(UsageError, match="No such file"):
        reach("0.0.0.0", tmp_path / "none", key, None)


def test_a_certificate_that_does_not_serve_is_named(made: Made, tmp_path: Path) -> None:
    certificate, key = made()
    other = tmp_path / "other.pem"
    key.rename(other)
    certificate, key = made()
    with pytest.raises(UsageError, match="key values mismatch"):
        reach("0.0.0.0", certificate, other, None)
    with pytest.raises(UsageError, match="names no host"):
        reach("0.0.0.0", *made("DNS:*.example"), None)
    with pytest.raises(UsageError, match="names no host"):
        reach("::", *made(""), None)
    with pytest.raises(UsageError, match="is encrypted"):
        reach("0.0.0.0", *made("DNS:a.example", "-passout", "pass:secret"), None)
    client = made("DNS:a.example", "-nodes", "-addext", "extendedKeyUsage=clientAuth")
    with pytest.raises(UsageError, match="No client takes the certificate"):
        reach("0.0.0.0", *client, None)


def test_the_names_of_the_certificate_are_the_servers(made: Made) -> None:
    files = made("DNS:localhost,DNS:Studio.example,DNS:*.lan,IP:::1,IP:2001:db8::7")
    assert reach("0.0.0.0", *files, None).names == (
        *("studio.example", "[2001:db8::7]"),
        *("localhost", "[::1]"),
    )
    assert "192.168.1.5" in reach("192.168.1.5", *files, None).names


def test_a_server_with_tls(made: Made, tmp_path: Path) -> None:
    certificate, key = made()
    with served(reach("127.0.0.1", certificate, key, None), tmp_path) as access:
        assert access.origins[0] == f"https://studio.example:{access.port}"
        url = f"https://127.0.0.1:{access.port}"
        trusting = ssl.create_default_context(cafile=str(certificate))
        with httpx.Client(verify=trusting, trust_env=False, base_url=url) as client:
            assert client.get("/healthz").json()["status"] == "ok"
            headers = {"host": f"STUDIO.example:{access.port}"}
            assert client.get("/", headers=headers).status_code == 200
            for host in ("studio.example", f"evil.example:{access.port}", "studio.example:443"):
                assert client.get("/", headers={"host": host}).status_code == 421
            bearer = {"authorization": f"Bearer {TOKEN}"}
            for origin in (access.origins[0], url):
                assert client.post("/session", headers=bearer | {"origin": origin}).is_success
            http = {"origin": url.replace("https", "http")}
            assert client.post("/session", headers=bearer | http).status_code == 403
            client.cookies.clear()
            assert client.post("/session").status_code == 401
            cookie = client.post("/session", headers=bearer).headers["set-cookie"]
        assert "secure" in cookie.lower().split("; ")
        untrusting = httpx.Client(trust_env=False, base_url=url)
        with untrusting, pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            untrusting.get("/healthz")
        with socket.create_connection(("127.0.0.1", access.port), timeout=60) as plain:
            plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: studio.example\r\n\r\n")
            assert b"localrag" not in plain.recv(1000), "no answer in the clear"


def test_behind_a_proxy_its_name_is_the_only_one(tmp_path: Path) -> None:
    reached = reach("127.0.0.1", None, None, "https://Rag.example/")
    with served(reached, tmp_path) as access:
        url = f"http://127.0.0.1:{access.port}"
        bearer = {"authorization": f"Bearer {TOKEN}"}
        with httpx.Client(trust_env=False, base_url=url) as client:
            assert client.get("/healthz").status_code == 421
            for host in ("rag.example", "RAG.example:443"):
                assert client.get("/healthz", headers={"host": host}).status_code == 200
            # What a proxy, or who gets past it, says of the client is not believed.
            forwarded = {
                "x-forwarded-host": "rag.example",
                "forwarded": "host=rag.example;proto=https;for=127.0.0.1",
                "x-forwarded-for": "127.0.0.1",
            }
            assert client.get("/healthz", headers=forwarded).status_code == 421
            headers = {"host": "rag.example", **bearer}
            origins = {"https://rag.example": 204, "http://rag.example": 403, url: 403}
            for origin, status in origins.items():
                response = client.post("/session", headers=headers | {"origin": origin})
                assert response.status_code == status
            cookie = client.post("/session", headers=headers).headers["set-cookie"]
            assert "secure" in cookie.lower().split("; ")
            assert client.get("/metrics", headers=headers).status_code == 403
    assert reach("::1", None, None, "https://rag.example:8443").proxy == "https://rag.example:8443"


@pytest.mark.skipif(not socket.has_ipv6, reason="only where there is IPv6")
def test_the_loopback_of_ipv6(tmp_path: Path) -> None:
    try:
        reached = reach("::1", None, None, None)
        bind("::1", 0).close()
    except UsageError:
        pytest.skip("only where ::1 is there")
    with served(reached, tmp_path) as access:
        url = f"http://[::1]:{access.port}"
        assert httpx.get(f"{url}/healthz", trust_env=False).status_code == 200
        other = {"host": f"[::]:{access.port}"}
        assert httpx.get(f"{url}/healthz", trust_env=False, headers=other).status_code == 421
        fields = {"authorization": f"Bearer {TOKEN}"}
        assert httpx.get(f"{url}/metrics", trust_env=False, headers=fields).status_code == 200


def test_an_error_is_said_in_both_languages() -> None:
    from localrag.messages import spoken

    with pytest.raises(UsageError) as error:
        reach("0.0.0.0", None, None, None)
    assert "窃听" in spoken(error.value, "zh")
    assert "--behind-proxy" in spoken(error.value, "zh")
    assert "read along" in spoken(error.value, "en")
