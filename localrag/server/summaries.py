"""The summary of a document, or of a folder, as the page gets it.

`POST /api/summaries` asks (`SummaryRequest`); events are waiting, begun, section, note, summary,
error. What was written is kept in the library: a summary that was stopped goes on where it was, and
with `kept_only` nothing is written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from localrag.engine import AskOptions
from localrag.library.catalogue.filters import LAST_PAGE
from localrag.library.records import NotKept
from localrag.messages import spoken, tr
from localrag.presentation.reading import card_texts
from localrag.presentation.summaries import (
    begun_text,
    coverage_lines,
    section_title,
    state_text,
    total_line,
)
from localrag.server.bounds import Question
from localrag.server.jobs import BackgroundJob, WorkRoutes
from localrag.server.naming import without_paths
from localrag.server.replies import decoded
from localrag.server.routing import route
from localrag.server.tables import Patterns
from localrag.summaries.records import (
    DocumentSummary,
    Event,
    SectionDone,
    Summary,
    SummaryBegun,
    SummarySection,
)
from localrag.types import citations_of

Page = Annotated[int, Meta(ge=0, le=LAST_PAGE)]


class SummaryRequest(Struct, forbid_unknown_fields=True):
    """What is to be summed up: the documents in `patterns` (folders, names), about a topic or all.

    Of a single document, `first_page` to `last_page`, 0 for its first and its last. With
    `kept_only`, what was written before is shown and nothing is written.
    """

    library: str = ""
    patterns: Patterns = []
    about: Question = ""
    first_page: Page = 0
    last_page: Page = 0
    kept_only: bool = False


def pages_of(first: int, last: int) -> tuple[int, int | None] | None:
    """First and last page as a filter has them; 0 for the first and the last there is."""
    return (first or 1, last or None) if first or last else None


@dataclass(frozen=True, slots=True)
class Summaries(WorkRoutes):
    """The route /api/summaries."""

    @route("/api/summaries", "POST")
    async def ask(self, request: Request) -> Response:
        """Sum up, or show what is kept."""
        body = await decoded(request, SummaryRequest)

        def work(job: BackgroundJob) -> None:
            job.say_loading()
            telling = _SummaryEvents(job)
            for event in job.engine.summarise(
                body.patterns,
                body.about,
                AskOptions(stopped=job.stopped),
                pages=pages_of(body.first_page, body.last_page),
            ):
                telling.hear(event)

        about, kept_only = body.about, body.kept_only
        return await self.stream(request, body.library, "ask", about, work, kept_only=kept_only)


class _SummaryEvents:
    """Tells a summary's events as the page hears them: files by their names."""

    def __init__(self, job: BackgroundJob) -> None:
        self._job = job
        self._documents: tuple[DocumentSummary, ...] = ()

    def hear(self, event: Event) -> None:
        """Tell it, and let others go first where a section was written."""
        match event:
            case SummaryBegun():
                self._documents = event.summary.documents
                self._job.say(
                    "begun",
                    text=begun_text(event),
                    left=event.to_write,
                    kept=event.kept,
                    seconds=round(event.seconds, 1),
                    total=event.summary.total,
                    documents=[self._document(document) for document in self._documents],
                )
            case SectionDone():
                document = self._documents[event.document]
                section = self._section(document, event.number, event.section)
                self._job.say(
                    "section",
                    document=event.document,
                    number=event.number,
                    section=section,
                    left=event.left,
                )
                if not event.kept:
                    self._job.give_way()
            case NotKept():
                reason = spoken(without_paths(event.error))
                text = tr("What was written is not kept for the next time: {reason}", reason=reason)
                self._job.note(text)
            case Summary():
                self._job.say(
                    "summary",
                    final=event.final,
                    seconds=round(event.seconds, 1),
                    lines=[coverage_lines(document, event.about) for document in event.documents],
                    total=total_line(event),
                )

    def _document(self, document: DocumentSummary) -> dict[str, Any]:
        return {
            "document": document.document_id,
            "source": self._job.naming.of(document.source),
            "title": "" if document.title == document.source else document.title,
            "lines": card_texts(document.card),
            "sections": [
                self._section(document, number, section)
                for number, section in enumerate(document.sections)
            ],
        }

    def _section(
        self, document: DocumentSummary, number: int, section: SummarySection
    ) -> dict[str, Any]:
        return {
            "title": section_title(document, number),
            "state": section.state,
            "note": state_text(section),
            "runs": [
                {"text": text} if citation is None else {"marker": citation.marker}
                for statement in section.statements
                for text, citation in statement.runs()
            ],
            "citations": [
                {
                    "marker": citation.marker,
                    **self._job.citation(citation, document.document_id, document.source),
                }
                for citation in citations_of(section.statements)
            ],
        }
