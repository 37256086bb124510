"""How long an evaluation will take, said before it starts."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from localrag.evaluation.dataset import Sample
from localrag.evaluation.judging.statements import sentences
from localrag.models.llms.base import LLM, Options
from localrag.types import Message

# Tokens of the judge's prompts beside the text they are about, counted with the starter model.
_STATEMENT, _REWRITE, _USEFUL, _EVASIVE, _ASKED = 80, 260, 190, 170, 210
# Tokens that it writes.
_REWRITTEN, _QUESTIONS, _REASON = 45, 70, 30
_REWRITE_SHARE, _AGAINST_SHARE = 0.6, 0.3
"""Of all statements: made by the model rather than taken as they are; found not supported."""
_ANSWER_PROMPT, _ANSWER, _ANSWER_SENTENCES = 150, 80, 2
_GRADE = 90
"""Tokens of a passage's grade, beside the passage."""

_SAMPLE_TEXT = (
    "A mill grinds corn between two stones, of which only the upper one turns. "
    "磨坊用两块石头磨谷物，其中只有上面的一块转动。"
)


@dataclass(frozen=True, slots=True)
class Speed:
    """Tokens per second when reading a prompt and when writing."""

    reading: float
    writing: float


def measure_speed(llm: LLM, clock: Callable[[], float] = time.perf_counter) -> Speed:
    """Two short calls: one that reads, one that reads the same again and writes."""
    messages = [Message("user", _SAMPLE_TEXT * 6)]
    llm.complete([Message("user", "1")], Options(max_tokens=1))  # weights come from disk
    started = clock()
    read = llm.complete(messages, Options(max_tokens=1)).prompt_tokens
    reading = max(clock() - started, 1e-6)
    started = clock()
    written = llm.complete(messages, Options(max_tokens=24)).completion_tokens
    writing = max(clock() - started, 1e-6)
    return Speed(max(read, 1) / reading, max(written, 1) / writing)


def rough_tokens(text: str) -> int:
    """About as many tokens as a language model makes of it: four letters or 1.4 characters."""
    wide = sum(1 for character in text if ord(character) > 0x2E7F)
    return round(wide / 1.4 + (len(text) - wide) / 4)


def estimate_seconds(
    samples: Sequence[Sample],
    speed: Speed,
    *,
    passages: int,
    passage_tokens: int,
    graded: int = 0,
    judged: bool,
    reasons: bool,
) -> float:
    """Seconds for one configuration where nothing is remembered from an earlier run.

    Where a sample brings no contexts, `passages` of `passage_tokens` each are reckoned with, and
    `graded` passages that the model reads one by one before it answers.
    """
    reading = writing = 0.0
    for sample in samples:
        number = passages if sample.contexts is None else len(sample.contexts)
        texts = passages * passage_tokens
        if sample.contexts is not None:
            texts = sum(rough_tokens(context.text) for context in sample.contexts)
        spoken = _ANSWER_SENTENCES
        if sample.answer is None:
            reading += texts + _ANSWER_PROMPT + graded * (passage_tokens + _GRADE)
            writing += _ANSWER
        else:
            spoken = len(sentences(sample.answer))
        if not judged:
            continue
        references = len(sentences(sample.reference)) if sample.answerable is not False else 0
        statements = spoken + references
        reading += texts + statements * (_STATEMENT + _REWRITE_SHARE * _REWRITE)
        reading += spoken * (_STATEMENT + texts / max(number, 1))  # citations
        writing += statements * _REWRITE_SHARE * _REWRITTEN
        reading += _EVASIVE + _ASKED
        writing += _QUESTIONS
        if references:
            reading += texts + number * references * _USEFUL
        if reasons:
            reading += statements * _AGAINST_SHARE * _STATEMENT
            writing += statements * _AGAINST_SHARE * _REASON
    return reading / speed.reading + writing / speed.writing
