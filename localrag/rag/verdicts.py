"""A yes or a no is shown only where the sentence that it rests on says so, too.

A small model agrees before it has read what it agrees to: "Yes, staff on probation can work from
home" beside "Staff on probation may not work from home". Where the two differ in whether they deny,
the sentence of the document is told instead, and so it is for a bare "No.", which shows nothing.
Looks at answers and quotations, never at a question. Of 17 questions of others that want yes or no
the starter answered five with a bare word. All five were refused; told with a sentence, four are
right and one wrong. Plain RAG answers three of the four right (`benchmarks/log/2026-11.md`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from localrag.languages import any_of, union_of
from localrag.rag.citations import LIST_MARK, without_markers
from localrag.rag.disagreement import DENIAL

_WHETHER = re.compile(any_of(lambda language: language.questions.whether), re.IGNORECASE)
"""A question that wants yes or no: "Does it renew?", "会自动顺延吗？"."""
_OR = re.compile(r"\bor\b|还是")
"""What names two answers: "Is it monthly or yearly?"."""
_VERDICT = re.compile(
    # "Yes, ..." "No." "可以，..." but neither 可以在 nor Nova
    r"\s*(?P<word>yes|no|是的?|不是|否|不|可以|不可以|不能|能|对|不对|有|没有|需要|不需要|会|不会)"
    r"\s*(?:[,，.。:：;；!！]\s*|\Z)",
    re.IGNORECASE,
)
_BEGUN = re.compile(r"\s*(?:y(?:es?)?|no?|[是不否可能对有没需会要的以]{1,3})?\s*\Z", re.IGNORECASE)
"""What may still become a verdict."""
_NO = union_of(lambda language: language.denial_opens)
_END = re.compile(r"[.!?](?:\s|\Z)|[。！？\n]")
_LONGEST = 300
"""Code points of a first sentence that is waited for, and of a sentence that is told instead."""
_MARKER = " [{number}]"

Quotation = Callable[[str], tuple[int, str]]
"""A statement, "" for the question -> the number of a passage, and its sentence closest to that."""


def asks_whether(question: str) -> bool:
    """Whether yes or no is an answer to a question."""
    return bool(_WHETHER.search(question)) and not _OR.search(question)


def borne_out(pieces: Iterator[str], quotation: Quotation) -> Iterator[str]:
    """What is written, as it comes, with the document's sentence for a verdict that it denies.

    Only a first sentence that begins with a verdict is waited for.
    """
    opening = ""
    for piece in pieces:
        opening += piece
        verdict = _VERDICT.match(opening)
        if not verdict and not _BEGUN.fullmatch(opening):
            break
        rest = opening[verdict.end() :] if verdict else ""
        if len(opening) > _LONGEST or (rest.strip() and _END.search(rest)):
            break
    if opening:
        yield _settled_opening(opening, quotation)
    yield from pieces


def _settled_opening(opening: str, quotation: Quotation) -> str:
    verdict = _VERDICT.match(opening)
    if not verdict or len(opening) > _LONGEST:
        return opening
    rest = opening[verdict.end() :].strip()
    if not any(map(str.isalnum, without_markers(rest))):  # "Yes. [1]" is bare, too
        rest = ""
    says_no = verdict["word"].lower() in _NO
    number, quote = quotation(rest)
    denies = bool(DENIAL.search(quote))
    agrees = denies == (bool(DENIAL.search(rest)) if rest else says_no)
    if rest and agrees and denies and not says_no:
        return rest[:1].upper() + rest[1:]  # "Yes, smoking is forbidden": the rest says it all
    if (rest and agrees) or not quote or len(quote) > _LONGEST:
        return opening
    return LIST_MARK.sub("", quote) + _MARKER.format(number=number)
