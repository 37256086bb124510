"""Where a model would guess, the document's own sentences are told.

A small model guesses yes or no, and agrees: of 74 verdicts that the starter wrote on passages of
others .60 were right, a layer of it knows little more (area .72), and it hardly says which sentence
answers (.22 in English, .50 in Chinese). The two sentences closest to the question settle it in .85
of 120 English cases and in .97 of 120 Chinese ones (`benchmarks/whether.py`). So the verdict of a
model that localrag has probed gives way to them, and so does any model's bare "No.", which shows
nothing (`benchmarks/log/2026-11.md`, 2026-11-28, "yes or no"). So does what such a model writes
that the question said already (2026-11-29, "echoes").
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator

from localrag.languages import any_of
from localrag.rag.citations import Attributor, may_be_told, without_markers
from localrag.text.normalize import fold
from localrag.text.sentences import told_and_asked
from localrag.text.tokenize import PIECE, STOP_WORDS

_WHETHER = re.compile(any_of(lambda language: language.questions.whether), re.IGNORECASE)
"""A question that wants yes or no: "Does it renew?", "会自动顺延吗？"."""
_OR = re.compile(r"\bor\b|还是")
"""What names two answers: "Is it monthly or yearly?"."""
_VERDICT = re.compile(
    # "Yes, ..." "No." "可以，..." but neither 可以在, Nova, "No. 12" nor 需要：护照
    r"\s*(?:yes|no(?!\.\s*\d)|是的?|不是|否|不|可以|不可以|不能|能|对|不对|有|没有|需要|不需要|会|不会)"
    r"\s*(?:[,，.。;；!！]\s*|(?=\[)|\Z)",
    re.IGNORECASE,
)
_BEGUN = re.compile(
    r"\s*(?:(?:y(?:es?)?|no?|[是不否可能对有没需会要的以]{1,3})\s*)?\Z", re.IGNORECASE
)
"""What may still become a verdict: " ye"."""
_BEGINNING = 4
"""Letters by which a word is taken for a form of another, until it is whole: charge, charged."""
SENTENCES = 2
"""How many are told in place of a verdict."""
LONGEST = 600
"""Code points of one of them."""


def asks_whether(question: str) -> bool:
    """Whether yes or no is an answer to a question, by the sentences of it that ask."""
    _, asking = told_and_asked(question)
    return bool(_WHETHER.search(asking)) and not _OR.search(asking)


class Echo:
    """What a question says already. `terms` gives those of a text, as a search has them."""

    def __init__(self, question: str, terms: Callable[[str], Iterable[str]]) -> None:
        self._capitals, self._terms = frozenset(_capitals(question)), terms
        self._asked = frozenset(terms(question))
        folded = fold(question)
        self._characters = {*folded, *STOP_WORDS}
        self._words = {*STOP_WORDS, *(match[0] for match in PIECE.finditer(folded))}

    def is_begun(self, opening: str) -> bool:
        """Whether no more is written so far; its last word may not be whole yet."""
        text = fold(_unmarked(opening))
        return all(self._is_known(match, len(text)) for match in PIECE.finditer(text))

    def is_all(self, answer: str) -> bool:
        """Whether an answer has terms, and none that the question has not; marks aside.

        A capital may be an answer and no term: grade A, the WHO.
        """
        text = without_markers(answer)
        terms = frozenset(self._terms(text))
        return bool(terms) and terms <= self._asked and self._capitals.issuperset(_capitals(text))

    def _is_known(self, piece: re.Match[str], end: int) -> bool:
        if piece.lastgroup == "han":
            return self._characters.issuperset(piece[0])
        if piece.end() < end:
            return self._asked.issuperset(self._terms(piece[0]))
        return any(word.startswith(piece[0][:_BEGINNING]) for word in self._words)


def _capitals(text: str) -> Iterator[str]:
    return (match[0] for match in PIECE.finditer(text) if match[0].isupper())


def without_guess(
    pieces: Iterator[str], sentences: Callable[[], str], echo: Echo | None
) -> Iterator[str]:
    """What is written, as it comes; the document's `sentences` for a bare yes or no.

    Of a model that guesses, for which there is an `echo`, also for any answer that begins with a
    verdict, and for what the question says already. The model is stopped then. Where no sentence is
    known, what is written stays.
    """
    opening, ended = "", False
    for piece in pieces:
        opening += piece
        verdict = _VERDICT.match(opening)
        if verdict and _says_more(opening[verdict.end() :]):
            break
        if not verdict and not _BEGUN.fullmatch(opening) and not (echo and echo.is_begun(opening)):
            break
    else:
        ended = True
    verdict = _VERDICT.match(opening)
    if verdict:
        replaced = echo is not None or not _says_more(opening[verdict.end() :])
    else:
        replaced = echo is not None and ended and echo.is_all(opening)
    if replaced and (replacement := sentences()):
        if isinstance(pieces, Generator):
            pieces.close()  # what would be written else is not waited for
        yield replacement
        return
    if opening:
        yield opening
    yield from pieces


def closest_sentences(attributor: Attributor, markers: tuple[int, ...], question: str) -> str:
    """The sentences of some passages that are closest to a question, with markers.

    "" where one of them cannot be told or is too long to be shown.
    """
    nearest = attributor.nearest_sentences(markers, question, SENTENCES)
    if any(len(text) > LONGEST or not may_be_told(text, question) for text, _ in nearest):
        return ""
    return "\n".join(f"{sentence} [{citation.marker}]" for sentence, citation in nearest)


def _says_more(rest: str) -> bool:
    """Whether anything follows a verdict but a marker, or what may become one."""
    return any(map(str.isalnum, _unmarked(rest)))


def _unmarked(text: str) -> str:
    """A text without markers, up to what may become one."""
    return without_markers(text).partition("[")[0]
