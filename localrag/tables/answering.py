"""Questions about all: computed from the rows of sheets, or from documents asked one by one.

Nothing is counted by a language model. It says whether a question is about all, which rows it means
and what each document replies; the rest follows from a query, and the answer says how many rows or
documents it rests on. Where that is not sure, both readings are told and neither is the answer.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import (
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Protocol

from localrag.languages import LANGUAGES, LanguageCode
from localrag.library.records import DocumentRecord
from localrag.models.llms.base import LLM
from localrag.models.llms.choices import Chooser
from localrag.prompts import YES_NO, render
from localrag.rag import parts
from localrag.rag.base import Parts, finished, timed
from localrag.rag.conversation import Turn
from localrag.rag.grading import Grade, log_odds
from localrag.rag.question_words import Asked
from localrag.rag.statements import own_sentence, words
from localrag.tables import columns, comparison, membership, plan
from localrag.tables.collections import Collection, collections
from localrag.tables.comparison import Ask
from localrag.tables.description import copied_words, query_text
from localrag.tables.formulation import Computed, compute, computed_by, computed_by_file
from localrag.tables.linking import Meaning, is_named, is_value, of_named_files
from localrag.tables.query import Compute, Condition, Query, run, sql_of
from localrag.tables.records import LATE, Cell, CellDone, CellSteps, Column, Event, Reply, Table
from localrag.tables.sheets import MOST_ROWS, Dataset, SheetColumn, key_of, short_name
from localrag.tables.values import in_days, separated
from localrag.text.figures import counts_asked
from localrag.text.instructions import may_steer
from localrag.text.language import answer_language
from localrag.types import Answer, Basis, Citation, Cited, ScoredChunk, Statement, Step

HITS = 30
"""Passages of a search whose files say which rows a question may mean."""
_TRIED = 2
"""Rows that are tried, the likeliest first: of the first a query may find nothing."""
_FEW_DOCUMENTS = 12
"""Documents of a collection that is tried after another: each takes seconds."""
MOST_CITED = 12
"""Rows that are cited; the others are counted as they are, and named by `Answer.basis`."""

_LONGEST_NAME = 80
"""Code points of what a code stands for; a longer text is a note."""

_RATHER_ALL = 1.0
"""Log odds that a question is about all, less those that a section states the answer, from which on
all is gone through. On four folders 46 of 48 such questions have it, and none of five others that
were taken for such and have their answer in one place; it was chosen there
(`benchmarks/log/2026-11.md`)."""

_PERHAPS_ALL = 0.2
"""The probability from which on a question that no section answers is put to the sheets. Of 18
questions of three folders that were refused so two are above it, and none of ten that have no
answer; below it sheets would have told two wrong answers and a right one
(`benchmarks/log/2026-11.md`, 2026-11-29, "the dates of names")."""

_COUNTED = ("COUNT", "SUM")
"""Operations whose result is computed or not told: a model that reads a few passages guesses it."""

Reference = tuple[str, int]
"""A document's id, and the code point at which a row begins."""
Cites = tuple[list[ScoredChunk], dict[Reference, Citation]]
"""Passages, and the citation of each row; none of a row whose document was removed meanwhile."""


class Fill(Protocol):
    """What reads cells; `whole` where the table is of no use unless all are read."""

    def __call__(
        self, documents: Sequence[DocumentRecord], columns: Sequence[Column], /, *, whole: bool
    ) -> Iterator[Event]:
        """The cells as they are read, and last the table."""


@dataclass(frozen=True, slots=True)
class LibraryAccess:
    """What a question about all needs of a library, as far as the person may see it.

    `hits` are the files of the best passages for a question, best first, one a passage. `cite`
    gives the passages that hold some rows, and a citation of each row, marked by its passage.
    """

    hits: Callable[[str, int], list[str]]
    records: Callable[[], Sequence[DocumentRecord]]
    sheets: Callable[[Sequence[DocumentRecord]], list[Dataset]]
    fill: Fill
    cite: Callable[[Sequence[Reference]], Cites]
    name: Callable[[str], str]
    """What a source is called."""
    stated: Callable[[str], Grade]
    """How far the best section of the library answers a question by itself; rows of a table do
    not."""
    ask: Ask
    answer: Callable[[str], Generator[Step, None, Answer]]
    """The answer to a part of the question."""
    belonging: Callable[[str, Sequence[DocumentRecord]], Generator[Step, None, Table | None]]
    """Which of some documents a question means, see `tables.membership`."""
    enough: float = 0.8
    """The grade from which on a section does, see `AnswerSettings`."""
    strict: bool = False
    """Whether only what the documents bear out may be told."""
    parts: MutableMapping[str, Parts] = field(default_factory=dict)
    """Of the questions that `answer` is to answer, and of the question itself."""


