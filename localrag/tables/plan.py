"""Whether a question is about all, and which rows answer it.

A question about all is one that many documents, or many rows of sheets, have to be looked through
for. The model decides that by its own probabilities; of sheets, the words that a question shares
with their names, columns and values say which come into question, and the model chooses among
those. Where it is not sure, there is no plan: the question is answered as any other.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from localrag.languages import LANGUAGES, LanguageCode
from localrag.models.llms.choices import Choice, Chooser
from localrag.prompts import render, with_examples
from localrag.tables.collections import Collection
from localrag.tables.sheets import Dataset
from localrag.text.language import answer_language
from localrag.types import Message

Operation = Literal["LOOKUP", "COMPARE", "LIST", "COUNT", "SUM", "MAX"]
OPERATIONS: tuple[Operation, ...] = ("LOOKUP", "COMPARE", "LIST", "COUNT", "SUM", "MAX")
"""What a question needs; the first is for those that one place answers. Names that a model for code
has seen, the same for every language."""
ABOUT_ALL = 0.8
"""The probability from which on a question counts as one about all. On two folders whose questions
were not known when this was chosen, 35 of 44 such questions have it and 10 of 98 others, which are
answered as ever where nothing can be computed (`benchmarks/LOG.md`)."""
_CANDIDATES = 6
"""Datasets that the model chooses among."""
_NEAREST, _BY_WORDS = 5, 3
"""Rows that it chooses among by what a search brings, and sheets by the words of the question."""
_UNSEEN = 0.001
"""The weight of sheets of which the search brings nothing."""
_LETTERS = "ABCDEFGHIJKL"

Rows = Dataset | Collection
"""What has rows: sheets, or documents that have to be asked one by one."""

Tokenize = Callable[[str], list[str]]


@dataclass(frozen=True, slots=True)
class Scope:
    """What a question needs, and the probability that many documents or rows have to be read.

    Of the operations over many the likeliest, or "COMPARE" for a question that is not about all and
    rather asks for a comparison than for one place.
    """

    operation: Operation
    about_all: float


def scope(question: str, chooser: Chooser) -> Scope:
    """What a question needs, as the model chooses; a lookup where its reply cannot be read."""
    language = answer_language(question)
    messages = with_examples("scope", "scope_examples", language)
    kept = len(messages)
    messages.append(Message("user", question.strip()))
    choice = chooser.choose(messages, OPERATIONS, keep=kept)
    if not choice.read:
        return Scope("LOOKUP", 0.0)
    about_all = 1.0 - choice[0] - choice[1]
    if about_all < ABOUT_ALL and choice[1] > choice[0]:
        return Scope("COMPARE", 0.0)
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
    every = [*documents, *sheets]
    weights = [
        sum(counts.get(source, 0.0) for source in rows.sources) ** 2 / len(rows.sources)
        for rows in every
    ]
    weighed = sorted(zip(every, weights, strict=True), key=lambda pair: -pair[1])
    nearest = [pair for pair in weighed if pair[1]][:_NEAREST]
    by_words = ranked(question, sheets, tokenize)[:_BY_WORDS]
    return nearest + [pair for pair in weighed if pair not in nearest and pair[0] in by_words]


def ranked(question: str, datasets: Sequence[Dataset], tokenize: Tokenize) -> list[Dataset]:
    """The datasets that share words with a question, those that share the rarest most first."""
    asked = set(tokenize(question))
    terms = [set(tokenize(_words(dataset))) for dataset in datasets]
    frequency = Counter(term for some in terms for term in some)
    scores = [
        sum(math.log1p(len(datasets) / frequency[term]) for term in asked & some) for some in terms
    ]
    order = sorted(range(len(datasets)), key=lambda place: -scores[place])
    return [datasets[place] for place in order if scores[place] > 0]


def choose(
    question: str, datasets: Sequence[Dataset], chooser: Chooser, tokenize: Tokenize
) -> tuple[Dataset | None, float]:
    """The dataset whose rows answer a question, and how sure that is; None for none of them."""
    likely = ranked(question, datasets, tokenize)[:_CANDIDATES]
    choice = _choice(question, likely, chooser)
    if choice is None:
        return None, 0.0
    best = max(range(len(likely) + 1), key=lambda place: choice[place])
    return (likely[best] if best < len(likely) else None), choice[best]


def choose_among(
    question: str, weighed: Sequence[tuple[Rows, float]], chooser: Chooser
) -> tuple[Rows | None, float]:
    """The same among weighed rows, which may be documents to be asked one by one."""
    choice = _choice(question, [rows for rows, _ in weighed], chooser)
    if choice is None or choice[len(weighed)] > max(choice[place] for place in range(len(weighed))):
        return None, 0.0

    def value(place: int) -> float:
        return choice[place] * math.sqrt(weighed[place][1] + _UNSEEN)

    best = max(range(len(weighed)), key=value)
    return weighed[best][0], choice[best]


def _choice(question: str, rows: Sequence[Rows], chooser: Chooser) -> Choice | None:
    if not rows:
        return None
    language = answer_language(question)
    shown = [*(_summary(some, language) for some in rows), LANGUAGES[language].words.no_table]
    listed = "\n".join(f"{_LETTERS[place]}: {text}" for place, text in enumerate(shown))
    task = render("table_choice", language, tables=listed, question=question.strip())
    choice = chooser.choose([Message("user", task)], list(_LETTERS[: len(shown)]))
    return choice if choice.read else None


def _words(dataset: Dataset) -> str:
    columns = (f"{column.name} {' '.join(column.values)}" for column in dataset.columns)
    names = (source.replace("\\", "/").rpartition("/")[2] for source in dataset.sources)
    return " ".join([*names, *dataset.sheets, *columns])


def _summary(rows: Rows, language: LanguageCode) -> str:
    names = [source.replace("\\", "/").rpartition("/")[2] for source in rows.sources[:4]]
    more = ", …" if len(rows.sources) > 4 else ""
    if isinstance(rows, Dataset):
        columns = ", ".join(column.name for column in rows.columns[:10])
        return f"{LANGUAGES[language].words.table_rows} {', '.join(names)}{more} ({columns})"
    folder = rows.folder.replace("\\", "/").rpartition("/")[2]
    told = LANGUAGES[language].words.table_documents.format(
        count=len(rows.documents), folder=folder
    )
    return f"{told} {', '.join(names)}{more}"
