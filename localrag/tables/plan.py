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

from localrag.models.llms.choices import Chooser
from localrag.prompts import PromptLanguage, render
from localrag.tables.sheets import Dataset
from localrag.text.language import answer_language
from localrag.types import Message

SCOPES: dict[PromptLanguage, tuple[str, str]] = {"en": ("single", "all"), "zh": ("单项", "全部")}
ABOUT_ALL = 0.5
"""The probability from which on a question counts as one about all."""
_CANDIDATES = 6
"""Datasets that the model chooses among."""
_LETTERS = "ABCDEFGH"
_NONE = {"en": "none of these", "zh": "都不是"}

Tokenize = Callable[[str], list[str]]


@dataclass(frozen=True, slots=True)
class Plan:
    """What to compute over: a dataset, or None for documents that have to be asked one by one.

    `scope` is the probability that the question is about all, `choice` that of the dataset.
    """

    dataset: Dataset | None
    scope: float
    choice: float = 0.0


def scope(question: str, chooser: Chooser) -> float:
    """The probability that a question is about all; 0.0 where the model's reply is no answer."""
    language = answer_language(question)
    messages = [Message("system", render("scope", language))]
    lines = iter(render("scope_examples", language).splitlines())
    for example, label in zip(lines, lines, strict=True):
        messages += [Message("user", example), Message("assistant", label)]
    kept = len(messages)
    messages.append(Message("user", question.strip()))
    choice = chooser.choose(messages, SCOPES[language], keep=kept)
    return choice[1] if choice.read else 0.0


def plan(
    question: str, datasets: Sequence[Dataset], chooser: Chooser, tokenize: Tokenize
) -> Plan | None:
    """How a question about all is to be answered; None for another, which is answered as before."""
    about_all = scope(question, chooser)
    if about_all < ABOUT_ALL:
        return None
    dataset, sure = choose(question, datasets, chooser, tokenize)
    return Plan(dataset, about_all, sure)


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
    candidates = ranked(question, datasets, tokenize)[:_CANDIDATES]
    if not candidates:
        return None, 0.0
    language = answer_language(question)
    shown = [*(f"{_summary(dataset)}" for dataset in candidates), _NONE[language]]
    listed = "\n".join(f"{_LETTERS[place]}: {text}" for place, text in enumerate(shown))
    task = render("table_choice", language, tables=listed, question=question.strip())
    choice = chooser.choose([Message("user", task)], list(_LETTERS[: len(shown)]))
    if not choice.read:
        return None, 0.0
    best = max(range(len(shown)), key=lambda place: choice[place])
    return (candidates[best] if best < len(candidates) else None), choice[best]


def _words(dataset: Dataset) -> str:
    columns = (f"{column.name} {' '.join(column.values)}" for column in dataset.columns)
    names = (source.replace("\\", "/").rpartition("/")[2] for source in dataset.sources)
    return " ".join([*names, *dataset.sheets, *columns])


def _summary(dataset: Dataset) -> str:
    names = [source.replace("\\", "/").rpartition("/")[2] for source in dataset.sources[:4]]
    more = ", …" if len(dataset.sources) > 4 else ""
    columns = ", ".join(column.name for column in dataset.columns[:10])
    return f"{', '.join(names)}{more} ({columns})"
