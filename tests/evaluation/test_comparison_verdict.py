"""Several ways against a reference answer: what is graded, how often, and in which words."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from answers import answer
from scripted_llm import ScriptedLLM

from localrag.errors import ContextOverflowError
from localrag.evaluation.comparisons.base import ComparedQuestion, Output, Ranked
from localrag.evaluation.comparisons.rerankers import Graded, ReferenceJudge
from localrag.models.llms.choices import ATTEMPTS, LogitChooser, WrittenChooser
from localrag.presentation.comparisons import graded
from localrag.types import Chunk, ScoredChunk

QUESTION = "When was the perceptron presented?"
REFERENCE = "In 1958."


def passage(number: int) -> ScoredChunk:
    return ScoredChunk(Chunk(number, "d", number, f"Text {number}.", "", 1, 1, 0, 7), 0.5, "a.pdf")


def yes(*probabilities: float) -> list[dict[str, float]]:
    return [{"Yes": probability, "No": 1 - probability} for probability in probabilities]


def judged(
    judge: ReferenceJudge, ways: Sequence[tuple[str, Sequence[int], str]]
) -> tuple[Graded, ...]:
    outputs = []
    for name, numbers, text in ways:
        placed = tuple(Ranked(passage(number), number) for number in numbers)
        outputs.append(Output(name, answer(text, question=QUESTION), 1.0, placed))
    return judge(ComparedQuestion(QUESTION, REFERENCE), "en", outputs)


def test_each_passage_and_each_answer_is_graded_once() -> None:
    # Passage 1 does not hold the answer, 2 does; then the answer; then passage 3; the answer again.
    llm = ScriptedLLM(scores=yes(0.1, 0.9, 0.8, 0.7, 0.2, 0.3, 0.4))
    grades = judged(
        ReferenceJudge(llm, LogitChooser(llm)),
        [
            ("none", [1, 2, 4], "In 1958. [2]"),
            ("keyword", [2, 1, 4], "In 1958. [1]"),
            ("llm", [3, 1], "In 1969."),
        ],
    )
    assert not llm.scores, "all were asked for"
    assert grades == (
        Graded("none", 2, 0.8, 0.7, 1.0),
        Graded("keyword", 1, 0.8, 0.7, 1.0),
        Graded("llm", None, 0.3, 0.4, 0.5),
    )
    system = llm.scored[2][0][0].content
    assert "Right answer: In 1958.\n\nAnswer: In 1958." in system


def test_a_refusal_is_graded_without_the_model() -> None:
    refusal = "The documents do not contain the answer to this question."
    llm = ScriptedLLM(scores=yes(0.1))
    judge = ReferenceJudge(llm, LogitChooser(llm))
    assert judged(judge, [("none", [1], refusal)]) == (Graded("none", None, 0.0, 0.0, 0.0),)
    assert judge.agreement(ComparedQuestion(QUESTION, refusal), refusal, "en") == (1.0, 1.0)
    assert judge.agreement(ComparedQuestion(QUESTION, refusal), "In 1958.", "en") == (0.0, 0.0)


def test_without_logits_what_cannot_be_read_is_left_out() -> None:
    llm = ScriptedLLM([*["maybe"] * ATTEMPTS, '{"answer": "Yes"}', *["cannot tell"] * ATTEMPTS])
    judge = ReferenceJudge(llm, WrittenChooser(llm))
    (grade,) = judged(judge, [("none", [1], "In 1958.")])
    assert grade == Graded("none", None, 1.0, None, 1.0)
    assert grade.worth == 1.0
    assert "Completeness, all of the reference answer: none ?" in graded([grade], "en")


def test_what_does_not_fit_is_refused() -> None:
    llm = ScriptedLLM(context_window=64)
    judge = ReferenceJudge(llm, LogitChooser(llm))
    with pytest.raises(ContextOverflowError):
        judge.agreement(ComparedQuestion(QUESTION, REFERENCE), "word " * 400, "en")


def test_the_grades_in_words() -> None:
    grades = [
        Graded("none", 2, 0.8, 0.7, 0.9),
        Graded("keyword", 1, 0.75, 0.7, 0.9),
        Graded("llm", None, 0.3, 0.4, 0.5),
    ]
    assert graded(grades, "en") == (
        "Relevance of context, rank of the first passage with the answer: "
        "none 2, keyword 1, llm in no passage",
        "Accuracy, agreement with the reference answer: none 80%, keyword 75%, llm 30%",
        "Completeness, all of the reference answer: none 70%, keyword 70%, llm 40%",
        "Overlap with the reference answer (F1): none 0.90, keyword 0.90, llm 0.50",
        "Overall: best: none, keyword",
    )
    assert graded(grades[:2], "en")[-1] == "Overall: no clear difference"
    chinese = graded(grades, "zh")
    assert "上下文相关性" in chinese[0]
    assert chinese[-1] == "总体：最好的是 none、keyword"
