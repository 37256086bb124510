"""Grades from probabilities, and from what a model writes where there are none."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from scripted_llm import ScriptedLLM

from localrag.config.settings import Settings
from localrag.errors import BackendError
from localrag.languages import LANGUAGES
from localrag.models.llms.choices import ATTEMPTS, LogitChooser, WrittenChooser, choice_in
from localrag.prompts import REQUEST_KINDS, SUPPORT, YES_NO
from localrag.rag.grading import (
    UNREAD_UTILITY,
    UTILITIES,
    WRITTEN_PARTIAL_SUPPORT,
    Grade,
    Grader,
    Reading,
    as_read,
)
from localrag.types import Chunk, ScoredChunk


def passage(text: str, *, score: float = 0.7, heading: str = "") -> ScoredChunk:
    return ScoredChunk(Chunk(1, "d", 1, text, heading, 1, 1, 0, len(text)), score, "a.pdf")


ENGLISH = Reading("en", (passage("The lamp is lit at dusk."),))
CHINESE = Reading("zh", (passage("灯在黄昏时点亮。"),))


def by_text(*replies: str) -> tuple[Grader, ScriptedLLM]:
    """A model that gives each reply, and gives it again where it is asked again."""
    llm = ScriptedLLM([reply for reply in replies for _ in range(ATTEMPTS)])
    return Grader(WrittenChooser(llm)), llm


# -- from probabilities -------------------------------------------------------------


def test_grades_are_expected_values() -> None:
    llm = ScriptedLLM(
        [],
        [
            {"information": 3, "chat": 1},
            {"Yes": 0.8, "No": 0.2},
            {"Fully supported": 0.5, "Partially supported": 0.3, "No support": 0.2},
            {"4": 0.5, "5": 0.5},
        ],
    )
    grader = Grader(LogitChooser(llm))
    assert grader.needs_documents("Who?", "en") == Grade(0.75)
    assert grader.relevance("When?", ENGLISH).value == pytest.approx(0.8)
    support = grader.support("When?", "At dusk.", ENGLISH).value
    odds = 0.6 / 0.4 * math.exp(LANGUAGES["en"].support_shift)
    assert support == pytest.approx(odds / (1 + odds))
    assert grader.utility("When?", "At dusk.", ENGLISH).value == pytest.approx(4.5)
    assert [choices for _, choices in llm.scored] == [
        REQUEST_KINDS["en"],
        YES_NO["en"],
        SUPPORT["en"],
        UTILITIES,
    ]


def test_all_questions_about_a_passage_begin_with_it_and_keep_it() -> None:
    llm = ScriptedLLM([], [{"是": 1}, {"完全支持": 1}, {"5": 1}])
    grader = Grader(LogitChooser(llm))
    grader.relevance("何时点灯？", CHINESE)
    grader.support("何时点灯？", "黄昏。", CHINESE)
    grader.utility("何时点灯？", "黄昏。", CHINESE)
    firsts = {messages[0] for messages, _ in llm.scored}
    assert len(firsts) == 1
    assert "灯在黄昏时点亮。" in firsts.pop().content
    assert llm.kept == [1, 1, 1]


def test_the_rules_and_examples_of_the_decision_are_kept() -> None:
    for language in ("en", "zh"):
        llm = ScriptedLLM([], [dict.fromkeys(REQUEST_KINDS[language], 1.0)])
        Grader(LogitChooser(llm)).needs_documents(" Who? ", language)
        ((messages, _),) = llm.scored
        assert messages[-1].content == "Who?"
        assert llm.kept == [len(messages) - 1]
        kinds = [message.content for message in messages if message.role == "assistant"]
        assert set(kinds) <= set(REQUEST_KINDS[language])
        assert [m.role for m in messages[1:-1]] == ["user", "assistant"] * len(kinds)


def test_further_passages_follow_with_the_task() -> None:
    reading_of_two = Reading("en", (passage("First.", heading="A > B"), passage("Second {x}.")))
    system, user = reading_of_two.messages("What now {y}?")
    assert "First." in system.content
    assert "B" in system.content
    assert "Second" not in system.content
    assert user.content.index("Second {x}.") < user.content.index("What now {y}?")


def test_braces_in_questions_and_passages_mean_nothing() -> None:
    llm = ScriptedLLM([], [{"Yes": 1}])
    reading = Reading("en", (passage("A {question} {0} {passage}."),))
    Grader(LogitChooser(llm)).relevance("What is {this}?", reading)
    ((messages, _),) = llm.scored
    assert "A {question} {0} {passage}." in messages[0].content
    assert "What is {this}?" in messages[1].content


# -- from text ----------------------------------------------------------------------


def test_the_choice_is_held_to_a_schema() -> None:
    grader, llm = by_text('{"answer": "Yes"}')
    assert grader.relevance("When?", ENGLISH) == Grade(1.0)
    ((_, options),) = llm.history
    assert options.schema is not None
    assert options.schema["properties"]["answer"]["enum"] == ["Yes", "No"]  # type: ignore[index]
    assert options.temperature == 0.0
    assert options.keep == 1


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ('{"answer": "Yes"}', 1.0),
        ('{"answer":"No"}', 0.0),
        ('```json\n{"answer": "No"}\n```', 0.0),
        ('{"answer": "Yes', 1.0),
        ('{answer: "no"', 0.0),
        ("Yes, it can.", 1.0),
        ("no", 0.0),
        ("**No**", 0.0),
        ("Answer: Yes", 1.0),
    ],
)
def test_relevance_in_english(reply: str, value: float) -> None:
    grader, _ = by_text(reply)
    assert grader.relevance("When?", ENGLISH) == Grade(value)


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ('{"answer": "是"}', 1.0),
        ('{"answer":"否"}', 0.0),
        ("是。", 1.0),
        ("回答：否。", 0.0),
        ("能否得到确切答案：是", 1.0),
        ("是否能得到答案？否", 0.0),
    ],
)
def test_relevance_in_chinese(reply: str, value: float) -> None:
    grader, _ = by_text(reply)
    assert grader.relevance("何时点灯？", CHINESE) == Grade(value)


@pytest.mark.parametrize(
    "reply", ["", "不是", "并非是", "Perhaps", "Nothing known", '{"answer": null}']
)
def test_an_unreadable_relevance_is_the_similarity_and_says_so(reply: str) -> None:
    grader, _ = by_text(reply, reply)
    for reading in (ENGLISH, CHINESE):
        grade = grader.relevance("?", reading)
        assert grade.value == 0.7
        assert grade.unread


@pytest.mark.parametrize(("score", "value"), [(-3.0, 0.0), (17.0, 1.0)])
def test_a_similarity_on_another_scale_stays_a_probability(score: float, value: float) -> None:
    grader, _ = by_text("?")
    assert grader.relevance("?", Reading("en", (passage("x", score=score),))).value == value


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ('{"answer": "Fully supported"}', 1.0),
        ("partially supported", WRITTEN_PARTIAL_SUPPORT),
        ("The answer is only Partially supported.", WRITTEN_PARTIAL_SUPPORT),
        ('{"answer": "No support"}', 0.0),
        ('{"answer": "Fully supp', None),
        ("Not fully supported", None),
        ("Unsupported", None),
        ("", None),
    ],
)
def test_support_in_english(reply: str, value: float | None) -> None:
    grader, _ = by_text(reply)
    grade = grader.support("When?", "At dusk.", ENGLISH)
    assert grade.value == pytest.approx(value or 0.0)
    assert grade.unread is (value is None)


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ('{"answer": "完全支持"}', 1.0),
        ("部分支持。", WRITTEN_PARTIAL_SUPPORT),
        ("资料不支持这个回答", 0.0),
        ("不完全支持", None),
        ("不能完全支持", None),
        ("没有完全支持", None),
        ("支持", None),
    ],
)
def test_support_in_chinese(reply: str, value: float | None) -> None:
    grader, _ = by_text(reply)
    grade = grader.support("何时点灯？", "黄昏。", CHINESE)
    assert grade.value == pytest.approx(value or 0.0)
    assert grade.unread is (value is None)


def test_a_written_partial_support_lies_between_the_thresholds() -> None:
    settings = Settings().self_rag
    assert settings.min_partial_support < WRITTEN_PARTIAL_SUPPORT < settings.min_support


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ('{"answer": "4"}', 4.0),
        ('{"answer": 2}', 2.0),
        ("5", 5.0),
        ("4/5", 4.0),
        ("4分", 4.0),
        ("评分：3。", 3.0),
        ("I give it a 1.", 1.0),
        ("10", None),
        ("0", None),
        ("very useful", None),
    ],
)
def test_utility(reply: str, value: float | None) -> None:
    grader, _ = by_text(reply)
    grade = grader.utility("When?", "At dusk.", ENGLISH)
    assert grade.value == (UNREAD_UTILITY if value is None else value)
    assert grade.unread is (value is None)


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ('{"answer": "information"}', 1.0),
        ("writing", 0.0),
        ("Class: imagination (not information)", 0.0),
        ("misinformation", None),
        ("", None),
    ],
)
def test_an_unreadable_decision_searches_the_documents(reply: str, value: float | None) -> None:
    grader, _ = by_text(reply)
    grade = grader.needs_documents("Who?", "en")
    assert grade.value == (1.0 if value is None else value)
    assert grade.unread is (value is None)


def test_the_decision_in_chinese() -> None:
    replies = ["信息", '{"answer": "写作"}', *["我不知道"] * ATTEMPTS]
    grader = Grader(WrittenChooser(ScriptedLLM(replies)))
    assert grader.needs_documents("谁？", "zh") == Grade(1.0)
    assert grader.needs_documents("写首诗", "zh") == Grade(0.0)
    assert grader.needs_documents("嗯", "zh").unread


def test_errors_of_the_model_are_not_grades() -> None:
    grader = Grader(WrittenChooser(ScriptedLLM([BackendError("gone")])))
    with pytest.raises(BackendError, match="gone"):
        grader.relevance("?", ENGLISH)


@pytest.mark.parametrize(
    "reply",
    [
        "[" * 100_000,
        '{"answer":' * 50_000,
        "\x00\ud800",
        json.dumps({"answer": ["Yes"]}),
        "1e999999",
        "NaN",
        "9" * 5000,
    ],
)
def test_hostile_replies_are_read_or_not(reply: str) -> None:
    assert choice_in(reply, YES_NO["en"]) in (0, None)


def test_of_choices_that_begin_at_one_place_the_longest_counts() -> None:
    assert choice_in("not at all", ("not", "not at all")) == 1


def test_a_passage_is_read_with_its_title_and_the_name_of_its_file_alone() -> None:
    text = "4. Liability. At most 400,000."
    chunk = Chunk(1, "d", 1, text, "Terms", 1, 1, 0, len(text), title="Lease, Ottway")
    hit = ScoredChunk(chunk, 1.0, "/home/ada/secret folder/lease-7.docx")
    assert as_read(hit) == f"lease-7.docx\nLease, Ottway > Terms\n{text}"
    other = replace(hit, chunk=replace(chunk, text="共一百八十万元。"))
    assert as_read(other, "en").endswith("共一百八十万 (1,800,000)元。")
    assert as_read(other, "zh").endswith("共一百八十万元。")
