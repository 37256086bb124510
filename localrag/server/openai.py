"""The OpenAI-compatible surface: libraries are models, citations are annotations.

Shapes follow OpenAI's API reference; what an answer says beyond them stands in `localrag`.
"""

from __future__ import annotations

import base64
import json
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
import numpy as np
from sse_starlette import ServerSentEvent
from starlette.requests import Request
from starlette.responses import Response

from localrag.engine import AskOptions, Engine
from localrag.errors import ContextOverflowError, UsageError
from localrag.messages import InterfaceLanguage
from localrag.models.embeddings.base import Vectors
from localrag.models.embeddings.joined import general
from localrag.presentation.answers import ClientText, Rendering
from localrag.presentation.markdown import inert
from localrag.rag.base import Piece
from localrag.server import responses
from localrag.server.annotations import url_citations
from localrag.server.asker import preferred, recorded
from localrag.server.bounds import expect_short
from localrag.server.embedding import counted, embedded
from localrag.server.jobs import Send, streamed
from localrag.server.libraries import Libraries
from localrag.server.openai_records import (
    MODEL,
    ChatRequest,
    EmbeddingRequest,
    RerankRequest,
    ResponseRequest,
    SearchRequest,
)
from localrag.server.queue import ModelQueue
from localrag.server.replies import EventStream, decoded, error_body, reply
from localrag.server.routing import Routes, route
from localrag.server.running import asking, while_heard
from localrag.types import Answer, Statement

SELF_RAG = ":self-rag"


