"""Reranking by a language model that reads each passage and grades it from 0 to 10.

The scale (the rubric stands in `prompts/*/relevance_grade.txt`): 0-2 unrelated, 3-5 partly
related, 6-8 relevant and answering in part, 9-10 answering directly. The passage comes first
in the prompt, so that its state is re-used for the next question about it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Literal

from localrag.chunking import passage_text
from localrag.llms.base import LLM, ChoiceScorer, Message, Options
from localrag.messages import tr
from localrag.prompts import YES_NO, render
from localrag.rerankers.base import Say, best, search_shares
from localrag.text.language import answer_language
from localrag.types import ScoredChunk

Grading = Literal["answerable", "expected"]
"""How a grade is read from the logits: 10 P(Yes) that the exact answer can be had from the
passage alone, or the expected value over the grades 0 to 10. The first separates better
(`benchmarks/reranking.md`)."""

HIGHEST = 10
SEARCH_PART = 1 / 3
"""What the search thought is this part of a passage's grade: a small model alone puts passages
first that the search had rightly put last (`benchmarks/reranking.md`)."""
GRADES = tuple(str(grade) for grade in range(HIGHEST + 1))
SCHEMA = {
    "type": "object",
    "properties": {"relevance": {"type": "integer", "enum": list(range(HIGHEST + 1))}},
    "required": ["relevance"],
    "additionalProperties": False,
}

_REPLY_TOKENS = 24
_OVERHEAD_TOKENS = 160
"""Kept free for the rules, the task, the chat template and the reply."""
_NUMBER = re.compile(r"(?<![\d.,/-])(\d{1,2})(?![\d]|[.,]\d)")


class LLMReranker:
    """Grades every passage by itself with a language model; the search has its say in the grade.

    With a `scorer` the grade is read from the probabilities of the allowed answers: one
    pass, nothing to parse, and finer than whole numbers. Without one the model writes a
    grade, held to a JSON schema where its server knows how; where no number can be found
    in what it wrote, the grade is ten times the score that the passage came with, and
    `tell` is told.
    """

    def __init__(
        self,
        llm: LLM,
        scorer: ChoiceScorer | None,
        tell: Say,
        *,
        grading: Grading = "answerable",
    ) -> None:
        self._llm = llm
        self._scorer = scorer
        self._tell = tell
        self._grading = grading

    def rerank(self, query: str, chunks: Sequence[ScoredChunk], k: int) -> list[ScoredChunk]:
        """At most k of `chunks`, best first, with grades from 0 to 10; ties by chunk id."""
        scores = [
            (1 - SEARCH_PART) * grade + SEARCH_PART * HIGHEST * share
            for grade, share in zip(self._grades(query, chunks), search_shares(chunks), strict=True)
        ]
        return best(chunks, scores, k)

    def _grades(self, query: str, chunks: Sequence[ScoredChunk]) -> list[float]:
        """The model's own grade of each passage, 0 to 10."""
        if self._scorer is not None:
            scorer = self._scorer
            return [self._read(scorer, query, chunk) for chunk in chunks]
        grades = [self._write(query, chunk) for chunk in chunks]
        unread = sum(grade is None for grade in grades)
        if unread:
            self._tell(
                tr(
                    "The model gave no grade for {count} of {all} passages; "
                    "their similarity was used instead.",
                    count=unread,
                    all=len(chunks),
                )
            )
        return [
            HIGHEST * min(max(chunk.score, 0.0), 1.0) if grade is None else float(grade)
            for grade, chunk in zip(grades, chunks, strict=True)
        ]

    def _read(self, scorer: ChoiceScorer, query: str, chunk: ScoredChunk) -> float:
        """The grade by the probabilities of the allowed answers, 0 to 10."""
        if self._grading == "answerable":
            messages = self.messages(query, chunk, "relevance")
            choices = YES_NO[answer_language(query)]
            return HIGHEST * float(scorer.score_choices(messages, choices, keep=1)[0])
        messages = self.messages(query, chunk, "relevance_grade")
        weights = scorer.score_choices(messages, GRADES, keep=1)
        return float(sum(grade * weight for grade, weight in enumerate(weights)))

    def _write(self, query: str, chunk: ScoredChunk) -> int | None:
        """The grade that the model writes, or None where there is none in its reply."""
        messages = self.messages(query, chunk, "relevance_grade")
        reply = self._llm.complete(messages, Options(max_tokens=_REPLY_TOKENS, schema=SCHEMA))
        return grade_in(reply.text)

    def messages(self, query: str, chunk: ScoredChunk, task: str) -> list[Message]:
        """The passage with its rules as a message of its own, then the question and the task."""
        language = answer_language(query)
        room = self._llm.context_window - _OVERHEAD_TOKENS - self._llm.count_tokens(query)
        passage = self._cut(passage_text(chunk.chunk), room)
        return [
            Message("system", render("relevance_system", language, passage=passage)),
            Message("user", render(task, language, question=query.strip())),
        ]

    def _cut(self, text: str, tokens: int) -> str:
        """The beginning of `text` that has at most so many tokens, and some of it always."""
        while (count := self._llm.count_tokens(text)) > tokens and len(text) > 1:
            text = text[: max(1, min(len(text) - 1, len(text) * max(tokens, 0) // count))]
        return text


def grade_in(reply: str) -> int | None:
    """The grade from 0 to 10 in what a model wrote: as JSON, else the first such number."""
    try:
        value = json.loads(reply)
    except ValueError:
        value = None
    if isinstance(value, dict):
        value = value.get("relevance")
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= HIGHEST:
        return value
    for number in _NUMBER.findall(reply):
        if int(number) <= HIGHEST:
            return int(number)
    return None
