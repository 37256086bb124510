"""The words of a question that carry it, as its asker wrote them, and which texts have them.

Terms of the keyword index are stems and parts of words: nothing to show to a person.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from localrag.documents.chunking import passage_text
from localrag.languages import is_spaced, union_of
from localrag.text.figures import Month, has_han, month_asked
from localrag.text.language import detect
from localrag.text.normalize import fold
from localrag.text.tokenize import PIECE, THOUSANDS
from localrag.types import ScoredChunk

Tokenize = Callable[[str], list[str]]

_ASKING = union_of(lambda language: language.asking_words)
"""What asks, and what stands in most questions, beside the stop words of the index."""

SURELY_READ = 3
"""Passages of a search that are read whatever words they have."""

_POSSESSIVE = re.compile(r"['’]s?\Z")


@dataclass(frozen=True, slots=True)
class Word:
    """Code points `start:start + len(text)` of a question, and the terms that they give."""

    text: str
    start: int
    terms: tuple[str, ...]
    kind: Literal["number", "han", "other"]


class Text:
    """A text that may have words; what it is made of is found out when it is first asked."""

    def __init__(self, text: str, tokenize: Tokenize) -> None:
        self.text = text
        self._tokenize = tokenize

    @cached_property
    def spaced(self) -> bool | None:
        """Whether its language sets words apart by blanks; None where it has sentences of both."""
        return is_spaced(detect(self.text))

    @cached_property
    def folded(self) -> str:
        """As texts are compared."""
        return fold(self.text)

    @cached_property
    def _terms(self) -> frozenset[str]:
        return frozenset(self._tokenize(self.text))

    def has(self, word: Word) -> bool:
        """Whether the word stands in it, in whatever form the index takes for the same."""
        if word.kind == "han":
            return has_han(fold(word.text), self.folded)
        whole, *parts = word.terms
        return whole in self._terms or (bool(parts) and self._terms.issuperset(parts))

    def lack_of(self, word: Word) -> float:
        """How much of a word that it has not is missing, 0 to 1."""
        pairs = [word.text[at : at + 2] for at in range(len(word.text) - 1)]
        if word.kind != "han" or len(pairs) < 2:
            return 1.0
        return sum(fold(pair) not in self.folded for pair in pairs) / len(pairs)

    def could_have(self, word: Word, asked: Text) -> bool:
        """Whether it says something that the word is not in the text: not across languages.

        A number is the same in both, and so is a name in Latin letters in a Chinese question.
        """
        if word.kind == "number":
            return True
        if word.kind == "han":
            return self.spaced is not True
        return asked.spaced is not True or self.spaced is not False


class Asked:
    """A question and its words, which are looked for in passage after passage."""

    def __init__(self, question: str, tokenize: Tokenize) -> None:
        self.question = question
        self.tokenize = tokenize

    @cached_property
    def text(self) -> Text:
        """The question as a text, of one language or the other."""
        return Text(self.question, self.tokenize)

    @cached_property
    def month(self) -> Month | None:
        """The month that it is about; None where it names none or several."""
        return month_asked(self.question)

    @cached_property
    def words(self) -> list[Word]:
        """The words that carry it, each once, in their order."""
        return question_words(self.question, self.tokenize)

    def missing(self, passage: str) -> tuple[tuple[str, ...], float]:
        """The words that a passage lacks, and their share of all its words, 0 to 1.

        A Chinese word of three characters or more counts in part where the passage has some of its
        pairs of characters. What a text in another language could not have is not lacking.
        """
        text = Text(passage, self.tokenize)
        lacks = [
            word for word in self.words if text.could_have(word, self.text) and not text.has(word)
        ]
        share = sum(map(text.lack_of, lacks)) / max(len(self.words), 1)
        return tuple(word.text for word in lacks), share

    def had(self, passage: str) -> int | None:
        """How many words a passage has; None for one in another language."""
        text = Text(passage, self.tokenize)
        alike = all(text.could_have(word, self.text) for word in self.words)
        return sum(map(text.has, self.words)) if alike else None


class FewerWords:
    """Which passages of a search have fewer of a question's words than one before them.

    Such a one seldom holds what the others do not: it alone answers 3 of 1,066 questions of
    cmrc2018 and xquad_en, and where nothing answers, a fifth need not be read
    (`benchmarks/log/2026-11.md`, 2026-11-22, "where no passage is enough"). None of the first
    three, none where the search ranks nothing, and none in another language. Each is taken apart
    once.
    """

    def __init__(self, asked: Asked, passages: Sequence[ScoredChunk]) -> None:
        self._asked, self._passages = asked, passages
        self._had: list[int | None] = []

    def in_passage(self, number: int) -> bool:
        """Whether the passage of that number, from 1, is one."""
        passage = self._passages[number - 1]
        if number <= SURELY_READ or passage.score >= self._passages[0].score:
            return False
        more = self._passages[len(self._had) : number]
        self._had += [self._asked.had(passage_text(hit.chunk)) for hit in more]
        *before, had = self._had[:number]
        return had is not None and any(other is not None and other > had for other in before)


def question_words(question: str, tokenize: Tokenize) -> list[Word]:
    """The words that carry a question, each once, in their order."""
    question = THOUSANDS.sub("", question)
    distinct: dict[str, Word] = {}
    for piece in PIECE.finditer(question):
        if piece.lastgroup == "han":
            words = _han_words(piece[0], piece.start(), tokenize)
        else:
            words = _other_word(piece[0], piece.start(), tokenize)
        for word in words:
            distinct.setdefault(fold(word.text), word)
    return list(distinct.values())


def _other_word(text: str, start: int, tokenize: Tokenize) -> Iterator[Word]:
    text = _POSSESSIVE.sub("", text)
    if text.lower() not in _ASKING and (terms := tokenize(text)):
        number = any(letter.isdigit() for letter in text)
        yield Word(text, start, tuple(terms), "number" if number else "other")


def _han_words(run: str, start: int, tokenize: Tokenize) -> Iterator[Word]:
    """The longest words that the index knows of a run of characters.

    A name is in no dictionary and is cut into characters: those that follow each other are one.
    A character by itself says too little, unless nothing else is asked.
    """
    folded = fold(run)
    if len(folded) != len(run):
        run = folded
    spans: list[tuple[int, int]] = []
    at = 0
    for term in tokenize(run):
        at = max(folded.find(term, at), folded.find(term))
        if at >= 0 and term not in _ASKING:
            spans.append((at, at + len(term)))
        at = max(at, 0)
    longest_spans: list[tuple[int, int]] = []
    for span in sorted(spans, key=lambda bounds: (bounds[0] - bounds[1], bounds[0])):
        if all(span[1] <= first or end <= span[0] for first, end in longest_spans):
            longest_spans.append(span)
    joined = list(_joined(sorted(longest_spans)))
    for first, end in [span for span in joined if span[1] - span[0] > 1] or joined:
        text = run[first:end]
        yield Word(text, start + first, tuple(tokenize(text)), "han")


def _joined(spans: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    open_: tuple[int, int] | None = None
    for first, end in spans:
        single = end - first == 1
        if open_ is not None and single and open_[1] == first:
            open_ = (open_[0], end)
            continue
        if open_ is not None:
            yield open_
            open_ = None
        if single:
            open_ = (first, end)
        else:
            yield first, end
    if open_ is not None:
        yield open_
