from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from library_fixtures import SearchedVectors, storage

from localrag.library.folder.sealing import DamagedIndexError, sealed, unsealed
from localrag.library.indexes.comparison import AllVectors, compared, over
from localrag.library.indexes.faiss import Rows, _margin
from localrag.library.indexes.rabitq import one_bit_codes


def unit_vectors(count: int, dimension: int = 16, seed: int = 0) -> np.ndarray:
    vectors = np.random.default_rng(seed).standard_normal((count, dimension))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors.astype(np.float16).astype(np.float32)


def filled(count: int = 50) -> tuple[SearchedVectors, np.ndarray]:
    store, vectors = SearchedVectors(), unit_vectors(count)
    store.apply((), (((1 << 62) + 3 * n, vector) for n, vector in enumerate(vectors)), ("epoch", 1))
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
    equal_vectors = np.repeat(unit_vectors(1), 40, axis=0)
    ids = [int(n) for n in np.random.default_rng(1).permutation(40)]
    store = SearchedVectors()
    store.apply((), zip(ids, equal_vectors, strict=True), ("epoch", 1))
    for k in (1, 7, 40):
        assert [hit.chunk_id for hit in store.search(equal_vectors[0], k)] == list(range(k))


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
    count = 0
    for query in unit_vectors(20, 64, seed=1):
        hits, expected = coarse.search(query, 10), exact.search(query, 10)
        scores = {hit.chunk_id: hit.score for hit in exact.search(query, 2000)}
        assert [hit.score for hit in hits] == [scores[hit.chunk_id] for hit in hits]
        count += len({hit.chunk_id for hit in hits} & {hit.chunk_id for hit in expected})
    assert 150 < count < 200, "an approximation, and a good one"


def test_the_best_by_codes_are_ranked_as_they_are() -> None:
    """As if the 200 that the codes put first, and what ties with the last, were all there are."""
    vectors = unit_vectors(2000, 64)
    store = small(200, 300)
    store.apply((), enumerate(vectors), ("epoch", 1))
    coder = one_bit_codes(64)
    rows = coder.encode(vectors)
    codes = coder.index(rows)
    for query in unit_vectors(20, 64, seed=1):
        scores, places = codes.search(coder.rotated(query[None]), 2000)
        first = np.sort(places[0][scores[0] >= scores[0][199]])
        for k in (1, 10, 100):
            expected = compared(first, vectors[first].astype(np.float16), query, k)
            assert store.search(query, k) == expected


def odd_vectors(count: int, dimension: int) -> np.ndarray:
    """Of many kinds: even, spread, with one number that stands out, nearly alike, and alike."""
    draw = np.random.default_rng(6)
    vectors = draw.standard_normal((count, dimension)) ** draw.choice([1, 3], (count, 1))
    vectors[::7] = np.sign(vectors[::7])
    vectors[::5, 0] = draw.choice([3.0, 30.0, -300.0], len(vectors[::5]))
    vectors[::3] = vectors[0] + draw.standard_normal((len(vectors[::3]), dimension)) * 1e-3
    vectors[10:20] = vectors[9]
    vectors[21] = 0
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    vectors[30:36] *= 40  # nothing says that a catalogue's vectors are of length 1
    return vectors.astype(np.float16).astype(np.float32)


