"""The default fusion: what it takes from scores, words and languages."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from localrag import factory
from localrag.config.settings import EmbeddingSettings, Settings
from localrag.evaluation.retrieval.beir import RetrievalSet, read_retrieval_set
from localrag.evaluation.retrieval.benchmark import (
    CachedQueries,
    WholePassages,
    document_vectors,
    run_retriever,
)
from localrag.retrieval.evidence import (
    WINDOW,
    EvidenceFusion,
    evidence_fusion,
    keyword_confidence,
    surprisals,
)
from localrag.text.tokenize import Tokenizer
from localrag.types import Hit


def ids(hits: Sequence[Hit]) -> list[int]:
    return [hit.chunk_id for hit in hits]


def falling(count: int, scale: float = 1.0, first: int = 0) -> list[Hit]:
    """Scores as an exponential tail gives them on average: the background alone."""
    return [Hit(first + n, -scale * math.log((n + 1) / (count + 1))) for n in range(count)]


# Surprisals


def test_surprisals_do_not_know_the_scale_or_the_offset_of_scores() -> None:
    run = falling(WINDOW)
    moved = [Hit(hit.chunk_id, 0.7 + 0.01 * hit.score) for hit in run]
    assert surprisals(moved) == pytest.approx(surprisals(run))


def test_a_hit_that_stands_out_has_a_higher_surprisal_than_the_best_of_a_background() -> None:
    run = falling(WINDOW)
    standing_out = [Hit(999, run[0].score + 5), *run[:-1]]
    assert surprisals(run)[0] < 6
    assert surprisals(standing_out)[999] > surprisals(run)[0] + 3


def test_the_mean_surprisal_is_one() -> None:
    assert sum(surprisals(falling(WINDOW)).values()) / WINDOW == pytest.approx(1)
    few = [Hit(1, 8.0), Hit(2, 4.0)]
    assert surprisals(few, unseen=0.0) == pytest.approx({1: 8 / 6, 2: 4 / 6})


def test_equal_scores_say_the_same_of_all() -> None:
    assert surprisals([Hit(1, 0.4), Hit(2, 0.4)]) == {1: 1.0, 2: 1.0}
    assert surprisals([]) == {}


def test_hits_below_the_window_add_nothing() -> None:
    surprises = surprisals(falling(300))
    assert surprises[WINDOW] == 0
    assert len(surprises) == 300


# Words


def test_words_settle_a_question_when_one_passage_holds_them_and_they_are_many_or_rare() -> None:
    terms = {"a", "b", "c", "d"}
    rare = dict.fromkeys(terms, 3)
    full = keyword_confidence(terms, terms, 10_000, rare)
    half = keyword_confidence(terms, {"a", "b"}, 10_000, rare)
    common = keyword_confidence(terms, terms, 10_000, dict.fromkeys(terms, 3000))
    assert 0.8 < full <= 1
    assert half < 0.7 * full
    assert common < 0.7 * full
    assert keyword_confidence(terms, set(), 10_000, rare) == 0
    assert keyword_confidence(set(), terms, 10_000, {}) == 0


def test_a_word_that_one_passage_alone_has_counts() -> None:
    assert 0.6 < keyword_confidence({"蓍"}, {"蓍"}, 1000, {"蓍": 1}) < 0.8


def test_one_passage_is_no_special_case() -> None:
    assert 0 <= keyword_confidence({"a"}, {"a"}, 1, {"a": 1}) <= 1


# Fusion


def test_a_confident_keyword_leg_is_not_outvoted() -> None:
    dense = [Hit(1, 0.9), *falling(99, 0.1, first=100)]
    keyword = [Hit(2, 20.0), Hit(3, 6.0), Hit(4, 5.0), Hit(5, 5.0)]
    assert ids(evidence_fusion(dense, keyword, confidence=0.9))[0] == 2
    assert ids(evidence_fusion(dense, keyword, confidence=0.0))[0] == 1


def test_words_have_no_say_about_passages_beyond_them() -> None:
    dense = [Hit(1, 0.9), *falling(99, 0.1, first=100)]
    keyword = [Hit(2, 40.0), *falling(99, 2.0, first=300)]
    scores = {
        (beyond, hit.chunk_id): hit.score
        for beyond in (False, True)
        for hit in evidence_fusion(
            dense, keyword, confidence=0.9, beyond_words={1, 150} if beyond else ()
        )
    }
    # What stands out rises most of the way; what the background holds anyway hardly.
    assert scores[True, 1] > 4 * scores[False, 1]
    assert scores[True, 150] < 0.05 * scores[True, 1]
    assert scores[True, 100] == scores[False, 100]


def test_nothing_is_filled_in_from_passages_that_words_could_not_read_either() -> None:
    dense = [Hit(1, 0.9), *falling(99, 0.1, first=100)]
    keyword = [Hit(2, 40.0), Hit(1, 3.0)]
    plain = evidence_fusion(dense, keyword, confidence=0.5)
    assert evidence_fusion(dense, keyword, confidence=0.5, beyond_words={1, 2}) == plain


def test_of_two_translations_the_one_in_the_language_of_the_question_comes_first() -> None:
    dense = [Hit(1, 0.91), Hit(2, 0.9), *falling(98, 0.1, first=100)]
    keyword = [Hit(2, 40.0), *falling(99, 2.0, first=300)]
    assert ids(evidence_fusion(dense, keyword, confidence=0.7, beyond_words={1}))[:2] == [2, 1]


def test_a_translation_comes_before_a_passage_that_only_shares_words() -> None:
    dense = [Hit(1, 0.9), *falling(99, 0.1, first=100)]
    keyword = [Hit(2, 40.0), *falling(99, 2.0, first=300)]
    fused = evidence_fusion(dense, keyword, confidence=0.4, beyond_words={1})
    assert ids(fused)[:2] == [1, 2]
    assert ids(evidence_fusion(dense, keyword, confidence=0.4))[:2] == [2, 1]


@pytest.mark.parametrize("dead", [[], [Hit(7, 0.0)], [Hit(7, -1.0)]])
def test_a_dead_leg_changes_no_order_among_the_living(dead: list[Hit]) -> None:
    living = [Hit(3, 5.0), Hit(1, 4.0), Hit(2, 1.0)]
    assert [n for n in ids(evidence_fusion(living, dead, confidence=0.0)) if n != 7][:2] == [3, 1]
    assert [n for n in ids(evidence_fusion(dead, living, confidence=0.0)) if n != 7][:2] == [3, 1]


def test_nothing_from_nothing() -> None:
    assert evidence_fusion([], [], confidence=0.0) == []


def test_ties_break_by_chunk_id_and_the_best_has_one() -> None:
    fused = evidence_fusion([Hit(9, 0.5), Hit(4, 0.5)], [], confidence=0.0)
    assert fused == [Hit(4, 1.0), Hit(9, 1.0)]


def test_the_first_results_do_not_depend_on_how_many_were_fetched() -> None:
    dense = falling(400, 0.1)
    keyword = [Hit(3 * place, 30 / (place + 1)) for place in range(130)]
    few = evidence_fusion(dense[:WINDOW], keyword[:WINDOW], confidence=0.4)
    many = evidence_fusion(dense[:300], keyword, confidence=0.4)
    assert ids(few)[:50] == ids(many)[:50]


def test_hits_below_the_windows_follow_in_the_order_of_their_rank() -> None:
    dense = [Hit(1000 - n, 1 / (n + 1)) for n in range(120)]
    fused = evidence_fusion(dense, [], confidence=0.0)
    assert ids(fused) == ids(dense)


# Evidence from questions and texts


class Words:
    """Ten thousand passages; the terms of these questions are rare in all of them."""

    def frequencies(self, terms: Sequence[str]) -> tuple[int, list[int]]:
        return 10_000, [2] * len(terms)


TEXTS = {
    1: "The harbour master records every tide on a slate by the door of the custom house.",
    2: "港务长每天把潮水的高度记在海关大楼门口的石板上。",
    3: "港务长的石板",
}


def texts(numbers: Sequence[int]) -> Mapping[int, str]:
    return {number: TEXTS.get(number, "") for number in numbers}


def test_a_passage_in_another_language_is_not_held_down_by_words() -> None:
    fuse = EvidenceFusion(Tokenizer(), Words(), texts)
    background = falling(98, 0.05, first=100)
    keyword = [Hit(3, 40.0), *falling(99, 2.0, first=300)]
    question = "港务长的石板记什么？"
    ranking = fuse(question, [[Hit(2, 0.6), *background], keyword])
    other = fuse(question, [[Hit(1, 0.6), *background], keyword])
    assert ids(ranking)[0] == ids(other)[0] == 3
    in_same, in_other = (
        next(hit.score for hit in fused if hit.chunk_id == number)
        for fused, number in ((ranking, 2), (other, 1))
    )
    assert in_other > 1.5 * in_same


def test_no_language_is_told_in_vain() -> None:
    requests: list[list[int]] = []

    def reading(numbers: Sequence[int]) -> Mapping[int, str]:
        requests.append(list(numbers))
        return texts(numbers)

    fuse = EvidenceFusion(Tokenizer(), Words(), reading)
    question = "港务长的石板记什么？"
    fuse(question, [[Hit(2, 0.6)], [Hit(3, 40.0)]])
    assert requests == [[3, 2]]
    requests.clear()
    fuse(question, [[Hit(1, 0.6)], [Hit(3, 40.0)]])
    assert requests == [[3, 1], [3]]


def test_a_model_that_was_not_made_for_the_language_hardly_votes() -> None:
    legs = [[Hit(2, 0.6), *falling(98, 0.05, first=100)], [Hit(3, 12.0), Hit(4, 9.0)]]
    question = "船长在哪里？"
    fusion = EvidenceFusion(Tokenizer(), Words(), texts, served=("en",))
    not_told = EvidenceFusion(Tokenizer(), Words(), texts)
    assert ids(fusion(question, legs))[0] == 3
    assert ids(not_told(question, legs))[0] == 2
    assert ids(fusion("Where is the captain?", legs))[0] == 2


def test_a_passage_that_is_gone_is_no_evidence() -> None:
    fuse = EvidenceFusion(Tokenizer(), Words(), lambda _: {})
    assert ids(fuse("港务长", [[Hit(1, 0.6)], [Hit(2, 3.0)]]))


# The real thing


def _measured(models_dir: Callable[[str], Path], dataset: RetrievalSet) -> dict[str, float]:
    models_dir("use-multilingual-v3")
    settings = Settings(embedding=EmbeddingSettings(model="use-multilingual-v3"))
    embedder = factory.make_embedder(settings, factory.make_models())
    cache = factory.cache_folder() / "bench"
    vectors = document_vectors(embedder, list(dataset.corpus.values()), cache)
    passages = WholePassages(dataset.corpus, vectors, factory.make_indexes(settings))
    queries = CachedQueries(embedder)
    retrievers = factory.make_retrievers_to_compare(
        settings, queries, passages.vectors, passages.keywords, passages.texts
    )
    return {
        name: run_retriever(name, retriever, dataset, passages.ids, queries).mean("nDCG@10")
        for name, retriever in retrievers.items()
    }


@pytest.mark.models("use-multilingual-v3")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("corpus", "questions"),
    [
        ("xquad_zh", "xquad_zh"),
        ("xquad_en", "xquad_en"),
        ("xquad_zh", "xquad_en"),
        ("xquad_en", "xquad_zh"),
    ],
)
def test_the_default_is_not_below_its_better_leg(
    models_dir: Callable[[str], Path], shared_data: Path, corpus: str, questions: str
) -> None:
    dataset = read_retrieval_set(shared_data / corpus, shared_data / questions).sample(300)
    scores = _measured(models_dir, dataset)
    assert scores["default"] >= max(scores["keyword"], scores["dense"]) - 0.002
