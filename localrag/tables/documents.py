"""Documents as rows: which ones, what each says to every question, and what follows from that.

The question is put to one document at a time, by whatever answers questions (`Ask`), so that a cell
is read, checked and cited as any answer is. What was read is kept in the library, document by
document, before the next one is read: a run that was killed goes on where it was.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from localrag.errors import GenerationError, StoppedError, UsageError
from localrag.library.catalogue.filters import Filter
from localrag.library.catalogue.saved_tables import normalised
from localrag.library.kept import Keeper, key_of, record_of
from localrag.library.library import Library
from localrag.library.records import DocumentRecord
from localrag.prompts import UNSTATED
from localrag.rag.base import LONGEST_QUESTION
from localrag.rag.statements import without_quotation, words
from localrag.tables.records import (
    LATE,
    NOT_READ,
    PATIENT,
    Begun,
    Cell,
    CellDone,
    Column,
    ColumnKind,
    Event,
    Patience,
    Reply,
    Row,
    Table,
    Value,
)
from localrag.tables.totals import totals
from localrag.tables.values import kind_of, value_in
from localrag.text.figures import figures_not_in
from localrag.text.normalize import fold
from localrag.types import Answer, citations_of

MOST_COLUMNS = 50
LONGEST_COLUMN = 2000
"""Code points of a question that is put to every document."""
MOST_CHOICES = 20
LONGEST_CHOICE = 60
"""Code points of an answer of the kind "one of"."""
SECONDS_A_CELL = 6.0
"""Taken for a cell until some were read: the starter model on two cores, busy."""
_VERSION = 1
"""Of what is kept: a higher number reads all cells again."""

Ask = Callable[[Column, str], Reply]
"""A column, and the path of the document that its question is put to."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The documents of a table, in the order of their paths, of all that there are."""

    documents: tuple[DocumentRecord, ...]
    total: int


def select(
    library: Library,
    patterns: Sequence[str],
    among: Iterable[str] | None = None,
    called: Callable[[str], str] = str,
    *,
    lenient: bool = False,
    without: frozenset[str] = frozenset(),
) -> Selection:
    """The documents at paths that match one of the patterns; all without a pattern.

    A pattern is a path with `*`, `?` and `[...]`, the end of one, or a folder, of paths as they are
    `called`. `among` are ids of documents that are left, as those that hold certain words. Those
    `without` are as if they were not there: neither a name nor a count tells of them. Raises
    UsageError where a pattern matches nothing; where they are `lenient`, only if none matches.
    """
    records = [record for record in library.documents() if record.id not in without]
    names = {path: called(path) for record in records for path in record.sources}
    paths: set[str] | None = None
    for pattern in patterns:
        matches = frozenset[str]().union(
            *(look.by_names(names).within or () for look in _filters(pattern))
        )
        if not matches and not (lenient and (paths or pattern != patterns[-1])):
            raise UsageError(
                "Of {count} documents none matches {pattern}.",
                hint="See what is there with `localrag status --documents`.",
                count=len(records),
                pattern=pattern,
            )
        paths = (paths or set()) | matches
    left = None if among is None else set(among)
    documents = [
        record
        for record in records
        if (paths is None or paths.intersection(record.sources))
        and (left is None or record.id in left)
    ]
    documents.sort(key=lambda record: record.sources[:1])
    return Selection(tuple(documents), len(records))


def _filters(pattern: str) -> Iterator[Filter]:
    folder = normalised(pattern)
    if any(sign in pattern for sign in "*?["):
        yield Filter(path=folder)
    elif folder:
        yield Filter(sources=(folder,))
        yield Filter(path=f"{folder}/*")


