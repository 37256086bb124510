"""Where the server listens and by which names it is called; beyond this machine only over TLS."""

from __future__ import annotations

import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from localrag.egress.addresses import is_loopback
from localrag.errors import UsageError


@dataclass(frozen=True, slots=True)
class Reach:
    """An address to listen at, and how a server there is called."""

    host: str
    names: tuple[str, ...] = ()
    """Beside those of this machine, as in `Access`."""
    tls: ssl.SSLContext | None = None
    proxy: str = ""


def reach(
    host: str,
    certificate: Path | None,
    key: Path | None,
    proxy: str | None,
    *,
    over_socket: bool = False,
) -> Reach:
    """What was asked for. Raises `UsageError` for what others could read along or get into."""
    if over_socket and proxy is None:
        raise UsageError(
            "On a Unix socket nobody but a reverse proxy reaches the server.",
            hint="Name the proxy with --behind-proxy https://NAME.",
        )
    host = "127.0.0.1" if host == "localhost" else host
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        address = None
    if address is None or "%" in host:
        raise UsageError(
            "{host} is not an IP address.",
            hint="Give the address to listen at, such as 192.168.1.5, or 0.0.0.0 for all; names "
            "come from the certificate.",
            host=host,
        )
    if (certificate is None) != (key is None):
        raise UsageError(
            "A certificate and its key belong together.", hint="Give --tls-cert and --tls-key."
        )
    if proxy is not None:
        if certificate is not None or not is_loopback(host):
            raise UsageError(
                "Behind a reverse proxy the server listens on this machine only, and the proxy "
                "speaks TLS.",
                hint="Leave out --host, --tls-cert and --tls-key.",
            )
        return Reach(host, proxy=_origin(proxy))
    own = () if address.is_unspecified or is_loopback(host) else (_literal(host),)
    if certificate is not None and key is not None:
        context = _context(certificate, key)
        # What is on this machine alone comes last: the first is in links.
        named = sorted(_names(context, certificate), key=lambda name: is_loopback(name.strip("[]")))
        names = tuple(dict.fromkeys((*named, *own)))
        if not names:
            raise UsageError(
                "The certificate {path} names no host.",
                hint="It needs a subjectAltName with the full names or addresses that clients "
                "use; those with * do not count.",
                path=certificate,
            )
        return Reach(host, names, context)
    if not is_loopback(host):
        raise UsageError(
            "At {host} other machines could read along: documents, answers and the token.",
            hint="Give --tls-cert and --tls-key; or leave --host out, let a reverse proxy on this "
            "machine speak TLS, and name it with --behind-proxy https://NAME.",
            host=host,
        )
    return Reach(host, own)


def _literal(host: str) -> str:
    """An address as it stands in a URL."""
    address = ipaddress.ip_address(host)
    return f"[{address.compressed}]" if address.version == 6 else address.compressed


def _origin(url: str) -> str:
    """The origin of a proxy, as browsers write it. Raises `UsageError`."""
    try:
        parts = urlsplit(url)
        name, port = (parts.hostname or "").lower(), parts.port
        rest = parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc
        plain = name.isascii() and name and not any(c.isspace() or c in "*,\\" for c in name)
    except ValueError:
        plain = rest = ""
    if not plain or rest or parts.scheme != "https":
        raise UsageError(
            "{url} is not the address of a reverse proxy that speaks TLS.",
            hint="Give it as browsers show it, without a path: https://NAME or https://NAME:PORT.",
            url=url,
        )
    name = f"[{name}]" if ":" in name else name
    return f"https://{name}" if port in (None, 443) else f"https://{name}:{port}"


def _context(certificate: Path, key: Path) -> ssl.SSLContext:
    """TLS with that certificate. Raises `UsageError` where it cannot be loaded."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    encrypted = False

    def ask() -> str:  # else OpenSSL asks at the terminal
        nonlocal encrypted
        encrypted = True
        return ""

    try:
        context.load_cert_chain(certificate, key, password=ask)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        if encrypted:
            raise UsageError(
                "The key {path} is encrypted.",
                hint="Give one that is not, in a file that only you can read.",
                path=key,
            ) from error
        raise UsageError(
            "The certificate {path} cannot be used with the key {key}: {reason}.",
            hint="Both are PEM files; the certificate comes first, with what signed it below.",
            path=certificate,
            key=key,
            reason=_reason(error),
        ) from error
    return context


def _names(context: ssl.SSLContext, certificate: Path) -> list[str]:
    """The names in the certificate, by a handshake in memory with a client that trusts it.

    Raises `UsageError` where no client could take it: it has expired, or is not for servers.
    """
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname = False
    trusting.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        trusting.load_verify_locations(certificate)
        there, here = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = trusting.wrap_bio(here, there)
        server = context.wrap_bio(there, here, server_side=True)
        waiting: list[ssl.SSLObject] = [client, server]
        while waiting:
            side = waiting.pop(0)
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                waiting.append(side)
    except OSError as error:
        raise UsageError(
            "No client takes the certificate {path}: {reason}.",
            hint="Make a new one for this server.",
            path=certificate,
            reason=_reason(error),
        ) from error
    fields = client.getpeercert() or {}
    names = []
    for pair in fields.get("subjectAltName", ()):
        kind, value = map(str, pair)
        if kind == "IP Address":
            names.append(_literal(value.strip()))
        elif kind == "DNS" and "*" not in value:
            names.append(value.lower())
    return names


def _reason(error: Exception) -> object:
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).lower().replace("_", " ")
    return (error.strerror if isinstance(error, OSError) else None) or error
