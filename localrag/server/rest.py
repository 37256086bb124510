"""The server's own interface, which its page uses: answers as they come, views, files."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import partial
from typing import Annotated, Any, Literal

import anyio
import msgspec
from sse_starlette import ServerSentEvent
from starlette.requests import Request
from starlette.responses import Response

from localrag import __version__
from localrag.egress import network
from localrag.engine import AskOptions, Engine
from localrag.errors import LibraryNotFoundError
from localrag.indexing.viewing import PageView
from localrag.messages import InterfaceLanguage
from localrag.models.llms.openai.endpoints import standings
from localrag.presentation.places import in_file, place_text
from localrag.presentation.records import picked, plain
from localrag.rag.base import Piece
from localrag.rag.conversation import Turn
from localrag.server.answers import passages, told, told_step
from localrag.server.asker import asker, preferred, recorded
from localrag.server.bounds import Question, expect_short
from localrag.server.history import keep
from localrag.server.jobs import Send, as_event, streamed
from localrag.server.libraries import Libraries
from localrag.server.pages import Pages
from localrag.server.queue import ModelQueue
from localrag.server.replies import EventStream, decoded, event, number, reply
from localrag.server.results import Results
from localrag.server.routing import Routes, route
from localrag.server.running import asking
from localrag.server.searching import MOST
from localrag.server.uploads import UploadRoutes
from localrag.server.views import View
from localrag.types import Answer, ScoredChunk, Statement, Step

DOCUMENTS = "/api/documents"
"""Where files are sent to, which may be larger than other bodies."""

LICENCE = "AGPL-3.0-or-later"


class QuestionRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A question, with the turns before it."""

    question: Question
    library: str = ""
    k: Annotated[int, msgspec.Meta(ge=1, le=MOST)] | None = None
    mode: Literal["standard", "self-rag"] | None = None
    rerank: str | None = None
    expand: str | None = None
    history: list[Turn] = []
    conversation: Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{16})?$")] = ""
    """The kept one that it goes on with, if any."""

    @property
    def options(self) -> AskOptions:
        """As the engine takes them."""
        return AskOptions(
            k=self.k, mode=self.mode, rerank=self.rerank, expand=self.expand, history=self.history
        )


