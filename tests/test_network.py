"""The door: each test in a process of its own, because an audit hook cannot be removed."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from http_server import Exchange, serving

from localrag.egress import clients, network
from localrag.egress.addresses import is_loopback

PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
PRELUDE = """
import json, os, socket, sys, urllib.parse
from localrag.egress import network, proxies
from localrag.errors import NetworkBlockedError
network.close_doors()
"""


def run(code: str, **environment: str) -> str:
    clean = {key: value for key, value in os.environ.items() if key not in PROXIES}
    result = subprocess.run(
        [sys.executable, "-c", PRELUDE + code],
        capture_output=True,
        text=True,
        timeout=60,
        env=clean | {"PYTHONPATH": str(Path(__file__).parents[1])} | environment,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


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


def test_a_door_is_open_for_its_own_thread_alone() -> None:
    output = run(
        """
import threading
def reach():
    s = socket.socket(); s.setblocking(False)
    try:
        s.connect(("192.0.2.7", 9))
    except NetworkBlockedError:
        return "blocked"
    except OSError:
        return "tried"
def in_a_thread():
    seen = []
    thread = threading.Thread(target=lambda: seen.append(reach())); thread.start(); thread.join()
    return seen[0]
with network.allow({"192.0.2.7"}):
    print(in_a_thread(), reach())
"""
    )
    assert output.split() == ["blocked", "tried"]


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
taken = []
for _ in range(10):
    start = time.thread_time()
    for _ in range(1000):
        sys.audit("open", "x", "r", 0)
    taken.append(time.thread_time() - start)
print(min(taken) / 1000 * 1e6)
print([name for name in ("ssl", "httpx", "http.client", "urllib.request") if name in sys.modules])
"""
    )
    microseconds, modules = output.splitlines()
    assert float(microseconds) < 20
    assert modules == "[]"


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST",
        "127.0.0.1",
        "127.9.8.7",
        "::1",
        "[::1]",
        "::ffff:127.0.0.1",
    ],
)
def test_loopback(host: str) -> None:
    assert is_loopback(host)


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
        "127.1",
        "0x7f.1",
        "0x7f000001",
        "0177.0.0.1",
        "127.0.0.01",
        "a.localhost",
        "localhost.",
        "LOCALHOST.",
        "localhost.localdomain",
        "localhost%x.evil.com",
        "127.0.0.1%lo",
        "::1%lo",
        "::1%x.evil.com",
        "[127.0.0.1]",
        "[[::1]]",
        " 127.0.0.1",
        "127.0.0.1\n",
        "\uff11\uff12\uff17.0.0.1",
        "\uff4c\uff4f\uff43\uff41\uff4c\uff48\uff4f\uff53\uff54",
        "localho\u017ft",
        "xn--localhost",
        "127\u30020.0.1",
        "::ffff:10.0.0.1",
        "fe80::1%eth0",
    ],
)
def test_not_loopback(host: str) -> None:
    assert not is_loopback(host)


def test_allow_is_harmless_without_the_guard() -> None:
    with network.allow({"example.com"}), network.allow(()):
        pass


def test_an_unreadable_certificate_is_named(tmp_path: Path) -> None:
    from localrag.errors import ConfigError

    with pytest.raises(ConfigError, match=r"missing\.pem"):
        clients.client(certificate=str(tmp_path / "missing.pem"))


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
    from localrag.errors import ModelError
    from localrag.models.embeddings.runtime import open_session

    with pytest.raises(ModelError):
        open_session(tmp_path / "none.onnx")
    assert os.environ["ORT_DISABLE_TELEMETRY"] == "1"


def test_onnx_runtime_is_told_so_before_pymupdf_imports_it() -> None:
    code = (
        "import os, sys, pathlib\n"
        "from localrag.documents.files import parse_file\n"
        "from localrag.errors import ParsingError\n"
        "assert 'pymupdf' not in sys.modules\n"
        "try: parse_file(pathlib.Path('none.pdf'), b'%PDF-')\n"
        "except ParsingError: pass\n"
        "print(os.environ['ORT_DISABLE_TELEMETRY'], 'pymupdf' in sys.modules)\n"
    )
    environment = {k: v for k, v in os.environ.items() if k != "ORT_DISABLE_TELEMETRY"}
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == ["1", "True"]


