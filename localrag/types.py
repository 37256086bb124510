"""Frozen records that travel between rooms.

A score is better when higher, and comparable only within its own list.
Offsets are code points (Python string indices), pages count from 1.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

READER = 2
"""How files are read: a higher number than a document's means that reading it again gives more."""

PAGE_BREAK = "\n"
"""What stands between two pages in `Document.text`."""


Plain = str | int | float | bool | tuple[str, ...]

Unit = Literal["page", "slide", "sheet", "chapter", "text"]
"""What a format calls its pages; "text" has none, and so a single page 1."""

How = Literal["text", "ocr", "mixed"]
"""How a page was read: its own text, text recognition, or both (a picture on a page of text)."""

PageNoteKind = Literal[
    "no text",  # nothing was found on it, by text recognition neither; blank: nothing is drawn
    "damaged",  # reason
    "not recognised",  # a picture, perhaps of text: recognition is switched off
    "garbled",  # reason, share: the text layer was not to be trusted, and was read by recognition
    "untrusted",  # reason, share: the same, but recognition could not read it
    "doubtful",  # confidence: mean of the recognition
    "turned",  # degrees: clockwise, before it was read
    "hidden text",  # count, what: text that readers do not see was left out
    "cut short",  # limit: there is more than is read
    "left out",  # what, count: such as charts, or formulas without a result
    "encrypted",  # how: "PGP" or "S/MIME", a mail whose text only its receiver can read
    "small pictures",  # count: such as logos in the signature of a mail, which were left out
    "tables",  # count
    "misnamed",  # suffix, content: the file was read as what it is
]


@dataclass(frozen=True, slots=True)
class PageNote:
    """What there is to say of how a page was read; `presentation.reading` says it to a reader."""

    kind: PageNoteKind
    values: Mapping[str, Plain] = field(default_factory=dict)

    @property
    def problem(self) -> bool:
        """Whether something of the page was left out or may be wrong."""
        unharmed = ("turned", "tables", "small pictures", "misnamed")
        return self.kind not in unharmed and not self.values.get("blank")


