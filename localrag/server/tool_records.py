"""Questions to the tools and their replies: as data with a JSON Schema, and in words.

Descriptions in a schema are for models, and so in English; what a reply says is in the reader's
language.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from localrag.library.catalogue.filters import LAST_PAGE
from localrag.messages import tr
from localrag.server.bounds import LONGEST_QUESTION, Question
from localrag.summaries.records import SectionState
from localrag.tables.documents import LONGEST_COLUMN, MOST_COLUMNS
from localrag.tables.records import CellState

SHORT_ID = 12
"""Characters of a document's id that stand for it."""


def _text_meta(description: str) -> Meta:
    """Of words that a client sends."""
    return Meta(description=description, max_length=LONGEST_QUESTION)


def _next_meta(what: str) -> Meta:
    """Of where a list or a page goes on."""
    return Meta(description=f"Go on here; {what}.")


_Library = Annotated[str, Meta(description="Name of a library; the first one unless given.")]
_Link = Annotated[str, Meta(description="Opens the place in the user's browser.")] | UnsetType
_Disarmed = Annotated[int, Meta(description="Words with links, pictures or HTML, made text.")]
_Resource = Annotated[str, Meta(description="URI of the page, as a resource.")]


class SearchFor(Struct, forbid_unknown_fields=True):
    """Arguments of `search`."""

    query: Annotated[str, _text_meta("A question or keywords, in any language.")]
    k: Annotated[int, Meta(ge=1, le=50, description="How many passages.")] | UnsetType = UNSET
    library: _Library = ""


class AskFor(Struct, forbid_unknown_fields=True):
    """Arguments of `ask`."""

    question: Annotated[str, _text_meta("A question that can be understood by itself.")]
    mode: (
        Annotated[
            Literal["standard", "self-rag"],
            Meta(description="self-rag grades every passage and sentence, and takes longer."),
        ]
        | UnsetType
    ) = UNSET
    library: _Library = ""


class TableFor(Struct, forbid_unknown_fields=True):
    """Arguments of `table`."""

    columns: Annotated[
        list[Annotated[str, Meta(max_length=LONGEST_COLUMN)]],
        Meta(
            min_length=1,
            max_length=MOST_COLUMNS,
            description="Questions that each document is asked by itself. The kind of the answers "
            'may stand before: "date: When does it end?" (number, money, date, yes/no), or the '
            'answers to choose among: "monthly | yearly: How often is it paid?".',
        ),
    ]
    documents: Annotated[
        list[Question],
        Meta(max_length=100, description="Only these: names, folders, or patterns such as *.pdf."),
    ] = []
    words: Annotated[str, _text_meta("Only documents that hold one of these words.")] = ""
    start: Annotated[int, Meta(ge=0, description="Where to go on in a long table.")] = 0
    library: _Library = ""


class SummariseFor(Struct, forbid_unknown_fields=True):
    """Arguments of `summarise`."""

    documents: Annotated[
        list[Question],
        Meta(
            min_length=1,
            max_length=100,
            description="A name, for a summary section by section; or folders and patterns such as "
            "*.pdf, for a sentence of each.",
        ),
    ]
    about: Annotated[str, _text_meta("Only what is said on this topic.")] = ""
    first_page: Annotated[int, Meta(ge=0, le=LAST_PAGE, description="0: from the start.")] = 0
    last_page: Annotated[int, Meta(ge=0, le=LAST_PAGE, description="0: to the end.")] = 0
    library: _Library = ""


class ComputeFor(Struct, forbid_unknown_fields=True):
    """Arguments of `compute`."""

    question: Annotated[str, _text_meta("A question about rows of sheets.")]
    documents: Annotated[
        list[Question],
        Meta(max_length=100, description="Only these: names, folders, or patterns such as *.csv."),
    ] = []
    library: _Library = ""


