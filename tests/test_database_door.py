"""The door to databases: what a URL names, and that libpq, which is C code, goes nowhere else."""

from __future__ import annotations

import datetime
import json
import os
import socket
import ssl
import struct
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest

from localrag.cli.group import cli
from localrag.config.settings import DatabaseSettings, Settings
from localrag.egress import databases
from localrag.egress.audit import AuditLog
from localrag.egress.databases import Database, door, read_url
from localrag.errors import LibraryError, LocalragError, NetworkBlockedError, UsageError
from localrag.hosted import reachable
from localrag.library.location import location_of

ELSEWHERE = "postgresql://db.example.com/docs#team"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (ELSEWHERE, Database("db.example.com", 5432, "docs", "team")),
        ("postgres://ada@[::1]:5433/d#x", Database("::1", 5433, "d", "x", "ada")),
        ("postgresql:///d?host=/run/Pg&port=7#x", Database("/run/Pg", 7, "d", "x")),
        ("postgresql://%2Frun%2FPg/d#x", Database("/run/Pg", 5432, "d", "x")),
        (
            "postgresql://h/d?user=o&sslrootcert=/ca.crt#%E8%8C%B6",
            Database("h", 5432, "d", "茶", "o", "/ca.crt"),
        ),
        (
            "postgresql:///d%20%3F?host=/r%26n&port=7&sslrootcert=/a%20b%2B%26%23%25.crt#50%25%20a",
            Database("/r&n", 7, "d ?", "50% a", "", "/a b+&#%.crt"),
        ),
        ("postgresql://a%2Fb%40c@h/茶#x", Database("h", 5432, "茶", "x", "a/b@c")),
    ],
)
def test_what_a_url_names(url: str, expected: Database) -> None:
    assert read_url(url) == expected
    assert read_url(str(expected)) == expected


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://ada:hunter2@h/d#x", "password does not belong"),
        ("postgresql://h/d?password=hunter2#x", "password does not belong"),
        ("postgresql://h/d", "names no library"),
        ("postgresql://h/#x", "names no database"),
        ("postgresql://h:0/d#x", "port"),
        ("postgresql://h:99999/d#x", "port"),
        ("postgresql://a,b/d#x", "one host"),
        ("postgresql://h/d?hostaddr=192.0.2.1#x", "hostaddr"),
        ("postgresql://h/d?service=s#x", "service"),
        ("postgresql://h/d?sslmode=disable#x", "sslmode"),
        ("postgresql://h/d?user=a&user=b#x", "twice"),
        ("postgresql://h/d?host=/run/pg#x", "one host"),
        ("postgresql://h:1/d?port=2#x", "twice"),
        ("postgresql://a@h/d?user=b#x", "twice"),
        ("postgresql:h/d#x", "does not begin with"),
        ("POSTGRESQL://ada:hunter2@h/d#x", "password does not belong"),
        (" postgresql://ada:hunter2@h/d#x", "password does not belong"),
        ("postgresql://ada%3Ahunter2@localhost/d#x", "password does not belong"),
        ("postgresql://h/d?user=ada:hunter2#x", "password does not belong"),
        ("mysql://ada:hunter2@h/d", "does not begin with"),
        ("postgresql://ada:hunter2@[h/d#x", "cannot be read"),
        ("postgresql://h/d%00%20host%3Dother#x", "cannot be read"),
        ("postgresql://h%00/d#x", "cannot be read"),
        ("postgresql://h/d?user=a%00b#x", "cannot be read"),
        ("postgresql://h/d\udcff#x", "cannot be read"),
    ],
)
def test_a_url_that_is_no_use(url: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as error:
        read_url(url)
    assert "hunter2" not in "".join(traceback.format_exception(error.value))


def test_a_url_makes_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for scheme in ("POSTGRESQL", "Postgres", "mysql", "postgresql+psycopg"):
        with pytest.raises(UsageError) as error:
            location_of(f"{scheme}://me:hunter2@h/d#x")
        assert "hunter2" not in str(error.value)
        with pytest.raises(UsageError):
            cli(["--library", f"{scheme}://me:hunter2@h/d#x", "status"], standalone_mode=False)
    assert not [*tmp_path.iterdir()]
    assert isinstance(location_of("C:\\data"), Path)
    assert isinstance(location_of("C://data"), Path)


def test_elsewhere_is_closed_until_both_settings_say_otherwise() -> None:
    database, hosts = read_url(ELSEWHERE), DatabaseSettings(("db.example.com",))
    for settings in (
        Settings(),
        Settings(allow_network=True),
        Settings(database=hosts),
        Settings(allow_network=True, database=DatabaseSettings(("example.com",))),
    ):
        target = reachable(database, settings)
        assert isinstance(target, Database)
        with pytest.raises(NetworkBlockedError, match=r"db\.example\.com"), door(target):
            pass
    database_allowed = reachable(database, Settings(allow_network=True, database=hosts))
    assert isinstance(database_allowed, Database)
    assert database_allowed.hosts == {"db.example.com"}


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Names that resolve to these addresses."""
    addresses: dict[str, str] = {}

    def resolve(host: str, port: int, **_: object) -> list[object]:
        if host not in addresses:
            raise socket.gaierror(-2, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (addresses[host], port))]

    monkeypatch.setattr(databases.socket, "getaddrinfo", resolve)
    return addresses


def test_elsewhere_means_its_own_address_with_a_checked_certificate(
    named: dict[str, str], tmp_path: Path
) -> None:
    named["db.example.com"] = "198.51.100.7"
    log = AuditLog(tmp_path / "calls.jsonl")
    database = read_url(ELSEWHERE).allowed(["DB.example.com."], log)
    with door(database) as options:
        assert options["hostaddr"] == "198.51.100.7"
        assert options["host"] == "db.example.com"
        assert options["sslmode"] == "verify-full"
        assert options["gssencmode"] == "disable"
    (line,) = log.path.read_text().splitlines()
    assert json.loads(line) | {"time": ""} == {
        "event": "database",
        "host": "db.example.com",
        "library": "team",
        "time": "",
    }


def test_a_name_elsewhere_that_leads_here_is_refused(named: dict[str, str]) -> None:
    named["db.example.com"] = "127.0.0.1"
    database = read_url(ELSEWHERE).allowed(["db.example.com"], None)
    with pytest.raises(NetworkBlockedError, match="resolves to this machine"), door(database):
        pass
    named.clear()
    with pytest.raises(LibraryError, match="cannot be resolved"), door(database):
        pass


def test_this_machine_needs_no_leave_and_is_its_own_address() -> None:
    with door(read_url("postgresql://localhost/d#x")) as options:
        assert options["hostaddr"] == "127.0.0.1,::1"
    with door(read_url("postgresql:///d?host=/run/pg#x")) as options:
        assert options["host"] == "/run/pg"
        assert "hostaddr" not in options
    for name in ("localhost.example", "127.1", "0x7f.1"):
        with pytest.raises(NetworkBlockedError), door(read_url(f"postgresql://{name}/d#x")):
            pass


@contextmanager
def listening() -> Iterator[tuple[int, list[object]]]:
    """A port of this machine, and who came."""
    came: list[object] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.05)
        end = threading.Event()

        def accept() -> None:
            while not end.is_set():
                with suppress(TimeoutError):
                    connection, peer = server.accept()
                    came.append(peer)
                    connection.close()

        thread = threading.Thread(target=accept)
        thread.start()
        yield server.getsockname()[1], came
        end.set()
        thread.join()


def test_the_environment_says_nothing_of_where_to_go(
    postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from localrag.library.backends.postgres.catalogue import PostgresCatalogue

    services = tmp_path / "services"
    with listening() as (port, came):
        services.write_text(f"[trap]\nhost=127.0.0.1\nhostaddr=127.0.0.1\nport={port}\n")
        for name, value in {
            "PGHOST": "127.0.0.1",
            "PGHOSTADDR": "127.0.0.1",
            "PGPORT": str(port),
            "PGSERVICE": "trap",
            "PGSERVICEFILE": str(services),
            "PGUSER": "mallory",
            "PGDATABASE": "other",
            "PGOPTIONS": "-c search_path=public",
            "PGSSLMODE": "require",
            "PGTARGETSESSIONATTRS": "standby",
        }.items():
            monkeypatch.setenv(name, value)
        with (
            closing(PostgresCatalogue(read_url(f"{postgres}#{tmp_path.name}"))) as catalogue,
            catalogue.session() as session,
        ):
            row = session.execute("SELECT current_user, current_database()").fetchone()
        assert row == ("postgres", "postgres")
        assert came == []
    assert os.environ["PGHOST"] == "127.0.0.1"  # it is the environment of others, too


def test_nobody_waits_while_another_connects(monkeypatch: pytest.MonkeyPatch) -> None:
    """As to a server that is silent, for which ten seconds are waited."""
    place, names = read_url("postgresql:///d?host=/run/pg#x"), ("PGHOST", "PGPORT")
    monkeypatch.setenv("PGHOST", "127.0.0.1")
    monkeypatch.delenv("PGPORT", raising=False)
    inside, leave = threading.Event(), threading.Event()
    names_seen: list[set[str]] = []

    def connect() -> None:
        with door(place):
            inside.set()
            leave.wait(120)
            names_seen.append(os.environ.keys() & names)

    first = threading.Thread(target=connect)
    first.start()
    assert inside.wait(60)
    inside.clear()
    monkeypatch.setenv("PGPORT", "7")  # by whoever else is in this process
    second = threading.Thread(target=connect)
    second.start()
    assert inside.wait(60)
    leave.set()
    first.join()
    second.join()
    assert names_seen == [set(), set()]
    assert {name: os.environ[name] for name in names} == {"PGHOST": "127.0.0.1", "PGPORT": "7"}


def test_libpq_is_not_even_called(monkeypatch: pytest.MonkeyPatch) -> None:
    psycopg = pytest.importorskip("psycopg", reason="only where psycopg is installed")
    from localrag.library.backends.opening import open_backend

    monkeypatch.setattr(psycopg, "connect", lambda *_, **__: pytest.fail("it was"))
    with pytest.raises(NetworkBlockedError, match=r"192\.0\.2\.1"):
        open_backend(read_url("postgresql://192.0.2.1/d#x"))


def test_a_client_that_cannot_be_told_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    psycopg = pytest.importorskip("psycopg", reason="only where psycopg is installed")
    from localrag.library.backends.opening import open_backend

    monkeypatch.setattr(psycopg.pq, "version", lambda: 150004)
    monkeypatch.setattr(psycopg, "connect", lambda *_, **__: pytest.fail("it was called"))
    with pytest.raises(LibraryError, match="libpq 15 is too old"):
        open_backend(read_url("postgresql://localhost/d#x"))


def test_a_server_that_is_not_there_is_said_once() -> None:
    pytest.importorskip("psycopg", reason="only where psycopg is installed")
    from localrag.library.backends.opening import open_backend

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(LibraryError, match="cannot be reached") as error:
        open_backend(read_url(f"postgresql://localhost:{port}/d#x"))
    message = str(error.value)
    assert message.count("onnection refused") <= 1
    assert "\n" not in message
    assert ".." not in message


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        (["/usr/bin/localrag", "add", "/home/me"], "localrag add"),
        (["/lib/localrag/__main__.py", "watch"], "__main__.py watch"),
        (["localrag", "--library"], "localrag"),
        (["app.py", "secret"], "app.py"),
        ([], ""),
    ],
)
def test_the_server_is_told_no_arguments(
    arguments: list[str], sent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from localrag.library.backends.postgres import catalogue

    monkeypatch.setattr(sys, "argv", arguments)
    assert catalogue._name().rpartition("|")[2] == sent


GUARDED = """
import sys
from localrag.egress import network
network.close_doors()
from localrag.egress.databases import read_url
from localrag.library.backends.opening import open_backend
from localrag.errors import LibraryNotFoundError
try:
    open_backend(read_url(sys.argv[1]))
except LibraryNotFoundError:
    pass
assert not network.attempts(), network.attempts()
(passed,) = {attempt.host for attempt in network.let_through()}
print(passed)
"""


def test_the_guard_hears_of_each_connection(postgres: str) -> None:
    result = subprocess.run(
        [sys.executable, "-c", GUARDED, f"{postgres}#nowhere"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("unix:" if "host=" in postgres else "127.0.0.1")


# TLS: a server that does no more than to shake hands, and writes down what it is told after that.


def certificates(folder: Path, name: str) -> tuple[Path, Path]:
    """An authority, and what it says of a server of that name: both files."""
    x509 = pytest.importorskip("cryptography.x509", reason="only where cryptography is installed")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    now = datetime.datetime.now(datetime.UTC)
    authority, own = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))

    def signed(subject: str, key: object, *, is_authority: bool) -> bytes:
        def named(text: str) -> object:
            return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])

        built = (
            x509.CertificateBuilder()
            .subject_name(named(subject))
            .issuer_name(named("authority"))
            .public_key(key.public_key())  # type: ignore[attr-defined]
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), True)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(subject)]), False)
            .sign(authority, hashes.SHA256())
        )
        return built.public_bytes(serialization.Encoding.PEM)

    trusted, served = folder / "ca.crt", folder / "server.pem"
    trusted.write_bytes(signed("authority", authority, is_authority=True))
    pem = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    served.write_bytes(
        own.private_bytes(serialization.Encoding.PEM, *pem) + signed(name, own, is_authority=False)
    )
    return trusted, served


@contextmanager
def handshaking(served: Path | None) -> Iterator[tuple[int, list[bytes]]]:
    """A server that offers TLS, or none where there is no certificate; what came after that."""
    data: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                connection, _ = server.accept()
                with ExitStack() as stack:
                    stack.enter_context(connection)
                    connection.recv(8)  # SSLRequest
                    connection.sendall(b"S" if served else b"N")
                    if served is not None:
                        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                        context.load_cert_chain(served)
                        connection = context.wrap_socket(connection, server_side=True)
                        stack.enter_context(connection)
                    data.append(connection.recv(1000))
                    words = b"SFATAL\0C28000\0Mnobody enters\0\0"
                    connection.sendall(b"E" + struct.pack("!i", 4 + len(words)) + words)

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1], data
        server.close()
        thread.join()


@pytest.mark.parametrize("how", ["right", "other name", "other authority", "no TLS"])
def test_nothing_is_said_to_a_server_without_its_certificate(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("psycopg", reason="only where psycopg is installed")
    from localrag.library.backends.opening import open_backend

    name = "evil.example.com" if how == "other name" else "db.example.com"
    trusted, served = certificates(tmp_path, name)
    if how == "other authority":
        (tmp_path / "other").mkdir()
        trusted, _ = certificates(tmp_path / "other", name)
    monkeypatch.setattr(databases, "_addresses", lambda _: ["127.0.0.1"])
    monkeypatch.setenv("PGSSLMODE", "disable")
    monkeypatch.setenv("PGSSLROOTCERT", str(tmp_path / "ca.crt"))
    with handshaking(None if how == "no TLS" else served) as (port, data):
        url = f"postgresql://u@db.example.com:{port}/d?sslrootcert={trusted}#x"
        with pytest.raises(LocalragError) as error:
            open_backend(read_url(url).allowed(["db.example.com"], None))
    if how == "right":
        assert "nobody enters" in str(error.value)
        assert b"application_name" in data[0]
    else:
        assert "cannot be reached" in str(error.value)
        assert not any(data)


@pytest.mark.parametrize("kept", ["environment", "file"])
@pytest.mark.parametrize("method", [0, 3, 5], ids=["not at all", "in clear", "md5"])
def test_a_server_that_does_not_prove_that_it_knows_the_password_is_told_nothing(
    method: int, kept: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever listens on the port of a server on this machine that is down."""
    pytest.importorskip("psycopg", reason="only where psycopg is installed")
    from localrag.library.backends.opening import open_backend

    passwords = tmp_path / "passwords"
    passwords.write_text("127.0.0.1:*:*:u:open-sesame\n")
    passwords.chmod(0o600)
    if kept == "environment":
        monkeypatch.setenv("PGPASSWORD", "open-sesame")
    else:
        monkeypatch.setenv("PGPASSFILE", str(passwords))
    data = bytearray()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                connection, _ = server.accept()
                with connection:
                    connection.recv(8)
                    connection.sendall(b"N")
                    connection.recv(1000)
                    salt = b"salt" if method == 5 else b""
                    connection.sendall(b"R" + struct.pack("!ii", 8 + len(salt), method) + salt)
                    data.extend(connection.recv(1000))

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(LocalragError, match="cannot be reached") as error:
            open_backend(read_url(f"postgresql://u@127.0.0.1:{server.getsockname()[1]}/d#x"))
        server.close()
        thread.join()
    assert not data
    assert "another program may be in its place" in str(error.value)


def test_a_server_that_knows_the_account_otherwise_is_asked_for_nothing(
    postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as there is no password for it."""
    from localrag.library.backends.postgres.catalogue import PostgresCatalogue

    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "none"))
    with closing(PostgresCatalogue(read_url(f"{postgres}#{tmp_path.name}"))) as catalogue:
        catalogue.has_libraries()
        monkeypatch.setenv("PGPASSWORD", "open-sesame")
        catalogue.close()
        with pytest.raises(LibraryError, match="another program may be in its place"):
            catalogue.has_libraries()


def test_a_socket_where_every_account_could_put_one_is_not_looked_for() -> None:
    assert not any(folder.startswith("/tmp") for folder in databases._SOCKETS)
    assert read_url("postgresql:///d?host=/tmp#x").host == "/tmp"
