"""Compare what was read with the other passages: both sides are told where they disagree."""

from __future__ import annotations

from localrag.rag.both_sides import ConflictReporter
from localrag.rag.pipeline import AnswerRun, Pieces


def compare(run: AnswerRun) -> Pieces:
    """Find what the passages differ in, where there is something to answer from."""
    if run.evidence is None:
        return
    run.conflicts = ConflictReporter.among(
        run.question,
        run.passages,
        run.evidence.numbers,
        run.language,
        run.tools,
        numbered=not run.evidence.keep,
    )
    yield from run.conflicts.steps
