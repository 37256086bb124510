"""One line a request: when, which route, how it ended, how long it took; no text, no name."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from starlette.routing import BaseRoute, Match, Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from localrag.server.calls import HELLO

QUIET = frozenset({"/", "/static", "/healthz", "/metrics", "/api/status", HELLO})
"""Routes that pages and monitors ask all the time: told only where they fail."""

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

Tell = Callable[[str], object]


class RequestLog:
    """ASGI middleware that tells of each request once it has been answered, or left."""

    def __init__(self, app: ASGIApp, routes: Iterable[BaseRoute], tell: Tell) -> None:
        self._app = app
        self._routes: Sequence[BaseRoute] = tuple(routes)
        self._tell = tell

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand on, and tell."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 0
        begun = time.monotonic()

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            # Routing writes into the scope.
            await self._app(dict(scope), receive, noting)
        finally:
            route = self._route(scope)
            if route not in QUIET or status >= 400:
                method = scope["method"] if scope["method"] in _METHODS else "-"
                at, took = time.strftime("%Y-%m-%d %H:%M:%S"), time.monotonic() - begun
                self._tell(f"{at} {method} {route} {status or 'left'} {took:.2f} s")

    def _route(self, scope: Scope) -> str:
        """The pattern of the path: what stands in its place may name a document."""
        for route in self._routes:
            if isinstance(route, Route | Mount) and route.matches(scope)[0] != Match.NONE:
                return route.path
        return "-"
