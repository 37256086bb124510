"""Point to the sentences of the evidence that answer."""

from __future__ import annotations

from localrag.rag.pipeline import AnswerRun, Pieces
from localrag.rag.pointing import pointed


def point(run: AnswerRun) -> Pieces:
    """Find them where one passage answers. Raises `BackendError` from the model."""
    evidence = run.evidence
    if evidence is None or not evidence.keep or len(evidence.numbers) != 1:
        return
    (number,) = evidence.numbers
    run.pointed = yield from pointed(
        run.question, number, run.passages, run.attributor, run.grader, run.language
    )
