"""One contract over both engines, and what only the one on disk can do."""

from __future__ import annotations

import math
import random
import runpy
from collections.abc import Callable
from pathlib import Path

import pytest

from localrag.library.indexes.faiss import DamagedIndexError
from localrag.library.indexes.rank_bm25 import RankBm25Keywords
from localrag.library.indexes.tantivy import TantivyKeywords, _digests, _point, read_pointer
from localrag.system.seals import own_seal

ROOT = Path(__file__).resolve().parents[2]

Engine = TantivyKeywords | RankBm25Keywords


@pytest.fixture(params=["tantivy on disk", "tantivy in memory", "rank_bm25"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Engine]:
    numbers = iter(range(100))

    def made() -> Engine:
        if request.param == "rank_bm25":
            return RankBm25Keywords()
        if request.param == "tantivy in memory":
            return TantivyKeywords()
        return TantivyKeywords(tmp_path / str(next(numbers)))

    return made


def corpus(count: int, seed: int = 0) -> list[list[str]]:
    """Passages of 5 to 40 terms, a length that tantivy keeps exactly; few words, many ties."""
    draw = random.Random(seed)
    words = [f"word{n}" for n in range(30)] + ["检索", "知识", "C++", "a b"]
    return [draw.choices(words, k=draw.randint(5, 40)) for _ in range(count)]


def bm25(query: list[str], passages: dict[int, list[str]]) -> dict[int, float]:
    """Okapi BM25 as Lucene has it, written out."""
    mean = sum(map(len, passages.values())) / len(passages)
    scores: dict[int, float] = {}
    for term in query:
        n = sum(term in terms for terms in passages.values())
        idf = math.log(1 + (len(passages) - n + 0.5) / (n + 0.5))
        for key, terms in passages.items():
            tf = terms.count(term)
            if tf:
                length = 1 - 0.75 + 0.75 * len(terms) / mean
                scores[key] = scores.get(key, 0) + idf * tf * 2.2 / (tf + 1.2 * length)
    return scores


def test_scores_are_those_of_the_formula(make: Callable[[], Engine]) -> None:
    passages = dict(enumerate(corpus(200), start=1 << 62))
    index = make()
    index.add(list(passages), list(passages.values()))
    for query in (["word1"], ["检索", "word2", "word2"], ["C++", "a b", "nowhere"]):
        expected = bm25(query, passages)
        hits = index.search(query, 1000)
        assert {hit.chunk_id for hit in hits} == set(expected)
        for hit in hits:
            assert hit.score == pytest.approx(expected[hit.chunk_id], rel=2e-3, abs=1e-4)


def test_terms_match_exactly_as_given(make: Callable[[], Engine]) -> None:
    index = make()
    index.add([1, 2, 3], [["a b", "c"], ["a", "b"], ["A", "\x00", "\n"]])
    assert [hit.chunk_id for hit in index.search(["a b"], 9)] == [1]
    assert [hit.chunk_id for hit in index.search(["a"], 9)] == [2]
    assert [hit.chunk_id for hit in index.search(["\n"], 9)] == [3]
    assert index.search(["x", "ab", ""], 9) == []


def test_best_first_and_ties_by_id(make: Callable[[], Engine]) -> None:
    index = make()
    ids = list(range(60))
    random.Random(2).shuffle(ids)
    for part in (ids[:20], ids[20:40], ids[40:]):
        index.add(part, [["same", "words"]] * 20)
    for k in (1, 13, 60):
        assert [hit.chunk_id for hit in index.search(["same"], k)] == list(range(k))


def test_nothing_to_search(make: Callable[[], Engine]) -> None:
    index = make()
    assert index.search(["a"], 5) == []
    index.add([1], [[]])
    assert len(index) == 1
    assert index.search(["a"], 5) == []
    index.add([2], [["a"]])
    assert index.search([], 5) == []
    assert index.search(["a"], 0) == []


def test_after_removal_as_if_it_had_never_been_there(make: Callable[[], Engine]) -> None:
    passages = dict(enumerate(corpus(120)))
    gone = set(range(0, 120, 3))
    one, other = make(), make()
    for start in (0, 40, 80):
        part = range(start, start + 40)
        one.add(list(part), [passages[key] for key in part])
        other.add([k for k in part if k not in gone], [passages[k] for k in part if k not in gone])
    one.remove([*gone, 999])
    assert len(one) == len(other) == 80
    for query in (["word3"], ["知识", "word4", "word5"]):
        assert one.search(query, 200) == other.search(query, 200) != []


def test_adding_a_known_id_replaces_it(make: Callable[[], Engine]) -> None:
    index = make()
    index.add([1, 2], [["old"], ["other"]])
    index.add([1], [["new"]])
    assert len(index) == 2
    assert index.search(["old"], 5) == []
    assert [hit.chunk_id for hit in index.search(["new"], 5)] == [1]


def test_both_engines_agree_on_scores() -> None:
    passages = corpus(300, seed=5)
    one, other = TantivyKeywords(), RankBm25Keywords()
    for index in (one, other):
        index.add(range(300), passages)
    for query in (["word7"], ["检索", "word8", "word9"]):
        reference = {hit.chunk_id: hit.score for hit in other.search(query, 300)}
        scores = {hit.chunk_id: hit.score for hit in one.search(query, 300)}
        assert scores == pytest.approx(reference, rel=2e-3, abs=1e-4)


@pytest.mark.parametrize("name", ["cmrc2018", "xquad_zh", "xquad_en"])
def test_both_engines_rank_alike_on_real_questions(shared_data: Path, name: str) -> None:
    benchmark = runpy.run_path(str(ROOT / "benchmarks" / "keyword_engines.py"))
    tantivy, reference = benchmark["measure"](shared_data / name, 300)
    assert tantivy == pytest.approx(reference, abs=0.005)
    assert tantivy > 0.9


def test_disk_opens_with_its_stamp(tmp_path: Path) -> None:
    index = TantivyKeywords(tmp_path, "cut one")
    index.update((), [(1, ["a"]), (2, ["b"])], ("epoch", 3))
    again = TantivyKeywords(tmp_path, "cut one")
    assert again.stamp == ("epoch", 3)
    assert again.search(["b"], 5) == index.search(["b"], 5)


def test_disk_cut_otherwise_is_begun_anew(tmp_path: Path) -> None:
    TantivyKeywords(tmp_path, "cut one").update((), [(1, ["a"])], ("epoch", 3))
    again = TantivyKeywords(tmp_path, "cut two")
    assert again.stamp == ("", 0)
    assert len(again) == 0


def test_removed_terms_leave_no_trace_on_disk(tmp_path: Path) -> None:
    index = TantivyKeywords(tmp_path)
    index.add([1, 2], [["verysecretterm"] * 50, ["harmless"]])
    assert any(b"verysecretterm" in p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())
    index.remove([1])
    assert not any(b"verysecretterm" in p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())
    assert len([p for p in tmp_path.iterdir() if p.is_dir()]) == 1


def test_update_that_is_cut_off_changes_nothing(tmp_path: Path) -> None:
    index = TantivyKeywords(tmp_path)
    index.update((), [(1, ["a"])], ("epoch", 1))

    def interrupted():  # type: ignore[no-untyped-def]
        yield 2, ["b"]
        raise KeyboardInterrupt

    for removed in ((), (1,)):
        with pytest.raises(KeyboardInterrupt):
            index.update(removed, interrupted(), ("epoch", 2))
        assert index.search(["b"], 5) == []
        assert TantivyKeywords(tmp_path).stamp == ("epoch", 1)
    index.update((1,), [(2, ["b"])], ("epoch", 2))
    assert [hit.chunk_id for hit in TantivyKeywords(tmp_path).search(["a", "b"], 5)] == [2]
    assert len([p for p in tmp_path.iterdir() if p.is_dir()]) == 1


def test_reader_catches_up_in_memory_and_leaves_the_files_alone(tmp_path: Path) -> None:
    index = TantivyKeywords(tmp_path)
    index.update((), [(n, ["a", f"t{n}"]) for n in range(5)], ("epoch", 1))
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*") if p.is_file()}
    ahead = index.changed((), [(9, ["new"])], ("epoch", 2))
    shrunk = index.changed((1,), [], ("epoch", 2))
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*") if p.is_file()} == before
    assert [hit.chunk_id for hit in ahead.search(["new"], 5)] == [9]
    assert len(ahead) == 6
    assert [hit.chunk_id for hit in shrunk.search(["a"], 9)] == [0, 2, 3, 4]
    assert ahead.stamp == ("epoch", 2)
    assert len(index) == 5
    index.update((0,), [], ("epoch", 2))
    assert [hit.chunk_id for hit in index.search(["a"], 9)] == [1, 2, 3, 4]


def test_damaged_folder_is_noticed(tmp_path: Path) -> None:
    TantivyKeywords(tmp_path).add([1], [["a"]])
    pointer = read_pointer(tmp_path, own_seal())
    assert pointer is not None
    (tmp_path / pointer.folder / "meta.json").write_text("{")
    with pytest.raises(DamagedIndexError):
        TantivyKeywords(tmp_path)
    (tmp_path / "index.json").write_text("{")
    with pytest.raises(DamagedIndexError):
        TantivyKeywords(tmp_path)
    assert len(TantivyKeywords(tmp_path, anew=True)) == 0


@pytest.mark.parametrize(
    ("old", "new"), [('"id"', '"ix"'), ('"record":"freq"', '"record":"basic"')]
)
def test_an_index_of_other_fields_is_built_anew(old: str, new: str, tmp_path: Path) -> None:
    index = TantivyKeywords(tmp_path)
    index.update((), [(1, ["tea"])], (1, 1))
    pointer = read_pointer(tmp_path, own_seal())
    assert pointer is not None
    described = tmp_path / pointer.folder / "meta.json"
    text = described.read_text("utf-8").replace('": ', '":')
    assert old in text
    described.write_text(text.replace(old, new), "utf-8")
    resealed = pointer._replace(files=_digests(described.parent, {}))
    _point(tmp_path, resealed, own_seal())
    with pytest.raises(DamagedIndexError, match="fields"):
        TantivyKeywords(tmp_path)
