"""Evaluating pipelines on a data set: answers first, then scores, and what they come to."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Protocol

import numpy as np

from localrag.errors import UsageError
from localrag.evaluation.agreement import mean_interval, paired_difference
from localrag.evaluation.dataset import Context, Sample
from localrag.evaluation.remembered import CallStore, key_of
from localrag.evaluation.scoring import METRICS, Response, Scored, Scorer

FEWEST_QUESTIONS = 6
"""Of five differences or fewer, all in one run's favour, chance alone makes one in 16 or more."""


class Clock(Protocol):
    """Hears of progress: `done` of `total` steps, `left` in seconds, None while not known."""

    def __call__(self, done: int, total: int, left: float | None) -> None:
        """Take note."""
        ...


class Pipeline(Protocol):
    """What is under test."""

    def ask(self, question: str) -> Response:
        """The answer and the contexts that it was written from."""
        ...

    def find(self, question: str) -> Sequence[Context]:
        """The contexts alone."""
        ...


@dataclass(frozen=True, slots=True)
class Summary:
    """A metric over a run: `mean` and its 95% `interval` over the `scored` questions.

    Both None where none was scored. `unreadable` questions have no score because a verdict
    could not be read, `undefined` ones because the metric means nothing there.
    """

    name: str
    mean: float | None
    interval: tuple[float, float] | None
    unreadable: int
    undefined: int
    scored: int


@dataclass(frozen=True, slots=True)
class EvaluatedRun:
    """One configuration with all its questions, in the order of the data set."""

    name: str
    scored: tuple[Scored, ...]

    def summaries(self) -> tuple[Summary, ...]:
        """Every metric that is wanted, in the order of reports."""
        names = [name for name in METRICS if self.scored and name in self.scored[0].scores]
        return tuple(summarise(name, self.scored) for name in names)


@dataclass(frozen=True, slots=True)
class Difference:
    """`better` is ahead of `worse` in a metric by `mean`, over the questions that both score.

    Where the 95% `interval` of the paired difference includes 0 the two are not ranked, and
    never by fewer than `FEWEST_QUESTIONS`: a bootstrap of so few knows nothing of chance.
    """

    metric: str
    better: str
    worse: str
    mean: float
    interval: tuple[float, float]
    questions: int

    @property
    def ranked(self) -> bool:
        """Whether the difference is more than chance would make."""
        return self.interval[0] > 0 and self.questions >= FEWEST_QUESTIONS


def answers(
    samples: Sequence[Sample],
    pipeline: Pipeline | None,
    store: CallStore,
    identity: str,
    progress: Clock,
) -> list[Response]:
    """What the pipeline gives for each sample.

    An answer that the data set brings is taken as it is; only its contexts are looked up where
    they are missing. Where the answer is missing, both come from the pipeline. `identity` stands
    for everything that they depend on: settings, weights, documents. Raises `UsageError` where
    something is missing and there is no pipeline.
    """
    responses: list[Response] = []
    steps = _Steps(len(samples), progress)
    for sample in samples:
        if sample.answer is not None and sample.contexts is not None:
            responses.append(Response(sample.answer, sample.contexts))
            steps.done(0.0)
            continue
        if pipeline is None:
            raise UsageError(
                "Question {id} of the data set has no answer or no contexts, and there is no "
                "library to produce them from.",
                hint="Name a library with --library, or fill in both columns.",
                id=sample.id,
            )
        key = key_of("answer", identity, sample.question, sample.answer)
        if (known := store.get(key)) is not None:
            responses.append(_response(known[0]))
            steps.done(0.0)
            continue
        started = time.perf_counter()
        response = _produced(pipeline, sample)
        seconds = time.perf_counter() - started
        store.put(key, asdict(response), seconds)
        responses.append(response)
        steps.done(seconds)
    return responses


def _produced(pipeline: Pipeline, sample: Sample) -> Response:
    if sample.answer is None:
        return pipeline.ask(sample.question)
    return Response(sample.answer, tuple(pipeline.find(sample.question)))