Pieces = Generator[Statement | Step | Answer, None, bool | None]
"""Of an answer; returns whether there was one, None where the question is about one thing or time
was too short."""


def answered(
    question: str, access: LibraryAccess, chooser: Chooser, llm: LLM, tokenize: plan.Tokenize
) -> Pieces:
    """The answer to a question about all; nothing for another, which is answered as ever.

    Raises `GenerationError` from the model.
    """
    scope, seconds = timed(partial(plan.scope, question, chooser))
    if scope.operation == "COMPARE":
        return (yield from _from_sides(question, access, chooser, llm))
    if scope.operation == "SEVERAL":
        return (yield from _from_parts(question, access, chooser, llm, tokenize))
    if scope.operation == "LOOKUP":
        if scope.asks_one:
            access.parts[question] = ()
        return None
    # "How many days of training do staff have?" is no count where a document gives the number.
    if _is_rather_stated(question, scope, access):
        return None
    yield Step("scope", {"all": True}, scope.about_all, seconds)
    began = time.perf_counter()
    records = access.records()
    groups, sheets = collections(records), access.sheets(records)
    hits = access.hits(question, HITS)
    weighed = plan.candidates(question, groups, sheets, hits, tokenize)
    judged = plan.fitting(question, weighed, chooser)
    seconds = time.perf_counter() - began
    if not judged:
        yield Step("plan", {"files": ()}, None, seconds)
    for fit, surely in _attempts(judged):
        rows = fit.rows
        yield Step("plan", {"files": _names(rows, access)}, fit.share, seconds)
        answer: bool | None = False
        if isinstance(rows, Collection):
            answer = yield from _from_documents(question, scope, rows, hits, access, chooser, llm)
        elif len(rows.rows) <= MOST_ROWS:
            sheet, asked = plan.Fit(rows, fit.share, fit.columns), Asked(question, tokenize)
            answer = yield from _from_sheets(
                asked, sheet, access, llm, scope.computes, surely=surely
            )
        if answer:
            return True
        if answer is None:  # there was no time
            break
        seconds = 0.0
    if scope.is_probed and scope.operation in _COUNTED:
        statement = own_sentence("not_counted", answer_language(question))
        yield statement
        yield finished(question, [statement])
        return True
    return False


def answered_after_all(
    question: str, access: LibraryAccess, chooser: Chooser, llm: LLM, tokenize: plan.Tokenize
) -> Pieces:
    """What the rows of sheets surely give where no section answers what may be about all.

    Raises `GenerationError` from the model.
    """
    scope = plan.scope(question, chooser)
    if not scope.is_probed or scope.about_all < _PERHAPS_ALL:
        return False
    began = time.perf_counter()
    sheets = [rows for rows in access.sheets(access.records()) if len(rows.rows) <= MOST_ROWS]
    weighed = plan.candidates(question, [], sheets, access.hits(question, HITS), tokenize)
    datasets = [(rows, weight) for rows, weight in weighed if isinstance(rows, Dataset)]
    for fit in plan.fitting(question, datasets, chooser)[:1]:
        seconds = time.perf_counter() - began
        yield Step("plan", {"files": _names(fit.rows, access)}, fit.share, seconds)
        asked = Asked(question, tokenize)
        return (yield from _from_sheets(asked, fit, access, llm, scope.computes, surely=True))
    return False


def _is_rather_stated(question: str, scope: plan.Scope, access: LibraryAccess) -> bool:
    """Whether a section rather states the answer than that all has to be gone through."""
    if scope.is_probed:
        stated = access.stated(question)
        odds = log_odds(stated.value if stated.probability is None else stated.probability)
        return log_odds(scope.about_all) - odds < _RATHER_ALL
    # A list is never left to one section: what a model says of itself was not measured for that.
    return scope.operation != "LIST" and access.stated(question).value >= access.enough


def _attempts(judged: Sequence[plan.Fit[plan.Rows]]) -> Iterator[tuple[plan.Fit[plan.Rows], bool]]:
    """What is tried in turn, and whether only what is sure of it is told.

    The likeliest rows, the next if they are another view of these, and behind documents, which a
    model says fit nearly always, the likeliest sheet: contracts do not tell what was paid.
    """
    tried = list(judged[:1])
    tried += [fit for fit in judged[1:_TRIED] if _may_follow(fit.rows, tried[0].rows)]
    yield from ((fit, False) for fit in tried)
    if not any(isinstance(fit.rows, Dataset) for fit in tried):
        sheets = (fit for fit in judged if isinstance(fit.rows, Dataset))
        yield from ((fit, True) for fit in islice(sheets, 1))


