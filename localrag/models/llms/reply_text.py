"""What a reader sees of a reply while it is being written.

Two filters in a row, each of which holds back what it cannot decide yet: bytes to characters,
and thoughts out.
"""

from __future__ import annotations

import codecs

_OPEN, _CLOSE = "<think>", "</think>"


class WithoutThoughts:
    """Drops a `<think>...</think>` at the head of a reply, and the blank space behind it."""

    def __init__(self, *, thinking: bool = False) -> None:
        self._held: str | None = _OPEN if thinking else ""
        """What may belong to a thought; None once the reply itself has begun."""

    def feed(self, text: str) -> str:
        """What of the text so far may be shown."""
        if self._held is None:
            return text
        shown = self._held + text
        head = shown.lstrip()
        if head.startswith(_OPEN):
            thought, closed, after = head.removeprefix(_OPEN).partition(_CLOSE)
            shown = after.lstrip()
            if not shown:
                self._held = f"{_OPEN}{thought[-len(_CLOSE) :]}{closed}"
                return ""
        elif _OPEN.startswith(head):
            self._held = shown
            return ""
        self._held = None
        return shown

    def finish(self) -> str:
        """What was held back and turned out to be no thought."""
        held, self._held = self._held or "", None
        return "" if held.lstrip().startswith(_OPEN) else held


class ReplyText:
    """Both in a row: bytes of tokens in, text for the reader out."""

    def __init__(self, *, thinking: bool = False) -> None:
        # A character whose bytes are not all there yet is held back.
        self._characters = codecs.getincrementaldecoder("utf-8")("replace")
        self._thoughts = WithoutThoughts(thinking=thinking)

    def feed(self, data: bytes) -> str:
        """What `data` adds to the text that may be shown."""
        return self._thoughts.feed(self._characters.decode(data))

    def finish(self) -> str:
        """What remains at the end of the reply; half a character is dropped."""
        return self._thoughts.finish()
