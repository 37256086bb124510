"""Point to the sentence that answers, or that comes closest to it."""

from __future__ import annotations

from functools import partial

from localrag.rag.base import timed
from localrag.rag.pipeline import AnswerRun, Pieces
from localrag.rag.pointing import pointed, step_of


def point(run: AnswerRun) -> Pieces:
    """Find it where one passage answers by itself, for an answer that is shown as it is written.

    A draft was judged, and where something is to be removed, each sentence is. Where no passage
    answers it is that of the likeliest one, to be named as the closest.
    """
    evidence = run.evidence
    if evidence is None:
        likeliest = run.reader and run.reader.likeliest(run.question, run.passages)
        if not likeliest:
            return
        number, pointer = likeliest
    elif evidence.pointer is None or evidence.draft or run.unsupported != "mark":
        return
    else:
        (number,), pointer = evidence.numbers, evidence.pointer
    passage, attributor = run.passages[number - 1], run.attributor
    looking = partial(pointed, run.question, number, passage, attributor, pointer, run.language)
    run.pointed, seconds = timed(looking)
    if evidence and run.pointed:
        yield step_of(number, run.pointed, seconds)