def _may_follow(rows: plan.Rows, first: plan.Rows) -> bool:
    """Whether rows are another view of the first, such as the documents that a table is from."""
    few = isinstance(rows, Dataset) or len(rows.documents) <= _FEW_DOCUMENTS
    return few and not set(rows.sources).isdisjoint(first.sources)


def _names(rows: plan.Rows, access: LibraryAccess) -> tuple[str, ...]:
    return tuple(map(access.name, rows.sources))


# -- Rows of sheets -----------------------------------------------------------------


def _from_sheets(
    asked: Asked,
    fit: plan.Fit[Dataset],
    access: LibraryAccess,
    llm: LLM,
    computes: Sequence[Compute],
    *,
    surely: bool = False,
) -> Pieces:
    """What rows give, or two readings of it.

    `surely`, nothing in their place, and only of what is asked for.
    """
    question, dataset = asked.question, of_named_files(asked.question, fit.rows)
    meaning = Meaning(asked, dataset, lambda: fit.looked_at)
    computed, seconds = timed(partial(compute, question, dataset, llm, computes, meaning))
    yield _computed_step(computed, seconds)
    if surely and not (computed.sure and _is_of(asked, computed, dataset)):
        return False
    origins = {row: dataset.origin(row) for row in computed.rows[:MOST_CITED]}
    references = {row: (at.document_id, at.start) for row, at in origins.items()}
    cited = access.cite(list(references.values()))
    unread_tables = Counter[str]()
    for file, count in dataset.unread_tables.items():
        unread_tables[access.name(file)] += count
    basis = Basis(
        files=_names(dataset, access),
        rows=len(dataset.rows),
        counted=len(computed.rows),
        sql=computed.result.sql,
        other_sql=computed.other.sql,
        doubt=computed.doubt,
        totals_left_out=dataset.totals,
        documents=dataset.documents,
        unread_tables=dict(unread_tables),
    )
    language = answer_language(question)
    closing = render(
        "computed_rows",
        language,
        counted=str(basis.counted),
        rows=str(basis.rows),
        files=_listed(basis.files, language),
    )
    closing = _query_line(dataset, computed, language) + closing
    by_file, copied = _results_by_file(dataset, computed, language)
    closing = by_file + closing
    for file, count in basis.unread_tables.items():
        note = render("computed_unread", language, count=str(count), file=short_name(file))
        closing += f"\n{note}"
    copied += [*map(short_name, (*basis.files, *basis.unread_tables))]
    notice = _notice(closing, dataset, computed, copied)
    return (
        yield from _computed_answer(question, dataset, computed, cited, references, basis, notice)
    )


def _is_of(asked: Asked, computed: Computed, dataset: Dataset) -> bool:
    """Whether the question says what the rows were counted for.

    "Harriet Pugh" among the rows of a handbook is no condition of what a tasting costs, and all
    rows of a stock list are no contracts: without a condition it names the column or a file.
    """
    query = computed.query
    if query is None:
        return False
    if not query.where:
        names = (dataset.column(query.of).name, *map(short_name, dataset.sources))
        return any(is_named(name, asked) for name in names)
    return all(
        is_named(f"{dataset.column(condition.key).name} {condition.value}", asked)
        for condition in query.where
        if is_value(condition, dataset)
    )


def _computed_step(computed: Computed, seconds: float) -> Step:
    return Step(
        "compute",
        {"sure": computed.sure, "sql": computed.result.sql, "doubt": computed.doubt},
        None,
        seconds,
    )


# -- Documents one by one -----------------------------------------------------------


