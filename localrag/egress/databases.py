"""The door to a database: whom its URL names, whether that may be reached, and how.

libpq, PostgreSQL's client, is C code that the guard on Python's sockets does not see. So nothing
reaches it that was not decided here: names are resolved by Python, where the guard hears of it,
and libpq is given addresses; the guard is asked about each of them; and what libpq would otherwise
read from the environment (PGHOST, PGHOSTADDR, PGSERVICE, PGSSLMODE and others) is hidden from it
while it connects. A Unix socket and loopback are this machine. A host elsewhere needs to be
allowed by the settings, and gets TLS with a certificate that is checked against its name.
"""

from __future__ import annotations

import os
import re
import socket
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from localrag.egress import network
from localrag.egress.addresses import ANY_UNIX_SOCKET, LOCALHOST, address, is_loopback, normalise
from localrag.egress.audit import AuditLog
from localrag.errors import LibraryError, NetworkBlockedError, UsageError

SCHEMES = ("postgresql", "postgres")
PORT = 5432

_SOCKETS = ("/var/run/postgresql", "/run/postgresql")
"""Where servers put them. Not /tmp, where every account could: it is named, or not looked at."""
_MAY_STAY = frozenset({"PGPASSWORD", "PGPASSFILE"})
"""What libpq may read of the environment: a secret, which is no place to go to."""

_OPTIONS = frozenset({"host", "port", "user", "sslrootcert"})
_PATIENCE = 10
"""Seconds that connecting may take."""

_URL = re.compile(r"\s*(?:[a-z][a-z0-9+.-]+://|postgres(?:ql)?:)", re.IGNORECASE)
"""Also of a scheme that is refused: as a path it could be a folder named after a password."""

_UNFIT = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
"""libpq reads on to the first NUL only; half a character is none."""

_LIBRARY = re.compile(r"[^\x00-\x1f\x7f/#?]{1,60}")
_hiding = threading.Lock()
_connecting = 0
_hidden: dict[str, str] = {}
"""What is hidden from libpq while so many connect."""


