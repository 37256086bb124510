"""Check what was written against its passages, and show it where that had to wait.

What a small model writes is right less often than the sentence is that it wrote from: of 110
answers to made-up questions 66 had the figures asked for, and the sentences closest to question and
answer of 84. So where no statement is surely borne out, that sentence is told behind it. Of 64
answers to questions of others, which nothing was chosen on, 49 were right, and 55 with it
(`benchmarks/log/2026-11.md`, 2026-11-28, "the document's own sentence").
"""

from __future__ import annotations

from dataclasses import replace

from localrag.rag.citations import closest_statement, with_citation
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
        run.statements = answer
        return
    if answer[-1].rating not in (None, "no support"):
        cited = with_citation(answer, run.attributor, evidence.numbers)
        if cited is not answer:
            yield Statement("", citations=(replace(cited[-1].citations[-1], at=0),))
        answer = cited
    ratings = {statement.rating for statement in answer} - {None}
    if ratings and "fully supported" not in ratings:
        closest = closest_statement(answer, run.attributor, evidence.numbers, question)
        if closest is not None:
            yield closest
            answer = (*answer, closest)
    run.statements = answer
