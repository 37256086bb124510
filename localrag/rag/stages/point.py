"""Point to the sentence of the evidence that answers."""

from __future__ import annotations

from localrag.rag.pipeline import AnswerRun, Pieces
from localrag.rag.pointing import pointed


def point(run: AnswerRun) -> Pieces:
    """Find it where one passage answers by itself, for an answer that is shown as it is written.

    A draft was judged, and where something is to be removed, each sentence is.
    """
    evidence = run.evidence
    if evidence is None or evidence.pointer is None or evidence.draft or run.unsupported != "mark":
        return
    (number,) = evidence.numbers
    run.pointed = yield from pointed(
        run.question,
        number,
        run.passages[number - 1],
        run.attributor,
        evidence.pointer,
        run.language,
    )
