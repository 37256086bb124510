"""The proxies that the environment names: out of libraries' sight, kept for who may use them."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from localrag.egress import addresses

_lock = threading.RLock()
_hidden: dict[str, str] | None = None
"""The variables that were taken out; None while they stand in the environment."""


def hide() -> None:
    """Take the variables that name proxies out of the environment."""
    global _hidden
    with _lock:
        if _hidden is None:
            _hidden = {name: os.environ.pop(name) for name in list(os.environ) if _is_proxy(name)}


def show() -> None:
    """Put them back for good."""
    global _hidden
    with _lock:
        os.environ.update(_hidden or {})
        _hidden = None


def named() -> dict[str, str]:
    """The variables that name proxies, for a program that is to connect as the user set it up."""
    variables = os.environ if _hidden is None else _hidden
    return {name: value for name, value in variables.items() if value and _is_proxy(name)}


@contextmanager
def in_place() -> Iterator[None]:
    """Put the proxies back into the environment; connecting to them is still `allow`'s affair."""
    with _lock:
        put_back = {} if _hidden is None else named()
        os.environ.update(put_back)
        try:
            yield
        finally:
            for name in put_back:
                os.environ.pop(name, None)


def places() -> set[addresses.Place]:
    """The hosts and ports of the proxies that the environment or the system names."""
    urls = [url for name, url in named().items() if name.lower() != "no_proxy"]
    if not urls:
        from urllib.request import getproxies

        urls = [url for scheme, url in getproxies().items() if scheme != "no"]
    hosts: set[addresses.Place] = set()
    for url in urls:
        with suppress(ValueError):  # an address that no client can use either
            hosts.update(addresses.places(url if "://" in url else f"http://{url}"))
    return hosts


def _is_proxy(name: str) -> bool:
    return name.lower().endswith("_proxy")  # as urllib reads them
