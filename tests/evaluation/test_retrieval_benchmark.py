from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from fakes import HashEmbedder

from localrag.config.settings import Settings
from localrag.evaluation.retrieval.beir import RetrievalSet
from localrag.evaluation.retrieval.benchmark import (
    CachedQueries,
    RerankedRetriever,
    WholePassages,
    document_vectors,
    run_retriever,
)
from localrag.factory import make_indexes
from localrag.models.embeddings.base import Vectors
from localrag.presentation.plots import ChartRow, chart
from localrag.rerankers.base import Reranking, Tell, unheard
from localrag.types import Hit, ScoredChunk

SEA = RetrievalSet(
    "sea",
    {"p1": "the moon pulls the sea", "p2": "ships carry grain", "p3": "涨潮与落潮"},
    {"q1": "moon", "q2": "nothing of this", "q3": "grain"},
    {"q1": {"p1": 1}, "q2": {"p3": 1}, "q3": {"p2": 1}},
)


class ByWord:
    def retrieve(self, query: str, k: int) -> list[Hit]:
        texts = list(SEA.corpus.values())
        return [Hit(place, 1.0) for place, text in enumerate(texts) if query in text][:k]


def test_an_unanswered_question_counts_as_zero() -> None:
    steps: list[tuple[int, int]] = []
    run = run_retriever(
        "x",
        ByWord(),
        SEA,
        list(SEA.corpus),
        CachedQueries(HashEmbedder()),
        lambda count, total: steps.append((count, total)),
    )
    assert steps == [(1, 3), (2, 3), (3, 3)]
    assert run.scores["nDCG@10"].tolist() == [1.0, 0.0, 1.0]
    assert run.mean("R@10") == pytest.approx(2 / 3)
    assert run.seconds.shape == (3,)


class SlowEmbedder(HashEmbedder):
    embedded = 0

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        time.sleep(0.02)
        self.embedded += 1
        return super().embed_queries(texts)


def test_a_remembered_question_still_costs_its_time() -> None:
    slow = SlowEmbedder()
    queries = CachedQueries(slow)

    class Asking:
        def retrieve(self, query: str, k: int) -> list[Hit]:
            queries.embed_queries([query])
            return []

    first, second = (run_retriever("x", Asking(), SEA, [], queries) for _ in range(2))
    assert min(first.seconds) > 0.015
    assert min(second.seconds) > 0.015
    before = slow.embedded
    queries.embed_queries(["moon"])
    assert slow.embedded == before, "it is remembered"


def test_reranked_passages_come_first_and_the_rest_stays() -> None:
    class Reverse:
        def rerank(
            self, query: str, chunks: Sequence[ScoredChunk], k: int, tell: Tell = unheard
        ) -> list[ScoredChunk]:
            return list(reversed(chunks))[:k]

    class All:
        def retrieve(self, query: str, k: int) -> list[Hit]:
            return [Hit(place, 1.0 - place / 10) for place in (2, 0, 1)][:k]

    vectors = HashEmbedder().embed_queries(["a", "b", "c"])
    passages = WholePassages(SEA.corpus, vectors, make_indexes(Settings()))
    reranking = Reranking("reverse", Reverse(), 2)
    reranked = RerankedRetriever(All(), reranking, passages.scored)
    assert [hit.chunk_id for hit in reranked.retrieve("moon", 3)] == [0, 2, 1]
    assert [hit.chunk_id for hit in reranked.retrieve("moon", 1)] == [0]


def test_passages_are_embedded_once(tmp_path: Path) -> None:
    embedder, texts = HashEmbedder(), list(SEA.corpus.values())
    first = document_vectors(embedder, texts, tmp_path / "cache")
    again = document_vectors(embedder, texts, tmp_path / "cache")
    assert np.array_equal(first, again)
    assert embedder.calls == [texts]


def test_other_texts_another_order_or_model_are_embedded_anew(tmp_path: Path) -> None:
    embedder, texts = HashEmbedder(), list(SEA.corpus.values())
    document_vectors(embedder, texts, tmp_path)
    document_vectors(embedder, texts[::-1], tmp_path)
    document_vectors(embedder, [*texts[:-1], texts[-1] + "!"], tmp_path)
    assert len(embedder.calls) == 3
    other = HashEmbedder(name="other")
    document_vectors(other, texts, tmp_path)
    assert len(other.calls) == 1


def test_a_damaged_cache_file_is_replaced(tmp_path: Path) -> None:
    embedder, texts = HashEmbedder(), list(SEA.corpus.values())
    first = document_vectors(embedder, texts, tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:40])
    assert np.array_equal(document_vectors(embedder, texts, tmp_path), first)
    document_vectors(embedder, texts, tmp_path)
    assert len(embedder.calls) == 2


def test_the_picture_is_valid_and_names_are_escaped() -> None:
    row = ChartRow(0, "0.6667   1.0 ms", 2 / 3, (0.2, 0.9), [(0.5, 'q" <')])
    root = ElementTree.fromstring(chart("sea & 海: nDCG@10", [("a<b", [row])], font_size=14).text)
    texts = [element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "a<b" in texts
    assert texts[0] == "sea & 海: nDCG@10"
    assert any("0.6667" in text for text in texts)
