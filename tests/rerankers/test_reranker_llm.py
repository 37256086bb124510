from __future__ import annotations

import json

import pytest
from rerank_passages import ENGLISH, ids, passage
from scripted_llm import ScriptedLLM

from localrag.models.llms.choices import ATTEMPTS, LogitChooser, WrittenChooser, choice_in
from localrag.rerankers.llm import GRADES, LLMReranker
from localrag.types import Note

QUESTION = "Who presented the perceptron?"


def test_the_grade_is_ten_times_the_probability_of_yes() -> None:
    model = ScriptedLLM(scores=[{"Yes": 1, "No": 3}, {"Yes": 9, "No": 1}, {"Yes": 1, "No": 1}])
    ranking = LLMReranker(model, LogitChooser(model)).rerank(QUESTION, ENGLISH[:3], 2)
    # Scores of the search: 0.9, 0.6, 0.3. A third of the grade is the share of the best of these.
    assert ids(ranking) == [2, 1]
    assert [chunk.score for chunk in ranking] == pytest.approx(
        [(2 * 9.0 + 10 * 0.6 / 0.9) / 3, (2 * 2.5 + 10) / 3]
    )
    assert not model.history, "no text was written"


def test_the_expected_grade_is_the_mean_over_the_allowed_answers() -> None:
    model = ScriptedLLM(scores=[{"0": 0.25, "10": 0.5, "6": 0.25}])
    reranker = LLMReranker(model, LogitChooser(model), grading="expected")
    ranking = reranker.rerank(QUESTION, [passage(1, "a", 0.0)], 1)
    assert ranking[0].score == pytest.approx(6.5 * 2 / 3)
    assert model.scored[0][1] == GRADES


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_passage_comes_first_and_its_prefix_is_the_same_for_every_question(
    language: str,
) -> None:
    questions = {"en": ("Who?", "When was it?"), "zh": ("是谁提出的？", "什么时候？")}[language]
    model = ScriptedLLM(scores=[{"Yes": 1, "是": 1}] * 2)
    reranker = LLMReranker(model, LogitChooser(model))
    for question in questions:
        reranker.rerank(question, [passage(7, "Text {with} braces.", heading="Head")], 1)
    first, second = (messages for messages, _ in model.scored)
    assert first[0] == second[0]
    assert "Head\nText {with} braces." in first[0].content
    assert questions[1] in second[1].content
    assert questions[1] not in second[0].content
    assert model.kept == [1, 1]


def test_without_logits_the_model_writes_a_grade_held_to_a_schema() -> None:
    model = ScriptedLLM(['{"answer": "3"}', "8", "Relevance: 10/10."])
    candidates = [passage(number, "text", 0.7) for number in (1, 2, 3)]
    ranking = LLMReranker(model, WrittenChooser(model)).rerank(QUESTION, candidates, 3)
    assert ids(ranking) == [3, 2, 1]
    assert [chunk.score for chunk in ranking] == pytest.approx([30 / 3, 26 / 3, 16 / 3])
    schema = model.history[0][1].schema
    assert schema is not None
    assert schema["required"] == ["answer"]
    assert "9-10" in model.history[0][0][1].content


def test_without_a_grade_similarity_counts_and_that_is_said() -> None:
    notes: list[Note] = []
    replies_by_passage = [["I cannot say."] * ATTEMPTS, ["7"], ["I would rate it 47."] * ATTEMPTS]
    model = ScriptedLLM([reply for replies in replies_by_passage for reply in replies])
    candidates = [passage(1, "a", 0.9), passage(2, "b", 0.1), passage(3, "c", 1.7)]
    ranking = LLMReranker(model, WrittenChooser(model)).rerank(
        QUESTION, candidates, 3, notes.append
    )
    assert ids(ranking) == [3, 1, 2]
    assert [chunk.score for chunk in ranking] == pytest.approx(
        [10.0, (2 * 9.0 + 9 / 1.7) / 3, (2 * 7.0 + 1 / 1.7) / 3]
    )
    assert notes == [Note("grades unread", {"unread": 2, "total": 3})]


@pytest.mark.parametrize(
    ("reply", "grade"),
    [
        (json.dumps({"answer": 10}), 10),
        ('{"answer": true}', None),
        ('{"answer": 11}', None),
        ("7", 7),
        (" 7分", 7),
        ("相关程度：9", 9),
        ("Score: 8/10", 8),
        ("I would say 0.", 0),
        ("2024 was long ago: 3", 3),
        ("8.5", None),
        ("-3", None),
        ("", None),
        ("ten", None),
    ],
)
def test_grades_in_replies(reply: str, grade: int | None) -> None:
    assert choice_in(reply, GRADES) == grade


def test_a_passage_longer_than_the_window_is_cut_at_its_end() -> None:
    model = ScriptedLLM(scores=[{"Yes": 1}], context_window=512)
    LLMReranker(model, LogitChooser(model)).rerank(QUESTION, [passage(1, "begin " + "x" * 9000)], 1)
    messages = model.scored[0][0]
    assert "begin" in messages[0].content
    assert model.count_prompt_tokens(messages) <= 512
