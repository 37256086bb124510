"""A model is asked about the labelled questions, as it is when it answers."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

from localrag.errors import UsageError
from localrag.evaluation.grades.fitting import GradedCase, measured
from localrag.evaluation.grades.questions import GradingCase
from localrag.models.llms.choices import Chooser
from localrag.prompts.own import Wording
from localrag.rag.calibration import Calibration
from localrag.rag.grading import Grade, Grader, Reading
from localrag.rag.reading import gate_prompt
from localrag.types import Chunk, ScoredChunk


def grade(
    cases: Sequence[GradingCase], chooser: Chooser, wording: Wording, done: Callable[[], None]
) -> Iterator[GradedCase]:
    """The cases with the model's own grades; `done` is called after each.

    Raises `UsageError` for a model that shows no logits.
    """
    if not chooser.reads_logits:
        raise UsageError(
            "This model shows no probabilities, so its grades cannot be calibrated.",
            hint="Calibrate a GGUF model on this machine.",
        )
    grader = Grader(chooser)
    for case in cases:
        yield GradedCase(case, _grade(case, grader, wording).value)
        done()


def calibration(model: str, key: str, samples: Sequence[GradedCase]) -> Calibration:
    """What the graded cases say of each kind of grade in each language."""
    kinds = dict.fromkeys((sample.case.graded, sample.case.language) for sample in samples)
    return Calibration(
        model,
        key,
        tuple(
            measured(
                graded,
                language,
                [
                    sample
                    for sample in samples
                    if (sample.case.graded, sample.case.language) == (graded, language)
                ],
            )
            for graded, language in sorted(kinds)
        ),
    )


def _grade(case: GradingCase, grader: Grader, wording: Wording) -> Grade:
    chunks = tuple(_passage(text) for text in case.passages)
    if case.graded == "relevance":
        return grader.relevance(case.question, Reading(case.language, chunks))
    messages = gate_prompt(wording, case.question, chunks, case.language)
    return grader.answerable(messages, case.language)


def _passage(text: str) -> ScoredChunk:
    """A passage without a document around it."""
    number = random.Random(text).getrandbits(62)  # noqa: S311
    return ScoredChunk(Chunk(number, "", 0, text, "", 1, 1, 0, len(text)), 1.0, "")