def check_columns(columns: Sequence[Column]) -> None:
    """Raises UsageError for no column, too many, an empty question and one that is too long."""
    if not columns:
        raise UsageError(
            "A table needs a column.", hint='Give a question to each document: -c "When ...?"'
        )
    if len(columns) > MOST_COLUMNS:
        raise UsageError(
            "A table may have {most} columns, and not {count}.",
            hint="Ask the rest in a table of its own.",
            most=MOST_COLUMNS,
            count=len(columns),
        )
    longest = min(LONGEST_COLUMN, LONGEST_QUESTION) - 1
    for column in columns:
        if not column.question.strip():
            raise UsageError("The question of a column is empty.", hint="Ask something, in quotes.")
        if len(column.question) > longest:
            raise UsageError(
                "The question of a column has {count} characters, of at most {most}.",
                hint="Ask in fewer words.",
                count=len(column.question),
                most=longest,
            )
        if column.choices or column.kind == "one of":
            _check_choices(column)


def _check_choices(column: Column) -> None:
    choices = [fold(choice).strip() for choice in column.choices]
    reserved = {fold(word) for word in UNSTATED.values()}
    if not 2 <= len(choices) <= MOST_CHOICES or len({*choices, *reserved}) < len(choices) + len(
        reserved
    ):
        raise UsageError(
            "A column that asks for one of a list needs 2 to {most} different answers: {choices}.",
            hint='Name them before the question: -c "monthly | yearly: How often is it paid?"',
            most=MOST_CHOICES,
            choices=" | ".join(column.choices) or "?",
        )
    for choice in column.choices:
        if not choice.strip() or len(choice) > LONGEST_CHOICE:
            raise UsageError(
                "An answer of a list has {count} characters, of at most {most}: {choice}.",
                hint="Name each in a few words.",
                count=len(choice),
                most=LONGEST_CHOICE,
                choice=choice,
            )


def cell_key(
    question: str,
    kind: ColumnKind | None,
    model: str,
    wording: str,
    choices: Sequence[str] = (),
) -> str:
    """What a kept cell is found by, beside its document: a hash that does not say the question."""
    parts = [_VERSION, " ".join(question.split()), kind or "", model, wording]
    return key_of(*parts, *([list(choices)] if choices else ()))


@dataclass(frozen=True, slots=True)
class Work:
    """What is asked: the documents, the columns, and by which key each column is kept.

    `private` are ids of documents that are not to be read.
    """

    documents: tuple[DocumentRecord, ...]
    columns: tuple[Column, ...]
    keys: tuple[str, ...]
    private: frozenset[str] = frozenset()


def fill(
    library: Library,
    work: Work,
    ask: Ask,
    stopped: Callable[[], bool],
    patience: Patience = PATIENT,
) -> Iterator[Event]:
    """The cells as they are read, document by document, and last of all the table.

    Once `stopped` says so, or `patience` is at its end, what is left is "not read". Raises what
    `ask` raises but for failures of the model in one document, which leave that cell unread.
    """
    began = time.perf_counter()
    saved_replies = _kept_replies(library, work)
    seconds = [reply.seconds for reply in saved_replies.values() if reply.seconds > 0]
    count = len(work.documents) * len(work.columns)
    private = sum(record.id in work.private for record in work.documents) * len(work.columns)
    to_read = count - len(saved_replies) - private
    pace = sum(seconds) / len(seconds) if seconds else SECONDS_A_CELL
    rows = tuple(Row(record.id, record.sources[0], record.title, ()) for record in work.documents)
    yield Begun(len(rows), len(work.columns), len(saved_replies), to_read, pace * to_read, rows)
    replies: dict[tuple[str, str], Reply] = dict(saved_replies)
    failed: dict[tuple[str, str], str] = {}
    keeper = Keeper(library)
    halted, late, todo = False, False, to_read
    for number, document in enumerate(work.documents):
        for place, (column, key) in enumerate(zip(work.columns, work.keys, strict=True)):
            at = document.id, key
            known = at in replies
            if not known:
                halted = halted or stopped()
                if document.id in work.private:
                    failed[at] = "private"
                elif halted:
                    continue
                elif late := late or patience.ends(
                    time.perf_counter() - began, todo - to_read, to_read
                ):
                    failed[at] = LATE.reason
                else:
                    try:
                        replies[at] = _of(ask(column, document.sources[0]), document.sources[0])
                    except StoppedError:
                        halted = True
                        continue
                    except GenerationError as error:
                        failed[at] = type(error).__name__
                    else:
                        keeper.add(at, _of(replies[at], ""))
                    to_read -= 1
            cell = _cell(replies.get(at), column, failed.get(at, ""))
            source = document.sources[0]
            yield CellDone(
                number, place, source, cell, kept=known and at in saved_replies, left=to_read
            )
            yield from keeper.keep()
    yield from keeper.finish()
    yield _table(work, replies, failed, time.perf_counter() - began)