class PageOf(Struct, forbid_unknown_fields=True):
    """Arguments of `get_page`."""

    document: Annotated[str, _text_meta("Name, id or resource URI of a document.")]
    page: Annotated[int, Meta(ge=1, le=LAST_PAGE, description="Number of the page.")] = 1
    start: Annotated[int, Meta(ge=0, description="Where to go on in a long page.")] = 0
    mark: Annotated[str, _text_meta("Words of it to mark, such as a quotation.")] = ""
    image: Annotated[bool, Meta(description="Whether to send an image of it, too.")] = True
    question: Annotated[
        str, _text_meta("What you look for: sentences about it are not left out as suspicious.")
    ] = ""
    library: _Library = ""


class DocumentsIn(Struct, forbid_unknown_fields=True):
    """Arguments of `list_documents`."""

    containing: Annotated[str, _text_meta("Only names with this in them.")] = ""
    start: Annotated[int, Meta(ge=0, description="Where to go on in a long list.")] = 0
    library: _Library = ""


class Nothing(Struct, forbid_unknown_fields=True):
    """No arguments."""


class FilesToAdd(Struct, forbid_unknown_fields=True):
    """Arguments of `add`."""

    paths: Annotated[
        list[str], Meta(min_length=1, description="Absolute paths of files and folders.")
    ]
    library: _Library = ""


class Passage(Struct):
    """A passage that was found, and where."""

    number: int
    document: str
    file: str
    where: str
    page: int
    text: str
    score: float
    resource: _Resource
    link: _Link = UNSET

    def as_text(self) -> str:
        """In words."""
        return _citation_text(self.number, self.where, self.text, self.link)


class Found(Struct):
    """Reply of `search`."""

    library: str
    passages: list[Passage]
    left_out: int
    disarmed: _Disarmed = 0

    def as_text(self) -> str:
        """In words."""
        parts = [passage.as_text() for passage in self.passages] or [tr("Nothing found.")]
        return "\n\n".join([*parts, *_notices(self.left_out, self.disarmed)])


class Quotation(Struct):
    """A checked quotation of an answer."""

    number: int
    document: str
    file: str
    where: str
    page: int
    quote: str
    resource: _Resource
    link: _Link = UNSET

    def as_text(self) -> str:
        """In words."""
        return _citation_text(self.number, self.where, self.quote, self.link)


class Missing(Struct):
    """What the question, or a part of it, came to that the documents do not answer."""

    question: str
    looked_for: list[str]
    reason: str
    closest: Annotated[Quotation | None, Meta(description="The sentence nearest to it.")]
    suggestions: Annotated[list[str], Meta(description="Questions that find something.")]

    def as_text(self) -> str:
        """In words."""
        parts = [tr("Looked for: {words}", words=tr(", ").join(self.looked_for) or self.question)]
        if self.closest is not None:
            parts.append(
                tr(
                    "Closest sentence ({where}): “{quote}”",
                    where=self.closest.where,
                    quote=self.closest.quote,
                )
            )
        parts.append(self.reason)
        if self.suggestions:
            parts.append(tr("You could ask instead:"))
        return "\n".join([*parts, *(f"  {suggestion}" for suggestion in self.suggestions)])


class Answered(Struct):
    """Reply of `ask`."""

    library: str
    answer: str
    grounded: Annotated[bool, Meta(description="False: the documents do not bear it out.")]
    citations: list[Quotation]
    left_out: int
    seconds: float
    not_found: list[Missing] = []
    unsupported: Annotated[bool, Meta(description="True: no passage says what it says.")] = False
    disarmed: _Disarmed = 0

    def as_text(self) -> str:
        """In words."""
        parts = [self.answer]
        if self.unsupported:
            parts.insert(0, tr("No passage supports this:"))
        if self.citations:
            parts.append("\n".join(citation.as_text() for citation in self.citations))
        for missing in self.not_found:
            part = f"{tr('On “{question}”:', question=missing.question)}\n" if self.grounded else ""
            parts.append(f"{part}{missing.as_text()}")
        return "\n\n".join([*parts, *_notices(self.left_out, self.disarmed)])


