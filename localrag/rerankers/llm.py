"""Reranking by a language model that reads each passage and grades it from 0 to 10.

The scale (the rubric stands in `prompts/*/relevance_grade.txt`): 0-2 unrelated, 3-5 partly
related, 6-8 relevant and answering in part, 9-10 answering directly. The passage comes first
in the prompt, so that its state is re-used for the next question about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from localrag.documents.chunking import passage_text
from localrag.models.llms.base import LLM
from localrag.models.llms.choices import Chooser
from localrag.prompts import YES_NO, render
from localrag.rerankers.base import Tell, beginning, best, search_shares, unheard
from localrag.text.language import answer_language
from localrag.types import Message, Note, ScoredChunk

Grading = Literal["answerable", "expected"]
"""How a grade is read from the logits: 10 P(Yes) that the exact answer can be had from the
passage alone, or the expected value over the grades 0 to 10. The first separates better
(`benchmarks/reranking.md`)."""

HIGHEST = 10
SEARCH_PART = 1 / 3
"""What the search thought is this part of a passage's grade: a small model alone puts passages
first that the search had rightly put last (`benchmarks/reranking.md`)."""
GRADES = tuple(str(grade) for grade in range(HIGHEST + 1))
_OVERHEAD_TOKENS = 160
"""Kept free for the rules, the task, the chat template and the reply."""


class LLMReranker:
    """Grades every passage by itself with a language model; the search has its say in the grade.

    Read from the logits, a grade is one pass, nothing to parse, and finer than whole numbers.
    A model without them writes a whole number; where none can be found in what it wrote, the
    grade is ten times the score that the passage came with, and `tell` hears so.
    """

    def __init__(self, llm: LLM, chooser: Chooser, *, grading: Grading = "answerable") -> None:
        self._llm = llm
        self._chooser = chooser
        self._grading = grading

    def rerank(
        self, query: str, chunks: Sequence[ScoredChunk], k: int, tell: Tell = unheard
    ) -> list[ScoredChunk]:
        """At most k of `chunks`, best first, with grades from 0 to 10; ties by chunk id."""
        grades = [self._grade(query, chunk) for chunk in chunks]
        if unread := sum(grade is None for grade in grades):
            tell(Note("grades unread", {"unread": unread, "total": len(chunks)}))
        scores = [
            (1 - SEARCH_PART) * (HIGHEST * min(max(chunk.score, 0.0), 1.0) if own is None else own)
            + SEARCH_PART * HIGHEST * share
            for chunk, own, share in zip(chunks, grades, search_shares(chunks), strict=True)
        ]
        return best(chunks, scores, k)

    def _grade(self, query: str, chunk: ScoredChunk) -> float | None:
        """The model's own grade, 0 to 10; None where its reply has none."""
        if self._grading == "answerable" and self._chooser.reads_logits:
            choices = YES_NO[answer_language(query)]
            messages = self.messages(query, chunk, "relevance")
            return HIGHEST * self._chooser.choose(messages, choices, keep=1)[0]
        messages = self.messages(query, chunk, "relevance_grade")
        choice = self._chooser.choose(messages, GRADES, keep=1)
        return float(choice.probabilities @ np.arange(HIGHEST + 1)) if choice.read else None

    def messages(self, query: str, chunk: ScoredChunk, task: str) -> list[Message]:
        """The passage with its rules as a message of its own, then the question and the task."""
        language = answer_language(query)
        room = self._llm.context_window - _OVERHEAD_TOKENS - self._llm.count_tokens(query)
        passage = beginning(passage_text(chunk.chunk), room, self._llm.count_tokens)
        return [
            Message("system", render("relevance_system", language, passage=passage)),
            Message("user", render(task, language, question=query.strip())),
        ]
