from __future__ import annotations

import hashlib
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from library_fixtures import bytes_on_disk, storage

from localrag.library.folder.sealing import DamagedIndexError, sealed, unsealed
from localrag.library.indexes.faiss import FaissVectors


def unit_vectors(count: int, dimension: int = 16, seed: int = 0) -> np.ndarray:
    vectors = np.random.default_rng(seed).standard_normal((count, dimension))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors.astype(np.float16).astype(np.float32)


def filled(count: int = 50) -> tuple[FaissVectors, np.ndarray]:
    store, vectors = FaissVectors(), unit_vectors(count)
    store.apply((), (((1 << 62) + 3 * n, one) for n, one in enumerate(vectors)), ("epoch", 1))
    return store, vectors


def test_search_equals_numpy() -> None:
    store, vectors = filled()
    query = unit_vectors(1, seed=9)[0]
    exact = vectors @ query
    hits = store.search(query, 5)
    assert [hit.chunk_id - (1 << 62) for hit in hits] == [3 * n for n in np.argsort(-exact)[:5]]
    assert [hit.score for hit in hits] == pytest.approx(sorted(exact, reverse=True)[:5], abs=1e-6)


def test_more_wanted_than_there_are() -> None:
    store, vectors = filled(3)
    assert len(store.search(vectors[0], 10)) == 3
    assert store.search(vectors[0], 0) == []
    assert FaissVectors().search(vectors[0], 3) == []


def test_ties_go_to_the_smaller_id_whatever_the_order_and_k() -> None:
    same = np.repeat(unit_vectors(1), 40, axis=0)
    ids = [int(n) for n in np.random.default_rng(1).permutation(40)]
    store = FaissVectors()
    store.apply((), zip(ids, same, strict=True), ("epoch", 1))
    for k in (1, 7, 40):
        assert [hit.chunk_id for hit in store.search(same[0], k)] == list(range(k))


def test_wrong_shape_names_both() -> None:
    with pytest.raises(ValueError, match=r"\(2, 16\), was: \(2, 8\)"):
        filled()[0].apply((), [(n, np.zeros(8, dtype=np.float32)) for n in (1, 2)], ("epoch", 2))


def test_an_index_without_vectors_is_kept_too(tmp_path: Path) -> None:
    at = storage(tmp_path / "v")
    store, vectors = filled(1)
    store.apply([1 << 62], [], ("epoch", 2), at)
    again = FaissVectors()
    again.open(at)
    assert (len(again), again.stamp) == (0, ("epoch", 2))
    again.apply((), [(5, vectors[0])], ("epoch", 3))
    assert [hit.chunk_id for hit in again.search(vectors[0], 1)] == [5]


