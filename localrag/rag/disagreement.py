"""Passages that say different things of the matter that a question asks about.

Found without the model: two statements that answer the question with the same words, but with
another figure, date or time, or of which one denies what the other says. What is told apart by a
year, a number or a name of its own is another matter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

from localrag.documents.tables import named_rows, shown_text
from localrag.languages import any_of
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


@dataclass(frozen=True, slots=True)
class _Said:
    """A sentence or row, and what there is in it to compare."""

    statement: PassageClaim
    terms: frozenset[str]
    asked: frozenset[str]
    names: frozenset[str]
    figures: tuple[Figure, ...]
    close: tuple[tuple[Figure, frozenset[str]], ...]
    """Of the figures those whose clause has terms of the question, each with the clause's terms."""
    passage: frozenset[str]
    denies: bool


def disagreement(question: str, chunks: Sequence[ScoredChunk], terms: Terms) -> Disagreement | None:
    """What the passages say differently of what is asked, or None."""
    question_terms = frozenset(terms(_ASKING.sub(" ", question)))
    sentences = _closest(
        [
            sentence
            for n, c in enumerate(chunks)
            for sentence in _claims(n, c, question_terms, terms)
        ]
    )
    known = figures(question)
    pairs = [
        pair
        for first, second in combinations(sentences, 2)
        if first.statement.chunk != second.statement.chunk
        if (pair := _differ(first, second, question, known))
    ]
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
    number: int, hit: ScoredChunk, question_terms: frozenset[str], terms: Terms
) -> Iterator[_Said]:
    heading = frozenset(terms(hit.chunk.heading)) if hit.chunk.heading else frozenset()
    passage = question_terms & (frozenset(terms(shown_text(hit.chunk))) | heading)
    for start, end, text in _sentences(hit.chunk):
        own = figures(text)
        words = bare_terms(text, own, 0, len(text), terms)
        near = question_terms & (words | heading)
        if len(near) < len(question_terms) * COVERED:
            continue
        clauses = ((figure, _clause(text, own, figure, question_terms, terms)) for figure in own)
        close = tuple((figure, clause) for figure, clause in clauses if question_terms & clause)
        yield _Said(
            PassageClaim(number, start, end, text.strip(), ""),
            words,
            near,
            frozenset(name.lower() for name in _NAME.findall(text)),
            tuple(own),
            close,
            passage,
            bool(DENIAL.search(text)),
        )


def _closest(sentences: list[_Said]) -> list[_Said]:
    most = max((len(sentence.asked) for sentence in sentences), default=0)
    return [sentence for sentence in sentences if len(sentence.asked) >= AS_CLOSE * most]


def _differ(
    first: _Said, second: _Said, question: str, known: Sequence[Figure]
) -> tuple[Kind | Literal["denial"], PassageClaim, PassageClaim] | None:
    if first.names - second.names and second.names - first.names:
        return None
    if not (first.asked <= second.passage and second.asked <= first.passage):
        return None
    for kind in _kinds(question):
        if _told_apart(first, second, kind, known):
            continue
        for a, ours in first.close:
            for b, theirs in second.close:
                same = a.kind == kind and _alike(ours, theirs) >= ALIKE
                if same and _other_value(a, b, first, second, known):
                    return kind, _with(first, a), _with(second, b)
    denied = _WHETHER.search(question) and first.denies != second.denies
    if denied and _alike(first.terms, second.terms) >= ALIKEDENIAL:
        return "denial", first.statement, second.statement
    return None


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


def _told_apart(first: _Said, second: _Said, kind: Kind, known: Sequence[Figure]) -> bool:
    """Whether dates say that these are two matters, where something else than a date is asked."""
    if kind == "date":
        return False
    ours, theirs = (
        [f for f in sentence.figures if f.kind == "date"] for sentence in (first, second)
    )
    if ours and theirs:
        return not any(a.agrees(b) for a in ours for b in theirs)
    if ours or theirs:
        return not any(f.agrees(k) for f in [*ours, *theirs] for k in known)
    return False


def _other_value(
    a: Figure, b: Figure, first: _Said, second: _Said, known: Sequence[Figure]
) -> bool:
    if not a.comparable(b) or a.agrees(b):
        return False
    if any(a.agrees(k) or b.agrees(k) for k in known):
        return False
    # A statement that gives both values does not contradict the one that gives one of them.
    return not any(a.agrees(f) for f in second.figures) and not any(
        b.agrees(f) for f in first.figures
    )


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


def _clause(
    text: str,
    text_figures: Sequence[Figure],
    figure: Figure,
    question_terms: frozenset[str],
    terms: Terms,
) -> frozenset[str]:
    """Terms of the clause with this figure, figures aside.

    With its neighbours' where it says no more than the figure: "In 1998, the hall was closed".
    """
    ends = [0, *(m.end() for m in CLAUSE_BREAK.finditer(text)), len(text)]
    number = next(n for n, end in enumerate(ends[1:]) if figure.start < end)
    clause = bare_terms(text, text_figures, ends[number], ends[number + 1], terms)
    if (
        clause & question_terms
        or ends[number + 1] - ends[number] > figure.end - figure.start + SHORT_CLAUSE
    ):
        return clause
    start, end = ends[max(0, number - 1)], ends[min(number + 2, len(ends) - 1)]
    return bare_terms(text, text_figures, start, end, terms)


def bare_terms(
    text: str, text_figures: Sequence[Figure], start: int, end: int, terms: Terms
) -> frozenset[str]:
    """Terms of `text[start:end]` without its figures."""
    parts, done = [], start
    for figure in text_figures:
        if start <= figure.start < end:
            parts.append(text[done : figure.start])
            done = figure.end
    return frozenset(terms(" ".join([*parts, text[done:end]])))
