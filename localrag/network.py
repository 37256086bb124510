"""The only door out of the process.

`close_doors` sets the switches by which libraries are told to stay offline and
installs an audit hook (PEP 578) that stops every attempt to connect or to
resolve a name, unless the peer is this machine or `allow` names it. The hook
sees what goes through Python's socket module; it does not see child processes
or C code that opens sockets of its own. It cannot be removed once installed.

Imports nothing heavy: the command line calls this before anything else.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from localrag.errors import ConfigError, NetworkBlockedError

if TYPE_CHECKING:
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

# Resolving a name already tells a server what we are after, so it counts as leaving.
_HOST_FIRST = frozenset(
    {"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo"}
)
_SOCKET_FIRST = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})


class Attempt(NamedTuple):
    """One attempt to reach a host: who called (outermost library first), the audit event.

    `origin` is the innermost code outside the standard library: module, function, file, line.
    """

    host: str
    caller: str
    event: str
    origin: str


class _Door:
    """The hosts of one `allow`, and the addresses that they resolved to while it was open."""

    def __init__(self, hosts: frozenset[str]) -> None:
        self.hosts = hosts
        self.addresses: set[str] = set()


_lock = threading.Lock()
_closed = False
_recording = False
# Replaced as a whole under the lock, so that the hook reads it without one.
_open: tuple[_Door, ...] = ()
_attempts: list[Attempt] = []
_let_through: deque[Attempt] = deque(maxlen=1000)


def close_doors() -> None:
    """Keep this process, and the libraries in it, on this machine. May be called again."""
    global _closed
    os.environ.update(_OFFLINE)
    quieten()
    with _lock:
        if not _closed:
            _closed = True
            sys.addaudithook(_audit)


def quieten() -> None:
    """Set the switches by which libraries are told not to report; before they are imported."""
    os.environ.update(_NO_REPORTS)


def attempts() -> tuple[Attempt, ...]:
    """What was blocked since `close_doors`, oldest first."""
    return tuple(_attempts)


def let_through() -> tuple[Attempt, ...]:
    """What `allow` opened the door for since `close_doors`, oldest first."""
    return tuple(_let_through)


def report(blocked: Iterable[Attempt]) -> None:
    """Take over what was blocked in a process that works for this one."""
    _attempts.extend(blocked)


@contextmanager
def allow(hosts: Iterable[str]) -> Iterator[None]:
    """Open the door for these hosts, in all threads, until the block ends.

    The proxy that the environment names is let through too, because traffic to
    the hosts goes by it. Blocks may nest. Harmless where `close_doors` was not called.
    """
    global _open
    named = frozenset(_normalise(host) for host in hosts)
    door = _Door(named | _proxy_hosts())
    with _lock:
        _open = (*_open, door)
        if _closed:
            _record_addresses()
    try:
        yield
    finally:
        with _lock:
            _open = tuple(other for other in _open if other is not door)


def is_loopback(host: str) -> bool:
    """Whether a host name or address means this machine; a name is never resolved."""
    import ipaddress

    name = _normalise(host)
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped.is_loopback
    return address.is_loopback


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

    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    names = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
    for path in {os.environ.get(name) or "" for name in names} | {certificate or ""}:
        if path:
            _trust(context, path)
    return httpx.Client(
        verify=context,
        proxy=None if _proxy_hosts() else proxy,
        mounts={"all://localhost": None, "all://127.0.0.1": None},
        timeout=timeout,
        headers={"User-Agent": "localrag", "Accept-Encoding": "identity"},
        follow_redirects=False,
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


def _proxy_hosts() -> frozenset[str]:
    from urllib.parse import urlsplit
    from urllib.request import getproxies

    urls = [url for scheme, url in getproxies().items() if scheme != "no"]
    hosts = (urlsplit(url if "//" in url else f"//{url}").hostname for url in urls)
    return frozenset(_normalise(host) for host in hosts if host)


def _normalise(host: object) -> str:
    text = host.decode("ascii", "replace") if isinstance(host, bytes) else str(host)
    return text.strip("[]").partition("%")[0].rstrip(".").lower()


def _audit(event: str, args: tuple[Any, ...]) -> None:
    # Called for every audit event of the process (each file opened, each import).
    if event in _HOST_FIRST:
        host = args[0]
        if isinstance(host, tuple):
            host = host[0]
    elif event in _SOCKET_FIRST:
        host = _peer(args[0], args[1])
    else:
        return
    # An empty host asks for the addresses of this machine, as servers do.
    if host in (None, "", b""):
        return
    name = _normalise(host)
    if is_loopback(name):
        return
    caller = _callers()
    attempt = Attempt(name, caller, event, _origin())
    if any(name in door.hosts or name in door.addresses for door in _open):
        _let_through.append(attempt)
        return
    _attempts.append(attempt)
    raise NetworkBlockedError(
        "{caller} tried to reach {host} and was stopped: localrag stays on this machine.",
        hint="Only `localrag models pull` may connect, and a hosted model where "
        "allow_network = true.",
        caller=caller,
        host=name,
    )


def _peer(sock: Any, address: object) -> object:
    """The host a socket is about to talk to; None when it cannot leave the machine."""
    import socket

    if sock.family in (socket.AF_INET, socket.AF_INET6):
        return address[0] if isinstance(address, tuple) else address
    local = {getattr(socket, name, None) for name in ("AF_UNIX", "AF_NETLINK", "AF_ALG")}
    return None if sock.family in local else f"{sock.family!s} {address!r}"


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


def _record_addresses() -> None:
    """Note what allowed names resolve to: `connect` is given addresses only."""
    global _recording
    if _recording:
        return
    _recording = True
    import socket

    resolve: Callable[..., Any] = socket.getaddrinfo

    def getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> Any:
        results = resolve(host, *args, **kwargs)
        name = _normalise(host)
        for door in _open:
            if name in door.hosts:
                door.addresses.update(_normalise(result[4][0]) for result in results)
        return results

    socket.getaddrinfo = getaddrinfo
