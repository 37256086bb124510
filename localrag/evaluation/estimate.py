"""How long an evaluation will take, said before it starts."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from localrag.evaluation.dataset import Sample
from localrag.evaluation.judging.statements import sentences
from localrag.evaluation.metric import Workload
from localrag.evaluation.scoring import METRICS
from localrag.models.llms.base import LLM, Options
from localrag.types import Message

_ANSWER_PROMPT, _ANSWER, _ANSWER_SENTENCES = 150, 80, 2
PASSAGE_TOKENS = 190
"""Of the language model, in a passage of the default size."""
_GRADE = 90
"""Tokens of a passage's grade, beside the passage."""

_SAMPLE_TEXT = (
    "A mill grinds corn between two stones, of which only the upper one turns. "
    "磨坊用两块石头磨谷物，其中只有上面的一块转动。"
)


@dataclass(frozen=True, slots=True)
class JudgeSpeed:
    """Tokens per second when reading a prompt and when writing."""

    reading: float
    writing: float


def measure_speed(llm: LLM) -> JudgeSpeed:
    """Two short calls: one that reads, one that reads the same again and writes."""
    messages = [Message("user", _SAMPLE_TEXT * 6)]
    llm.complete([Message("user", "1")], Options(max_tokens=1))  # weights come from disk
    started = time.perf_counter()
    read = llm.complete(messages, Options(max_tokens=1)).prompt_tokens
    reading = max(time.perf_counter() - started, 1e-6)
    started = time.perf_counter()
    written = llm.complete(messages, Options(max_tokens=24)).completion_tokens
    writing = max(time.perf_counter() - started, 1e-6)
    return JudgeSpeed(max(read, 1) / reading, max(written, 1) / writing)


def rough_tokens(text: str) -> int:
    """About as many tokens as a language model makes of it: four letters or 1.4 characters."""
    wide = sum(1 for character in text if ord(character) > 0x2E7F)
    return round(wide / 1.4 + (len(text) - wide) / 4)


def estimate_seconds(
    samples: Sequence[Sample],
    speed: JudgeSpeed,
    *,
    passages: int,
    graded: int = 0,
    metrics: Iterable[str],
    reasons: bool,
) -> float:
    """Seconds for one configuration where nothing is remembered from an earlier run.

    Where a sample brings no contexts, so many `passages` are reckoned with, and `graded` passages
    that the model reads one by one before it answers.
    """
    costs = {cost for name in metrics if (cost := METRICS[name].cost)}
    reading = writing = 0.0
    for sample in samples:
        number, texts = passages, float(passages * PASSAGE_TOKENS)
        if sample.contexts is not None:
            number = len(sample.contexts)
            texts = sum(rough_tokens(context.text) for context in sample.contexts)
        statements = _ANSWER_SENTENCES
        if sample.answer is None:
            reading += texts + _ANSWER_PROMPT + graded * (PASSAGE_TOKENS + _GRADE)
            writing += _ANSWER
        else:
            statements = len(sentences(sample.answer))
        references = len(sentences(sample.reference)) if sample.answerable is not False else 0
        work = Workload(texts, number, statements, references, reasons)
        for read, written in (cost(work) for cost in costs):
            reading += read
            writing += written
    return reading / speed.reading + writing / speed.writing
