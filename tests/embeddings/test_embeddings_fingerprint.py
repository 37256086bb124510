import hashlib
import os
from pathlib import Path

from localrag.models.embeddings.conventions import Convention
from localrag.models.embeddings.folder import fingerprint, weights_sha256


def test_whatever_moves_the_vectors_changes_it() -> None:
    base = fingerprint("m", "ab" * 32, Convention("cls", "q: "))
    assert base == fingerprint("m", "AB" * 32, Convention("cls", "q: "))
    fingerprints = {
        fingerprint("n", "ab" * 32, Convention("cls", "q: ")),
        fingerprint("m", "ac" * 32, Convention("cls", "q: ")),
        fingerprint("m", "ab" * 32, Convention("mean", "q: ")),
        fingerprint("m", "ab" * 32, Convention("cls", "Q: ")),
        fingerprint("m", "ab" * 32, Convention("cls", "", "q: ")),
    }
    assert len(fingerprints | {base}) == 6
    assert base.startswith("m ")


def test_the_hash_is_kept_and_follows_the_file(tmp_path: Path) -> None:
    weights, cache = tmp_path / "w.bin", tmp_path / "cache"
    weights.write_bytes(b"one")
    first = weights_sha256([weights], cache)
    assert first == hashlib.sha256(b"one").hexdigest()

    # Same size and time: the kept hash is taken, so the file is not read again.
    status = weights.stat()
    weights.write_bytes(b"two")
    os.utime(weights, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert weights_sha256([weights], cache) == first

    os.utime(weights, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert weights_sha256([weights], cache) == hashlib.sha256(b"two").hexdigest()


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    weights, blocked = tmp_path / "w.bin", tmp_path / "file"
    weights.write_bytes(b"one")
    blocked.write_bytes(b"in the way")
    assert weights_sha256([weights], blocked / "cache") == hashlib.sha256(b"one").hexdigest()
    assert weights_sha256([weights], None) == hashlib.sha256(b"one").hexdigest()


def test_several_files_count_in_their_order(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    a.write_bytes(b"1")
    b.write_bytes(b"2")
    assert weights_sha256([a, b], None) != weights_sha256([b, a], None)
