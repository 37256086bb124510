"""What every reranker promises, whichever it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rerank_passages import ENGLISH, ids, passage
from scripted_llm import ScriptedLLM
from tiny_cross_encoder import save_tiny_cross_encoder

from localrag.models.llms.choices import LogitChooser, WrittenChooser
from localrag.rerankers.base import Reranker
from localrag.rerankers.cross_encoder import SentenceTransformersCrossEncoder
from localrag.rerankers.keyword import KeywordReranker
from localrag.rerankers.learned import LearnedReranker
from localrag.rerankers.llm import LLMReranker
from localrag.rerankers.onnx_cross_encoder import OnnxCrossEncoder
from localrag.rerankers.routing import LanguageRouter, Route
from localrag.text.tokenize import Tokenizer

QUESTION = "Who presented the perceptron?"


class ByLength(ScriptedLLM):
    """Says what the length of the passage makes it say, so that equal texts are equal."""

    def score_choices(self, messages, choices, *, keep=0):  # type: ignore[no-untyped-def]
        self.scores.append({"Yes": len(messages[0].content) % 7 + 1, "No": 3})
        return super().score_choices(messages, choices, keep=keep)

    def complete(self, messages, options):  # type: ignore[no-untyped-def]
        self.replies.append(str(len(messages[0].content) % 11))
        return super().complete(messages, options)


@pytest.fixture(
    params=[
        "none",
        "keyword",
        "learned",
        "llm by logits",
        "llm by text",
        "routing",
        "sentence-transformers",
        pytest.param("onnx", marks=pytest.mark.models("ms-marco-minilm-l12-v2-int8")),
    ]
)
def reranker(
    request: pytest.FixtureRequest, models_dir: Callable[[str], Path], tmp_path: Path
) -> Reranker:
    model = ByLength()
    match request.param:
        case "none":
            return LanguageRouter([])
        case "keyword":
            return KeywordReranker()
        case "learned":
            return LearnedReranker(Tokenizer())
        case "llm by logits":
            return LLMReranker(model, LogitChooser(model))
        case "llm by text":
            return LLMReranker(model, WrittenChooser(model))
        case "routing":
            candidate = Route("keyword", frozenset({"en"}), KeywordReranker)
            return LanguageRouter([candidate])
        case "sentence-transformers":
            return SentenceTransformersCrossEncoder(save_tiny_cross_encoder(tmp_path))
        case _:
            return OnnxCrossEncoder(models_dir("ms-marco-minilm-l12-v2-int8"))


def test_the_result_is_a_subset_best_first_and_ties_go_by_id(reranker: Reranker) -> None:
    # Given best first, as a search gives them.
    candidates = sorted(ENGLISH, key=lambda chunk: (-chunk.score, chunk.chunk.id))
    full_ranking = reranker.rerank(QUESTION, candidates, 10)
    assert sorted(ids(full_ranking)) == [1, 2, 3, 4]
    assert [replace(chunk, score=0.0) for chunk in full_ranking] == [
        replace(candidates[ids(candidates).index(chunk.chunk.id)], score=0.0)
        for chunk in full_ranking
    ], "only the score may differ"
    order = [(-chunk.score, chunk.chunk.id) for chunk in full_ranking]
    assert order == sorted(order)
    twins = {chunk.chunk.id: chunk.score for chunk in full_ranking}
    assert twins[2] == twins[4]
    assert ids(full_ranking).index(2) < ids(full_ranking).index(4)


def test_k_and_the_empty_list(reranker: Reranker) -> None:
    assert (
        ids(reranker.rerank(QUESTION, ENGLISH, 2)) == ids(reranker.rerank(QUESTION, ENGLISH, 9))[:2]
    )
    assert reranker.rerank(QUESTION, (), 3) == []
    assert ids(reranker.rerank(QUESTION, ENGLISH[:1], 3)) == [1]


def test_the_same_call_gives_the_same_scores_whoever_stands_beside(reranker: Reranker) -> None:
    assert reranker.rerank(QUESTION, ENGLISH, 4) == reranker.rerank(QUESTION, ENGLISH, 4)
    if isinstance(reranker, LanguageRouter | LLMReranker):
        return  # they weigh what the search thought, as a share of the best score there
    alone = [reranker.rerank(QUESTION, [chunk], 1)[0].score for chunk in ENGLISH]
    together = {c.chunk.id: c.score for c in reranker.rerank(QUESTION, ENGLISH, 4)}
    assert alone == pytest.approx([together[chunk.chunk.id] for chunk in ENGLISH], abs=1e-5)


def test_odd_texts_are_no_trouble(reranker: Reranker) -> None:
    odd = [passage(1, " "), passage(2, "{}%s\x00\ud800?"[:5]), passage(3, "word " * 3000)]
    for question in ("?", "{question} {0} %", "word " * 900):
        assert sorted(ids(reranker.rerank(question, odd, 3))) == [1, 2, 3]
