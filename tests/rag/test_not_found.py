"""What is said where the documents do not answer, over a library and a model that says no."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from answers import retold, written
from library.library_fixtures import EMBEDDER, add, document, open_library
from numpy.typing import NDArray
from scripted_llm import ScriptedLLM

from localrag import factory
from localrag.config.settings import Settings
from localrag.engine import AskOptions, Engine
from localrag.library.catalogue.filters import Filter
from localrag.models.llms.base import Options
from localrag.prompts import UNSTATED
from localrag.rag import statements
from localrag.rag.not_found import with_not_found
from localrag.rag.question_words import Text, question_words
from localrag.rag.wordings import SearchTools
from localrag.types import Answer, Message, NotFound, Step, Suggestion

HOUSE = (
    "The glass house was opened by Doctor Varga in 1907. It holds two hundred orchids. "
    "Tickets are sold at the southern gate until five."
)
LI = "李思摩是突厥人，被赐姓李氏。他以右卫大将军跟随太宗征讨高句丽。"
LAKE = "贝加尔湖（Lake Baikal）是西伯利亚的湖泊。湖水最深处一千六百多米。绿茶保存期为十八个月。"
SIGNS = "Titicaca ferries leave from Puno at nine in the morning. A ticket costs twenty soles."


class Refusing(ScriptedLLM):
    """Chooses "no" and the least of all; writes what it has been told to."""

    def score_choices(
        self, messages: Sequence[Message], choices: Sequence[str], *, keep: int = 0
    ) -> NDArray[np.float64]:
        weights = np.full(len(choices), 0.01)
        last = len(choices) == 2 or choices[-1] in UNSTATED.values()
        weights[-1 if last else 0] = 1.0
        return weights / weights.sum()

    def stream(self, messages: Sequence[Message], options: Options) -> Iterator[str]:
        yield "In 1850."


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    monkeypatch.setattr(
        factory, "make_model", lambda *_: factory.Model(llm := Refusing(), llm, lambda: None)
    )
    settings = Settings()
    library = open_library(
        tmp_path / "library",
        tokenize=factory.make_tokenizer(settings),
        embedding=factory.identity_of(EMBEDDER, settings),
    )
    for name, text, language in (
        ("house.txt", HOUSE, "en"),
        ("li.txt", LI, "zh"),
        ("lake.txt", LAKE, "zh"),
        ("signs.txt", SIGNS, "en"),
    ):
        add(library, document(text, source=name), size=400, language=language)
    new_engine = Engine(library, settings, embedder=EMBEDDER)
    yield new_engine
    new_engine.close()


ONE = AskOptions(k=1)


def ask(engine: Engine, question: str, options: AskOptions = ONE) -> Answer:
    *pieces, answer = engine.stream(question, options)
    assert isinstance(answer, Answer)
    assert written(pieces).strip() == answer.text
    return answer


def said(engine: Engine, question: str, options: AskOptions = ONE) -> NotFound:
    (report,) = ask(engine, question, options).not_found
    return report


MODES: list[AskOptions] = [
    AskOptions(k=1),
    AskOptions(k=1, mode="self-rag"),
    AskOptions(k=1, mode="self-rag", strict=True),
]


@pytest.mark.parametrize("options", MODES)
def test_every_way_to_answer_says_how_near_the_documents_come(
    engine: Engine, options: AskOptions
) -> None:
    report = said(engine, "In which year did Doctor Varga open the pharmacy?", options)
    assert report.question == "In which year did Doctor Varga open the pharmacy?"
    assert report.looked_for == ("Doctor", "Varga", "open", "pharmacy")
    assert report.closest is not None
    assert report.closest.quote == "The glass house was opened by Doctor Varga in 1907."
    assert (report.closest.source, report.closest.page) == ("house.txt", 1)
    assert report.missing == report.absent == ("pharmacy",)


def test_a_year_that_is_not_there(engine: Engine) -> None:
    report = said(engine, "How many orchids did the glass house hold in 1999?")
    assert report.missing == report.absent == ("1999",)
    report = said(engine, "李思摩在1999年跟随谁征讨高句丽？")
    assert report.absent == ("1999",)


def test_a_number_must_stand_in_the_sentence_itself(engine: Engine) -> None:
    report = said(engine, "Were two hundred orchids sold in 1907?")
    assert report.closest is not None
    assert report.closest.quote == "It holds two hundred orchids."
    assert report.missing == ("1907",)
    assert report.absent == (), "the passage has it"


@pytest.mark.parametrize(
    ("question", "wrong", "right"),
    [
        ("李思魔跟随谁征讨？", "李思魔", "李思摩"),
        ("Where are Titikaka ferries?", "Titikaka", "Titicaca"),
        ("Which Doctor Vargo was it?", "Vargo", "Varga"),
    ],
)
def test_a_name_is_offered_as_the_documents_spell_it(
    engine: Engine, question: str, wrong: str, right: str
) -> None:
    report = said(engine, question)
    assert wrong in report.absent
    assert report.suggestions[0] == Suggestion(
        question.replace(wrong, right), "spelling", wrong, right
    )


@pytest.mark.parametrize("question", ["绿茶的保修期是多久？", "Which Barga was a doctor there?"])
def test_another_word_is_no_other_spelling(engine: Engine, question: str) -> None:
    """保存期 is a word of its own, and the first letter is seldom the one that is wrong."""
    kinds = {suggestion.kind for suggestion in said(engine, question).suggestions}
    assert "spelling" not in kinds


def test_a_name_in_the_other_language(engine: Engine) -> None:
    report = said(engine, "贝加尔湖的渡轮几点开船？")
    assert Suggestion("Lake Baikal的渡轮几点开船？", "translation", "贝加尔湖", "Lake Baikal") in (
        report.suggestions
    )


def test_nothing_is_said_of_words_across_languages(engine: Engine) -> None:
    condition = Filter(sources=("li.txt",))
    report = said(engine, "Where was the general born in 618?", AskOptions(k=1, filter=condition))
    assert report.closest is not None
    assert report.closest.source == "li.txt"
    assert report.missing == ("618",), "a number is the same in both"


def test_wordings_find_nothing_that_the_filter_leaves_out(engine: Engine) -> None:
    condition = Filter(sources=("house.txt",))
    report = said(engine, "Where are Titikaka ferries?", AskOptions(k=1, filter=condition))
    assert "Titikaka" in report.absent
    assert report.suggestions == ()


def test_a_wording_that_finds_nothing_is_not_offered(engine: Engine) -> None:
    answer = replace(ask(engine, "Which Doctor Vargo was it?"), not_found=())
    searched: list[str] = []

    def nothing(text: str, _: int) -> list[object]:
        searched.append(text)
        return []

    around = SearchTools(
        engine.tokenizer,
        engine._attributor,
        nothing,  # type: ignore[arg-type]
        lambda *_: [],
        lambda terms: (4, [1 for _ in terms]),
    )
    (report,) = with_not_found(answer, around).not_found
    assert report.suggestions == ()
    assert 0 < len(searched) <= 5, "a few searches at most"


def test_an_answer_has_nothing_missing(engine: Engine) -> None:
    answer = ask(engine, "Which Doctor Vargo was it?")
    around = SearchTools(
        engine.tokenizer, engine._attributor, lambda *_: [], lambda *_: [], lambda _: (0, [])
    )
    for other in (
        replace(answer, grounded=True),
        replace(answer, statements=(statements.own_sentence("out_of_time", "en"),)),
        retold(answer, "It was Doctor Varga, and nobody else."),
    ):
        assert with_not_found(replace(other, not_found=()), around).not_found == ()


def test_a_part_of_a_question_is_filled_in(engine: Engine) -> None:
    """A pipeline names what is missing; the rest is found out as for a whole question."""
    answer = retold(
        ask(engine, "When did Doctor Varga open the glass house, and the pharmacy?"),
        "In 1907 [1].",
        grounded=True,
        not_found=(NotFound("When did Doctor Varga open the pharmacy?"),),
    )
    around = SearchTools(
        engine.tokenizer,
        engine._attributor,
        engine.retrieve,
        lambda *_: [],
        engine.library.keywords.frequencies,
    )
    (part,) = with_not_found(answer, around).not_found
    assert part.question == "When did Doctor Varga open the pharmacy?"
    assert part.absent == ("pharmacy",)
    assert part.closest is not None


@pytest.mark.parametrize(
    ("steps", "probability"),
    [
        ([("answerable", {"answer": False, "calibrated": True, "probability": 0.2})], 0.2),
        (
            [
                ("relevance", {"relevant": False, "calibrated": True, "probability": 0.1}),
                ("relevance", {"relevant": False, "calibrated": True, "probability": 0.3}),
                ("write", {"passages": 0}),
            ],
            0.3,
        ),
        ([("answerable", {"answer": False, "calibrated": False})], None),
        ([("answerable", {"answer": True, "calibrated": True, "probability": 0.9})], None),
        (
            [
                ("relevance", {"relevant": True, "calibrated": True, "probability": 0.9}),
                ("write", {"passages": 1}),
            ],
            None,
        ),
    ],
)
def test_the_probability_is_told_where_it_is_the_reason(
    engine: Engine,
    steps: list[tuple[Literal["answerable", "relevance", "write"], dict[str, float]]],
    probability: float | None,
) -> None:
    answer = ask(engine, "Which Doctor Vargo was it?")
    trace = tuple(Step(kind, values, None, 0.0) for kind, values in steps)
    around = SearchTools(
        engine.tokenizer,
        engine._attributor,
        lambda *_: [],
        lambda *_: [],
        lambda terms: (4, [1 for _ in terms]),
    )
    (report,) = with_not_found(replace(answer, trace=trace, not_found=()), around).not_found
    assert report.probability == probability


@pytest.mark.parametrize("kind", ["check sentences", "support of a sentence"])
def test_an_answer_that_was_left_out_is_the_reason(
    engine: Engine, kind: Literal["check sentences", "support of a sentence"]
) -> None:
    answer = ask(engine, "Which Doctor Vargo was it?")
    assert not answer.not_found[0].written
    grading_step = Step(
        "relevance", {"relevant": True, "calibrated": True, "probability": 0.8}, 0.8, 0
    )
    trace = (grading_step, Step("write", {"passages": 1}, None, 0), Step(kind, {}, None, 0))
    around = SearchTools(
        engine.tokenizer,
        engine._attributor,
        lambda *_: [],
        lambda *_: [],
        lambda terms: (4, [1 for _ in terms]),
    )
    (report,) = with_not_found(replace(answer, trace=trace, not_found=()), around).not_found
    assert report.written
    assert report.probability is None


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ("Are cats allowed?", "Cats are not allowed."),
        ("周末可以使用会议室吗？", "周末不开放。"),
        ("Where are the rules of the house?", "Guests may smoke on the terrace of the house."),
    ],
)
def test_the_closest_is_a_sentence_however_short(
    engine: Engine, question: str, sentence: str
) -> None:
    english = (
        "House rules of the Pension Linden\n\nGuests may smoke on the terrace of the house. "
        "Cats are not allowed. Dogs are welcome and cost eight euros a night."
    )
    chinese = "会议室使用规定\n\n最多预订两小时。周末不开放。"
    add(engine.library, document(english, source="rules.txt"), size=400, language="en")
    add(engine.library, document(chinese, source="rooms.txt"), size=400, language="zh")
    report = said(engine, question)
    assert report.closest is not None
    assert report.closest.quote == sentence


def test_an_empty_library_says_nothing_but_that(engine: Engine) -> None:
    engine.library.remove(sources=["house.txt", "li.txt", "lake.txt", "signs.txt"])
    assert ask(engine, "Who?").not_found == ()


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("李思摩被册封为什么官职？", ["李思摩", "册封", "官职"]),
        ("What was the company's revenue in 2023?", ["company", "revenue", "2023"]),
        ("Did it cost 1,250.50 or 15.3%?", ["cost", "1250.50", "15.3"]),
        ("bge-m3 的维度是多少？", ["bge-m3", "维度"]),
        ("Who are you?", []),
    ],
)
def test_words_that_carry_a_question(
    question: str, words: list[str], tokenizer: Callable[[str], list[str]]
) -> None:
    assert [word.text for word in question_words(question, tokenizer)] == words


def test_words_are_met_in_whatever_form_they_stand(
    tokenizer: Callable[[str], list[str]],
) -> None:
    words = question_words("openings of bge-m3 in 1250.50, 圖書館", tokenizer)
    text = Text("It opened; BGE m3; 1,250.50. 图书馆。", tokenizer)
    assert [word.text for word in words if text.has(word)] == [
        "openings",
        "bge-m3",
        "1250.50",
        "圖書館",
    ]
    assert not any(Text("Nothing.", tokenizer).has(word) for word in words)


@pytest.fixture(scope="module")
def tokenizer() -> Callable[[str], list[str]]:
    return factory.make_tokenizer(Settings())
