"""The only door out of the process.

`close_doors` sets the switches by which libraries are told to stay offline, takes the proxies out
of the environment, and installs an audit hook (PEP 578) that stops every attempt to connect or to
resolve a name unless `allow` names the peer. Servers on this machine are no exception, because one
of them may be a proxy; those that this process and its children run are. The hook sees what goes
through Python's socket module; it does not see child processes or C code that opens sockets of
its own. It cannot be removed once installed.

Imports nothing heavy: the command line calls this before anything else.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, NoReturn

from localrag.errors import ConfigError, NetworkBlockedError
from localrag.system import files

if TYPE_CHECKING:
    import ipaddress

    import httpx

_OFFLINE: Mapping[str, str] = {
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "WANDB_MODE": "offline",
}
_NO_REPORTS: Mapping[str, str] = {
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "ANONYMIZED_TELEMETRY": "False",
    "RAGAS_DO_NOT_TRACK": "true",
    "POSTHOG_DISABLED": "1",
    # ONNX Runtime reports each session to its maker from C code, which the hook cannot see.
    "ORT_DISABLE_TELEMETRY": "1",
    "ORT_TELEMETRY_DISABLED": "1",
}

WATCHED = "LOCALRAG_WATCHED"
"""Names the folder in which the processes of a watched run report themselves (`prove-offline`)."""

ANY_UNIX_SOCKET = "unix:"
"""For `allow`: sockets with a path, such as the bus of a desktop session."""

# Resolving a name already tells a server what we are after, so it counts as leaving.
_LOOKUPS = frozenset(
    {"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo"}
)
_TALKS = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})
_PORTS = {"http": 80, "https": 443, "socks4": 1080, "socks5": 1080, "socks5h": 1080}
_LOCALHOST = ("127.0.0.1", "::1")
_HEADERS = {"User-Agent": "localrag", "Accept-Encoding": "identity"}


class Attempt(NamedTuple):
    """One attempt to reach a host: who called (outermost library first), the audit event.

    `origin` is the innermost code outside the standard library: module, function, file, line.
    `host` is "unix:" and a path for such sockets. `own`: this process, or one that it started,
    listens there.
    """

    host: str
    caller: str
    event: str
    origin: str
    port: int | None = None
    own: bool = False

    @property
    def local(self) -> bool:
        """Whether the peer is on this machine."""
        return self.host.startswith(ANY_UNIX_SOCKET) or is_loopback(self.host)

    @property
    def address(self) -> str:
        """Host and port, as a person writes them."""
        host = f"[{self.host}]" if ":" in self.host and self.port is not None else self.host
        return host if self.port is None else f"{host}:{self.port}"


class _Door:
    """The hosts and ports of one `allow`; the addresses of its names join as they resolve."""

    def __init__(self, places: Iterable[tuple[str, int | None]]) -> None:
        self._places = set(places)

    def knows(self, name: str) -> bool:
        return any(host == name for host, _ in self._places)

    def opens(self, host: str, port: int | None) -> bool:
        if host.startswith(ANY_UNIX_SOCKET) and self.knows(ANY_UNIX_SOCKET):
            return True
        return (host, port) in self._places or (host, None) in self._places

    def resolved(self, name: str, addresses: Iterable[str]) -> None:
        # A name never leads to this machine, whatever a name server says.
        outside = [address for address in addresses if not is_loopback(address)]
        ports = [port for host, port in self._places if host == name]
        self._places.update((address, port) for address in outside for port in ports)


_lock = threading.RLock()
_closed = False
_hooked = False
_before: dict[str, str | None] = {}
"""The environment's variables that `close_doors` changed, as they were."""
# Replaced as a whole under the lock, so that the hook reads it without one.
_always: tuple[_Door, ...] = ()
_thread = threading.local()
_attempts: list[Attempt] = []
_let_through: Counter[Attempt] = Counter()
_journal: BinaryIO | None = None


