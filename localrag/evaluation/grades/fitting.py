"""From graded cases to a curve, and how good the grades are before and after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from localrag.evaluation.grades.questions import GradingCase
from localrag.evaluation.statistics import calibration_error, ordering, resampled_interval
from localrag.languages import LanguageCode
from localrag.rag.calibration import Curve, Graded, Interval, Measured

FOLDS = 5
"""Of topics: two passages of one never stand on both sides of a cross-validation."""

_PENALTY = 1e-2
"""On the square of the slope: keeps it finite where the grades separate the cases."""
_STEPS = 50


@dataclass(frozen=True, slots=True)
class GradedCase:
    """A case and the probability that the model gave its Yes."""

    case: GradingCase
    grade: float


def fit(log_odds: NDArray[np.float64], labels: NDArray[np.bool_]) -> Curve:
    """The logistic regression of labels on log odds, both of shape (n,), by Newton's method.

    Targets are Platt's, (n_yes + 1) / (n_yes + 2) and 1 / (n_no + 2), which keep a few cases from
    making anything certain. Raises `ValueError` where all labels are the same.
    """
    yes, no = int(labels.sum()), int((~labels).sum())
    if not yes or not no:
        raise ValueError("a curve needs cases that hold the answer and cases that do not")
    targets = np.where(labels, (yes + 1) / (yes + 2), 1 / (no + 2))
    design = np.stack([log_odds, np.ones_like(log_odds)], axis=1)
    penalty = np.diag([_PENALTY, 0.0])
    weights = np.zeros(2)
    for _ in range(_STEPS):
        probabilities = 1 / (1 + np.exp(-np.clip(design @ weights, -30, 30)))
        gradient = design.T @ (probabilities - targets) + penalty @ weights
        spread = np.maximum(probabilities * (1 - probabilities), 1e-9)
        step = np.linalg.solve((design.T * spread) @ design + penalty, gradient)
        weights -= step
        if np.abs(step).max() < 1e-9:
            break
    return Curve(float(weights[0]), float(weights[1]))


def measured(graded: Graded, language: LanguageCode, samples: Sequence[GradedCase]) -> Measured:
    """What the cases of one kind and language say. Raises `ValueError` as `fit`."""
    grades = np.array([sample.grade for sample in samples])
    log_odds = _log_odds(grades)
    labels = np.array([sample.case.holds for sample in samples])
    topics = np.array([sample.case.topic for sample in samples])
    after = np.empty(len(samples))
    for fold in range(FOLDS):
        left = topics % FOLDS == fold
        if not left.any():
            continue
        curve = fit(log_odds[~left], labels[~left])
        after[left] = [curve.probability(grade) for grade in grades[left]]

    def interval(
        statistic: Callable[[NDArray[np.float64], NDArray[np.bool_]], float],
        values: NDArray[np.float64],
    ) -> Interval:
        low, high = resampled_interval(
            lambda chosen: statistic(values[chosen], labels[chosen]), len(labels)
        )
        return statistic(values, labels), low, high

    return Measured(
        graded=graded,
        language=language,
        cases=len(samples),
        held=int(labels.sum()),
        auc=interval(ordering, grades),
        error_before=interval(calibration_error, grades),
        error_after=interval(calibration_error, after),
        curve=fit(log_odds, labels),
    )


def _log_odds(grades: NDArray[np.float64]) -> NDArray[np.float64]:
    clipped = np.clip(grades, 1e-12, 1 - 1e-12)
    return np.asarray(np.log(clipped) - np.log1p(-clipped))
