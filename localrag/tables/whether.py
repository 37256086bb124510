"""Questions that a document answers by one of a few: read from the model's choice, not a text.

An answer that is written may say "it ends on its term" for no; and where a passage denies what is
asked, a model that grades passages takes it for no answer at all. So the model chooses among yes,
no (or the choices of a column) and unstated, passage by passage, and the sentence closest to the
question is quoted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from string import ascii_uppercase

from localrag.languages import LANGUAGES
from localrag.models.llms.choices import Chooser
from localrag.prompts import UNSTATED, YES_NO, render
from localrag.rag.citations import Attributor
from localrag.rag.grading import Reading
from localrag.tables.records import Reply
from localrag.text.instructions import left, may_steer
from localrag.text.language import answer_language
from localrag.types import ScoredChunk

PASSAGES = 3
"""Passages of a document that are read until one says yes or no."""
STATED = 0.5
"""The share of all answers but unstated from which on a passage says one of them."""
SURE = 0.75
"""The share of the likelier one from which on it is found; below, it is doubtful."""


def unsteered(hit: ScoredChunk) -> ScoredChunk | None:
    """A passage without the sentences that could steer a model; None where nothing else is left."""
    text = hit.chunk.text
    stays = "".join(text[start:end] for start, end in left(text, may_steer(text)))
    if not stays.strip():
        return None
    return replace(hit, chunk=replace(hit.chunk, text=stays, columns=())) if stays != text else hit


def decided(
    question: str,
    hits: Sequence[ScoredChunk],
    chooser: Chooser,
    attributor: Callable[[Sequence[ScoredChunk]], Attributor],
    choices: Sequence[str] = (),
) -> Reply:
    """One of the choices, or yes or no, as the first of a document's best passages says.

    Sentences that could steer the model are not read.
    """
    began = time.perf_counter()
    language = answer_language(question)
    answers, unstated = tuple(choices) or YES_NO[language], UNSTATED[language]
    fields, options = {"question": question.strip()}, (*answers, unstated)
    if choices:  # by their letters: of words, a short one is likelier whatever it says
        letters = ascii_uppercase[: len(options)]
        listed = "\n".join(map("{}: {}".format, letters, options))
        task, options = render("one_of", language, **fields, choices=listed), tuple(letters)
    else:
        task = render("whether", language, **fields)
    likeliest = 0.0
    for hit in hits[:PASSAGES]:
        read = unsteered(hit)
        if read is None:
            continue
        messages = Reading(language, (read,)).messages(task)
        choice = chooser.choose(messages, options, keep=1)
        stated = 1.0 - choice[len(answers)] if choice.read else 0.0
        likeliest = max(likeliest, stated)
        if stated < STATED:
            continue
        best = max(range(len(answers)), key=choice.__getitem__)
        share = choice[best] / stated
        stop = "" if choices else LANGUAGES[language].stop
        quoted = attributor([hit]).nearest(f"{question} {answers[best]}" if choices else question)
        return Reply(
            f"{answers[best]}{stop}",
            stated=True,
            supported=share >= SURE,
            confidence=round(share * stated, 4),
            citations=(quoted,) if quoted else (),
            seconds=time.perf_counter() - began,
        )
    return Reply("", stated=False, confidence=likeliest, seconds=time.perf_counter() - began)
