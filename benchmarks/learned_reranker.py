"""The weights of `localrag/rerankers/learned.py`, fitted on retrieval sets.

    python benchmarks/learned_reranker.py SET[=WEIGHT] ...

SET is a folder with corpus.jsonl, queries.jsonl and qrels.tsv, and must be none of those on which
rerankers are measured; a question of it counts WEIGHT times (1). What the weights that ship were
fitted on is said in `benchmarks/reranking.md`. The first 20 passages of the default search are
candidates; a question of which none is relevant teaches nothing. Minimised by Newton's method is
the cross entropy of softmax(features @ weights) over a question's candidates, and 0.01 times the
squared weights of features of unit variance.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from reranking import candidates

from localrag import factory
from localrag.config.settings import Settings
from localrag.evaluation.retrieval.beir import read_retrieval_set
from localrag.rerankers.learned import WEIGHTS, features

CANDIDATES = 20
PENALTY = 0.01
STEPS = 30

Question = tuple[NDArray[np.float64], NDArray[np.float64], float]
"""Features of its candidates, which of them are relevant (summing to 1), and its weight."""


def main() -> None:
    """Fit, and print what `WEIGHTS` should be."""
    questions = [each for argument in sys.argv[1:] for each in read(*argument.partition("=")[::2])]
    rows = np.concatenate([rows for rows, _, _ in questions])
    deviation = rows.std(axis=0)
    weights = fitted([(rows / deviation, target, weight) for rows, target, weight in questions])
    print(f"{len(questions)} questions")
    for name, value in zip(WEIGHTS, weights / deviation, strict=True):
        print(f'    "{name}": {value:.2f},')


def read(folder: str, weight: str) -> list[Question]:
    """The questions of a set with a relevant candidate."""
    settings = Settings()
    tokenize = factory.make_tokenizer(settings)
    dataset = read_retrieval_set(Path(folder))
    found: list[Question] = []
    for query, chunks in candidates(dataset, settings, CANDIDATES, hard=False):
        grades = dataset.qrels[query]
        target = np.array([float(grades.get(each.source, 0) > 0) for each in chunks])
        if target.any():
            rows = features(dataset.queries[query], chunks, tokenize)
            found.append((rows, target / target.sum(), float(weight or 1)))
    return found


def fitted(questions: list[Question]) -> NDArray[np.float64]:
    """The weights with the least loss, which is convex."""
    size = questions[0][0].shape[1]
    total = sum(weight for _, _, weight in questions)
    weights = np.zeros(size)
    for _ in range(STEPS):
        slope, curve = 2 * PENALTY * weights, 2 * PENALTY * np.eye(size)
        for rows, target, weight in questions:
            values = rows @ weights
            chances = np.exp(values - values.max())
            chances /= chances.sum()
            mean = chances @ rows
            slope += weight / total * (mean - target @ rows)
            curve += weight / total * ((rows.T * chances) @ rows - np.outer(mean, mean))
        weights -= np.linalg.solve(curve, slope)
    return weights


if __name__ == "__main__":
    main()
