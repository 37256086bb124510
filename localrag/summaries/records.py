"""Records of summaries: documents, their sections, and what is said of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from localrag.library.records import NotKept
from localrag.types import Card, Statement, Unit

SectionState = Literal["written", "quoted", "not written"]
"""The model's sentences; the document's own, where there is nothing to write; or the document's own
until the model has written."""

Reason = Literal["", "budget", "stopped", "private", "failed"]
"""Why a section was not written."""


@dataclass(frozen=True, slots=True)
class SummarySection:
    """A part of a document, and what the summary says of it.

    `statements` are sentences with their citations. Of its `passages`, sentences were chosen from
    as many as were `read`. `replaced` counts sentences of the model that the document did not
    support: its own stand in their place.
    """

    heading: str
    first_page: int
    last_page: int
    passages: int
    read: int = 0
    state: SectionState = "not written"
    statements: tuple[Statement, ...] = ()
    replaced: int = 0
    reason: Reason = ""


@dataclass(frozen=True, slots=True)
class DocumentSummary:
    """A document in sections. `source` is the first of its paths, `pages` how many it has.

    `skipped` are first and last page of runs of pages that no sentence is from; `left_out` counts
    sentences that were passed over because they could steer a language model.
    """

    document_id: str
    source: str
    title: str
    card: Card
    unit: Unit = "page"
    pages: int = 0
    sections: tuple[SummarySection, ...] = ()
    skipped: tuple[tuple[int, int], ...] = ()
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Summary:
    """What documents say: of a single one section by section, of each of several in a sentence.

    `about` is the topic that sentences were chosen by, or "". Of several documents, the first are
    told, of `total` that there are.
    """

    about: str
    documents: tuple[DocumentSummary, ...]
    total: int
    seconds: float = 0.0

    @property
    def final(self) -> bool:
        """Whether nothing is left to write."""
        return not any(
            section.state == "not written" and section.reason != "private"
            for document in self.documents
            for section in document.sections
        )


@dataclass(frozen=True, slots=True)
class SummaryBegun:
    """Once sentences are chosen: the summary in the documents' own words, and what is to do."""

    summary: Summary
    kept: int
    """Sections that were written before and are not written again."""
    to_write: int
    seconds: float
    """About how long that takes."""


@dataclass(frozen=True, slots=True)
class SectionDone:
    """A section was written, or taken from what is kept; both numbers count from 0."""

    document: int
    number: int
    section: SummarySection
    kept: bool
    left: int
    """Sections that are still to be written."""


Event = SummaryBegun | SectionDone | NotKept | Summary


@dataclass(frozen=True, slots=True)
class Written:
    """What is kept of a section that the model has written."""

    statements: tuple[Statement, ...]
    replaced: int
    seconds: float = 0.0
