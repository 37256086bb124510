"""Understand what is asked for: facts of documents, or a greeting, a poem, a sum."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from localrag.rag.base import timed
from localrag.rag.grading import Grade
from localrag.rag.pipeline import AnswerRun, Pieces
from localrag.rag.relevance import is_close
from localrag.types import Plain

SURELY_NOT = 0.01
"""Probability of a request for facts below which it is a greeting, a poem or a sum: none about
documents came below, so what is only similar in them does not count."""


@dataclass(frozen=True, slots=True)
class RetrievalDecision:
    """Decides whether documents are needed: always, if an answer is to be `strict`."""

    min_retrieval: float
    strict: bool

    def __call__(self, run: AnswerRun) -> Pieces:
        """Raises `GenerationError` from the model."""
        if self.strict:
            yield run.step("retrieval decision", strict=True)
            return
        ask = partial(run.grader.needs_documents, run.question, run.language)
        grade, seconds = timed(ask)
        run.needed = grade.value >= self.min_retrieval
        close: dict[str, Plain] = {}
        if not run.needed:  # for the model, "May I smoke in the room?" is small talk
            run.needed, looking = timed(partial(_is_close, run, grade))
            seconds += looking
            close = {"close": True} if run.needed else {}
        yield run.graded("retrieval decision", grade, seconds, needed=run.needed, **close)


def _is_close(run: AnswerRun, grade: Grade) -> bool:
    """Whether the documents have something close to what the model would answer alone."""
    tools, question = run.tools, run.question
    question_words, passages = tools.asked(question), tools.retrieve(question, tools.k)
    unsure = grade.value >= SURELY_NOT or not run.grader.reads_logits
    return is_close(question_words, passages, tools.embedder, by_meaning=unsure)
