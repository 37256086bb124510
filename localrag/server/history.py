"""Conversations kept in a library because somebody wants them: listed, opened, forgotten.

Where people sign in, the database gives each their own alone.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import anyio
import msgspec
from starlette.requests import Request
from starlette.responses import Response

from localrag.errors import LibraryError, LibraryNotFoundError
from localrag.library.catalogue.guarded import damaged_rows
from localrag.library.library import Library
from localrag.library.records import KeptAnswer
from localrag.messages import InterfaceLanguage, spoken
from localrag.presentation.records import plain
from localrag.rag.base import source_documents
from localrag.rag.citations import read
from localrag.rag.statements import Statements
from localrag.server.answers import told
from localrag.server.asker import preferred
from localrag.server.libraries import Libraries
from localrag.server.naming import Naming, without_paths
from localrag.server.replies import decoded, reply
from localrag.server.routing import Routes, route
from localrag.types import (
    Answer,
    Basis,
    Citation,
    NotFound,
    ScoredChunk,
    SelfRAGMetrics,
    Step,
    StepKind,
    SupportedSentence,
)

_PATIENCE = 5.0
"""Seconds that an answer waits for whoever writes to the library."""


class Switched(msgspec.Struct, forbid_unknown_fields=True):
    """Whether conversations of a library are to be kept."""

    on: bool
    library: str = ""


@dataclass(frozen=True, slots=True)
class History(Routes):
    """The routes below /api/history."""

    libraries: Libraries

    def _library(self, name: str) -> Library:
        return self.libraries.engine(name).library

    @route("/api/history")
    async def listed(self, request: Request) -> Response:
        """Whether conversations are kept, and which there are."""
        library = self._library(request.query_params.get("library", ""))
        return reply(await anyio.to_thread.run_sync(_history_record, library))

    @route("/api/history", "POST")
    async def switch(self, request: Request) -> Response:
        """Keep conversations from now on, or no longer; what is kept stays."""
        body = await decoded(request, Switched)
        _, engine = await self.libraries.open_recorded(body.library, "conversations")

        def switched() -> dict[str, Any]:
            engine.library.keep_history(on=body.on)
            return _history_record(engine.library)

        return reply(await anyio.to_thread.run_sync(switched))

    @route("/api/history/{conversation}")
    async def opened(self, request: Request) -> Response:
        """The answers of a conversation, as they were told."""
        name = self.libraries.named(request.query_params.get("library", ""))
        library, naming = self._library(name), self.libraries.naming(name)
        key, language = request.path_params["conversation"], preferred(request)

        def read() -> list[dict[str, Any]]:
            return [
                {
                    "asked": entry.question,
                    "asked_at": entry.asked_at,
                    "answer": _tell_entry(name, _decode_entry(library, naming, entry), language),
                }
                for entry in library.kept_answers(key)
            ]

        answers = await anyio.to_thread.run_sync(read)
        if not answers:
            raise LibraryNotFoundError(
                "There is no conversation {name}.", hint="See /api/history.", name=key
            )
        return reply({"conversation": key, "answers": answers})

    @route("/api/history", "DELETE")
    @route("/api/history/{conversation}", "DELETE")
    async def forget(self, request: Request) -> Response:
        """Forget a conversation, or all of them."""
        library = self._library(request.query_params.get("library", ""))
        key = request.path_params.get("conversation")
        purged = await anyio.to_thread.run_sync(library.forget_conversations, key)
        return reply({"purged": purged})


def keep(
    library: Library,
    asked: str,
    answer: Answer,
    language: InterfaceLanguage,
    conversation: str,
    after: int,
) -> dict[str, Any] | None:
    """Keep an answer to what was `asked` if the library is to; what to tell of it.

    `conversation` is empty for a new one, `after` the number of answers before.
    """
    if not library.keeps_history:
        return None
    key = conversation or secrets.token_hex(8)
    try:
        record, sources = _encode_answer(answer), source_documents(answer)
        is_kept = library.keep_answer(key, asked, record, sources, after=after, timeout=_PATIENCE)
    except LibraryError as error:  # somebody else writes, or nobody can
        return {"conversation": "", "reason": spoken(without_paths(error), language)}
    return {"conversation": key if is_kept else "", "reason": ""}


def _history_record(library: Library) -> dict[str, Any]:
    return {"on": library.keeps_history, "conversations": plain(library.conversations())}


def _encode_answer(answer: Answer) -> str:
    """An answer with the passages that it cites and no other, and without paths."""
    cited = {citation.chunk_id for citation in (*answer.citations, *_closest_citations(answer))}
    contexts = (context for context in answer.contexts if context.chunk.id in cited)
    lean = replace(
        answer,
        statements=_map_cited(answer.statements, lambda citation: replace(citation, source="")),
        contexts=tuple(replace(context, source="") for context in contexts),
        trace=tuple(_without_texts(step) for step in answer.trace),
        left_out=(),
        documents=(),
        # Wordings are of documents that nothing else of the answer comes from, and of their day.
        not_found=tuple(
            replace(
                missing,
                closest=missing.closest and replace(missing.closest, source=""),
                suggestions=(),
            )
            for missing in answer.not_found
        ),
    )
    return msgspec.json.encode(lean).decode()


_GRADE = ("calibrated", "probability", "lacks", "part", "unread")

_KEPT_VALUES: Mapping[StepKind, Collection[str]] = {
    "scope": ("all",),
    "columns": ("questions",),
    "cell": ("state", "left", "to_come"),
    "compute": ("sure", "doubt"),
    "filter": ("allowed", "total"),
    "private": ("left_out",),
    "expand": ("queries", "passage"),
    "parts": ("parts", "missing"),
    "first asked": ("asked",),
    "retrieve": ("passages", "too_long"),
    "rerank": ("reranker", "kept", "read"),
    "answerable": ("answer", *_GRADE),
    "write": ("passages", "cut_short"),
    "check citations": ("cited", "removed", "added"),
    "check sentences": ("checked", "unchecked", "unsupported", "asked"),
    "disagreement": ("passages",),
    "retrieval decision": ("needed", "close", "strict", *_GRADE),
    "relevance": ("passage", "relevant", "fewer_words", *_GRADE),
    "draft": ("passage",),
    "says": ("passage", "says"),
    "decides": ("passage", "decides"),
    "point": ("passage", "sure"),
    "support of a sentence": ("rating", *_GRADE),
    "support": ("rating", *_GRADE),
    "utility": _GRADE,
    "choose": ("answer",),
    "budget": ("skipped", "count"),
    "instructions": ("left_out",),
    "cost": ("read", "written", "kept", "least", "most", "budget"),
}
"""Values of steps that are kept: numbers, grades, and texts that come from the question alone.

