"""Summaries in words: sections with their markers, what they rest on, and what they leave out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from localrag.messages import tr
from localrag.presentation.answers import Numbering
from localrag.presentation.durations import duration
from localrag.presentation.places import place_text
from localrag.presentation.records import picked
from localrag.summaries.records import DocumentSummary, Summary, SummaryBegun, SummarySection
from localrag.types import Citation, Place, citations_of

_NOT_WRITTEN = {
    "budget": "in the document's own words: the time was over",
    "private": "in the document's own words: a model on another machine may not read it",
    "failed": "in the document's own words: the model failed",
    "not yet": "in the document's own words: not written yet",
}


def begun_text(event: SummaryBegun) -> str:
    """How much there is to write."""
    documents = event.summary.documents
    if len(documents) != 1:
        return tr("{count} {count:document|documents}, a sentence each.", count=len(documents))
    return tr(
        "{sections} {sections:section|sections}, {count} to write, about {time}."
        if event.to_write
        else "{sections} {sections:section|sections}: there is nothing to write any more.",
        sections=len(documents[0].sections),
        count=event.to_write,
        time=duration(max(1.0, event.seconds)),
    )


def section_title(document: DocumentSummary, number: int) -> str:
    """The heading of a section, by its number from 0, and where it stands."""
    section = document.sections[number]
    where = ""
    if document.pages > 1:
        place = Place(0, document.unit, section.first_page)
        where = place_text(place, section.last_page, heading=False)
    if section.heading and where:
        return tr("{heading} ({place})", heading=section.heading, place=where)
    if section.heading or where:
        return section.heading or where
    count = len(document.sections)
    return tr("Part {number} of {count}", number=number + 1, count=count) if count > 1 else ""


def numbered(document: DocumentSummary) -> DocumentSummary:
    """The document with markers that count over all of its sections, as they appear."""
    sections, before = [], 0
    for section in document.sections:
        numbering = Numbering(before)
        statements = tuple(map(numbering.numbered, section.statements))
        sections.append(replace(section, statements=statements))
        before = numbering.last
    return replace(document, sections=tuple(sections))


def section_text(section: SummarySection) -> str:
    """What is said of a section, with its markers."""
    return "".join(statement.written for statement in section.statements).strip()


def quotations(document: DocumentSummary) -> Iterator[Citation]:
    """What a numbered document's summary cites, by number."""
    for section in document.sections:
        yield from citations_of(section.statements)


def state_text(section: SummarySection) -> str:
    """Why a section is told in the document's own words, "" where it is written."""
    if section.state != "not written":
        return ""
    known = section.reason if section.reason in _NOT_WRITTEN else "not yet"
    return tr(_NOT_WRITTEN[known])


def coverage_lines(document: DocumentSummary, about: str = "") -> list[str]:
    """What the summary of a document rests on, and what it does not cover."""
    sections = document.sections
    if not sections:
        return [tr("No sentence on this topic was found." if about else "There is no text.")]
    passages = sum(section.passages for section in sections)
    read = sum(section.read for section in sections)
    lines = [
        tr(
            "Sentences were chosen from {read} of {passages} {passages:passage|passages}.",
            read=read,
            passages=passages,
        )
    ]
    if document.skipped:
        runs = (
            place_text(Place(0, document.unit, first), last, heading=False)
            for first, last in document.skipped
        )
        lines.append(tr("Only skimmed: {places}.", places=tr(", ").join(runs)))
    waiting = sum(
        section.state == "not written" and section.reason != "private" for section in sections
    )
    if waiting:
        lines.append(
            tr(
                "{count} {count:section is|sections are} not written yet; the next run goes on.",
                count=waiting,
            )
        )
    if replaced := sum(section.replaced for section in sections):
        lines.append(
            tr(
                "{count} {count:sentence|sentences} of the model had no support; the document's "
                "own {count:stands|stand} there.",
                count=replaced,
            )
        )
    if document.left_out:
        lines.append(
            tr(
                "{count} {count:sentence|sentences} that could steer a language model "
                "{count:was|were} left out.",
                count=document.left_out,
            )
        )
    return lines


def total_line(summary: Summary) -> str:
    """How many of the documents are told, "" where all are."""
    if len(summary.documents) >= summary.total:
        return ""
    return tr(
        "{count} of {total} documents have a sentence on this."
        if summary.about
        else "The first {count} of {total} documents.",
        count=len(summary.documents),
        total=summary.total,
    )


def summary_json(summary: Summary) -> dict[str, Any]:
    """A summary as plain data."""
    return {
        **picked(summary, "about", "total", "final"),
        "seconds": round(summary.seconds, 3),
        "documents": [_document(numbered(document)) for document in summary.documents],
    }


def _document(document: DocumentSummary) -> dict[str, Any]:
    return {
        **picked(document, "document_id", "source", "title", "card", "unit", "pages"),
        "sections": [_section(section) for section in document.sections],
        **picked(document, "skipped", "left_out"),
    }


def _section(section: SummarySection) -> dict[str, Any]:
    return {
        **picked(section, "heading", "first_page", "last_page", "passages", "read"),
        **picked(section, "state", "reason"),
        "text": section_text(section),
        "support": [
            {"text": statement.text.strip(), "rating": statement.rating, "quoted": statement.quoted}
            for statement in section.statements
        ],
        "citations": [
            picked(citation, "marker", "source", "page", "place", "quote")
            for citation in citations_of(section.statements)
        ],
        "replaced": section.replaced,
    }
