"""Passages that say different things of the matter that a question asks about.

Found without the model: two statements that answer the question with the same words, but with
another figure, date or time, or of which one denies what the other says. What is told apart by a
year, a number or a name of its own is another matter.
"""

from __future__ import annotations

import re
import threading
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from localrag.documents.tables import named_rows, shown_text
from localrag.languages import any_of
from localrag.models.llms.base import check_stopped
from localrag.text.figures import Figure, Kind, figures
from localrag.text.sentences import split_sentences
from localrag.types import Chunk, ScoredChunk

Terms = Callable[[str], Iterable[str]]

COVERED = 0.25
"""Share of the question's terms that a statement, with its heading, must have."""
AS_CLOSE = 0.8
"""Share of those that the closest statement has."""
ALIKE = 0.4
"""Share of the shorter statement's terms, figures aside, that the other must have."""
ALIKEDENIAL = 0.6
"""The same for statements that differ by a denial only."""

MOST_FIGURES = 20
"""Different figures of a sentence whose figures are compared; with more it is a row of a list, and
states nothing. All pairs of two sentences' figures are looked at, so this bounds the time, too."""
MOST_STATEMENTS = 100
"""Of all passages that are compared with each other, the first of each before others."""

SHORT_CLAUSE = 8
"""Code points beside its figure of a clause that does not say what the figure is: ", 900 kg,"."""

_WHEN = re.compile(any_of(lambda language: language.questions.when), re.IGNORECASE)
_HOW_MUCH = re.compile(any_of(lambda language: language.questions.how_much), re.IGNORECASE)
_WHETHER = re.compile(any_of(lambda language: language.questions.whether), re.IGNORECASE)
DENIAL = re.compile(any_of(lambda language: language.denial), re.IGNORECASE)
_ASKING = re.compile(any_of(lambda language: language.questions.answer_type), re.IGNORECASE)
"""What of a question says no more than what kind of answer it wants."""
CLAUSE_BREAK = re.compile(r"[,，;；、:：](?!\d)")
_NAME = re.compile(r"(?<=[^\W\d_]\s)[A-Z][\w'’-]+|\b[A-Z]{2,}\b|\b[A-Z]\b(?=\W|$)")


@dataclass(frozen=True, slots=True)
class PassageClaim:
    """What passage `chunk` (from 0) says of the matter: `chunk.text[start:end]`.

    `figure` is what it gives, in its own words; empty where statements differ by a denial.
    """

    chunk: int
    start: int
    end: int
    text: str
    figure: str


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Statements of at least two passages that differ about what was asked, by passage."""

    kind: Kind | Literal["denial"]
    statements: tuple[PassageClaim, ...]


CloseFigure = tuple[Figure, frozenset[str]]
"""A figure whose clause has terms of the question, and the clause's terms."""


@dataclass(frozen=True, slots=True)
class _Said:
    """A sentence or row, and what there is in it to compare."""

    statement: PassageClaim
    terms: frozenset[str]
    asked: frozenset[str]
    names: frozenset[str]
    figures: tuple[Figure, ...]
    """The first of each value."""
    close: tuple[CloseFigure, ...]
    names_date: bool
    """Whether one of the figures is a date that the question gives."""
    passage: frozenset[str]
    denies: bool