def close_doors(allow: Iterable[str] = ()) -> None:
    """Keep this process, and the libraries in it, away from the network. May be called again.

    `allow` names servers on this machine that may be reached all the same, as `offline` does.
    """
    global _closed, _hooked, _always
    doors = tuple(_Door(_local_places(server)) for server in allow)
    quieten()
    with _lock:
        _always = (*_always, *doors)
        if not _closed:
            _closed = True
            for name in [name for name in os.environ if _is_proxy(name)]:
                _before[name] = os.environ.pop(name)
            for name, value in _OFFLINE.items():
                _before[name] = os.environ.get(name)
                os.environ[name] = value
        _pin_names()
        if not _hooked:
            _hooked = True
            _check_before_resolving()
            sys.addaudithook(_audit)
            check_in()


def offline(*, allow: Iterable[str] = ()) -> AbstractContextManager[object]:
    """Give a program that uses the Python API the guard that the command line has.

    From this call on, every attempt to connect or to resolve a name through Python's sockets, in
    every thread and by every library, raises `NetworkBlockedError`, an OSError; variables such as
    HTTPS_PROXY are gone from the environment, also for processes that are started later. Let
    through are the language model that the settings name (one on another machine only with
    `allow_network`), servers that this process or its children run, and what `allow` names: URLs
    of servers on this machine with their ports, such as "redis://127.0.0.1:6379", or
    "unix:/path/of/a/socket". Raises `ValueError` for anything else there.

        import localrag

        localrag.offline()  # for good

        with localrag.offline():  # or until the block ends
            ...

    Not seen are C code that opens sockets of its own, child processes, and connections that stand
    already; for those use the operating system's firewall, or `localrag prove-offline` to look.
    An audit hook cannot be removed: after a `with` block it stays, and lets everything pass.
    """
    global _always
    was_closed, doors = _closed, _always
    close_doors(allow)
    added = _always[len(doors) :]

    def leave() -> None:
        global _always
        with _lock:
            _always = tuple(door for door in _always if door not in added)
        if not was_closed:
            _reopen()

    stack = ExitStack()
    stack.callback(leave)
    return stack


def _reopen() -> None:
    global _closed
    with _lock:
        _closed = False
        for name, value in _before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        _before.clear()


def quieten() -> None:
    """Set the switches by which libraries are told not to report; before they are imported."""
    os.environ.update(_NO_REPORTS)


def attempts() -> tuple[Attempt, ...]:
    """What was blocked since `close_doors`, oldest first."""
    return tuple(_attempts)


def let_through() -> Counter[Attempt]:
    """What was not blocked since `close_doors`, and how often; servers of this machine too."""
    return _let_through.copy()


def report(blocked: Iterable[Attempt]) -> None:
    """Take over what was blocked in a process that works for this one."""
    _attempts.extend(blocked)


def check_in(command: Sequence[str] = sys.orig_argv) -> None:
    """Report this process to the watched run that it belongs to, if there is one."""
    global _journal
    if folder := os.environ.get(WATCHED):
        # Kept open: a process that reads files may give up the right to open any.
        with suppress(OSError):
            _journal = files.append_file(Path(folder, f"{os.getpid()}.jsonl"))
        _write_down({"command": list(command)})


def _write_down(line: Mapping[str, object]) -> None:
    # Who watches fails the run for a line that is missing.
    if _journal is not None:
        with suppress(OSError):
            _journal.write(json.dumps(line).encode("ascii") + b"\n")
            _journal.flush()


@contextmanager
def allow(servers: Iterable[str]) -> Iterator[None]:
    """Open the door for these servers, in this thread, until the block ends.

    A URL opens its port alone, a bare name every port; a server on this machine needs a URL.
    The proxies that the environment named are let through too where one of the servers is
    elsewhere, because traffic goes by them. Blocks may nest. Harmless where `close_doors` was not
    called.
    """
    places = {place for server in servers for place in _places(server)}
    if any(not (host.startswith(ANY_UNIX_SOCKET) or is_loopback(host)) for host, _ in places):
        places |= _proxy_places()
    outer = _doors()
    _thread.doors = (*outer, _Door(places))
    with _lock:
        _pin_names()
    try:
        yield
    finally:
        _thread.doors = outer