def test_an_older_state_is_not_taken_up(tmp_path: Path) -> None:
    store, vectors = filled()
    at = storage(tmp_path / "v")
    store.apply((), [], ("epoch", 1), at)
    store.apply((), [(1, vectors[0])], ("epoch", 2))
    store.open(at)
    assert len(store) == 51


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "foreign", "more", "gone"])
@pytest.mark.parametrize("name", ["index.json", "*.segment"])
def test_damage_is_noticed(tmp_path: Path, damage: str, name: str) -> None:
    at = storage(tmp_path / "v")
    filled()[0].apply((), [], ("epoch", 1), at)
    (path,) = at.path.glob(name)
    content = bytearray(path.read_bytes())
    if damage == "flip":
        content[len(content) // 2] ^= 1
    path.write_bytes(
        {
            "cut": content[: len(content) // 2],
            "empty": b"",
            "foreign": b'{"format": "other"}',
            "more": content + b"x",
        }.get(damage, content)
    )
    if damage == "gone":
        path.unlink()
        if name == "index.json":
            return
    with pytest.raises(DamagedIndexError):
        FaissVectors().open(at)


HOSTILE = {
    "leads away": {"name": "../../etc/passwd"},
    "another file": {"name": "index.json"},
    "no entries": {"count": 0},
    "more entries than bytes": {"count": 1 << 60},
    "negative": {"count": -1},
    "text": {"count": "many"},
    "too few bits": {"gone": "AA=="},
    "no bits": {"gone": "!"},
    "no identity": {"identity": [1]},
    "something more": {"more": 1},
}


@pytest.mark.parametrize("case", HOSTILE)
def test_what_a_group_may_seal_is_bounded(tmp_path: Path, case: str) -> None:
    at = storage(tmp_path / "v")
    filled()[0].apply((), [], ("epoch", 1), at)
    fields = unsealed((at.path / "index.json").read_bytes(), at.seal)
    fields["segments"][0] |= HOSTILE[case]
    (at.path / "index.json").write_bytes(sealed(fields, at.seal))
    with pytest.raises(DamagedIndexError):
        FaissVectors().open(at)


@pytest.mark.parametrize("dimension", [0, -1, 17, 1 << 40, "x", None])
def test_the_dimension_is_bounded(tmp_path: Path, dimension: Any) -> None:
    at = storage(tmp_path / "v")
    filled()[0].apply((), [], ("epoch", 1), at)
    fields = unsealed((at.path / "index.json").read_bytes(), at.seal) | {"dimension": dimension}
    (at.path / "index.json").write_bytes(sealed(fields, at.seal))
    with pytest.raises(DamagedIndexError):
        FaissVectors().open(at)


def test_a_segment_is_read_through_once_and_a_copy_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at, read = storage(tmp_path / "v"), []
    digest = hashlib.file_digest
    monkeypatch.setattr(
        "hashlib.file_digest", lambda file, kind: read.append(file.name) or digest(file, kind)
    )
    store, vectors = filled()
    store.apply((), [], ("epoch", 1), at)
    FaissVectors().open(at)
    assert read == []
    shutil.copytree(at.path, tmp_path / "copy")
    copy, again = storage(tmp_path / "copy"), FaissVectors()
    again.open(copy)
    assert len(read) == 1
    again.apply((), [(1, vectors[0])], ("epoch", 2), copy)
    read.clear()
    FaissVectors().open(copy)
    assert read == [], "known again since the change"


def test_failed_save_keeps_the_old_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, vectors = filled()
    at = storage(tmp_path / "v")
    store.apply((), [], ("epoch", 1), at)

    def content() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in at.path.iterdir()}

    before = content()
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        store.apply((), [(1, vectors[0])], ("epoch", 2), at)
    assert content() == before
    assert (len(store), store.stamp) == (50, ("epoch", 1))


# Many vectors, in many segments


def small(rescored: int = 20, capacity: int = 32) -> FaissVectors:
    """One that goes by codes from 41 vectors on."""
    return FaissVectors(rescored, exact=40, capacity=capacity)


def contents(number: int) -> np.ndarray:
    """Vectors some of which are alike, as those of repeated passages are."""
    return unit_vectors(1, seed=number % 150)[0]


@pytest.mark.parametrize("seed", range(4))
def test_random_changes_equal_a_fresh_build_to_the_digit(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    at = storage(tmp_path / "v")
    store, held = small(), {}
    for generation in range(1, 41):
        gone = draw.sample(sorted(held), min(len(held), draw.choice((0, 1, 3, 30))))
        new = [draw.getrandbits(62) for _ in range(draw.choice((0, 1, 2, 20, 90)))]
        held = {n: one for n, one in held.items() if n not in gone}
        held |= {number: contents(number) for number in new}
        added = [(number, held[number]) for number in new]
        place = draw.choice((at, at, None))
        store.apply(gone, added, ("epoch", generation), place)
        if place and draw.random() < 0.5:
            assert store.erase(at, ("epoch", generation))
        if place and draw.random() < 0.3:
            store = small()
            store.open(at)
        fresh = small(capacity=draw.choice((32, 1 << 16)))
        fresh.apply((), held.items(), ("epoch", generation))
        assert store.chunk_set() == fresh.chunk_set()
        allowed = np.array(sorted(draw.sample(sorted(held), len(held) * 3 // 4)), dtype=np.int64)
        for _ in range(3):
            query, k = contents(draw.randrange(150)), draw.choice((1, 10, 30))
            assert store.search(query, k) == fresh.search(query, k)
            assert store.search(query, k, allowed) == fresh.search(query, k, allowed)
        assert store.verify(held.items()).differing == 0
        assert sorted(store.verify(()).ids) == sorted(held)


def test_scores_are_those_of_all_compared(tmp_path: Path) -> None:
    vectors = unit_vectors(2000, 64)
    coarse, exact = small(200), FaissVectors(0)
    for store in (coarse, exact):
        store.apply((), enumerate(vectors), ("epoch", 1))
    found = 0
    for query in unit_vectors(20, 64, seed=1):
        hits, wanted = coarse.search(query, 10), exact.search(query, 10)
        scores = {hit.chunk_id: hit.score for hit in exact.search(query, 2000)}
        assert [hit.score for hit in hits] == [scores[hit.chunk_id] for hit in hits]
        found += len({hit.chunk_id for hit in hits} & {hit.chunk_id for hit in wanted})
    assert 150 < found < 200, "an approximation, and a good one"


def test_segments_are_few_and_a_change_leaves_the_large_ones_alone(tmp_path: Path) -> None:
    at = storage(tmp_path / "v")
    store = FaissVectors()
    vectors = unit_vectors(5000)
    store.apply((), enumerate(vectors), ("epoch", 1), at)
    (large,) = at.path.glob("*.segment")
    for generation in range(2, 40):
        new = [(10_000 * generation + n, vectors[n]) for n in range(100)]
        store.apply([generation], new, ("epoch", generation), at)
        assert large.exists()
        assert len(list(at.path.glob("*.segment"))) <= 5
    assert store.erase(at, ("epoch", 39))
    assert not large.exists()


def test_what_is_removed_is_hidden_and_then_gone(tmp_path: Path) -> None:
    at = storage(tmp_path / "v")
    store, vectors = FaissVectors(), unit_vectors(5000)
    store.apply((), enumerate(vectors), ("epoch", 1), at)
    trace = vectors[77].astype("<f2").tobytes()
    store.apply([77], (), ("epoch", 2), at)
    assert 77 not in [hit.chunk_id for hit in store.search(vectors[77], 5)]
    assert trace in bytes_on_disk(at.path)
    assert store.erase(at, ("epoch", 2))
    assert trace not in bytes_on_disk(at.path)
    again = FaissVectors()
    again.open(at)
    for one in (store, again):
        assert (len(one), one.stamp) == (4999, ("epoch", 2))
        assert 77 not in [hit.chunk_id for hit in one.search(vectors[77], 5)]


class KilledError(BaseException):
    """Stands for the end of the process."""


def killed_after(left_to_do: list[int], step: Callable[..., Any]) -> Callable[..., Any]:
    """The same step, as long as there are some left to do."""

    def done(*arguments: Any, **more: Any) -> Any:
        left_to_do[0] -= 1
        if left_to_do[0] < 0:
            raise KilledError
        return step(*arguments, **more)

    return done


def test_a_kill_between_any_two_steps_leaves_one_state_or_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every rename, deletion and forcing to disk is such a step."""
    vectors = unit_vectors(300)
    at = storage(tmp_path / "v")
    first = FaissVectors(capacity=64)
    first.apply((), enumerate(vectors[:250]), ("epoch", 1), at)
    (tmp_path / "vectors.faiss").write_bytes(b"of an earlier version")
    first.apply([3, 100], (), ("epoch", 2), at)
    (tmp_path / "vectors.faiss").write_bytes(b"of an earlier version")
    shutil.copytree(tmp_path, sound := tmp_path.with_name("sound"))
    states = {("epoch", 2): 248, ("epoch", 3): 290}
    seen, left_to_do = set(), [0]
    for moment in range(1000):
        shutil.rmtree(tmp_path)
        shutil.copytree(sound, tmp_path)
        with monkeypatch.context() as patch:
            for owner, name in ((os, "fsync"), (Path, "replace"), (Path, "unlink")):
                patch.setattr(owner, name, killed_after(left_to_do, getattr(owner, name)))
            left_to_do[0] = moment
            store = FaissVectors(capacity=64)
            store.open(at)
            try:
                store.apply([5], enumerate(vectors[250:293], 1000), ("epoch", 3), at)
                store.erase(at, ("epoch", 3))
                done = True
            except KilledError:
                done = False
        again = FaissVectors()
        again.open(at)
        seen.add(again.stamp)
        assert len(again) == states[again.stamp]
        again.apply([], (), again.stamp, at)
        assert again.erase(at, again.stamp)
        left = bytes_on_disk(tmp_path)
        assert vectors[3].astype("<f2").tobytes() not in left
        assert b"earlier" not in left
        assert not list(at.path.glob("*.part"))
        if done:
            break
    assert (moment > 10, seen) == (True, set(states))


def test_importing_the_room_imports_no_heavy_library() -> None:
    code = (
        "import sys, localrag.factory; "
        "print([m for m in ('faiss', 'tantivy', 'rank_bm25', 'torch') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
