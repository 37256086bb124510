"""A model is used for the languages that it serves; otherwise the person is told, once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from rerank_passages import ENGLISH, ids, passage

from localrag.presentation.steps import decision, note_text
from localrag.rerankers.base import Reranking, Tell, best, unheard
from localrag.rerankers.routing import LanguageRouter, Route
from localrag.types import Note, ScoredChunk

CHINESE = (passage(11, "感知机由罗森布拉特提出。", 0.95), passage(12, "茶树长在山坡上。", 0.2))


class Logits:
    """A cross-encoder that has learnt its logits by heart."""

    def __init__(self, logits: dict[int, float]) -> None:
        self.logits = logits
        self.read: list[int] = []

    def rerank(
        self, query: str, chunks: Sequence[ScoredChunk], k: int, tell: Tell = unheard
    ) -> list[ScoredChunk]:
        self.read = ids(list(chunks))
        return best(chunks, [self.logits[chunk.chunk.id] for chunk in chunks], k)


def candidate(model: Logits, *languages: str, name: str = "model") -> Route:
    return Route(name, frozenset(languages), lambda: model)


def never() -> Logits:
    raise AssertionError("this model was not to be loaded")


def run(
    models: list[Route], question: str, chunks: Sequence[ScoredChunk]
) -> tuple[list[int], list[str]]:
    notes: list[Note] = []
    ranking = LanguageRouter(models).rerank(question, chunks, 10, notes.append)
    return ids(ranking), [note_text(note, "en") for note in notes]


def test_a_model_of_another_language_is_not_loaded_and_the_person_is_told() -> None:
    models = [Route("english-only", frozenset({"en"}), never)]
    order, notes = run(models, "谁提出了感知机？", CHINESE)
    assert order == [11, 12]
    assert notes == [
        "The reranker english-only does not serve Chinese; the order of the search is kept."
    ]


def test_passages_that_it_cannot_read_are_named_too() -> None:
    models = [Route("english-only", frozenset({"en"}), never)]
    order, notes = run(models, "Who presented the perceptron?", CHINESE)
    assert order == [11, 12]
    assert "does not serve Chinese" in notes[0]


def test_the_first_model_that_serves_is_taken() -> None:
    model = Logits({11: -3.0, 12: 2.0})
    models = [Route("english-only", frozenset({"en"}), never), candidate(model, "zh", "en")]
    order, notes = run(models, "茶树长在哪里？", CHINESE)
    assert order == [12, 11]
    assert notes == []


def test_a_model_that_nobody_described_is_taken_at_its_word() -> None:
    order, notes = run([candidate(Logits({11: 0.0, 12: 9.0}))], "茶树长在哪里？", CHINESE)
    assert order == [12, 11]
    assert notes == []


def test_passages_in_another_language_stand_between_relevant_and_irrelevant_ones() -> None:
    english = Logits({1: -8.0, 2: 7.5, 3: -9.0, 4: 7.5})
    candidates = [CHINESE[0], ENGLISH[0], ENGLISH[1], CHINESE[1], ENGLISH[2], ENGLISH[3]]
    order, notes = run([candidate(english, "en")], "Who presented the perceptron?", candidates)
    assert english.read == [1, 2, 3, 4]
    assert order == [2, 4, 11, 12, 1, 3]
    assert notes == []


def test_what_the_search_thought_counts_as_six_logits_at_most() -> None:
    model = candidate(Logits({1: 1.0, 2: 2.0}))
    candidates = [passage(1, "tea", 0.8), passage(2, "coffee", 0.2)]
    ranking = LanguageRouter([model]).rerank("Tea?", candidates, 2)
    # 1.0 + 6 x 0.8 / 0.8 and 2.0 + 6 x 0.2 / 0.8
    assert ids(ranking) == [1, 2]
    assert [chunk.score for chunk in ranking] == pytest.approx([7.0, 3.5])
    without = [passage(1, "tea", 0.0), passage(2, "coffee", -1.0)]
    ranking = LanguageRouter([model]).rerank("Tea?", without, 2)
    assert [(chunk.chunk.id, chunk.score) for chunk in ranking] == [(2, 2.0), (1, 1.0)]


def test_a_model_is_loaded_once() -> None:
    loads: list[str] = []

    def load() -> Logits:
        loads.append("now")
        return Logits({chunk.chunk.id: 0.0 for chunk in ENGLISH})

    reranker = LanguageRouter([Route("m", frozenset(), load)])
    for _ in range(3):
        reranker.rerank("Who?", ENGLISH, 2)
    assert loads == ["now"]


def test_the_trace_has_a_note_every_time() -> None:
    models = [Route("english-only", frozenset({"en"}), never)]
    reranking = Reranking("cross-encoder", LanguageRouter(models), 20)
    steps = [reranking.apply("谁提出了感知机？", CHINESE, 1)[1] for _ in range(2)]
    for step in steps:
        assert step.kind == "rerank"
        assert decision(step, "en").startswith("cross-encoder: 1 of 2 passages. The reranker")
        assert "does not serve Chinese" in decision(step, "en")
        assert "不支持中文" in decision(step, "zh")


def test_only_the_candidates_are_read_but_never_fewer_than_k() -> None:
    model = Logits({chunk.chunk.id: 0.0 for chunk in ENGLISH})
    count: Callable[[int, int], int] = lambda candidates, k: (  # noqa: E731
        Reranking("x", model, candidates).apply("Who?", ENGLISH, k) and len(model.read)
    )
    assert count(2, 1) == 2
    assert count(2, 3) == 3
