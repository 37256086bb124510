"""Whether a question is about all, and which rows answer it.

A question about all is one that many documents, or many rows of sheets, have to be looked through
for. The model decides that by its own probabilities; of sheets, the words that a question shares
with their names, columns and values say which come into question, and the model judges each of
those. Where it is not sure, there is no plan: the question is answered as any other.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import islice
from typing import Generic, Literal, TypeVar

from localrag.languages import LANGUAGES, LanguageCode
from localrag.models.llms.choices import Chooser
from localrag.prompts import YES_NO, render, with_examples
from localrag.rag.question_words import Asked
from localrag.tables.collections import Collection
from localrag.tables.description import column_line, described, relevant
from localrag.tables.linking import Meaning, are_of_other_months
from localrag.tables.query import COMPUTES, Compute
from localrag.tables.sheets import Dataset, file_name
from localrag.text.language import answer_language
from localrag.types import Message

Operation = Literal["LOOKUP", "COMPARE", "LIST", "COUNT", "SUM", "MAX", "SEVERAL"]
OPERATIONS: tuple[Operation, ...] = ("LOOKUP", "COMPARE", "LIST", "COUNT", "SUM", "MAX")
"""What a question needs; the first is for those that one place answers. Names that a model for code
has seen, the same for every language. That a question asks for several things only a probe tells.
"""
ABOUT_ALL = 0.8
"""The probability from which on a question counts as one about all. On two folders whose questions
were not known when this was chosen, 35 of 44 such questions have it and 10 of 98 others, which are
answered as ever where nothing can be computed (`benchmarks/LOG.md`)."""
COMPUTES_OF: dict[Operation, tuple[Compute, ...]] = {
    "LIST": ("list",),
    "COUNT": ("count", "count different"),
    "SUM": ("sum", "average"),
    "MAX": ("largest", "smallest", "most frequent", "largest total"),
}
"""What a query computes for an operation over many rows."""
PROBED = ("about_all", "compares", "several", *COMPUTES_OF)
"""Decisions that a probe of the model's state makes (`models.llms.probes`), the operation last."""
FITS = "fits"
"""Another: whether the rows of a sheet may answer."""
PROBED_ABOUT_ALL, COMPARES = 0.6, 0.2
"""Their probabilities from which on a question is about all, and else compares. Of two folders that
nobody had looked at for this 34 of 40 such questions have it and 2 of 96 others
(`benchmarks/log/2026-11.md`)."""
SEVERAL, MAY_BE_SEVERAL = 0.7, 0.5
"""Those from which on it asks for several things, of which each is asked for by itself, and from
which on it may do so: it is taken apart where no passage is enough for the whole."""
_FITTING, _PROBED_FITTING = 0.5, 0.3
"""The share of a yes, and the probability by a probe, from which on rows may be those that a
question is about. Of sheets that are, .92 have the latter, and .35 of others of the same folder."""
_NAMED = 6
"""Documents of a collection that are named."""
_NEAREST, _BY_WORDS = 5, 3
"""Rows that it chooses among by what a search brings, and sheets by the words of the question."""
_UNSEEN = 0.001
"""The weight of sheets of which the search brings nothing."""

MOST_DOCUMENTS = 40
"""Documents that are asked for an answer; more are asked for a table (`localrag table`)."""

Rows = Dataset | Collection
"""What has rows: sheets, or documents that have to be asked one by one."""

Tokenize = Callable[[str], list[str]]


@dataclass(frozen=True, slots=True)
class Scope:
    """What a question needs, and the probability that many documents or rows have to be read.

    Of the operations over many the likeliest; another question asks for "SEVERAL" things, is to
    "COMPARE" some, or a "LOOKUP".
    """

    operation: Operation
    about_all: float
    computes: tuple[Compute, ...] = COMPUTES
    """What a query may compute of sheets: what the operation leaves, where a probe told it."""
    is_probed: bool = False
    """Whether a probe told it."""
    asks_one: bool = False
    """Whether it surely asks for one thing."""