def _from_documents(
    question: str,
    scope: plan.Scope,
    group: Collection,
    hits: Sequence[str],
    access: LibraryAccess,
    chooser: Chooser,
    llm: LLM,
) -> Pieces:
    operation, table = scope.operation, None
    documents = _nearest_first(group.documents, hits)
    if operation in ("LIST", "COUNT") and membership.about_documents(question, chooser):
        table = yield from access.belonging(question, documents)
    if table is None:
        table = yield from _filled(question, operation, documents, access, llm)
    if table is None or not any(cell.state == "found" for row in table.rows for cell in row.cells):
        return False
    table, late = _in_time(table, group.documents)
    if late and operation != "LIST":  # of some documents nothing is told but which they are
        return None
    language = answer_language(question)
    dataset = typed_rows(table, language)
    query = _settled(operation, dataset, table)
    computed, seconds = timed(
        partial(computed_by, question, query, dataset)
        if query
        else partial(compute, question, dataset, llm, scope.computes)
    )
    if query and query.compute == "list" and computed.doubt == "nothing":  # none of so many
        computed = computed_by(question, replace(query, compute="count"), dataset)
    yield _computed_step(computed, seconds)
    undecided = tuple(
        access.name(row.source)
        for row in table.rows
        if any(cell.state in ("doubtful", "not read") for cell in row.cells)
    )
    basis = Basis(
        files=_names(group, access),
        rows=len(table.rows),
        counted=len(computed.rows),
        sql=computed.result.sql,
        other_sql=computed.other.sql,
        doubt=computed.doubt,
        questions=tuple(column.question for column in table.columns),
        undecided=(*undecided, *map(access.name, late)),
        documents=tuple(record.id for record in group.documents),
    )
    references: dict[int, Reference] = {}
    for number in computed.rows[:MOST_CITED]:
        row = table.rows[number - 1]
        quoted = next((cell.citations[0] for cell in row.cells if cell.citations), None)
        if quoted and quoted.place:
            references[number] = (row.document_id, quoted.place.start)
    cited = _as_quoted(access.cite(list(references.values())), table)
    read = sum(all(cell.state != "not read" for cell in row.cells) for row in table.rows)
    counts = {"read": str(read), "count": str(len(group.documents))}
    if late:
        closing = render("computed_documents_late", language, **counts)
    elif undecided:
        names = _listed(undecided, language)
        closing = render("computed_documents_open", language, **counts, undecided=names)
    else:
        closing = render("computed_documents", language, **counts)
    if not query:
        closing = _query_line(dataset, computed, language) + closing
    if basis.questions != (question,):
        questions = LANGUAGES[language].space.join(basis.questions)
        closing = f"{render('computed_asked', language, questions=questions)}\n{closing}"
    notice = _notice(closing, dataset, computed, [*map(short_name, undecided)])
    return (
        yield from _computed_answer(question, dataset, computed, cited, references, basis, notice)
    )


def _nearest_first(
    documents: Sequence[DocumentRecord], hits: Sequence[str]
) -> list[DocumentRecord]:
    """The documents of the best passages first: time may be too short for all."""
    ranks = {source: rank for rank, source in reversed(list(enumerate(hits)))}
    return sorted(documents, key=lambda record: ranks.get(record.sources[0], len(hits)))


def _in_time(table: Table, documents: Sequence[DocumentRecord]) -> tuple[Table, list[str]]:
    """The rows that were read in time, in the order of the documents; the others by their paths."""
    rows = {row.document_id: row for row in table.rows}
    every = [rows[record.id] for record in documents]
    late = [row.source for row in every if any(cell.reason == LATE.reason for cell in row.cells)]
    return replace(table, rows=tuple(row for row in every if row.source not in late)), late


def _filled(
    question: str,
    operation: plan.Operation,
    documents: Sequence[DocumentRecord],
    access: LibraryAccess,
    llm: LLM,
) -> Generator[Step, None, Table | None]:
    """What the documents reply to the questions that the model proposes; None for no proposal."""
    proposals, seconds = timed(partial(columns.proposed, question, operation, llm))
    yield Step("columns", {"questions": tuple(c.question for c in proposals)}, None, seconds)
    if not proposals:
        return None
    table: Table | None = None
    steps, began = CellSteps(), time.perf_counter()
    for event in access.fill(documents, proposals, whole=operation != "LIST"):
        if isinstance(event, CellDone):
            seconds, began = time.perf_counter() - began, time.perf_counter()
            name, cell = access.name(event.source), event.cell
            yield steps.step(
                name, cell.state, event.left, cell.confidence, seconds, kept=event.kept
            )
        elif isinstance(event, Table):
            table = event
    return table


def _settled(operation: plan.Operation, dataset: Dataset, table: Table) -> Query | None:
    """The query, where what is asked of the documents leaves no choice.

    The documents that are listed or counted are those for which all is so, and a sum has one column
    of amounts. What else there may be, the model formulates.
    """
    document, *answer_columns = dataset.columns
    kinds = [column.kind for column in table.columns]
    where = tuple(
        Condition(column.key, "=", column.values[0])
        for column, kind in zip(answer_columns, kinds, strict=True)
        if kind == "yes/no"
    )
    values = [
        column
        for column, kind in zip(answer_columns, kinds, strict=True)
        if kind in ("money", "number")
    ]
    if len(where) == len(answer_columns) and operation in ("LIST", "COUNT"):
        return Query("list" if operation == "LIST" else "count", document.key, "", where)
    if operation == "SUM" and len(values) == 1 and len(where) + 1 == len(answer_columns):
        return Query("sum", values[0].key, "", where)
    if operation == "LIST" and kinds == ["text"]:
        return Query("list", answer_columns[0].key, "")
    return None


