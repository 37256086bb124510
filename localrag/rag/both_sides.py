"""Answers from passages that disagree: all that they say is told, each with its source.

The model is asked to; where its text gives one figure only, the others follow as sentences of
their own, in the words of their passages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from localrag.documents.formats.table import shown_name
from localrag.documents.tables import named_rows
from localrag.languages import LANGUAGES, LanguageCode
from localrag.prompts import render
from localrag.rag.base import Toolkit
from localrag.rag.citations import hide_markers
from localrag.rag.disagreement import Disagreement, PassageClaim, disagreement
from localrag.rag.statements import Statements, words
from localrag.rag.versions import CardOf, rank, year_named
from localrag.text.figures import blanked, figures
from localrag.types import Citation, Cited, Message, Plain, ScoredChunk, Statement, Step


@dataclass(frozen=True, slots=True)
class ConflictReporter:
    """Sees to it that an answer gives all that its passages differ in.

    `card_of` gives the card of a passage's document.
    """

    disagreement: Disagreement | None
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
        prompt shows them with their numbers. Raises `StoppedError` once the tools are stopped.
        """
        conflict = disagreement(question, chunks, tools.tokenize, tools.stopped)
        if conflict and not any(claim.chunk + 1 in read for claim in conflict.statements):
            conflict = None
        if conflict and _are_of_one_table(conflict.statements, chunks):
            conflict = None
        if conflict:
            cards = [tools.card_of(chunks[claim.chunk]) for claim in conflict.statements]
            if year_named(cards, tools.asked(question)):
                conflict = None
        if conflict:
            numbered = numbered and all(claim.chunk + 1 in read for claim in conflict.statements)
        return cls(conflict, chunks, language, tools.card_of, numbered)

    @property
    def steps(self) -> list[Step]:
        """What was found, for the answer's trace."""
        if self.disagreement is None:
            return []
        values: dict[str, Plain] = {
            "passages": tuple(str(claim.chunk + 1) for claim in self.disagreement.statements),
            "figures": tuple(claim.figure for claim in self.disagreement.statements),
        }
        return [Step("disagreement", values, None, 0.0)]

    def newest(self, read: Sequence[int]) -> int | None:
        """The number of the passage in force, from 1, where it is none of those that were `read`.

        By the cards of their documents: one that is newer than all that was read.
        """
        if self.disagreement is None:
            return None
        ranks = {
            claim.chunk + 1: rank(self.card_of(self.chunks[claim.chunk]))
            for claim in self.disagreement.statements
        }
        best = max(ranks, key=lambda number: (ranks[number], -number))
        newer = all(ranks[best] > ranks[number] for number in read if number in ranks)
        return best if newer and best not in read else None

    def with_note(self, messages: list[Message]) -> list[Message]:
        """The prompt for the answer, with a word of what its passages differ in."""
        if self.disagreement is None or not self.numbered:
            return messages
        numbers = dict.fromkeys(f"[{claim.chunk + 1}]" for claim in self.disagreement.statements)
        claims = (f"{claim.figure} [{claim.chunk + 1}]" for claim in self.disagreement.statements)
        between = LANGUAGES[self.language].comma
        name = "disagreement_denial" if self.disagreement.kind == "denial" else "disagreement"
        note = render(
            name, self.language, passages=between.join(numbers), figures=between.join(claims)
        )
        last = messages[-1]
        return [*messages[:-1], Message(last.role, f"{last.content}\n{note}")]

    def added(
        self, statements: Statements, cite: Callable[[int, str], Citation]
    ) -> list[Statement]:
        """A statement for each claim that an answer leaves out, to stand behind it."""
        return [self._statement(claim, cite) for claim in self._missing(words(statements))]

    def _missing(self, text: str) -> list[PassageClaim]:
        """One claim of each figure that a text without markers lacks, if it gives another.

        Of rows only those that say the same but for their numbers.
        """
        written, matters = figures(text), set[str]()
        differing: list[PassageClaim] = []
        for claim in self.disagreement.statements if self.disagreement else ():
            own = figures(claim.figure)
            if any(f.agrees(a) for f in own for a in written):
                matters.add(self._matter(claim))
            elif own:
                differing.append(claim)
        lacking = dict[str, PassageClaim]()
        for claim in differing if matters else ():
            if "" in matters or self._matter(claim) in {"", *matters}:
                lacking.setdefault(claim.figure, claim)
        return list(lacking.values())

    def _matter(self, claim: PassageClaim) -> str:
        """A row without its numbers; "" for a sentence."""
        if not _is_row(claim, self.chunks):
            return ""
        numbers = [figure for figure in figures(claim.text) if figure.kind == "number"]
        return " ".join(blanked(claim.text, numbers).split())

    def _statement(self, claim: PassageClaim, cite: Callable[[int, str], Citation]) -> Statement:
        hit = self.chunks[claim.chunk]
        quote, date = hide_markers(" ".join(claim.text.split())), self.card_of(hit).date
        name = file_of(hit.source)
        text = otherwise(f"{name} ({date})" if date else name, quote, self.language)
        mark = Cited(len(text) + 2, cite(claim.chunk + 1, claim.text), " ", behind=True)
        return Statement(
            f"\n\n{text}",
            "otherwise",
            (mark,),
            "fully supported",
            1.0,
            quoted=True,
            part=quote,
            copied=(name, quote),
        )


def _are_of_one_table(claims: Sequence[PassageClaim], chunks: Sequence[ScoredChunk]) -> bool:
    """Whether claims are rows of one document: each month has figures of its own."""
    documents = {chunks[claim.chunk].chunk.document_id for claim in claims}
    return len(documents) == 1 and all(_is_row(claim, chunks) for claim in claims)


def _is_row(claim: PassageClaim, chunks: Sequence[ScoredChunk]) -> bool:
    return claim.text in {row for _, _, row in named_rows(chunks[claim.chunk].chunk)}


def file_of(source: str) -> str:
    """The name of a file as an answer gives it."""
    return hide_markers(" ".join(shown_name(source).split()))


def otherwise(source: str, quote: str, language: LanguageCode) -> str:
    """The sentence that tells what a passage says otherwise."""
    return render("said_otherwise", language, source=source, quote=quote)
