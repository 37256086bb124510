"""Python's sockets, made to ask: what the guard needs to see before anything is sent.

Names are resolved where the audit hook hears of it, `localhost` means the loopback addresses, and
asyncio on Windows calls the hook too. Knows nothing of who may connect.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from localrag.egress.addresses import (
    ANY_UNIX_SOCKET,
    LOCALHOST,
    Place,
    address,
    as_text,
    is_unspecified,
    normalise,
)

Resolved = Callable[[str, Iterable[str]], None]
"""Told of a name and the addresses that it resolved to."""


def pin_names(resolved: Resolved) -> None:
    """Let `localhost` mean the loopback addresses, and tell what other names resolve to.

    `connect` is given addresses only; those that were told are the ones it may reach.
    """
    resolve: Callable[..., Any] = socket.getaddrinfo
    if getattr(resolve, "pins", False):
        return

    def getaddrinfo(host: Any, port: Any, *rest: Any, **named: Any) -> Any:
        if as_text(host).lower() == "localhost":
            here: list[Any] = []
            for loopback in LOCALHOST:
                with suppress(socket.gaierror):  # of the wrong family, or the machine lacks it
                    here += resolve(loopback, port, *rest, **named)
            return here or resolve(LOCALHOST[0], port, *rest, **named)
        entries = resolve(host, port, *rest, **named)
        if host:
            resolved(normalise(host), [normalise(entry[4][0]) for entry in entries])
        return entries

    getaddrinfo.pins = True  # type: ignore[attr-defined]
    socket.getaddrinfo = getaddrinfo


def check_before_resolving(closed: Callable[[], bool]) -> None:
    """Resolve the names that sockets are given by `getaddrinfo`, where the hook hears of it.

    Python resolves them in C otherwise, and calls the hook when the name server has been asked.
    """

    def pinned(sock: socket.socket, peer: Any) -> Any:
        inet = sock.family in (socket.AF_INET, socket.AF_INET6)
        if not (closed() and inet and isinstance(peer, tuple) and len(peer) > 1):
            return peer
        if not peer[0] or address(peer[0]) is not None:
            return peer
        entries = socket.getaddrinfo(peer[0], peer[1], sock.family, sock.type)
        return (*entries[0][4][:2], *(peer[2:] or entries[0][4][2:]))

    def checking(method: Callable[..., Any], place: int) -> Callable[..., Any]:
        def checked(self: socket.socket, *args: Any) -> Any:
            arguments = list(args)
            if arguments and place < len(arguments):
                arguments[place] = pinned(self, arguments[place])
            return method(self, *arguments)

        return checked

    for name in ("connect", "connect_ex", "bind", "sendto", "sendmsg"):
        if hasattr(socket.socket, name):
            # Where the peer stands among the arguments: mostly it is the last.
            place = 3 if name == "sendmsg" else -1
            setattr(socket.socket, name, checking(getattr(socket.socket, name), place))


def peer(sock: Any, given: Any) -> Place | None:
    """Whom a socket is about to talk to; None where it is nobody, or the kernel."""
    if given is None or sock.family in _families("AF_NETLINK", "AF_ALG"):
        return None
    if sock.family in _families("AF_UNIX"):
        path = os.fsencode(given) if isinstance(given, str) else bytes(given)
        return ANY_UNIX_SOCKET + os.fsdecode(path).replace("\0", "@"), None
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return f"{sock.family!s} {given!r}", None
    host, port = given[0], given[1]
    if not host or is_unspecified(host):  # the kernel takes them for this machine
        return LOCALHOST[sock.family == socket.AF_INET6], port
    # What is still a name has been resolved by the interpreter, nobody knows to what.
    name = normalise(host)
    return name if address(host) is not None else f"{name} (unresolved)", port


def _families(*names: str) -> set[object]:
    return {getattr(socket, name, None) for name in names} - {None}


def is_seen(sock: Any, family: int, kind: int) -> bool:
    """Whether events show a socket's traffic: not of one below `socket.socket`, nor a raw one."""
    plain = {socket.SOCK_STREAM, socket.SOCK_DGRAM, -1}
    kinds = kind & ~(getattr(socket, "SOCK_NONBLOCK", 0) | getattr(socket, "SOCK_CLOEXEC", 0))
    inet = family in (socket.AF_INET, socket.AF_INET6)
    usual = (inet and (kind == -1 or kinds in plain)) or family in (
        {-1} | _families("AF_UNIX", "AF_NETLINK", "AF_ALG")
    )
    return usual and isinstance(sock, socket.socket)


def check_proactor() -> None:
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


def listens_here(sock: Any, host: str, port: int | None) -> bool:
    """Whether this process, or one that it started, listens there with a socket of that kind."""
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
            for connection in process.net_connections(kind):
                if kind == "unix":
                    if (
                        connection.laddr
                        and ANY_UNIX_SOCKET + str(connection.laddr).replace("\0", "@") == host
                    ):
                        return True
                elif (
                    connection.status == waiting
                    and connection.laddr
                    and connection.laddr.port == port
                ):
                    here = normalise(connection.laddr.ip)
                    if here == host or is_unspecified(here):
                        return True
    return False
