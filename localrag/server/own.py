"""The server's own interface, which its page uses: answers as they come, views, files."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

import anyio
import msgspec
from sse_starlette import ServerSentEvent
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from localrag import __version__
from localrag.egress import network
from localrag.engine import AskOptions, Engine
from localrag.errors import LibraryNotFoundError
from localrag.indexing.viewing import PageView
from localrag.messages import InterfaceLanguage
from localrag.presentation.places import cited_as, in_file, place_text
from localrag.presentation.records import picked, plain
from localrag.presentation.steps import scored, step_name
from localrag.rag.citations import marked, without_markers
from localrag.rag.conversation import Turn
from localrag.server.evaluating import Reports
from localrag.server.jobs import Send, streamed
from localrag.server.libraries import Libraries
from localrag.server.naming import Naming
from localrag.server.pages import Pages
from localrag.server.queue import ModelQueue
from localrag.server.replies import EventStream, decoded, event, number, preferred, reply
from localrag.server.running import asking
from localrag.server.uploads import Uploads
from localrag.server.views import View, quoted
from localrag.text.sentences import split_sentences
from localrag.types import Answer, Rating, ScoredChunk, Step

DOCUMENTS = "/api/documents"
"""Where files are sent to, which may be larger than other bodies."""

LICENCE = "AGPL-3.0-or-later"


class Asked(msgspec.Struct, forbid_unknown_fields=True):
    """A question, with the turns before it."""

    question: str
    library: str = ""
    k: int | None = None
    mode: Literal["standard", "self-rag"] | None = None
    rerank: str | None = None
    expand: str | None = None
    history: list[Turn] = []

    @property
    def options(self) -> AskOptions:
        """As the engine takes them."""
        return AskOptions(
            k=self.k, mode=self.mode, rerank=self.rerank, expand=self.expand, history=self.history
        )


@dataclass(frozen=True, slots=True)
class Own:
    """The routes below /api."""

    libraries: Libraries
    queue: ModelQueue
    pages: Pages
    reports: Reports = field(default_factory=Reports)
    uploads: Uploads = field(default_factory=Uploads)

    def routes(self) -> list[Route]:
        """All of them."""
        return [
            Route("/api/status", self.status),
            Route(DOCUMENTS, self.upload, methods=["POST"]),
            Route(f"{DOCUMENTS}/{{document}}", self.remove, methods=["DELETE"]),
            Route("/api/view", self.view),
            Route("/api/view.png", self.image),
            Route("/api/ask", self.ask, methods=["POST"]),
        ]

    def _engine(self, name: str) -> Engine:
        return self.libraries.engine(name or self.libraries.names[0])

    def _naming(self, name: str) -> Naming:
        return self.libraries.naming(name or self.libraries.names[0])

    async def status(self, _: Request) -> Response:
        """The libraries, and what the network guard has seen since the start."""

        def gathered() -> dict[str, Any]:
            libraries = []
            for name in self.libraries.names:
                counts = self.libraries.engine(name).library.counts()
                libraries.append({"name": name, **plain(counts)})
            return {
                "libraries": libraries,
                "version": __version__,
                "licence": LICENCE,
                "outside": sum(network.let_through().values()),
                "blocked": len(network.attempts()),
            }

        return reply(await anyio.to_thread.run_sync(gathered))

    async def upload(self, request: Request) -> Response:
        """Keep and add a file: the body of the request. Events: progress, done, error."""
        asked = request.query_params
        engine = self._engine(asked.get("library", ""))
        return await self.uploads.take(request, engine, asked.get("name", ""))

    async def remove(self, request: Request) -> Response:
        """Forget a document; its file goes only where it was uploaded."""
        name = request.query_params.get("library", "")
        library, naming = self._engine(name).library, self._naming(name)
        document = request.path_params["document"]
        record = library.document_record(document)
        if record is None:
            raise LibraryNotFoundError(
                "There is no document {name}.", hint="See /api/documents.", name=document
            )

        def forget() -> dict[str, object]:
            inside = {f"{source}{os.sep}" for source in record.sources}
            held = [one.state.path for one in library.sources() if one.document_id != document]
            attached = [path for path in held if path.startswith(tuple(inside))]
            names = {path: naming.of(path) for path in (*record.sources, *attached)}
            removal = library.remove(sources=names)
            self.pages.forget()
            self.reports.forget()
            naming.forget()
            removed = [names[path] for path in removal.sources]
            return {"removed": removed, "purged": removal.purged}

        return reply(await anyio.to_thread.run_sync(forget))

    async def view(self, request: Request) -> Response:
        """The page on which a span of a document begins, with what of it is quoted."""
        view = await self._view(request)
        start, end = view.spans[0] if view.spans else (0, 0)
        image = f"/api/view.png?{request.url.query}" if view.image is not None else None
        place, language = view.place, preferred(request)
        naming = self._naming(request.query_params.get("library", ""))
        source = await anyio.to_thread.run_sync(naming.of, next(iter(view.paths), ""))
        words = place_text(place, language=language)
        return reply(
            {
                "source": source,
                "page": place.number,
                "pages": view.pages,
                "unit": place.unit,
                "label": place.label,
                "place": words,
                "cited": in_file(source, words, language),
                "before": view.text[:start],
                "quoted": view.text[start:end],
                "after": view.text[end:],
                "state": view.state,
                "image": image,
                "marked": view.marked,
                "top": view.top,
            }
        )

    async def image(self, request: Request) -> Response:
        """The image of the page, with what is quoted marked on it."""
        view = await self._view(request)
        if view.image is None:
            raise LibraryNotFoundError(
                "There is no image of this page.", hint="See /api/view for its text."
            )
        return Response(view.image, media_type="image/png")

    async def _view(self, request: Request) -> PageView:
        asked = request.query_params
        name = asked.get("library", "")
        wanted = View(name, asked.get("document", ""), number(asked, "start"), number(asked, "end"))
        found = await self.pages.view(self._engine(name).library, wanted)
        if found is None:
            raise LibraryNotFoundError(
                "There is no document {name}.", hint="See /api/documents.", name=wanted.document
            )
        return found

    async def ask(self, request: Request) -> Response:
        """An answer as events: passages, waiting, step, text, answer, error."""
        asked = await decoded(request, Asked)
        engine = self._engine(asked.library)
        self.queue.expect_room()
        return EventStream(self._events(engine, asked, preferred(request)))

    async def _events(
        self, engine: Engine, asked: Asked, language: InterfaceLanguage
    ) -> AsyncIterator[ServerSentEvent]:
        library = asked.library or self.libraries.names[0]

        async def answer(send: Send) -> None:
            await self._answer(engine, library, asked, language, send)

        async for one in streamed(answer, language):
            yield one

    async def _answer(
        self,
        engine: Engine,
        library: str,
        asked: Asked,
        language: InterfaceLanguage,
        send: Send,
    ) -> None:
        options = asked.options
        if not asked.history:  # a follow-up is searched for as the model understands it
            k = engine.applied(options).answer.k
            found = await anyio.to_thread.run_sync(engine.retrieve, asked.question, k)
            await send(event("passages", {"passages": passages(found, language)}))

        async def wait(position: int, seconds: float) -> None:
            await send(event("waiting", {"position": position, "seconds": round(seconds)}))

        async with self.queue.turn(wait), asking(engine, asked.question, options) as pieces:
            async for piece in pieces:
                await send(self._piece(library, piece, language))

    def _piece(
        self, library: str, piece: str | Step | Answer, language: InterfaceLanguage
    ) -> ServerSentEvent:
        if isinstance(piece, str):
            return event("text", {"text": piece})
        if isinstance(piece, Step):
            said = {"name": step_name(piece.kind, language), "said": scored(piece, language)}
            return event("step", {"kind": piece.kind, **said, "seconds": piece.seconds})
        return event("answer", plain(piece) | told(library, piece, language))


def told(library: str, answer: Answer, language: InterfaceLanguage) -> dict[str, Any]:
    """What the page draws of an answer: sentences, and where each citation and passage stands."""
    found = reversed(answer.citations)  # the first of a marker is the one that is shown
    return {
        "sentences": sentences(answer),
        "views": {one.marker: plain(quoted(library, answer, one)) for one in found},
        "contexts": passages(answer.contexts, language),
        "cited": [cited_as(one, language) for one in answer.citations],
    }


def passages(hits: Sequence[ScoredChunk], language: InterfaceLanguage) -> list[dict[str, Any]]:
    """Passages, and where each stands in its document."""
    return [
        {
            **plain(hit),
            **picked(hit.chunk, "document_id", "start", "end"),
            "cited": cited_as(hit, language),
        }
        for hit in hits
    ]


_MARKS: dict[Rating, str] = {
    "fully supported": "supported",
    "partially supported": "partly",
    "no support": "not",
}


def sentences(answer: Answer) -> list[dict[str, Any]]:
    """The text of an answer in sentences, each with its markers and what is known of it.

    `mark` is "supported", "partly" or "not" as Self-RAG graded it, else "quoted" for a sentence
    with a checked quotation and "none" for one without. Joined, they are the text.
    """
    text, cited = answer.text, {citation.marker for citation in answer.citations}
    # A marker behind a full stop belongs to the sentence before it.
    starts = [
        span.start
        for span in split_sentences(text)
        if without_markers(text[span.start : span.end]).strip(" .。")
    ]
    bounds = [0, *starts[1:], len(text)]
    graded = {each.start: each.rating for each in answer.support}
    found = []
    for start, end in pairwise(bounds):
        markers = [one for one in marked(text[start:end]) if one in cited]
        rating = next((graded[at] for at in graded if start <= at < end), None)
        mark = _MARKS[rating] if rating else "quoted" if markers else "none"
        found.append({"text": text[start:end], "markers": markers, "mark": mark})
    return found
