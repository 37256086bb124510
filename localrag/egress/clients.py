"""HTTP clients: of the machine's certificates and proxies, or for servers on this machine.

They open no door: that is `network.allow`'s affair.
"""

from __future__ import annotations

import os
import ssl
from typing import TYPE_CHECKING, Any

from localrag.egress import proxies
from localrag.errors import ConfigError

if TYPE_CHECKING:
    import httpx

_HEADERS = {"User-Agent": "localrag", "Accept-Encoding": "identity"}


def client(
    *, certificate: str | None = None, proxy: str | None = None, timeout: float = 30.0
) -> httpx.Client:
    """An HTTP client with the machine's certificates and proxies; follows no redirects.

    Trusts the system's certificates and those that SSL_CERT_FILE,
    REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE or `certificate` (a file or folder) add.
    `proxy` is used where the environment names none. `timeout` is in seconds
    and counts each wait, not the whole transfer.
    Raises `ConfigError` when a named certificate cannot be read.
    """
    import certifi

    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    names = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
    for path in {os.environ.get(name) or "" for name in names} | {certificate or ""}:
        if path:
            _trust(context, path)
    with proxies.in_place():  # the client reads them when it is made
        return _client(
            timeout,
            verify=context,
            proxy=None if proxies.places() else proxy,
            mounts=dict.fromkeys(("all://localhost", "all://127.0.0.1", "all://[::1]")),
        )


def local_client(timeout: float) -> httpx.Client:
    """An HTTP client for a server on this machine: no proxy, no redirect."""
    return _client(timeout, trust_env=False)


def _client(timeout: float, **options: Any) -> httpx.Client:
    import httpx

    from localrag.egress.unpacking import unpack

    hooks = {"response": [unpack]}
    return httpx.Client(
        timeout=timeout, headers=_HEADERS, event_hooks=hooks, follow_redirects=False, **options
    )


def _trust(context: ssl.SSLContext, path: str) -> None:
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
