"""Which sentences of an answer were held against the documents, and which were not."""

from __future__ import annotations

from localrag.prompts import render
from localrag.rag.faithfulness import sentences
from localrag.rag.refusals import refuses, tells_missing
from localrag.types import Answer

_NOTICES = (render("not_from_documents", "en"), render("not_from_documents", "zh"))


def claims(sentence: str) -> bool:
    """Whether a sentence says more than what the documents lack, or that it is not from them."""
    return sentence.strip() not in _NOTICES and not tells_missing(sentence)


def unchecked(answer: Answer) -> list[tuple[int, int]]:
    """Where the sentences of an answer stand that claim something and have no rating."""
    if not answer.grounded and refuses(answer.text):
        return []
    rated = [each.start for each in answer.support]
    return [
        (start, end)
        for start, end in sentences(answer.text)
        if claims(answer.text[start:end]) and not any(start <= at < end for at in rated)
    ]
