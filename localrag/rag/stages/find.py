"""Find passages, those of the version in force first."""

from __future__ import annotations

from localrag.rag.pipeline import AnswerRun, Pieces


def find(run: AnswerRun) -> Pieces:
    """Search, unless no documents are needed."""
    if run.needed:
        run.passages = yield from run.tools.find(run.question)