def _as_quoted(cited: Cites, table: Table) -> Cites:
    """The citations with the words that a cell quotes, in place of a whole row."""
    quotes = {
        (citation.chunk_id, citation.place.start): citation
        for row in table.rows
        for cell in row.cells
        for citation in cell.citations
        if citation.place
    }
    chunks, citations = cited
    exact = {}
    for reference, citation in citations.items():
        quoted = quotes.get((citation.chunk_id, reference[1]))
        exact[reference] = replace(citation, quote=quoted.quote) if quoted else citation
    return chunks, exact


def typed_rows(table: Table, language: LanguageCode) -> Dataset:
    """A table of documents as typed rows: the document, and a column for each question."""
    keys = {"data", "row", "rowid"}
    names = [short_name(row.source) for row in table.rows]
    sheet_columns = [
        SheetColumn(
            "document", key_of("document", keys), "text", values=tuple(dict.fromkeys(names))
        )
    ]
    values: list[list[object]] = [list(names)]
    for place, column in enumerate(table.columns):
        cells = [row.cells[place] for row in table.rows]
        sheet, typed = _column(column, cells, keys, language)
        sheet_columns.append(sheet)
        values.append(typed)
    sources = tuple(row.source for row in table.rows)
    return Dataset(sources, ("",), tuple(sheet_columns), list(zip(*values, strict=True)), ())


def _column(
    column: Column, cells: Sequence[Cell], keys: set[str], language: LanguageCode
) -> tuple[SheetColumn, list[object]]:
    key, kind = key_of(column.question, keys), column.kind or "text"
    found_cells = [cell if cell.state == "found" else None for cell in cells]
    unread = sum(cell.state == "doubtful" for cell in cells)
    if kind in ("number", "money"):
        units = {cell.value.unit for cell in found_cells if cell and cell.value}
        times = kind == "number" and len(units) > 1
        numbers: list[object] = [
            None
            if cell is None or cell.value is None
            else in_days(cell.value)
            if times
            else cell.value.number
            for cell in found_cells
        ]
        mixed = tuple(sorted(units)) if kind == "money" and len(units) > 1 else ()
        unit = next(iter(units)) if len(units) == 1 else "day" if times else ""
        return SheetColumn(column.question, key, kind, unit, unread, mixed), numbers
    if kind == "yes/no":
        yes, no = YES_NO[language]
        words = [
            None if cell is None or cell.value is None else yes if cell.value.text == "yes" else no
            for cell in found_cells
        ]
        return SheetColumn(column.question, key, "text", unread=unread, values=(yes, no)), [*words]
    texts = [
        None if cell is None else cell.value.text if kind == "date" and cell.value else cell.text
        for cell in found_cells
    ]
    few = tuple(dict.fromkeys(text for text in texts if text)) if kind == "text" else ()
    return SheetColumn(column.question, key, kind, unread=unread, values=few), [*texts]


# -- Two or three side by side ------------------------------------------------------


def _from_sides(question: str, access: LibraryAccess, chooser: Chooser, llm: LLM) -> Pieces:
    records = access.records()
    ids = {source: record.id for record in records for source in record.sources}
    hits = access.hits(question, comparison.MOST_DOCUMENTS * 2)
    result = yield from comparison.compared(
        question, records, hits, access.ask, access.name, chooser, llm, strict=access.strict
    )
    if result is None:
        return None
    places = {
        quote: (ids[quote.source], quote.place.start)
        for side in result.sides
        for quote in side.reply.citations
        if quote.place and quote.source in ids
    }
    chunks, citations = access.cite(list(dict.fromkeys(places.values())))
    exact = {
        quote: replace(citations[at], quote=quote.quote)
        for quote, at in places.items()
        if at in citations
    }
    statements = []
    order = result.order or ("",) * len(result.sides)
    for side, place in zip(result.sides, order, strict=True):
        marks = [exact[quote] for quote in side.reply.citations if quote in exact]
        if not marks:  # its document was removed meanwhile
            return None
        text = f"- {side.placed(place)}"
        statements.append(
            Statement(
                f"{text}\n",
                citations=tuple(_marks(len(text), marks)),
                rating="fully supported" if side.reply.supported else "partially supported",
                share=1.0 if side.reply.supported else 0.5,
                copied=(side.name, *_copied(side.reply)),
            )
        )
    if result.conclusion:
        marks = list(dict.fromkeys(mark.citation for side in statements for mark in side.citations))
        text = result.conclusion
        cited = tuple(_marks(len(text), marks))
        statements.insert(0, Statement(f"{text}\n\n", citations=cited, copied=()))
    if result.difference:
        statements.append(Statement(f"\n{result.difference}", "notice", copied=()))
    yield from statements
    documents = {document for side in result.sides for document in side.reply.documents}
    answer = finished(question, statements, chunks, grounded=True)
    yield replace(answer, documents=tuple(sorted(documents)))
    return True