@pytest.mark.parametrize("dimension", [1, 16, 200, 1024])
def test_all_that_can_be_among_the_best_are_named(dimension: int) -> None:
    """By the bound alone: found and ranked as if all were compared as they are, to the digit."""
    vectors = odd_vectors(900, dimension)
    ids = np.arange(len(vectors)) * 3
    whole, parts = SearchedVectors(0), SearchedVectors(0, capacity=64)
    for store in (whole, parts):
        store.apply((), zip(ids.tolist(), vectors, strict=True), ("epoch", 1))
    whole_index = AllVectors(ids, vectors.astype(np.float16))
    for number, query in enumerate(odd_vectors(60, dimension)):
        numbers = np.sort(np.random.default_rng(number).choice(ids, 300, replace=False))
        for k in (1, 10, 300, 2000):
            expected = compared(ids, vectors.astype(np.float16), query, k)
            assert whole.search(query, k) == parts.search(query, k) == expected
            brute_force = compared(numbers, vectors[numbers // 3].astype(np.float16), query, k)
            assert whole.search(query, k, numbers) == parts.search(query, k, numbers) == brute_force
            assert whole_index.search(query, k, numbers) == brute_force


def test_few_more_are_named_than_asked_for() -> None:
    store = SearchedVectors(0)
    store.apply((), enumerate(unit_vectors(2000, 512)), ("epoch", 1))
    counts = [len(store.candidates(query, 10)) for query in unit_vectors(20, 512, seed=1)]
    assert 10 <= np.mean(counts) < 200


@pytest.mark.parametrize("kind", ["one large number", "alike"])
@pytest.mark.parametrize("rescored", [0, 1000])
def test_no_more_are_named_than_can_be_looked_up(kind: str, rescored: int) -> None:
    """Where the bound leaves more possible, and in whatever segments they lie."""
    vectors = unit_vectors(9000, 64)
    if kind == "alike":
        vectors[:] = vectors[0]
    else:
        vectors[:, 0] = 30
    whole = SearchedVectors(rescored, exact=2000)
    parts = SearchedVectors(rescored, exact=2000, capacity=700)
    for store in (whole, parts):
        store.apply((), enumerate(vectors), ("epoch", 1))
    ids = np.arange(len(vectors))
    for query in vectors[:5]:
        assert 4000 >= len(whole.candidates(query, 10)) >= (1000 if rescored else 4000)
        assert len(parts.candidates(query, 1100)) <= 4400
        assert whole.candidates(query, 10).tolist() == parts.candidates(query, 10).tolist()
        if not rescored:
            expected = compared(ids, vectors.astype(np.float16), query, 10)
            assert whole.search(query, 10) == expected


@pytest.mark.parametrize("dimension", [1, 3, 64, 512, 1000])
def test_the_bound_holds_for_every_score(dimension: int) -> None:
    vectors = odd_vectors(300, dimension)
    rows = Rows.of(np.arange(300), vectors)
    stepped = (rows.levels.astype(np.float64) - 128) * rows.steps[:, None]
    assert (np.abs(stepped - vectors) <= rows.steps[:, None] / 2).all()
    assert not (rows.levels == 0).any()
    index = over(rows.levels)
    for query in odd_vectors(40, dimension):
        true, margin = vectors @ query.astype(np.float64), _margin(query[None])
        assert (np.abs(stepped @ query.astype(np.float64) - true) <= margin * rows.steps).all()
        scores, places = index.search(query[None], 300)
        near = stepped[places[0]] / rows.steps[places[0], None] @ query.astype(np.float64)
        assert (np.abs(scores[0] - near) <= margin * (dimension + 8) * 2.0**-16 + 1e-9).all()


def test_a_vector_has_the_same_bytes_in_any_company() -> None:
    vectors = odd_vectors(200, 48)
    together = Rows.of(np.arange(200), vectors)
    for number in range(0, 200, 9):
        alone = Rows.of(np.array([number]), vectors[number][None])
        for part, other in zip(alone, together.at(slice(number, number + 1)), strict=True):
            assert part.tobytes() == other.tobytes()


def test_importing_the_room_imports_no_heavy_library() -> None:
    code = (
        "import sys, localrag.factory; "
        "print([m for m in ('faiss', 'rank_bm25', 'torch') if m in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


SEARCHED = """
import sys
import numpy as np
{imports}
from localrag.library.indexes.faiss import FaissVectors
vectors = np.random.default_rng(5).standard_normal((300, 64)).astype(np.float32)
for store in (FaissVectors(20, exact=40, capacity=128), FaissVectors(0)):
    store.apply((), enumerate(vectors), ("epoch", 1))
    print(store.candidates(vectors[7], 3).tolist())
"""


def test_who_reads_pdfs_first_searches_no_worse() -> None:
    """FAISS and PyMuPDF are made with SWIG, which hands out the classes of who was there first."""
    outputs = {
        subprocess.run(
            [sys.executable, "-c", SEARCHED.format(imports=imports)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for imports in ("", "import pymupdf, faiss", "import faiss, pymupdf")
    }
    assert len(outputs) == 1
    assert all("7" in line for line in outputs.pop().splitlines())
