"""One contract over all derived indexes, and over one that is new."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from library_fixtures import SearchedVectors, Words, add, document, open_library, storage

from localrag.documents.chunking import passage_text
from localrag.library.check import check_library
from localrag.library.derived import Indexes
from localrag.library.folder.gate import KEYWORDS, VECTORS
from localrag.library.folder.sealing import DamagedIndexError, ForeignIndexError
from localrag.library.indexes.base import Storage, Verified
from localrag.library.indexes.comparison import WithVectors
from localrag.library.indexes.faiss import FaissVectors
from localrag.library.indexes.inverted import InvertedKeywords
from localrag.library.indexes.rank_bm25 import RankBm25Keywords
from localrag.library.indexes.remote import RemoteVectors
from localrag.library.records import ID_SUMS, NEVER, ChunkSet
from localrag.system.seals import Seal
from localrag.types import Hit

FIRST, SECOND, THIRD = ("epoch", 1), ("epoch", 2), ("epoch", 3)


class SharedWords:
    """All that a new index takes: here, how many words of the query a passage has."""

    persistent = False

    def __init__(self) -> None:
        self.stamp, self.held = NEVER, {}

    def saved(self, at): ...

    def open(self, at): ...

    def apply(self, removed, added, stamp, at=None):
        remainder = {n: terms for n, terms in self.held.items() if n not in removed}
        self.held, self.stamp = remainder | dict(added), stamp

    def search(self, query, k, allowed=None):
        hits = [Hit(n, len({*terms} & {*query})) for n, terms in self.held.items()]
        allowed_hits = [h for h in hits if h.score and (allowed is None or h.chunk_id in allowed)]
        return sorted(allowed_hits, key=lambda hit: (-hit.score, hit.chunk_id))[:k]

    def frequencies(self, terms):
        return len(self.held), [
            sum(term in terms_of_passage for terms_of_passage in self.held.values())
            for term in terms
        ]

    def alike(self, term, edits, k, allowed=None):
        return [hit for hit in self.search([term], k, allowed) if edits]

    def chunk_set(self):
        return ChunkSet(len(self.held), sum(self.held) % ID_SUMS)

    def verify(self, expected):
        return Verified([*self.held], sum(self.held.get(n, t) != t for n, t in expected))

    def erase(self, at, but=None):
        return True


class FakeStore:
    """All that a store of vectors on another machine takes."""

    def __init__(self) -> None:
        self.marked, self.held, self.puts = NEVER, {}, 0

    def stamp(self):
        return self.marked

    def mark(self, stamp):
        self.marked = stamp

    def put(self, ids, vectors):
        self.held |= dict(zip(ids, vectors, strict=True))
        self.puts += len(ids)

    def remove(self, ids):
        self.held = {n: vector for n, vector in self.held.items() if n not in ids}

    def clear(self):
        self.marked, self.held = NEVER, {}

    def ids(self):
        return np.array([*self.held], dtype=np.int64)

    def vectors(self, ids):
        return np.stack([self.held[n] for n in ids])

    def nearest(self, query, k, allowed):
        near = {n: v @ query for n, v in self.held.items() if allowed is None or n in allowed}
        last = sorted(near.values(), reverse=True)[:k][-1:]
        return np.array([n for n, score in near.items() if [score] >= last], dtype=np.int64)


class SearchedStore(RemoteVectors):
    """With a catalogue's vectors beside it, as a library has them."""

    def __init__(self) -> None:
        self.store = FakeStore()
        super().__init__(self.store)

    def search(self, query: Any, k: int, allowed: Any = None) -> list[Hit]:
        def held(ids: Any) -> Any:
            return np.array([self.store.held[n] for n in ids.tolist()], dtype=np.float16)

        return WithVectors(self, held).search(query, k, allowed)


@dataclass(frozen=True)
class Kind:
    """An index, the name that it has on disk, and something to hold for each number."""

    make: Callable[[], Any]
    name: str
    content: Callable[[int], Any]