def _copied(reply: Reply) -> tuple[str, ...]:
    """What no model wrote of a reply; all where nobody knows."""
    return (reply.text,) if reply.copied is None else reply.copied


def _from_parts(
    question: str, access: LibraryAccess, chooser: Chooser, llm: LLM, tokenize: plan.Tokenize
) -> Pieces:
    """The answers to several things that are asked, as they come; nothing where none has one.

    Nor where what stands before them asks, too ("Tell me the rent. Who is the agent, and since
    when?"): it would be lost. Beside one part it makes several things then, and a story does not:
    of 4 made-up requests the state tells 4, of 25 stories of others one.
    """
    proposals, seconds = timed(partial(parts.proposed, question, llm, tokenize))
    access.parts[question] = proposals
    if not proposals:
        return None
    first = parts.in_context(proposals[0], question)
    if first != proposals[0] and plan.scope(first, chooser).operation == "SEVERAL":
        access.parts[question] = ()
        return None
    yield Step("parts", {"parts": proposals}, None, seconds)
    joined, last = parts.JoinedAnswer(question), None
    for part in proposals:
        text = parts.resolved(part, last, llm, tokenize)
        asked = parts.in_context(text, question)
        access.parts[asked] = ()
        answer = yield from access.answer(asked)
        told = joined.add(part, text, answer)
        yield from told
        # What a document says to the model is in no prompt that nobody guards.
        reply = words(statement for statement in told if statement.kind == "claim")
        last = Turn(text, "" if may_steer(reply) else reply)
    if not joined.statements:  # nor is a second time of use
        access.parts[question] = ()
        return None
    missing = tuple(part.question for part in joined.missing)
    lacking = parts.lacking(missing, answer_language(question))
    yield from lacking
    joined.statements += lacking
    yield joined.finished()
    return True


# -- What is told -------------------------------------------------------------------


def _computed_answer(
    question: str,
    dataset: Dataset,
    computed: Computed,
    cited: Cites,
    references: Mapping[int, Reference],
    basis: Basis,
    notice: Statement,
) -> Pieces:
    """The values with their citations, and what they rest on; both readings where they differ.

    Nothing where no rows were understood to be meant, or none fits: an empty table proves little.
    """
    language = answer_language(question)
    chunks, citations = cited
    if computed.doubt in ("no query", "not meant", "nothing"):  # as any other question, then
        return False
    if not computed.sure:
        statements = [_doubt(computed, language), notice]
        yield from statements
        yield replace(finished(question, statements, chunks), basis=basis)
        return True
    by_row = {row: citations[at] for row, at in references.items() if at in citations}
    named = _named_documents(dataset, computed)
    values = named or list(_values(dataset, computed, language))
    statements = []
    if named:
        head = _count_text(dataset, computed, language)
        statements.append(Statement(f"{head}\n", rating="fully supported", share=1.0, copied=()))
    for number, (value, rows) in enumerate(values, 1):
        text = f"- {value}" if len(values) > 1 or statements else value
        marks = tuple(_marks(len(text), [by_row[row] for row in rows if row in by_row]))
        end = "\n" if number < len(values) else "\n\n"
        statements.append(
            Statement(
                text + end,
                citations=marks,
                rating="fully supported",
                share=1.0,
                copied=(value,),
            )
        )
    statements.append(notice)
    yield from statements
    yield replace(finished(question, statements, chunks, grounded=True), basis=basis)
    return True


def _notice(closing: str, dataset: Dataset, computed: Computed, copied: Sequence[str]) -> Statement:
    """What stands behind the values; `copied` are words of documents in it, but for the query's."""
    query = copied_words(dataset, computed.query, computed.beside) if computed.query else ()
    return Statement(closing, "notice", copied=_words_in(closing, (*copied, *query)))


def _words_in(text: str, words: Iterable[str]) -> tuple[str, ...]:
    """Those that are told, for of many only the first are."""
    return tuple(dict.fromkeys(word for word in words if word and word in text))


