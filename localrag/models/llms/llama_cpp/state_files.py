"""States of prefixes on disk: what the model made of a passage outlives the process.

A state says as much as the passage that it stands for, so the files belong into the
library's own folder, readable by its owner alone, and go when a document goes. What the
model reads in a state need not be the passage, so only states with this user's seal are used.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import re
from pathlib import Path
from typing import Any

from localrag.system.files import is_real_folder, make_folder, replace_file
from localrag.system.seals import Seal, own_seal

_NAME = re.compile(r"[0-9a-f]{40}\.kv(?:\.[0-9a-f]{8}\.part)?|tmp[0-9a-z_]+\.new")
"""A state, or what a process left that was ended while it wrote one."""


class StateFiles:
    """One file a state in `folder`, at most `limit` bytes together, the longest unused go first.

    `identity` names everything that a state depends on beside its tokens: weights, version of
    llama.cpp, type of the cache. A file is named after identity and tokens, and its seal is over
    that name and the state, so that a state of another model, a damaged one, or one that somebody
    else has put there is never used. `seal` is that of this user where none is given. What cannot
    be read or written costs time and nothing else: it is computed again.
    """

    def __init__(self, folder: Path, limit: int, identity: str, seal: Seal | None = None) -> None:
        self._folder = folder
        self._limit = limit
        self._identity = identity.encode()
        self._seal = seal or own_seal()

    def get(self, key: bytes) -> Any | None:
        """The state (an array of bytes) behind exactly these tokens, or None."""
        path = self._path(key)
        if not is_real_folder(self._folder):
            return None
        try:
            state = self._seal.content(path, self._limit)
        except OSError:
            return None
        if state is None:
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        with contextlib.suppress(OSError):  # a folder that can only be read serves as well
            os.utime(path, follow_symlinks=False)
        return (ctypes.c_uint8 * len(state)).from_buffer_copy(state)

    def put(self, key: bytes, state: Any) -> None:
        """Keep a state, where it is not on disk yet and is no larger than the limit."""
        path, size = self._path(key), self._seal.size_of(len(state))
        if size > self._limit or os.path.lexists(path):
            return
        content = memoryview(state)
        try:
            if self._folder.parent.is_dir():
                make_folder(self._folder)
            if not is_real_folder(self._folder):
                return
            self._make_room(size)
            parts = self._seal.file(path.name, content)
            replace_file(path, lambda file: file.writelines(parts), durable=False)
        except OSError:
            return

    def _make_room(self, size: int) -> None:
        """Remove files until `size` more bytes fit; other processes may be doing the same."""
        with os.scandir(self._folder) as entries:
            found = [
                (entry.stat(follow_symlinks=False), Path(entry.path))
                for entry in entries
                if _NAME.fullmatch(entry.name) and entry.is_file(follow_symlinks=False)
            ]
        found.sort(key=lambda entry: entry[0].st_mtime_ns)
        total = sum(status.st_size for status, _ in found)
        for status, path in found:
            if total + size <= self._limit:
                return
            path.unlink(missing_ok=True)
            total -= status.st_size

    def _path(self, key: bytes) -> Path:
        named = self._identity + b"\0" + key
        digest = hashlib.blake2b(named, digest_size=20).digest()
        if self._seal.cipher is not None:  # whoever has a passage is not told that it is here
            digest = self._seal.of(digest)[:20]
        return self._folder / f"{digest.hex()}.kv"
