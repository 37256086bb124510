"""Evaluating a pipeline on a data set: answers first, then scores."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, copy_context
from dataclasses import asdict

import msgspec

from localrag.evaluation.call_cache import CallCache, key_of
from localrag.evaluation.dataset import Sample
from localrag.evaluation.metric import Response
from localrag.evaluation.results import EvaluatedRun
from localrag.evaluation.scoring import Scored, Scorer

OnProgress = Callable[[int, int, float | None], None]
"""Hears how many steps are done, of how many, and the seconds left, None while not known."""


def given(sample: Sample) -> Response | None:
    """What the data set brings, None where an answer or its contexts must be produced."""
    if sample.answer is None or sample.contexts is None:
        return None
    return Response(sample.answer, sample.contexts)


def produce_answers(
    samples: Sequence[Sample],
    answer: Callable[[Sample], Response],
    cache: CallCache,
    identity: str,
    progress: OnProgress,
) -> list[Response]:
    """What the data set brings for each sample, else what `answer` gives for it.

    `identity` stands for everything that answers depend on: settings, weights, documents.
    """
    responses: list[Response] = []
    steps = TimeLeft(len(samples), progress)
    for sample in samples:
        key = key_of("answer", identity, sample.question, sample.answer)
        response = given(sample)
        if response is None and (entry := cache.get(key)) is not None:
            response = msgspec.convert(entry[0], Response)
        if response is None:
            started = time.perf_counter()
            response = answer(sample)
            cache.put(key, asdict(response), time.perf_counter() - started)
        responses.append(response)
        steps.done()
    return responses


def score_answers(
    name: str,
    samples: Sequence[Sample],
    responses: Sequence[Response],
    scorer: Scorer,
    progress: OnProgress,
    *,
    workers: int = 1,
) -> EvaluatedRun:
    """Score all responses; `workers` at a time where the judge serves several at once."""
    steps = TimeLeft(len(samples), progress)

    def score(own: Context, sample: Sample, response: Response) -> tuple[Scored, float]:
        started = time.monotonic()
        return own.run(scorer.score, sample, response), time.monotonic() - started

    scored: list[Scored] = []
    with ThreadPoolExecutor(workers) as pool:
        # With the context, one for each: for whom a library is asked stands there.
        own = [copy_context() for _ in samples]
        at_once = pool.map if workers > 1 else map
        for result, seconds in at_once(score, own, samples, responses):
            scored.append(result)
            steps.done(seconds / workers)
    return EvaluatedRun(name, tuple(scored))


class TimeLeft:
    """Tells progress with the time left, by what the steps so far have really cost."""

    def __init__(
        self, total: int, progress: OnProgress, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._total = total
        self._progress = progress
        self._clock = clock
        self._spent = 0.0
        self._paid = self._done = 0
        progress(0, total, None)
        self._last = clock()

    def done(self, seconds: float | None = None) -> None:
        """One more step, of so many seconds or of those since the last one.

        A step from the cache (about no time) says nothing about the rest.
        """
        now = self._clock()
        seconds, self._last = now - self._last if seconds is None else seconds, now
        self._done += 1
        if seconds > 0.05:
            self._spent += seconds
            self._paid += 1
        left = self._spent / self._paid * (self._total - self._done) if self._paid else None
        self._progress(self._done, self._total, left)