def test_an_attempt_says_where_it_comes_from(tmp_path: Path) -> None:
    (tmp_path / "plugin.py").write_text(
        "import socket\ndef leak():\n    socket.getaddrinfo('a.invalid', 1)\n"
    )
    output = run(
        f"""
sys.path.insert(0, {str(tmp_path)!r})
import plugin
try:
    plugin.leak()
except OSError:
    print(network.attempts()[0].origin)
"""
    )
    assert output.strip() == f"plugin.leak ({tmp_path / 'plugin.py'}:3)"


def test_what_was_allowed_is_known_too() -> None:
    output = run(
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
    assert output.strip() == "['192.0.2.7'] ()"


# Servers on this machine


@pytest.fixture
def proxy() -> Iterator[tuple[str, list[str]]]:
    """A forward proxy on loopback, in a process other than the guarded one."""
    requests: list[str] = []

    def respond(exchange: Exchange) -> None:
        requests.append(f"{exchange.command} {exchange.path}")
        exchange.send("hi")

    with serving(respond) as server:
        yield server.url, requests


CLIENTS = """
import http.client, urllib.request, httpx
where = urllib.parse.urlsplit(PROXY_URL)
def tunnel():
    connection = http.client.HTTPConnection(where.hostname, where.port, timeout=30)
    connection.set_tunnel("a.test", 443)
    connection.request("GET", "/")
def raw(host):
    def go():
        with socket.create_connection((host, where.port), timeout=30) as sock:
            sock.sendall(b"GET http://a.test/ HTTP/1.1\\r\\nHost: a.test\\r\\n\\r\\n")
            sock.recv(1)
    return go
def direct(address, family=socket.AF_INET):
    def go():
        with socket.socket(family) as sock:
            sock.connect(address)
    return go
async def asynchronous():
    async with httpx.AsyncClient(proxy=PROXY_URL) as client:
        await client.get("http://a.test/")
def run_async():
    import asyncio
    asyncio.run(asynchronous())
port = where.port
attacks = [
    lambda: urllib.request.urlopen("http://a.test/", timeout=30),
    lambda: urllib.request.urlopen("https://a.test/", timeout=30),
    lambda: httpx.get("http://a.test/", timeout=30),
    lambda: httpx.get("https://a.test/", timeout=30),
    lambda: httpx.get("http://a.test/", proxy=PROXY_URL, timeout=30),
    run_async, tunnel, raw("127.0.0.1"), raw("localhost"), raw("LocalHost"),
    direct(("", port)), direct(("0.0.0.0", port)), direct((b"127.0.0.1", port)),
    direct(("::ffff:127.0.0.1", port), socket.AF_INET6), direct(("::", port), socket.AF_INET6),
    direct(("127.1", port)), direct(("localhost", port)),
    direct(("\\uff11\\uff12\\uff17.0.0.1", port)),
    direct(("2130706433", port)), direct(("0x7f.1", port)), direct(("0177.0.0.1", port)),
]
outcomes = []
for attack in attacks:
    try:
        attack()
        outcomes.append("REACHED")
    except (OSError, httpx.HTTPError):
        outcomes.append("stopped")
print(set(outcomes), len(network.attempts()) >= len(attacks))
print(sorted(name for name in os.environ if "proxy" in name.lower()))
"""


def test_a_proxy_on_loopback_is_no_way_out(proxy: tuple[str, list[str]]) -> None:
    url, requests = proxy
    names = ("http_proxy", "https_proxy", "ALL_PROXY", "HTTPS_PROXY", "Ftp_Proxy", "no_proxy")
    output = run(f"PROXY_URL = {url!r}\n" + CLIENTS, **dict.fromkeys(names, url))
    assert output.splitlines() == ["{'stopped'} True", "[]"]
    assert requests == []


def test_children_do_not_inherit_the_proxies(proxy: tuple[str, list[str]]) -> None:
    url, _ = proxy
    output = run(
        """
import subprocess
code = "import os; print([name for name in os.environ if 'proxy' in name.lower()])"
print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip())
print(sorted(proxies.named()))
""",
        http_proxy=url,
        PIP_PROXY=url,
    )
    assert output.splitlines() == ["[]", "['PIP_PROXY', 'http_proxy']"]


def test_the_proxy_serves_traffic_that_is_allowed_and_no_other(
    proxy: tuple[str, list[str]],
) -> None:
    url, requests = proxy
    output = run(
        """
import httpx
from localrag.egress import clients
with clients.client() as client:
    with network.allow(["http://a.test/x"]):
        print(client.get("http://a.test/x").text)
        try:
            httpx.get("http://b.test/")  # what does not know of the proxy finds no way
        except (OSError, httpx.HTTPError):
            print("stopped")
    with httpx.Client(proxy=proxies.named()["http_proxy"]) as other:
        try:
            other.get("http://a.test/y")
        except (OSError, httpx.HTTPError):
            print("stopped")
print([name for name in os.environ if "proxy" in name.lower()])
""",
        http_proxy=url,
    )
    assert output.split() == ["hi", "stopped", "stopped", "[]"]
    assert requests == ["GET http://a.test/x"]


def test_only_the_server_that_is_named_may_be_reached_and_is_recorded(
    proxy: tuple[str, list[str]],
) -> None:
    url, requests = proxy
    output = run(
        f"""
import httpx
URL = {url!r}
OTHER = URL[:-1] + ("2" if URL.endswith("1") else "1")
def get(url):
    try:
        return httpx.get(url, timeout=30).status_code
    except (OSError, httpx.HTTPError):
        return "stopped"
print(get(URL))
with network.allow([URL]):
    print(get(URL), get(URL.replace("127.0.0.1", "localhost")), get(OTHER))
with network.allow([URL.replace("127.0.0.1", "localhost")]):
    print(get(URL.replace("127.0.0.1", "localhost")), get("http://127.0.0.2:1/"))
print(get(URL))
print(sum(network.let_through().values()), {{one.address for one in network.let_through()}})
"""
    )
    port = url.rpartition(":")[2]
    *lines, last = output.splitlines()
    assert lines == ["stopped", "200 200 stopped", "200 stopped", "stopped"]
    assert last == f"3 {{'127.0.0.1:{port}'}}"
    assert len(requests) == 3


def test_own_servers_and_those_of_children_go_on_working(tmp_path: Path) -> None:
    output = run(
        """
import asyncio, multiprocessing.connection, subprocess, threading

class Echo(asyncio.Protocol):
    def connection_made(self, transport):
        transport.write(b"tcp"); transport.close()

async def served():
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Echo, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    print((await reader.read()).decode())
    writer.close()
    server.close()
    await loop.run_in_executor(None, print, "thread")
asyncio.run(served())

a, b = socket.socketpair(); a.send(b"pair"); print(b.recv(9).decode())

receiver = socket.socket(type=socket.SOCK_DGRAM); receiver.bind(("localhost", 0))
sender = socket.socket(type=socket.SOCK_DGRAM)
sender.sendto(b"udp", receiver.getsockname()); print(receiver.recv(9).decode())

wide = socket.create_server(("0.0.0.0", 0))
socket.create_connection(("127.0.0.1", wide.getsockname()[1])).close()
socket.create_connection(wide.getsockname()).close()

for family in ("AF_INET", *(["AF_UNIX"] if hasattr(socket, "AF_UNIX") else [])):
    with multiprocessing.connection.Listener(family=family) as listener:
        def answer():
            with listener.accept() as one:
                one.send(family)
        thread = threading.Thread(target=answer); thread.start()
        with multiprocessing.connection.Client(listener.address) as client:
            print(client.recv())
        thread.join()

CODE = '''
import socket
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
server.accept()
'''
child = subprocess.Popen([sys.executable, "-c", CODE], stdout=subprocess.PIPE, text=True)
socket.create_connection(("127.0.0.1", int(child.stdout.readline()))).close()
child.wait(10)
print("child", network.attempts(), {one.own for one in network.let_through()})
"""
    )
    unix = ["AF_UNIX"] if sys.platform != "win32" else []
    ends = ["child () {True}"]
    assert output.splitlines() == ["tcp", "thread", "pair", "udp", "AF_INET", *unix, *ends]


def test_a_socket_of_another_kind_on_the_same_port_is_no_own_server(
    proxy: tuple[str, list[str]],
) -> None:
    port = int(proxy[0].rpartition(":")[2])
    output = run(
        f"""
udp = socket.socket(type=socket.SOCK_DGRAM); udp.bind(("127.0.0.1", {port}))
udp.sendto(b"x", ("127.0.0.1", {port}))
bound = socket.socket(); bound.bind(("127.0.0.2", {port}))
for host in ("127.0.0.1", "127.0.0.2"):
    try:
        socket.create_connection((host, {port}), timeout=1)
    except NetworkBlockedError:
        print("blocked")
"""
    )
    assert output.split() == ["blocked", "blocked"]


@pytest.mark.skipif(sys.platform == "win32", reason="fork, and sockets with a path")
def test_multiprocessing_goes_on_working() -> None:
    output = run(
        """
import multiprocessing
def work(shared):
    shared.append(1)
if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    with context.Manager() as manager:
        shared = manager.list()
        workers = [context.Process(target=work, args=(shared,)) for _ in range(2)]
        for worker in workers: worker.start()
        for worker in workers: worker.join()
        print(len(shared), network.attempts())
"""
    )
    assert output.strip() == "2 ()"


@pytest.mark.skipif(sys.platform == "win32", reason="sockets with a path")
def test_a_socket_with_a_path_is_a_server_like_any_other(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        server.listen()
        output = run(
            f"""
path = {str(tmp_path / "s")!r}
def reach():
    with socket.socket(socket.AF_UNIX) as sock:
        try:
            sock.connect(path)
        except NetworkBlockedError:
            return "blocked"
        return "reached"
print(reach())
with network.allow(['unix:']):
    print(reach())
network.close_doors(["unix:" + path])
print(reach(), network.attempts()[0].address == "unix:" + path)
"""
        )
    assert output.split() == ["blocked", "reached", "reached", "True"]


@pytest.mark.parametrize(
    "call",
    [
        # The name server on loopback that passes every question on.
        'socket.socket(type=socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.53", 53))',
        'socket.socket(type=socket.SOCK_DGRAM).connect(("127.0.0.53", 53))',
        'socket.socket(socket.AF_INET6).connect(("::1", 9))',
        # Python resolves these before it calls the hook.
        'socket.socket().connect(("secret.invalid", 80))',
        'socket.socket().connect_ex(("secret.invalid", 80))',
        'socket.socket().bind(("secret.invalid", 0))',
        'socket.socket(type=socket.SOCK_DGRAM).sendto(b"x", ("secret.invalid", 53))',
        'socket.socket(type=socket.SOCK_DGRAM).sendto(b"x", 0, ("secret.invalid", 53))',
        'socket.socket(type=socket.SOCK_DGRAM).sendmsg([b"x"], [], 0, ("secret.invalid", 53))',
        'socket.gethostbyname_ex("secret.invalid")',
        'socket.getaddrinfo("x.localhost", 80)',
        'socket.getaddrinfo("localhost.", 80)',
        'socket.getaddrinfo("localhost%x.invalid", 80)',
        'socket.getaddrinfo(b"127.1", 80)',
        'socket.getaddrinfo("\\uff4c\\uff4fcalhost", 80)',
        '__import__("_socket").getaddrinfo("secret.invalid", 80)',
        # Sockets below those of the module, and of kinds that no event shows.
        '__import__("_socket").socket()',
        '__import__("_socket").socket(socket.AF_INET, socket.SOCK_DGRAM)',
        "socket.socket(type=socket.SOCK_RAW)",
        'socket.socket(getattr(socket, "AF_PACKET", 99))',
        'socket.socket(getattr(socket, "AF_VSOCK", 99))',
    ],
)
def test_the_same_by_another_way(call: str) -> None:
    if "sendmsg" in call and sys.platform == "win32":
        pytest.skip("only on systems with sendmsg")
    output = run(
        f"""
resolved = []
# Nothing may reach the interpreter's own resolver: count what does.
sys.addaudithook(lambda event, args: event == "socket.getaddrinfo" and resolved.append(args[0]))
try:
    {call}
except NetworkBlockedError:
    print(len(network.attempts()), resolved)
"""
    )
    assert output.split() == ["1", "[]"]


def test_localhost_is_not_looked_up() -> None:
    output = run(
        """
asked = []
sys.addaudithook(lambda event, args: event == "socket.getaddrinfo" and asked.append(args[0]))
found = socket.getaddrinfo("localhost", 80, type=socket.SOCK_STREAM)
print({one[4][0] for one in found} <= {"127.0.0.1", "::1"}, set(asked) <= {"127.0.0.1", "::1"})
print({one[4][0] for one in socket.getaddrinfo("LOCALHOST", 80, socket.AF_INET)})
"""
    )
    assert output.split() == ["True", "True", "{'127.0.0.1'}"]


def test_a_name_never_leads_to_this_machine() -> None:
    output = run(
        """
def resolve(host, port, *rest, **more):
    sys.audit("socket.getaddrinfo", host, port, 0, 0, 0)
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]
socket.getaddrinfo = resolve
with network.allow(["http://rebound.test:9/"]):
    try:
        socket.create_connection(("rebound.test", 9), timeout=1)
    except NetworkBlockedError as error:
        print("127.0.0.1:9" in str(error))
"""
    )
    assert output.strip() == "True"


def test_a_url_opens_its_own_port_alone() -> None:
    output = run(
        """
def tried(port):
    s = socket.socket(); s.setblocking(False)
    try:
        s.connect(("192.0.2.7", port))
    except NetworkBlockedError:
        return False
    except OSError:
        return True
with network.allow(["https://192.0.2.7/v1"]):
    print(tried(443), tried(80))
"""
    )
    assert output.split() == ["True", "False"]
    for wrong in ("localhost", "127.0.0.1", "gopher://127.0.0.1/"):
        with pytest.raises(ValueError, match="a scheme and a port"), network.allow([wrong]):
            pass


def test_everything_is_counted_however_often() -> None:
    output = run(
        """
with network.allow(["http://127.0.0.1:9"]):
    sock = socket.socket(type=socket.SOCK_DGRAM)
    for _ in range(1500):
        sock.sendto(b"x", ("127.0.0.1", 9))
print(network.let_through().total(), len(network.let_through()))
"""
    )
    assert output.split() == ["1500", "1"]


# Programs that use the Python API

OFFLINE = """
import os, socket, sys, localrag
from localrag.errors import NetworkBlockedError
def reach():
    s = socket.socket(); s.setblocking(False)
    try:
        s.connect(("192.0.2.7", 9))
    except NetworkBlockedError:
        return "blocked"
    except OSError:
        return "tried"
"""


def program(code: str, **environment: str) -> list[str]:
    clean = {key: value for key, value in os.environ.items() if key not in PROXIES}
    result = subprocess.run(
        [sys.executable, "-c", OFFLINE + code],
        capture_output=True,
        text=True,
        timeout=60,
        env=clean | {"PYTHONPATH": str(Path(__file__).parents[1])} | environment,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


def test_a_program_has_the_same_guard_from_the_call_on() -> None:
    assert program(
        """
print(reach())
localrag.offline()
print(reach(), "HTTPS_PROXY" in os.environ, os.environ["HF_HUB_OFFLINE"])
""",
        HTTPS_PROXY="http://127.0.0.1:9",
    ) == ["tried", "blocked", "False", "1"]


def test_or_until_a_block_ends() -> None:
    assert program(
        """
with localrag.offline():
    with localrag.offline():
        print(reach())
    print(reach())
print(reach(), os.environ["HTTPS_PROXY"], os.environ.get("HF_HUB_OFFLINE"))
localrag.offline()
with localrag.offline():
    pass
print(reach())
""",
        HTTPS_PROXY="http://127.0.0.1:9",
        HF_HUB_OFFLINE="0",
    ) == ["blocked", "blocked", "tried", "http://127.0.0.1:9", "0", "blocked"]


def test_a_program_names_its_other_servers(proxy: tuple[str, list[str]]) -> None:
    url, _ = proxy
    assert program(
        f"""
import httpx
def get():
    try:
        return httpx.get({url!r}).status_code
    except (OSError, httpx.HTTPError):
        return "stopped"
with localrag.offline(allow=[{url!r}]):
    print(get())
localrag.offline()
print(get())
for wrong in ("http://192.0.2.7/", "a.test", "127.0.0.1", "http://x.localhost:80", "unix:"):
    try:
        localrag.offline(allow=[wrong])
    except ValueError:
        print("refused")
"""
    ) == ["200", "stopped", *["refused"] * 5]


@pytest.mark.parametrize("offline", [False, True])
def test_only_the_language_model_that_is_set_is_reached(
    proxy: tuple[str, list[str]], offline: bool
) -> None:
    """The adapter opens the door itself; a redirect to elsewhere is not followed."""
    url, requests = proxy
    output = program(
        f"""
from localrag.models.llms.openai.model import OpenAICompatibleModel
from localrag.models.llms.base import Message, Options
from localrag import errors
if {offline}:
    localrag.offline()
with_port = {url!r}
for host in ("127.0.0.1", "localhost"):
    model = OpenAICompatibleModel(with_port.replace("127.0.0.1", host), "m", max_retries=0)
    try:
        model.complete([Message("user", "hi")], Options())
    except errors.BackendError:
        print("answered")  # "hi" is no reply
for host in ("x.localhost", "localhost.", "127.1", "localhost%x.evil.com", "2130706433",
             "0x7f.0.0.1", "[::1%25lo]", "\\uff11\\uff12\\uff17.0.0.1"):
    try:
        OpenAICompatibleModel(with_port.replace("127.0.0.1", host), "m")
    except NetworkBlockedError:
        print("refused")
""",
        http_proxy="http://192.0.2.1:9",
    )
    assert output == ["answered"] * 2 + ["refused"] * 8
    assert len(requests) == 2
