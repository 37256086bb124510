"""Records as plain data for JSON: as a record has its fields, but for those with a shape of theirs.

What may change its looks from version to version stays out: only keys that are here are promised.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import singledispatch
from typing import Any

from localrag.messages import SOURCE
from localrag.presentation.answers import Rendering, rendered
from localrag.presentation.not_found import reason_text
from localrag.presentation.steps import decision
from localrag.types import Answer, NotFound, ScoredChunk, Step


@singledispatch
def plain(value: object) -> Any:
    """Dicts, lists and scalars; a room with records of its own shape registers them here."""
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {key: plain(field) for key, field in value.items()}
    return [plain(element) for element in value] if isinstance(value, tuple | list) else value


@plain.register
def _(hit: ScoredChunk) -> dict[str, Any]:
    """One passage, with the rank that each leg gave."""
    chunk = hit.chunk
    return {
        "source": hit.source,
        "page": chunk.first_page,
        "last_page": chunk.last_page,
        "place": plain(hit.place),
        "heading": chunk.heading,
        "score": hit.score,
        "text": chunk.text,
        "columns": plain(chunk.columns),
        "ranks": {rank.leg: {"rank": rank.rank, "score": rank.score} for rank in hit.ranks},
        "chunk_id": chunk.id,
    }


@plain.register
def _(step: Step) -> dict[str, Any]:
    return {
        "name": step.kind,
        "decision": decision(step, SOURCE),
        "values": plain(step.values),
        "score": step.score,
        "seconds": round(step.seconds, 3),
    }


@plain.register
def _(answer: Answer) -> dict[str, Any]:
    return answer_record(answer, rendered(answer))


def answer_record(answer: Answer, shown: Rendering) -> dict[str, Any]:
    """An answer whose text is shown in that way."""
    return {
        "question": answer.question,
        "answer": shown.text,
        **picked(answer, "language", "grounded"),
        "citations": [
            picked(citation, "marker", "source", "page", "place", "quote")
            for citation in answer.citations
        ],
        **picked(answer, "contexts", "trace"),
        "seconds": round(answer.seconds, 3),
        "support": [
            {"text": text, "rating": sentence.rating, "share": round(sentence.share, 3)}
            for text, sentence in shown.rated
        ],
        "unchecked": shown.unchecked,
        "metrics": plain(answer.metrics),
        "left_out": [
            picked(passage, "source", "page", "place", "text") for passage in answer.left_out
        ],
        **picked(answer, "not_found", "basis"),
    }


@plain.register
def _(not_found: NotFound) -> dict[str, Any]:
    closest = not_found.closest
    return {
        **picked(not_found, "question", "looked_for"),
        "closest": closest and picked(closest, "source", "page", "place", "quote"),
        **picked(not_found, "missing", "absent", "probability"),
        "reason": reason_text(not_found, SOURCE),
        "suggestions": plain(not_found.suggestions),
    }


def picked(record: object, *names: str) -> dict[str, Any]:
    """Some fields of a record, in this order."""
    return {name: plain(getattr(record, name)) for name in names}