def is_loopback(host: object) -> bool:
    """Whether a host is this machine: exactly "localhost", or a loopback address in full.

    Nothing is resolved. Names under localhost, with a final dot or a zone, and numbers that only
    some resolvers take for an address (127.1, 0x7f.1) are names like any other.
    """
    address = _address(host)
    return _text(host).lower() == "localhost" or (address is not None and address.is_loopback)


def proxies() -> dict[str, str]:
    """The variables that name proxies, for a program that is to connect as the user set it up."""
    names = _before if _closed else os.environ
    return {name: value for name, value in names.items() if value and _is_proxy(name)}


def client(
    *, certificate: str | None = None, proxy: str | None = None, timeout: float = 30.0
) -> httpx.Client:
    """An HTTP client with the machine's certificates and proxies; follows no redirects.

    Trusts the system's certificates and those that SSL_CERT_FILE,
    REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE or `certificate` (a file or folder) add.
    `proxy` is used where the environment names none. `timeout` is in seconds
    and counts each wait, not the whole transfer. Opens no door by itself.
    Raises `ConfigError` when a named certificate cannot be read.
    """
    import ssl

    import certifi
    import httpx

    from localrag.egress.unpacking import unpack

    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    names = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
    for path in {os.environ.get(name) or "" for name in names} | {certificate or ""}:
        if path:
            _trust(context, path)
    with _proxies_in_place():  # the client reads them when it is made
        return httpx.Client(
            verify=context,
            proxy=None if _proxy_places() else proxy,
            mounts=dict.fromkeys(("all://localhost", "all://127.0.0.1", "all://[::1]")),
            timeout=timeout,
            headers=_HEADERS,
            event_hooks={"response": [unpack]},
            follow_redirects=False,
        )


def local_client(timeout: float) -> httpx.Client:
    """An HTTP client for a server on this machine: no proxy, no redirect. Opens no door."""
    import httpx

    from localrag.egress.unpacking import unpack

    return httpx.Client(
        trust_env=False,
        follow_redirects=False,
        timeout=timeout,
        headers=_HEADERS,
        event_hooks={"response": [unpack]},
    )


def _trust(context: Any, path: str) -> None:
    try:
        if os.path.isdir(path):  # noqa: PTH112 - pathlib is not needed here
            context.load_verify_locations(capath=path)
        else:
            context.load_verify_locations(cafile=path)
    except OSError as error:
        raise ConfigError(
            "The certificate file {path} cannot be used: {reason}.",
            hint="Correct SSL_CERT_FILE, REQUESTS_CA_BUNDLE or pip's `cert` setting.",
            path=path,
            reason=error,
        ) from error


# Proxies


def _is_proxy(name: str) -> bool:
    return name.lower().endswith("_proxy")  # as urllib reads them


@contextmanager
def _proxies_in_place() -> Iterator[None]:
    """Put the proxies back into the environment; connecting to them is still `allow`'s affair."""
    with _lock:
        put_back = proxies() if _closed else {}
        os.environ.update(put_back)
        try:
            yield
        finally:
            for name in put_back:
                os.environ.pop(name, None)


def _proxy_places() -> set[tuple[str, int | None]]:
    urls = [url for name, url in proxies().items() if name.lower() != "no_proxy"]
    if not urls:
        from urllib.request import getproxies

        urls = [url for scheme, url in getproxies().items() if scheme != "no"]
    places: set[tuple[str, int | None]] = set()
    for url in urls:
        with suppress(ValueError):  # an address that no client can use either
            places.update(_places(url if "://" in url else f"http://{url}"))
    return places


