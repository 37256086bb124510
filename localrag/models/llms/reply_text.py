"""What a reader sees of a reply while it is being written.

Three filters in a row, each of which holds back what it cannot decide yet:
bytes to characters, thoughts out, and an end at a stop string.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence

_OPEN, _CLOSE = "<think>", "</think>"


class WithoutThoughts:
    """Drops a `<think>...</think>` at the head of a reply, and the blank space behind it."""

    def __init__(self, *, thinking: bool = False) -> None:
        self._state = "inside" if thinking else "start"
        self._held = ""

    def feed(self, text: str) -> str:
        """What of the text so far may be shown."""
        if self._state == "open":
            return text
        self._held += text
        if self._state == "start":
            head = self._held.lstrip()
            if head.startswith(_OPEN):
                self._state = "inside"
                self._held = head.removeprefix(_OPEN)
            elif not _OPEN.startswith(head):
                return self._release(self._held)
        if self._state == "inside":
            before, found, after = self._held.partition(_CLOSE)
            if not found:
                self._held = before[-len(_CLOSE) :]
                return ""
            self._state = "behind"
            self._held = after
        if self._state == "behind" and self._held.lstrip():
            return self._release(self._held.lstrip())
        return ""

    def finish(self) -> str:
        """What was held back and turned out to be no thought."""
        return self._release(self._held) if self._state == "start" else ""

    def _release(self, text: str) -> str:
        self._state = "open"
        self._held = ""
        return text


class UntilStop:
    """Ends the text before the first stop string."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = [stop for stop in stops if stop]
        self._held = ""
        self.stopped = False

    def feed(self, text: str) -> str:
        """What of the text so far is certainly before any stop string."""
        if self.stopped:
            return ""
        if not self._stops:
            return text
        self._held += text
        places = [place for stop in self._stops if (place := self._held.find(stop)) >= 0]
        if places:
            self.stopped = True
            shown, self._held = self._held[: min(places)], ""
            return shown
        keep = max(_overlap(self._held, stop) for stop in self._stops)
        shown = self._held[: len(self._held) - keep]
        self._held = self._held[len(shown) :]
        return shown

    def finish(self) -> str:
        """What was held back and turned out to be no stop string."""
        shown, self._held = self._held, ""
        return shown


class ReplyText:
    """All three in a row: bytes of tokens in, text for the reader out."""

    def __init__(self, stops: Sequence[str] = (), *, thinking: bool = False) -> None:
        # A character whose bytes are not all there yet is held back.
        self._characters = codecs.getincrementaldecoder("utf-8")("replace")
        self._thoughts = WithoutThoughts(thinking=thinking)
        self._until = UntilStop(stops)

    @property
    def stopped(self) -> bool:
        """Whether a stop string has come."""
        return self._until.stopped

    def feed(self, data: bytes) -> str:
        """What `data` adds to the text that may be shown."""
        return self._until.feed(self._thoughts.feed(self._characters.decode(data)))

    def finish(self) -> str:
        """What remains at the end of the reply; half a character is dropped."""
        return self._until.feed(self._thoughts.finish()) + self._until.finish()


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` that is a beginning of `stop`."""
    for length in range(min(len(text), len(stop) - 1), 0, -1):
        if text.endswith(stop[:length]):
            return length
    return 0
