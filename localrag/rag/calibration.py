"""A model's grades as probabilities that mean the same for every model.

What a model gives its Yes is no share of right answers: one says .9 where half are right, another
.4. `localrag models calibrate` asks it about labelled questions and fits, for each kind of grade
and language, P = 1 / (1 + exp(-(slope * log odds + intercept))) (Platt, "Probabilistic Outputs for
Support Vector Machines", 1999). The thresholds of the settings were measured on the starter
model; `Scale` brings the grades of another model to its scale by way of that probability.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Literal, get_args

import msgspec

from localrag.errors import UsageError
from localrag.languages import CODES, LanguageCode
from localrag.models.llms.probes import FAR, POINTS, Direction, loaded, logistic
from localrag.printable import as_json
from localrag.prompts import template
from localrag.prompts.own import Wording
from localrag.system.files import make_folder, replace_content

Graded = Literal["relevance", "answerable"]
"""Grades with a probability: of one passage alone, and of all that are read together."""

GRADED: tuple[Graded, ...] = get_args(Graded)

SIGNAL = 0.6
"""AUC that a model must reach for sure, for its grades to be used: .5 is what guessing gives."""

_PROMPTS = ("relevance", "relevance_system", "answerable", "passages")
_PROBED_PROMPTS = {
    **dict.fromkeys(
        ("about_all", "compares", "several", "LIST", "COUNT", "SUM", "MAX"),
        ("scope", "scope_examples"),
    ),
    **dict.fromkeys(("relevance", POINTS), ("question", "relevance_system")),
    "fits": ("rows_fit", "rows_system"),
    "lists_documents": ("listed", "listed_examples"),
}
"""Those at whose end a state is read, by what is decided.

Where the model looks was fitted with a longer task behind the question: the first sentence is right
as often with the question alone (`benchmarks/log/2026-11.md`, 2026-11-30, "the question alone").
"""
STARTER_PROBES = "starter_probes.npz"
"""What `benchmarks/probes.py` fitted for the starter, beside this file."""


class Curve(msgspec.Struct, frozen=True):
    """From the log odds of a grade to those of the answer being there."""

    slope: float
    intercept: float

    def probability(self, grade: float) -> float:
        """What a grade from 0 to 1 means."""
        return logistic(self.slope * _log_odds(grade) + self.intercept)

    def grade(self, probability: float) -> float:
        """The grade that means this probability."""
        return logistic((_log_odds(probability) - self.intercept) / self.slope)


Interval = tuple[float, float, float]
"""A figure with both ends of its 95% interval."""


class Measured(msgspec.Struct, frozen=True):
    """The grades of one kind in one language.

    `cases` were graded, of which `held` hold the answer. `auc` is how often such a one is graded
    higher than another; the errors are ECE, `after` on topics that the curve was not fitted on.
    """

    graded: Graded
    language: LanguageCode
    cases: int
    held: int
    auc: Interval
    error_before: Interval
    error_after: Interval
    curve: Curve

    @property
    def signal(self) -> bool:
        """Whether the grades tell more than guessing would."""
        return self.auc[1] > SIGNAL and self.curve.slope > 0


class Calibration(msgspec.Struct, frozen=True):
    """What was measured of a model; `key` is that of `calibration_key`."""

    model: str
    key: str
    measured: tuple[Measured, ...]

    @property
    def usable(self) -> bool:
        """Whether every kind of grade that was measured tells something."""
        return bool(self.measured) and all(measurement.signal for measurement in self.measured)

    @property
    def kinds(self) -> tuple[Graded, ...]:
        """The kinds of grade that were measured."""
        return tuple(dict.fromkeys(measurement.graded for measurement in self.measured))

    @property
    def curves(self) -> dict[tuple[Graded, LanguageCode], Curve]:
        """The curves by kind of grade and language."""
        return {
            (measurement.graded, measurement.language): measurement.curve
            for measurement in self.measured
        }


@dataclass(frozen=True, slots=True)
class Scale:
    """Brings grades of a model (`own`) to the scale of another (`reference`)."""

    own: Mapping[tuple[Graded, LanguageCode], Curve]
    reference: Mapping[tuple[Graded, LanguageCode], Curve]

    def read(
        self, graded: Graded, language: LanguageCode, grade: float
    ) -> tuple[float, float | None]:
        """A grade on the scale of the reference, and the probability that it means.

        Where one of the two was not measured, the grade as it is, and None.
        """
        own = self.own.get((graded, language))
        reference = self.reference.get((graded, language))
        if own is None or reference is None:
            return grade, None
        probability = own.probability(grade)
        return (grade if own == reference else reference.grade(probability)), probability


def calibration_key(weights_sha256: str, wording: Wording) -> str:
    """Identifies what a calibration holds for: weights, and the prompts that ask for grades."""
    digest = hashlib.sha256(weights_sha256.encode())
    for language in CODES:
        for text in (
            *(template(name, language) for name in _PROMPTS),
            wording.own.get(("system", language), template("system", language)),
        ):
            digest.update(b"\0" + text.encode("utf-8"))
    return digest.hexdigest()


def save_calibration(calibration: Calibration, folder: Path) -> Path:
    """Keep what was measured."""
    make_folder(folder)
    path = folder / _file_name(calibration.key)
    replace_content(path, as_json(msgspec.to_builtins(calibration), indent=2) + "\n")
    return path


def load_calibration(key: str, folder: Path) -> Calibration | None:
    """The calibration for that key: from `folder`, else the one that localrag brings, else None.

    Raises `UsageError` for one that is damaged.
    """
    path = folder / _file_name(key)
    if path.is_file():
        try:
            return msgspec.json.decode(path.read_bytes(), type=Calibration)
        except (OSError, msgspec.MsgspecError) as error:
            raise UsageError(
                "The calibration {path} cannot be read: {reason}.",
                hint="Remove it and run `localrag models calibrate` again.",
                path=path,
                reason=error,
            ) from error
    starter = starter_calibration()
    return starter if starter.key == key else None


PROBE_CURVE = Curve(3.4, -3.2)
"""Brings what a probe tells to the scale of the settings: .35 to .68, the bound of an answer.

