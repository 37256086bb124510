"""Answers in the shape of OpenAI's Responses: a search and a message, at once or as events."""

from __future__ import annotations

import itertools
import json
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from sse_starlette import ServerSentEvent

from localrag.messages import InterfaceLanguage
from localrag.presentation.answers import ClientText, Rendering
from localrag.presentation.markdown import inert
from localrag.presentation.records import answer_record
from localrag.rag.base import Piece
from localrag.server.annotations import file_citations
from localrag.server.jobs import Send
from localrag.server.replies import error_body
from localrag.types import Answer, Statement

Usage = Mapping[str, int]
Address = Callable[[Answer, int], str]
Asking = AbstractAsyncContextManager[AsyncIterator[Piece]]
"""The pieces of an answer, while its block lasts."""


def told(answer: Answer, shown: Rendering) -> dict[str, Any]:
    """What is told beyond the protocol; `disarmed` is how many words of the answer were changed.

    They would have been links, pictures or HTML where a client renders Markdown.
    """
    return {**answer_record(answer, shown), "disarmed": shown.disarmed}


class ActiveResponse:
    """One response, of which an answer becomes known."""

    def __init__(self, model: str, question: str, address: Address) -> None:
        """`address` gives where a citation leads."""
        self._model = model
        self._question = question
        self._address = address
        self._id, self._search_id, self._message_id = (
            f"{kind}_{uuid.uuid4().hex}" for kind in ("resp", "fs", "msg")
        )
        self._created = int(time.time())
        self._numbers = itertools.count()

    def whole(self, answer: Answer, shown: Rendering, usage: Usage) -> dict[str, Any]:
        """The response at its end, with the text that a client gets (`ClientText`)."""
        output = [self._search(answer), self._message(answer, shown)]
        used = {
            "input_tokens": usage["prompt_tokens"],
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": usage["completion_tokens"],
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage["total_tokens"],
        }
        return {
            **self._head("completed"),
            "output": output,
            "usage": used,
            "localrag": told(answer, shown),
        }

    async def tell(
        self, asking: Asking, usage: Callable[[Rendering], Awaitable[Usage]], send: Send
    ) -> None:
        """Send the events in which it comes, in the order of OpenAI's reference."""
        text = ClientText()

        async def say(kind: str, **values: Any) -> None:
            await send(self._event(kind, **values))

        search = {"item_id": self._search_id, "output_index": 0}
        place = {"item_id": self._message_id, "output_index": 1, "content_index": 0}
        delta = "response.output_text.delta"
        empty = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}

        async def begin_message() -> None:
            await say("response.file_search_call.completed", **search)
            await say("response.output_item.done", output_index=0, item=self._search(None, True))
            await say("response.output_item.added", output_index=1, item=self._message(None))
            await say("response.content_part.added", **place, part=empty)

        await say("response.created", response=self._head("in_progress"))
        await say("response.in_progress", response=self._head("in_progress"))
        await say("response.output_item.added", output_index=0, item=self._search(None))
        await say("response.file_search_call.in_progress", **search)
        await say("response.file_search_call.searching", **search)
        begun = False
        async with asking as pieces:
            async for piece in pieces:
                if isinstance(piece, Answer):
                    answer, rendering = text.answer(piece)
                elif isinstance(piece, Statement):
                    if not begun:
                        await begin_message()
                    begun = True
                    if delta_text := text.piece(piece):
                        await say(delta, **place, delta=delta_text, logprobs=[])
        if not begun:
            await begin_message()
        if delta_text := text.rest():
            await say(delta, **place, delta=delta_text, logprobs=[])
        message = self._message(answer, rendering)
        (written,) = message["content"]
        for number, annotation in enumerate(written["annotations"]):
            kind = "response.output_text.annotation.added"
            await say(kind, **place, annotation_index=number, annotation=annotation)
        await say("response.output_text.done", **place, text=rendering.text, logprobs=[])
        await say("response.content_part.done", **place, part=written)
        await say("response.output_item.done", output_index=1, item=message)
        await say(
            "response.completed", response=self.whole(answer, rendering, await usage(rendering))
        )

    def failed(self, language: InterfaceLanguage, error: Exception) -> Iterator[ServerSentEvent]:
        """How the events end where there is no more of it."""
        failure = error_body(error, language)[1]["error"]
        code, message = failure["code"], failure["message"]
        yield self._event("error", code=code, message=message, param=None)
        head = self._head("failed") | {"error": {"code": code, "message": message}}
        yield self._event("response.failed", response=head)

    def _event(self, kind: str, **values: Any) -> ServerSentEvent:
        data = {"type": kind, "sequence_number": next(self._numbers), **values}
        return ServerSentEvent(json.dumps(data, ensure_ascii=False), event=kind)

    def _head(self, status: str) -> dict[str, Any]:
        return {
            "id": self._id,
            "object": "response",
            "created_at": self._created,
            "model": self._model,
            "status": status,
            "output": [],
            "parallel_tool_calls": False,
            "tool_choice": "auto",
            "tools": [],
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "temperature": None,
            "top_p": None,
            "usage": None,
        }

    def _search(self, answer: Answer | None, done: bool = False) -> dict[str, Any]:
        """The call of the search; what it found is known with the answer."""
        results = None
        if answer is not None:
            results = [
                {
                    "file_id": hit.chunk.document_id,
                    "filename": inert(hit.source).text,
                    "score": hit.score,
                    "text": inert(hit.chunk.text).text,
                    "attributes": {"page": hit.chunk.first_page},
                }
                for hit in answer.contexts
            ]
        return {
            "id": self._search_id,
            "type": "file_search_call",
            "status": "completed" if done or answer else "in_progress",
            "queries": [answer.question if answer else self._question],
            "results": results,
        }

    def _message(self, answer: Answer | None, rendering: Rendering | None = None) -> dict[str, Any]:
        content = []
        if answer is not None and rendering is not None:
            cited = file_citations(answer, rendering, self._address)
            content = [
                {
                    "type": "output_text",
                    "text": rendering.text,
                    "annotations": cited,
                    "logprobs": [],
                }
            ]
        return {
            "id": self._message_id,
            "type": "message",
            "status": "completed" if answer else "in_progress",
            "role": "assistant",
            "content": content,
        }