@dataclass(frozen=True, slots=True)
class Surface(Routes):
    """The routes below /v1."""

    libraries: Libraries
    queue: ModelQueue
    address: Callable[[str, Answer, int], str]

    def _names(self) -> list[str]:
        libraries = self.libraries.names
        names = [MODEL, *(f"{MODEL}/{name}" for name in libraries)] if libraries else []
        return [f"{name}{mode}" for name in names for mode in ("", SELF_RAG)]

    @route("/v1/models")
    async def models(self, _: Request) -> Response:
        """Each library twice: with standard and with Self-RAG."""
        return reply({"object": "list", "data": [_model(name) for name in self._names()]})

    @route("/v1/models/{name:path}")
    async def model(self, request: Request) -> Response:
        """One of them."""
        name = request.path_params["name"]
        self._engine(name)
        return reply(_model(name))

    def _library(self, model: str) -> str:
        name = model.removesuffix(SELF_RAG)
        return self.libraries.named("" if name == MODEL else name.removeprefix(f"{MODEL}/"))

    def _engine(self, model: str) -> Engine:
        return self.libraries.engine(self._library(model))

    def _linker(self, model: str) -> Callable[[Answer, int], str]:
        return partial(self.address, self._library(model))

    @route("/v1/chat/completions", "POST")
    async def chat(self, request: Request) -> Response:
        """An answer, at once or as it is written."""
        body = await decoded(request, ChatRequest)
        engine, question, options = await self._query(body)
        if body.stream:
            tell = partial(self._tell, engine, body, question, options)
            return EventStream(streamed(tell, partial(_error_events, preferred(request))), sep="\n")
        written = await while_heard(request, self._answer(engine, question, options))
        if written is None:
            return Response()
        answer, rendering = written
        message = {
            "role": "assistant",
            "content": rendering.text,
            "refusal": None,
            "annotations": url_citations(answer, rendering, self._linker(body.model)),
        }
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
        return reply(
            {
                **_head(body.model, "chat.completion"),
                "choices": [choice],
                "usage": await _usage(engine, body, rendering),
                "localrag": responses.told(answer, rendering),
            }
        )

    async def _query(self, body: ChatRequest | ResponseRequest) -> tuple[Engine, str, AskOptions]:
        """Whom to ask what. Raises what refuses a request with a status, not amid a stream."""
        engine = self._engine(body.model)
        question, history = body.question()
        self.queue.expect_room()
        await recorded(self._library(body.model), "ask", question)
        mode = "self-rag" if body.model.endswith(SELF_RAG) else None
        return engine, question, AskOptions(mode=mode, history=history)

    @asynccontextmanager
    async def _asking(
        self, engine: Engine, question: str, options: AskOptions
    ) -> AsyncIterator[AsyncIterator[Piece]]:
        async with self.queue.turn(), asking(engine, question, options) as pieces:
            yield pieces

    async def _answer(
        self, engine: Engine, question: str, options: AskOptions
    ) -> tuple[Answer, Rendering]:
        """The answer with the numbers that a client gets, and its text."""
        async with self._asking(engine, question, options) as pieces:
            answer = [piece async for piece in pieces if isinstance(piece, Answer)][-1]
        return ClientText().answer(answer)

    async def _tell(
        self, engine: Engine, body: ChatRequest, question: str, options: AskOptions, send: Send
    ) -> None:
        head = _head(body.model, "chat.completion.chunk")
        text = ClientText()

        async def say(delta: Mapping[str, Any], end: str | None = None, **more: Any) -> None:
            choice = {"index": 0, "delta": delta, "finish_reason": end}
            await send(_event({**head, "choices": [choice], **more}))

        await say({"role": "assistant", "content": ""})
        async with self._asking(engine, question, options) as pieces:
            async for piece in pieces:
                if isinstance(piece, Answer):
                    answer, rendering = text.answer(piece)
                elif isinstance(piece, Statement) and (content := text.piece(piece)):
                    await say({"content": content})
        if content := text.rest():
            await say({"content": content})
        annotations = url_citations(answer, rendering, self._linker(body.model))
        if annotations:
            await say({"annotations": annotations})
        await say({}, "stop", localrag=responses.told(answer, rendering))
        if body.stream_options and body.stream_options.include_usage:
            usage = await _usage(engine, body, rendering)
            await send(_event({**head, "choices": [], "usage": usage}))
        await send(_DONE)

    @route("/v1/responses", "POST")
    async def responses(self, request: Request) -> Response:
        """An answer with its search and its citations as OpenAI's Responses have them."""
        body = await decoded(request, ResponseRequest)
        engine, question, options = await self._query(body)
        response = responses.ActiveResponse(body.model, question, self._linker(body.model))
        usage = partial(_usage, engine, body)
        if body.stream:
            tell = partial(response.tell, self._asking(engine, question, options), usage)
            failed = partial(response.failed, preferred(request))
            return EventStream(streamed(tell, failed), sep="\n")
        written = await while_heard(request, self._answer(engine, question, options))
        if written is None:
            return Response()
        answer, rendering = written
        return reply(response.whole(answer, rendering, await usage(rendering)))

    @route("/v1/embeddings", "POST")
    async def embeddings(self, request: Request) -> Response:
        """Vectors of the model that the library is embedded with; texts count as questions."""
        body = await decoded(request, EmbeddingRequest)
        engine, texts = self._engine(body.model), body.texts
        embedder = await anyio.to_thread.run_sync(lambda: general(engine.embedder))
        if body.dimensions not in (None, embedder.dimension):
            raise UsageError(
                "The vectors of this model have {dimension} dimensions.",
                hint="Leave dimensions out.",
                dimension=embedder.dimension,
            )
        processors = self.queue.processors

        async def work() -> tuple[int, Vectors]:
            counts = await counted(processors, embedder, texts)
            if max(counts) > embedder.max_tokens:
                raise ContextOverflowError(
                    "A text has {count} tokens; this model embeds {most} at most.",
                    hint="Split it.",
                    count=max(counts),
                    most=embedder.max_tokens,
                )
            return sum(counts), await embedded(processors, embedder.embed_queries, texts)

        done = await while_heard(request, work())
        if done is None:
            return Response()
        tokens, vectors = done
        data = [
            {"object": "embedding", "index": number, "embedding": _vector(row, body)}
            for number, row in enumerate(np.asarray(vectors, dtype="<f4"))
        ]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return reply({"object": "list", "model": body.model, "data": data, "usage": usage})

    @route("/v1/rerank", "POST")
    async def rerank(self, request: Request) -> Response:
        """Texts by their likeness to the query, as the library's embedding sees it."""
        body = await decoded(request, RerankRequest)
        engine = self._engine(body.model)

        async def scores() -> list[float]:
            embedder = await anyio.to_thread.run_sync(lambda: general(engine.embedder))
            processors = self.queue.processors
            await counted(processors, embedder, [body.query, *body.documents])
            query = await embedded(processors, embedder.embed_queries, [body.query])
            texts = await embedded(processors, embedder.embed_documents, body.documents)
            return [float(score) for score in texts @ query[0]]

        relevance = await while_heard(request, scores()) if body.documents else []
        if relevance is None:
            return Response()
        order = sorted(range(len(relevance)), key=lambda number: -relevance[number])
        results = [
            {"index": n, "relevance_score": relevance[n], "document": {"text": body.documents[n]}}
            for n in order[: body.top_n]
        ]
        return reply({"model": body.model, "results": results})

    @route("/v1/vector_stores/{name}/search", "POST")
    async def search(self, request: Request) -> Response:
        """The best passages of a library, which `default` names without its name."""
        body = await decoded(request, SearchRequest)
        name = request.path_params["name"]
        library = self.libraries.named("" if name == "default" else name)
        engine = self.libraries.engine(library)
        query = body.query if isinstance(body.query, str) else " ".join(body.query)
        expect_short(query)
        await recorded(library, "search", query)
        options = AskOptions(k=body.max_num_results)
        async with self.queue.processors.turn():
            hits = await anyio.to_thread.run_sync(engine.search, query, options)
        data = [
            {
                "file_id": hit.chunk.document_id,
                "filename": inert(hit.source).text,
                "score": hit.score,
                "attributes": {
                    "page": hit.chunk.first_page,
                    "heading": inert(hit.chunk.heading).text,
                },
                "content": [{"type": "text", "text": inert(hit.chunk.text).text}],
            }
            for hit in hits
        ]
        return reply(
            {
                "object": "vector_store.search_results.page",
                "search_query": [query],
                "data": data,
                "has_more": False,
                "next_page": None,
            }
        )


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": MODEL}


def _head(model: str, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": kind,
        "created": int(time.time()),
        "model": model,
    }


_DONE = ServerSentEvent("[DONE]")


def _error_events(language: InterfaceLanguage, error: Exception) -> list[ServerSentEvent]:
    """How a stream of chunks ends where there is no more of the answer."""
    return [_event(error_body(error, language)[1]), _DONE]


def _event(data: Mapping[str, Any]) -> ServerSentEvent:
    return ServerSentEvent(json.dumps(data, ensure_ascii=False))


async def _usage(
    engine: Engine, body: ChatRequest | ResponseRequest, rendering: Rendering
) -> dict[str, int]:
    """Tokens of the messages and of the answer; passages are counted by nobody who asks."""

    def counted() -> tuple[int, int]:
        count = engine.model.llm.count_tokens
        return sum(count(message.text) for message in body.messages), count(rendering.text)

    prompt, written = await anyio.to_thread.run_sync(counted)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": written,
        "total_tokens": prompt + written,
    }


def _vector(row: Any, body: EmbeddingRequest) -> object:
    if body.encoding_format == "base64":
        return base64.b64encode(row.tobytes()).decode("ascii")
    return row.tolist()