def vector(number: int) -> np.ndarray:
    values = np.random.default_rng(number % 100).standard_normal(16)
    return (values / np.linalg.norm(values)).astype(np.float16).astype(np.float32)


def terms(number: int) -> list[str]:
    return [f"term{number % 100}", "every", "passage"]


KINDS = {
    "faiss": Kind(SearchedVectors, VECTORS, vector),
    "faiss, many segments": Kind(partial(SearchedVectors, capacity=4), VECTORS, vector),
    "inverted": Kind(InvertedKeywords, KEYWORDS, terms),
    "inverted, many segments": Kind(partial(InvertedKeywords, capacity=4), KEYWORDS, terms),
    "rank-bm25": Kind(RankBm25Keywords, KEYWORDS, terms),
    "new": Kind(SharedWords, KEYWORDS, terms),
    "remote": Kind(SearchedStore, VECTORS, vector),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


@pytest.fixture
def at(kind: Kind, tmp_path: Path) -> Storage:
    (tmp_path / "library").mkdir()
    return storage(tmp_path / "library" / kind.name)


@pytest.fixture(params=["in memory", "on disk"])
def place(request: pytest.FixtureRequest, at: Storage) -> Storage | None:
    return at if request.param == "on disk" else None


def entries(kind: Kind, *numbers: int) -> Iterator[tuple[int, Any]]:
    return ((number, kind.content(number)) for number in numbers)


def filled(kind: Kind, place: Storage | None, *numbers: int) -> Any:
    index = kind.make()
    index.apply((), entries(kind, *numbers), FIRST, place)
    return index


def found(kind: Kind, index: Any, number: int, k: int = 99, allowed: Any = None) -> list[int]:
    return [hit.chunk_id for hit in index.search(kind.content(number), k, allowed)]


def test_a_new_one_holds_nothing(kind: Kind, at: Storage) -> None:
    index = kind.make()
    assert (index.stamp, index.chunk_set(), index.saved(at)) == (NEVER, (0, 0), None)
    assert index.search(kind.content(1), 5) == []
    index.open(at)
    assert (index.stamp, index.chunk_set()) == (NEVER, (0, 0))
    assert index.verify(entries(kind, 1)) == ([], 0)
    assert index.erase(at)


def test_what_is_added_is_found_best_first(kind: Kind, place: Storage | None) -> None:
    index = filled(kind, place, *range(1, 30))
    assert index.stamp == FIRST
    assert index.chunk_set() == (29, sum(range(30)))
    hits = index.search(kind.content(7), 5)
    assert hits[0].chunk_id == 7
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert len(hits) == 5
    assert index.search(kind.content(7), 0) == []


def test_ids_are_those_of_chunks(kind: Kind, place: Storage | None) -> None:
    large = [(1 << 63) - 1, (1 << 62) + 5]
    index = filled(kind, place, *large)
    assert index.chunk_set() == (2, sum(large) % ID_SUMS)
    assert found(kind, index, large[1], 1) == [large[1]]


def test_ties_go_to_the_smaller_id(kind: Kind, place: Storage | None) -> None:
    index = filled(kind, place, *(100 * n + 3 for n in (5, 1, 4, 2, 3)))
    for k in (1, 3, 5):
        assert found(kind, index, 3, k) == [100 * n + 3 for n in (1, 2, 3, 4, 5)][:k]


def test_only_what_is_allowed_is_found_with_the_same_scores(
    kind: Kind, place: Storage | None
) -> None:
    index = filled(kind, place, *range(30))
    everywhere = {hit.chunk_id: hit.score for hit in index.search(kind.content(4), 99)}
    ids = np.array([2, 4, 9, 77], dtype=np.int64)
    hits = index.search(kind.content(4), 99, ids)
    assert {hit.chunk_id for hit in hits} == {2, 4, 9}
    assert {hit.chunk_id: hit.score for hit in hits} == pytest.approx(
        {number: everywhere[number] for number in (2, 4, 9)}
    )
    assert index.search(kind.content(4), 5, np.array([], dtype=np.int64)) == []


def test_what_was_removed_was_never_there(kind: Kind, place: Storage | None) -> None:
    index = filled(kind, place, *range(20))
    index.apply([*range(0, 20, 3), 999], entries(kind, 40), SECOND, place)
    never = kind.make()
    never.apply((), entries(kind, *(n for n in range(20) if n % 3), 40), SECOND)
    assert index.stamp == SECOND
    assert index.chunk_set() == never.chunk_set()
    for number in (3, 4, 40):
        assert index.search(kind.content(number), 99) == never.search(kind.content(number), 99)


def test_what_is_removed_and_added_is_replaced(kind: Kind, place: Storage | None) -> None:
    index = filled(kind, place, 1, 2)
    index.apply([1], [(1, kind.content(8))], SECOND, place)
    assert index.chunk_set() == (2, 3)
    assert index.search(kind.content(8), 1)[0].chunk_id == 1


def test_all_that_was_removed_comes_back(kind: Kind, place: Storage | None) -> None:
    index = filled(kind, place, 1, 2)
    index.apply([1, 2], [], SECOND, place)
    assert (index.chunk_set(), found(kind, index, 1)) == ((0, 0), [])
    index.apply((), entries(kind, 1), THIRD, place)
    assert found(kind, index, 1) == [1]


def test_a_change_that_was_cut_off_is_made_by_the_same_call(
    kind: Kind, place: Storage | None
) -> None:
    index = filled(kind, place, 1, 2)

    def interrupted() -> Iterator[tuple[int, Any]]:
        yield 3, kind.content(3)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        index.apply([2, 3], interrupted(), SECOND, place)
    index.apply([2, 3], entries(kind, 3), SECOND, place)
    assert (index.stamp, index.chunk_set()) == (SECOND, (2, 4))
    assert found(kind, index, 3)[0] == 3


def test_other_content_is_told(kind: Kind, place: Storage | None) -> None:
    index = filled(kind, place, 1, 2, 3)
    ids, differing = index.verify(entries(kind, 1, 2, 3, 4))
    assert (sorted(ids), differing) == ([1, 2, 3], 0)
    wrong = [(1, kind.content(1)), (2, kind.content(9)), (3, kind.content(8))]
    assert index.verify(wrong).differing == 2


# On disk


def test_what_is_kept_opens_at_the_state_that_it_names(kind: Kind, at: Storage) -> None:
    index, again = filled(kind, at, *range(10)), kind.make()
    again.open(at)
    if not index.persistent:
        assert (again.stamp, index.saved(at)) == (NEVER, None)
        return
    assert again.stamp == index.saved(at) == FIRST
    assert again.chunk_set() == index.chunk_set()
    assert again.search(kind.content(4), 99) == index.search(kind.content(4), 99)


on_disk = pytest.mark.parametrize(
    "kind", [name for name, kind in KINDS.items() if kind.make().persistent], indirect=True
)


@on_disk
def test_who_has_it_in_memory_takes_up_what_is_newer(kind: Kind, at: Storage) -> None:
    writer, reader = filled(kind, at, 1, 2), kind.make()
    reader.open(at)
    writer.apply([1], entries(kind, 5), SECOND, at)
    reader.open(at)
    assert (reader.stamp, reader.chunk_set()) == (SECOND, (2, 7))


@on_disk
def test_a_change_in_memory_leaves_the_files_alone(kind: Kind, at: Storage) -> None:
    filled(kind, at, 1, 2)
    before = {path: path.stat().st_mtime_ns for path in at.path.parent.rglob("*")}
    reader = kind.make()
    reader.open(at)
    reader.apply([1], entries(kind, 5), SECOND)
    assert found(kind, reader, 5)[0] == 5
    assert {path: path.stat().st_mtime_ns for path in at.path.parent.rglob("*")} == before
    assert reader.saved(at) == FIRST


@on_disk
def test_nothing_of_another_key_is_opened(kind: Kind, at: Storage) -> None:
    filled(kind, Storage(at.path, Seal(b"k" * 32)), 1)
    assert kind.make().saved(at) is None
    with pytest.raises(ForeignIndexError):
        kind.make().open(at)


@on_disk
def test_each_byte_that_was_altered_is_noticed(kind: Kind, at: Storage) -> None:
    filled(kind, at, 1, 2)
    files = [path for path in at.path.parent.rglob("*") if path.is_file()]
    for path in (path for path in files if path.suffix != ".lock"):
        content = path.read_bytes()
        for altered in (content[:-1], bytes([content[0] ^ 1]) + content[1:], content + b"x"):
            path.write_bytes(altered)
            with pytest.raises(DamagedIndexError):
                kind.make().open(at)
        path.write_bytes(content)
    kind.make().open(at)


@on_disk
def test_all_is_erased_but_the_state_that_is_to_stay(kind: Kind, at: Storage) -> None:
    index = filled(kind, at, 1)
    (at.path.parent / "letter").write_text("mine")
    assert index.erase(at, FIRST)
    assert index.saved(at) == FIRST
    assert index.erase(at, SECOND)
    assert [path.name for path in at.path.parent.iterdir()] == ["letter"]


# In a library


def test_a_library_asks_a_store_that_others_share(tmp_path: Path) -> None:
    lines = inspect.getsource(FakeStore).splitlines()
    assert sum(map(bool, map(str.strip, lines))) <= 30
    store = FakeStore()
    indexes = Indexes(partial(RemoteVectors, store), SharedWords, Words(), passage_text)
    with open_library(tmp_path, indexes=indexes) as library:
        for name in ("tea", "sea"):
            add(library, document(f"about {name}", source=name))
        library.sync()
        (first, *_), vectors = zip(*store.held.items(), strict=True)
        assert library.vectors.search(vectors[0], 1)[0].chunk_id == first
        assert store.puts == 2
    with open_library(tmp_path, indexes=indexes) as library:
        assert len(library.vectors.search(vectors[0], 5)) == 2
        assert store.puts == 2  # what it has is taken up, not sent again
        library.remove(sources=["tea"])
        library.sync()
        assert len(store.held) == 1
    assert check_library(tmp_path, indexes).findings == []


def test_a_store_at_another_state_is_filled_anew(tmp_path: Path) -> None:
    store = FakeStore()
    indexes = Indexes(partial(RemoteVectors, store), SharedWords, Words(), passage_text)
    with open_library(tmp_path, indexes=indexes) as library:
        add(library, document("about tea", source="tea"))
        library.sync()
        vectors = dict(store.held)
    store.mark(("another line of changes", 7))
    store.put([99], np.ones((1, len(next(iter(vectors.values())))), dtype=np.float32))
    with open_library(tmp_path, indexes=indexes) as library:
        assert [
            hit.chunk_id for hit in library.vectors.search(next(iter(vectors.values())), 5)
        ] == [*vectors]
    assert store.held.keys() == vectors.keys()


def test_a_new_index_answers_a_search(tmp_path: Path) -> None:
    assert sum(map(bool, map(str.strip, inspect.getsource(SharedWords).splitlines()))) <= 30
    indexes = Indexes(FaissVectors, SharedWords, Words(), passage_text)
    with open_library(tmp_path, indexes=indexes) as library:
        for name, text in {"tea": "green tea in spring", "sea": "the old harbour"}.items():
            add(library, document(text, source=name))
        library.sync()
        hits = library.keywords.search(["green", "tea", "harbour"], 5)
        passages = [library.chunks([hit.chunk_id])[hit.chunk_id].text for hit in hits]
        assert passages == ["green tea in spring", "the old harbour"]
        library.remove(sources=["tea"])
        assert library.keywords.search(["tea"], 5) == []
        assert library.keywords.frequencies(["harbour"]) == (1, [1])
    assert check_library(tmp_path, indexes).findings == []
