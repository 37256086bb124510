"""Requests to the application, without a socket."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, urlencode

Json = dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """A request; `about` is what it names that its user may not see, or that never was."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    token: str = ""
    library: str | None = None
    """The one library that a response may be about; None: all that the user may read."""
    about: str = ""

    @property
    def said(self) -> str:
        """All words of it."""
        body = "" if self.body is None else json.dumps(self.body, ensure_ascii=False)
        return " ".join((self.path, *self.query.values(), body, *self.headers.values()))

    def naming(self, other: str) -> Asked:
        """The same with that in place of what it is about."""
        swap = partial_swap(self.about, other)
        return replace(
            self,
            path=swap(self.path),
            query={key: swap(value) for key, value in self.query.items()},
            body=None if self.body is None else json.loads(swap(json.dumps(self.body))),
            headers={key: swap(value) for key, value in self.headers.items()},
            about=other,
        )


def partial_swap(old: str, new: str) -> Callable[[str], str]:
    return lambda text: text.replace(old, new)


@dataclass(frozen=True)
class Reply:
    """A response, whole."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    taken: tuple[float, float]
    """Seconds on the clock, and of the server's own processor time."""

    @property
    def text(self) -> str:
        """Headers and body as a reader would take them, with what JSON writes as numbers."""
        heads = "\n".join(f"{name}: {value}" for name, value in self.headers)
        body = self.body.decode("utf-8", "replace")
        plain = re.sub(r"\\u([0-9a-fA-F]{4})", lambda found: chr(int(found[1], 16)), body)
        return f"{heads}\n{body}\n{plain}"

    def json(self) -> Any:
        return json.loads(self.body)

    def events(self) -> list[Any]:
        """The data of an event stream."""
        lines = self.body.decode("utf-8").splitlines()
        found = [line.removeprefix("data:").strip() for line in lines if line.startswith("data:")]
        return [json.loads(one) for one in found if one and one != "[DONE]"]


async def sent(app: Any, asked: Asked, headers: Mapping[str, str]) -> Reply:
    """Its response."""
    data = b"" if asked.body is None else json.dumps(asked.body).encode()
    given = {"host": "127.0.0.1:8765", "content-length": str(len(data)), **headers, **asked.headers}
    if asked.body is not None:
        given.setdefault("content-type", "application/json")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": asked.method,
        "scheme": "http",
        "path": asked.path,
        "raw_path": quote(asked.path).encode(),
        "query_string": urlencode(asked.query).encode(),
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in given.items()],
        "client": ("127.0.0.1", 50000),
        "server": ("127.0.0.1", 8765),
    }
    ended = asyncio.Event()
    waiting = [{"type": "http.request", "body": data, "more_body": False}]
    parts: list[bytes] = []
    status, heads = 0, list[tuple[str, str]]()

    async def receive() -> Any:
        if waiting:
            return waiting.pop()
        await ended.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        nonlocal status, heads
        if message["type"] == "http.response.start":
            status = message["status"]
            heads = [(name.decode(), value.decode("latin-1")) for name, value in message["headers"]]
        elif message["type"] == "http.response.body":
            parts.append(message.get("body", b""))
            if not message.get("more_body", False):
                ended.set()

    begun = time.perf_counter(), time.process_time()
    await app(scope, receive, send)
    taken = time.perf_counter() - begun[0], time.process_time() - begun[1]
    return Reply(status, tuple(sorted(heads)), b"".join(parts), taken)


@asynccontextmanager
async def alive(app: Any) -> AsyncIterator[None]:
    """Begin and end the application as a server does."""
    to_app: asyncio.Queue[Json] = asyncio.Queue()
    from_app: asyncio.Queue[Json] = asyncio.Queue()
    scope = {"type": "lifespan", "asgi": {"version": "3.0"}}
    running = asyncio.create_task(app(scope, to_app.get, from_app.put))
    await to_app.put({"type": "lifespan.startup"})
    begun = await from_app.get()
    assert begun["type"] == "lifespan.startup.complete", begun
    try:
        yield
    finally:
        await to_app.put({"type": "lifespan.shutdown"})
        await from_app.get()
        await running
