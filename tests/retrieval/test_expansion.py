from __future__ import annotations

import json

import numpy as np
import pytest
from fakes import HashEmbedder
from scripted_llm import ScriptedLLM

from localrag.errors import BackendError
from localrag.library.indexes.comparison import WithVectors
from localrag.library.indexes.faiss import FaissVectors
from localrag.presentation.steps import decision
from localrag.retrieval.expansion import HydeRetriever, MultiQueryRetriever, read_queries
from localrag.retrieval.fusion import reciprocal_rank_fusion
from localrag.types import Hit, LegRank, Step

QUESTION = "How long is the notice period?"


class FixedRetriever:
    """Finds what a table says, and remembers what it was asked."""

    def __init__(self, ranking: dict[str, list[int]]) -> None:
        self.found = ranking
        self.asked: list[tuple[str, int]] = []

    def retrieve(self, query: str, k: int) -> list[Hit]:
        self.asked.append((query, k))
        return [
            Hit(chunk_id, 1.0 / rank, (LegRank("dense", rank, 0.5),))
            for rank, chunk_id in enumerate(self.found.get(query, [])[:k], start=1)
        ]


def rewritten(*questions: str) -> str:
    kinds = ("other words", "keywords", "Chinese", "more")
    return json.dumps(dict(zip(kinds, questions, strict=False)), ensure_ascii=False)


def test_queries_are_fused_with_the_question_counted_twice() -> None:
    rankings = {QUESTION: [1, 2, 3], "a?": [4, 2], "b?": [4, 5], "c?": [6]}
    inner, steps = FixedRetriever(rankings), list[Step]()
    model = ScriptedLLM([rewritten("a?", "b?", "c?")], rewords=True)
    hits = MultiQueryRetriever(inner, model, steps.append).retrieve(QUESTION, 4)
    assert inner.asked == [(QUESTION, 12), ("a?", 12), ("b?", 12), ("c?", 12)]
    runs = [[Hit(n, 1.0) for n in rankings[query]] for query, _ in inner.asked]
    expected = reciprocal_rank_fusion(runs, k=60, weights=[2, 1, 1, 1])[:4]
    assert [hit.chunk_id for hit in hits] == [hit.chunk_id for hit in expected] == [2, 1, 4, 3]
    assert hits[0].ranks == (LegRank("dense", 2, 0.5), LegRank("rewriting 1", 2, 0.5))
    assert hits[2].ranks == (LegRank("rewriting 1", 1, 1.0), LegRank("rewriting 2", 1, 1.0))
    assert [(step.kind, step.values) for step in steps] == [
        ("expand", {"queries": ("a?", "b?", "c?")})
    ]
    ((messages, options),) = model.history
    assert QUESTION in messages[-1].content
    assert options.schema is not None
    assert options.schema["required"] == ["other words", "keywords", "Chinese"]


def test_first_everywhere_has_score_one() -> None:
    inner = FixedRetriever({QUESTION: [1], "a?": [1], "b?": [1]})
    retriever = MultiQueryRetriever(
        inner, ScriptedLLM([rewritten("a?", "b?")], rewords=True), lambda _: None
    )
    assert retriever.retrieve(QUESTION, 5)[0].score == pytest.approx(1.0)


@pytest.mark.parametrize(
    "reply", ["", "{", "I cannot do that.", BackendError("The server is away."), rewritten()]
)
def test_a_model_of_no_use_leaves_the_plain_search_and_a_note(reply: str | Exception) -> None:
    inner, steps = FixedRetriever({QUESTION: [1, 2]}), list[Step]()
    plain = inner.retrieve(QUESTION, 9)
    hits = MultiQueryRetriever(inner, ScriptedLLM([reply], rewords=True), steps.append).retrieve(
        QUESTION, 9
    )
    assert hits == plain
    (step,) = steps
    assert "only the question itself is searched" in decision(step, "en")
    if isinstance(reply, Exception):
        assert "The server is away." in decision(step, "en")