def evaluate(
    name: str,
    samples: Sequence[Sample],
    responses: Sequence[Response],
    scorer: Scorer,
    progress: Clock,
    *,
    workers: int = 1,
) -> EvaluatedRun:
    """Score all responses; `workers` at a time where the judge serves several at once."""
    steps = _Steps(len(samples), progress)
    pairs = list(zip(samples, responses, strict=True))

    def one(pair: tuple[Sample, Response]) -> Scored:
        return scorer.score(*pair)

    scored: list[Scored] = []
    if workers == 1:
        for result in map(one, pairs):
            scored.append(result)
            steps.done(result.judge_seconds)
    else:
        with ThreadPoolExecutor(workers) as pool:
            for result in pool.map(one, pairs):
                scored.append(result)
                steps.done(result.judge_seconds / workers)
    return EvaluatedRun(name, tuple(scored))


def summarise(metric: str, scored: Iterable[Scored]) -> Summary:
    """Mean and interval of a metric over the questions that have a score."""
    scores = [one.scores[metric] for one in scored]
    values = np.array([score.value for score in scores if score.value is not None])
    return Summary(
        name=metric,
        mean=float(values.mean()) if len(values) else None,
        interval=mean_interval(values) if len(values) else None,
        scored=len(values),
        unreadable=sum(score.state == "unreadable" for score in scores),
        undefined=sum(score.state == "undefined" for score in scores),
    )


def differences(runs: Sequence[EvaluatedRun]) -> list[Difference]:
    """Every pair of runs in every metric that both have a score for, the better one first.

    Over the questions that both score: a bootstrap of the paired differences (Efron and
    Tibshirani, 1993, chapter 8) is not disturbed by hard questions being hard for all. The
    intervals of all pairs in a metric hold together with 95%.
    """
    found: list[Difference] = []
    comparisons = len(runs) * (len(runs) - 1) // 2
    for place, one in enumerate(runs):
        for other in runs[place + 1 :]:
            for metric in METRICS:
                pairs = _paired(metric, one, other)
                if not pairs:
                    continue
                mean, low, high = paired_difference(
                    [pair[0] for pair in pairs],
                    [pair[1] for pair in pairs],
                    comparisons=comparisons,
                )
                better, worse = one.name, other.name
                if mean < 0:
                    better, worse, mean, low, high = worse, better, -mean, -high, -low
                found.append(Difference(metric, better, worse, mean, (low, high), len(pairs)))
    return found


def _paired(metric: str, one: EvaluatedRun, other: EvaluatedRun) -> list[tuple[float, float]]:
    return [
        (first.scores[metric].value, second.scores[metric].value)  # type: ignore[misc]
        for first, second in zip(one.scored, other.scored, strict=True)
        if metric in first.scores
        and metric in second.scores
        and first.scores[metric].value is not None
        and second.scores[metric].value is not None
    ]


def _response(value: dict[str, object]) -> Response:
    contexts = value["contexts"]
    return Response(
        answer=str(value["answer"]),
        contexts=tuple(Context(**context) for context in contexts),  # type: ignore[attr-defined]
        seconds=value["seconds"],  # type: ignore[arg-type]
    )


class _Steps:
    """Tells progress with the time left, by what the steps so far have really cost."""

    def __init__(self, total: int, progress: Clock) -> None:
        self._total = total
        self._progress = progress
        self._spent = 0.0
        self._paid = 0
        self._done = 0
        progress(0, total, None)

    def done(self, seconds: float) -> None:
        """One more step; a step from the store (about no time) says nothing about the rest."""
        self._done += 1
        if seconds > 0.05:
            self._spent += seconds
            self._paid += 1
        mean = self._spent / self._paid if self._paid else None
        left = None if mean is None else mean * (self._total - self._done)
        self._progress(self._done, self._total, left)
