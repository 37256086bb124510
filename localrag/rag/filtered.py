"""Answers over a part of the library."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from localrag.errors import UsageError
from localrag.prompts import render
from localrag.text.language import answer_language
from localrag.types import Answer, Step


def nothing_allowed(question: str, steps: Sequence[Step]) -> Iterator[str | Answer]:
    """What is said where a filter leaves nothing; no model is loaded for it.

    Raises `UsageError` for an empty question.
    """
    if not question.strip():
        raise UsageError("The question is empty.", hint="Ask something, in quotes.")
    language = answer_language(question)
    text = render("nothing_allowed", language)
    yield text
    yield Answer(
        question=question,
        text=text,
        language=language,
        grounded=False,
        citations=(),
        contexts=(),
        trace=tuple(steps),
        seconds=sum(step.seconds for step in steps),
    )


def with_steps(answer: Answer, steps: Sequence[Step]) -> Answer:
    """The answer with what was done on the way to its passages, each second counted once."""
    within = sum(step.seconds for step in steps if step.kind == "expand")
    trace = [
        replace(step, seconds=max(0.0, step.seconds - within)) if step.kind == "retrieve" else step
        for step in answer.trace
    ]
    return replace(answer, trace=(*steps, *trace))
