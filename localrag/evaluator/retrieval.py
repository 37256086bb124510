"""Measuring retrieval as the settings have it: each leg, each fusion, and what reranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from functools import cache, partial

from localrag import factory
from localrag.config.settings import Settings, with_reranker
from localrag.evaluation.retrieval.beir import RetrievalSet
from localrag.evaluation.retrieval.benchmark import (
    CachedQueries,
    RerankedRetriever,
    RetrievalRun,
    WholePassages,
    document_vectors,
    run_retriever,
)
from localrag.retrieval.base import Retriever
from localrag.types import Note

RUNS = ("keyword", "dense", "rrf", "linear", "default")
"""The names of `factory.make_retrievers_to_compare`."""


def measure_retrieval(
    settings: Settings,
    dataset: RetrievalSet,
    names: Sequence[str] = RUNS,
    rerankers: Sequence[str] = (),
    *,
    progress: Callable[[str, int, int], None] = lambda *_: None,
    tell: Callable[[Note], None] = lambda _: None,
) -> list[RetrievalRun]:
    """A run of each of the names, and one of the default with each of the rerankers behind it.

    `progress` hears the name of a run, how many questions are done, and how many there are;
    `tell` hears what a reranker has to tell.
    """
    models = factory.make_models()
    embedder = factory.make_embedder(settings, models)
    folder = factory.cache_folder() / "bench"
    vectors = document_vectors(embedder, list(dataset.corpus.values()), folder)
    passages = WholePassages(dataset.corpus, vectors, factory.make_indexes(settings))
    queries = CachedQueries(embedder)
    retrievers = factory.make_retrievers_to_compare(
        settings, queries, passages.vectors, passages.keywords, passages.texts
    )

    def measured(name: str, retriever: Retriever) -> RetrievalRun:
        progress(name, 0, len(dataset.qrels))
        each = partial(progress, name)
        return run_retriever(name, retriever, dataset, passages.ids, queries, each)

    # What is loaded at the first use is no question's time.
    retrievers["default"].retrieve("warm-up 热身", 1)
    runs = [measured(name, retrievers[name]) for name in names]
    with ExitStack() as stack:

        @cache
        def load() -> factory.Model:
            return stack.enter_context(closing(factory.make_model(settings, models)))

        for kind in rerankers:
            reranking = factory.make_reranking(with_reranker(settings, kind), models, load)
            assert reranking is not None, "a run without a reranker has a name of its own"  # noqa: S101
            # Nor is a reranker's loading.
            question = dataset.queries[next(iter(dataset.qrels))]
            one = [passages.scored(hit) for hit in retrievers["default"].retrieve(question, 1)]
            for note in reranking.apply(question, one, 1)[1].notes:
                tell(note)
            reranked = RerankedRetriever(retrievers["default"], reranking, passages.scored)
            runs.append(measured(f"default+{kind}", reranked))
    return runs
