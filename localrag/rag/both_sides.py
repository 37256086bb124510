"""Answers from passages that disagree: all that they say is told, each with its source.

The model is asked to; where its text gives one figure only, the others follow as sentences of
their own, in the words of their passages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from localrag.documents.formats.table import shown_name
from localrag.languages import LANGUAGES, LanguageCode
from localrag.prompts import render
from localrag.rag.base import Toolkit
from localrag.rag.citations import hide_markers
from localrag.rag.disagreement import Disagreement, PassageClaim, disagreement
from localrag.rag.statements import Statements, words
from localrag.rag.versions import CardOf, rank, year_named
from localrag.text.figures import figures
from localrag.types import Citation, Cited, Message, Plain, ScoredChunk, Statement, Step


@dataclass(frozen=True, slots=True)
class ConflictReporter:
    """Sees to it that an answer gives all that its passages differ in.

    `card_of` gives the card of a passage's document.
    """

    found: Disagreement | None
    chunks: Sequence[ScoredChunk]
    language: LanguageCode
    card_of: CardOf
    numbered: bool = True
    """Whether the prompt shows all of these passages, with their numbers."""

    @classmethod
    def among(
        cls,
        question: str,
        chunks: Sequence[ScoredChunk],
        read: Sequence[int],
        language: LanguageCode,
        tools: Toolkit,
        numbered: bool,
    ) -> ConflictReporter:
        """What differs between the passages that were `read`, numbers from 1, and any other.

        Nothing where the question names the year of one of them. `numbered` says whether the
        prompt shows them with their numbers.
        """
        found = disagreement(question, chunks, tools.tokenize)
        if found and not any(each.chunk + 1 in read for each in found.statements):
            found = None
        if found:
            cards = [tools.card_of(chunks[claim.chunk]) for claim in found.statements]
            if year_named(cards, tools.asked(question)):
                found = None
        if found:
            numbered = numbered and all(each.chunk + 1 in read for each in found.statements)
        return cls(found, chunks, language, tools.card_of, numbered)

    @property
    def steps(self) -> list[Step]:
        """What was found, for the answer's trace."""
        if self.found is None:
            return []
        values: dict[str, Plain] = {
            "passages": tuple(str(each.chunk + 1) for each in self.found.statements),
            "figures": tuple(each.figure for each in self.found.statements),
        }
        return [Step("disagreement", values, None, 0.0)]

    def newest(self, read: Sequence[int]) -> int | None:
        """The number of the passage in force, from 1, where it is none of those that were `read`.

        By the cards of their documents: one that is newer than all that was read.
        """
        if self.found is None:
            return None
        ranks = {
            each.chunk + 1: rank(self.card_of(self.chunks[each.chunk]))
            for each in self.found.statements
        }
        best = max(ranks, key=lambda number: (ranks[number], -number))
        newer = all(ranks[best] > ranks[number] for number in read if number in ranks)
        return best if newer and best not in read else None

    def told(self, messages: list[Message]) -> list[Message]:
        """The prompt for the answer, with a word of what its passages differ in."""
        if self.found is None or not self.numbered:
            return messages
        numbers = dict.fromkeys(f"[{each.chunk + 1}]" for each in self.found.statements)
        given = (f"{each.figure} [{each.chunk + 1}]" for each in self.found.statements)
        between = LANGUAGES[self.language].comma
        name = "disagreement_denial" if self.found.kind == "denial" else "disagreement"
        told = render(
            name, self.language, passages=between.join(numbers), figures=between.join(given)
        )
        last = messages[-1]
        return [*messages[:-1], Message(last.role, f"{last.content}\n{told}")]

    def added(
        self, statements: Statements, cite: Callable[[int, str], Citation]
    ) -> list[Statement]:
        """A statement for each claim that an answer leaves out, to stand behind it."""
        return [self._statement(each, cite) for each in self._missing(words(statements))]

    def _missing(self, text: str) -> list[PassageClaim]:
        """One claim of each figure that a text without markers lacks, if it gives another."""
        written = figures(text)
        given, lacking = False, dict[str, PassageClaim]()
        for each in self.found.statements if self.found else ():
            own = figures(each.figure)
            if any(f.agrees(a) for f in own for a in written):
                given = True
            elif own:
                lacking.setdefault(each.figure, each)
        return list(lacking.values()) if given else []

    def _statement(self, claim: PassageClaim, cite: Callable[[int, str], Citation]) -> Statement:
        found = self.chunks[claim.chunk]
        quote, date = hide_markers(" ".join(claim.text.split())), self.card_of(found).date
        name = file_of(found.source)
        text = otherwise(f"{name} ({date})" if date else name, quote, self.language)
        mark = Cited(len(text) + 2, cite(claim.chunk + 1, claim.text), " ", behind=True)
        return Statement(
            f"\n\n{text}", "otherwise", (mark,), "fully supported", 1.0, quoted=True, part=quote
        )


def file_of(source: str) -> str:
    """The name of a file as an answer gives it."""
    return hide_markers(" ".join(shown_name(source).split()))


def otherwise(source: str, quote: str, language: LanguageCode) -> str:
    """The sentence that tells what a passage says otherwise."""
    return render("said_otherwise", language, source=source, quote=quote)
