"""Answers for tests, from a text with markers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from localrag.rag.base import Piece
from localrag.rag.citations import read
from localrag.types import Answer, Citation, ScoredChunk, Statement, SupportedSentence


def answer(
    text: str,
    citations: Sequence[Citation] = (),
    support: Sequence[SupportedSentence] = (),
    *,
    question: str = "q",
    language: str = "en",
    grounded: bool = True,
    contexts: tuple[ScoredChunk, ...] = (),
    seconds: float = 1.0,
    **more: Any,
) -> Answer:
    statements = read(text, citations, support)
    trace = more.pop("trace", ())
    return Answer(question, statements, language, grounded, contexts, trace, seconds, **more)


def retold(
    before: Answer, text: str, support: Sequence[SupportedSentence] = (), **more: Any
) -> Answer:
    """The same answer in other words, with the citations that it has."""
    return replace(before, statements=read(text, before.citations, support), **more)


def written(pieces: Sequence[Piece]) -> str:
    """What was written of an answer, as it came."""
    return "".join(piece.written for piece in pieces if isinstance(piece, Statement))
