"""What a metric is: its name, what it needs, and how it is computed for one answered question.

Choosing metrics, the estimate of time, reports, the table and the JSON all take a metric from
`scoring.METRICS`; nothing else has to know a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from localrag.evaluation.dataset import Context, Sample
from localrag.evaluation.judging.judgements import Judged, Judgement
from localrag.languages import LanguageCode
from localrag.text.language import answer_language

if TYPE_CHECKING:
    from localrag.evaluation.judging.judge import Judge
    from localrag.models.embeddings.base import Embedder

Need = Literal[
    "answer",  # one that is no refusal
    "answerable",  # the documents hold an answer, or it is not known whether they do
    "answerability",  # it is known whether they do
    "reference",
    "contexts",
    "judge",
    "embedder",
]
Missing = Literal["undefined", "unreadable"]
"""Why there is no value: the metric means nothing there, or a verdict could not be read."""
State = Literal["scored", Missing]


@dataclass(frozen=True, slots=True)
class Score:
    """The value of a metric for one question; None where `state` says why there is none."""

    value: float | None
    state: State


@dataclass(frozen=True, slots=True)
class Response:
    """What a pipeline gave for a question; `seconds` is what that took, None where not known."""

    answer: str
    contexts: tuple[Context, ...] | None
    seconds: float | None = None


@dataclass(slots=True)
class JudgeEvidence:
    """What the judge found on the way; `asked` are the questions made from the answer.

    `cited` says of each sentence of the answer whether what it cites bears it out.
    """

    statements: tuple[Judged, ...] = ()
    reference: tuple[Judged, ...] = ()
    contexts: tuple[Judged, ...] = ()
    citations: tuple[Judged, ...] = ()
    cited: tuple[bool | None, ...] | None = None
    asked: tuple[tuple[str, float], ...] = ()
    evasive: Judgement | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """One answered question. What the judge finds is kept in `evidence`, for the reader."""

    sample: Sample
    response: Response
    refused: bool
    given_judge: Judge | None = None
    given_embedder: Embedder | None = None
    evidence: JudgeEvidence = field(default_factory=JudgeEvidence)

    @property
    def judge(self) -> Judge:
        """For metrics that need it."""
        assert self.given_judge is not None, "the metric does not say that it needs it"  # noqa: S101
        return self.given_judge

    @property
    def embedder(self) -> Embedder:
        """For metrics that need it: compares questions."""
        assert self.given_embedder is not None, "the metric does not say that it needs it"  # noqa: S101
        return self.given_embedder

    @property
    def texts(self) -> list[str]:
        """Of the contexts, best first."""
        return [context.text for context in self.response.contexts or ()]

    @property
    def language(self) -> LanguageCode:
        """In which the judge is asked."""
        return answer_language(self.sample.question)


@dataclass(frozen=True, slots=True)
class Workload:
    """About how much there is to judge for one question.

    `statements` are those of the answer, `references` those of the reference answer; `tokens`
    those of all `passages` together. `reasons`: the judge says why it finds against a statement.
    """

    tokens: float
    passages: int
    statements: int
    references: int
    reasons: bool


Compute = Callable[[Case], float | Missing]
Cost = Callable[[Workload], tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Metric:
    """A score for one question, higher is better.

    `compute` is only called where all that it `needs` is there; elsewhere it is undefined.
    `cost` gives about the tokens that the judge reads and writes for it; what several metrics
    share is paid for once. `trusted_as`: the metric of the labelled set that is judged in the same
    way, "" where there is none. `formerly`: its name in the last release.
    """

    name: str
    needs: tuple[Need, ...]
    compute: Compute
    cost: Cost | None = None
    trusted_as: str = ""
    formerly: str = ""

    @property
    def title(self) -> str:
        """What it is called; messages have its translations."""
        return self.name.replace("_", " ")

    def score(self, case: Case) -> Score:
        """Its score. Raises `GenerationError` from the judge."""
        is_scorable = all(_GIVEN[need](case) for need in self.needs)
        value = self.compute(case) if is_scorable else "undefined"
        return Score(None, value) if isinstance(value, str) else Score(value, "scored")


def metric(
    *needs: Need,
    cost: Cost | None = None,
    trusted_as: str = "",
    formerly: str = "",
) -> Callable[[Compute], Metric]:
    """Makes a metric of the function that computes it, by the function's name."""
    return lambda compute: Metric(compute.__name__, needs, compute, cost, trusted_as, formerly)


_GIVEN: Mapping[Need, Callable[[Case], bool]] = {
    "answer": lambda case: not case.refused,
    "answerable": lambda case: case.sample.answerable is not False,
    "answerability": lambda case: case.sample.answerable is not None,
    "reference": lambda case: bool(case.sample.reference),
    "contexts": lambda case: case.response.contexts is not None,
    "judge": lambda case: case.given_judge is not None,
    "embedder": lambda case: case.given_embedder is not None,
}
