"""The application: routes behind the gate, and what begins and ends with it."""

from __future__ import annotations

import asyncio
import io
import os
import zipfile
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from functools import cache, partial
from importlib import resources
from pathlib import Path, PurePosixPath

import anyio
from prometheus_client import CollectorRegistry, Gauge, Metric, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from localrag import __version__
from localrag.egress import network
from localrag.library.acting import users_began
from localrag.library.records import Removals
from localrag.models.llms.openai.endpoints import standings
from localrag.server.access import Access, Gate
from localrag.server.ahead import ReadingAhead
from localrag.server.audit import Audit
from localrag.server.comparing import Comparing
from localrag.server.configuration import Configuration
from localrag.server.documents import DocumentRoutes
from localrag.server.evaluating import Evaluating
from localrag.server.following import Follower
from localrag.server.history import History
from localrag.server.libraries import Libraries
from localrag.server.mcp import PATH, McpEndpoint, Protocol
from localrag.server.node import Node
from localrag.server.openai import Surface
from localrag.server.pages import Pages
from localrag.server.queue import ModelQueue
from localrag.server.queued import Queued
from localrag.server.replies import ON_ERROR, reply
from localrag.server.requests import RequestLog, Tell
from localrag.server.rest import DOCUMENTS, RestRoutes
from localrag.server.results import Results
from localrag.server.roles import least_for
from localrag.server.searching import Searching
from localrag.server.signing import Signing
from localrag.server.summaries import Summaries
from localrag.server.tables import Tables
from localrag.server.tools import Tools
from localrag.server.views import Views

_OTHER_THREADS = min(32, (os.cpu_count() or 1) + 4)
"""For what is no answer: searches, which keep a processor busy each, uploads, evaluations."""
_DOCS = Path("bundle", "docs")
"""Where the licence is in an installed package."""


def make_app(
    libraries: Libraries,
    access: Access,
    queue: ModelQueue | None = None,
    tell: Tell = lambda _: None,
    node: Node | None = None,
    ahead: ReadingAhead | None = None,
) -> ASGIApp:
    """The ASGI application that serves these libraries to whom `access` lets in.

    `queue` is the line of those who wait for the language model, where others stand in it, too.
    `tell` gets a line for each request. `node` does jobs meanwhile, and `ahead` reads.
    """
    app, gate = _build(libraries, access, queue or ModelQueue(), node, ahead)
    return RequestLog(gate, app.routes, tell)


def routes_of(libraries: Libraries, access: Access) -> Sequence[BaseRoute]:
    """What is behind the gate."""
    return _build(libraries, access, ModelQueue())[0].routes


def _build(
    libraries: Libraries,
    access: Access,
    queue: ModelQueue,
    node: Node | None = None,
    ahead: ReadingAhead | None = None,
) -> tuple[Starlette, Gate]:
    views = Views(access.token, access.origins[0])
    access = replace(access, opens=views.opened)
    status, pages, results = _Status(libraries, queue), Pages(), Results()
    tools = Tools(libraries, queue, pages, views.address)
    alone = access.people is None and not libraries.have_nodes
    assistants = McpEndpoint(Protocol(tools).server, alone=alone)

    def forget(library: str | None = None, removals: Removals | None = None) -> None:
        pages.forget(library)
        results.forget(library, removals)

    @asynccontextmanager
    async def life(_: Starlette) -> AsyncIterator[None]:
        # Each answer under way holds a thread, and so does long work that has given way and waits:
        # the other work is not to lack one.
        threads = ThreadPoolExecutor(queue.width + queue.most_waiting + _OTHER_THREADS, "work")
        asyncio.get_running_loop().set_default_executor(threads)
        try:
            with Follower(libraries, forget), node or nullcontext(), ahead or nullcontext():
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
            *Signing(access).routes(),
            *DocumentRoutes(libraries).routes(),
            *Searching(libraries, queue).routes(),
            *Comparing(libraries, queue).routes(),
            *Evaluating(libraries, queue, results).routes(),
            *RestRoutes(libraries, queue, pages, results).routes(),
            *Tables(libraries, queue, results).routes(),
            *Summaries(libraries, queue).routes(),
            *History(libraries).routes(),
            *Queued(libraries).routes(),
            *Configuration(libraries).routes(),
            *Audit(libraries).routes(),
            *Surface(libraries, queue, views.link).routes(),
        ],
        exception_handlers=ON_ERROR,
        lifespan=life,
    )
    app.router.redirect_slashes = False  # to an address made of what the client said
    least = partial(least_for, app.routes)
    return app, Gate(app, access, larger=[DOCUMENTS], least=least)


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
    files = {PurePosixPath("localrag", *path.relative_to(package).parts): path for path in inside}
    # In a checkout what tells how it is built lies beside, else what a wheel has of it inside.
    beside = package.parent if (package.parent / "pyproject.toml").is_file() else package / _DOCS
    files |= {PurePosixPath(name): beside / name for name in ("LICENSE", "pyproject.toml")}
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in sorted(files.items()):
            if path.is_file():
                archive.writestr(str(name), path.read_bytes())
    return stream.getvalue()


class _LanguageModels(Collector):
    """The servers of the language model that calls have gone to."""

    def collect(self) -> Iterator[Metric]:
        """Whether calls go to each, and how many of this process are under way there."""
        up = GaugeMetricFamily(
            "localrag_model_server_up", "Whether calls go to it", labels=["server"]
        )
        calls = GaugeMetricFamily(
            "localrag_model_server_calls", "Calls under way", labels=["server"]
        )
        for standing in standings():
            up.add_metric([standing.server], standing.up)
            calls.add_metric([standing.server], standing.calls)
        yield from (up, calls)


class _Status:
    """What the server says of itself."""

    def __init__(self, libraries: Libraries, queue: ModelQueue) -> None:
        self._libraries = libraries
        registry = CollectorRegistry()
        waiting = Gauge("localrag_waiting", "Who waits for the language model", registry=registry)
        waiting.set_function(lambda: queue.waiting)
        answering = Gauge("localrag_answering", "Who is served by it now", registry=registry)
        answering.set_function(lambda: queue.serving)
        registry.register(_LanguageModels())
        blocked = Gauge("localrag_blocked", "Connections that were blocked", registry=registry)
        blocked.set_function(lambda: len(network.attempts()))
        outside = Gauge("localrag_outside", "Connections out of the machine", registry=registry)
        outside.set_function(network.outside)
        self._registry = registry

    async def health(self, _: Request) -> Response:
        """That it runs, and can answer; asked without a token."""
        if self._libraries.answers_nobody:
            raise users_began()
        return reply({"status": "ok", "version": __version__})

    async def metrics(self, _: Request) -> Response:
        """In Prometheus' text format."""
        return Response(generate_latest(self._registry), media_type="text/plain; version=0.0.4")