# Hosts and addresses


def _text(host: object) -> str:
    if isinstance(host, bytes | bytearray):
        return host.decode("ascii", "replace")
    return str(host)


def _address(host: object) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address, if it is written in full; an IPv4 address within IPv6 as the former."""
    import ipaddress

    text = _text(host)
    bracketed = text.startswith("[") and text.endswith("]")
    try:
        address = ipaddress.ip_address(text[1:-1] if bracketed else text)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv4Address):
        return None if bracketed else address
    if address.scope_id is None:
        return address.ipv4_mapped or address
    # Loopback has no zones, and a zone with dots in it could be a name in disguise.
    return address if address.is_link_local and address.scope_id.isalnum() else None


def _normalise(host: object) -> str:
    if (address := _address(host)) is not None:
        return str(address)
    text = _text(host)
    if not text.isascii():
        with suppress(UnicodeError):
            text = text.encode("idna").decode("ascii")
    return text.rstrip(".").lower()


def _places(server: str) -> set[tuple[str, int | None]]:
    """Hosts and ports that a URL or a bare name means. Raises `ValueError`."""
    if server.startswith(ANY_UNIX_SOCKET):
        return {(server, None)}
    host, port = server, None
    if "://" in server:
        from urllib.parse import urlsplit

        parts = urlsplit(server)
        host, port = parts.hostname or "", parts.port or _PORTS.get(parts.scheme)
    if not host:
        raise ValueError(f"no host in {server!r}")
    if not is_loopback(host):
        return {(_normalise(host), port)}
    if port is None:
        raise ValueError(f"a server on this machine needs a scheme and a port, was: {server!r}")
    hosts = _LOCALHOST if _address(host) is None else (_normalise(host),)
    return {(each, port) for each in hosts}


def _local_places(server: str) -> set[tuple[str, int | None]]:
    places = _places(server)
    for host, _ in places:
        if host == ANY_UNIX_SOCKET or not Attempt(host, "", "", "").local:
            raise ValueError(f"not a server on this machine: {server!r}")
    return places


def _pin_names() -> None:
    """Let `localhost` mean the loopback addresses, and note what the names of a door resolve to.

    `connect` is given addresses only; those that were noted are the ones it may reach.
    """
    import socket

    resolve: Callable[..., Any] = socket.getaddrinfo
    if getattr(resolve, "pins", False):
        return

    def getaddrinfo(host: Any, port: Any, *rest: Any, **named: Any) -> Any:
        if _text(host).lower() == "localhost":
            here: list[Any] = []
            for address in _LOCALHOST:
                with suppress(socket.gaierror):  # of the wrong family, or the machine lacks it
                    here += resolve(address, port, *rest, **named)
            return here or resolve(_LOCALHOST[0], port, *rest, **named)
        found = resolve(host, port, *rest, **named)
        if host:
            name, addresses = _normalise(host), [_normalise(one[4][0]) for one in found]
            for door in _doors():
                door.resolved(name, addresses)
        return found

    getaddrinfo.pins = True  # type: ignore[attr-defined]
    socket.getaddrinfo = getaddrinfo


def _check_before_resolving() -> None:
    """Resolve the names that sockets are given by `getaddrinfo`, where the hook hears of it.

    Python resolves them in C otherwise, and calls the hook when the name server has been asked.
    """
    import socket

    def pinned(sock: socket.socket, address: Any) -> Any:
        inet = sock.family in (socket.AF_INET, socket.AF_INET6)
        if not (_closed and inet and isinstance(address, tuple) and len(address) > 1):
            return address
        if not address[0] or _address(address[0]) is not None:
            return address
        found = socket.getaddrinfo(address[0], address[1], sock.family, sock.type)
        return (*found[0][4][:2], *(address[2:] or found[0][4][2:]))

    def last(method: Callable[..., Any]) -> Callable[..., Any]:
        def checked(self: socket.socket, *args: Any) -> Any:
            return method(self, *args[:-1], pinned(self, args[-1])) if args else method(self)

        return checked

    def fourth(method: Callable[..., Any]) -> Callable[..., Any]:
        def checked(self: socket.socket, *args: Any) -> Any:
            if len(args) > 3:
                args = (*args[:3], pinned(self, args[3]))
            return method(self, *args)

        return checked

    for name in ("connect", "connect_ex", "bind", "sendto"):
        setattr(socket.socket, name, last(getattr(socket.socket, name)))
    if hasattr(socket.socket, "sendmsg"):
        setattr(socket.socket, "sendmsg", fourth(socket.socket.sendmsg))  # noqa: B010


# The hook


def _doors() -> tuple[_Door, ...]:
    return getattr(_thread, "doors", ())


def _audit(event: str, args: tuple[Any, ...]) -> None:
    # Called for every audit event of the process (each file opened, each import).
    if not event.startswith("socket.") or not _closed:
        return
    if event in _LOOKUPS:
        host = args[0][0] if isinstance(args[0], tuple) else args[0]
        # An empty host asks for the addresses of this machine, as servers do.
        if not host or is_loopback(host) or _is_unspecified(host):
            return
        name = _normalise(host)
        if any(door.knows(name) for door in _doors()):
            _note(Attempt(name, _callers(), event, _origin()))
        else:
            _refuse(event, name, None)
    elif event in _TALKS:
        peer = _peer(args[0], args[1])
        if peer is not None:
            _decide(event, args[0], *peer)
    elif event == "socket.__new__":
        _check_proactor()
        _check_kind(event, *args)


def _decide(event: str, sock: Any, host: str, port: int | None) -> None:
    attempt = Attempt(host, _callers(), event, _origin(), port)
    if any(door.opens(host, port) for door in (*_always, *_doors())):
        _note(attempt)
    elif attempt.local and _listens_here(sock, host, port):
        _note(attempt._replace(own=True))
    else:
        _refuse(event, host, port)


def _note(attempt: Attempt) -> None:
    with _lock:
        _let_through[attempt] += 1


def _refuse(event: str, host: str, port: int | None) -> NoReturn:
    attempt = Attempt(host, _callers(), event, _origin(), port)
    _attempts.append(attempt)
    _write_down(attempt._asdict())
    if attempt.local:
        raise NetworkBlockedError(
            "{caller} tried to reach {host} on this machine and was stopped: it may pass on what "
            "it is sent, and the settings do not name it.",
            hint="Only the server of `llm.base_url` may be reached; programs name others with "
            "localrag.offline(allow=[...]).",
            caller=attempt.caller,
            host=attempt.address,
        )
    raise NetworkBlockedError(
        "{caller} tried to reach {host} and was stopped: localrag stays on this machine.",
        hint="Only `localrag models pull` may connect, and a hosted model where "
        "allow_network = true.",
        caller=attempt.caller,
        host=host,
    )


def _is_unspecified(host: object) -> bool:
    address = _address(host)
    return address is not None and address.is_unspecified


def _peer(sock: Any, address: Any) -> tuple[str, int | None] | None:
    """Whom a socket is about to talk to; None where it is nobody, or the kernel."""
    import socket

    if address is None or sock.family in _families("AF_NETLINK", "AF_ALG"):
        return None
    if sock.family in _families("AF_UNIX"):
        return ANY_UNIX_SOCKET + os.fsdecode(bytes(_encoded(address))).replace("\0", "@"), None
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return f"{sock.family!s} {address!r}", None
    host, port = address[0], address[1]
    if not host or _is_unspecified(host):  # the kernel takes them for this machine
        return _LOCALHOST[sock.family == socket.AF_INET6], port
    # What is still a name has been resolved by the interpreter, nobody knows to what.
    name = _normalise(host)
    return name if _address(host) is not None else f"{name} (unresolved)", port


def _encoded(address: Any) -> bytes:
    return os.fsencode(address) if isinstance(address, str) else bytes(address)


def _families(*names: str) -> set[object]:
    import socket

    return {getattr(socket, name, None) for name in names} - {None}


def _check_kind(event: str, sock: Any, family: int, kind: int, _proto: int) -> None:
    """Refuse sockets whose traffic no event shows: below `socket.socket`, and raw ones."""
    import socket

    plain = {socket.SOCK_STREAM, socket.SOCK_DGRAM, -1}
    kinds = kind & ~(getattr(socket, "SOCK_NONBLOCK", 0) | getattr(socket, "SOCK_CLOEXEC", 0))
    inet = family in (socket.AF_INET, socket.AF_INET6)
    usual = (inet and (kind == -1 or kinds in plain)) or family in (
        {-1} | _families("AF_UNIX", "AF_NETLINK", "AF_ALG")
    )
    if not (usual and isinstance(sock, socket.socket)):
        _refuse(event, f"{type(sock).__module__} {family} {kind}", None)


def _check_proactor() -> None:
    """Have asyncio on Windows call the hook: it connects in C, and no event is raised there."""
    if sys.platform != "win32":
        return
    proactor = getattr(sys.modules.get("asyncio.windows_events"), "IocpProactor", None)
    if proactor is None or getattr(proactor, "asks", False):
        return
    connect, sendto = proactor.connect, proactor.sendto

    def asking_connect(self: Any, conn: Any, address: Any) -> Any:
        sys.audit("socket.connect", conn, address)
        return connect(self, conn, address)

    def asking_sendto(self: Any, conn: Any, buf: Any, flags: int = 0, addr: Any = None) -> Any:
        sys.audit("socket.sendto", conn, addr)
        return sendto(self, conn, buf, flags, addr)

    proactor.connect, proactor.sendto, proactor.asks = asking_connect, asking_sendto, True


def _listens_here(sock: Any, host: str, port: int | None) -> bool:
    """Whether this process, or one that it started, listens there with a socket of that kind."""
    import socket

    import psutil

    pools = sys.modules.get("multiprocessing.process")
    parent = pools.parent_process() if pools else None
    kind = "udp" if sock.type == socket.SOCK_DGRAM else "tcp"
    if host.startswith(ANY_UNIX_SOCKET):
        kind = "unix"
    waiting = {"udp": psutil.CONN_NONE, "tcp": psutil.CONN_LISTEN}.get(kind)
    family: list[psutil.Process] = []
    with suppress(psutil.Error):  # it has ended, or is not ours to look into
        family += [root := psutil.Process(parent.pid if parent else None)]
        family += root.children(recursive=True)
    for process in family:
        with suppress(psutil.Error):
            for one in process.net_connections(kind):
                if kind == "unix":
                    if one.laddr and ANY_UNIX_SOCKET + str(one.laddr).replace("\0", "@") == host:
                        return True
                elif one.status == waiting and one.laddr and one.laddr.port == port:
                    here = _normalise(one.laddr.ip)
                    if here == host or _is_unspecified(here):
                        return True
    return False


def _callers() -> str:
    """The libraries on the stack, outermost first, without the standard library and us."""
    names: list[str] = []
    frame = sys._getframe(1)
    while frame is not None:
        name = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        ours = name in sys.stdlib_module_names or name in ("", "localrag", "__main__")
        if not ours and names[-1:] != [name]:
            names.append(name)
        frame = frame.f_back  # type: ignore[assignment]
    return " > ".join(reversed(names)) or "localrag"


def _origin() -> str:
    """The innermost code that is neither the standard library's nor this module's."""
    frame = sys._getframe(1)
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name not in ("", __name__) and name.partition(".")[0] not in sys.stdlib_module_names:
            code = frame.f_code
            return f"{name}.{code.co_name} ({code.co_filename}:{frame.f_lineno})"
        frame = frame.f_back  # type: ignore[assignment]
    return ""