def _marks(at: int, citations: Sequence[Citation]) -> Iterator[Cited]:
    """The citations of a value: rows of one passage share a marker."""
    for marker in dict.fromkeys(citation.marker for citation in citations):
        quoted = [citation for citation in citations if citation.marker == marker]
        for number, citation in enumerate(quoted):
            yield Cited(at, citation, "" if number else " ", shared=number > 0)


def _values(
    dataset: Dataset, computed: Computed, language: LanguageCode
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The values of an answer, each with the numbers of the rows that it rests on."""
    query, rows = computed.query, computed.rows
    if query is None:  # two readings agree only where there are two
        raise ValueError("a sure answer without a query")
    of = [column.key for column in dataset.columns].index(query.of)
    column = dataset.columns[of]
    match query.compute:
        case "list" | "largest" | "smallest":
            by = [c.key for c in dataset.columns].index(query.by or query.of)
            by_value: dict[str, list[int]] = {}
            names = _name_columns(dataset, of) if query.compute != "list" else []
            meaning = _meaning_of_codes(dataset, query, rows) if query.compute == "list" else None
            places = computed.columns(dataset)
            for row in rows:
                text = shown(dataset.rows[row - 1][of], column.unit)
                if meaning is not None and (beside := dataset.rows[row - 1][meaning]):
                    text = render("computed_beside", language, value=text, beside=str(beside))
                name = _name_of(dataset, row, of, names)
                if query.compute != "list" and by != of:
                    beside = shown(dataset.rows[row - 1][by], dataset.columns[by].unit)
                    label = ", ".join(filter(None, (name, text)))
                    text = render("computed_beside", language, value=label, beside=beside)
                elif name:
                    text = render("computed_beside", language, value=name, beside=text)
                if places:
                    text = _row_text(dataset, row, places, language)
                by_value.setdefault(text, []).append(row)
            yield from ((text, tuple(numbers)) for text, numbers in by_value.items())
        case "count":
            yield _count_text(dataset, computed, language), rows
        case "largest total":
            value = str(computed.values[0][0])
            beside = shown(_total(dataset, query, value), dataset.column(query.by).unit)
            yield render("computed_beside", language, value=value, beside=beside), rows
        case "count different":
            yield str(computed.values[0][0]), rows
        case _:
            yield shown(computed.values[0][0], column.unit), rows


def _row_text(dataset: Dataset, row: int, places: Sequence[int], language: LanguageCode) -> str:
    """Some columns of a row, each with its name: "Date: 2026-03-02 | Bar: Ola"."""
    cells = [(dataset.columns[place], dataset.rows[row - 1][place]) for place in places]
    return " | ".join(
        render("computed_beside", language, value=column.name, beside=shown(value, column.unit))
        for column, value in cells
        if value not in (None, "")
    )


def _count_text(dataset: Dataset, computed: Computed, language: LanguageCode) -> str:
    """How many rows or documents of all it is: "3 of 10 documents"."""
    name = "computed_count" if dataset.tables else "computed_count_documents"
    unit = counts_asked(computed.question) or ""
    if not dataset.tables:
        unit = unit or LANGUAGES[language].words.document_unit
    counted, rows = str(len(computed.rows)), str(len(dataset.rows))
    return render(name, language, count=counted, rows=rows, unit=unit)


def _named_documents(dataset: Dataset, computed: Computed) -> list[tuple[str, tuple[int, ...]]]:
    """The documents that are listed or counted, each with its row; of many that are counted none.

    Who asks how many wants to see which, and the other way round.
    """
    query, rows, names = computed.query, computed.rows, dataset.columns[0].key
    if dataset.tables or query is None:
        return []
    if (query.compute, query.of) != ("list", names) and (
        query.compute != "count" or len(rows) > MOST_CITED
    ):
        return []
    return [(str(dataset.rows[row - 1][0]), (row,)) for row in rows]


def _name_columns(dataset: Dataset, of: int) -> list[int]:
    """The columns that say what a row is about, where another one is told of it.

    The first of texts, and of several files the file; beside a text only those in which no two rows
    say the same, as names do.
    """
    texts = [
        place
        for place, column in enumerate(dataset.columns)
        if column.kind == "text" and column.key != "sheet"
    ]
    files = [place for place in texts if dataset.columns[place].key == "file"]
    named = files + [place for place in texts if place not in files]
    if dataset.columns[of].kind != "text":
        return named
    rows, first = len(dataset.rows), named[: len(files) + 1]
    return [place for place in first if len({row[place] for row in dataset.rows}) == rows]


def _meaning_of_codes(dataset: Dataset, query: Query, rows: Sequence[int]) -> int | None:
    """The column that says what the codes of a list stand for: of "H006" the property.

    Codes are words with a figure, different in every row. The first other column of texts says what
    they stand for, unless all that are listed have the same there or it is a condition.
    """
    texts = {place: c for place, c in enumerate(dataset.columns) if c.kind == "text" and not c.of}
    of = next((place for place, column in texts.items() if column.key == query.of), None)
    if of is None:
        return None
    codes = [str(row[of]) for row in dataset.rows if row[of]]
    are_codes = all(len(code.split()) == 1 and any(map(str.isdigit, code)) for code in codes)
    if not are_codes or len({*codes}) < len(codes):
        return None
    known = {"file", "sheet", query.of, *(condition.key for condition in query.where)}
    place = next((place for place, column in texts.items() if column.key not in known), None)
    if place is None:
        return None
    values = [str(dataset.rows[row - 1][place] or "") for row in rows]
    are_same = len(values) > 1 and len({*values}) == 1
    return None if are_same or max(map(len, values), default=0) > _LONGEST_NAME else place


def _name_of(dataset: Dataset, row: int, of: int, columns: Sequence[int]) -> str:
    """What a row is about, by some columns; "" where that is what is told."""
    values = dataset.rows[row - 1]
    files = [place for place in columns if dataset.columns[place].key == "file"]
    filled = [place for place in columns if values[place] not in (None, "")]
    texts = [place for place in filled if place not in files]
    named = [place for place in filled if place in files] + texts[:1]
    return "" if of in named else ", ".join(str(values[place]) for place in named)


def _total(dataset: Dataset, query: Query, value: str) -> object:
    """The sum of `by` over the rows of the value that has the largest."""
    where = (*query.where, Condition(query.of, "=", value))
    return run(dataset, sql_of(Query("sum", query.by, "", where))).rows[0][0]


def shown(value: object, unit: str) -> str:
    """A value as an answer writes it: 1,730.00 GBP, 12%, 8, a text as it stands."""
    if not isinstance(value, int | float):
        return str(value)
    number = separated(value)
    return f"{number}{unit}" if unit in ("%", "‰") else f"{number} {unit}".rstrip()


def _query_line(dataset: Dataset, computed: Computed, language: LanguageCode) -> str:
    """A line that says in words what was computed; "" where there is no query."""
    if computed.query is None:
        return ""
    text = query_text(dataset, computed.query, language, computed.beside)
    return f"{render('computed_query', language, query=text)}\n"


def _results_by_file(
    dataset: Dataset, computed: Computed, language: LanguageCode
) -> tuple[str, list[str]]:
    """Lines with what each file gives by itself, where several are computed as one; else "".

    And the names and the results that are in them.
    """
    results, told = [], list[str]()
    for name, of_file in computed_by_file(computed, dataset).items():
        if of_file.query and of_file.query.compute == "count":
            texts = [str(len(of_file.rows))]
        else:
            values = _values(dataset, of_file, language) if of_file.sure else ()
            texts = [_without_file(text, name, language) for text, _ in values] or ["–"]
        told += [name, *texts]
        result = LANGUAGES[language].comma.join(texts)
        line = render("computed_beside", language, value=name, beside=result)
        results.append(f"- {line}\n")
    if not results:
        return "", []
    return f"{render('computed_by_file', language, results=''.join(results))}\n", told


def _without_file(text: str, name: str, language: LanguageCode) -> str:
    """A value without its file's name, which stands in front where rows are of several files."""
    alone = render("computed_beside", language, value=name, beside="")
    return text.removeprefix(alone).removeprefix(f"{name}, ")


def _doubt(computed: Computed, language: LanguageCode) -> Statement:
    if computed.doubt == "currencies":
        listed = _listed(computed.currencies, language)
        text = render("computed_currencies", language, currencies=listed)
        copied = _words_in(text, map(short_name, computed.currencies))
        return Statement(f"{text}\n\n", "notice", copied=copied)
    readings, values = [], list[str]()
    for result in (computed.result, computed.other):
        rows = [[shown(v, "") for v in row if v is not None] for row in result.rows[:8]]
        values += (value for row in rows for value in row)
        readings.append("; ".join(filter(None, map(", ".join, rows))) or "–")
    text = render("computed_doubt", language, first=readings[0], second=readings[1])
    return Statement(f"{text}\n\n", "notice", copied=_words_in(text, values))


def _listed(names: Sequence[str], language: LanguageCode, most: int = 6) -> str:
    short = [short_name(name) for name in names[:most]]
    more = ["…"] if len(names) > most else []
    return LANGUAGES[language].comma.join([*short, *more])
