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
from localrag.presentation.markdown import inert
from localrag.presentation.records import plain
from localrag.rag.base import Piece
from localrag.server.annotations import ClientText, file_citations
from localrag.server.jobs import Send
from localrag.server.replies import error_body
from localrag.types import Answer, Step

Usage = Mapping[str, int]
Address = Callable[[Answer, int], str]
Asking = AbstractAsyncContextManager[AsyncIterator[Piece]]
"""The pieces of an answer, while its block lasts."""


def told(answer: Answer, changed: int) -> dict[str, Any]:
    """What is told beyond the protocol; `disarmed` is how many words of the answer were changed.

    They would have been links, pictures or HTML where a client renders Markdown.
    """
    return {**plain(answer), "disarmed": changed}


class Response:
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

    def whole(self, answer: Answer, changed: int, usage: Usage) -> dict[str, Any]:
        """The response at its end. The text of `answer` is as a client gets it (`ClientText`)."""
        output = [self._search(answer), self._message(answer)]
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
            "localrag": told(answer, changed),
        }

    async def tell(
        self, asking: Asking, usage: Callable[[Answer], Awaitable[Usage]], send: Send
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
                    answer = text.answer(piece)
                elif not isinstance(piece, Step):
                    # As in `Answer.text`: white space at the start is no part of it.
                    given = piece if begun else piece.lstrip()
                    if given and not begun:
                        await begin_message()
                    begun = begun or bool(given)
                    if said := text.piece(given):
                        await say(delta, **place, delta=said, logprobs=[])
        if not begun:
            await begin_message()
        if said := text.rest():
            await say(delta, **place, delta=said, logprobs=[])
        message = self._message(answer)
        (written,) = message["content"]
        for number, annotation in enumerate(written["annotations"]):
            kind = "response.output_text.annotation.added"
            await say(kind, **place, annotation_index=number, annotation=annotation)
        await say("response.output_text.done", **place, text=answer.text, logprobs=[])
        await say("response.content_part.done", **place, part=written)
        await say("response.output_item.done", output_index=1, item=message)
        await say(
            "response.completed", response=self.whole(answer, text.changed, await usage(answer))
        )

    def failed(self, language: InterfaceLanguage, error: Exception) -> Iterator[ServerSentEvent]:
        """How the events end where there is no more of it."""
        said = error_body(error, language)[1]["error"]
        code, message = said["code"], said["message"]
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
        found = None
        if answer is not None:
            found = [
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
            "results": found,
        }

    def _message(self, answer: Answer | None) -> dict[str, Any]:
        content = []
        if answer is not None:
            cited = file_citations(answer, self._address)
            content = [
                {"type": "output_text", "text": answer.text, "annotations": cited, "logprobs": []}
            ]
        return {
            "id": self._message_id,
            "type": "message",
            "status": "completed" if answer else "in_progress",
            "role": "assistant",
            "content": content,
        }
