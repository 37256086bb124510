"""Questions that a document answers by yes or no: read from the model's choice, not from a text.

An answer that is written may say "it ends on its term" for no; and where a passage denies what is
asked, a model that grades passages takes it for no answer at all. So the model chooses among yes,
no and unstated, passage by passage, and the sentence closest to the question is quoted.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from localrag.models.llms.choices import Chooser
from localrag.prompts import YES_NO, render
from localrag.rag.citations import Attributor
from localrag.rag.grading import Reading
from localrag.tables.records import Reply
from localrag.text.instructions import left, may_steer
from localrag.text.language import answer_language
from localrag.types import ScoredChunk

PASSAGES = 3
"""Passages of a document that are read until one says yes or no."""
STATED = 0.5
"""The share of yes and no together from which on a passage says one of them."""
SURE = 0.75
"""The share of the likelier one from which on it is found; below, it is doubtful."""

_UNSTATED = {"en": "Unstated", "zh": "未提及"}
_WHETHER = re.compile(
    r"^\W*(?:is|are|was|were|do|does|did|can|could|may|must|should|will|has|have|had)\b"
    r"|吗[？?]?\s*$|是否|能否|可否|有无|[能可]不[能可]|会不会|要不要|有没有|是不是",
    re.IGNORECASE,
)
"""A question that wants yes or no: "Does it renew?", "会自动顺延吗？"."""
_OR = re.compile(r"\bor\b|还是")
"""One that names two answers: "Is it monthly or yearly?"."""


def asks_whether(question: str) -> bool:
    """Whether yes or no is an answer to a question."""
    return bool(_WHETHER.search(question)) and not _OR.search(question)


def decided(
    question: str,
    hits: Sequence[ScoredChunk],
    chooser: Chooser,
    attributor: Callable[[Sequence[ScoredChunk]], Attributor],
) -> Reply:
    """Yes or no, as the first of a document's best passages has it that says so.

    Sentences that could steer the model are not read.
    """
    began = time.perf_counter()
    language = answer_language(question)
    task = render("whether", language, question=question.strip())
    choices = (*YES_NO[language], _UNSTATED[language])
    likeliest = 0.0
    for hit in hits[:PASSAGES]:
        text = hit.chunk.text
        stays = "".join(text[start:end] for start, end in left(text, may_steer(text)))
        if not stays.strip():
            continue
        read = (
            replace(hit, chunk=replace(hit.chunk, text=stays, columns=())) if stays != text else hit
        )
        choice = chooser.choose(Reading(language, (read,)).messages(task), choices, keep=1)
        yes, no = choice[0], choice[1]
        stated = yes + no if choice.read else 0.0
        likeliest = max(likeliest, stated)
        if stated < STATED:
            continue
        share = max(yes, no) / stated
        quoted = attributor([hit]).nearest(question)
        return Reply(
            f"{choices[0] if yes >= no else choices[1]}{'.' if language == 'en' else '。'}",
            stated=True,
            supported=share >= SURE,
            confidence=round(share * stated, 4),
            citations=(quoted,) if quoted else (),
            seconds=time.perf_counter() - began,
        )
    return Reply("", stated=False, confidence=likeliest, seconds=time.perf_counter() - began)