A file that was tried need have nothing to do with the answer, and a query that settled nothing
has values of its cells. Nothing of them would go with their document.
"""


def _without_texts(step: Step) -> Step:
    """A step without words and figures of passages that the answer need not cite."""
    names = _KEPT_VALUES.get(step.kind, ())
    values = {name: value for name, value in step.values.items() if name in names}
    return replace(step, left_out=(), values=values)


def _decode_entry(library: Library, naming: Naming, entry: KeptAnswer) -> Answer:
    """The answer, with its documents under the names that they have now."""
    try:
        answer = _decode_answer(entry.record)
    except (msgspec.MsgspecError, RecursionError) as error:  # the folder came from elsewhere
        raise damaged_rows(error) from error
    documents = {context.chunk.id: context.chunk.document_id for context in answer.contexts}
    paths = library.sources_of(set(documents.values()))
    names = {document: naming.of(path) for document, path in paths.items()}
    sources = {chunk: names.get(document, "") for chunk, document in documents.items()}
    return replace(
        answer,
        statements=_map_cited(
            answer.statements,
            lambda citation: (
                citation.chunk_id in sources
                and replace(citation, source=sources[citation.chunk_id])
            ),
        ),
        contexts=tuple(
            replace(context, source=sources[context.chunk.id]) for context in answer.contexts
        ),
        not_found=tuple(_name_closest(missing, sources) for missing in answer.not_found),
    )


def _tell_entry(library: str, answer: Answer, language: InterfaceLanguage) -> dict[str, Any]:
    """The answer as it was told; its steps may lack values that their words need."""
    try:
        return told(library, answer, language)
    except (ArithmeticError, AssertionError, LookupError, TypeError, ValueError) as error:
        raise damaged_rows(error) from error  # the folder came from elsewhere


class _EarlierAnswer(msgspec.Struct):
    """An answer as it was kept before it was made of statements."""

    question: str
    text: str
    language: str
    grounded: bool
    citations: tuple[Citation, ...]
    contexts: tuple[ScoredChunk, ...]
    trace: tuple[Step, ...]
    seconds: float
    support: tuple[SupportedSentence, ...] = ()
    metrics: SelfRAGMetrics | None = None
    not_found: tuple[NotFound, ...] = ()
    basis: Basis | None = None


def _decode_answer(record: str) -> Answer:
    """Raises `MsgspecError`."""
    try:
        return msgspec.json.decode(record, type=Answer)
    except msgspec.ValidationError:
        fields = msgspec.structs.asdict(msgspec.json.decode(record, type=_EarlierAnswer))
        text, citations, support = (fields.pop(name) for name in ("text", "citations", "support"))
        return Answer(statements=read(text, citations, support), **fields)


def _map_cited(
    statements: Statements, changed: Callable[[Citation], Citation | Literal[False]]
) -> Statements:
    """The statements with their citations changed, or left out."""
    return tuple(
        replace(
            statement,
            citations=tuple(
                replace(cited, citation=citation)
                for cited in statement.citations
                if (citation := changed(cited.citation))
            ),
        )
        for statement in statements
    )


def _name_closest(missing: NotFound, sources: Mapping[int, str]) -> NotFound:
    closest = missing.closest
    if closest is None or closest.chunk_id not in sources:
        return replace(missing, closest=None)
    return replace(missing, closest=replace(closest, source=sources[closest.chunk_id]))


def _closest_citations(answer: Answer) -> list[Citation]:
    return [missing.closest for missing in answer.not_found if missing.closest is not None]
