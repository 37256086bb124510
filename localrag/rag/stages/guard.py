"""Guard an answer against what a document says to the model: it is written again without that."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from localrag.rag.budget import Budget
from localrag.rag.pipeline import AnswerRun, AnswerStage, Pieces
from localrag.rag.untrusted import UntrustedPassages, refused
from localrag.types import Statement, Step


@dataclass(frozen=True, slots=True)
class InstructionGuard:
    """Runs stages, and once more where their answer followed a document's words.

    Also where they refused and a passage that was read could have made them. The second run gets
    what is left of `budget` seconds; 0: no limit.
    """

    stages: Sequence[AnswerStage]
    budget: float = 0.0

    def __call__(self, run: AnswerRun) -> Pieces:
        """Statements are held back where a passage could steer the model.

        Raises `GenerationError` from the model.
        """
        started = time.perf_counter()
        passages = UntrustedPassages(run.tools, run.grader)
        tools = replace(run.tools, retrieve=passages.retrieve, place_of=passages.place_of)
        first, pending = replace(run, tools=tools), list[Statement]()
        with closing(first.through(self.stages)) as pieces:
            for piece in pieces:
                if passages.suspicious and isinstance(piece, Statement):
                    pending.append(piece)
                else:
                    yield piece
        run.answer, run.pointed = first.answer, first.pointed
        if not passages.suspicious:
            return
        unanswered = refused(run.answer)
        followed = () if unanswered else passages.followed(run.answer)
        spent = time.perf_counter() - started
        seen = first.reader.seen if first.reader else None
        may_be_steered = unanswered and passages.steer(seen)
        hopeless = not followed and (not may_be_steered or 0 < self.budget <= spent)
        if hopeless or not passages.leave_out(run.question, followed):
            yield from pending
            return
        rest = max(0.1, self.budget - spent) if self.budget else 0.0
        second = replace(run, tools=tools, budget=Budget(rest), pointed=())
        again = list(second.through(self.stages))
        if not followed and refused(second.answer):
            yield from pending
            return
        count = len(passages.left_out)
        yield Step("instructions", {"left_out": count}, None, 0.0, passages.left_out)
        # What was foreseen of it has passed.
        yield from (p for p in again if not (isinstance(p, Step) and p.kind == "cost"))
        run.answer, run.pointed = passages.finished(second.answer), second.pointed
