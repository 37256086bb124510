"""States of prefixes that were read once, least recently used first to go."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any


class PrefixStates:
    """Saved states by the tokens they stand for, at most `limit` bytes together.

    The key is the tokens themselves: another passage, rule or template can never be
    served a state that is not its own.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.size = 0
        self._states: OrderedDict[bytes, Any] = OrderedDict()

    def __len__(self) -> int:
        return len(self._states)

    def get(self, prefix: Sequence[int]) -> Any | None:
        """The state (an array of bytes) behind exactly these tokens, or None."""
        key = _key(prefix)
        if key in self._states:
            self._states.move_to_end(key)
        return self._states.get(key)

    def put(self, prefix: Sequence[int], state: Any) -> None:
        """Keep a state of at most `limit` bytes; the longest unused ones make room."""
        key = _key(prefix)
        self.size -= len(self._states.pop(key, b""))
        self._states[key] = state
        self.size += len(state)
        while self.size > self.limit:
            self.size -= len(self._states.popitem(last=False)[1])

    def clear(self) -> None:
        """Forget all."""
        self._states.clear()
        self.size = 0


def _key(prefix: Sequence[int]) -> bytes:
    return array("i", prefix).tobytes()
