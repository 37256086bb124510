"""Check what was written against its passages, and show it where that had to wait.

What a small model writes is right less often than the sentence closest to question and answer: of
110 answers to made-up questions 66 had the figures asked for, and these sentences of 84. So where
no statement is surely supported, that sentence is quoted behind it: of 56 answers to questions of
others it is for 14, of which 6 were right, and 10 with it
(`benchmarks/log/2026-11.md`, 2026-11-28, "the document's own sentence").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from localrag.rag.citations import closest_statement, with_citation
from localrag.rag.faithfulness import Passages, asking, checked
from localrag.rag.pipeline import AnswerRun, Pieces
from localrag.rag.refusals import refuses
from localrag.rag.statements import uncited, without_unsupported, words
from localrag.types import Citation, Statement


def check(run: AnswerRun) -> Pieces:
    """Rate the statements; what has no support is marked or removed.

    Raises `GenerationError` from the model.
    """
    evidence, answer, marks_unsupported = run.evidence, run.statements, run.unsupported == "mark"
    if evidence is None or not answer:
        return
    if refuses(words(answer)):
        run.statements, run.conflicts = uncited(answer), None
        if not marks_unsupported:
            yield from run.statements
        return
    question, chunks, tools = run.question, run.passages, run.tools
    numbers = evidence.numbers

    pointed = [(sentence.text, sentence.citation) for sentence in run.pointed]

    def closest(statement: str) -> Sequence[tuple[str, Citation]]:
        # Measured of answers that are shown; what decides whether one is goes by the model.
        if not marks_unsupported:
            return ()
        text = f"{question} {statement}"
        return [*pointed, *run.attributor.nearest_sentences(numbers, text, 1)]

    passages = Passages(question, chunks, tools.tokenize, closest)
    ask = asking(question, evidence, answer, chunks, tools, run.grader, run.unsupported)
    answer = yield from checked(answer, passages, ask)
    if not marks_unsupported:
        strict = run.unsupported == "remove unchecked"
        answer = without_unsupported(answer, unchecked=strict)
        if strict:
            answer = with_citation(answer, run.attributor, numbers)
        yield from answer
        run.statements = answer
        return
    if answer[-1].rating not in (None, "no support"):
        cited = with_citation(answer, run.attributor, numbers)
        if cited is not answer:
            yield Statement("", citations=(replace(cited[-1].citations[-1], at=0),))
        answer = cited
    ratings = {statement.rating for statement in answer} - {None}
    has_dispute = run.conflicts is not None and run.conflicts.disagreement is not None
    if ratings and "fully supported" not in ratings and not has_dispute:
        nearest = pointed or run.attributor.nearest_sentences(
            numbers, f"{question} {words(answer)}", 1
        )
        quotation = closest_statement(answer, nearest, question)
        if quotation is not None:
            yield quotation
            answer = (*answer, quotation)
    run.statements = answer