def disagreement(
    question: str,
    chunks: Sequence[ScoredChunk],
    terms: Terms,
    stopped: threading.Event | None = None,
) -> Disagreement | None:
    """What the passages say differently of what is asked, or None.

    Raises `StoppedError` once `stopped` is set.
    """
    stopped = stopped or threading.Event()
    question_terms = frozenset(terms(_ASKING.sub(" ", question)))
    known, kinds = _distinct(figures(question)), _kinds(question)
    sentences: list[_Said] = []
    for number, hit in enumerate(chunks):
        check_stopped(stopped)
        sentences += _claims(number, hit, question_terms, known, terms)
    compared = _closest(sentences)
    asks_whether = bool(_WHETHER.search(question))
    pairs = []
    for place, first in enumerate(compared):
        check_stopped(stopped)
        for second in compared[place + 1 :]:
            if first.statement.chunk == second.statement.chunk:
                continue
            if pair := _differ(first, second, kinds, asks_whether=asks_whether):
                pairs.append(pair)
    if not pairs:
        return None
    kind = pairs[0][0]
    statements: dict[tuple[int, str], PassageClaim] = {}
    for pair_kind, *two in pairs:
        if pair_kind == kind:
            for statement in two:
                statements.setdefault((statement.chunk, statement.figure), statement)
    return Disagreement(kind, tuple(sorted(statements.values(), key=lambda s: (s.chunk, s.start))))


def _claims(
    number: int,
    hit: ScoredChunk,
    question_terms: frozenset[str],
    known: Sequence[Figure],
    terms: Terms,
) -> Iterator[_Said]:
    heading = frozenset(terms(hit.chunk.heading)) if hit.chunk.heading else frozenset()
    passage = question_terms & (frozenset(terms(shown_text(hit.chunk))) | heading)
    for start, end, text in _sentences(hit.chunk):
        own = figures(text)
        distinct = _distinct(own)
        words = bare_terms(text, own, 0, len(text), terms)
        near = question_terms & (words | heading)
        if len(near) < len(question_terms) * COVERED:
            continue
        is_list = len(distinct) > MOST_FIGURES
        close = () if is_list else _close(text, own, question_terms, known, terms)
        yield _Said(
            PassageClaim(number, start, end, text.strip(), ""),
            words,
            near,
            frozenset(name.lower() for name in _NAME.findall(text)),
            distinct,
            close,
            any(f.kind == "date" and any(map(f.agrees, known)) for f in distinct),
            passage,
            bool(DENIAL.search(text)),
        )


def _closest(sentences: Sequence[_Said]) -> list[_Said]:
    most = max((len(sentence.asked) for sentence in sentences), default=0)
    closest = [sentence for sentence in sentences if len(sentence.asked) >= AS_CLOSE * most]
    if len(closest) <= MOST_STATEMENTS:
        return closest
    before, places = Counter[int](), list[int]()
    for sentence in closest:
        places.append(before[sentence.statement.chunk])
        before[sentence.statement.chunk] += 1
    first = sorted(range(len(closest)), key=places.__getitem__)[:MOST_STATEMENTS]
    return [closest[at] for at in sorted(first)]


def _differ(
    first: _Said, second: _Said, kinds: Sequence[Kind], *, asks_whether: bool
) -> tuple[Kind | Literal["denial"], PassageClaim, PassageClaim] | None:
    if first.names - second.names and second.names - first.names:
        return None
    if not (first.asked <= second.passage and second.asked <= first.passage):
        return None
    for kind in kinds if first.close and second.close else ():
        ours, theirs = _only_in(first, second, kind), _only_in(second, first, kind)
        if not (ours and theirs) or _told_apart(first, second, kind):
            continue
        for a, clause in ours:
            for b, other in theirs:
                if a.comparable(b) and _alike(clause, other) >= ALIKE:
                    return kind, _with(first, a), _with(second, b)
    denied = asks_whether and first.denies != second.denies
    if denied and _alike(first.terms, second.terms) >= ALIKEDENIAL:
        return "denial", first.statement, second.statement
    return None


def _only_in(sentence: _Said, other: _Said, kind: Kind) -> list[CloseFigure]:
    """The close figures of that kind that agree with none of the other's.

    A statement that gives both values does not contradict the one that gives one of them.
    """
    return [
        (figure, clause)
        for figure, clause in sentence.close
        if figure.kind == kind and not any(map(figure.agrees, other.figures))
    ]


def _alike(first: frozenset[str], second: frozenset[str]) -> float:
    return len(first & second) / max(1, min(len(first), len(second)))


