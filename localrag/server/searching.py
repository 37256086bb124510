"""Search for the page, with all that `localrag search` can be asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from localrag.config.settings import RERANKERS, LLMReranking
from localrag.documents.formats import table
from localrag.engine import AskOptions, Engine
from localrag.languages import CODES
from localrag.library.catalogue.filters import Filter
from localrag.presentation.steps import scored, step_name
from localrag.server.answers import passages
from localrag.server.asker import preferred
from localrag.server.bounds import Question
from localrag.server.libraries import Libraries
from localrag.server.queue import ModelQueue, OnWait, unheard
from localrag.server.replies import decoded, reply
from localrag.server.routing import Routes, route
from localrag.server.running import while_heard, working
from localrag.types import ScoredChunk, Step

Retrieval = Literal["hybrid", "dense", "keyword"]
Expansion = Literal["none", "multi-query", "hyde"]

MOST = 100
"""Passages of one search."""


class Sought(msgspec.Struct, forbid_unknown_fields=True):
    """What to find, and where; `filter` has the fields of `Filter`, with names for paths."""

    question: Question
    library: str = ""
    k: int | None = None
    retrieval: Retrieval | None = None
    rerank: str | None = None
    expand: Expansion | None = None
    filter: Filter = Filter()


@dataclass(frozen=True, slots=True)
class Searching(Routes):
    """The routes of the search."""

    libraries: Libraries
    queue: ModelQueue

    @route("/api/search")
    async def choices(self, _: Request) -> Response:
        """What a search can be asked for."""
        return reply(
            {
                "types": table.names(),
                "languages": CODES,
                "retrieval": get_args(Retrieval),
                "rerank": RERANKERS,
                "expand": get_args(Expansion),
            }
        )

    @route("/api/search", "POST")
    async def search(self, request: Request) -> Response:
        """The best passages; waits for the language model only where that has a part in it."""
        body, language = await decoded(request, Sought), preferred(request)
        _, engine = await self.libraries.open_recorded(body.library, "search", body.question)
        options = AskOptions(
            k=None if body.k is None else min(body.k, MOST),
            retrieval=body.retrieval,
            rerank=body.rerank,
            expand=body.expand,
            filter=body.filter,
        )
        work = search_in_turn(self.queue, engine, body.question, options)
        result = await while_heard(request, work)
        if result is None:
            return Response(status_code=499)
        hits, steps = result
        step_texts = [
            {"name": step_name(step.kind, language), "said": scored(step, language)}
            for step in steps
        ]
        return reply({"passages": passages(hits, language), "steps": step_texts})


async def search_in_turn(
    queue: ModelQueue, engine: Engine, question: str, options: AskOptions, wait: OnWait = unheard
) -> tuple[list[ScoredChunk], list[Step]]:
    """The best passages and the steps to them; cancelled, the search ends.

    It waits for the language model only where that has a part in it.
    """
    stopped, steps, hits = threading.Event(), list[Step](), list[ScoredChunk]()
    options = replace(options, stopped=stopped)
    needs_model = options.expand not in (None, "none")
    needs_model = needs_model or isinstance(engine.applied(options).reranker, LLMReranking)

    def search(_: Callable[[Any], None]) -> None:
        hits.extend(engine.search(question, options, steps.append))

    async with AsyncExitStack() as stack:
        if needs_model:
            await stack.enter_async_context(queue.turn(wait))
        await stack.enter_async_context(queue.processors.turn(wait))
        pieces = await stack.enter_async_context(working(search, stopped))
        async for _ in pieces:  # it tells nothing before its end
            pass
    return hits, steps
