"""Self-RAG: retrieve if needed, grade each passage, answer, grade the answer, take the best.

After Asai et al. 2023 (https://arxiv.org/abs/2310.11511), with a plain instruct model: what
the paper reads from special tokens is read from the probabilities of the allowed answers.
Every passage stands first in the prompts about it, so that it is read once for its
relevance, its answer and the checks of that answer.
"""

from __future__ import annotations

from localrag.rag.pipeline import AnswerStage
from localrag.rag.stages.compare import compare
from localrag.rag.stages.complete import complete
from localrag.rag.stages.draft import AnswerDrafter
from localrag.rag.stages.find import find
from localrag.rag.stages.foresee import CostForecast
from localrag.rag.stages.grade import SelfRAGOptions
from localrag.rag.stages.show import show
from localrag.rag.stages.understand import RetrievalDecision


def self_rag(options: SelfRAGOptions) -> tuple[AnswerStage, ...]:
    """Grades passages and drafts. An answer from documents comes in one piece, once graded."""
    understand = RetrievalDecision(options.min_retrieval, options.strict)
    foresee = CostForecast(answers=2, checks=2)
    return understand, find, foresee, AnswerDrafter(options), compare, show, complete