@dataclass(frozen=True, slots=True)
class RestRoutes(Routes):
    """The routes below /api, and the list of libraries."""

    libraries: Libraries
    queue: ModelQueue
    pages: Pages
    results: Results = field(default_factory=Results)
    uploads: UploadRoutes = field(default_factory=UploadRoutes)

    @route("/api/status")
    async def status(self, _: Request) -> Response:
        """The libraries, who asks, what the guard has seen since the start, the model's servers."""
        person, servers = asker(), standings()
        return reply(
            {
                "user": person and {"name": person.user.name, "by_proxy": person.by_proxy},
                "libraries": await anyio.to_thread.run_sync(self._libraries),
                "version": __version__,
                "licence": LICENCE,
                "outside": network.outside(),
                "blocked": len(network.attempts()),
                "servers": len(servers),
                "servers_up": sum(server.up for server in servers),
            }
        )

    @route("/libraries")
    async def listed(self, _: Request) -> Response:
        """The libraries: name, mode of answers, and what each holds."""
        return reply({"libraries": await anyio.to_thread.run_sync(self._libraries)})

    def _libraries(self) -> list[dict[str, Any]]:
        engines = [(name, self.libraries.engine(name)) for name in self.libraries.names]
        return [
            {
                "name": name,
                "role": self.libraries.role(name),
                "mode": engine.settings.answer.mode,
                **plain(engine.library.counts()),
            }
            for name, engine in engines
        ]

    @route(DOCUMENTS, "POST")
    async def upload(self, request: Request) -> Response:
        """Keep and add a file: the body of the request. Events: progress, done, error."""
        query = request.query_params
        name = query.get("name", "")
        _, engine = await self.libraries.open_recorded(query.get("library", ""), "add", name)
        return await self.uploads.take(request, engine, name)

    @route(f"{DOCUMENTS}/{{document}}", "DELETE")
    async def remove(self, request: Request) -> Response:
        """Forget a document; its file goes only where it was uploaded."""
        library_name, document = (
            request.query_params.get("library", ""),
            request.path_params["document"],
        )
        name, engine = await self.libraries.open_recorded(library_name, "remove", document)
        library, naming = engine.library, self.libraries.naming(name)
        about = await anyio.to_thread.run_sync(library.document_record, document)
        if about is None:
            raise _no_document(document)

        def forget() -> dict[str, object]:
            records = library.sources(about.sources)
            attached = [record.state.path for record in records if record.document_id != document]
            names = {path: naming.of(path) for path in (*about.sources, *attached)}
            removal = library.remove(sources=names)
            self.pages.forget(name)
            self.results.forget(name)
            naming.forget()
            removed = [names[path] for path in removal.sources]
            return {"removed": removed, "purged": removal.purged}

        return reply(await anyio.to_thread.run_sync(forget))

    @route("/api/view")
    async def view(self, request: Request) -> Response:
        """The page on which a span of a document begins, with what of it is quoted."""
        view = await self._view(request)
        start, end = view.spans[0] if view.spans else (0, 0)
        image = f"/api/view.png?{request.url.query}" if view.image is not None else None
        place, language = view.place, preferred(request)
        naming = self.libraries.naming(request.query_params.get("library", ""))
        source = await anyio.to_thread.run_sync(naming.of, next(iter(view.paths), ""))
        words = place_text(place, language=language)
        return reply(
            {
                "source": source,
                "page": place.number,
                "pages": view.pages,
                **picked(place, "unit", "label"),
                "place": words,
                "cited": in_file(source, words, language),
                "before": view.text[:start],
                "quoted": view.text[start:end],
                "after": view.text[end:],
                "state": view.state,
                "image": image,
                **picked(view, "marked", "top"),
            }
        )

    @route("/api/view.png")
    async def image(self, request: Request) -> Response:
        """The image of the page, with what is quoted marked on it."""
        view = await self._view(request)
        if view.image is None:
            raise LibraryNotFoundError(
                "There is no image of this page.", hint="See /api/view for its text."
            )
        return Response(view.image, media_type="image/png")

    async def _view(self, request: Request) -> PageView:
        query = request.query_params
        document, name = query.get("document", ""), self.libraries.named(query.get("library", ""))
        library = self.libraries.engine(name).library
        view = View(name, document, number(query, "start"), number(query, "end"))
        await recorded(name, "page", document)
        page = await self.pages.view(library, view)
        if page is None:
            raise _no_document(document)
        return page

    @route("/api/ask", "POST")
    async def ask(self, request: Request) -> Response:
        """An answer as events: loading, passages, waiting, step, text, answer, kept, error."""
        body = await decoded(request, QuestionRequest)
        expect_short(body.question, (text for turn in body.history for text in astuple(turn)))
        library = self.libraries.named(body.library)
        engine = self.libraries.engine(library)
        self.queue.expect_room()
        await recorded(library, "ask", body.question)
        language = preferred(request)
        answer = partial(self._answer, engine, library, body, language)
        return EventStream(streamed(answer, as_event(language)))

    async def _answer(
        self,
        engine: Engine,
        library: str,
        body: QuestionRequest,
        language: InterfaceLanguage,
        send: Send,
    ) -> None:
        options = body.options
        if not engine.is_ready:
            await send(event("loading", {}))
        loop = asyncio.get_running_loop()

        async def tell(hits: Sequence[ScoredChunk]) -> None:
            await send(event("passages", {"passages": passages(hits, language)}))

        def tell_later(hits: Sequence[ScoredChunk]) -> None:
            asyncio.run_coroutine_threadsafe(tell(hits), loop)

        if body.history:  # a follow-up is searched for as the model understands it
            options = replace(options, on_found=tell_later)
        else:
            k = engine.applied(options).answer.k
            async with self.queue.processors.turn():
                hits = await anyio.to_thread.run_sync(engine.retrieve, body.question, k)
            await tell(hits)

        async def wait(position: int, seconds: float) -> None:
            await send(event("waiting", {"position": position, "seconds": round(seconds)}))

        answer: Answer | None = None
        async with self.queue.turn(wait), asking(engine, body.question, options) as pieces:
            async for piece in pieces:
                await send(_piece(library, piece, language))
                answer = piece if isinstance(piece, Answer) else None
        if answer is not None:
            record = await anyio.to_thread.run_sync(
                partial(keep, engine.library, body.question, answer, language),
                body.conversation,
                len(body.history),
            )
            if record is not None:
                await send(event("kept", record))


def _no_document(name: str) -> LibraryNotFoundError:
    return LibraryNotFoundError(
        "There is no document {name}.", hint="See /api/documents.", name=name
    )


def _piece(library: str, piece: Piece, language: InterfaceLanguage) -> ServerSentEvent:
    if isinstance(piece, Statement):
        return event("text", {"text": piece.written})
    if isinstance(piece, Step):
        return event("step", told_step(piece, language))
    return event("answer", told(library, piece, language))
