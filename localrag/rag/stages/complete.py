"""Complete the answer: the other side, the parts that are missing, a refusal without any."""

from __future__ import annotations

from localrag.rag import parts
from localrag.rag.base import finished
from localrag.rag.pipeline import AnswerRun, Pieces
from localrag.rag.refusals import refuses
from localrag.rag.statements import is_grounded, own_sentence, without_quotation, words


def complete(run: AnswerRun) -> Pieces:
    """Add what the passages say besides and what they do not hold, and make the answer."""
    statements, missing = run.statements, run.missing
    if run.conflicts is not None and run.conflicts.disagreement:
        added = run.conflicts.added(statements, run.attributor.cite)
        yield from added
        statements = (*statements, *added)
    if not statements and run.grounded is None:
        statements = (own_sentence("refusal", run.language),)
        yield from statements
    if refuses(words(without_quotation(statements))):
        missing = ()
    lacking = parts.lacking(missing, run.language)
    yield from lacking
    run.answer = finished(
        run.question,
        (*statements, *lacking),
        run.passages if run.contexts is None else run.contexts,
        grounded=is_grounded(statements) if run.grounded is None else run.grounded,
        metrics=run.metrics,
        missing=missing,
    )
