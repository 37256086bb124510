"""Keywords: both engines have the scores of the formula, whatever is left out on the way."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from library_fixtures import bytes_on_disk, storage

from localrag.evaluation.retrieval.beir import read_retrieval_set
from localrag.evaluation.retrieval.metrics import ndcg, score_rankings
from localrag.library.indexes.base import INHERITED, Storage
from localrag.library.indexes.inverted import INHERITED_WEIGHT, InvertedKeywords
from localrag.library.indexes.rank_bm25 import RankBm25Keywords
from localrag.text.background import smoothed
from localrag.text.tokenize import Tokenizer

Engine = InvertedKeywords | RankBm25Keywords
FIRST = ("epoch", 1)


@pytest.fixture(params=["on disk", "in memory", "rank_bm25"])
def filled(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[dict[int, Any]], Engine]:
    def made(passages: dict[int, Any]) -> Engine:
        index = RankBm25Keywords() if request.param == "rank_bm25" else InvertedKeywords()
        at = storage(tmp_path / "keywords") if request.param == "on disk" else None
        index.apply((), passages.items(), FIRST, at)
        return index

    return made


def corpus(count: int, seed: int = 0) -> list[list[str]]:
    """Passages of 5 to 60 terms; few words, many ties."""
    draw = random.Random(seed)
    words = [f"word{n}" for n in range(30)] + ["检索", "知识", "C++", "a b"]
    return [draw.choices(words, k=draw.randint(5, 60)) for _ in range(count)]


def bm25(query: list[str], passages: dict[int, list[str]]) -> dict[int, float]:
    """Okapi BM25 as Lucene has it, written out, over smoothed counts."""
    mean = sum(map(len, passages.values())) / len(passages)
    scores: dict[int, float] = {}
    for term in query:
        n, total = smoothed(term, sum(term in p for p in passages.values()), len(passages))
        idf = math.log(1 + (total - n + 0.5) / (n + 0.5))
        for key, terms in passages.items():
            tf = terms.count(term)
            if tf:
                length = 1 - 0.75 + 0.75 * len(terms) / mean
                scores[key] = scores.get(key, 0) + idf * tf * 2.2 / (tf + 1.2 * length)
    return scores


def test_terms_that_are_spelt_alike(filled: Callable[[dict[int, Any]], Engine]) -> None:
    index = filled({1: ["titicaca", "lake"], 2: ["titicaac"], 3: ["tea"], 4: ["ta", "检索"]})

    def alike(term: str, edits: int, allowed: Any = None) -> set[int]:
        hits = index.alike(term, edits, 9, allowed)
        assert all(hit.score == 1.0 for hit in hits)
        return {hit.chunk_id for hit in hits}

    assert alike("titicaca", 1) == {1, 2}, "itself, and two letters swapped"
    assert alike("titikaca", 1) == {1}
    assert alike("titikaka", 1) == set()
    assert alike("titikaka", 2) == {1}
    assert alike("te", 1) == {3, 4}
    assert alike("te", 1, np.array([4])) == {4}
    assert alike("te", 1, np.array([], dtype=np.int64)) == set()
    assert len(index.alike("te", 1, 1)) == 1


def test_scores_are_those_of_the_formula(filled: Callable[[dict[int, Any]], Engine]) -> None:
    passages = dict(enumerate(corpus(200), start=1 << 62))
    index = filled(passages)
    for query in (["word1"], ["检索", "word2", "word2"], ["C++", "a b", "nowhere"]):
        expected = bm25(query, passages)
        hits = index.search(query, 1000)
        assert {hit.chunk_id for hit in hits} == set(expected)
        for hit in hits:
            assert hit.score == pytest.approx(expected[hit.chunk_id], rel=1e-12)


def test_terms_match_exactly_as_given(filled: Callable[[dict[int, Any]], Engine]) -> None:
    index = filled({1: ["a b", "c"], 2: ["a", "b"], 3: ["A", "\x00", "\n"]})
    assert [hit.chunk_id for hit in index.search(["a b"], 9)] == [1]
    assert [hit.chunk_id for hit in index.search(["a"], 9)] == [2]
    assert [hit.chunk_id for hit in index.search(["\n"], 9)] == [3]
    assert index.search(["x", "ab", ""], 9) == []


def test_passages_without_terms(filled: Callable[[dict[int, Any]], Engine]) -> None:
    index = filled({1: []})
    assert len(index) == 1
    assert index.search(["a"], 5) == []
    index.apply((), [(2, ["a"])], ("epoch", 2))
    assert index.search([], 5) == []
    assert [hit.chunk_id for hit in index.search(["a"], 5)] == [2]


def test_removed_passages_are_counted_no_more(
    filled: Callable[[dict[int, Any]], Engine],
) -> None:
    passages = dict(enumerate(corpus(120)))
    index = filled(passages)
    index.apply([*range(0, 120, 3), 999], [], ("epoch", 2))
    remainder = {number: terms for number, terms in passages.items() if number % 3}
    for query in (["word3"], ["知识", "word4", "word5"]):
        scores = {hit.chunk_id: hit.score for hit in index.search(query, 200)}
        assert scores == pytest.approx(bm25(query, remainder), rel=1e-12)


def test_both_engines_agree_on_scores() -> None:
    passages = corpus(300, seed=5)
    inverted, reference_engine = InvertedKeywords(), RankBm25Keywords()
    for index in (inverted, reference_engine):
        index.apply((), enumerate(passages), FIRST)
    for query in (["word7"], ["检索", "word8", "word9"]):
        reference = {hit.chunk_id: hit.score for hit in reference_engine.search(query, 300)}
        scores = {hit.chunk_id: hit.score for hit in inverted.search(query, 300)}
        assert scores == pytest.approx(reference, rel=1e-12)


@pytest.mark.parametrize("name", ["cmrc2018", "xquad_zh", "xquad_en"])
def test_both_engines_rank_alike_on_real_questions(shared_data: Path, name: str) -> None:
    dataset = read_retrieval_set(shared_data / name).sample(300)
    tokenize, ids = Tokenizer(), list(dataset.corpus)
    questions = {query: tokenize(dataset.queries[query]) for query in dataset.qrels}
    passages = [tokenize(text) for text in dataset.corpus.values()]
    means = []
    for index in (InvertedKeywords(), RankBm25Keywords()):
        index.apply((), enumerate(passages), FIRST)
        rankings = {
            query: [ids[hit.chunk_id] for hit in index.search(terms, 10)]
            for query, terms in questions.items()
        }
        means.append(score_rankings(rankings, dataset.qrels, partial(ndcg, k=10)).mean())
    assert means[0] == pytest.approx(means[1], abs=1e-4)
    assert means[0] > 0.9


def kept(at: Storage, *entries: tuple[int, list[str]], terms: str = "") -> InvertedKeywords:
    index = InvertedKeywords(lambda: terms)
    index.apply((), entries, FIRST, at)
    return index


def opened(at: Storage, terms: str = "") -> InvertedKeywords:
    index = InvertedKeywords(lambda: terms)
    index.open(at)
    return index


def test_terms_that_were_cut_otherwise_are_not_taken_up(tmp_path: Path) -> None:
    kept(storage(tmp_path), (1, ["a"]), terms="cut one")
    again = opened(storage(tmp_path), "cut two")
    assert again.stamp == ("", 0)
    assert len(again) == 0


def test_removed_terms_leave_no_trace_on_disk(tmp_path: Path) -> None:
    at = storage(tmp_path)
    index = kept(at, (1, ["verysecretterm"] * 50), (2, ["harmless"]))
    assert b"verysecretterm" in bytes_on_disk(tmp_path)
    index.apply([1], [], ("epoch", 2), at)
    assert index.erase(at, ("epoch", 2))
    assert b"verysecretterm" not in bytes_on_disk(tmp_path)


def test_a_change_that_is_cut_off_leaves_all_as_it_was(tmp_path: Path) -> None:
    at = storage(tmp_path)
    index = kept(at, (1, ["a"]))

    def interrupted():  # type: ignore[no-untyped-def]
        yield 2, ["b"]
        raise KeyboardInterrupt

    for removals in ((), (1,)):
        with pytest.raises(KeyboardInterrupt):
            index.apply(removals, interrupted(), ("epoch", 2), at)
        assert index.search(["b"], 5) == []
        assert opened(at).stamp == FIRST
    index.apply((1,), [(2, ["b"])], ("epoch", 2), at)
    assert [hit.chunk_id for hit in opened(at).search(["a", "b"], 5)] == [2]


@pytest.mark.parametrize("removed", [(), (1,)])
def test_a_reader_catches_up_in_memory_again_and_again(
    tmp_path: Path, removed: tuple[int, ...]
) -> None:
    at = storage(tmp_path)
    kept(at, *((n, ["a", f"t{n}"]) for n in range(5)))
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*") if p.is_file()}
    reader = opened(at)
    for step in range(2, 5):
        reader.apply(removed, [(step * 10, ["new"])], ("epoch", step))
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*") if p.is_file()} == before
    assert [hit.chunk_id for hit in reader.search(["new"], 5)] == [20, 30, 40]
    assert [hit.chunk_id for hit in reader.search(["a"], 9)] == [
        n for n in range(5) if n not in removed
    ]
    reader.apply((), [], ("epoch", 5), at)
    assert opened(at).search(["new"], 5) == reader.search(["new"], 5) != []


def test_common_terms_change_no_answer_where_they_are_skipped() -> None:
    """Against the formula over all terms, in one segment and in many, for some and for all."""
    draw = random.Random(3)
    words = [f"word{n}" for n in range(400)]
    weights = [1 / (n + 1) for n in range(400)]
    passages = {
        draw.getrandbits(62): draw.choices(words, weights, k=draw.randint(5, 60))
        for _ in range(3000)
    }
    indexes = InvertedKeywords(), InvertedKeywords(capacity=300)
    for index in indexes:
        index.apply((), passages.items(), FIRST)
    subset = np.array(sorted(draw.sample(sorted(passages), 400)), dtype=np.int64)
    for _ in range(60):
        query = [*draw.choices(words, weights, k=draw.randint(1, 12)), "word0", "word1"]
        k = draw.choice((1, 5, 30))
        scores = bm25(query, passages)
        for allowed in (None, subset):
            among = scores if allowed is None else {n: scores[n] for n in subset if n in scores}
            best = sorted(((-score, number) for number, score in among.items()))[:k]
            for index in indexes:
                hits = index.search(query, k, allowed)
                assert [hit.score for hit in hits] == pytest.approx(
                    [-score for score, _ in best], rel=1e-12
                )
            assert indexes[0].search(query, k, allowed) == indexes[1].search(query, k, allowed)


def test_of_many_passages_those_with_rarer_terms_are_enough() -> None:
    words = {n: ["common"] * (n % 2) + [f"rare{n % 50}", f"own{n}"] for n in range(400)}
    whole, index = InvertedKeywords(), InvertedKeywords(whole=300, capacity=64)
    for engine in (whole, index):
        engine.apply((), words.items(), FIRST)
    pair_query, triple_query = ["common", "rare7", "own9"], ["common", "rare7", "own9", "rare8"]
    assert index.search(pair_query, 400) == whole.search(pair_query, 400)
    hits = index.search(triple_query, 400)
    assert {hit.chunk_id for hit in hits} == {n for n in words if n % 50 in (7, 8) or n == 9}
    assert hits == [hit for hit in whole.search(triple_query, 400) if hit in hits]
    subset = np.array([7, 8, 9, 11], dtype=np.int64)
    assert [hit.chunk_id for hit in index.search(triple_query, 9, subset)] == [9, 7, 8]


def test_words_of_many_letters_and_kinds() -> None:
    long, lone = "z" * 300, "a\ud800"
    terms = ["", "é", "ee", "日本", "日本語", "本日", "𝒳y", "y𝒳", long, long + "z", lone]
    indexes = InvertedKeywords(), RankBm25Keywords()
    for index in indexes:
        index.apply((), [(n, [term]) for n, term in enumerate(terms)], FIRST)
    for term in terms:
        assert [hit.chunk_id for hit in indexes[0].search([term], 9)] == [terms.index(term)]
        for edits in (1, 2):
            words_found, reference = (index.alike(term, edits, 99) for index in indexes)
            assert words_found == reference != []


def test_a_term_may_stand_very_often_in_a_passage(tmp_path: Path) -> None:
    at = storage(tmp_path / "often")
    passages = {1: ["again"] * 70_000, 2: ["again"]}
    index = kept(at, *passages.items())
    assert [hit.chunk_id for hit in index.search(["again"], 5)] == [1, 2]
    assert index.verify(passages.items()).differing == 0
    assert index.verify([(2, ["again", "again"])]).differing == 1


def test_counts_that_a_byte_does_not_hold(tmp_path: Path) -> None:
    """They survive the file, joining and removal, beside those that fit."""
    draw = random.Random(5)
    often = {n: draw.choice((1, 7, 253, 254, 255, 256, 300, 999)) for n in range(60)}
    passages = {n: ["one"] * times + ["two"] * (n % 3) + ["three"] for n, times in often.items()}
    at = storage(tmp_path / "often")
    index = kept(at, *list(passages.items())[:30])
    index.apply((), list(passages.items())[30:], ("epoch", 2), at)
    removals = [n for n in passages if n % 4 == 0]
    index.apply(removals, (), ("epoch", 3), at)
    assert index.erase(at, ("epoch", 3))
    remainder = {n: terms for n, terms in passages.items() if n not in removals}
    assert index.verify(remainder.items()).differing == 0
    for query in (["one"], ["two", "one"], ["three"]):
        expected = bm25(query, remainder)
        hits = index.search(query, 99)
        assert {hit.chunk_id for hit in hits} == set(expected)
        for hit in hits:
            assert hit.score == pytest.approx(expected[hit.chunk_id], rel=1e-9)


def test_what_a_passage_inherits_is_a_field_of_its_own() -> None:
    """BM25F written out: tf + w * (1 - b + b * length / mean) for a term that is inherited."""
    passages = {1: ["liability", "cap"], 2: ["liability"], 3: ["ottway", "tea"], 4: ["pond"] * 5}
    heirs = {1: ["ottway", "lease"], 2: ["brenn", "lease"]}
    index = InvertedKeywords()
    entries = (
        (key, terms + [INHERITED + term for term in heirs.get(key, ())])
        for key, terms in passages.items()
    )
    index.apply((), entries, FIRST)
    mean = sum(map(len, passages.values())) / len(passages)
    expected: dict[int, float] = {}
    for term in ("liability", "ottway", "lease"):
        fields = (passages, heirs)
        count = max(sum(term in terms for terms in field.values()) for field in fields)
        n, total = smoothed(term, count, len(passages))
        idf = math.log(1 + (total - n + 0.5) / (n + 0.5))
        for key, terms in passages.items():
            length = 1 - 0.75 + 0.75 * len(terms) / mean
            tf = terms.count(term) / length + INHERITED_WEIGHT * (term in heirs.get(key, ()))
            if tf:
                expected[key] = expected.get(key, 0) + idf * tf * 2.2 / (tf + 1.2)
    hits = {hit.chunk_id: hit.score for hit in index.search(["liability", "ottway", "lease"], 9)}
    assert hits == pytest.approx(expected)
    ids = np.array([2, 3], dtype=np.int64)
    scores_of_ids = {hit.chunk_id: hit.score for hit in index.search(["ottway", "lease"], 9, ids)}
    assert scores_of_ids.keys() == {2, 3}
    assert index.frequencies(["ottway", "lease", "tea", "x"]) == (4, [1, 2, 1, 0])
    assert index.holders("liability").tolist() == [1, 2]
    index.apply([1], (), ("epoch", 2))
    assert index.holders("liability").tolist() == [2]
    assert index.holders(INHERITED + "ottway").tolist() == []


def test_of_many_passages_the_best_are_those_of_all_with_inherited_terms() -> None:
    """What is skipped on the way changes no answer."""
    draw = random.Random(4)
    passages = dict(enumerate(corpus(3000, seed=4)))
    entries = [
        (key, terms + [INHERITED + f"word{draw.randrange(30)}" for _ in range(3)])
        for key, terms in passages.items()
    ]
    index = InvertedKeywords()
    index.apply((), entries, FIRST)
    query = ["word1", "word2", "检索", "word7", "C++"]
    full_ranking = index.search(query, 3000)
    assert index.search(query, 10) == full_ranking[:10]


def test_rank_bm25_knows_one_field() -> None:
    index = RankBm25Keywords()
    entries = {1: ["cap", INHERITED + "ottway"], 2: ["tea"], 3: ["pond"]}
    index.apply((), entries.items(), FIRST, storage(Path("unused")))
    assert [hit.chunk_id for hit in index.search(["ottway"], 5)] == [1]
    assert index.holders("tea").tolist() == [2]
