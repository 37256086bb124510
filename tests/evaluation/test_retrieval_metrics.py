"""The metrics against hand-computed values and against trec_eval itself."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
import pytrec_eval

from localrag.evaluation.retrieval.metrics import (
    METRICS,
    ndcg,
    recall,
    reciprocal_rank,
    score_rankings,
)
from localrag.evaluation.statistics import bootstrap_interval

TREC_NAMES = {
    "nDCG@10": "ndcg_cut_10",
    "MRR@10": "recip_rank",
    "R@1": "recall_1",
    "R@5": "recall_5",
    "R@10": "recall_10",
    "R@100": "recall_100",
}


def test_ndcg_by_hand() -> None:
    grades = {"a": 3, "b": 1, "c": 2}
    gain = 1 / 1 + 3 / math.log2(4)
    best = 3 / 1 + 2 / math.log2(3) + 1 / math.log2(4)
    assert ndcg(["b", "x", "a"], grades, k=10) == pytest.approx(gain / best)
    assert ndcg(["b", "x", "a"], grades, k=2) == pytest.approx(1 / (3 + 2 / math.log2(3)))
    assert ndcg(["a", "c", "b"], grades, k=10) == 1.0


def test_reciprocal_rank_by_hand() -> None:
    assert reciprocal_rank(["x", "y", "a"], {"a": 1}, k=10) == pytest.approx(1 / 3)
    assert reciprocal_rank(["x", "y", "a"], {"a": 1}, k=2) == 0.0


def test_recall_by_hand() -> None:
    grades = {"a": 1, "b": 2, "c": 0, "d": 1}
    assert recall(["c", "a", "x"], grades, k=3) == pytest.approx(1 / 3)
    assert recall(["c", "a", "x"], grades, k=1) == 0.0


@pytest.mark.parametrize("name", METRICS)
def test_an_unanswered_question_scores_nothing_and_is_not_dropped(name: str) -> None:
    qrels = {"answered": {"a": 1}, "empty": {"a": 1}, "missing": {"a": 1}}
    scores = score_rankings({"answered": ["a"], "empty": []}, qrels, METRICS[name])
    assert scores.tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("seed", range(5))
def test_agreement_with_trec_eval_on_random_runs_with_ties(seed: int) -> None:
    """Few distinct scores, so most are ties; trec_eval orders ties by falling passage id."""
    chance = random.Random(seed)
    names = [f"p{number}" for number in range(300)]
    qrels, run = {}, {}
    for number in range(40):
        query = f"q{number}"
        judged_passages = chance.sample(names, chance.randint(1, 30))
        qrels[query] = {passage: chance.choice([-1, 0, 1, 1, 2, 3]) for passage in judged_passages}
        qrels[query][judged_passages[0]] = 1
        passages = chance.sample(names, chance.randint(1, 250))
        run[query] = {passage: float(chance.randint(0, 9)) for passage in passages}
    rankings = {
        query: sorted(scores, key=lambda name: (scores[name], name), reverse=True)
        for query, scores in run.items()
    }
    for name, metric in METRICS.items():
        values = score_rankings(rankings, qrels, metric)
        # trec_eval's reciprocal rank has no cut-off: give it only what we look at.
        looked_at = {
            query: {passage: 1.0 / rank for rank, passage in enumerate(ranking[:10], start=1)}
            for query, ranking in rankings.items()
        }
        measure = TREC_NAMES[name]
        measures = {"recip_rank", "ndcg_cut.10", "recall.1,5,10,100"}
        evaluator = pytrec_eval.RelevanceEvaluator(qrels, measures)
        reference = evaluator.evaluate(looked_at if name == "MRR@10" else run)
        assert values == pytest.approx([reference[query][measure] for query in qrels], abs=1e-6)


def test_the_interval_is_repeatable_and_narrows_with_more_questions() -> None:
    few = np.tile([0.0, 1.0, 1.0, 1.0], 10)
    many = np.tile(few, 16)
    low, high = bootstrap_interval(few)
    assert (low, high) == bootstrap_interval(few)
    assert low < 0.75 < high
    # The normal approximation of a mean of 40 Bernoulli(0.75): +-0.134.
    assert high - low == pytest.approx(2 * 1.96 * math.sqrt(0.75 * 0.25 / 40), rel=0.15)
    narrow = bootstrap_interval(many)
    assert narrow[1] - narrow[0] == pytest.approx((high - low) / 4, rel=0.15)
    with pytest.raises(ValueError, match="at least one"):
        bootstrap_interval(np.array([]))