def scope(question: str, chooser: Chooser) -> Scope:
    """What a question needs, as a probe of the model's state tells, else as the model chooses.

    A lookup where its reply cannot be read.
    """
    language = answer_language(question)
    messages = with_examples("scope", language, question)
    keep = len(messages) - 1
    if probed := chooser.probe(PROBED, messages, keep=keep):
        about_all, compares, several, *operations = probed
        if about_all < PROBED_ABOUT_ALL:
            operation: Operation = "COMPARE" if compares >= COMPARES else "LOOKUP"
            operation = "SEVERAL" if several >= max(SEVERAL, compares) else operation
            return Scope(operation, about_all, is_probed=True, asks_one=several < MAY_BE_SEVERAL)
        operation = max(zip(operations, COMPUTES_OF, strict=True))[1]
        return Scope(operation, about_all, COMPUTES_OF[operation], is_probed=True)
    choice = chooser.choose(messages, OPERATIONS, keep=keep)
    about_all = 1.0 - choice[0] - choice[1] if choice.read else 0.0
    if about_all < ABOUT_ALL:
        return Scope("COMPARE" if choice[1] > choice[0] else "LOOKUP", about_all)
    best = max(range(2, len(OPERATIONS)), key=lambda place: choice[place])
    return Scope(OPERATIONS[best], about_all)


def candidates(
    question: str,
    documents: Sequence[Rows],
    sheets: Sequence[Dataset],
    hits: Sequence[str],
    tokenize: Tokenize,
) -> list[tuple[Rows, float]]:
    """The rows that come into question with their weights, from what a search brings and by words.

    `hits` are paths of files, one a hit, best first: the nth counts 1 / (10 + n). Of the sum of a
    candidate, its square is divided by how many files it has, so that neither a whole folder nor a
    single file leads for its size.
    """
    counts: dict[str, float] = {}
    for place, source in enumerate(hits, 1):
        counts[source] = counts.get(source, 0.0) + 1 / (10 + place)
    every: list[Rows] = [group for group in documents if len(group.sources) <= MOST_DOCUMENTS]
    every += sheets
    weights = [
        sum(counts.get(source, 0.0) for source in rows.sources) ** 2 / len(rows.sources)
        for rows in every
    ]

    @cache
    def is_of_the_month(place: int) -> bool:
        rows = every[place]
        return not (isinstance(rows, Dataset) and are_of_other_months(question, rows))

    # As many are looked at as it takes: each costs milliseconds.
    by_weight = sorted(range(len(every)), key=lambda place: -weights[place])
    weighty = filter(is_of_the_month, (place for place in by_weight if weights[place]))
    nearest = list(islice(weighty, _NEAREST))
    first_sheet = len(every) - len(sheets)
    by_words = (first_sheet + place for place in ranked_places(question, sheets, tokenize))
    named = set(islice(filter(is_of_the_month, by_words), _BY_WORDS))
    places = nearest + [place for place in by_weight if place in named and place not in nearest]
    return [(every[place], weights[place]) for place in places]


def ranked(question: str, datasets: Sequence[Dataset], tokenize: Tokenize) -> list[Dataset]:
    """The datasets that share words with a question, those that share the rarest most first."""
    return [datasets[place] for place in ranked_places(question, datasets, tokenize)]


def ranked_places(question: str, datasets: Sequence[Dataset], tokenize: Tokenize) -> list[int]:
    """The places of the same."""
    question_terms = set(tokenize(question))
    terms = [set(tokenize(_words(dataset))) for dataset in datasets]
    frequency = Counter(term for some in terms for term in some)
    scores = [
        sum(math.log1p(len(datasets) / frequency[term]) for term in question_terms & some)
        for some in terms
    ]
    order = sorted(range(len(datasets)), key=lambda place: -scores[place])
    return [place for place in order if scores[place] > 0]


R = TypeVar("R", Dataset, Rows)


@dataclass(frozen=True)
class Fit(Generic[R]):
    """Rows that may answer a question, and the probability that they do.

    `columns` computes which of these are looked at, when that is first wanted.
    """

    rows: R
    share: float
    columns: Callable[[], Mapping[str, float]] = dict

    @cached_property
    def looked_at(self) -> Mapping[str, float]:
        """Of the columns by their keys, the share of what the model looks at in them."""
        return self.columns()


