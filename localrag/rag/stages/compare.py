"""Compare what was read with the other passages: both sides are told where they disagree."""

from __future__ import annotations

from dataclasses import replace

from localrag.rag.both_sides import ConflictReporter
from localrag.rag.pipeline import AnswerRun, Pieces
from localrag.rag.reading import Evidence


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
    run.evidence = _with_conflicts(run, run.evidence, run.conflicts)


def _with_conflicts(run: AnswerRun, evidence: Evidence, conflicts: ConflictReporter) -> Evidence:
    """The evidence with the passage in force, and with what the passages differ in."""
    if run.reader is None:
        return evidence
    newest = conflicts.newest(evidence.numbers)
    if newest and evidence.keep and len(evidence.numbers) == 1:
        evidence = run.reader.alone(run.question, newest, run.passages, run.language)
    return replace(evidence, messages=conflicts.with_note(evidence.messages))