@dataclass(frozen=True, slots=True)
class Database:
    """A library in a database, as its URL names it; `hosts` are those that may be reached.

    `host` is a name, an address, or the folder of a Unix socket.
    """

    host: str
    port: int
    name: str
    library: str
    user: str = ""
    certificates: str = ""
    """File of the authorities that may vouch for the server; "" is ~/.postgresql/root.crt."""
    hosts: frozenset[str] = frozenset()
    audit: AuditLog | None = None
    """Where it is written down that another machine was reached."""

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine."""
        return self._socket or is_loopback(self.host)

    @property
    def _socket(self) -> bool:
        return self.host.startswith(("/", "@"))

    def __str__(self) -> str:
        """Its URL, as `read_url` reads it again; it holds no secret."""
        user = f"{quote(self.user, safe='')}@" if self.user else ""
        host, port = "", "" if self.port == PORT else f":{self.port}"
        options = []
        if self._socket:
            options = [f"host={_url_encoded(self.host)}", *([f"port={self.port}"] if port else [])]
            port = ""
        else:
            host = f"[{_url_encoded(self.host)}]" if ":" in self.host else _url_encoded(self.host)
        if self.certificates:
            options.append(f"sslrootcert={_url_encoded(self.certificates)}")
        query = f"?{'&'.join(options)}" if options else ""
        name, library = _url_encoded(self.name), _url_encoded(self.library)
        return f"postgresql://{user}{host}{port}/{name}{query}#{library}"

    def allowed(self, hosts: Iterable[str], audit: AuditLog | None) -> Database:
        """The same, with leave to reach these hosts on other machines."""
        return Database(
            *(self.host, self.port, self.name, self.library, self.user, self.certificates),
            hosts=frozenset(map(normalise, hosts)),
            audit=audit,
        )


def is_database(location: str) -> bool:
    """Whether a location names a database, or is any other URL, rather than a folder.

    What `read_url` says of it, it says without a secret.
    """
    return _URL.match(location) is not None


def read_url(url: str) -> Database:
    """What `postgresql://host/database#library` names. Raises UsageError, never with a secret."""
    if _UNFIT.search(unquote(url)):
        raise _wrong(LibraryError("it cannot be read"))
    url = url.lstrip()
    try:
        parts = urlsplit(url)
        given = parse_qsl(parts.query, strict_parsing=bool(parts.query))
    except ValueError:  # which may repeat a secret
        raise _wrong(LibraryError("it cannot be read")) from None
    if parts.scheme not in SCHEMES or not url.partition(":")[2].startswith("//"):
        raise _wrong(LibraryError("it does not begin with postgresql://"))
    options = dict(given)
    account, _, place = parts.netloc.rpartition("@")
    user = unquote(account) or options.get("user", "")
    if ":" in user or "password" in options:
        raise UsageError(
            "A password does not belong in the URL of a library: other users of this machine can "
            "see command lines.",
            hint="Put it into ~/.pgpass, or into the environment variable PGPASSWORD.",
        )
    if unknown := sorted(options.keys() - _OPTIONS):
        raise _wrong(
            LibraryError("it has the option {name}, which localrag does not know", name=unknown[0])
        )
    if len(given) != len(options) or (account and "user" in options):
        raise _wrong(LibraryError("an option is given twice"))
    match = re.fullmatch(r"(\[[^\]]*\]|[^:]*)(?::(\d+))?", place)
    if match is None or (match[1] and "host" in options):
        raise _wrong(LibraryError("it does not name one host"))
    if match[2] and "port" in options:
        raise _wrong(LibraryError("an option is given twice"))
    host = unquote(match[1]).strip("[]") or options.get("host", "") or _socket_folder()
    port = match[2] or options.get("port", str(PORT))
    name, library = unquote(parts.path.removeprefix("/")), unquote(parts.fragment)
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise _wrong(LibraryError("its port is not a number from 1 to 65535"))
    if not name or "/" in name:
        raise _wrong(LibraryError("it names no database"))
    if not _LIBRARY.fullmatch(library):
        raise _wrong(LibraryError("it names no library after #"))
    if "," in host:
        raise _wrong(LibraryError("it does not name one host"))
    return Database(host, int(port), name, library, user, options.get("sslrootcert", ""))


def _url_encoded(text: str) -> str:
    """A part of a URL, encoded where it would mean something else; letters stay letters."""
    return re.sub(r"[%?#&+;]", lambda match: quote(match[0]), text)


def _wrong(reason: LibraryError) -> UsageError:
    return UsageError(
        "The URL of the library is not usable: {reason}.",
        hint="Write postgresql://host/database#library, or for a Unix socket "
        "postgresql:///database?host=/var/run/postgresql#library.",
        reason=reason,
    )


def _socket_folder() -> str:
    return next(
        (folder for folder in _SOCKETS if Path(folder, f".s.PGSQL.{PORT}").exists()), _SOCKETS[0]
    )


@contextmanager
def door(database: Database) -> Iterator[dict[str, str]]:
    """What libpq is to be given, while it may connect, and nothing else may tell it where to go.

    Raises NetworkBlockedError for a host that is not allowed, LibraryError for a name that leads
    nowhere.
    """
    options = {
        "dbname": database.name,
        "port": str(database.port),
        "connect_timeout": str(_PATIENCE),
        "client_encoding": "UTF8",
        # A server whose machine has died says nothing: that is noticed within a minute. One that
        # only stalls, on a slow disk, takes nothing for a while either.
        "keepalives_idle": "30",
        "keepalives_interval": "5",
        "keepalives_count": "3",
        "tcp_user_timeout": "30000",
        # Kerberos and OAuth would go to servers of their own.
        "gssencmode": "disable",
    }
    if database.user:
        options["user"] = database.user
    if not database.is_local and normalise(database.host) not in database.hosts:
        raise NetworkBlockedError(
            "The library {library} is in a database on {host}, and localrag stays on this machine.",
            hint="To let it go there: `localrag config set allow_network true` and "
            "`localrag config set database.hosts '[\"{host}\"]'`.",
            library=str(database),
            host=database.host,
        )
    with network.allow([_server(database)]):
        if database._socket:
            path = f"{database.host}/.s.PGSQL.{database.port}"
            _ask(getattr(socket, "AF_UNIX", socket.AF_INET), path)
            options |= {"host": database.host, "sslmode": "disable"}
        else:
            addresses = _addresses(database)
            for ip in addresses:
                family = socket.AF_INET6 if ":" in ip else socket.AF_INET
                _ask(family, (ip, database.port))
            options |= {
                "host": ",".join([database.host] * len(addresses)),
                "hostaddr": ",".join(addresses),
                "sslmode": "prefer" if database.is_local else "verify-full",
            }
            if not database.is_local:
                options["sslrootcert"] = database.certificates or str(
                    Path.home() / ".postgresql" / "root.crt"
                )
                if database.audit is not None:
                    database.audit.connecting(normalise(database.host), database.library)
        with _without_environment():
            yield options


def _server(database: Database) -> str:
    if database._socket:
        path = f"{database.host}/.s.PGSQL.{database.port}"
        return ANY_UNIX_SOCKET + path
    host = f"[{database.host}]" if ":" in database.host else database.host
    return f"postgresql://{host}:{database.port}"


def _addresses(database: Database) -> list[str]:
    """The addresses of the host, each once; a name elsewhere never leads to this machine."""
    if (written := address(database.host)) is not None:
        return [str(written)]
    if database.is_local:
        return list(LOCALHOST)
    try:
        entries = socket.getaddrinfo(database.host, database.port, type=socket.SOCK_STREAM)
    except NetworkBlockedError:
        raise
    except OSError as error:
        raise LibraryError(
            "The name of the host {host} cannot be resolved: {reason}.",
            hint="Check the URL and the network.",
            host=database.host,
            reason=error.strerror or error,
        ) from error
    addresses = dict.fromkeys(normalise(entry[4][0]) for entry in entries)
    outside = [ip for ip in addresses if not is_loopback(ip)]
    if not outside:
        raise NetworkBlockedError(
            "The name {host} resolves to this machine but is not one of its names.",
            hint="Write localhost for a database on this machine.",
            host=database.host,
        )
    return outside


def _ask(family: int, peer: object) -> None:
    """Ask the guard as a socket of Python's would, which is never connected."""
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        sys.audit("socket.connect", sock, peer)


@contextmanager
def _without_environment() -> Iterator[None]:
    """Hide libpq's variables, as it takes from them what it is not told.

    The last one to leave brings them back: nobody waits while another waits for a silent server.
    """
    global _connecting
    with _hiding:
        _connecting += 1
        for name in [*os.environ]:
            if name.startswith("PG") and name not in _MAY_STAY:
                _hidden[name] = os.environ.pop(name)
    try:
        yield
    finally:
        with _hiding:
            _connecting -= 1
            if not _connecting:
                os.environ.update(_hidden)
                _hidden.clear()