def fitting(question: str, weighed: Sequence[tuple[R, float]], chooser: Chooser) -> list[Fit[R]]:
    """Those of weighed rows that may answer a question, the best first.

    Each is judged by itself, by its columns and first rows: asked which of eight it is, a small
    model replies about evenly. Of the odds of a yes and the root of the weight the product counts,
    which names what the question needs for 29 of 30 questions of two folders, where a choice by
    letters did for 25. Of sheets a probe tells, since the model says yes to nearly all that share
    the question's subject. What a model has read of rows is kept for the next question.
    """
    language = answer_language(question)
    judged: list[tuple[float, Fit[R]]] = []
    for rows, weight in weighed:
        fit, least = _probed(question, rows, chooser), _PROBED_FITTING
        if fit is None:
            choice = chooser.choose(fit_messages(question, rows), YES_NO[language], keep=1)
            fit, least = Fit(rows, float(choice[0]) if choice.read else 0.0), _FITTING
        if fit.share >= least:
            odds = fit.share / max(1.0 - fit.share, 1e-6)
            judged.append((odds * math.sqrt(weight + _UNSEEN), fit))
    judged.sort(key=lambda entry: -entry[0])
    return [fit for _, fit in judged]


def looked_at(question: str, dataset: Dataset, chooser: Chooser) -> Mapping[str, float]:
    """Which columns a question means, by where the model looks as it reads it: shares of 1 by keys.

    Nothing where that is not known. The columns that conditions are about have an area under the
    curve of .93 among all by the very heads that point to sentences, those whose name shares a word
    with the question .57 (220 questions of others; `benchmarks/log/2026-11.md`, 2026-11-30).
    """
    fit = _probed(question, dataset, chooser)
    return fit.looked_at if fit else {}


def meaning(
    question: str,
    dataset: Dataset,
    tokenize: Tokenize,
    chooser: Chooser,
    seen: Mapping[str, float] = {},
) -> Meaning:
    """What a question may mean of a dataset.

    Where the model looks is found out when that is needed, unless it was `seen`.
    """

    @cache
    def columns() -> Mapping[str, float]:
        return seen or looked_at(question, dataset, chooser)

    return Meaning(Asked(question, tokenize), dataset, columns)


def _probed(question: str, rows: R, chooser: Chooser) -> Fit[R] | None:
    """How well a sheet fits and which of its columns are meant; None of documents, or unprobed."""
    if not isinstance(rows, Dataset):
        return None
    seen = chooser.look(FITS, fit_messages(question, rows), keep=1)
    if seen is None:
        return None
    share, pointer = seen
    columns = relevant(question, rows.columns)

    def looked_at() -> Mapping[str, float]:
        shares = pointer.shares(list(map(column_line, columns))) if pointer else []
        keys = (column.key for column in columns)
        return dict(zip(keys, shares, strict=bool(shares)))

    return Fit(rows, share, looked_at)


def fit_messages(question: str, rows: Rows) -> list[Message]:
    """What a model reads to judge whether rows may answer a question; the first comes back."""
    language = answer_language(question)
    text, task = _judged(rows, question, language)
    return [
        Message("system", render("rows_system", language, described=text)),
        Message("user", render(task, language, question=question.strip())),
    ]


def _judged(rows: Rows, question: str, language: LanguageCode) -> tuple[str, str]:
    """Rows as a model reads them, and the prompt that asks whether they are meant."""
    if isinstance(rows, Dataset):
        return described(rows, relevant(question, rows.columns)), "rows_fit"
    names = [file_name(source) for source in rows.sources[:_NAMED]]
    more = ", …" if len(rows.sources) > _NAMED else ""
    prefix = LANGUAGES[language].words.table_documents.format(
        count=len(rows.documents), folder=file_name(rows.folder)
    )
    return f"{prefix} {', '.join(names)}{more}", "documents_fit"


def _words(dataset: Dataset) -> str:
    columns = (f"{column.name} {' '.join(column.values)}" for column in dataset.columns)
    return " ".join([*map(file_name, dataset.sources), *dataset.sheets, *columns])
