"""Questions that compare: what is compared is asked for one after the other, then set side by side.

A small model reads one figure well and sets two against each other badly, so each is read, checked
and cited as an answer of its own, and a difference is computed. What the model concludes from the
replies stands before them; a figure that stands in none of them discards it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import TypeVar

import msgspec

from localrag.languages import LanguageCode
from localrag.library.records import DocumentRecord
from localrag.models.llms.base import LLM, Options
from localrag.models.llms.choices import Chooser, choose_by_examples
from localrag.models.llms.structured import list_schema, object_schema, proposal
from localrag.prompts import render, with_examples
from localrag.rag.base import timed
from localrag.rag.parts import opening
from localrag.rag.refusals import refuses
from localrag.tables.documents import LONGEST_COLUMN
from localrag.tables.records import CellSteps, ColumnKind, Reply, Value
from localrag.tables.sheets import short_name
from localrag.tables.values import in_days, separated, value_in
from localrag.text.figures import figures_not_in
from localrag.text.instructions import may_steer
from localrag.text.language import answer_language
from localrag.text.normalize import fold
from localrag.types import Message, Step

MOST = 3
"""Things that are compared, where the question names them."""
MOST_DOCUMENTS = 4
"""Documents that are asked, where it does not."""

PERCENT = ("%", "‰")
_TIMES = ("minute", "hour", "week", "month", "year")
"""Units of which a difference is told by the sides alone."""
_QUESTION_TOKENS = 160
_ANSWER_TOKENS = 80

_DIRECTIONS = ("LARGER", "SMALLER", "EARLIER", "LATER", "OTHER")
_WORD = re.compile(r"[a-z0-9]+|[\u4e00-\u9fff]{2}")
"""A word of a name, in Chinese the first of its pairs of characters: "omega", "绿化"."""

T = TypeVar("T", float, str)

Ask = Callable[[str, str], Reply]
"""A question, and the path of the document that is to answer it; "" for the whole library."""

_SCHEMA = object_schema(questions=list_schema({"type": "string"}, 1, MOST))


class _SideQuestions(msgspec.Struct):
    questions: list[str] = []


@dataclass(frozen=True, slots=True)
class ComparedSide:
    """One of the things compared: what was asked for it, or its document, and the reply."""

    name: str
    reply: Reply

    @property
    def text(self) -> str:
        """The reply behind its name."""
        return f"{opening(self.name)}{self.reply.text}"

    def placed(self, place: str) -> str:
        """The same with the word on its value behind it; "" for none."""
        gap = "" if not place or place.startswith("（") else " "
        return f"{self.text}{gap}{place}"


@dataclass(frozen=True, slots=True)
class Contrast:
    """The sides, and what follows from them: "" where that is not sure.

    `order` says of each of two sides which it is, in words: "the larger"; empty where there is
    none.
    """

    sides: tuple[ComparedSide, ...]
    order: tuple[str, ...]
    conclusion: str
    difference: str
    """Of two numbers, amounts or dates; "" where the replies are others."""


def proposed(question: str, llm: LLM) -> tuple[str, ...]:
    """The question for each thing that is compared, as the model tells them.

    One for all of them where the question does not name them; none where the reply is no proposal.
    Raises `GenerationError` from the model.
    """
    language = answer_language(question)
    messages = with_examples("comparison", language, question)
    sides = proposal(llm, messages, _SideQuestions, _SCHEMA, _QUESTION_TOKENS)
    questions = dict.fromkeys(" ".join(text.split()) for text in sides.questions)
    return tuple(text for text in questions if text and len(text) < LONGEST_COLUMN)


def compared(
    question: str,
    records: Sequence[DocumentRecord],
    hits: Sequence[str],
    ask: Ask,
    name_of: Callable[[str], str],
    chooser: Chooser,
    llm: LLM,
    *,
    strict: bool,
) -> Generator[Step, None, Contrast | None]:
    """What a question compares; None where fewer than two things are stated, or one is missing.

    `hits` are paths of files that a search brings for the question, the best first; steps have
    what these are called. Where it is `strict` the model concludes nothing, as nobody checks that,
    nor does one that guesses where the replies have no order: of three such conclusions of the
    starter to questions of others none was right (`benchmarks/log/2026-11.md`, 2026-11-29).
    Raises `GenerationError` from the model.
    """
    questions, seconds = timed(partial(proposed, question, llm))
    yield Step("columns", {"questions": questions}, None, seconds)
    if not questions:
        return None
    entries = [(text, "", text) for text in questions]
    if len(questions) == 1:
        titles = {source: record.title for record in records for source in record.sources}
        sources = [source for source in dict.fromkeys(hits) if source in titles]
        entries = [
            (titles[source] or short_name(source), source, questions[0])
            for source in sources[:MOST_DOCUMENTS]
        ]
    sides, texts, steps = list[ComparedSide](), list[str](), CellSteps()
    for number, (name, source, text) in enumerate(entries, 1):
        began = time.perf_counter()
        reply = ask(text, source)
        stated = reply.stated and bool(reply.citations)
        if stated:
            sides.append(ComparedSide(name, reply))
            texts.append(text)
        yield steps.step(
            name_of(source) if source else text,
            "found" if stated else "not stated",
            len(entries) - number,
            reply.confidence,
            time.perf_counter() - began,
        )
        if not (stated or source):
            return None
    if len(sides) < 2:
        return None
    language = answer_language(question)
    values = [value_of(side.reply.text, text) for side, text in zip(sides, texts, strict=True)]
    order = ordered(values)
    order_texts = tuple(render(f"comparison_{place}", language) for place in order)
    difference = difference_of(values, language) if order else ""
    conclusion, seconds = "", 0.0
    # A sentence of a document that could steer the model stands in no prompt that nobody guards.
    guessed = chooser.is_probed and not order
    if not (strict or guessed or any(may_steer(side.text) for side in sides)):
        conclude = partial(_concluded, question, sides, order_texts, difference, language, llm)
        conclusion, seconds = timed(conclude)
    if conclusion and order and not _agrees(conclusion, question, sides, order, chooser):
        conclusion = ""
    yield Step("write", {"passages": len(sides)}, None, seconds)
    return Contrast(tuple(sides), order_texts, conclusion, difference)


def _concluded(
    question: str,
    sides: Sequence[ComparedSide],
    order: Sequence[str],
    difference: str,
    language: LanguageCode,
    llm: LLM,
) -> str:
    """One sentence from the replies; "" where it says a figure that none of them does.

    Which of two is the larger the model is told: it gets "209,500 or 164,000" wrong.
    """
    facts = [side.text for side in sides]
    places = order or [""] * len(sides)
    marked = [side.placed(place) for side, place in zip(sides, places, strict=True)]
    listed = "\n".join(f"- {fact}" for fact in [*marked, *filter(None, [difference])])
    prompt = render("comparison_answer", language, facts=listed, question=question.strip())
    reply = llm.complete([Message("user", prompt)], Options(max_tokens=_ANSWER_TOKENS))
    text = " ".join(reply.text.split())
    if not text or refuses(text) or figures_not_in(text, [*facts, difference, question]):
        return ""
    return text


def _agrees(
    conclusion: str,
    question: str,
    sides: Sequence[ComparedSide],
    order: Sequence[str],
    chooser: Chooser,
) -> bool:
    """Whether a conclusion names first the side that has what is asked for, as far as that is told.

    Even where it is told which is the larger, a small model names the other now and then. What a
    question asks for it knows better.
    """
    language = answer_language(question)
    choice = choose_by_examples("direction", language, question, _DIRECTIONS, chooser)
    if not choice.read:
        return True
    direction = _DIRECTIONS[max(range(len(_DIRECTIONS)), key=lambda place: choice[place])].lower()
    if direction == "other":
        return True
    if order[0] == "equal":  # neither is
        return False
    if direction not in order:  # of two dates neither is the larger
        return True
    first = _named_first(conclusion, sides)
    return first is None or order[first] == direction


def _named_first(text: str, sides: Sequence[ComparedSide]) -> int | None:
    """Which of two sides a text names first, by the words that only one has; None for neither."""
    words = [set(_WORD.findall(fold(side.name))) for side in sides]
    folded = fold(text)
    places = [
        min((folded.find(word) for word in own - other if word in folded), default=len(folded))
        for own, other in ((words[0], words[1]), (words[1], words[0]))
    ]
    return None if places[0] == places[1] else int(places[1] < places[0])


def value_of(reply: str, question: str) -> Value | None:
    """The amount, number or date that a reply states; None for another, or several."""
    kinds: tuple[ColumnKind, ...] = ("money", "number", "date")
    values = (value_in(reply, kind, question) for kind in kinds)
    return next((value for value in values if value is not None), None)


def ordered(values: Sequence[Value | None]) -> list[str]:
    """Which of two values is the larger and which the smaller, the later and the earlier.

    Both "equal" where they are; nothing for values that are not of one kind and unit, or more than
    two. A number without a unit has that of the other, as cells of a sheet lack it.
    """
    if len(values) != 2:
        return []
    first, second = values
    if first is None or second is None or (first.kind == "date") != (second.kind == "date"):
        return []
    if first.kind == "date":  # 2017-11 is before 2021, and says nothing beside 2017
        length = min(len(first.text), len(second.text))
        return _places(first.text[:length], second.text[:length], "later", "earlier")
    if len({first.unit, second.unit} - {""}) > 1:
        sizes = [in_days(first), in_days(second)]
    else:
        sizes = [first.number, second.number]
    if sizes[0] is None or sizes[1] is None:
        return []
    return _places(sizes[0], sizes[1], "larger", "smaller")


def _places(first: T, second: T, more: str, less: str) -> list[str]:
    if first == second:
        return ["equal", "equal"]
    return [more, less] if first > second else [less, more]


def difference_of(values: Sequence[Value | None], language: LanguageCode) -> str:
    """In words how far two `ordered` values are apart; "" for lengths of time but days."""
    first, second = values
    if first is None or second is None:
        return ""
    if first.kind == "date":
        days = [_day(value.text) for value in (first, second)]
        if days[0] is None or days[1] is None or days[0] == days[1]:
            return ""
        apart = abs((days[0] - days[1]).days)
        return render("comparison_days", language, days=str(apart))
    unit = "".join({first.unit, second.unit} - {""})
    distance = separated(round(abs((first.number or 0.0) - (second.number or 0.0)), 6))
    if distance == "0":
        return ""
    if unit == "day":
        return render("comparison_days", language, days=distance)
    if (first.unit != second.unit and "" not in (first.unit, second.unit)) or unit in _TIMES:
        return ""
    value = f"{distance}{unit if unit in PERCENT else f' {unit}'}".rstrip()
    return render("comparison_difference", language, value=value)


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:  # a month or a year
        return None
