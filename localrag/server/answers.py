"""Answers as the page shows them: in sentences with their marks, with words for every place."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from localrag.messages import InterfaceLanguage
from localrag.presentation.not_found import looked_for_text, reason_text, suggestion_text
from localrag.presentation.places import cited_as
from localrag.presentation.records import picked, plain
from localrag.presentation.steps import scored, step_name
from localrag.presentation.support import claims
from localrag.rag.citations import MARKER, marked, without_markers
from localrag.rag.refusals import refuses
from localrag.server import views
from localrag.text.sentences import split_sentences
from localrag.types import Answer, NotFound, Rating, ScoredChunk, Step, SupportedSentence


def told(library: str, answer: Answer, language: InterfaceLanguage) -> dict[str, Any]:
    """A finished answer, with the view that each of its citations opens."""
    return {
        **plain(answer),
        "sentences": sentences(answer),
        "views": [plain(views.quoted(library, answer, one)) for one in answer.citations],
        "contexts": passages(answer.contexts, language),
        "cited": [cited_as(one, language) for one in answer.citations],
        "steps": [told_step(one, language) for one in answer.trace],
        "not_found": [told_not_found(library, answer, one, language) for one in answer.not_found],
    }


def told_not_found(
    library: str, answer: Answer, found: NotFound, language: InterfaceLanguage
) -> dict[str, Any]:
    """What a question came to in words, with the view that the closest sentence opens."""
    closest = found.closest
    return {
        "question": found.question,
        "looked_for": looked_for_text(found, language),
        "reason": reason_text(found, language),
        "closest": closest
        and {
            **picked(closest, "source", "page", "quote"),
            "cited": cited_as(closest, language),
            "view": plain(views.quoted(library, answer, closest)),
        },
        "suggestions": [
            {"question": one.question, "why": suggestion_text(one, language)}
            for one in found.suggestions
        ],
    }


def told_step(step: Step, language: InterfaceLanguage) -> dict[str, Any]:
    """A step in words."""
    said = {"name": step_name(step.kind, language), "said": scored(step, language)}
    return {"kind": step.kind, **said, "seconds": step.seconds}


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
    """The text of an answer in sentences, which joined are the text, and what is known of each.

    `mark` is "quoted" where all that is said stands in the quotation, "supported", "partly" or
    "not" where the sentence was checked otherwise. Else it was not: "unchecked" with a quotation,
    which proves nothing by itself, and "none" without; "" in a refusal, and where only is said what
    the documents lack or that it is not from them: these claim nothing.
    `parts` are texts, and where a marker stood, the numbers of the citations that it stands for,
    from 0.
    """
    text = answer.text
    unmarked = "" if not answer.grounded and refuses(text) else "none"
    # A marker behind a full stop belongs to the sentence before it.
    starts = [
        span.start
        for span in split_sentences(text)
        if without_markers(text[span.start : span.end]).strip(" .。")
    ]
    graded = {each.start: _mark(each) for each in answer.support}
    found = []
    for start, end in pairwise([0, *starts[1:], len(text)]):
        parts = _parts(answer, start, end)
        rated = next((graded[at] for at in graded if start <= at < end), "")
        cited = any(isinstance(part, list) for part in parts)
        mark = rated or ("unchecked" if cited else unmarked)
        mark = mark if cited or claims(text[start:end]) else ""
        found.append({"parts": parts, "mark": mark})
    return found


def _mark(each: SupportedSentence) -> str:
    return "quoted" if each.quoted else _MARKS[each.rating]


def _parts(answer: Answer, start: int, end: int) -> list[str | list[int]]:
    """A sentence, with its markers as the citations that they stand for."""
    parts: list[str | list[int]] = []
    for marker in MARKER.finditer(answer.text, start, end):
        cited = [
            number
            for each in marked(marker.group())
            if (number := citation_of(answer, each, marker.start())) is not None
        ]
        if cited:
            parts += [answer.text[start : marker.start()], cited]
            start = marker.end()
    return [*parts, answer.text[start:end]]


def citation_of(answer: Answer, marker: int, at: int) -> int | None:
    """The number of the citation that a marker at code point `at` stands for, from 0."""
    own = [number for number, one in enumerate(answer.citations) if one.marker == marker]
    said = without_markers(answer.text[:at]).rstrip()
    claimed = (n for n in own if any(map(said.endswith, answer.citations[n].claims)))
    return next(claimed, own[0] if own else None)
