"""Other wordings of a question, of which those are offered that find something.

No language model is asked, and each wording was searched before it is offered.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from localrag.documents.chunking import passage_text
from localrag.prompts import render
from localrag.rag.base import Retrieve
from localrag.rag.citations import Attributor
from localrag.rag.question_words import Text, Tokenize, Word, question_words
from localrag.system.memory import pattern_of_words
from localrag.text.han import HAN
from localrag.text.language import answer_language
from localrag.text.normalize import fold
from localrag.text.spelling import edits_between
from localrag.text.tokenize import PIECE, STOP_WORDS, THOUSANDS
from localrag.types import ScoredChunk, Suggestion

MOST_TRIED = 4
"""Wordings that are searched for."""
LOOKED_THROUGH = 20
"""Passages in which other spellings and headings are looked for."""
BEST = 5
"""Passages among which a wording must find what it is offered for."""
MOST_WORDS = 2
"""Words of a question whose spelling is looked for."""

SHORTEST_LATIN = 4
LONG_LATIN = 8
"""Letters from which on two edits may lie between two spellings of a word."""
SHORTEST_HAN = 3
"""Of two characters, one that differs makes another word."""
LONGEST_HEADING = 60
RARE = 0.02
"""Share of the passages that have a word, up to which it tells what a question is about."""
FEW = 3
"""So many may have it in a small library, too."""

_OTHER = frozenset("零〇一二三四五六七八九十百千万亿上下左右东西南北前后大小新旧") | STOP_WORDS
"""What differs in one of these is not spelt otherwise: it is something else."""

_GLOSS = rf"(?:^|[^{HAN}\w])([{HAN}]{{2,12}})\s*[（(]\s*WORD\s*[)）,，;；]"
_BRACKET = r"WORD\s*[（(]\s*([A-Za-z][A-Za-z .'’-]{1,60}?)\s*[)）,，;；]"


@dataclass(frozen=True, slots=True)
class SearchTools:
    """What else can be asked of the library that an answer came from.

    `search` finds passages for a wording, `alike` those with a word that is spelt like one.
    """

    tokenize: Tokenize
    attributor: Callable[[Sequence[ScoredChunk]], Attributor]
    search: Retrieve
    alike: Callable[[str, int, int], list[ScoredChunk]]
    """A term of the index, how many edits away, and how many passages."""
    frequencies: Callable[[Sequence[str]], tuple[int, list[int]]]
    """How many passages there are, and how many of them have each term."""


class QuestionRewriter:
    """Other wordings of one question, of which those are offered that find something."""

    def __init__(
        self,
        question: str,
        asked: Text,
        words: Sequence[Word],
        absent: Sequence[Word],
        read: Sequence[ScoredChunk],
        around: SearchTools,
    ) -> None:
        self._question = THOUSANDS.sub("", question)  # as `words` count in it
        self._asked = asked
        self._words = words
        self._absent = absent
        self._read = {hit.chunk.id for hit in read}
        self._texts = [passage_text(hit.chunk) for hit in read]
        self._around = around

    def suggestions(self) -> Iterator[Suggestion]:
        """At most `MOST_TRIED` searches are made for them."""
        met = {fold(self._question)}
        tries = MOST_TRIED
        for suggestion, finds in self._candidates():
            if fold(suggestion.question) in met:
                continue
            met.add(fold(suggestion.question))
            if not tries:
                return
            tries -= 1
            if finds(self._around.search(suggestion.question, BEST)):
                yield suggestion

    def _candidates(self) -> Iterator[tuple[Suggestion, Callable[[list[ScoredChunk]], bool]]]:
        spelt: dict[Word, str] = {}
        for word in [word for word in self._absent if word.kind != "number"][:MOST_WORDS]:
            if other := self._spelt(word):
                spelt[word] = other
                yield self._instead(word, other, "spelling"), self._some_has(other)
        for word in self._words:
            if word not in spelt and (other := self._translated(word)):
                yield self._instead(word, other, "translation"), self._some_has(other)
        for heading in self._headings():
            yield Suggestion(self._about(heading), "heading"), self._some_is_new

    # -- what makes a wording worth offering -------------------------------------------

    def _some_has(self, word: str) -> Callable[[list[ScoredChunk]], bool]:
        folded = fold(word)
        return lambda hits: any(folded in fold(passage_text(hit.chunk)) for hit in hits)

    def _some_is_new(self, hits: list[ScoredChunk]) -> bool:
        return any(hit.chunk.id not in self._read for hit in hits)

    # -- wordings ----------------------------------------------------------------------

    def _instead(
        self, word: Word, other: str, kind: Literal["spelling", "translation"]
    ) -> Suggestion:
        return Suggestion(self._question.replace(word.text, other), kind, word.text, other)

    def _spelt(self, word: Word) -> str:
        """How the documents spell what may be this word, or "" where they have nothing like it."""
        if word.kind == "han":
            if any(len(term) > 1 for term in word.terms):  # a word of the dictionary, no name
                return ""
            return _nearest_run(fold(word.text), map(fold, self._texts))
        letters = fold(word.text)
        if len(letters) < SHORTEST_LATIN or not letters.isalpha():
            return ""
        edits = 1 + (len(letters) >= LONG_LATIN)
        alike = self._around.alike(word.terms[0], edits, LOOKED_THROUGH)
        texts = [*self._texts, *(passage_text(hit.chunk) for hit in alike)]
        return _nearest_word(letters, edits, texts)

    def _translated(self, word: Word) -> str:
        """The other language's name for a word that the passages have in brackets, or ""."""
        if word.kind == "number":
            return ""
        pattern = _BRACKET if word.kind == "han" else _GLOSS
        name = pattern_of_words(pattern.replace("WORD", re.escape(word.text)))
        translations = (match[1] for text in self._texts for match in name.finditer(text))
        return next(translations, "")

    def _about(self, subject: str) -> str:
        return render("about", answer_language(self._question), subject=subject)

    def _is_rare(self, word: Word) -> bool:
        """Whether so few passages have it that it tells what is asked about."""
        total, counts = self._around.frequencies(word.terms)
        return min(counts, default=0) <= max(FEW, RARE * total)

    def _headings(self) -> Iterator[str]:
        """Headings of passages that were not read, which say what is asked or a part of it."""
        question_terms = {fold(word.text) for word in self._words}
        for hit in self._around.search(self._question, LOOKED_THROUGH):
            heading = hit.chunk.heading.rpartition(" > ")[2].strip()
            if hit.chunk.id in self._read or not 0 < len(heading) <= LONGEST_HEADING:
                continue
            text = Text(heading, self._around.tokenize)
            shared = [word for word in self._words if text.has(word)]
            own = {fold(word.text) for word in question_words(heading, self._around.tokenize)}
            if len(shared) > 1 or (
                shared and own <= question_terms and any(map(self._is_rare, shared))
            ):
                yield heading


