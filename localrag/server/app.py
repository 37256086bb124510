"""The application: routes behind the gate, and what begins and ends with it."""

from __future__ import annotations

import io
import zipfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cache
from importlib import resources
from pathlib import Path, PurePosixPath

import anyio
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from localrag import __version__
from localrag.egress import network
from localrag.server.access import Access, Gate
from localrag.server.comparing import Comparing
from localrag.server.configuration import Configuration
from localrag.server.documents import Documents
from localrag.server.evaluating import Evaluating, Reports
from localrag.server.following import following
from localrag.server.history import History
from localrag.server.libraries import Libraries
from localrag.server.mcp import PATH, Endpoint, Protocol
from localrag.server.openai import Surface
from localrag.server.own import DOCUMENTS, Own
from localrag.server.pages import Pages
from localrag.server.queue import ModelQueue
from localrag.server.replies import ON_ERROR, reply
from localrag.server.requests import RequestLog, Tell
from localrag.server.searching import Searching
from localrag.server.tools import Tools
from localrag.server.views import Views

_DOCS = Path("bundle", "docs")
"""Where the licence is in an installed package."""


def make_app(
    libraries: Libraries,
    access: Access,
    queue: ModelQueue | None = None,
    tell: Tell = lambda _: None,
) -> ASGIApp:
    """The ASGI application that serves these libraries to whom `access` lets in.

    `queue` is the line of those who wait for the language model, where others stand in it, too.
    `tell` gets a line for each request.
    """
    app, gate = _gated(libraries, access, queue or ModelQueue())
    return RequestLog(gate, app.routes, tell)


def routes_of(libraries: Libraries, access: Access) -> Sequence[BaseRoute]:
    """What is behind the gate."""
    return _gated(libraries, access, ModelQueue())[0].routes


def _gated(libraries: Libraries, access: Access, queue: ModelQueue) -> tuple[Starlette, Gate]:
    views = Views(access.token, access.origins[0])
    access = replace(access, opens=views.opened)
    status, pages, reports = _Status(access, queue), Pages(), Reports()
    assistants = Endpoint(Protocol(Tools(libraries, queue, pages, views.address)).server)

    def forget() -> None:
        pages.forget()
        reports.forget()

    @asynccontextmanager
    async def life(_: Starlette) -> AsyncIterator[None]:
        try:
            with following(libraries, forget):
                async with assistants.running():
                    yield
        finally:
            await anyio.to_thread.run_sync(forget)
            await anyio.to_thread.run_sync(libraries.close)

    app = Starlette(
        routes=[
            Route("/", shell),
            Route("/view", shell),
            Route("/source", source),
            Mount("/static", StaticFiles(packages=[("localrag.server", "static")])),
            Route("/healthz", status.health),
            Route("/metrics", status.metrics),
            Route(PATH, assistants),
            Route("/session", status.session, methods=["POST"]),
            *Documents(libraries).routes(),
            *Searching(libraries, queue).routes(),
            *Comparing(libraries, queue).routes(),
            *Evaluating(libraries, queue, reports).routes(),
            *Own(libraries, queue, pages, reports).routes(),
            *Own(libraries, queue, pages).routes(),
            *History(libraries).routes(),
            *Configuration(libraries).routes(),
            *Surface(libraries, queue, views.link).routes(),
        ],
        exception_handlers=ON_ERROR,
        lifespan=life,
    )
    app.router.redirect_slashes = False  # to an address made of what the client said
    return app, Gate(app, access, larger=[DOCUMENTS])


async def shell(_: Request) -> Response:
    """The empty page."""
    page = resources.files("localrag.server").joinpath("static", "index.html")
    return Response(page.read_bytes(), media_type="text/html")


async def source(_: Request) -> Response:
    """The source code of this server, as section 13 of its licence asks for."""
    data = await anyio.to_thread.run_sync(_packed_source)
    name = f"localrag-{__version__}-source.zip"
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(data, media_type="application/zip", headers=headers)


@cache
def _packed_source() -> bytes:
    package = Path(str(resources.files("localrag")))
    inside = [path for path in package.rglob("*") if "__pycache__" not in path.parts]
    files = {PurePosixPath("localrag", *one.relative_to(package).parts): one for one in inside}
    # In a checkout what tells how it is built lies beside, else what a wheel has of it inside.
    beside = package.parent if (package.parent / "pyproject.toml").is_file() else package / _DOCS
    files |= {PurePosixPath(name): beside / name for name in ("LICENSE", "pyproject.toml")}
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in sorted(files.items()):
            if path.is_file():
                archive.writestr(str(name), path.read_bytes())
    return stream.getvalue()


class _Status:
    """What the server says of itself, and its cookie."""

    def __init__(self, access: Access, queue: ModelQueue) -> None:
        self._access = access
        registry = CollectorRegistry()
        waiting = Gauge("localrag_waiting", "Who waits for the language model", registry=registry)
        waiting.set_function(lambda: queue.waiting)
        answering = Gauge("localrag_answering", "Whether it is at work", registry=registry)
        answering.set_function(lambda: queue.is_busy)
        blocked = Gauge("localrag_blocked", "Connections that were blocked", registry=registry)
        blocked.set_function(lambda: len(network.attempts()))
        outside = Gauge("localrag_outside", "Connections out of the machine", registry=registry)
        outside.set_function(network.outside)
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
            secure=self._access.is_secure,
        )
        return response