@dataclass(frozen=True, slots=True)
class Page:
    """The text of one page; formats without pages have a single page 1.

    `label` is its own name, such as a sheet's; `confidence`, from 0 to 1, is the mean over the
    characters that recognition read. `layout` says where the text stands on the page
    (`documents.positions`).
    """

    number: int
    text: str
    label: str = ""
    how: How = "text"
    confidence: float | None = None
    notes: tuple[PageNote, ...] = ()
    layout: bytes = b""


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading line: `start` is its code-point offset in `Document.text`, `level` 1 is topmost."""

    start: int
    level: int
    text: str


@dataclass(frozen=True, slots=True)
class TableSpan:
    """Lines `start:end` of `Document.text` that are the rows of a table, one a line.

    `header` names its columns; the first `header_rows` lines say it, none in a part of a table
    that goes on from the page before.
    """

    start: int
    end: int
    header: tuple[str, ...]
    header_rows: int = 1


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed file. `id` is the SHA-256 (hex) of the file's bytes; `source` is its path.

    Within a page, every paragraph, heading, list item or table row is one line
    (line breaks of the layout are mended), so a newline is always a boundary.
    """

    id: str
    source: str
    title: str
    pages: tuple[Page, ...]
    headings: tuple[Heading, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    tables: tuple[TableSpan, ...] = ()
    unit: Unit = "page"

    @property
    def text(self) -> str:
        """All pages joined by `PAGE_BREAK`; every span in the system indexes this string."""
        return PAGE_BREAK.join(page.text for page in self.pages)


CardKind = Literal[
    "",  # not told surely
    "amendment",
    "budget",
    "contract",
    "invoice",
    "mail",
    "minutes",
    "notice",
    "policy",
    "quotation",
    "report",
    "sheet",
    "slides",
]


@dataclass(frozen=True, slots=True)
class Card:
    """What a document is, as far as its title, its path and its beginning say (`documents.cards`).

    `name` are the words of the file's name, `folders` those above it, outermost first. Dates are
    written year-month-day, as far as they are given: `date` is the document's own, the newest that
    title or name gives, else the first of its beginning. `standing` says what is not in force.
    """

    title: str
    name: str
    folders: tuple[str, ...] = ()
    kind: CardKind = ""
    standing: Literal["", "draft", "withdrawn"] = ""
    date: str = ""
    dates: tuple[str, ...] = ()
    parties: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Columns:
    """Lines `start:end` of a chunk's text are rows of a table whose columns have these names."""

    start: int
    end: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A passage: `text == document.text[start:end]`, taken from pages `first_page..last_page`.

    `id` is a 63-bit integer, the same in SQLite, FAISS and the keyword index.
    `heading` is the path of headings above it, joined by " > ", or "". `columns` are the headers
    of the tables in it, and `title` is its document's: context beside the text, as headings are.
    """

    id: int
    document_id: str
    position: int
    text: str
    heading: str
    first_page: int
    last_page: int
    start: int
    end: int
    columns: tuple[Columns, ...] = ()
    title: str = ""


@dataclass(frozen=True, slots=True)
class LegRank:
    """Where one retrieval leg put a hit: `rank` from 1, `score` on that leg's own scale."""

    leg: str
    rank: int
    score: float


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk that a search found; `ranks` says what each leg of a hybrid search thought."""

    chunk_id: int
    score: float
    ranks: tuple[LegRank, ...] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """Where code point `start` of a document stands, in the words of its format.

    `number` and `label` are those of its page, slide, sheet or chapter; `row` is one of a sheet,
    `paragraph` one below `heading`, all from 1. `presentation.places` says it to a reader.
    """

    start: int
    unit: Unit = "page"
    number: int = 1
    label: str = ""
    row: int | None = None
    heading: str = ""
    paragraph: int | None = None


@dataclass(frozen=True, slots=True)
class ScoredChunk:
    """A chunk with its score, the file it comes from and where it begins."""

    chunk: Chunk
    score: float
    source: str
    ranks: tuple[LegRank, ...] = ()
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Citation:
    """A checked reference: marker `[n]` in the answer, and the sentence that supports it.

    The quotation is code points `place.start:place.start + len(quote)` of the document.
    """

    marker: int
    chunk_id: int
    source: str
    page: int
    quote: str
    place: Place | None = None


StepKind = Literal[
    "scope",  # all: whether a question is about all
    "plan",  # files: whose rows a question about all means, or the documents to ask
    "columns",  # questions: that are put to each document
    "cell",  # file, state; left: cells still to be read; to_come: seconds that these take
    "compute",  # sure, sql, doubt
    "filter",  # allowed, total: passages
    "private",  # left_out: passages that a hosted model may not read
    "expand",  # queries, or passage (HyDE), or failed: why there are none
    "parts",  # parts: of the question; or missing: those that the documents do not hold
    "first asked",  # asked: for what the question describes; name: its answer, or ""
    "retrieve",  # passages; or too_long: passages longer than the window
    "rerank",  # reranker, kept, read
    "answerable",  # answer: whether the passages hold it; calibrated, probability; part, from 1
    "write",  # passages: read for it, 0 without documents; cut_short
    "check citations",  # cited, removed, added: markers
    "check sentences",  # checked, unchecked, unsupported; asked: of how many the model was asked
    "disagreement",  # passages: numbers from 1, and what each says: figures or "" for a denial
    "retrieval decision",  # needed; close: whether only what a search found says so; or strict
    "relevance",  # passage, from 1; relevant; calibrated, probability, lacks; part;
    # fewer_words: of the question than another passage has, so that it was not read
    "draft",  # passage, from 1: that an answer was tried from
    "says",  # passage, from 1; says: whether it says what was drafted, and what is asked
    "decides",  # passage, from 1; decides: whether it says yes or no
    "point",  # passage, from 1; sure: whether a sentence of it says the answer
    "support of a sentence",  # rating
    "support",  # rating
    "utility",
    "choose",  # answer: its number, from 1
    "budget",  # skipped: "passages", "answers", "sentences", "utility" or "answer"; count
    "instructions",  # left_out: sentences that steered a first answer
    "cost",  # in seconds: read, written, kept: that need not be read; before passages are read
    # also least and most: to come, and budget: what is left of it
]
"""What a step did, with the names of its values. A grade that could not be read has `unread`."""


@dataclass(frozen=True, slots=True)
class Note:
    """What a run has to tell the person who asked; `presentation.steps` says it in words."""

    kind: Literal[
        "grades unread",  # unread, total: passages
        "language not served",  # reranker, language; instead: what is used
        "private left out",  # left_out: passages
        "not judged",  # count: answers that a judge on another machine may not see
        "not read",  # path: of a document that an evaluated library is without
        "cut otherwise",  # than the settings that are evaluated would cut the library
        "index damaged",  # name: "vectors" or "keywords", which is built anew
    ]
    values: Mapping[str, Plain] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Words of a document that steered a first answer; this one was written without them."""

    chunk_id: int
    source: str
    page: int
    text: str
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found in a part of a library; `presentation.check` says it to a reader.

    `code` is the same in every language. `damage` is False for what mends itself.
    """

    part: Literal["catalogue", "vectors", "keywords", "files"]
    code: str
    values: Mapping[str, object] = field(default_factory=dict)
    damage: bool = True


@dataclass(frozen=True, slots=True)
class Step:
    """One decision of a run, for `Answer.trace`; `score` is a probability or a grade, if any.

    `left_out` is what a step took out of the passages, so that it can be told before the answer.
    `presentation.steps` says it in a reader's language.
    """

    kind: StepKind
    values: Mapping[str, Plain]
    score: float | None
    seconds: float
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[Note, ...] = ()

    @property
    def name(self) -> str:
        """Deprecated, goes with 0.3: `kind`."""
        warnings.warn("Step.name is Step.kind now", DeprecationWarning, stacklevel=2)
        return self.kind

    @property
    def decision(self) -> str:
        """Deprecated, goes with 0.3: the step in English words; see `values`."""
        warnings.warn("Step.decision is Step.values now", DeprecationWarning, stacklevel=2)
        # The one look up from here, for as long as the name lives.
        words = importlib.import_module("localrag.presentation.steps")
        return str(words.decision(self, "en"))


Rating = Literal["fully supported", "partially supported", "no support"]
"""How far passages bear out an answer: 3, 1 and 0 points of Self-RAG."""


StatementKind = Literal[
    "claim",  # what the passages, or the model alone, say
    "refusal",  # that the documents do not hold the answer
    "missing",  # that they do not hold a part of it; part: of the question
    "quotation",  # the closest sentence, where nothing is surely supported; part: its words
    "otherwise",  # what another passage says; part: its words
    "notice",  # what localrag itself has to say of an answer
]


@dataclass(frozen=True, slots=True)
class Cited:
    """A citation in a statement: its marker stands at code point `at` of the text, after `gap`.

    `behind`: after the end of the sentence, and not in it. `shared`: a further quotation under the
    marker before it, which is not written again.
    """

    at: int
    citation: Citation
    gap: str = ""
    behind: bool = False
    shared: bool = False

    @property
    def marker(self) -> str:
        """As it is written."""
        return "" if self.shared else f"[{self.citation.marker}]"

    @property
    def width(self) -> int:
        """Code points that gap and marker take."""
        return len(self.gap) + len(self.marker)


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence of an answer; of one that is being written, what is new of it.

    `text` has no markers, and the white space up to the next statement. `rating` says how far the
    passages support it, None where that was not checked, and `share` is the expected share of full
    support, from 0 to 1. `quoted`: all that it says stands in its quotation; else the model was
    asked, or a figure or a name of it stands elsewhere. `copied` are the words in `text` that no
    model wrote: cells, titles and names of files as they stand in a library, each of which may be
    an order to a model. None where nobody said which these are, so that any may be.
    """

    text: str
    kind: StatementKind = "claim"
    citations: tuple[Cited, ...] = ()
    rating: Rating | None = None
    share: float = 0.0
    quoted: bool = False
    part: str = ""
    copied: tuple[str, ...] | None = None

    def runs(self) -> Iterator[tuple[str, Citation | None]]:
        """The text with its markers, in order: a run is text, or a marker with its citation."""
        done = 0
        for cited in self.citations:
            if before := self.text[done : cited.at] + cited.gap:
                yield before, None
            if cited.marker:
                yield cited.marker, cited.citation
            done = cited.at
        if rest := self.text[done:]:
            yield rest, None

    @property
    def written(self) -> str:
        """The text with its markers."""
        return "".join(run for run, _ in self.runs())

    @property
    def extent(self) -> tuple[int, int]:
        """The code points of `written` without white space around it and markers behind it."""
        markers = sum(citation.width for citation in self.citations if not citation.behind)
        return len(self.text) - len(self.text.lstrip()), len(self.text.rstrip()) + markers

    @property
    def has_words(self) -> bool:
        """Whether it is more than a line or a sign."""
        return any(map(str.isalnum, self.text))


def citations_of(statements: Iterable[Statement]) -> tuple[Citation, ...]:
    """What statements cite: one for each passage and quotation by marker, then what is added."""
    own: dict[tuple[int, str], Citation] = {}
    added: list[Citation] = []
    for statement in statements:
        for cited in statement.citations:
            if statement.kind == "otherwise":
                added.append(cited.citation)
            else:
                own.setdefault((cited.citation.marker, cited.citation.quote), cited.citation)
    return (*sorted(own.values(), key=lambda citation: citation.marker), *added)


@dataclass(frozen=True, slots=True)
class SupportedSentence:
    """A rated statement as a part of the text: `Answer.text[start:end]`; see `Statement`."""

    start: int
    end: int
    rating: Rating
    share: float
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class SelfRAGMetrics:
    """What a run of Self-RAG decided. Ratings are those of each candidate answer, in order.

    `utility_ratings` are expected values from 1 to 5; `best_score` is support x 5 + utility
    of the answer that won, with support 3, 1 or 0, and 0.0 where no answer was graded.
    """

    retrieval_needed: bool
    documents_retrieved: int
    relevant_documents: int
    response_support_ratings: tuple[Rating, ...]
    utility_ratings: tuple[float, ...]
    best_score: float
    used_retrieval: bool


SuggestionKind = Literal[
    "spelling",  # word: of the question, instead: as the documents write it
    "translation",  # word, instead: its name in the other language, as the documents have it
    "without",  # word: left out, for no passage that was read has it; one has all that is left
    "heading",  # of a passage that was not read
]


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A wording to try, with which a search finds what its kind says."""

    question: str
    kind: SuggestionKind
    word: str = ""
    instead: str = ""


@dataclass(frozen=True, slots=True)
class NotFound:
    """What a question, or a part of one, came to that the documents do not answer.

    `looked_for` are the words of `question` (as it was searched) that carry it. `closest` is the
    sentence of `Answer.contexts` nearest to it; its marker is the number of the passage. `missing`
    are words that it does not contain, `absent` those of them that no passage read contains. None
    missing: the model alone judged that it is no answer. `probability`, where the model is
    calibrated: that the passages hold the answer. `written`: an answer was, and was left out, for
    the passages did not bear it out.
    """

    question: str
    looked_for: tuple[str, ...] = ()
    closest: Citation | None = None
    missing: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    probability: float | None = None
    suggestions: tuple[Suggestion, ...] = ()
    written: bool = False


@dataclass(frozen=True, slots=True)
class Basis:
    """What the answer to a question about all was computed from.

    `rows` are those of the sheets `files`, or as many documents, `counted` those that fit. `sql`
    and `other_sql` are two readings of the question, made without each other; `doubt` says why they
    settle nothing, "" where they agree. `questions` were put to each document, and the
    `undecided` ones have no sure reply. `totals_left_out` are rows that add up others. `documents`
    are the ids of all of them. `unread_tables` says of files with very many tables how many of them
    were not read.
    """

    files: tuple[str, ...]
    rows: int
    counted: int
    sql: str = ""
    other_sql: str = ""
    doubt: str = ""
    questions: tuple[str, ...] = ()
    undecided: tuple[str, ...] = ()
    totals_left_out: int = 0
    documents: tuple[str, ...] = ()
    unread_tables: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a chat."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What a question got. `grounded` is False when the documents do not hold the answer.

    Its text, citations and rated sentences are made from its `statements`; `metrics` are of
    Self-RAG. `not_found` is there where the documents do not hold the answer, or a part of it: one
    for each. `basis` is what the answer to a question about all was computed from. `documents` are
    ids of those from which parts of it were written, where `contexts` has no more than they cite.
    """

    question: str
    statements: tuple[Statement, ...]
    language: str
    grounded: bool
    contexts: tuple[ScoredChunk, ...]
    trace: tuple[Step, ...]
    seconds: float
    metrics: SelfRAGMetrics | None = None
    left_out: tuple[LeftOut, ...] = ()
    not_found: tuple[NotFound, ...] = ()
    basis: Basis | None = None
    documents: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The statements with their markers."""
        return "".join(statement.written for statement in self.statements)

    @property
    def citations(self) -> tuple[Citation, ...]:
        """What the statements cite."""
        return citations_of(self.statements)

    @property
    def refuses(self) -> bool:
        """Whether all that it says is that the documents do not hold the answer."""
        return any(statement.kind == "refusal" for statement in self.statements)

    def extents(self) -> Iterator[tuple[int, int, Statement]]:
        """Where in `text` the words of each statement stand."""
        done = 0
        for statement in self.statements:
            start, end = statement.extent
            yield done + start, done + end, statement
            done += len(statement.written)

    @property
    def support(self) -> tuple[SupportedSentence, ...]:
        """The statements that were checked, as parts of `text`."""
        return tuple(
            SupportedSentence(start, end, statement.rating, statement.share, statement.quoted)
            for start, end, statement in self.extents()
            if statement.rating is not None
        )