def test_other_errors_are_not_swallowed() -> None:
    model = ScriptedLLM([ZeroDivisionError()], rewords=True)
    with pytest.raises(ZeroDivisionError):
        MultiQueryRetriever(FixedRetriever({}), model, lambda _: None).retrieve(QUESTION, 1)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (rewritten("One?", "Two?", "Three?", "Four?"), ["One?", "Two?", "Three?"]),
        ("```json\n" + rewritten("One?", "Two?") + "\n```", ["One?", "Two?"]),
        ("1. One?\n2) Two?\n- Three?", ["One?", "Two?", "Three?"]),
        (
            "Here they are:\n1、通知期多长？\n（2）“提前多久通知？”",
            ["通知期多长？", "提前多久通知？"],
        ),
        ('{"other words": "One?", "keywords": "two three", "Chi', ["One?", "two three"]),
        (f'{{"other words": "One?", "deep": {"[" * 100_000}{"]" * 100_000}}}', ["One?"]),
        ('{"questions": ["One?", "Two?"]}', ["One?", "Two?"]),
        (rewritten("One?", "one", "how long is the notice period"), ["One?"]),
        (rewritten("x" * 301, " ", "Two?"), ["Two?"]),
        ('{"questions": [1, null, "Two?"]}', ["Two?"]),
        ('{"questions": {"a": "Two?"}}', []),
        ("No question here.", []),
    ],
)
def test_replies_are_read_as_json_or_as_lines(reply: str, expected: list[str]) -> None:
    assert read_queries(reply, QUESTION) == expected


def test_the_model_is_asked_in_the_language_of_the_question() -> None:
    model = ScriptedLLM([rewritten("通知要提前多久？")], rewords=True)
    inner = FixedRetriever({})
    MultiQueryRetriever(inner, model, lambda _: None).retrieve("通知期有多长？", 3)
    assert "换一种说法" in model.history[0][0][-1].content
    assert [query for query, _ in inner.asked] == ["通知期有多长？", "通知要提前多久？"]


@pytest.fixture
def vectors() -> tuple[HashEmbedder, WithVectors]:
    embedder = HashEmbedder()
    texts = ["notice period long", "three months to the end of a quarter", "garden tea"]
    embedded = embedder.embed_documents(texts)
    store = WithVectors(FaissVectors(), lambda ids: embedded.astype(np.float16)[ids - 1])
    store.index.apply((), enumerate(embedded, 1), ("e", 1))
    return embedder, store


def test_hyde_searches_between_question_and_passage(
    vectors: tuple[HashEmbedder, WithVectors],
) -> None:
    embedder, store = vectors
    steps: list[Step] = []
    passage = "It is three months\nto the end of a quarter."
    hits = HydeRetriever(embedder, store, ScriptedLLM([passage]), steps.append).retrieve(
        "notice", 3
    )
    mean = embedder.embed_queries(["notice"])[0] + embedder.embed_queries([passage])[0]
    assert hits == store.search(mean / np.linalg.norm(mean), 3)
    assert hits[0].chunk_id == 2
    assert embedder.calls[-1] == [" ".join(passage.split())], "embedded as a document"
    assert [step.values["passage"] for step in steps] == [" ".join(passage.split())]


@pytest.mark.parametrize("reply", [" \n", BackendError("The server is away.")])
def test_hyde_without_a_passage_is_plain_dense_search(
    vectors: tuple[HashEmbedder, WithVectors], reply: str | Exception
) -> None:
    embedder, store = vectors
    steps: list[Step] = []
    hits = HydeRetriever(embedder, store, ScriptedLLM([reply]), steps.append).retrieve("tea", 3)
    assert hits == store.search(embedder.embed_queries(["tea"])[0], 3)
    assert "only the question itself is searched" in decision(steps[0], "en")
