"""Records of tables: columns that are questions, rows that are documents, cells with a state."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Literal, get_args

from localrag.library.records import NotKept
from localrag.types import Citation, Plain, Step

CellState = Literal[
    "found",  # the document states it, and the value stands in what is quoted
    "not stated",  # the document was read and does not state it
    "doubtful",  # something was read that is not borne out, or has not the type of its column
    "not read",  # nobody has asked yet: the run was stopped, or the model failed
]

ColumnKind = Literal["text", "number", "money", "date", "yes/no", "one of"]
KINDS: tuple[ColumnKind, ...] = get_args(ColumnKind)


@dataclass(frozen=True, slots=True)
class Value:
    """A typed value. `text` is its normal form: a date as 2026-06-01, 2026-06 or 2026, "yes".

    `number` is a number, an amount, or 1 and 0 for yes and no; `unit` is a currency (ISO 4217),
    "%" or a unit of time ("day", "month"), else "".
    """

    kind: ColumnKind
    text: str
    number: float | None = None
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A question that is put to every document; `kind` None: as the cells turn out.

    `choices` are the answers of the kind "one of", of which there are two at least.
    """

    question: str
    kind: ColumnKind | None = None
    choices: tuple[str, ...] = ()


_COLON = re.compile("[:：]")
_BETWEEN = re.compile("[|｜]")


def column_of(given: str) -> Column:
    """A question, before which a colon may set off the kind of its answers, or the answers.

    >>> column_of("date: When does it end?")
    Column(question='When does it end?', kind='date', choices=())
    >>> column_of("monthly | yearly: How often is it paid?").choices
    ('monthly', 'yearly')
    """
    before, *rest = _COLON.split(given, maxsplit=1)
    kind = before.strip().lower()
    choices = tuple(choice.strip() for choice in _BETWEEN.split(before))
    if rest and len(choices) > 1:
        return Column(rest[0].strip(), "one of", choices)
    if rest and kind in KINDS and kind != "one of":
        return Column(rest[0].strip(), kind)
    return Column(given)


@dataclass(frozen=True, slots=True)
class SavedTable:
    """Which documents a table has and what it asks of them, by a name; no text of a document.

    `patterns`, `words` and `types` choose documents as `LocalRAG.table` does, whenever it is
    looked at: what has come or changed since then is asked, and nothing else. With `paths` the
    patterns are of whole paths, else of the names that a server gives.
    """

    name: str
    patterns: tuple[str, ...]
    columns: tuple[Column, ...]
    words: str = ""
    types: tuple[str, ...] = ()
    paths: bool = False


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model replied in one document: what is kept, before it is typed.

    `stated` is false for a refusal. `supported` says whether each sentence that was checked is
    borne out. `confidence` is the grade of the passage that was read, from 0 to 1, or None.
    `documents` are the ids of those that one side of a comparison comes from, `copied` the words in
    `text` that no model wrote, as of a `Statement`.
    """

    text: str
    stated: bool
    supported: bool = True
    confidence: float | None = None
    citations: tuple[Citation, ...] = ()
    seconds: float = 0.0
    documents: tuple[str, ...] = ()
    copied: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """One document's answer to the question of a column."""

    state: CellState
    value: Value | None = None
    text: str = ""
    """What was replied, without markers."""
    citations: tuple[Citation, ...] = ()
    confidence: float | None = None
    reason: str = ""
    """Why it is doubtful or was not read: a kind, not prose; "private" for what a model on another
    machine may not read."""


NOT_READ = Cell("not read")
LATE = replace(NOT_READ, reason="late")
"""Not read because it would have taken too long."""

_TRIAL = 3
"""Cells by whose time it is foreseen how long all take."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long cells may be read; `whole` where the table is of no use unless all are."""

    seconds: float = math.inf
    whole: bool = False

    def ends(self, spent: float, done: int, left: int) -> bool:
        """Whether no more are to be read, after `done` in so many seconds, with `left` to go."""
        if self.whole and left and done >= _TRIAL:
            spent += spent / done * left
        return spent >= self.seconds


PATIENT = Patience()
"""As long as it takes."""


@dataclass(frozen=True, slots=True)
class Row:
    """A document and its cells, one a column. `source` is the first of its paths."""

    document_id: str
    source: str
    title: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Completeness:
    """How many cells of a column are in which state; they add up to the number of documents."""

    documents: int
    found: int
    not_stated: int
    doubtful: int
    not_read: int

    @property
    def final(self) -> bool:
        """Whether nothing is left open: what is computed from the cells will not change."""
        return not (self.doubtful or self.not_read)


@dataclass(frozen=True, slots=True)
class Total:
    """What follows from the cells of a column that were found.

    `sums`, `least` and `most` are by unit: amounts of different currencies are never added up.
    `counts` says how often each value stands there, the most frequent first.
    """

    completeness: Completeness
    sums: dict[str, float] = field(default_factory=dict)
    least: dict[str, tuple[Value, str]] = field(default_factory=dict)
    most: dict[str, tuple[Value, str]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Table:
    """Documents as rows: what was asked of each, and what they say."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    totals: tuple[Total, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Begun:
    """Before the first cell is read: how much there is to do, and about how long it takes."""

    documents: int
    columns: int
    kept: int
    """Cells that were read before and are not read again."""
    to_read: int
    seconds: float
    rows: tuple[Row, ...] = ()
    """The documents, with no cells yet."""


@dataclass(frozen=True, slots=True)
class CellDone:
    """A cell was read, or taken from what is kept; rows and columns count from 0."""

    row: int
    column: int
    source: str
    cell: Cell
    kept: bool
    left: int
    """Cells that are still to be read."""


Event = Begun | CellDone | NotKept | Table


class CellSteps:
    """Makes the steps of an answer for cells that are read one after the other.

    The seconds to come are those of the cells left, if these take as long as the ones before.
    """

    def __init__(self) -> None:
        self._seconds: list[float] = []

    def step(
        self,
        file: str,
        state: CellState,
        left: int,
        score: float | None,
        seconds: float,
        *,
        kept: bool = False,
    ) -> Step:
        """The step of a cell that took so many seconds, or was `kept`; `left` are to be read."""
        values: dict[str, Plain] = {"file": file, "state": state, "left": left}
        if not kept:
            self._seconds.append(seconds)
        if left and self._seconds:
            values["to_come"] = round(left * fmean(self._seconds), 1)
        return Step("cell", values, score, seconds)


def completeness(cells: Sequence[Cell]) -> Completeness:
    """The states of the cells of a column, counted."""
    states = [cell.state for cell in cells]
    return Completeness(
        len(states),
        states.count("found"),
        states.count("not stated"),
        states.count("doubtful"),
        states.count("not read"),
    )
