"""What identifies a vector space, and the hash of a model's weights."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from localrag.models.embeddings.conventions import Convention
from localrag.system.files import make_folder, replace_content


def fingerprint(name: str, weights_sha256: str, convention: Convention) -> str:
    """`name` and a digest of weights, pooling and prefixes: "bge-small-en-v1.5 3f0c...".

    Two embedders with the same fingerprint give the same vectors for the same text.
    """
    parts = [
        weights_sha256.lower(),
        convention.pooling,
        convention.query_prefix,
        convention.passage_prefix,
    ]
    digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
    return f"{name} {digest[:16]}"


def weights_sha256(files: Sequence[Path], cache_dir: Path | None) -> str:
    """SHA-256 (hex) of the file, or of the hashes of several files in the order given.

    Reading a large file takes a second, so its hash is kept in `cache_dir` under the
    file's path, size and modification time. A folder that cannot be written is no error.
    """
    hashes = [_file_sha256(path, cache_dir) for path in files]
    if len(hashes) == 1:
        return hashes[0]
    return hashlib.sha256("".join(hashes).encode()).hexdigest()


def file_key(path: Path) -> str:
    """A name for what is derived from the file: of its path, size and modification time."""
    status = path.stat()
    identity = f"{path.resolve()}\n{status.st_size}\n{status.st_mtime_ns}"
    return hashlib.sha256(identity.encode("utf-8", "surrogateescape")).hexdigest()[:24]


def write_atomically(path: Path, data: bytes) -> None:
    """Write a cache file; readers see all of it or nothing. Raises OSError."""
    make_folder(path.parent)
    replace_content(path, data)


def _file_sha256(path: Path, cache_dir: Path | None) -> str:
    kept = cache_dir / f"{file_key(path)}.sha256" if cache_dir else None
    if kept is not None and kept.is_file():
        digest = kept.read_text(encoding="ascii", errors="replace")
        if len(digest) == 64:
            return digest
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if kept is not None:
        # A cache in a read-only place costs time at the next start, nothing else.
        with contextlib.suppress(OSError):
            write_atomically(kept, digest.encode("ascii"))
    return digest
