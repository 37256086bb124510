"""Hosts and addresses as they are written: which of them are this machine, what a URL opens.

Nothing is resolved. Imports nothing heavy.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ipaddress

Place = tuple[str, int | None]
"""A host, or "unix:" and a path, and a port; None stands for every port."""

ANY_UNIX_SOCKET = "unix:"
"""Sockets with a path, such as the bus of a desktop session."""

LOCALHOST = ("127.0.0.1", "::1")
_PORTS = {"http": 80, "https": 443, "socks4": 1080, "socks5": 1080, "socks5h": 1080}


def is_loopback(host: object) -> bool:
    """Whether a host is this machine: exactly "localhost", or a loopback address in full.

    Nothing is resolved. Names under localhost, with a final dot or a zone, and numbers that only
    some resolvers take for an address (127.1, 0x7f.1) are names like any other.
    """
    ip = address(host)
    return as_text(host).lower() == "localhost" or (ip is not None and ip.is_loopback)


def is_local(host: str) -> bool:
    """Whether a peer is on this machine; a socket with a path is."""
    return host.startswith(ANY_UNIX_SOCKET) or is_loopback(host)


def is_unspecified(host: object) -> bool:
    """Whether it is an address that stands for every one of this machine: 0.0.0.0, ::."""
    ip = address(host)
    return ip is not None and ip.is_unspecified


def as_text(host: object) -> str:
    """A host as the socket module takes it: text or bytes."""
    if isinstance(host, bytes | bytearray):
        return host.decode("ascii", "replace")
    return str(host)


def address(host: object) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address, if it is written in full; an IPv4 address within IPv6 as the former."""
    import ipaddress

    text = as_text(host)
    bracketed = text.startswith("[") and text.endswith("]")
    try:
        ip = ipaddress.ip_address(text[1:-1] if bracketed else text)
    except ValueError:
        return None
    if isinstance(ip, ipaddress.IPv4Address):
        return None if bracketed else ip
    if ip.scope_id is None:
        return ip.ipv4_mapped or ip
    # Loopback has no zones, and a zone with dots in it could be a name in disguise.
    return ip if ip.is_link_local and ip.scope_id.isalnum() else None


def normalise(host: object) -> str:
    """One spelling of a host: addresses in their short form, names in ASCII and lower case."""
    if (ip := address(host)) is not None:
        return str(ip)
    text = as_text(host)
    if not text.isascii():
        with suppress(UnicodeError):
            text = text.encode("idna").decode("ascii")
    return text.rstrip(".").lower()


def places(server: str) -> set[Place]:
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
        return {(normalise(host), port)}
    if port is None:
        raise ValueError(f"a server on this machine needs a scheme and a port, was: {server!r}")
    hosts = LOCALHOST if address(host) is None else (normalise(host),)
    return {(ip, port) for ip in hosts}


def local_places(server: str) -> set[Place]:
    """The same for a server on this machine. Raises `ValueError` for any other."""
    hosts = places(server)
    if any(host == ANY_UNIX_SOCKET or not is_local(host) for host, _ in hosts):
        raise ValueError(f"not a server on this machine: {server!r}")
    return hosts
