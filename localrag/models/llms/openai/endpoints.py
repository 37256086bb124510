"""Servers of one model: which of them takes a call, and which are left alone for a while.

What is known of a server counts in all of this process, whichever library asks. The fewest calls
of this process that are under way decide; among equals the server that has read most of the same
beginning, whose cache holds it, and then the one that was chosen longest ago. One that failed is
set aside, longer each time, and then gets a single call before it gets others.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from localrag.egress.addresses import is_loopback
from localrag.errors import ConfigError

LONGEST_PAUSE = 60.0
"""Seconds for which a server is set aside at most."""
_SHORTEST_HEAD = 512
"""Code points: what prompts of different passages have in common is shorter."""
_HEADS = 4096
"""Beginnings of prompts that are remembered of a server, as hashes alone."""

_lock = threading.Lock()
_turns = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Standing:
    """What a process knows of a server: its name, whether calls go to it, those under way."""

    server: str
    up: bool
    calls: int


class Endpoint:
    """One server. Raises `ConfigError` for an address that is none."""

    def __init__(self, base_url: str) -> None:
        try:
            parts = urlsplit(base_url.strip())
            host, port = parts.hostname, parts.port
        except ValueError:
            host = None
        if not host or parts.scheme not in ("http", "https") or parts.username or parts.query:
            raise ConfigError(
                "The base URL of the language model must look like http://localhost:8080/v1 and "
                "contain no user name or query.",
                hint="Correct `base_url` in the [llm] section of the settings.",
            )
        self.host = host
        self.name = host if port is None else f"{host}:{port}"
        self.url = base_url.strip().rstrip("/")
        self.is_local = is_loopback(host)  # nothing that would have to be resolved
        self._calls = 0
        self._turn = 0
        self._failures = 0
        self._failed = self._due = 0.0
        self._heads: OrderedDict[int, None] = OrderedDict()

    def release(self) -> None:
        """One call has ended, well or badly."""
        with _lock:
            self._calls -= 1

    def answered(self) -> None:
        """It does what it should."""
        with _lock:
            self._failures, self._due = 0, 0.0

    def failed(self, began: float, pause: float) -> None:
        """A call that began then (`time.monotonic`) failed: leave it alone for `pause` seconds.

        Longer where it failed before. Calls that were under way together count as one.
        """
        now = time.monotonic()
        with _lock:
            if began < self._failed:
                return
            self._failed = now
            grown = 2.0 ** min(self._failures, 10)
            self._failures += 1
            self._due = now + min(max(grown, pause), LONGEST_PAUSE)

    def _is_ready(self) -> bool:
        return time.monotonic() >= self._due and not (self._failures and self._calls)

    def _read_of(self, heads: Sequence[int]) -> int:
        """How many of these beginnings, shortest first, it has read."""
        return sum(1 for _ in itertools.takewhile(self._heads.__contains__, heads))

    def _take(self, heads: Sequence[int]) -> None:
        self._calls += 1
        self._turn = next(_turns)
        for head in heads:
            self._heads[head] = None
            self._heads.move_to_end(head)
        while len(self._heads) > _HEADS:
            self._heads.popitem(last=False)


_known: dict[str, Endpoint] = {}


def endpoint(base_url: str) -> Endpoint:
    """The server at an address, the same one each time. Raises `ConfigError`."""
    server = Endpoint(base_url)
    with _lock:
        return _known.setdefault(server.url, server)


def standings() -> list[Standing]:
    """All servers that this process has had to do with."""
    with _lock:
        return [
            Standing(server.name, not server._failures, server._calls) for server in _known.values()
        ]


def ready(endpoints: Sequence[Endpoint]) -> list[Endpoint]:
    """Those to try: the ones that are not set aside, or all where every one is."""
    with _lock:
        return [server for server in endpoints if server._is_ready()] or list(endpoints)


def taken(endpoints: Sequence[Endpoint], prompt: str) -> Endpoint:
    """The server for a call with that prompt, which counts as under way until `release`."""
    heads = _heads_of(prompt)
    with _lock:
        chosen = min(
            endpoints, key=lambda server: (server._calls, -server._read_of(heads), server._turn)
        )
        chosen._take(heads)
    return chosen


def _heads_of(prompt: str) -> list[int]:
    lengths = itertools.takewhile(
        lambda length: length <= len(prompt), (_SHORTEST_HEAD << n for n in itertools.count())
    )
    return [hash(prompt[:length]) for length in lengths]