class TableCell(Struct):
    """What one document says to one question."""

    state: CellState
    text: str
    where: str = ""
    quote: str = ""
    link: _Link = UNSET


class TableRow(Struct):
    """A document, with a cell for each question."""

    document: str
    file: str
    cells: list[TableCell]
    resource: _Resource


class TableText(Struct):
    """Reply of `table`."""

    library: str
    columns: list[str]
    documents: int
    rows: list[TableRow]
    totals: Annotated[
        list[list[str]],
        Meta(description="Of each question, computed over all documents, with what is open."),
    ]
    final: Annotated[bool, Meta(description="False: some cells are doubtful or were not read.")]
    seconds: float
    left_out: int
    next_start: Annotated[int, _next_meta("there are more rows")] | UnsetType = UNSET
    disarmed: _Disarmed = 0

    def as_text(self) -> str:
        """In words."""
        parts = []
        for row in self.rows:
            lines = [row.file]
            for column, cell in zip(self.columns, row.cells, strict=True):
                quoted = f' ({cell.where}: "{cell.quote}")' if cell.quote else ""
                lines.append(f"  {column} {cell.text}{quoted}")
            parts.append("\n".join(lines))
        totals = [
            "\n".join([column, *(f"  {line}" for line in lines)])
            for column, lines in zip(self.columns, self.totals, strict=True)
        ]
        parts += [tr("Of all {count} documents:", count=self.documents), *totals]
        if self.next_start is not UNSET:
            parts.append(tr("The list goes on at start={start}.", start=self.next_start))
        return "\n\n".join([*parts, *_notices(self.left_out, self.disarmed)])


class SectionText(Struct):
    """A part of a document; `state` is "written" by a model, else it is the document's words."""

    title: str
    text: str
    state: SectionState
    citations: list[Quotation]


class DocumentText(Struct):
    """What a document is, and what it says."""

    document: str
    file: str
    card: Annotated[list[str], Meta(description="Kind, dates, parties, numbers.")]
    sections: list[SectionText]
    coverage: Annotated[list[str], Meta(description="What it rests on and does not cover.")]
    resource: _Resource


class SummaryText(Struct):
    """Reply of `summarise`."""

    library: str
    documents: list[DocumentText]
    total: Annotated[int, Meta(description="Documents that were chosen; fewer may be told.")]
    final: Annotated[bool, Meta(description="False: call again, and more of it is written.")]
    seconds: float
    left_out: int
    disarmed: _Disarmed = 0

    def as_text(self) -> str:
        """In words."""
        parts = []
        for document in self.documents:
            parts.append("\n".join([document.file, *document.card]))
            for section in document.sections:
                parts.append("\n".join(filter(None, [section.title, section.text])))
                parts += [citation.as_text() for citation in section.citations]
            if self.total == 1:
                parts += document.coverage
        return "\n\n".join([*parts, *_notices(self.left_out, self.disarmed)])


class ComputedText(Struct):
    """Reply of `compute`."""

    library: str
    answer: Annotated[str, Meta(description="Empty where two readings disagree.")]
    sure: bool
    lines: Annotated[
        list[str], Meta(description="Answer or both readings, query, rows that were counted.")
    ]
    left_out: int
    disarmed: _Disarmed = 0

    def as_text(self) -> str:
        """In words."""
        return "\n".join([*self.lines, *_notices(self.left_out, self.disarmed)])


