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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO, NamedTuple, NoReturn

from localrag.egress import proxies, sockets
from localrag.egress.addresses import (
    ANY_UNIX_SOCKET,
    Place,
    is_local,
    is_loopback,
    is_unspecified,
    local_places,
    normalise,
    places,
)
from localrag.errors import NetworkBlockedError
from localrag.system import files

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

# Resolving a name already tells a server what we are after, so it counts as leaving.
_LOOKUPS = frozenset(
    {"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo"}
)
_TALKS = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})


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
        return is_local(self.host)

    @property
    def address(self) -> str:
        """Host and port, as a person writes them."""
        host = f"[{self.host}]" if ":" in self.host and self.port is not None else self.host
        return host if self.port is None else f"{host}:{self.port}"


class _Door:
    """The hosts and ports of one `allow`; the addresses of its names join as they resolve."""

    def __init__(self, places: Iterable[Place]) -> None:
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
    doors = tuple(_Door(local_places(server)) for server in allow)
    quieten()
    with _lock:
        _always = (*_always, *doors)
        if not _closed:
            _closed = True
            proxies.hide()
            for name, value in _OFFLINE.items():
                _before[name] = os.environ.get(name)
                os.environ[name] = value
        sockets.pin_names(_resolved)
        if not _hooked:
            _hooked = True
            sockets.check_before_resolving(lambda: _closed)
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
        global _always, _closed
        with _lock:
            _always = tuple(door for door in _always if door not in added)
            if was_closed:
                return
            _closed = False
            proxies.show()
            for name, value in _before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
            _before.clear()

    stack = ExitStack()
    stack.callback(leave)
    return stack


def quieten() -> None:
    """Set the switches by which libraries are told not to report; before they are imported."""
    os.environ.update(_NO_REPORTS)


def attempts() -> tuple[Attempt, ...]:
    """What was blocked since `close_doors`, oldest first."""
    return tuple(_attempts)


def let_through() -> Counter[Attempt]:
    """What was not blocked since `close_doors`, and how often; servers of this machine too."""
    return _let_through.copy()


def outside() -> int:
    """How often something went to another machine since `close_doors`."""
    return sum(count for attempt, count in let_through().items() if not attempt.local)


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
    opened = {place for server in servers for place in places(server)}
    if not all(is_local(host) for host, _ in opened):
        opened |= proxies.places()
    outer = _doors()
    _thread.doors = (*outer, _Door(opened))
    with _lock:
        sockets.pin_names(_resolved)
    try:
        yield
    finally:
        _thread.doors = outer


# The hook


def _doors() -> tuple[_Door, ...]:
    return getattr(_thread, "doors", ())


def _resolved(name: str, addresses: Iterable[str]) -> None:
    for door in _doors():
        door.resolved(name, addresses)


def _audit(event: str, args: tuple[Any, ...]) -> None:
    # Called for every audit event of the process (each file opened, each import).
    if not event.startswith("socket.") or not _closed:
        return
    if event in _LOOKUPS:
        host = args[0][0] if isinstance(args[0], tuple) else args[0]
        # An empty host asks for the addresses of this machine, as servers do.
        if not host or is_loopback(host) or is_unspecified(host):
            return
        name = normalise(host)
        known = any(door.knows(name) for door in _doors())
        (_note if known else _refuse)(Attempt(name, _callers(), event, _origin()))
    elif event in _TALKS:
        if peer := sockets.peer(args[0], args[1]):
            _decide(event, args[0], *peer)
    elif event == "socket.__new__":
        sockets.check_proactor()
        sock, family, kind, _ = args
        if not sockets.is_seen(sock, family, kind):
            host = f"{type(sock).__module__} {family} {kind}"
            _refuse(Attempt(host, _callers(), event, _origin()))


def _decide(event: str, sock: Any, host: str, port: int | None) -> None:
    attempt = Attempt(host, _callers(), event, _origin(), port)
    if any(door.opens(host, port) for door in (*_always, *_doors())):
        _note(attempt)
    elif attempt.local and sockets.listens_here(sock, host, port):
        _note(attempt._replace(own=True))
    else:
        _refuse(attempt)


def _note(attempt: Attempt) -> None:
    with _lock:
        _let_through[attempt] += 1


def _refuse(attempt: Attempt) -> NoReturn:
    _attempts.append(attempt)
    _write_down(attempt._asdict())
    if attempt.local:
        raise NetworkBlockedError(
            "{caller} tried to reach {host} on this machine and was blocked: the settings do "
            "not name it, and it could forward what it receives.",
            hint="Only the servers in `llm.base_url` may be reached; programs can allow "
            "others with localrag.offline(allow=[...]).",
            caller=attempt.caller,
            host=attempt.address,
        )
    raise NetworkBlockedError(
        "{caller} tried to reach {host} and was blocked: localrag stays on this machine.",
        hint="Only `localrag models pull` may connect, and hosted models when allow_network "
        "= true.",
        caller=attempt.caller,
        host=attempt.host,
    )


def _callers() -> str:
    """The libraries on the stack, outermost first, without the standard library and us."""
    names: list[str] = []
    for library, _, _ in _stack():
        if library not in ("localrag", "__main__") and names[-1:] != [library]:
            names.append(library)
    return " > ".join(reversed(names)) or "localrag"


def _origin() -> str:
    """The innermost code that is neither the standard library's nor the guard's."""
    for _, name, frame in _stack():
        if name not in (__name__, sockets.__name__):
            code = frame.f_code
            return f"{name}.{code.co_name} ({code.co_filename}:{frame.f_lineno})"
    return ""


def _stack() -> Iterator[tuple[str, str, FrameType]]:
    """Package, module and frame of each call, innermost first, without the standard library."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        package = name.partition(".")[0]
        if package and package not in sys.stdlib_module_names:
            yield package, name, frame
        frame = frame.f_back
