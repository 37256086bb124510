"""Replies that say that the documents do not hold the answer, and what is said without them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import get_args

from localrag.prompts import PromptLanguage, render
from localrag.rag.citations import without_markers

_REFUSAL = re.compile(
    r"(?:do(?:es)? not|don't|doesn't) (?:contain|provide|mention|have|include)\b"
    r".{0,40}(?:answer|information)"
    r"|^(?:the )?(?:passages?|documents?|text|material)\b.{0,30}\b(?:do(?:es)? not|doesn't|don't) "
    r"(?:mention|say|state|specify|provide)\b"
    r"|\bno (?:information|answer)\b.{0,40}(?:documents?|passages?|context|text|provided|given)"
    r"|(?:cannot|can't|could not) be (?:answered|found) (?:in|from)"
    r"|(?:文档|资料|上下文|文中|原文|文本|知识库)(?:中|里|内)?(?:并)?(?:没有|未|不包含|无)"
    r"|(?:无法|不能)(?:从|根据).{0,12}(?:回答|得出|得到|找到|确定)",
    re.IGNORECASE | re.DOTALL,
)
_LONGEST_REFUSAL = 160
"""Characters; a longer text that speaks of missing information says something besides."""


def tells_missing(sentence: str) -> bool:
    """Whether a sentence says which part of a question the documents do not answer."""
    said = (render("missing_part", language, part="").strip() for language in ("en", "zh"))
    return any(sentence.strip().startswith(beginning) for beginning in said)


def is_notice(answer: str) -> bool:
    """Whether an answer says by itself that it is not from the documents, or that there is none."""
    said = (
        render(name, language)
        for name in ("not_from_documents", "out_of_time")
        for language in get_args(PromptLanguage)
    )
    return answer.strip().startswith(tuple(said))


def refuses(answer: str) -> bool:
    """Whether the answer says that the documents do not hold it, and nothing besides."""
    text = without_markers(answer).strip()
    said = (render("refusal", "en").rstrip("."), render("refusal", "zh").rstrip("。"))
    if any(text.startswith(refusal) for refusal in said):
        return True
    return len(text) <= _LONGEST_REFUSAL and bool(_REFUSAL.search(text))


def not_from_documents(pieces: Iterator[str], language: PromptLanguage) -> Iterator[str]:
    """What a model says without documents, behind words that say so; nothing if it says nothing."""
    said = ""
    for piece in pieces:
        said += piece
        if said.strip():
            yield f"{render('not_from_documents', language)}\n\n{said.lstrip()}"
            yield from pieces
            return
