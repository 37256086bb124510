"""Measuring retrieval as the settings have it: each leg, each fusion, and what reranks."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from msgspec.structs import replace as with_values
from numpy.typing import NDArray

from localrag import factory, hosted
from localrag.config.settings import Settings, with_reranker
from localrag.evaluation.dataset import evenly
from localrag.evaluation.retrieval.beir import RetrievalSet
from localrag.evaluation.retrieval.benchmark import (
    CachedQueries,
    RerankedRetriever,
    RetrievalRun,
    WholePassages,
    document_vectors,
    run_retriever,
)
from localrag.library.catalogue.filters import Filter
from localrag.library.library import Library
from localrag.library.location import Location
from localrag.retrieval.base import Retriever
from localrag.text.sentences import split_sentences
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
    parts = dataset.parts or (dataset,)
    vectors = np.concatenate(
        [document_vectors(embedder, list(part.corpus.values()), folder) for part in parts]
    )
    passages = WholePassages(dataset.corpus, vectors, factory.make_indexes(settings))
    queries = CachedQueries(embedder)
    search = factory.by_language(embedder, passages.vectors, passages.texts)
    retrievers = factory.make_retrievers_to_compare(
        settings, queries, search, passages.keywords, passages.texts
    )

    def measured(name: str, retriever: Retriever) -> RetrievalRun:
        progress(name, 0, len(dataset.qrels))
        step = partial(progress, name)
        return run_retriever(name, retriever, dataset, passages.ids, queries, step)

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
            closest = [passages.scored(hit) for hit in retrievers["default"].retrieve(question, 1)]
            for note in reranking.apply(question, closest, 1)[1].notes:
                tell(note)
            reranked = RerankedRetriever(retrievers["default"], reranking, passages.scored)
            runs.append(measured(f"default+{kind}", reranked))
    return runs


RESCORED = (100, 200, 500, 1000, 2000)
"""What `retrieval.rescored` is tried with, beside its own value and 0."""

_DEPTH = 100


@dataclass(frozen=True, slots=True)
class Rescored:
    """The dense search with one value of `retrieval.rescored`, 0 comparing all passages.

    `recall_10` and `recall_100` are shares of the passages that comparing all finds; `seconds` has
    shape (questions,).
    """

    rescored: int
    recall_10: float
    recall_100: float
    seconds: NDArray[np.float64]

    def milliseconds(self, percentile: float) -> float:
        """Milliseconds a question at that percentile; of no question, 0."""
        return float(np.percentile(self.seconds, percentile)) * 1000 if len(self.seconds) else 0.0


@dataclass(frozen=True, slots=True)
class Approximation:
    """What the dense search of a library loses, and the time it takes.

    `exact` says that all passages are compared anyway, as there are few.
    """

    passages: int
    exact: bool
    runs: Sequence[Rescored]


def measure_approximation(
    settings: Settings,
    location: Location,
    count: int,
    progress: Callable[[str, int, int], None] = lambda *_: None,
) -> Approximation:
    """Search a library for the first sentences of `count` of its passages, in each way.

    Of a library that compares all passages anyway only that is measured.
    """
    with Library.open(
        hosted.reachable(location, settings),
        create=False,
        embedding=None,
        indexes=factory.make_indexes(settings),
    ) as library:
        settings = factory.as_built(settings, library)
    embedder = factory.make_embedder(settings, factory.make_models())

    def opened(rescored: int) -> Library:
        retrieval = with_values(settings.retrieval, rescored=rescored)
        return Library.open(
            hosted.reachable(location, settings),
            create=False,
            embedding=factory.identity_of(embedder, settings),
            indexes=factory.make_indexes(with_values(settings, retrieval=retrieval)),
        )

    with opened(0) as library:
        ids = library.chunk_ids(Filter())
        chosen = evenly(ids.tolist(), min(count, len(ids)))
        texts = [chunk.text for chunk in library.chunks(chosen).values()]
    sentences = [text[slice(*next(iter(split_sentences(text)), (0, None)))] for text in texts]
    queries = embedder.embed_queries(sentences) if sentences else np.empty((0, 1), np.float32)
    own = settings.retrieval.rescored
    exact = not own or len(ids) <= max(factory.EXACT_UP_TO, own)
    runs: list[Rescored] = []
    exact_results: list[list[int]] = []
    for rescored in (0,) if exact else (0, *sorted({*RESCORED, own})):
        results, seconds = [], []
        with opened(rescored) as library:
            library.vectors.current()
            for number, query in enumerate(queries):
                progress(str(rescored), number, len(queries))
                started = time.perf_counter()
                results.append([hit.chunk_id for hit in library.vectors.search(query, _DEPTH)])
                seconds.append(time.perf_counter() - started)
        exact_results = exact_results or results
        runs.append(
            Rescored(
                rescored,
                _recall(results, exact_results, 10),
                _recall(results, exact_results, _DEPTH),
                np.array(seconds),
            )
        )
    return Approximation(len(ids), exact, runs)


def _recall(results: Sequence[list[int]], exact_results: Sequence[list[int]], k: int) -> float:
    shares = [
        len({*ids[:k]} & {*all_of[:k]}) / len(all_of[:k])
        for ids, all_of in zip(results, exact_results, strict=True)
    ]
    return float(np.mean(shares)) if shares else 1.0
