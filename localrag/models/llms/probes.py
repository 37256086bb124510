"""What a model's hidden states tell, read along a direction that labelled questions gave.

The probability of a Yes is such a reading itself: the logits of a reply are the last state along
the rows of the output matrix. A small model knows more than it says (Kadavath et al. 2022, arXiv
2207.05221; Azaria and Mitchell 2023, arXiv 2304.13734), and its middle layers know more than its
last, which has to be about the next word. So a direction fitted by logistic regression (a linear
probe: Alain and Bengio 2016, arXiv 1610.01644) on the mean of the states of the task's tokens
behind one of these tells better than the difference between two words, and what comes behind that
layer need not be computed (`benchmarks/log/2026-11.md`, 2026-11-28).
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from localrag.models.llms.base import LAST, Attention, StateReader
from localrag.types import Message

POINTS = "points"
"""The name of the direction along which attention points to what answers."""
POINTING_LAYERS = 10
"""Up to that of the direction: what lies before them tells no more."""
LEAST_PAID = 1e-5
"""A share of attention beside which less is the same."""
FAR = 30.0
"""Log odds of what rounds to certainty."""


def pointing_layers(last: int) -> range:
    """Those whose heads point, up to that of a direction."""
    return range(last + 1 - POINTING_LAYERS, last + 1)


def logistic(log_odds: float) -> float:
    """The probability of log odds."""
    return 1.0 / (1.0 + math.exp(-min(max(log_odds, -FAR), FAR)))


@dataclass(frozen=True, slots=True)
class Direction:
    """`weights`, shape (width,) float32, and `bias` of the log odds of a decision.

    Of the mean state behind `layer`, as `StateReader` has it. `key` identifies what it holds for: a
    model, and the prompts at whose task the states are read.
    """

    weights: NDArray[np.float32]
    bias: float
    layer: int = LAST
    key: str = ""

    def probability(self, state: NDArray[np.float32]) -> float:
        """Of a yes, for a state of shape (width,)."""
        return logistic(float(self.weights @ state) + self.bias)


@dataclass(frozen=True, slots=True)
class Pointer:
    """Where a model looks while it reads a task: how far at each part of the kept messages.

    By how much attention heads pay to it (retrieval heads: Wu et al. 2024, arXiv 2404.15574; Chen
    et al. 2024, arXiv 2410.02642), along a direction that questions with known sentences gave.
    """

    direction: Direction
    attention: Attention

    def log_odds(self, sentences: Sequence[str]) -> list[float]:
        """Of each sentence that it answers, against the others; -inf for what stands nowhere."""
        paid = [self.attention.to(sentence) for sentence in sentences]
        return [-math.inf if heads is None else self._along(heads) for heads in paid]

    def shares(self, sentences: Sequence[str]) -> list[float]:
        """The probability of each that it answers, shape (len(sentences),), sum 1.

        Nothing where none of them stands there.
        """
        scores = self.log_odds(sentences)
        best = max(scores, default=-math.inf)
        if best == -math.inf:
            return []
        likely = [math.exp(score - best) for score in scores]
        return [share / sum(likely) for share in likely]

    def _along(self, heads: NDArray[np.float32]) -> float:
        return float(self.direction.weights @ np.log(heads.ravel() + LEAST_PAID))


@dataclass(frozen=True, slots=True)
class Probes:
    """The decisions that are read from the states of a model."""

    reader: StateReader
    directions: Mapping[str, Direction]

    def probabilities(
        self, decisions: Sequence[str], messages: Sequence[Message], *, keep: int = 0
    ) -> list[float] | None:
        """Of a yes to each decision on a prompt; None where one of them was not fitted.

        The first `keep` messages come back. Raises `ContextOverflowError` or `BackendError`.
        """
        if not self.directions.keys() >= set(decisions):
            return None
        directions = [self.directions[name] for name in decisions]
        layers = {direction.layer for direction in directions}
        state_of = {
            layer: self.reader.activations(messages, layer, keep=keep).state
            for layer in sorted(layers)
        }
        return [direction.probability(state_of[direction.layer]) for direction in directions]

    def look(
        self, decision: str, messages: Sequence[Message], *, keep: int, shallow: bool = False
    ) -> tuple[float, Pointer | None] | None:
        """The probability of one decision, and where the model looks in the kept messages.

        Of one reading, which may be `shallow`, as `StateReader` has it. None where the decision was
        not fitted, and in place of the pointer where pointing was not, or no attention is shown.
        Raises as `probabilities`.
        """
        if (direction := self.directions.get(decision)) is None:
            return None
        points, layers = self.directions.get(POINTS), range(0)
        if points and (direction.layer == LAST or points.layer <= direction.layer):
            layers = pointing_layers(points.layer)
        seen = self.reader.activations(
            messages, direction.layer, keep=keep, attending=layers, shallow=shallow
        )
        pointer = Pointer(points, seen.attention) if points and seen.attention else None
        return direction.probability(seen.state), pointer


def saved(directions: Mapping[str, Direction]) -> bytes:
    """Directions by decision in NumPy's format, float16."""
    arrays: dict[str, NDArray[np.generic]] = {}
    for name, direction in directions.items():
        arrays[name] = direction.weights.astype(np.float16)
        arrays[f"{name} bias"] = np.array(direction.bias)
        arrays[f"{name} layer"] = np.array(direction.layer)
        arrays[f"{name} key"] = np.array(direction.key)
    file = io.BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def loaded(data: bytes) -> dict[str, Direction]:
    """What `saved` made."""
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        return {
            name: Direction(
                arrays[name].astype(np.float32),
                float(arrays[f"{name} bias"]),
                int(arrays[f"{name} layer"]),
                str(arrays[f"{name} key"]),
            )
            for name in arrays.files
            if f"{name} layer" in arrays.files
        }
