"""Questions with several parts: each is searched and judged for itself, all are answered together.

What the documents do not hold is said in a sentence of its own, so that half an answer never
looks like a whole one. `text.questions` takes the questions apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

from localrag.documents.chunking import passage_text
from localrag.prompts import PromptLanguage, render
from localrag.rag.base import Toolkit
from localrag.rag.citations import Attributor
from localrag.text.language import answer_language
from localrag.text.normalize import fold
from localrag.text.questions import Parts, compares, joined_names, parts_of
from localrag.types import Citation, Plain, ScoredChunk, Step

Read = Callable[[str, Sequence[ScoredChunk]], Generator[Step, None, tuple[int, ...]]]
"""A question and passages, best first -> the numbers of those that hold its answer, from 1."""

Grade = Callable[[int, str], Generator[Step, None, float]]
"""The number of a passage, from 1, and a question -> how far that alone holds the answer."""


class Found(NamedTuple):
    """A passage, and the part of a question, or the whole, that it was found for."""

    passage: ScoredChunk
    asked: str


class Grades(NamedTuple):
    """What some passages were graded, by number from 1.

    `left` counts those that there was no time to grade for a part that none holds so far.
    """

    answered: Parts
    best: dict[int, float]
    left: int


MOST_LIKELY = 2
"""Passages that are read for a whole question where none holds a part of it."""


def find(
    tools: Toolkit, question: str, *, apart: bool = True
) -> Generator[Step, None, tuple[Parts, list[Found]]]:
    """The parts of a question, () where it is taken as one, and the k best passages.

    Those are the best for each part and for the whole question in turn. `apart`: whether it may
    be taken apart.
    """
    parts = parts_of(question, tools.tokenize) if apart else ()
    whole = [Found(each, question) for each in (yield from tools.find(question))]
    if parts and _is_one_name(question, whole):
        parts = ()
    if not parts:
        return (), whole
    yield Step("parts", {"parts": parts}, None, 0.0)
    lists = []
    for asked in parts:
        found = yield from tools.find(asked)
        lists.append([Found(each, asked) for each in found])
    return parts, interleaved([*lists, whole])[: tools.k]


def _is_one_name(question: str, found: Sequence[Found]) -> bool:
    """Whether "A and B" stands so in a passage: Marks and Spencer, Antigua and Barbuda."""
    names = [f" {_plain(name)} " for name in joined_names(question)]
    texts = [f" {_plain(passage_text(each.passage.chunk))} " for each in found]
    if answer_language(question) == "zh":  # no spaces between words
        names = [name.strip() for name in names]
    return any(name in text for name in names for text in texts)


def _plain(text: str) -> str:
    words = re.sub(r"[^\w&、]+", " ", fold(text)).replace("&", " and ")
    return " ".join(words.split())


def interleaved(lists: Sequence[Sequence[Found]]) -> list[Found]:
    """The first of each list, then the second of each, and so on; each passage once."""
    found: dict[int, Found] = {}
    for rank in range(max(map(len, lists), default=0)):
        for each in lists:
            if rank < len(each):
                found.setdefault(each[rank].passage.chunk.id, each[rank])
    return list(found.values())


def held(
    parts: Parts, found: Sequence[Found], read: Read
) -> Generator[Step, None, tuple[dict[str, tuple[int, ...]], frozenset[int]]]:
    """The parts that the passages hold with the numbers of those that do, from 1; the likeliest.

    A part's own passages are read first. What the documents lack is told where they hold some.
    """
    given: dict[str, tuple[int, ...]] = {}
    best: dict[int, float] = {}
    for number, part in enumerate(parts, start=1):
        order = sorted(range(len(found)), key=lambda at, part=part: found[at].asked != part)  # type: ignore[misc]
        places = [at + 1 for at in order]
        steps = read(part, [found[at].passage for at in order])
        if holding := (yield from numbered(steps, number, places, best)):
            given[part] = tuple(places[at - 1] for at in holding)
    yield from _lacking(parts, tuple(given))
    return given, likeliest(best)


def likeliest(best: Mapping[int, float]) -> frozenset[int]:
    """Of passages with the best grade that each has for a part, those to read for the whole."""
    return frozenset(sorted(best, key=lambda number: -best[number])[:MOST_LIKELY])


def grades(
    parts: Parts,
    found: Sequence[Found],
    grade: Grade,
    least: float,
    in_time: Callable[[], bool] = lambda: True,
) -> Generator[Step, None, Grades]:
    """The grades of the passages, as many as there is time for, but of one at least.

    Each is graded for the part that it was found for; then the others are, for the parts of
    which none has come to `least`: a passage may hold two.
    """
    given: dict[str, dict[int, float]] = {part: {} for part in parts}

    def left() -> Iterator[tuple[int, str]]:
        yield from ((at, each.asked) for at, each in enumerate(found, 1) if each.asked in given)
        for part, own in given.items():
            for at in range(1, len(found) + 1):
                if at not in own and max(own.values(), default=0.0) < least:
                    yield at, part

    rest: set[tuple[int, str]] = set()
    for at, part in left():
        if rest or (any(given.values()) and not in_time()):
            rest.add((at, part))
            continue
        given[part][at] = yield from numbered(grade(at, part), parts.index(part) + 1)
    answered = [part for part in parts if max(given[part].values(), default=0.0) >= least]
    if not rest:
        yield from _lacking(parts, answered)
    best: dict[int, float] = {}
    for own in given.values():
        best |= {at: max(value, best.get(at, 0.0)) for at, value in own.items()}
    return Grades(tuple(answered), best, len(rest))


def to_answer(question: str, parts: Parts, answered: Parts) -> str:
    """What of a question an answer is written to: all of it, or the parts that are held."""
    return question if len(answered) == len(parts) else " ".join(answered)


def naming(task: str, question: str, answered: Parts, language: PromptLanguage) -> str:
    """A task to answer, with the parts that the answer is to have.

    Not those of a comparison: a small model answers each of them with "A is older".
    """
    if len(answered) < 2 or compares(question):
        return task
    listed = "\n".join(f"{number}. {part}" for number, part in enumerate(answered, start=1))
    return f"{task}\n{render('answer_parts', language, parts=listed)}"


def asked_in(sentence: str, question: str, answered: Parts) -> str:
    """What a sentence of an answer is to answer: its part, for "2. 17 pounds", or the question."""
    number = re.match(r"\s*(\d)(?:\.(?!\d)|[、）)])", sentence)
    if number and len(answered) > 1 and 1 <= int(number[1]) <= len(answered):
        return answered[int(number[1]) - 1]
    return question


def resting_on(
    attributor: Attributor, answered: Mapping[str, tuple[int, ...]]
) -> tuple[Citation, ...]:
    """For each part that is held, the sentence that holds it: what "A is older" rests on."""
    cited = {
        attributor.cite(attributor.closest(numbers, part), part)
        for part, numbers in answered.items()
    }
    return tuple(sorted(cited, key=lambda one: (one.marker, one.quote)))


def missing(parts: Parts, answered: Collection[str]) -> Parts:
    """The parts that the documents lack, of a question that they answer in part."""
    return tuple(part for part in parts if answered and part not in answered)


def lacking(missing: Parts, language: PromptLanguage) -> Iterator[str]:
    """A sentence for each part that is missing."""
    for part in missing:
        yield f"\n\n{render('missing_part', language, part=part)}"


def _lacking(parts: Parts, answered: Collection[str]) -> Iterator[Step]:
    if lacks := missing(parts, answered):
        yield Step("parts", {"missing": lacks}, None, 0.0)


T = TypeVar("T")


def numbered(
    steps: Generator[Step, None, T],
    part: int,
    places: Sequence[int] = (),
    best: dict[int, float] | None = None,
) -> Generator[Step, None, T]:
    """The steps of a part, with its number; `places` are the numbers of passages otherwise.

    `best` is told the grades of passages.
    """
    while True:
        try:
            step = next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        values: dict[str, Plain] = {**step.values, "part": part}
        if places and step.kind == "relevance":
            place = values["passage"] = places[int(str(values["passage"])) - 1]
            if best is not None and step.score is not None:
                best[place] = max(step.score, best.get(place, 0.0))
        yield replace(step, values=values)
