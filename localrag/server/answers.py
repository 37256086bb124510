"""Answers as the page shows them: in sentences with their marks, with words for every place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from localrag.messages import InterfaceLanguage
from localrag.presentation.answers import sentences
from localrag.presentation.not_found import looked_for_text, reason_text, suggestion_text
from localrag.presentation.places import cited_as
from localrag.presentation.records import picked, plain
from localrag.presentation.steps import scored, step_name
from localrag.server import views
from localrag.types import Answer, NotFound, ScoredChunk, Step


def told(library: str, answer: Answer, language: InterfaceLanguage) -> dict[str, Any]:
    """A finished answer, with the view that each of its citations opens."""
    return {
        **plain(answer),
        "sentences": sentences(answer),
        "views": [plain(views.quoted(library, answer, citation)) for citation in answer.citations],
        "contexts": passages(answer.contexts, language),
        "cited": [cited_as(citation, language) for citation in answer.citations],
        "steps": [told_step(step, language) for step in answer.trace],
        "not_found": [
            told_not_found(library, answer, missing, language) for missing in answer.not_found
        ],
    }


def told_not_found(
    library: str, answer: Answer, missing: NotFound, language: InterfaceLanguage
) -> dict[str, Any]:
    """What a question came to in words, with the view that the closest sentence opens."""
    closest = missing.closest
    return {
        "question": missing.question,
        "looked_for": looked_for_text(missing, language),
        "reason": reason_text(missing, language),
        "closest": closest
        and {
            **picked(closest, "source", "page", "quote"),
            "cited": cited_as(closest, language),
            "view": plain(views.quoted(library, answer, closest)),
        },
        "suggestions": [
            {"question": suggestion.question, "why": suggestion_text(suggestion, language)}
            for suggestion in missing.suggestions
        ],
    }


def told_step(step: Step, language: InterfaceLanguage) -> dict[str, Any]:
    """A step in words, and in numbers what the page counts down."""
    texts = {"name": step_name(step.kind, language), "said": scored(step, language)}
    numbers = {"values": plain(step.values)} if step.kind == "cost" else {}
    return {"kind": step.kind, **texts, "seconds": step.seconds, **numbers}


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
