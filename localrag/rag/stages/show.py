"""Show the draft that was chosen, cited and without what has no support."""

from __future__ import annotations

from localrag.rag.citations import with_citation
from localrag.rag.pipeline import AnswerRun, Pieces
from localrag.rag.statements import without_unsupported
from localrag.types import citations_of


def show(run: AnswerRun) -> Pieces:
    """Show an answer at once, so that a reader may be shown it with its marks instead."""
    if run.evidence is None or run.conflicts is None:  # what was said then has been shown
        return
    if run.unsupported != "mark":
        run.statements = without_unsupported(run.statements)
    if run.conflicts.disagreement:
        run.contexts = run.passages
    if run.conflicts.disagreement or not citations_of(run.statements):
        run.statements = with_citation(run.statements, run.attributor, run.evidence.numbers)
    yield from run.statements
