"""The door: each test in a process of its own, because an audit hook cannot be removed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from localrag import network

PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
PRELUDE = """
import json, os, socket, sys
from localrag import network
from localrag.errors import NetworkBlockedError
network.close_doors()
"""


def run(code: str, **environment: str) -> str:
    clean = {key: value for key, value in os.environ.items() if key not in PROXIES}
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + code],
        capture_output=True,
        text=True,
        timeout=60,
        env=clean | {"PYTHONPATH": str(Path(__file__).parents[1])} | environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "call",
    [
        'socket.create_connection(("example.com", 80))',
        'socket.getaddrinfo("example.com", 80)',
        'socket.gethostbyname("example.com")',
        'socket.gethostbyaddr("192.0.2.1")',
        'socket.getnameinfo(("192.0.2.1", 80), 0)',
        'socket.socket().connect(("192.0.2.1", 80))',
        'socket.socket().connect_ex(("192.0.2.1", 80))',
        'socket.socket(socket.AF_INET6).connect(("2001:db8::1", 80))',
        'socket.socket(type=socket.SOCK_DGRAM).sendto(b"x", ("192.0.2.1", 53))',
        'socket.socket(type=socket.SOCK_DGRAM).sendmsg([b"x"], [], 0, ("192.0.2.1", 53))',
        'socket.getaddrinfo("127.0.0.1.example.com", 80)',
        '__import__("urllib.request").request.urlopen("http://192.0.2.1/")',
    ],
)
def test_nothing_leaves(call: str) -> None:
    if "sendmsg" in call and sys.platform == "win32":
        pytest.skip("only on systems with sendmsg")
    output = run(
        f"""
try:
    {call}
except OSError as error:
    text = str(error)
print(len(network.attempts()), network.attempts()[0].host in text)
"""
    )
    assert output.split() == ["1", "True"]


def test_the_calling_library_is_named() -> None:
    output = run(
        """
import httpx
try:
    httpx.get("http://example.com/", trust_env=False)
except (httpx.HTTPError, NetworkBlockedError):
    pass
print(network.attempts()[0].caller)
"""
    )
    assert output.strip() == "httpx > httpcore"


def test_loopback_and_unix_sockets_work(tmp_path: Path) -> None:
    output = run(
        f"""
server = socket.create_server(("127.0.0.1", 0))
for host in ("127.0.0.1", "localhost"):
    socket.create_connection((host, server.getsockname()[1])).close()
if hasattr(socket, "AF_UNIX"):
    path = {str(tmp_path / "s")!r}
    listener = socket.socket(socket.AF_UNIX); listener.bind(path); listener.listen()
    socket.socket(socket.AF_UNIX).connect(path)
print(len(network.attempts()))
"""
    )
    assert output.strip() == "0"


def test_allow_opens_for_named_hosts_only_and_closes_again() -> None:
    output = run(
        """
import socket as module
# A resolver of our own, so that the test needs no network: names -> TEST-NET-1 addresses.
def resolve(host, port, *rest, **more):
    sys.audit("socket.getaddrinfo", host, port, 0, 0, 0)
    return [(module.AF_INET, module.SOCK_STREAM, 6, "", ("192.0.2.7", port))]
module.getaddrinfo = resolve

def attempt(action):
    try:
        action()
    except NetworkBlockedError:
        return "blocked"
    except OSError:
        return "tried"
    return "done"

def connect(host):
    s = socket.socket(); s.setblocking(False)
    return attempt(lambda: s.connect((host, 9)))

seen = [attempt(lambda: socket.getaddrinfo("a.test", 1))]
with network.allow({"A.test."}):
    seen.append(connect("192.0.2.7"))
    seen.append(attempt(lambda: socket.getaddrinfo("a.test", 1)))
    seen.append(connect("192.0.2.7") != "blocked")
    seen.append(connect("192.0.2.8"))
    with network.allow(["b.test"]):
        seen.append(attempt(lambda: socket.getaddrinfo("b.test", 1)))
        seen.append(attempt(lambda: socket.getaddrinfo("a.test", 1)))
    seen.append(attempt(lambda: socket.getaddrinfo("b.test", 1)))
seen.append(attempt(lambda: socket.getaddrinfo("a.test", 1)))
seen.append(connect("192.0.2.7"))
print(json.dumps(seen))
"""
    )
    assert json.loads(output) == [
        "blocked",
        "blocked",
        "done",
        True,
        "blocked",
        "done",
        "done",
        "blocked",
        "blocked",
        "blocked",
    ]


def test_one_thread_closing_its_door_leaves_the_others_open() -> None:
    output = run(
        """
import threading
inside, leave = threading.Event(), threading.Event()
def hold():
    with network.allow({"192.0.2.7"}):
        inside.set(); leave.wait()
thread = threading.Thread(target=hold); thread.start(); inside.wait()
with network.allow({"192.0.2.9"}):
    pass
