"""States of prefixes on disk: what the model made of a passage outlives the process.

A state says as much as the passage that it stands for, so the files belong into the
library's own folder, readable by its owner alone, and go when a document goes.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import tempfile
from pathlib import Path
from typing import Any

_DIGEST_BYTES = 32
_ENDING = ".kv"


class StateFiles:
    """One file a state in `folder`, at most `limit` bytes together, the longest unused go first.

    `identity` names everything that a state depends on beside its tokens: weights, version of
    llama.cpp, type of the cache. Name and checksum of a file are made of identity and tokens,
    so that a state of another model, or a damaged one, is never used. What cannot be read or
    written costs time and nothing else: it is computed again.
    """

    def __init__(self, folder: Path, limit: int, identity: str) -> None:
        self._folder = folder
        self._limit = limit
        self._identity = identity.encode()

    def get(self, key: bytes) -> Any | None:
        """The state (an array of bytes) behind exactly these tokens, or None."""
        path = self._path(key)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        with contextlib.suppress(OSError):  # a folder that can only be read serves as well
            os.utime(path)
        state = memoryview(data)[_DIGEST_BYTES:]
        if data[:_DIGEST_BYTES] != self._digest(key, state):
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        return (ctypes.c_uint8 * len(state)).from_buffer_copy(state)

    def put(self, key: bytes, state: Any) -> None:
        """Keep a state, where it is not on disk yet and is no larger than the limit."""
        path, size = self._path(key), _DIGEST_BYTES + len(state)
        if size > self._limit or path.exists():
            return
        name = ""
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            self._make_room(size)
            handle, name = tempfile.mkstemp(dir=self._folder, suffix=".new")
            with os.fdopen(handle, "wb") as file:
                file.write(self._digest(key, memoryview(state)))
                file.write(state)
            Path(name).replace(path)
            name = ""
        except OSError:
            return
        finally:
            if name:
                with contextlib.suppress(OSError):
                    Path(name).unlink()

    def _make_room(self, size: int) -> None:
        """Remove files until `size` more bytes fit; other processes may be doing the same."""
        with os.scandir(self._folder) as entries:
            found = [(entry.stat(), Path(entry.path)) for entry in entries if entry.is_file()]
        found.sort(key=lambda each: each[0].st_mtime_ns)
        total = sum(status.st_size for status, _ in found)
        for status, path in found:
            if total + size <= self._limit:
                return
            path.unlink(missing_ok=True)
            total -= status.st_size

    def _path(self, key: bytes) -> Path:
        digest = hashlib.blake2b(self._identity + b"\0" + key, digest_size=20)
        return self._folder / (digest.hexdigest() + _ENDING)

    def _digest(self, key: bytes, state: memoryview) -> bytes:
        digest = hashlib.blake2b(self._identity + b"\0" + key, digest_size=_DIGEST_BYTES)
        digest.update(state)
        return digest.digest()
