"""Questions whose one fact leads to the other: where was whoever built the bridge born.

The description in the question is asked for first, over the passages that were found, and its
answer put in the place of the description; that question is searched and judged for itself. Both
passages are cited. `text.bridges` takes the questions apart.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import NamedTuple

from localrag.documents.chunking import passage_text
from localrag.prompts import PromptLanguage
from localrag.rag.base import Toolkit
from localrag.rag.citations import without_markers
from localrag.rag.parts import numbered
from localrag.rag.reading import PassageReader, passage_of
from localrag.rag.refusals import refuses
from localrag.text.bridges import bridge_of, name_in
from localrag.text.normalize import fold
from localrag.text.questions import Parts
from localrag.types import ScoredChunk, Step

LONGEST_ANSWER = 40
"""Tokens that are written to find a name."""


class Followed(NamedTuple):
    """Both questions, and those that are held with the numbers of the passages that hold them."""

    asked: Parts
    answered: dict[str, tuple[int, ...]]
    chunks: list[ScoredChunk]
    """The passages that were given, and behind them what was found for the second question."""


def followed(
    question: str,
    chunks: list[ScoredChunk],
    language: PromptLanguage,
    tools: Toolkit,
    reader: PassageReader,
) -> Generator[Step, None, Followed | None]:
    """What answers a question by way of another, or at least that other.

    None where it describes nothing that is to be found first, where that is not found, and where
    one passage is enough for the whole.
    """
    bridge = bridge_of(question)
    if bridge is None or reader.reads_together(question):
        return None
    first = yield from numbered(reader.read(bridge.inner, chunks, language), 1)
    if first is None or len(first.numbers) != 1:
        return None
    (number,) = first.numbers
    if reader.is_enough((yield from reader.grade(question, chunks, language, number))):
        return None
    started = time.perf_counter()
    few = min(LONGEST_ANSWER, tools.generation.max_tokens)
    options = replace(tools.generation, keep=first.keep, max_tokens=few)
    said = without_markers("".join(tools.llm.stream(first.messages, options)))
    name = "" if refuses(said) else name_in(said, bridge)
    if fold(name) not in fold(passage_text(chunks[number - 1].chunk)):
        name = ""
    told = {"asked": bridge.inner, "name": name}
    yield Step("first asked", told, None, time.perf_counter() - started)
    if not name:
        return None
    outer = bridge.outer(name)
    found = tools.fitting((yield from tools.find(outer)), tools.room(question), passage_of)
    every, places = _together(chunks, found)
    second = yield from numbered(reader.read(outer, found, language), 2, places)
    answered: dict[str, tuple[int, ...]] = {bridge.inner: (number,)}
    if second is None:
        for other in range(1, len(chunks) + 1):
            if other == number:
                continue
            if reader.is_enough((yield from reader.grade(question, chunks, language, other))):
                return None
        yield Step("parts", {"missing": (outer,)}, None, 0.0)
    else:
        answered[outer] = tuple(places[at - 1] for at in second.numbers)
    return Followed((bridge.inner, outer), answered, every)


def _together(
    chunks: list[ScoredChunk], found: Sequence[ScoredChunk]
) -> tuple[list[ScoredChunk], list[int]]:
    """All passages, each once, and the numbers that those found have among them."""
    numbers = {each.chunk.id: number for number, each in enumerate(chunks, start=1)}
    new = [each for each in found if each.chunk.id not in numbers]
    numbers |= {each.chunk.id: len(chunks) + at for at, each in enumerate(new, start=1)}
    return [*chunks, *new], [numbers[each.chunk.id] for each in found]
