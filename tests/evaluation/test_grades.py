from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from scripted_llm import ScriptedLLM

from localrag.errors import UsageError
from localrag.evaluation.grades import measuring
from localrag.evaluation.grades.fitting import GradedCase, fit, measured
from localrag.evaluation.grades.questions import GradingCase, cases, topics
from localrag.models.llms.choices import LogitChooser, WrittenChooser
from localrag.prompts import YES_NO
from localrag.prompts.own import Wording


def test_the_questions_are_well_formed() -> None:
    all_topics = topics()
    texts = [text.strip() for topic in all_topics for text in topic.passages]
    questions = [question for topic in all_topics for question, _ in topic.questions]
    assert len(set(texts)) == len(texts) >= 70
    assert len(set(questions)) == len(questions) >= 400
    for topic in all_topics:
        kinds = {where for _, where in topic.questions}
        assert kinds == {"1", "2", "1+2", "-"}, topic.questions[0]


def test_the_cases_are_balanced_by_grade_and_language() -> None:
    graded_cases = cases()
    assert len(graded_cases) >= 800
    for kind in ("relevance", "answerable"):
        for language in ("en", "zh"):
            subset = [
                case for case in graded_cases if (case.graded, case.language) == (kind, language)
            ]
            assert len(subset) >= 100
            assert 0.4 < np.mean([case.holds for case in subset]) < 0.6
    kinds = Counter(case.kind for case in graded_cases)
    assert min(kinds.values()) >= 40


def test_what_holds_an_answer_says_nothing_by_its_length() -> None:
    """A question is no longer, and begins no otherwise, where the answer is there."""
    graded_cases = [case for case in cases() if case.graded == "relevance"]
    for language in ("en", "zh"):
        lengths = {
            holds: np.mean(
                [
                    len(o.question)
                    for o in graded_cases
                    if (o.holds, o.language) == (holds, language)
                ]
            )
            for holds in (True, False)
        }
        assert 0.85 < lengths[True] / lengths[False] < 1.15


def test_cases_with_the_same_passages_stand_together() -> None:
    """So that each set of passages is read once."""
    graded_cases = [(case.graded, case.passages) for case in cases()]
    changes = sum(case != other for case, other in itertools.pairwise(graded_cases))
    assert changes + 1 == len(set(graded_cases))


def test_the_fit_finds_the_curve_that_made_the_labels() -> None:
    generator = np.random.default_rng(1)
    log_odds = generator.normal(1.0, 2.0, 20_000)
    labels = generator.random(20_000) < 1 / (1 + np.exp(-(1.5 * log_odds - 2.0)))
    curve = fit(log_odds, labels)
    assert curve.slope == pytest.approx(1.5, abs=0.1)
    assert curve.intercept == pytest.approx(-2.0, abs=0.1)


def test_the_fit_stays_finite_where_the_grades_separate() -> None:
    curve = fit(np.array([-2.0, -1.0, 1.0, 2.0]), np.array([False, False, True, True]))
    assert 0 < curve.slope < 10
    with pytest.raises(ValueError, match="cases"):
        fit(np.array([1.0, 2.0]), np.array([True, True]))


def graded(case: GradingCase, log_odds: float) -> GradedCase:
    return GradedCase(case, 1 / (1 + math.exp(-log_odds)))


def test_measuring_lowers_the_error_and_keeps_the_order() -> None:
    """A model that says yes too readily, as small ones do."""
    generator = np.random.default_rng(2)
    graded_cases = [case for case in cases() if (case.graded, case.language) == ("relevance", "en")]
    measurement = measured(
        "relevance",
        "en",
        [graded(case, 2.0 + 1.5 * case.holds + generator.normal()) for case in graded_cases],
    )
    assert measurement.auc[0] > 0.8
    assert measurement.signal
    assert measurement.error_after[2] < measurement.error_before[1]
    assert (measurement.cases, measurement.held) == (
        len(graded_cases),
        sum(case.holds for case in graded_cases),
    )


def test_a_model_that_guesses_has_no_signal() -> None:
    generator = np.random.default_rng(3)
    graded_cases = [graded(case, generator.normal()) for case in cases()]
    assert not measuring.calibration("m", "k", graded_cases).usable


def test_a_model_is_asked_as_when_it_answers() -> None:
    """Passages alone as Self-RAG reads them, several as standard RAG does."""
    subset = [case for case in cases() if case.topic == 0]
    alone = next(case for case in subset if case.graded == "relevance")
    together = next(case for case in subset if case.graded == "answerable")
    scores = [dict(zip(YES_NO[case.language], (3, 1), strict=True)) for case in (alone, together)]
    llm = ScriptedLLM([], scores)
    calls: list[None] = []
    graded_cases = list(
        measuring.grade([alone, together], LogitChooser(llm), Wording(), lambda: calls.append(None))
    )
    assert [case.grade for case in graded_cases] == [0.75, 0.75]
    assert len(calls) == 2
    (first, _), (second, _) = llm.scored
    assert alone.passages[0] in first[0].content
    assert alone.question in first[1].content
    assert llm.kept == [1, 0]
    assert all(text in second[1].content for text in together.passages)
    assert len(together.passages) == 5
    assert together.question in second[1].content


def test_a_model_without_logits_is_refused() -> None:
    with pytest.raises(UsageError, match="no probabilities"):
        list(measuring.grade(cases()[:1], WrittenChooser(ScriptedLLM()), Wording(), lambda: None))
