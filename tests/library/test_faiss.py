from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from library_fixtures import storage

from localrag.library.folder.sealing import DamagedIndexError
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


def test_it_is_one_file_that_faiss_itself_reads(tmp_path: Path) -> None:
    import faiss

    store, vectors = filled()
    at = storage(tmp_path / "vectors.faiss")
    store.apply((), [], ("epoch", 7), at)
    assert [p.name for p in tmp_path.iterdir()] == ["vectors.faiss"]
    assert faiss.read_index(str(at.path)).ntotal == 50
    again = FaissVectors()
    again.open(at)
    assert again.stamp == ("epoch", 7) == again.saved(at)
    assert again.search(vectors[3], 9) == store.search(vectors[3], 9)


def test_an_index_without_vectors_is_a_file_too(tmp_path: Path) -> None:
    at = storage(tmp_path / "v")
    store, vectors = filled(1)
    store.apply([1 << 62], [], ("epoch", 2), at)
    again = FaissVectors()
    again.open(at)
    assert (len(again), again.stamp) == (0, ("epoch", 2))
    again.apply((), [(5, vectors[0])], ("epoch", 3))
    assert [hit.chunk_id for hit in again.search(vectors[0], 1)] == [5]


def test_an_older_file_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, vectors = filled()
    at = storage(tmp_path / "v")
    store.save(at)
    store.apply((), [(1, vectors[0])], ("epoch", 2))
    monkeypatch.setattr("faiss.deserialize_index", None)
    store.open(at)
    assert len(store) == 51


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "foreign", "trailer"])
def test_damage_is_noticed(tmp_path: Path, damage: str) -> None:
    store, _ = filled()
    at = storage(tmp_path / "v")
    store.save(at)
    content = bytearray(at.path.read_bytes())
    if damage == "cut":
        content = content[: len(content) // 2]
    elif damage == "flip":
        content[len(content) // 2] ^= 1
    elif damage == "empty":
        content = bytearray()
    elif damage == "trailer":
        content = content[:-1]
    else:
        content = bytearray(b'{"format": "other"}')
    at.path.write_bytes(content)
    with pytest.raises(DamagedIndexError):
        FaissVectors().open(at)


def test_failed_save_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, vectors = filled()
    at = storage(tmp_path / "v")
    store.save(at)
    before = at.path.read_bytes()
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        store.apply((), [(1, vectors[0])], ("epoch", 2), at)
    assert at.path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["v"]


def test_importing_the_room_imports_no_heavy_library() -> None:
    code = (
        "import sys, localrag.factory; "
        "print([m for m in ('faiss', 'tantivy', 'rank_bm25', 'torch') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
