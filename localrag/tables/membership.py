"""Which documents of a collection a question means, where they are what is listed or counted.

The question itself is put to each document: does it belong to what is asked? The share of a yes
ranks them well and means little by itself: of ten reports the right ones came to .67 and more and
the others to .57 and less, of six contracts to .93 and .87. So the documents are parted where the
gap is widest, and only where it is wide. A probe of the model's state tells no more
(`benchmarks/log/2026-11.md`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from localrag.library.records import DocumentRecord
from localrag.models.llms.choices import Chooser, choose_by_examples
from localrag.prompts import YES_NO, render, with_examples
from localrag.rag.base import timed
from localrag.rag.grading import Reading, log_odds
from localrag.tables.records import (
    NOT_READ,
    Cell,
    CellState,
    CellSteps,
    Column,
    Patience,
    Row,
    Table,
    Value,
)
from localrag.tables.whether import unsteered
from localrag.text.language import answer_language
from localrag.types import Citation, Message, ScoredChunk, Step

SECTIONS = 2
"""Sections of a document that are read, those that a search for the question brings."""
WIDE = 0.25
"""Difference of log odds that parts documents. On two folders it was .29 and more in three of four
questions that words decide, and .24 and less in three about amounts and dates."""
FEWEST = 3
"""Documents among which a gap says something."""
ABOUT_DOCUMENTS = 0.3
"""The share from which on documents are to be listed or counted. Over two folders documents came to
.37 and more, what stands in one of them to .26 and less."""
_LISTED = ("DOCUMENTS", "CONTENTS")
LISTS_DOCUMENTS = "lists_documents"
"""The same as a probe of the model's state tells (`models.llms.probes`), from .5 on."""

Sections = Callable[[str, str], list[ScoredChunk]]
"""A question and the path of a document: its sections that a search brings, none of a private
one."""


@dataclass(frozen=True, slots=True)
class Belonging:
    """How far a document belongs to what is asked: the log odds of a yes, and what it says."""

    document: DocumentRecord
    odds: float
    citation: Citation | None

    @property
    def is_read(self) -> bool:
        """Whether anything of the document was read."""
        return self.odds > -math.inf


def about_documents(question: str, chooser: Chooser) -> bool:
    """Whether documents are to be listed or counted, and not what stands in them."""
    language = answer_language(question)
    messages = with_examples("listed", language, question)
    if probed := chooser.probe((LISTS_DOCUMENTS,), messages, keep=len(messages) - 1):
        return probed[0] >= 0.5
    choice = choose_by_examples("listed", language, question, _LISTED, chooser)
    return choice.read and float(choice[0]) >= ABOUT_DOCUMENTS


def belongs(
    question: str,
    document: DocumentRecord,
    sections: Sequence[ScoredChunk],
    chooser: Chooser,
    quote: Callable[[Sequence[ScoredChunk], str], Citation | None],
) -> Belonging:
    """How far a document belongs to what a question asks; not at all where nothing is read of it.

    Raises `GenerationError` from the model.
    """
    read = tuple(filter(None, map(unsteered, sections)))
    if not read:
        return Belonging(document, -math.inf, None)
    messages = belonging_messages(question, read)
    cited = quote(sections, question)
    choice = chooser.choose(messages, YES_NO[answer_language(question)], keep=1)
    return Belonging(document, log_odds(float(choice[0]) if choice.read else 0.5), cited)


def belonging_messages(question: str, sections: Sequence[ScoredChunk]) -> list[Message]:
    """What a model reads to judge whether a document belongs; the first comes back."""
    language = answer_language(question)
    task = render("belongs", language, question=question.strip())
    return Reading(language, tuple(sections)).messages(task)


def members(degrees: Sequence[Belonging]) -> list[Belonging] | None:
    """Those that belong, in the order given; None where no gap parts them from the others.

    Documents of which nothing was read have no part in it.
    """
    ranked = sorted((degree.odds for degree in degrees if degree.is_read), reverse=True)
    if len(ranked) < FEWEST:
        return None
    gap, least = max((above - below, above) for above, below in pairwise(ranked))
    if gap < WIDE:
        return None
    return [degree for degree in degrees if degree.odds >= least]


def table(
    question: str,
    documents: Sequence[DocumentRecord],
    sections: Sections,
    chooser: Chooser,
    quote: Callable[[Sequence[ScoredChunk], str], Citation | None],
    name: Callable[[str], str],
    seconds: float = math.inf,
) -> Generator[Step, None, Table | None]:
    """A row for each document with yes or no; None where they are not parted.

    Nor where all would take more than so many seconds: only among all a gap says something.
    Raises `GenerationError` from the model.
    """
    degrees: list[Belonging] = []
    steps = CellSteps()
    patience, began = Patience(seconds, whole=True), time.perf_counter()
    for number, document in enumerate(documents, 1):
        source = document.sources[0]
        left = len(documents) - number
        if patience.ends(time.perf_counter() - began, len(degrees), left + 1):
            return None
        read = sections(question, source)
        degree, duration = timed(partial(belongs, question, document, read, chooser, quote))
        degrees.append(degree)
        state: CellState = "found" if degree.is_read else "not read"
        yield steps.step(name(source), state, left, 1.0 / (1.0 + math.exp(-degree.odds)), duration)
    chosen = members(degrees)
    if chosen is None:
        return None
    rows = tuple(
        Row(
            degree.document.id,
            degree.document.sources[0],
            degree.document.title,
            (_cell(degree, belonging=degree in chosen),),
        )
        for degree in degrees
    )
    return Table((Column(question, "yes/no"),), rows)


def _cell(degree: Belonging, *, belonging: bool) -> Cell:
    if not degree.is_read:
        return NOT_READ
    value = Value("yes/no", "yes", 1.0) if belonging else Value("yes/no", "no", 0.0)
    cited = (degree.citation,) if degree.citation else ()
    return Cell("found", value, value.text, cited, None)