def _nearest_word(letters: str, edits: int, texts: Iterable[str]) -> str:
    """The word so few edits away; its first letter is seldom the one that is wrong."""
    counts = Counter(
        piece[0] for text in texts for piece in PIECE.finditer(text) if piece.lastgroup == "code"
    )
    near: dict[str, int] = {}
    for word in counts:
        folded = fold(word)
        if word.isalpha() and folded[0] == letters[0] and folded != letters:
            near[word] = edits_between(letters, folded, edits)
    near = {word: distance for word, distance in near.items() if distance <= edits}
    return min(near, key=lambda word: (near[word], -counts[word], word), default="")


def _nearest_run(word: str, texts: Iterable[str]) -> str:
    """A run of as many characters, or one more or fewer in a long one, of which one differs."""
    if len(word) < SHORTEST_HAN:
        return ""
    lengths = (len(word),) if len(word) == SHORTEST_HAN else range(len(word) - 1, len(word) + 2)
    letters = set(word)
    counts: Counter[str] = Counter()
    for text in texts:
        for run in re.findall(f"[{HAN}]+", text):
            for length in lengths:
                for start in range(len(run) - length + 1):
                    window = run[start : start + length]
                    if len(letters.difference(window)) > 1 or _OTHER.intersection(
                        letters.symmetric_difference(window)
                    ):
                        continue
                    if edits_between(word, window, 1) == 1:
                        counts[window] += 1
    return min(counts, key=lambda run: (abs(len(run) - len(word)), -counts[run], run), default="")
