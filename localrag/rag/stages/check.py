"""Check what was written against its passages, and show it where that had to wait."""

from __future__ import annotations

from dataclasses import replace

from localrag.rag.citations import with_citation
from localrag.rag.faithfulness import Passages, asking, checked
from localrag.rag.pipeline import AnswerRun, Pieces
from localrag.rag.refusals import refuses
from localrag.rag.statements import uncited, without_unsupported, words
from localrag.types import Statement


def check(run: AnswerRun) -> Pieces:
    """Rate the statements; what has no support is marked or removed.

    Raises `GenerationError` from the model.
    """
    evidence, answer, shown = run.evidence, run.statements, run.unsupported == "mark"
    if evidence is None or not answer:
        return
    if refuses(words(answer)):
        run.statements, run.conflicts = uncited(answer), None
        if not shown:
            yield from run.statements
        return
    question, chunks, tools = run.question, run.passages, run.tools
    passages = Passages(question, chunks, tools.tokenize)
    ask = asking(question, evidence, answer, chunks, tools, run.grader, run.unsupported)
    answer = yield from checked(answer, passages, ask)
    if not shown:
        strict = run.unsupported == "remove unchecked"
        answer = without_unsupported(answer, unchecked=strict)
        if strict:
            answer = with_citation(answer, run.attributor, evidence.numbers)
        yield from answer
    elif answer[-1].rating not in (None, "no support"):
        cited = with_citation(answer, run.attributor, evidence.numbers)
        if cited is not answer:
            yield Statement("", citations=(replace(cited[-1].citations[-1], at=0),))
        answer = cited
    run.statements = answer
