"""The OpenAI-compatible surface: libraries are models, citations are annotations.

Shapes follow OpenAI's API reference; what an answer says beyond them stands in `localrag`.
"""

from __future__ import annotations

import base64
import itertools
import json
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Literal

import anyio
import msgspec
import numpy as np
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from localrag.engine import AskOptions, Engine
from localrag.errors import UsageError
from localrag.presentation.places import cited_as
from localrag.presentation.records import plain
from localrag.rag.citations import MARKER, marked
from localrag.rag.conversation import Turn
from localrag.server.libraries import Libraries
from localrag.server.queue import ModelQueue
from localrag.server.replies import PING, decoded, error_body, reply
from localrag.server.running import asking, while_heard
from localrag.types import Answer, Step

MODEL = "localrag"
SELF_RAG = ":self-rag"


class Part(msgspec.Struct):
    """A part of a message; only its text is read."""

    type: str
    text: str = ""


class Message(msgspec.Struct):
    """A message of a conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[Part] | None = None

    @property
    def text(self) -> str:
        """Its text, the parts of it joined."""
        if isinstance(self.content, list):
            return "\n".join(part.text for part in self.content if part.text)
        return self.content or ""


class StreamOptions(msgspec.Struct):
    """What a stream is to say."""

    include_usage: bool = False


class ChatRequest(msgspec.Struct):
    """`POST /v1/chat/completions`; what is not here is ignored, as settings of the model are."""

    messages: list[Message]
    model: str = MODEL
    stream: bool = False
    stream_options: StreamOptions | None = None
    n: int | None = 1


class Item(msgspec.Struct):
    """An item of a response's input; only messages are read."""

    role: str = ""
    content: str | list[Part] | None = None
    type: str = "message"


class ResponseRequest(msgspec.Struct):
    """`POST /v1/responses`."""

    input: str | list[Item]
    model: str = MODEL
    stream: bool = False

    @property
    def messages(self) -> list[Message]:
        """The input as messages."""
        items = [Item("user", self.input)] if isinstance(self.input, str) else self.input
        return [
            Message("user" if item.role == "user" else "assistant", item.content)
            for item in items
            if item.type == "message" and item.role in ("user", "assistant")
        ]


class EmbeddingRequest(msgspec.Struct):
    """`POST /v1/embeddings`."""

    input: str | list[str]
    model: str = MODEL
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = None


class SearchRequest(msgspec.Struct):
    """`POST /v1/vector_stores/{id}/search`."""

    query: str | list[str]
    max_num_results: int = 10


class RerankRequest(msgspec.Struct):
    """`POST /v1/rerank`."""

    query: str
    documents: list[str]
    model: str = MODEL
    top_n: int | None = None


def conversation(messages: list[Message]) -> tuple[str, tuple[Turn, ...]]:
    """The question, and the turns before it. Raises `UsageError` if the last word is no question.

    Instructions of the client (system messages) are not read: the rules of grounding stand.
    """
    said = [message for message in messages if message.role in ("user", "assistant")]
    if not said or said[-1].role != "user":
        raise UsageError(
            "The last message is no question of a user.", hint="Send one with the role user."
        )
    turns = []
    for asked, answered in pairwise(said[:-1]):
        if (asked.role, answered.role) == ("user", "assistant"):
            turns.append(Turn(asked.text, answered.text))
    return said[-1].text, tuple(turns)


def url_citations(answer: Answer, address: Callable[[Answer, int], str]) -> list[dict[str, Any]]:
    """One for each marker in the text that has a citation; `address` gives where it leads."""
    by_marker = {citation.marker: number for number, citation in enumerate(answer.citations)}
    found = []
    for marker in MARKER.finditer(answer.text):
        for number in marked(marker.group()):
            if number in by_marker:
                citation = answer.citations[by_marker[number]]
                found.append(
                    {
                        "type": "url_citation",
                        "url_citation": {
                            "url": address(answer, by_marker[number]),
                            "title": cited_as(citation, "en"),
                            "start_index": marker.start(),
                            "end_index": marker.end(),
                        },
                    }
                )
    return found


