"""Drafted questions, and the checks that a draft must pass."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise

import pytest
from scripted_llm import ScriptedLLM

from localrag.evaluation.dataset import Context, read_dataset
from localrag.evaluation.judging.drafting import Draft, draft, spread
from localrag.evaluation.judging.judge import Judge
from localrag.models.llms.choices import LogitChooser

MILL = Context(
    "The Thorn mill was built in 1820. It has two floors and ground rye for the monastery. " * 2,
    "mill.pdf",
    3,
)
LAKE = Context(
    "白鹤滩湖位于县城以北，每年冬天有数千只天鹅在此越冬，湖的北岸设有观鸟站。" * 3, "lake.md", 1
)
YES = {"Yes": 0.9, "No": 0.1, "是": 0.9, "否": 0.1}
NO = {"Yes": 0.1, "No": 0.9, "是": 0.1, "否": 0.9}


def reply(question: str, answer: str = "") -> str:
    value = {"question": question} | ({"answer": answer} if answer else {})
    return json.dumps(value, ensure_ascii=False)


def drafts(
    model: ScriptedLLM, passages: Sequence[Context], answerable: int, unanswerable: int = 0
) -> list[Draft]:
    return list(
        draft(
            passages,
            model,
            Judge(model, LogitChooser(model), reasons=False),
            lambda question: ["found one", "found two"],
            answerable=answerable,
            unanswerable=unanswerable,
        )
    )


def test_a_draft_keeps_its_page_and_can_be_evaluated(tmp_path) -> None:  # type: ignore[no-untyped-def]
    good = reply("When was the Thorn mill built?", "The Thorn mill was built in 1820.")
    zh = reply("白鹤滩湖的观鸟站在哪里？", "观鸟站在湖的北岸。")
    items = drafts(ScriptedLLM([good, zh], [YES, YES]), [MILL, LAKE], 2)
    assert [(item.language, item.answerable, item.passage.first_page) for item in items] == [
        ("en", True, 3),
        ("zh", True, 1),
    ]
    path = tmp_path / "set.jsonl"
    path.write_text("\n".join(json.dumps(item.row()) for item in items), "utf-8")
    samples = read_dataset(path)
    assert samples[0].reference == "The Thorn mill was built in 1820."
    assert (samples[0].source, samples[0].page, samples[0].answerable) == ("mill.pdf", 3, True)


@pytest.mark.parametrize(
    ("text", "score"),
    [
        (reply("When was the mill built?", "The king of Norway signed treaties."), YES),
        (reply("What does the passage say?", "The Thorn mill was built in 1820."), YES),
        (reply("Tell me of the mill.", "The Thorn mill was built in 1820."), YES),
        (reply("When was it?", "The documents do not contain the answer."), YES),
        (reply("When was the Thorn mill built?", "The Thorn mill was built in 1820."), NO),
        ('{"question": "When', YES),
    ],
    ids=["not in passage", "speaks of the text", "no question", "refusal", "not found", "cut off"],
)
def test_a_bad_draft_is_dropped(text: str, score: dict[str, float]) -> None:
    assert drafts(ScriptedLLM([text], [score]), [MILL], 1) == []


def test_an_unanswerable_question_must_be_found_nowhere() -> None:
    question = reply("Who was the last miller of the Thorn mill?")
    (item,) = drafts(ScriptedLLM([question], [NO, NO, NO]), [MILL], 0, 1)
    assert not item.answerable
    assert item.row()["has_answer"] is False
    assert item.answer == "The documents do not contain the answer to this question."
    assert drafts(ScriptedLLM([question], [NO, NO, YES]), [MILL], 0, 1) == []
    assert drafts(ScriptedLLM([question], [YES]), [MILL], 0, 1) == []


def test_a_question_about_the_prompts_example_is_dropped() -> None:
    copy = reply("石桥磨坊的建造成本是多少？")
    assert drafts(ScriptedLLM([copy], [NO] * 3), [LAKE], 0, 1) == []
    copy = reply("When was the Thorn Mill built?", "每年冬天")
    assert drafts(ScriptedLLM([copy], [YES]), [LAKE], 1) == []


def test_what_an_unanswerable_question_asks_for_changes_from_passage_to_passage() -> None:
    model = ScriptedLLM([reply(f"Who was miller {n} of the mill?") for n in (1, 2)], [NO] * 6)
    assert len(drafts(model, [MILL, MILL], 0, 2)) == 2
    first, second = (messages[-1].content for messages, _ in model.history)
    assert MILL.text in first
    assert first != second


def test_the_same_question_is_kept_once() -> None:
    good = reply("When was the Thorn mill built?", "The Thorn mill was built in 1820.")
    model = ScriptedLLM([good, good], [YES, YES])
    assert len(drafts(model, [MILL, MILL], 2)) == 1


def test_passages_too_short_or_long_are_not_asked_about() -> None:
    passages = [Context("Short.", "a", 1, 1), Context("x " * 3000, "b", 1, 1)]
    assert drafts(ScriptedLLM(), passages, 2) == []


def test_every_beginning_is_spread_over_the_documents() -> None:
    passages = [Context(str(number), "a", number, number) for number in range(100)]
    first = sorted(passage.first_page for passage in spread(passages)[:10])
    assert len(set(first)) == 10
    assert max(b - a for a, b in pairwise(first)) <= 18
    assert sorted(passage.first_page for passage in spread(passages)) == list(range(100))
