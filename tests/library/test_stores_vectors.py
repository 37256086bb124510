from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from localrag.library.indexes.faiss import DamagedIndexError, FaissVectors, read_stamp
from localrag.system.seals import own_seal


def unit_vectors(count: int, dimension: int = 16, seed: int = 0) -> np.ndarray:
    vectors = np.random.default_rng(seed).standard_normal((count, dimension))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors.astype(np.float16).astype(np.float32)


def filled(count: int = 50) -> tuple[FaissVectors, np.ndarray]:
    store, vectors = FaissVectors(16), unit_vectors(count)
    store.add([(1 << 62) + 3 * n for n in range(count)], vectors)
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
    assert FaissVectors(16).search(vectors[0], 3) == []


def test_ties_go_to_the_smaller_id_whatever_the_order_and_k() -> None:
    same = np.repeat(unit_vectors(1), 40, axis=0)
    ids = [int(n) for n in np.random.default_rng(1).permutation(40)]
    store = FaissVectors(16)
    store.add(ids, same)
    for k in (1, 7, 40):
        assert [hit.chunk_id for hit in store.search(same[0], k)] == list(range(k))


def test_remove_and_replace() -> None:
    store, vectors = filled(10)
    store.remove([1 << 62, 12345])
    assert len(store) == 9
    best = store.search(vectors[0], 10)
    assert 1 << 62 not in [hit.chunk_id for hit in best]
    store.add([(1 << 62) + 3], vectors[:1])
    assert len(store) == 9
    assert store.search(vectors[0], 1)[0].chunk_id == (1 << 62) + 3


def test_wrong_shape_names_both() -> None:
    with pytest.raises(ValueError, match=r"\(2, 16\), was: \(2, 8\)"):
        FaissVectors(16).add([1, 2], np.zeros((2, 8), dtype=np.float32))


def test_saved_and_loaded_with_its_stamp(tmp_path: Path) -> None:
    store, vectors = filled()
    store.stamp = ("epoch", 7)
    path = tmp_path / "vectors.faiss"
    store.save(path)
    assert [p.name for p in tmp_path.iterdir()] == ["vectors.faiss"]
    again = FaissVectors.load(path, 16)
    assert again.stamp == ("epoch", 7) == read_stamp(path, own_seal())
    assert again.search(vectors[3], 9) == store.search(vectors[3], 9)
    again.add([5], vectors[:1])
    assert len(again) == len(store) + 1


def test_faiss_itself_reads_the_file(tmp_path: Path) -> None:
    import faiss

    store, _ = filled()
    store.save(tmp_path / "v")
    assert faiss.read_index(str(tmp_path / "v")).ntotal == 50


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "foreign", "trailer"])
def test_damage_is_noticed(tmp_path: Path, damage: str) -> None:
    store, _ = filled()
    path = tmp_path / "v"
    store.save(path)
    content = bytearray(path.read_bytes())
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
    path.write_bytes(content)
    with pytest.raises(DamagedIndexError):
        FaissVectors.load(path, 16)


def test_another_dimension_is_noticed(tmp_path: Path) -> None:
    store, _ = filled()
    store.save(tmp_path / "v")
    with pytest.raises(DamagedIndexError, match="dimension 16, expected 32"):
        FaissVectors.load(tmp_path / "v", 32)


def test_failed_save_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, vectors = filled()
    path = tmp_path / "v"
    store.save(path)
    before = path.read_bytes()
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
    store.add([1], vectors[:1])
    with pytest.raises(OSError, match="disk full"):
        store.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["v"]


def test_importing_the_room_imports_no_heavy_library() -> None:
    code = (
        "import sys, localrag.library.library; "
        "print([m for m in ('faiss', 'tantivy', 'rank_bm25', 'torch') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
