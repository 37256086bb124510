from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from library_fixtures import SearchedVectors, storage

from localrag.library.folder.sealing import DamagedIndexError, sealed, unsealed


def unit_vectors(count: int, dimension: int = 16, seed: int = 0) -> np.ndarray:
    vectors = np.random.default_rng(seed).standard_normal((count, dimension))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors.astype(np.float16).astype(np.float32)


def filled(count: int = 50) -> tuple[SearchedVectors, np.ndarray]:
    store, vectors = SearchedVectors(), unit_vectors(count)
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
    assert SearchedVectors().search(vectors[0], 3) == []


def test_ties_go_to_the_smaller_id_whatever_the_order_and_k() -> None:
    same = np.repeat(unit_vectors(1), 40, axis=0)
    ids = [int(n) for n in np.random.default_rng(1).permutation(40)]
    store = SearchedVectors()
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
    again = SearchedVectors()
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


@pytest.mark.parametrize("dimension", [0, -1, 17, 1 << 40, "x", None])
def test_the_dimension_is_bounded(tmp_path: Path, dimension: Any) -> None:
    at = storage(tmp_path / "v")
    filled()[0].apply((), [], ("epoch", 1), at)
    fields = unsealed((at.path / "index.json").read_bytes(), at.seal)
    fields["segments"][0]["shape"][1] = dimension
    (at.path / "index.json").write_bytes(sealed(fields, at.seal))
    with pytest.raises(DamagedIndexError):
        SearchedVectors().open(at)


# Many vectors, in many segments


def small(rescored: int = 20, capacity: int = 32) -> SearchedVectors:
    """One that goes by codes from 41 vectors on."""
    return SearchedVectors(rescored, exact=40, capacity=capacity)


def test_scores_are_those_of_all_compared(tmp_path: Path) -> None:
    vectors = unit_vectors(2000, 64)
    coarse, exact = small(200), SearchedVectors(0)
    for store in (coarse, exact):
        store.apply((), enumerate(vectors), ("epoch", 1))
    found = 0
    for query in unit_vectors(20, 64, seed=1):
        hits, wanted = coarse.search(query, 10), exact.search(query, 10)
        scores = {hit.chunk_id: hit.score for hit in exact.search(query, 2000)}
        assert [hit.score for hit in hits] == [scores[hit.chunk_id] for hit in hits]
        found += len({hit.chunk_id for hit in hits} & {hit.chunk_id for hit in wanted})
    assert 150 < found < 200, "an approximation, and a good one"


def test_importing_the_room_imports_no_heavy_library() -> None:
    code = (
        "import sys, localrag.factory; "
        "print([m for m in ('faiss', 'rank_bm25', 'torch') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
