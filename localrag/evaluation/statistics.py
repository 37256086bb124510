"""Intervals of what was measured, and how well a judge's verdicts agree with labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 2000
"""Bootstrap samples: enough for the third decimal of an interval's ends."""
_BINS = 5
"""Of equal width: with about 30 items more would hold hardly anything each."""


def accuracy(verdicts: NDArray[np.bool_], labels: NDArray[np.bool_]) -> float:
    """Share of verdicts, shape (n,), that equal their labels."""
    return float((verdicts == labels).mean())


def cohens_kappa(verdicts: NDArray[np.bool_], labels: NDArray[np.bool_]) -> float:
    """Agreement beyond chance: (p_o - p_e) / (1 - p_e); 0 is what guessing gives.

    p_o is the observed agreement, p_e that of independent raters with the same shares of yes.
    Where both say the same of everything, chance explains all of it: 0.
    Cohen, "A coefficient of agreement for nominal scales", 1960.
    """
    observed = float((verdicts == labels).mean())
    yes, true = float(verdicts.mean()), float(labels.mean())
    expected = yes * true + (1 - yes) * (1 - true)
    return (observed - expected) / (1 - expected) if expected < 1 else 0.0


def calibration_error(probabilities: NDArray[np.float64], labels: NDArray[np.bool_]) -> float:
    """Expected calibration error of P(yes): mean |share of yes - mean P| over bins, by size.

    Naeini et al., "Obtaining Well Calibrated Probabilities Using Bayesian Binning", AAAI 2015.
    """
    places = np.minimum((probabilities * _BINS).astype(int), _BINS - 1)
    error = 0.0
    for place in range(_BINS):
        mask = places == place
        if mask.any():
            gap = abs(float(labels[mask].mean()) - float(probabilities[mask].mean()))
            error += float(mask.mean()) * gap
    return error


def ordering(scores: NDArray[np.float64], labels: NDArray[np.bool_]) -> float:
    """Probability that an item labelled yes scores above one labelled no (area under the ROC).

    Ties count half; 0.5 is what guessing gives. NaN-free: 0.5 where one kind is missing.
    """
    high, low = scores[labels], scores[~labels]
    if not len(high) or not len(low):
        return 0.5
    above = (high[:, None] > low[None, :]).mean()
    ties = (high[:, None] == low[None, :]).mean()
    return float(above + ties / 2)


def resampled_interval(
    statistic: Callable[[NDArray[np.intp]], float], count: int
) -> tuple[float, float]:
    """The 95% percentile bootstrap interval of a statistic over `count` questions or items.

    `statistic` gets the places of those in a sample, shape (count,). Efron and Tibshirani, "An
    Introduction to the Bootstrap", 1993, chapter 13. The same values give the same interval.
    Raises ValueError for none.
    """
    generator = _generator(count)
    values = [statistic(generator.integers(count, size=count)) for _ in range(RESAMPLES)]
    tail = (1 - 0.95) / 2
    low, high = np.quantile(values, (tail, 1 - tail))
    return float(low), float(high)


def bootstrap_interval(scores: NDArray[np.float64]) -> tuple[float, float]:
    """As `resampled_interval`, of the mean of scores, shape (n,)."""
    return resampled_interval(lambda chosen: float(scores[chosen].mean()), len(scores))


def mean_interval(scores: NDArray[np.float64]) -> tuple[float, float]:
    """The 95% interval of the mean of scores in [0, 1], shape (n,), by percentile bootstrap.

    Scores that are all alike, which a bootstrap takes for certain, have the bound of a proportion
    instead: of other questions, as many might score 0 (or 1) as would still let so many alike be
    seen in 1 of 40 samples (Clopper and Pearson, "The Use of Confidence or Fiducial Limits",
    Biometrika 1934). Raises ValueError for no scores.
    """
    if len(scores) and (scores == scores[0]).all():
        first = float(scores[0])
        alike = float(0.025 ** (1 / len(scores)))
        return first * alike, 1 - (1 - first) * alike
    return _resampled_means(scores, 1)


def paired_difference(
    scores: Sequence[float], other: Sequence[float], *, comparisons: int = 1
) -> tuple[float, float, float]:
    """Mean of one - other over the same questions, and its 95% bootstrap interval.

    Of several `comparisons` the intervals hold together with 95% (Bonferroni: each leaves out
    5% / comparisons; Dunn, "Multiple Comparisons Among Means", JASA 1961).

    Raises ValueError for lists of different length or none at all.
    """
    differences = np.asarray(scores, dtype=np.float64) - np.asarray(other, dtype=np.float64)
    low, high = _resampled_means(differences, comparisons)
    return float(differences.mean()), low, high


def _resampled_means(values: NDArray[np.float64], comparisons: int) -> tuple[float, float]:
    """The percentile interval of a mean; with more comparisons further out, by as many samples."""
    generator, count = _generator(len(values)), len(values)
    means = [
        values[generator.integers(count, size=(RESAMPLES, count))].mean(axis=1)
        for _ in range(comparisons)
    ]
    tail = 0.025 / comparisons
    low, high = np.quantile(np.concatenate(means), (tail, 1 - tail))
    return float(low), float(high)


def _generator(count: int) -> np.random.Generator:
    if not count:
        raise ValueError("an interval needs at least one score")
    return np.random.default_rng(0)
