"""How far a judge can be trusted: its verdicts on the labelled set, kept beside its reports."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from localrag.errors import UsageError
from localrag.evaluation.call_cache import key_of
from localrag.evaluation.judging.gold_set import METRICS, GoldItem, LabelledMetric, gold_hash
from localrag.evaluation.judging.judge import Judge
from localrag.evaluation.judging.judgements import Judgement
from localrag.evaluation.judging.metrics import asked_back, mean_relevancy
from localrag.evaluation.scoring import METRICS as ALL_METRICS
from localrag.evaluation.statistics import (
    accuracy,
    calibration_error,
    cohens_kappa,
    ordering,
    resampled_interval,
)
from localrag.languages import CODES
from localrag.models.embeddings.base import Embedder
from localrag.printable import as_json
from localrag.system.files import make_folder, replace_content

TRUSTED_KAPPA = 0.2
"""Below this lower bound of the interval, agreement with the labels is at most slight."""
TRUSTED_ORDERING = 0.6


@dataclass(frozen=True, slots=True)
class MetricTrust:
    """A judge's agreement with the labels of one metric.

    `unreadable` items count as disagreement in `accuracy` and `kappa`. `calibration_error` is
    None where the backend shows no probabilities. `ordering`, for answer relevancy only, is the
    share of pairs in which the right answer's score is above the wrong or evasive one's.
    """

    metric: LabelledMetric
    items: int
    unreadable: int
    accuracy: float
    kappa: float
    kappa_interval: tuple[float, float]
    calibration_error: float | None
    by_kind: dict[str, float]
    """Accuracy by kind of item."""
    ordering: float | None = None
    ordering_interval: tuple[float, float] | None = None

    @property
    def trusted(self) -> bool:
        """Whether the judge beats chance clearly on this metric."""
        if self.ordering_interval is not None and self.ordering_interval[0] <= TRUSTED_ORDERING:
            return False
        return self.kappa_interval[0] > TRUSTED_KAPPA


@dataclass(frozen=True, slots=True)
class Trust:
    """All of it for one judge; `key` is that of `trust_key`."""

    judge: str
    key: str
    metrics: tuple[MetricTrust, ...]

    def of(self, metric: str) -> MetricTrust | None:
        """The agreement for a metric; citations are judged as faithfulness is."""
        name = ALL_METRICS[metric].trusted_as
        return next((trust for trust in self.metrics if trust.metric == name), None)


@dataclass(frozen=True, slots=True)
class _Graded:
    """An item with what the judge said."""

    item: GoldItem
    judgement: Judgement
    cosines: Sequence[float]


def calibrate(
    name: str,
    key: str,
    judge: Judge,
    embedder: Embedder,
    items: Sequence[GoldItem],
    done: Callable[[], None] = lambda: None,
) -> Trust:
    """Let the judge grade every item and compare with the labels.

    `judge` should write no reasons: none is used. `done` is called after each. Raises
    `ValueError` where a metric has no item.
    """
    graded: list[_Graded] = []
    for item in items:
        questions = None
        if item.task == "evasive":
            questions = asked_back(judge, embedder, item.question, item.answer, item.language)
        cosines = [cosine for _, cosine in questions or ()]
        graded.append(_Graded(item, _judgement(judge, item), cosines))
        done()
    trusts = tuple(
        _trust(metric, [row for row in graded if row.item.metric == metric]) for metric in METRICS
    )
    return Trust(name, key, trusts)


def trust_key(fingerprint: str, embedding: str) -> str:
    """Identifies what a calibration holds for: judge, embedding model, prompts, labelled set."""
    return key_of("trust", fingerprint, embedding, _prompts_hash(), gold_hash())


def save_trust(trust: Trust, folder: Path) -> Path:
    """Keep a calibration for the reports to come."""
    make_folder(folder)
    path = folder / _file_name(trust.key)
    replace_content(path, as_json(asdict(trust), indent=2) + "\n")
    return path


def load_trust(key: str, folder: Path) -> Trust | None:
    """The calibration for that key: from `folder`, else the one that localrag brings, else None.

    Raises `UsageError` for one that is damaged.
    """
    shipped = files("localrag.evaluation.judging").joinpath("gold", _file_name(key))
    for place in (folder / _file_name(key), shipped):
        if not place.is_file():
            continue
        try:
            return msgspec.json.decode(place.read_bytes(), type=Trust)
        except (OSError, msgspec.MsgspecError) as error:
            raise UsageError(
                "The calibration {path} cannot be read: {reason}.",
                hint="Remove it and run `localrag eval calibrate` again.",
                path=place,
                reason=error,
            ) from error
    return None


def _file_name(key: str) -> str:
    return f"trust-{key[:16]}.json"


def _judgement(judge: Judge, item: GoldItem) -> Judgement:
    if item.task == "useful":
        return judge.useful(item.reference, item.contexts[0], item.language)
    if item.task == "evasive":
        return judge.evasive(item.answer, item.language)
    return judge.supported(item.contexts, [item.statement], item.language)[0]


def _trust(metric: LabelledMetric, graded: Sequence[_Graded]) -> MetricTrust:
    if not graded:
        raise ValueError(f"no labelled item for {metric}")
    labels = np.array([row.item.label for row in graded])
    # What could not be read is of no use to a person: it counts as the wrong verdict.
    verdicts = np.array(
        [
            not row.item.label if row.judgement.verdict is None else row.judgement.verdict
            for row in graded
        ]
    )
    probabilities = [row.judgement.probability for row in graded]
    known = np.array(
        [probability for probability in probabilities if probability is not None], dtype=np.float64
    )
    hits = verdicts == labels
    kinds = np.array([row.item.kind for row in graded])
    order = _ordering(graded) if metric == "answer_relevancy" else None
    return MetricTrust(
        metric=metric,
        items=len(graded),
        unreadable=sum(row.judgement.verdict is None for row in graded),
        accuracy=accuracy(verdicts, labels),
        kappa=cohens_kappa(verdicts, labels),
        kappa_interval=resampled_interval(
            lambda chosen: cohens_kappa(verdicts[chosen], labels[chosen]), len(labels)
        ),
        calibration_error=(calibration_error(known, labels) if len(known) == len(graded) else None),
        by_kind={str(kind): float(hits[kinds == kind].mean()) for kind in dict.fromkeys(kinds)},
        ordering=order[0] if order else None,
        ordering_interval=order[1] if order else None,
    )


def _ordering(graded: Sequence[_Graded]) -> tuple[float, tuple[float, float]]:
    """How often the whole metric puts right answers above the others, and its interval."""
    values = [mean_relevancy(row.cosines, row.judgement.verdict) for row in graded]
    scores = np.array([-1.0 if isinstance(value, str) else value for value in values])
    right: NDArray[np.bool_] = np.array([row.item.kind == "right" for row in graded])
    interval = resampled_interval(
        lambda chosen: ordering(scores[chosen], right[chosen]), len(graded)
    )
    return ordering(scores, right), interval


def _prompts_hash() -> str:
    """Of all prompts of the judge: with other words the old agreement says nothing."""
    digest = hashlib.sha256()
    for language in CODES:
        folder = files("localrag.prompts").joinpath(language)
        for path in sorted(folder.iterdir(), key=lambda path: path.name):
            if path.name.startswith("eval_") and not path.name.startswith("eval_draft"):
                # As text: line ends differ between systems, and mean nothing to a model.
                digest.update((path.name + path.read_text("utf-8")).encode())
    return digest.hexdigest()