def _kinds(question: str) -> list[Kind]:
    """What a question asks for: a date, a figure, a time of day, or none of these."""
    kinds: list[Kind] = []
    if _WHEN.search(question):
        kinds += ["date", "time"]
    if _HOW_MUCH.search(question):
        kinds += ["number", "time"]
    return kinds


def _told_apart(first: _Said, second: _Said, kind: Kind) -> bool:
    """Whether dates say that these are two matters, where something else than a date is asked."""
    if kind == "date":
        return False
    ours, theirs = (
        [f for f in sentence.figures if f.kind == "date"] for sentence in (first, second)
    )
    if ours and theirs:
        return not any(a.agrees(b) for a in ours for b in theirs)
    if ours or theirs:
        return not (first.names_date or second.names_date)
    return False


def _with(sentence: _Said, figure: Figure) -> PassageClaim:
    text = sentence.statement.text
    return replace(sentence.statement, figure=text[figure.start : figure.end])


def _sentences(chunk: Chunk) -> Iterator[tuple[int, int, str]]:
    for span in split_sentences(chunk.text):
        if not any(header.start <= span.start < header.end for header in chunk.columns):
            text = chunk.text[span.start : span.end]
            lead = len(text) - len(text.lstrip())
            yield span.start + lead, span.start + len(text.rstrip()), text.strip()
    yield from named_rows(chunk)


def _distinct(text_figures: Iterable[Figure]) -> tuple[Figure, ...]:
    """The first figure of each value."""
    firsts: dict[Figure, Figure] = {}
    for figure in text_figures:
        firsts.setdefault(replace(figure, start=0, end=0), figure)
    return tuple(firsts.values())


def _close(
    text: str,
    text_figures: Sequence[Figure],
    question_terms: frozenset[str],
    known: Sequence[Figure],
    terms: Terms,
) -> tuple[CloseFigure, ...]:
    """The close figures of a sentence, of one value in the same words the first; none of a list.

    Without those that the question gives: they answer nothing.
    """
    firsts: dict[CloseFigure, CloseFigure] = {}
    for figure, clause in _clauses(text, text_figures, question_terms, terms):
        if question_terms & clause:
            firsts.setdefault((replace(figure, start=0, end=0), clause), (figure, clause))
    if len(firsts) > MOST_FIGURES:
        return ()
    return tuple(close for close in firsts.values() if not any(map(close[0].agrees, known)))


def _clauses(
    text: str, text_figures: Sequence[Figure], question_terms: frozenset[str], terms: Terms
) -> Iterator[CloseFigure]:
    """Each figure with the terms of its clause, figures aside.

    With its neighbours' where it says no more than the figure: "In 1998, the hall was closed".
    """
    ends = [0, *(m.end() for m in CLAUSE_BREAK.finditer(text)), len(text)]

    @cache
    def between(first: int, last: int) -> frozenset[str]:
        return bare_terms(text, text_figures, ends[first], ends[last], terms)

    for figure in text_figures:
        number = bisect_right(ends, figure.start) - 1
        clause = between(number, number + 1)
        length = ends[number + 1] - ends[number]
        if clause & question_terms or length > figure.end - figure.start + SHORT_CLAUSE:
            yield figure, clause
        else:
            yield figure, between(max(0, number - 1), min(number + 2, len(ends) - 1))


def bare_terms(
    text: str, text_figures: Sequence[Figure], start: int, end: int, terms: Terms
) -> frozenset[str]:
    """Terms of `text[start:end]` without its figures, which stand in their order."""
    parts, done = [], start
    first, last = (bisect_left(text_figures, at, key=lambda f: f.start) for at in (start, end))
    for figure in text_figures[first:last]:
        parts.append(text[done : figure.start])
        done = figure.end
    return frozenset(terms(" ".join([*parts, text[done:end]])))
