"""The application: routes behind the gate, and what begins and ends with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from localrag import __version__
from localrag.egress import network
from localrag.errors import LocalragError
from localrag.server.access import Access, Gate, TooMuchError
from localrag.server.libraries import Libraries
from localrag.server.openai import Surface
from localrag.server.own import Own
from localrag.server.queue import FullError, ModelQueue
from localrag.server.replies import on_error, reply
from localrag.server.views import Views

LICENCE = "AGPL-3.0-or-later"


def make_app(libraries: Libraries, access: Access) -> Gate:
    """The ASGI application that serves these libraries to whom `access` lets in."""
    queue = ModelQueue()
    views = Views(access.token, f"{access.scheme}://127.0.0.1:{access.port}")
    status = _Status(access, queue)

    @asynccontextmanager
    async def life(_: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await anyio.to_thread.run_sync(libraries.close)

    app = Starlette(
        routes=[
            Route("/healthz", status.health),
            Route("/metrics", status.metrics),
            Route("/session", status.session, methods=["POST"]),
            *Own(libraries, queue, views.link).routes(),
            *Surface(libraries, queue, views.link).routes(),
        ],
        exception_handlers=dict.fromkeys((LocalragError, FullError, TooMuchError), on_error),
        lifespan=life,
    )
    return Gate(app, access)


class _Status:
    """What the server says of itself, and its cookie."""

    def __init__(self, access: Access, queue: ModelQueue) -> None:
        self._access = access
        registry = CollectorRegistry()
        waiting = Gauge("localrag_waiting", "Who waits for the language model", registry=registry)
        waiting.set_function(lambda: queue.waiting)
        blocked = Gauge("localrag_blocked", "Connections that were blocked", registry=registry)
        blocked.set_function(lambda: len(network.attempts()))
        outside = Gauge("localrag_outside", "Connections out of the machine", registry=registry)
        outside.set_function(lambda: sum(network.let_through().values()))
        self._registry = registry

    async def health(self, _: Request) -> Response:
        """That it runs; asked without a token."""
        return reply({"status": "ok", "version": __version__})

    async def metrics(self, _: Request) -> Response:
        """In Prometheus' text format."""
        return Response(generate_latest(self._registry), media_type="text/plain; version=0.0.4")

    async def session(self, _: Request) -> Response:
        """The cookie for a page that brought the token: a script cannot read it."""
        response = Response(status_code=204)
        response.set_cookie(
            self._access.cookie,
            self._access.session,
            httponly=True,
            samesite="strict",
            secure=self._access.scheme == "https",
        )
        return response
