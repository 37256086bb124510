"""Which cross-encoder may judge which question and which passage.

A model that was not trained for a language ranks it badly: its scores there are noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from localrag.rerankers.base import Reranker, Tell, best, search_shares, unheard
from localrag.text.language import answer_language, detect
from localrag.types import Note, ScoredChunk

SEARCH_LOGITS = 6.0
"""What the first place in the search is worth. On claims about science a cross-encoder alone is
hardly better than the search, the two together clearly are; where it is better alone, this costs
nothing (`benchmarks/reranking.md`)."""


@dataclass(frozen=True, slots=True)
class Route:
    """A model that could be used; `languages` is empty where nobody says what it serves."""

    name: str
    languages: frozenset[str]
    load: Callable[[], Reranker]

    def serves(self, language: str) -> bool:
        """Whether it serves this language, or any mixture; one that nobody described does."""
        return not self.languages or language in self.languages | {"mixed"}


class LanguageRouter:
    """Takes the first of its models that serves the question; where none does, `tell` hears so.

    The models give logits: above 0 is relevant. A passage in a language that the model
    does not serve counts as logit 0, as likely relevant as not. To its logit every passage
    gets what the search thought of it: its share of the best score, times 6. A model is
    loaded when it is first needed. Where none serves the question, or none of the
    passages, the order of the search stays: measured, that is better than reranking by
    keywords or by a model of the wrong language (`benchmarks/reranking.md`).
    """

    def __init__(self, models: Sequence[Route]) -> None:
        self._models = tuple(models)
        self._loaded: dict[str, Reranker] = {}

    def rerank(
        self, query: str, chunks: Sequence[ScoredChunk], k: int, tell: Tell = unheard
    ) -> list[ScoredChunk]:
        """At most k of `chunks`, best first; ties by chunk id."""
        language = answer_language(query)
        passages = [detect(chunk.chunk.text) for chunk in chunks]
        for model in self._models:
            served = [model.serves(passage) for passage in passages]
            if model.serves(language) and (any(served) or not chunks):
                return self._ranked(model, query, chunks, served, k)
        names = ", ".join(model.name for model in self._models)
        if any(model.serves(language) for model in self._models):
            unserved = passages[0]  # then it is that of all passages
        else:
            unserved = language
        tell(Note("language not served", {"reranker": names, "language": unserved}))
        return list(chunks[:k])

    def _ranked(
        self,
        model: Route,
        query: str,
        chunks: Sequence[ScoredChunk],
        served: Sequence[bool],
        k: int,
    ) -> list[ScoredChunk]:
        reranker = self._loaded.get(model.name)
        if reranker is None:
            reranker = self._loaded[model.name] = model.load()
        readable = [chunk for chunk, can_read in zip(chunks, served, strict=True) if can_read]
        logits = {
            chunk.chunk.id: chunk.score for chunk in reranker.rerank(query, readable, len(readable))
        }
        scores = [
            logits.get(chunk.chunk.id, 0.0) + SEARCH_LOGITS * share
            for chunk, share in zip(chunks, search_shares(chunks), strict=True)
        ]
        return best(chunks, scores, k)