s = socket.socket(); s.setblocking(False)
try:
    s.connect(("192.0.2.7", 9))
except NetworkBlockedError:
    print("blocked")
except OSError:
    print("tried")
leave.set(); thread.join()
"""
    )
    assert output.strip() == "tried"


def test_the_proxy_is_let_through_where_a_host_is_allowed() -> None:
    output = run(
        """
def reach():
    s = socket.socket(); s.setblocking(False)
    try:
        s.connect(("192.0.2.5", 3128))
    except NetworkBlockedError:
        return "blocked"
    except OSError:
        return "tried"
print(reach())
with network.allow({"a.test"}):
    print(reach())
""",
        HTTPS_PROXY="http://user:word@192.0.2.5:3128",
    )
    assert output.split() == ["blocked", "tried"]


def test_libraries_are_told_to_stay_offline() -> None:
    output = run(
        """
for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "DO_NOT_TRACK"):
    print(os.environ[name])
""",
        HF_HUB_OFFLINE="0",
    )
    assert output.split() == ["1", "1", "1"]


def test_closing_the_doors_costs_nearly_nothing() -> None:
    output = run(
        """
import time
network.close_doors()
start = time.perf_counter()
for _ in range(10_000):
    sys.audit("open", "x", "r", 0)
print((time.perf_counter() - start) / 10_000 * 1e6)
print([name for name in ("ssl", "httpx", "http.client", "urllib.request") if name in sys.modules])
"""
    )
    microseconds, loaded = output.splitlines()
    assert float(microseconds) < 20
    assert loaded == "[]"


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST.",
        "a.localhost",
        "127.0.0.1",
        "127.9.8.7",
        "::1",
        "[::1]",
        "::ffff:127.0.0.1",
    ],
)
def test_loopback(host: str) -> None:
    assert network.is_loopback(host)


@pytest.mark.parametrize(
    "host",
    [
        "",
        "example.com",
        "localhost.example.com",
        "127.0.0.1.example.com",
        "0.0.0.0",
        "10.0.0.1",
        "::",
        "2130706433",
    ],
)
def test_not_loopback(host: str) -> None:
    assert not network.is_loopback(host)


def test_allow_is_harmless_without_the_guard() -> None:
    with network.allow({"example.com"}), network.allow(()):
        pass


def test_an_unreadable_certificate_is_named(tmp_path: Path) -> None:
    from localrag.errors import ConfigError

    with pytest.raises(ConfigError, match=r"missing\.pem"):
        network.client(certificate=str(tmp_path / "missing.pem"))


def test_libraries_are_told_not_to_report_before_they_are_loaded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("ORT_DISABLE_TELEMETRY", "HF_HUB_OFFLINE", "DO_NOT_TRACK"):
        monkeypatch.delenv(name, raising=False)
    network.quieten()
    assert os.environ["ORT_DISABLE_TELEMETRY"] == os.environ["DO_NOT_TRACK"] == "1"
    # A program that uses the Python API may want the hub for something else.
    assert "HF_HUB_OFFLINE" not in os.environ
    for name in ("ORT_DISABLE_TELEMETRY", "DO_NOT_TRACK"):
        monkeypatch.delenv(name, raising=False)
    from localrag.embeddings.runtime import open_session
    from localrag.errors import ModelError

    with pytest.raises(ModelError):
        open_session(tmp_path / "none.onnx")
    assert os.environ["ORT_DISABLE_TELEMETRY"] == "1"
    monkeypatch.delenv("ORT_DISABLE_TELEMETRY")
    from localrag.errors import ParsingError
    from localrag.parsing import parse_file

    (tmp_path / "none.pdf").write_bytes(b"%PDF-")
    with pytest.raises(ParsingError):  # PyMuPDF imports ONNX Runtime
        parse_file(tmp_path / "none.pdf")
    assert os.environ["ORT_DISABLE_TELEMETRY"] == "1"


def test_an_attempt_says_where_it_comes_from(tmp_path: Path) -> None:
    (tmp_path / "plugin.py").write_text(
        "import socket\ndef leak():\n    socket.getaddrinfo('a.invalid', 1)\n"
    )
    printed = run(
        f"""
sys.path.insert(0, {str(tmp_path)!r})
import plugin
try:
    plugin.leak()
except OSError:
    print(network.attempts()[0].origin)
"""
    )
    assert printed.strip() == f"plugin.leak ({tmp_path / 'plugin.py'}:3)"


def test_what_was_allowed_is_known_too() -> None:
    printed = run(
        """
with network.allow({"192.0.2.7"}):
    sock = socket.socket()
    sock.settimeout(0.05)
    try:
        sock.connect(("192.0.2.7", 9))
    except OSError:
        pass
print([one.host for one in network.let_through()], network.attempts())
"""
    )
    assert printed.strip() == "['192.0.2.7'] ()"
