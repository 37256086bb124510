"""The server's own interface, which its page uses: search, answers as they come, documents."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import anyio
import msgspec
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from localrag.egress import network
from localrag.engine import AskOptions, Engine
from localrag.errors import LibraryNotFoundError
from localrag.messages import InterfaceLanguage
from localrag.presentation.records import plain
from localrag.presentation.steps import scored, step_name
from localrag.rag.conversation import Turn
from localrag.server.libraries import Libraries
from localrag.server.queue import ModelQueue
from localrag.server.replies import decoded, error_body, preferred, reply
from localrag.server.running import asking
from localrag.types import Answer, Step

_PING = 10


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
    """The routes below /api; `link` is the address of what a citation quotes."""

    libraries: Libraries
    queue: ModelQueue
    link: Callable[[str, Answer, int], str]

    def routes(self) -> list[Route]:
        """All of them."""
        return [
            Route("/api/status", self.status),
            Route("/api/documents", self.documents),
            Route("/api/documents/{document}", self.remove, methods=["DELETE"]),
            Route("/api/search", self.search, methods=["POST"]),
            Route("/api/ask", self.ask, methods=["POST"]),
        ]

    def _engine(self, name: str) -> Engine:
        return self.libraries.engine(name or self.libraries.names[0])

    async def status(self, _: Request) -> Response:
        """The libraries, and what the network guard has seen since the start."""

        def gathered() -> dict[str, Any]:
            libraries = []
            for name in self.libraries.names:
                counts = self.libraries.engine(name).library.counts()
                libraries.append({"name": name, **plain(counts)})
            return {
                "libraries": libraries,
                "outside": sum(network.let_through().values()),
                "blocked": len(network.attempts()),
            }

        return reply(await anyio.to_thread.run_sync(gathered))

    async def documents(self, request: Request) -> Response:
        """The documents of a library, without their text."""
        library = self._engine(request.query_params.get("library", "")).library
        found = await anyio.to_thread.run_sync(library.documents)
        return reply({"documents": [plain(record) for record in found]})

    async def remove(self, request: Request) -> Response:
        """Forget a document; the file stays where it is."""
        library = self._engine(request.query_params.get("library", "")).library
        document = request.path_params["document"]
        record = library.document_record(document)
        if record is None:
            raise LibraryNotFoundError(
                "There is no document {name}.", hint="See /api/documents.", name=document
            )
        removal = await anyio.to_thread.run_sync(
            lambda: library.remove(sources=list(record.sources))
        )
        return reply({"removed": removal.sources, "purged": removal.purged})

    async def search(self, request: Request) -> Response:
        """The best passages; never waits for the language model but to expand the question."""
        asked = await decoded(request, Asked)
        engine = self._engine(asked.library)
        hits = await anyio.to_thread.run_sync(engine.search, asked.question, asked.options)
        return reply({"passages": plain(hits)})

    async def ask(self, request: Request) -> Response:
        """An answer as events: passages, waiting, step, text, answer, error."""
        asked = await decoded(request, Asked)
        engine = self._engine(asked.library)
        self.queue.expect_room()
        return EventSourceResponse(self._events(engine, asked, preferred(request)), ping=_PING)

    async def _events(
        self, engine: Engine, asked: Asked, language: InterfaceLanguage
    ) -> AsyncIterator[ServerSentEvent]:
        send, receive = anyio.create_memory_object_stream[ServerSentEvent](100)
        library = asked.library or self.libraries.names[0]

        async def work() -> None:
            async with send:
                try:
                    await self._answer(engine, library, asked, language, send.send)
                except Exception as error:  # told in the stream: its status has been sent
                    await send.send(_event("error", error_body(error, language)[1]["error"]))

        async with receive, anyio.create_task_group() as group:
            group.start_soon(work)
            async for event in receive:
                yield event

    async def _answer(
        self,
        engine: Engine,
        library: str,
        asked: Asked,
        language: InterfaceLanguage,
        send: Callable[[ServerSentEvent], Awaitable[object]],
    ) -> None:
        options = asked.options
        if not asked.history:  # a follow-up is searched for as the model understands it
            k = engine.applied(options).answer.k
            found = await anyio.to_thread.run_sync(engine.retrieve, asked.question, k)
            await send(_event("passages", {"passages": plain(found)}))

        async def wait(position: int, seconds: float) -> None:
            await send(_event("waiting", {"position": position, "seconds": round(seconds)}))

        async with self.queue.turn(wait), asking(engine, asked.question, options) as pieces:
            async for piece in pieces:
                await send(self._piece(library, piece, language))

    def _piece(
        self, library: str, piece: str | Step | Answer, language: InterfaceLanguage
    ) -> ServerSentEvent:
        if isinstance(piece, str):
            return _event("text", {"text": piece})
        if isinstance(piece, Step):
            said = {"name": step_name(piece.kind, language), "said": scored(piece, language)}
            return _event("step", {"kind": piece.kind, **said, "seconds": piece.seconds})
        links = [self.link(library, piece, number) for number in range(len(piece.citations))]
        return _event("answer", {**plain(piece), "links": links})


def _event(name: str, data: Mapping[str, Any]) -> ServerSentEvent:
    return ServerSentEvent(json.dumps(data, ensure_ascii=False), event=name)