class PageText(Struct):
    """Reply of `get_page`."""

    library: str
    document: str
    file: str
    where: str
    page: int
    pages: int
    text: str
    left_out: int
    resource: _Resource
    image: Annotated[bool, Meta(description="Whether an image of the page is sent, too.")] = False
    notes: Annotated[list[str], Meta(description="Why there is no image, or no mark.")] = []
    next_start: Annotated[int, _next_meta("the page is longer")] | UnsetType = UNSET
    disarmed: _Disarmed = 0
    link: _Link = UNSET

    def as_text(self) -> str:
        """In words."""
        head = tr("{where} (of {pages} in all):", where=self.where, pages=self.pages)
        parts = [head, self.text, *_notices(self.left_out, self.disarmed), *self.notes]
        if self.next_start is not UNSET:
            parts.append(tr("The page goes on at start={start}.", start=self.next_start))
        if self.link is not UNSET:
            parts.append(self.link)
        return "\n\n".join(parts)


class Listed(Struct):
    """A document of a library."""

    document: str
    file: str
    pages: int
    language: str
    resource: str


class Documents(Struct):
    """Reply of `list_documents`."""

    library: str
    total: int
    documents: list[Listed]
    next_start: Annotated[int, _next_meta("the list is longer")] | UnsetType = UNSET

    def as_text(self) -> str:
        """In words."""
        parts = [
            tr(
                "{file}: {pages} pages, {language}, id {document}",
                file=document.file,
                pages=document.pages,
                language=document.language,
                document=document.document[:SHORT_ID],
            )
            for document in self.documents
        ]
        if self.next_start is not UNSET:
            parts.append(tr("The list goes on at start={start}.", start=self.next_start))
        return "\n".join(parts or [tr("There are no documents.")])


class Served(Struct):
    """A library that is served."""

    name: str
    documents: int
    pages: int
    passages: int


class State(Struct):
    """Reply of `status`."""

    version: str
    libraries: list[Served]
    waiting: Annotated[int, Meta(description="Who waits for the language model.")]
    outside: Annotated[int, Meta(description="Connections out of the machine since the start.")]
    blocked: Annotated[int, Meta(description="Connections that were blocked.")]

    def as_text(self) -> str:
        """In words."""
        parts = [
            tr(
                "{name}: {documents} documents, {pages} pages, {passages} passages",
                **msgspec.structs.asdict(library),
            )
            for library in self.libraries
        ]
        parts.append(
            tr(
                "localrag {version}; connections to the outside: {outside}; blocked: {blocked}",
                version=self.version,
                outside=self.outside,
                blocked=self.blocked,
            )
        )
        return "\n".join(parts)


class NotRead(Struct):
    """A file that could not be read, and why."""

    file: str
    reason: str


class Added(Struct):
    """Reply of `add`."""

    library: str
    added: list[str]
    unchanged: int
    not_read: list[NotRead]

    def as_text(self) -> str:
        """In words."""
        parts = [
            tr(
                "{added} added, {unchanged} unchanged, {failed} not readable",
                added=len(self.added),
                unchanged=self.unchanged,
                failed=len(self.not_read),
            )
        ]
        return "\n".join([*parts, *(f"{file.file}: {file.reason}" for file in self.not_read)])


def schema(record: type[Struct]) -> dict[str, Any]:
    """The JSON Schema of a record, an object at its root."""
    _, parts = msgspec.json.schema_components([record], ref_template="#/$defs/{name}")
    root: dict[str, Any] = parts.pop(record.__name__)
    del root["title"], root["description"]  # for us
    return {**root, "$defs": parts} if parts else root


def _citation_text(number: int, where: str, text: str, link: str | UnsetType) -> str:
    quoted = f'[{number}] {where}: "{text}"'
    return quoted if link is UNSET else f"{quoted}\n{link}"


def _notices(left_out: int, disarmed: int) -> Iterator[str]:
    """What was done to the text of documents before it was given."""
    if left_out:
        yield tr(
            "{count} sentences are left out ([…]): they could be meant for a model, not for you.",
            count=left_out,
        )
    if disarmed:
        yield tr(
            "Links, pictures and HTML in the documents are shown as text ({count} "
            "{count:word|words} changed), so that nothing is fetched from elsewhere.",
            count=disarmed,
        )