def _kept_replies(library: Library, work: Work) -> dict[tuple[str, str], Reply]:
    sources = {record.id: record.sources[0] for record in work.documents}
    records = library.kept_cells(sources.keys() - work.private, work.keys)
    replies = {at: record_of(record, Reply) for at, record in records.items()}
    return {at: _of(reply, sources[at[0]]) for at, reply in replies.items() if reply}


def _of(reply: Reply, source: str) -> Reply:
    """The reply of the document at a path; kept without one, since paths come and go."""
    cited = tuple(replace(citation, source=source) for citation in reply.citations)
    return replace(reply, citations=cited)


def reply_of(answer: Answer) -> Reply:
    """What is kept of an answer that was read in one document: what was written there."""
    own = without_quotation(answer.statements)
    grades = [
        step.score
        for step in answer.trace
        if step.kind in ("relevance", "answerable") and step.score is not None
    ]
    is_known = all(statement.copied is not None for statement in own)
    copied = tuple(part for statement in own for part in statement.copied or ())
    return Reply(
        text=words(own).strip(),
        stated=answer.grounded,
        supported=all(statement.rating in (None, "fully supported") for statement in own),
        confidence=max(grades, default=None),
        citations=citations_of(own),
        seconds=answer.seconds,
        copied=copied if is_known else None,
    )


def _table(
    work: Work,
    replies: Mapping[tuple[str, str], Reply],
    failed: Mapping[tuple[str, str], str],
    seconds: float,
) -> Table:
    columns = []
    for column, key in zip(work.columns, work.keys, strict=True):
        stated = [
            (reply.text, column.question)
            for record in work.documents
            if (reply := replies.get((record.id, key))) and reply.stated
        ]
        columns.append(replace(column, kind=column.kind or kind_of(stated)))
    rows = tuple(
        Row(
            record.id,
            record.sources[0],
            record.title,
            tuple(
                _cell(replies.get((record.id, key)), column, failed.get((record.id, key), ""))
                for column, key in zip(columns, work.keys, strict=True)
            ),
        )
        for record in work.documents
    )
    return Table(tuple(columns), rows, totals(rows, len(columns)), seconds)


def _cell(reply: Reply | None, column: Column, failure: str = "") -> Cell:
    """A reply as a cell of its column; without a kind, as text."""
    if reply is None:
        return replace(NOT_READ, reason=failure)
    if not reply.stated:
        return Cell("not stated", None, "", reply.citations, reply.confidence)
    value = typed(reply, column.kind or "text", column.question)
    reason = ""
    if value is None:
        reason = "no value"
    elif not reply.citations:
        reason = "not cited"
    elif not reply.supported:
        reason = "not borne out"
    elif column.kind in ("number", "money", "date") and figures_not_in(
        reply.text, [column.question, *(citation.quote for citation in reply.citations)]
    ):
        reason = "not in the quotation"
    state = "doubtful" if reason else "found"
    return Cell(state, value, reply.text, reply.citations, reply.confidence, reason)  # type: ignore[arg-type]


def typed(reply: Reply, kind: ColumnKind, question: str) -> Value | None:
    """The value of a reply: in what it says, else in what it quotes, where only one stands."""
    value = value_in(reply.text, kind, question)
    if value is None and kind in ("number", "money", "date"):
        quoted = " ".join(dict.fromkeys(citation.quote for citation in reply.citations))
        value = value_in(quoted, kind, question)
    return value
