"""Retrieval metrics as pure functions of one ranking and its judgements.

A ranking is a list of passage ids, best first, each once; how ties of scores were broken is the
ranking's business. `relevance` maps passage ids to grades; 0 and less mean not relevant. A
ranking that finds nothing scores 0 in all of them: a question without an answer is a failure,
not a gap. All agree with trec_eval on binary and on graded judgements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

Relevance = Mapping[str, int]
"""Passage id -> grade."""

RankingMetric = Callable[[Sequence[str], Relevance], float]
"""A ranking and its judgements -> a score in [0, 1], higher is better."""


def ndcg(ranking: Sequence[str], relevance: Relevance, *, k: int) -> float:
    """Normalised discounted cumulative gain: DCG@k divided by the best DCG@k there can be.

    DCG@k = sum over ranks i <= k of grade_i / log2(i + 1), i from 1.
    Jarvelin and Kekalainen, "Cumulated gain-based evaluation of IR techniques", TOIS 2002, with
    the discount of Burges et al., ICML 2005, as trec_eval's ndcg_cut and BEIR have it.
    """
    gains = [max(relevance.get(passage, 0), 0) for passage in ranking[:k]]
    ideal = sorted((max(grade, 0) for grade in relevance.values()), reverse=True)[:k]
    best = _discounted_gain(ideal)
    return _discounted_gain(gains) / best if best else 0.0


def reciprocal_rank(ranking: Sequence[str], relevance: Relevance, *, k: int) -> float:
    """1 / rank of the first relevant passage among the first k, else 0; its mean is MRR@k.

    Voorhees, "The TREC-8 Question Answering Track Report", 1999; the cut-off is MS MARCO's.
    """
    for rank, passage in enumerate(ranking[:k], start=1):
        if relevance.get(passage, 0) > 0:
            return 1.0 / rank
    return 0.0


def recall(ranking: Sequence[str], relevance: Relevance, *, k: int) -> float:
    """Share of the relevant passages that are among the first k (trec_eval's recall_k)."""
    relevant = {passage for passage, grade in relevance.items() if grade > 0}
    return len(relevant.intersection(ranking[:k])) / len(relevant) if relevant else 0.0


METRICS: Mapping[str, RankingMetric] = {
    "nDCG@10": partial(ndcg, k=10),
    "MRR@10": partial(reciprocal_rank, k=10),
    "R@1": partial(recall, k=1),
    "R@5": partial(recall, k=5),
    "R@10": partial(recall, k=10),
    "R@100": partial(recall, k=100),
}
"""What `localrag bench retrieval` reports, by the name it has there."""


def score_rankings(
    rankings: Mapping[str, Sequence[str]], qrels: Mapping[str, Relevance], metric: RankingMetric
) -> NDArray[np.float64]:
    """One score for each question of `qrels`, shape (questions,), in the order of `qrels`.

    A question that `rankings` does not have scores 0.
    """
    scores = [metric(rankings.get(query, ()), relevance) for query, relevance in qrels.items()]
    return np.array(scores, dtype=np.float64)


def _discounted_gain(gains: Sequence[int]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))