That was chosen on the folders that the probe was fitted on, each read along what the others gave,
with one question of seven that is not answered and a wrong answer as dear as a right one is worth,
and with four other folders in view. It was kept for what is read from the question alone: of 44
questions of two folders of others 19 are answered from the right section and 4 from another, where
the fit before had 17 and 5.
The bound of a strict answer (.76) and what is enough (.8) mean .67 and .82, as by the curve of the
model's own grades.
"""


def starter_calibration() -> Calibration:
    """That of the starter model, on which the thresholds of the settings were measured."""
    text = files("localrag.rag").joinpath("starter_calibration.json").read_bytes()
    return msgspec.json.decode(text, type=Calibration)


def probe_key(decision: str, weights_sha256: str) -> str:
    """Identifies what a probe of a model's states holds for: weights, and the prompts it ends.

    Raises KeyError for a decision that no probe makes.
    """
    digest = hashlib.sha256(weights_sha256.encode())
    for name in _PROBED_PROMPTS[decision]:
        for language in CODES:
            digest.update(b"\0" + template(name, language).encode("utf-8"))
    return digest.hexdigest()


def load_probes(weights_sha256: str) -> dict[str, Direction]:
    """The directions that localrag brings for a model, by decision; none for another model."""
    file = files("localrag.rag").joinpath(STARTER_PROBES)
    return {
        decision: direction
        for decision, direction in loaded(file.read_bytes()).items()
        if decision in _PROBED_PROMPTS and direction.key == probe_key(decision, weights_sha256)
    }


def _file_name(key: str) -> str:
    return f"grades-{key[:16]}.json"


def _log_odds(probability: float) -> float:
    if probability <= 0.0 or probability >= 1.0:
        return math.copysign(FAR, probability - 0.5)
    return math.log(probability / (1.0 - probability))
