"""The metrics as their papers define them, with examples worked by hand."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from localrag.evaluation import statistics
from localrag.evaluation.answer_metrics import exact_match, f1, page_reciprocal_rank
from localrag.evaluation.dataset import Context, Sample
from localrag.evaluation.judging.metrics import average_precision, mean_relevancy, share
from localrag.evaluation.metric import Case, Response
from localrag.rag.refusals import refuses


def test_one_of_two_statements_is_half() -> None:
    assert share([True, False]) == 0.5


def test_context_precision_of_0_1_1_is_583() -> None:
    assert average_precision([False, True, True]) == pytest.approx((1 / 2 + 2 / 3) / 2)
    assert average_precision([False, True, True]) == pytest.approx(0.583, abs=5e-4)


@pytest.mark.parametrize(
    ("verdicts", "value"),
    [([True], 1.0), ([True, False], 1.0), ([False, True], 0.5), ([False, False], 0.0)],
)
def test_context_precision_of_short_rankings(verdicts: list[bool], value: float) -> None:
    assert average_precision(verdicts) == value


@pytest.mark.parametrize("metric", [share, average_precision])
def test_nothing_or_something_unread_is_neither_0_nor_nan(metric: object) -> None:
    assert metric([]) == "undefined"  # type: ignore[operator]
    assert metric([True, None]) == "unreadable"  # type: ignore[operator]


def test_relevancy_counts_evasive_answers_as_0() -> None:
    assert mean_relevancy([0.9, 0.6, 0.3], False) == pytest.approx(0.6)
    assert mean_relevancy([0.9, 0.9, 0.9], True) == 0.0
    assert mean_relevancy([], False) == "undefined"
    assert mean_relevancy([0.9], None) == "unreadable"


@pytest.mark.parametrize(
    ("answer", "reference", "match", "overlap"),
    [
        ("The Thorn mill.", "thorn mill", 1.0, 1.0),
        ("In 1820 [1]", "1820", 0.0, 2 / 3),
        ("built 1820", "sold 1902", 0.0, 0.0),
        ("北京市。", "北京市", 1.0, 1.0),
        # CMRC: the longest common run of characters, here 北京 of 4 and 3.
        ("在北京的", "北京市", 0.0, 4 / 7),
        # Common characters that do not stand together count once: the run is one long.
        ("京北", "北京", 0.0, 0.5),
        ("１９８３年", "1983年", 1.0, 1.0),
        ("", "北京", 0.0, 0.0),
    ],
)
def test_exact_match_and_f1(answer: str, reference: str, match: float, overlap: float) -> None:
    assert exact_match(answer, reference) == match
    assert f1(answer, reference) == pytest.approx(overlap)


@pytest.mark.parametrize(
    ("answer", "refusal"),
    [
        ("The documents do not contain the answer to this question.", True),
        ("文档中没有这个问题的答案。", True),
        ("There is no information about that in the given text.", True),
        ("抱歉，资料中没有提到这一点。", True),
        ("无法根据上下文得出答案。", True),
        ("The mill has two floors.", False),
        ("磨坊有两层。", False),
        ("No answer key was handed out before 1990.", False),
        (
            "The contract does not contain a fee. " + "It runs for two years and ends in May. " * 4,
            False,
        ),
    ],
)
def test_refusals_are_recognised(answer: str, refusal: bool) -> None:
    assert refuses(answer) is refusal


def page_rank(contexts: list[Context], source: str, page: int | None) -> float | None:
    sample = Sample("1", "q", source=source, page=page)
    return page_reciprocal_rank.score(Case(sample, Response("a", tuple(contexts)), False)).value


def test_rank_of_the_right_page() -> None:
    contexts = [
        Context("a", "other.pdf", 1, 1),
        Context("b", "/home/x/book.pdf", 3, 4),
        Context("c", "/home/x/book.pdf", 9, 9),
    ]
    assert page_rank(contexts, "book.pdf", 4) == 0.5
    assert page_rank(contexts, "book.pdf", 9) == pytest.approx(1 / 3)
    assert page_rank(contexts, "C:\\texts\\book.pdf", None) == 0.5
    assert page_rank(contexts, "book.pdf", 5) == 0.0
    assert page_rank([Context("a")], "book.pdf", 5) is None
    assert page_rank(contexts, "", None) is None


def test_kappa_is_agreement_beyond_chance() -> None:
    labels = np.array([True, True, False, False, True, False, False, False, True, False])
    # Cohen's own arithmetic: p_o = .7, shares .5 and .4, p_e = .2 + .3 = .5, kappa .4.
    verdicts = np.array([True, True, True, False, False, True, False, False, True, False])
    assert statistics.accuracy(verdicts, labels) == pytest.approx(0.7)
    assert statistics.cohens_kappa(verdicts, labels) == pytest.approx(0.4)
    assert statistics.cohens_kappa(labels, labels) == 1.0
    assert statistics.cohens_kappa(np.full(10, True), np.full(10, True)) == 0.0

    def kappa(indices: NDArray[np.intp]) -> float:
        return statistics.cohens_kappa(verdicts[indices], labels[indices])

    low, high = statistics.resampled_interval(kappa, len(labels))
    assert low < 0.4 < high
    assert statistics.resampled_interval(kappa, len(labels)) == (low, high)


def test_calibration_error_by_hand() -> None:
    probabilities = np.array([0.9, 0.9, 0.1, 1.0])
    labels = np.array([True, False, False, True])
    # Bin of .1: gap .1, one of four. Bin of .9 and 1.0: 2/3 right, mean 2.8/3, three of four.
    expected = 0.25 * 0.1 + 0.75 * (2.8 / 3 - 2 / 3)
    assert statistics.calibration_error(probabilities, labels) == pytest.approx(expected)


def test_ordering_counts_pairs() -> None:
    scores = np.array([0.9, 0.5, 0.5, 0.1])
    labels = np.array([True, True, False, False])
    assert statistics.ordering(scores, labels) == pytest.approx((2 + 1.5) / 4)
    assert statistics.ordering(scores, np.full(4, True)) == 0.5


def test_a_paired_difference_sees_what_hard_questions_hide() -> None:
    hard = np.linspace(0, 0.9, 20)
    mean, low, high = statistics.paired_difference(list(hard + 0.05), list(hard))
    assert mean == pytest.approx(0.05)
    assert 0 < low <= high
    scores, rivals = [1.0, 0.0, 1.0, 1.0, 0.5] * 8, [0.0, 0.5, 0.5, 1.0, 0.5] * 8
    _, low, high = statistics.paired_difference(scores, rivals)
    _, lower, higher = statistics.paired_difference(scores, rivals, comparisons=10)
    assert lower < low < 0.2 < high < higher
    # The half width of 95% is 1.96 standard errors, that of 99.5% is 2.81.
    assert (higher - lower) / (high - low) == pytest.approx(2.81 / 1.96, rel=0.05)
    with pytest.raises(ValueError, match="at least one"):
        statistics.paired_difference([], [])


def test_the_interval_of_a_mean_is_never_without_width_by_likeness_alone() -> None:
    for count, other in ((1, 0.025), (5, 0.478), (60, 0.940)):
        assert statistics.mean_interval(np.ones(count)) == pytest.approx((other, 1.0), abs=1e-3)
        assert statistics.mean_interval(np.zeros(count)) == pytest.approx(
            (0.0, 1 - other), abs=1e-3
        )
    low, high = statistics.mean_interval(np.array([0.3]))
    assert (low, high) == pytest.approx((0.0075, 0.9825))
    low, high = statistics.mean_interval(np.array([0.0, 1.0, 1.0, 0.5] * 10))
    assert 0.45 < low < 0.625 < high < 0.8
    with pytest.raises(ValueError, match="at least one"):
        statistics.mean_interval(np.array([]))