@dataclass(frozen=True, slots=True)
class Surface:
    """The routes below /v1."""

    libraries: Libraries
    queue: ModelQueue
    address: Callable[[str, Answer, int], str]

    def routes(self) -> list[Route]:
        """All of them."""
        return [
            Route("/v1/models", self.models),
            Route("/v1/models/{name:path}", self.model),
            Route("/v1/chat/completions", self.chat, methods=["POST"]),
            Route("/v1/responses", self.responses, methods=["POST"]),
            Route("/v1/embeddings", self.embeddings, methods=["POST"]),
            Route("/v1/rerank", self.rerank, methods=["POST"]),
            Route("/v1/vector_stores/{name}/search", self.search, methods=["POST"]),
        ]

    def _names(self) -> list[str]:
        names = [MODEL, *(f"{MODEL}/{name}" for name in self.libraries.names)]
        return [f"{name}{mode}" for name in names for mode in ("", SELF_RAG)]

    async def models(self, _: Request) -> Response:
        """Each library twice: with standard and with Self-RAG."""
        return reply({"object": "list", "data": [_model(name) for name in self._names()]})

    async def model(self, request: Request) -> Response:
        """One of them."""
        name = request.path_params["name"]
        self._engine(name)
        return reply(_model(name))

    def _library(self, model: str) -> str:
        name = model.removesuffix(SELF_RAG)
        return self.libraries.names[0] if name == MODEL else name.removeprefix(f"{MODEL}/")

    def _engine(self, model: str) -> Engine:
        return self.libraries.engine(self._library(model))

    def _linker(self, model: str) -> Callable[[Answer, int], str]:
        return partial(self.address, self._library(model))

    async def chat(self, request: Request) -> Response:
        """An answer, at once or as it is written."""
        asked = await decoded(request, ChatRequest)
        if asked.n not in (None, 1):
            raise UsageError("Only one answer can be asked for.", hint="Leave n out.")
        engine = self._engine(asked.model)
        question, history = conversation(asked.messages)
        mode = "self-rag" if asked.model.endswith(SELF_RAG) else None
        options = AskOptions(mode=mode, history=history)
        # Refused with a status, not amid a stream.
        self.queue.expect_room()
        if not asked.stream:
            answer = await while_heard(request, self._answer(engine, question, options))
            return reply(self._completion(engine, asked, answer)) if answer else Response()
        return EventSourceResponse(
            self._streamed(engine, asked, question, options), ping=PING, sep="\n"
        )

    async def _answer(self, engine: Engine, question: str, options: AskOptions) -> Answer:
        async with self.queue.turn(), asking(engine, question, options) as pieces:
            return [piece async for piece in pieces if isinstance(piece, Answer)][-1]

    def _completion(self, engine: Engine, asked: ChatRequest, answer: Answer) -> dict[str, Any]:
        message = {
            "role": "assistant",
            "content": answer.text,
            "annotations": url_citations(answer, self._linker(asked.model)),
        }
        return {
            **_head(asked.model, "chat.completion"),
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": _usage(engine, asked, answer),
            "localrag": plain(answer),
        }

    async def _streamed(
        self, engine: Engine, asked: ChatRequest, question: str, options: AskOptions
    ) -> AsyncIterator[ServerSentEvent]:
        head = _head(asked.model, "chat.completion.chunk")

        def event(delta: Mapping[str, Any], end: str | None = None, **more: Any) -> ServerSentEvent:
            choice = {"index": 0, "delta": delta, "finish_reason": end}
            return _event({**head, "choices": [choice], **more})

        try:
            yield event({"role": "assistant", "content": ""})
            async with self.queue.turn(), asking(engine, question, options) as pieces:
                text = ""
                async for piece in pieces:
                    if isinstance(piece, Answer):
                        answer = piece
                    elif not isinstance(piece, Step):
                        # As in `Answer.text`: white space at the start is no part of it.
                        piece = piece if text else piece.lstrip()
                        text += piece
                        if piece:
                            yield event({"content": piece})
            found = url_citations(answer, self._linker(asked.model))
            if found:
                yield event({"annotations": found})
            yield event({}, "stop", localrag=plain(answer))
            if asked.stream_options and asked.stream_options.include_usage:
                usage = _usage(engine, asked, answer)
                yield _event({**head, "choices": [], "usage": usage})
        except Exception as error:  # told in the stream: its status has been sent
            yield _event(error_body(error)[1])
        yield ServerSentEvent("[DONE]")

    async def responses(self, request: Request) -> Response:
        """An answer with its search and its citations as OpenAI's Responses have them."""
        asked = await decoded(request, ResponseRequest)
        engine = self._engine(asked.model)
        question, history = conversation(asked.messages)
        mode = "self-rag" if asked.model.endswith(SELF_RAG) else None
        options = AskOptions(mode=mode, history=history)
        self.queue.expect_room()
        if asked.stream:
            events = self._response_events(engine, asked, question, options)
            return EventSourceResponse(events, ping=PING)
        answer = await while_heard(request, self._answer(engine, question, options))
        return reply(_response(asked.model, _identity("resp"), answer)) if answer else Response()

    async def _response_events(
        self, engine: Engine, asked: ResponseRequest, question: str, options: AskOptions
    ) -> AsyncIterator[ServerSentEvent]:
        number = itertools.count()
        identity, search, message = (_identity(kind) for kind in ("resp", "fs", "msg"))

        def event(kind: str, **values: Any) -> ServerSentEvent:
            data = {"type": kind, "sequence_number": next(number), **values}
            return ServerSentEvent(json.dumps(data, ensure_ascii=False), event=kind)

        place = {"item_id": message, "output_index": 1, "content_index": 0}
        try:
            yield event("response.created", response=_response(asked.model, identity, None))
            empty = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
            item = {"id": message, "type": "message", "role": "assistant", "status": "in_progress"}
            searching = {**_search(None), "id": search}
            yield event("response.output_item.added", output_index=0, item=searching)
            begun_item = {**item, "content": []}
            yield event("response.output_item.added", output_index=1, item=begun_item)
            yield event("response.content_part.added", **place, part=empty)
            async with self.queue.turn(), asking(engine, question, options) as pieces:
                begun = False
                async for piece in pieces:
                    if isinstance(piece, Answer):
                        answer = piece
                    elif not isinstance(piece, Step):
                        piece = piece if begun else piece.lstrip()
                        begun = begun or bool(piece)
                        if piece:
                            kind = "response.output_text.delta"
                            yield event(kind, **place, delta=piece, logprobs=[])
            yield event("response.output_text.done", **place, text=answer.text, logprobs=[])
            done = _response(asked.model, identity, answer, search, message)
            for index, item in enumerate(done["output"]):
                yield event("response.output_item.done", output_index=index, item=item)
            yield event("response.completed", response=done)
        except Exception as error:  # told in the stream: its status has been sent
            said = error_body(error)[1]["error"]
            yield event("error", code=said["type"], message=said["message"], param=None)

    async def embeddings(self, request: Request) -> Response:
        """Vectors of the model that the library is embedded with; texts count as questions."""
        asked = await decoded(request, EmbeddingRequest)
        engine = self._engine(asked.model)
        texts = [asked.input] if isinstance(asked.input, str) else asked.input
        if not texts or not all(text.strip() for text in texts):
            raise UsageError("There is an empty text to embed.", hint="Leave it out.")
        embedder = await anyio.to_thread.run_sync(lambda: engine.embedder)
        if asked.dimensions not in (None, embedder.dimension):
            raise UsageError(
                "The vectors of this model have {dimension} dimensions.",
                hint="Leave dimensions out.",
                dimension=embedder.dimension,
            )
        vectors = await anyio.to_thread.run_sync(embedder.embed_queries, texts)
        tokens = sum(embedder.count_tokens(texts))
        data = [
            {"object": "embedding", "index": number, "embedding": _vector(row, asked)}
            for number, row in enumerate(np.asarray(vectors, dtype="<f4"))
        ]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return reply({"object": "list", "model": asked.model, "data": data, "usage": usage})

    async def rerank(self, request: Request) -> Response:
        """Texts by their likeness to the query, as the library's embedding sees it."""
        asked = await decoded(request, RerankRequest)
        engine = self._engine(asked.model)

        def scores() -> list[float]:
            texts = engine.embedder.embed_documents(asked.documents)
            query = engine.embedder.embed_queries([asked.query])[0]
            return [float(score) for score in texts @ query]

        found = await anyio.to_thread.run_sync(scores) if asked.documents else []
        order = sorted(range(len(found)), key=lambda number: -found[number])
        results = [
            {"index": n, "relevance_score": found[n], "document": {"text": asked.documents[n]}}
            for n in order[: asked.top_n]
        ]
        return reply({"model": asked.model, "results": results})

    async def search(self, request: Request) -> Response:
        """The best passages of a library, which `default` names without its name."""
        asked = await decoded(request, SearchRequest)
        name = request.path_params["name"]
        engine = self.libraries.engine(self.libraries.names[0] if name == "default" else name)
        query = asked.query if isinstance(asked.query, str) else " ".join(asked.query)
        options = AskOptions(k=asked.max_num_results)
        hits = await anyio.to_thread.run_sync(engine.search, query, options)
        data = [
            {
                "file_id": hit.chunk.document_id,
                "filename": hit.source,
                "score": hit.score,
                "attributes": {"page": hit.chunk.first_page, "heading": hit.chunk.heading},
                "content": [{"type": "text", "text": hit.chunk.text}],
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


def _identity(kind: str) -> str:
    return f"{kind}_{uuid.uuid4().hex}"


def _response(
    model: str, identity: str, answer: Answer | None, search: str = "", message: str = ""
) -> dict[str, Any]:
    """A response; without an answer one that has begun."""
    output: list[dict[str, Any]] = []
    if answer is not None:
        output = [
            {**_search(answer), "id": search or _identity("fs")},
            {
                "id": message or _identity("msg"),
                "type": "message",
                "status": "completed",
                "role": "assistant",
                "content": [_written(answer)],
            },
        ]
    return {
        "id": identity,
        "object": "response",
        "created_at": int(time.time()),
        "model": model,
        "status": "completed" if answer else "in_progress",
        "output": output,
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        **({"localrag": plain(answer)} if answer else {}),
    }


def _search(answer: Answer | None) -> dict[str, Any]:
    """The call of the search, without an answer one that has begun."""
    if answer is None:
        return {"type": "file_search_call", "status": "in_progress", "queries": []}
    found = [
        {
            "file_id": hit.chunk.document_id,
            "filename": hit.source,
            "score": hit.score,
            "text": hit.chunk.text,
            "attributes": {"page": hit.chunk.first_page},
        }
        for hit in answer.contexts
    ]
    return {
        "type": "file_search_call",
        "status": "completed",
        "queries": [answer.question],
        "results": found,
    }


def _written(answer: Answer) -> dict[str, Any]:
    documents = {hit.chunk.id: hit.chunk.document_id for hit in answer.contexts}
    cited = [
        {
            "type": "file_citation",
            "index": marker.end(),
            "file_id": documents.get(citation.chunk_id, ""),
            "filename": citation.source,
        }
        for marker in MARKER.finditer(answer.text)
        for number in marked(marker.group())
        for citation in answer.citations
        if citation.marker == number
    ]
    return {"type": "output_text", "text": answer.text, "annotations": cited, "logprobs": []}


def _event(data: Mapping[str, Any]) -> ServerSentEvent:
    return ServerSentEvent(json.dumps(data, ensure_ascii=False))


def _usage(engine: Engine, asked: ChatRequest, answer: Answer) -> dict[str, int]:
    """Tokens of the messages and of the answer; passages are counted by nobody who asks."""
    count = engine.model.llm.count_tokens
    prompt = sum(count(message.text) for message in asked.messages)
    written = count(answer.text)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": written,
        "total_tokens": prompt + written,
    }


def _vector(row: Any, asked: EmbeddingRequest) -> object:
    if asked.encoding_format == "base64":
        return base64.b64encode(row.tobytes()).decode("ascii")
    return row.tolist()
