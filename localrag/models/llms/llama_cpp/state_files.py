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
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from localrag.system.files import is_real_folder, make_folder, replace_file
from localrag.system.seals import Seal, own_seal

_NAME = re.compile(r"[0-9a-f]{40}\.kv(?:\.[0-9a-f]{8}\.part)?|tmp[0-9a-z_]+\.new")
"""A state, or what a process left that was ended while it wrote one."""

AHEAD = 10**9
"""Seconds, 32 years: by so much too old is a state that was read ahead, until a question uses it.

So it is the first to go where a question needs its room, and nothing else need be kept of it."""
PER_TIER = 10**8
"""Seconds, 3 years: by so much older still for each tier, of which 0 is likeliest to be used."""


class AheadState(NamedTuple):
    """A file that was read ahead and not used yet; `made` in seconds since the epoch."""

    path: Path
    size: int
    tier: int
    made: float


def states_ahead(folder: Path) -> list[AheadState]:
    """What was read ahead into `folder` and not used yet, the first to go first."""
    if not is_real_folder(folder):
        return []
    marks = ((path, status, _tier(status.st_mtime)) for status, path in _files(folder))
    return [
        AheadState(path, status.st_size, tier, status.st_mtime + AHEAD + tier * PER_TIER)
        for path, status, tier in marks
        if tier >= 0
    ]


def _tier(mtime: float) -> int:
    """The tier of what was read ahead; below 0 for a state of a question."""
    return int((time.time() - AHEAD - mtime) // PER_TIER)


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
            _set_times(path)
        return (ctypes.c_uint8 * len(state)).from_buffer_copy(state)

    def put(self, key: bytes, state: Any) -> bool:
        """Keep a state, where it is not on disk yet and is no larger than the limit.

        Whether it is there.
        """
        path, size = self._path(key), self._seal.size_of(len(state))
        if size > self._limit or os.path.lexists(path):
            return size <= self._limit
        content = memoryview(state)
        try:
            if self._folder.parent.is_dir():
                make_folder(self._folder)
            if not is_real_folder(self._folder):
                return False
            self._make_room(size)
            parts = self._seal.file(path.name, content)
            replace_file(path, lambda file: file.writelines(parts), durable=False)
        except OSError:
            return False
        return True

    def has(self, key: bytes) -> bool:
        """Whether the state behind these tokens is on disk, sound or not."""
        return os.path.lexists(self._path(key))

    def fits_ahead(self, length: int, limit: int, tier: int) -> bool:
        """Whether `put_ahead` has room for so many bytes."""
        return self._in_the_way(self._seal.size_of(length), limit, tier) is not None

    def put_ahead(
        self, key: bytes, state: Any, limit: int, tier: int, still: Callable[[], bool]
    ) -> bool:
        """Keep a state for which nobody has asked yet; False where it is not kept.

        At most `limit` bytes are read ahead; only what was itself read ahead, of a later tier,
        makes room. `still` says whether the text may be kept; it is asked once the state is
        written, too, which leaves nothing of a document that was removed in between. Raises
        OSError.
        """
        path, content = self._path(key), memoryview(state)
        leaving = self._in_the_way(self._seal.size_of(len(state)), limit, tier)
        if leaving is None or not still():
            return False
        if self._folder.parent.is_dir():
            make_folder(self._folder)
        if not is_real_folder(self._folder):
            return False
        for other in leaving:
            other.unlink(missing_ok=True)
        parts = self._seal.file(path.name, content)
        replace_file(path, lambda file: file.writelines(parts), durable=False)
        kept = False
        try:
            mark = time.time() - AHEAD - tier * PER_TIER
            _set_times(path, (mark, mark))
            kept = still()
        finally:
            if not kept:
                path.unlink(missing_ok=True)
        return kept

    def _in_the_way(self, size: int, limit: int, tier: int) -> list[Path] | None:
        """What must go for `size` bytes that are read ahead; None where that is not enough."""
        ahead, total = states_ahead(self._folder), 0
        if is_real_folder(self._folder):
            total = sum(status.st_size for status, _ in _files(self._folder))
        excess = max(total + size - self._limit, sum(state.size for state in ahead) + size - limit)
        leaving: list[Path] = []
        for state in ahead:
            if excess <= 0:
                break
            if state.tier > tier:
                leaving.append(state.path)
                excess -= state.size
        return leaving if excess <= 0 else None

    def _make_room(self, size: int) -> None:
        """Remove files until `size` more bytes fit; other processes may be doing the same."""
        found = _files(self._folder)
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


def _files(folder: Path) -> list[tuple[os.stat_result, Path]]:
    """The states in a folder, and what is left of some, the longest unused first."""
    states = []
    # Another process may remove any of them meanwhile, or the folder.
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                if _NAME.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                    states.append((entry.stat(follow_symlinks=False), Path(entry.path)))
    return sorted(states, key=lambda entry: entry[0].st_mtime_ns)


def _set_times(path: Path, times: tuple[float, float] | None = None) -> None:
    """The times of access and change, by default now; not through a link where the system can."""
    os.utime(path, times, follow_symlinks=os.utime not in os.supports_follow_symlinks)
