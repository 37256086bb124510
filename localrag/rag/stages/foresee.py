"""Foresee how long reading and writing will take, from what is kept and how fast the model is."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from localrag.rag.budget import seconds_spent
from localrag.rag.grading import Reading, as_known, relevance_prompt
from localrag.rag.pipeline import AnswerRun, Pieces
from localrag.rag.relevance import MOST_WORDS
from localrag.types import Step


@dataclass(frozen=True, slots=True)
class CostForecast:
    """Tells how many seconds are to come before passages are read, where that is known.

    At least the first passage is read and answers; at most `passages` are (0: all that were
    found) and `answers` are written, each with so many `checks`: questions of the model about it.
    What is done where the passages do not hold the answer is not foreseen.
    """

    passages: int = 0
    answers: int = 1
    checks: int = 1

    def __call__(self, run: AnswerRun) -> Pieces:
        """One step at most; asks the model nothing."""
        meter, chunks = run.tools.meter, run.passages[: self.passages or None]
        pace = None if meter is None else meter.pace
        if meter is None or pace is None or not chunks:
            return
        started = time.perf_counter()
        readings = [Reading(run.language, (chunk,)) for chunk in chunks]
        prompts = [run.grader.relevance_messages(run.question, reading) for reading in readings]
        uses = [meter.prompt_use(prompt, keep=1) for prompt in prompts]
        # Behind a passage that was read there is only a task, about as long as this one.
        task_text = relevance_prompt(run.question, readings[0])[-1].content
        task = run.tools.llm.count_tokens(task_text) / pace.prefill
        answer = (1 + self.checks) * task + pace.reply / pace.decode
        words = 0.0
        if not run.grader.is_probed:
            lacks, _ = run.tools.asked(run.question).missing(as_known(chunks[0]))
            words = len(lacks[:MOST_WORDS]) * task
        least = uses[0].read / pace.prefill + words + answer
        most = sum(use.read for use in uses) / pace.prefill + words + self.answers * answer
        spent = seconds_spent(meter)
        spent["kept"] = round(sum(use.kept for use in uses) / pace.prefill, 1)
        left = run.budget.seconds_left
        if not math.isinf(left):
            most = max(least, min(most, left))
            spent["budget"] = round(left, 1)
        values = {**spent, "least": round(least, 1), "most": round(most, 1)}
        yield Step("cost", values, None, time.perf_counter() - started)
