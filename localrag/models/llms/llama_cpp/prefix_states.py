"""States of prefixes that were read once, least recently used first to go."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from localrag.models.llms.base import LAST
from localrag.models.llms.llama_cpp.state_files import StateFiles


class PrefixStates:
    """Saved states by the tokens they stand for, at most `limit` bytes of memory together.

    The key is the tokens themselves: another passage, rule or template can never be
    served a state that is not its own. With `files`, states are also written to disk
    and found there again.
    """

    def __init__(self, limit: int, files: StateFiles | None = None) -> None:
        self.limit = limit
        self.size = 0
        self._states: OrderedDict[bytes, Any] = OrderedDict()
        self._files = files

    def __len__(self) -> int:
        return len(self._states)

    def get(self, prefix: Sequence[int], layer: int = LAST) -> Any | None:
        """The state (an array of bytes) behind exactly these tokens, or None.

        Computed up to a layer, by its number from 0, or whole.
        """
        key = key_of(prefix, layer)
        if key in self._states:
            self._states.move_to_end(key)
            return self._states[key]
        state = self._files.get(key) if self._files else None
        if state is not None:
            self._hold(key, state)
        return state

    def has(self, prefix: Sequence[int]) -> bool:
        """Whether there is such a state, sound or not."""
        key = key_of(prefix)
        return key in self._states or (self._files is not None and self._files.has(key))

    def put(self, prefix: Sequence[int], state: Any, layer: int = LAST) -> None:
        """Keep a state; the longest unused ones make room."""
        key = key_of(prefix, layer)
        self._hold(key, state)
        if self._files:
            self._files.put(key, state)

    @property
    def files(self) -> StateFiles | None:
        """Those on disk."""
        return self._files

    def clear(self) -> None:
        """Forget all that is in memory."""
        self._states.clear()
        self.size = 0

    def _hold(self, key: bytes, state: Any) -> None:
        self.size -= len(self._states.pop(key, b""))
        if len(state) > self.limit:
            return
        self._states[key] = state
        self.size += len(state)
        while self.size > self.limit:
            self.size -= len(self._states.popitem(last=False)[1])


def key_of(prefix: Sequence[int], layer: int = LAST) -> bytes:
    """What the state behind these tokens is known by, computed up to a layer or whole."""
    tokens = array("i", prefix).tobytes()
    # No token is negative, so that the key of a whole state begins otherwise.
    return tokens if layer == LAST else array("i", [-1, layer]).tobytes() + tokens
