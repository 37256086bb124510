"""Replies that say that the documents do not hold the answer, and what is said without them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from localrag.languages import CODES, LanguageCode, any_of
from localrag.prompts import render
from localrag.types import Statement, StatementKind

_REFUSAL = re.compile(any_of(lambda language: language.refusal), re.IGNORECASE | re.DOTALL)
_NOTICES = ("not_from_documents", "out_of_time")
_LONGEST_REFUSAL = 160
"""Characters; a longer text that speaks of missing information says something besides."""


def kind_of(sentence: str) -> StatementKind:
    """What a sentence of a model is, which may copy localrag's own."""
    text = sentence.strip()
    if any(text.startswith(render("missing_part", code, part="").strip()) for code in CODES):
        return "missing"
    notices = (render(name, code) for name in _NOTICES for code in CODES)
    return "notice" if text in notices else "claim"


def refuses(text: str) -> bool:
    """Whether a text without markers says that the documents do not hold it, and no more."""
    text = text.strip()
    if any(text.startswith(render("refusal", code).rstrip(".。")) for code in CODES):
        return True
    return len(text) <= _LONGEST_REFUSAL and bool(_REFUSAL.search(text))


def not_from_documents(pieces: Iterator[Statement], language: LanguageCode) -> Iterator[Statement]:
    """What a model says without documents, behind words that say so; nothing if it says nothing."""
    for piece in pieces:
        if piece.text.strip():
            text = f"{render('not_from_documents', language)}\n\n"
            yield Statement(text, "notice", copied=())
            yield replace(piece, text=piece.text.lstrip())
            yield from pieces
