"""Standard RAG: retrieve, read until the passages hold the answer, write it, check it."""

from __future__ import annotations

from localrag.rag.pipeline import AnswerStage
from localrag.rag.reading import MOST_ALONE, Bounds
from localrag.rag.stages.check import check
from localrag.rag.stages.compare import compare
from localrag.rag.stages.complete import complete
from localrag.rag.stages.find import find
from localrag.rag.stages.foresee import CostForecast
from localrag.rag.stages.point import point
from localrag.rag.stages.read import EvidenceReader
from localrag.rag.stages.write import write


def standard_rag(bounds: Bounds) -> tuple[AnswerStage, ...]:
    """Reads passages until they hold the answer, and writes it from them with citations.

    An answer comes as it is written, or once it has been checked, where something is to be removed.
    """
    foresee = CostForecast(MOST_ALONE)
    return find, foresee, EvidenceReader(bounds), compare, point, write, check, complete
