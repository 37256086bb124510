"""A question as a query over rows: written in SQL again and again, and the answer is a majority's.

A small model's likeliest query is often wrong, and so are two that agree; but wrong ones differ
from each other (self-consistency: Wang et al. 2023, arXiv 2203.11171). So queries are drawn until
enough of them give the same (Aggarwal et al. 2023, arXiv 2305.11860).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from localrag.languages import LANGUAGES, LanguageCode
from localrag.models.llms.base import LLM, Options
from localrag.prompts import with_examples
from localrag.tables.description import described, relevant
from localrag.tables.linking import Meaning, linked
from localrag.tables.query import (
    COMPUTES,
    Compute,
    Condition,
    Query,
    QueryResult,
    adds_up_numbers_of_rows,
    answers,
    condition_texts,
    counted_rows,
    mixed_currencies,
    run,
    sql_of,
)
from localrag.tables.sheets import Dataset, short_name
from localrag.tables.sql import query_of, sql_in
from localrag.text.language import answer_language
from localrag.types import Message

MOST_QUERIES = 5
"""Queries that are drawn at most, the first of them the likeliest."""
_ALIKE = 3
"""Queries after which no more are drawn, if all give the same."""
SURE, _FEWEST = 0.6, 2
"""The share of the queries that give something from which on what they give is the answer, and how
many these must be."""
_SAME_ROWS = 0.75
"""The share of them, and three at least, that must list the very same rows to be told with all
columns that they list. Of 64 lists of made-up organisations five that were told with another column
and three that were not told come out right so, and none wrong; the bound was chosen on them.
"""
_BESIDE = 3
"""Columns that are told beside the one that most readings list of the same rows."""
_BY_FILE = 6
"""Files whose own results stand beside that of all."""
_BEGUN: dict[Compute, str] = {"count": "SELECT COUNT", "sum": "SELECT SUM"}
"""How a query begins whose operation is known, by the first that it may compute. Of eight sums of
made-up organisations three are told with it, rightly, where one was, of seven averages six and all
written as such; the largest is told no better (`benchmarks/log/2026-11.md`, 2026-11-30).
"""
_TEMPERATURE = 0.8
_REPLY = 200

Doubt = str
"""Why an answer is not sure: "differ", "no query", "not meant", "nothing", "currencies"."""


@dataclass(frozen=True, slots=True)
class Computed:
    """What a question over rows came to.

    `query` and `result` are what most readings of the question gave, `share` how many of those that
    gave something, and `other` what the next most gave. `rows` are the numbers of the rows that
    were counted. `doubt` says why it is not sure. `beside` are columns that other readings list of
    the very same rows, the most frequent first.
    """

    question: str
    query: Query | None
    result: QueryResult
    other: QueryResult
    rows: tuple[int, ...]
    doubt: Doubt = ""
    currencies: tuple[str, ...] = ()
    share: float = 1.0
    beside: tuple[str, ...] = ()

    @property
    def sure(self) -> bool:
        """Whether enough readings gave the same."""
        return not self.doubt

    @property
    def values(self) -> tuple[tuple[object, ...], ...]:
        """The answer."""
        return self.result.rows

    def columns(self, dataset: Dataset) -> list[int]:
        """The places of the columns that are told of each row, in the sheet's order.

        None where the answer is of one column, or no list.
        """
        if self.query is None or not self.beside:
            return []
        keys = {self.query.of, *self.beside}
        return [place for place, column in enumerate(dataset.columns) if column.key in keys]


@dataclass(slots=True)
class _Outcome:
    """What several queries gave alike."""

    result: QueryResult
    queries: Counter[Query] = field(default_factory=Counter)


def compute(
    question: str,
    dataset: Dataset,
    llm: LLM,
    computes: Sequence[Compute] = COMPUTES,
    meaning: Meaning | None = None,
) -> Computed:
    """The answer to a question over the rows of a dataset, by queries that `computes` one of these.

    Those with a condition that is not meant count for nothing. The query that linking gives by
    itself (`Meaning.query`) counts as one of those that it agrees with, and where the others differ
    it has to agree with most. Raises what the model raises.
    """
    outcomes: dict[frozenset[str], _Outcome] = {}
    lists: dict[tuple[int, ...], Counter[Query]] = {}
    others = Counter[Query]()
    is_query = False

    @cache
    def by_linking(operation: Compute) -> QueryResult | None:
        other = meaning.query(operation) if meaning else None
        if other is None or adds_up_numbers_of_rows(dataset, other):
            return None
        result = run(dataset, sql_of(other))
        return None if result.is_empty else result

    for drawn, query in enumerate(_queries(question, dataset, llm, computes), 1):
        if not query or query.compute not in computes or adds_up_numbers_of_rows(dataset, query):
            pass
        elif meaning and not all(map(meaning.has, query.where)):
            others[query] += 1
        else:
            is_query, query = True, _telling(query, dataset)
            result = run(dataset, sql_of(query))
            if not result.is_empty and not result.cut_short:
                outcomes.setdefault(answers(result), _Outcome(result)).queries[query] += 1
                if query.compute == "list" and query.where:
                    rows = tuple(counted_rows(dataset, query))
                    lists.setdefault(rows, Counter())[query] += 1
        counts = [outcome.queries.total() for outcome in outcomes.values()]
        if query and counts == [drawn] and drawn >= _ALIKE - 1:
            # What linking gives is one of those that have to be alike.
            linked_result = by_linking(query.compute)
            if drawn == _ALIKE or (linked_result and answers(linked_result) in outcomes):
                break
    ranked = sorted(outcomes.values(), key=lambda outcome: -outcome.queries.total())
    if not ranked and others and not is_query:
        other_query = others.most_common(1)[0][0]
        return replace(computed_by(question, other_query, dataset), doubt="not meant", share=0.0)
    if not ranked:
        nothing = QueryResult("", error="" if is_query else "no query")
        doubt = "nothing" if is_query else "no query"
        return Computed(question, None, nothing, nothing, (), doubt, share=0.0)
    queries = ranked[0].queries
    # Which rows are meant is one thing, which of their columns another.
    total = sum(outcome.queries.total() for outcome in ranked)
    same_rows = max(lists.values(), key=Counter.total, default=Counter[Query]())
    if same_rows.total() > queries.total() and same_rows.total() >= max(_ALIKE, _SAME_ROWS * total):
        queries = same_rows
    query, alike = queries.most_common(1)[0][0], queries.total()
    computed, linked_result = computed_by(question, query, dataset), by_linking(query.compute)
    agrees = linked_result is not None and answers(linked_result) == answers(computed.result)
    total, alike = total + agrees, alike + agrees
    share = alike / total
    doubt = "differ" if share < SURE else "" if alike >= _FEWEST else "nothing"
    if not doubt and _counts_none(query, computed.result):
        doubt = "differ" if len(ranked) > 1 else "nothing"
    other = ranked[1].result if doubt == "differ" and len(ranked) > 1 else computed.result
    if not doubt and len(ranked) > 1 and linked_result and not agrees:
        doubt, other = "differ", linked_result
    columns = Counter[str]()
    if queries is same_rows:
        for listed, count in queries.items():
            columns[listed.of] += count
    beside = tuple(key for key, _ in columns.most_common(1 + _BESIDE) if key != query.of)
    return replace(computed, other=other, doubt=computed.doubt or doubt, share=share, beside=beside)


def _telling(query: Query, dataset: Dataset) -> Query:
    """A list of names in place of one of what is the same in every row: of first aiders, "yes"."""
    conditions = [condition for condition in query.where if condition.key == query.of]
    is_fixed = [(c.sign, c.is_column) for c in conditions] == [("=", False)]
    name = next((column.key for column in dataset.columns if column.kind == "text"), query.of)
    if query.compute != "list" or not is_fixed:
        return query
    return replace(query, of=name, by=name)


def _queries(
    question: str, dataset: Dataset, llm: LLM, computes: Sequence[Compute]
) -> Iterator[Query | None]:
    """What the model writes, the likeliest first; None for what is no query."""
    language = answer_language(question)
    messages = _query_messages(question, dataset, language, computes)
    for seed in range(MOST_QUERIES):
        options = Options(
            max_tokens=_REPLY,
            temperature=_TEMPERATURE if seed else 0.0,
            seed=seed,
            keep=len(messages) - 1,
        )
        yield query_of(sql_in(llm.complete(messages, options).text, dataset), dataset)


def _query_messages(
    question: str, dataset: Dataset, language: LanguageCode, computes: Sequence[Compute]
) -> list[Message]:
    label = LANGUAGES[language].words.question_label
    hints = filter(None, (_BEGUN.get(computes[0]), condition_texts(linked(question, dataset))))
    hint = " ".join(hints)
    comment = f"-- {hint}\n\n" if hint else ""
    columns = relevant(question, dataset.columns)
    rows = described(dataset, columns, dataset.empty_rows())
    text = f"{rows}\n\n{comment}{label}: {question.strip()}"
    return with_examples("table_sql", language, text)


def _counts_none(query: Query, result: QueryResult) -> bool:
    """Whether none is counted: a misreading, for hardly anybody asks how many there are then.

    Of 99 counts that others ask of sheets none is 0; of 73 that were read up to five times nine
    came to 0 (`benchmarks/log/2026-11.md`, 2026-11-30).
    """
    return query.compute.startswith("count") and result.rows == ((0,),)


def computed_by(question: str, query: Query, dataset: Dataset) -> Computed:
    """What a query gives that leaves nothing to formulate."""
    result = run(dataset, sql_of(query))
    currencies = mixed_currencies(dataset, query)
    doubt = "currencies" if currencies else "no query" if result.error else ""
    if not doubt and result.is_empty:
        doubt = "nothing"
    rows = tuple(counted_rows(dataset, query))
    return Computed(question, query, result, result, rows, doubt, currencies)


def computed_by_file(computed: Computed, dataset: Dataset) -> dict[str, Computed]:
    """What each file gives by itself, by its name, where several are computed as one.

    Of payrolls, one a month, a question may mean one alone ("December's payroll"). Where words of a
    question name files, `of_named_files` has taken those; what it does not understand is told so.
    Nothing for a list, whose rows are told.
    """
    query, names = computed.query, [short_name(source) for source in dataset.sources]
    if query is None or not computed.sure or not 1 < len({*names}) == len(names) <= _BY_FILE:
        return {}
    # The names of sheets, where there are several, stand behind those of files.
    key = dataset.columns[-2 if len(dataset.sheets) > 1 else -1].key
    used = {query.of, query.by, *(condition.key for condition in query.where)}
    if query.compute == "list" or key in used:
        return {}
    queries = {
        name: replace(query, where=(*query.where, Condition(key, "=", name))) for name in names
    }
    return {name: computed_by(computed.question, of, dataset) for name, of in queries.items()}
