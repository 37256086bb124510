"""What the user's patterns match, taken out of everything that goes to another machine.

Each matched text has one placeholder for as long as the model is used, so that the model can
refer to it; the placeholders in a reply are turned back here, on this machine.
"""

from __future__ import annotations

import json
import re
import threading
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

from localrag.errors import ConfigError
from localrag.system.memory import kept

SECONDS = 2.0
"""That one pattern may take on one text: some patterns take longer than a life on some texts."""

_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1b\x7f]")
_PLACEHOLDER = re.compile(r"\[REDACTED-(\d{1,9})\]")
_BEGUN = re.compile(r"\[(?:R(?:E(?:D(?:A(?:C(?:T(?:E(?:D(?:-\d{0,9})?)?)?)?)?)?)?)?)?$")


class Redactor:
    """Replaces what any of the patterns matches. Several threads may use it.

    Patterns are those of the `regex` library, which are Python's own and more; `regex.error`
    is raised for one that is none.
    """

    def __init__(self, patterns: Sequence[str] = (), *, seconds: float = SECONDS) -> None:
        self._patterns = [_compiled(pattern) for pattern in patterns]
        self._plain = kept(1 << 14)(_plain)
        self._seconds = seconds
        self._numbers: dict[str, int] = {}
        self._texts: list[str] = []
        self._lock = threading.Lock()

    def redact(self, text: str) -> tuple[str, int]:
        """The text with placeholders, and how many there are of ours in it.

        Where matches overlap, all that they cover together is replaced. Raises
        `ConfigError` where a pattern takes longer than it may.
        """
        parts: list[str] = []
        end = 0
        spans = self.placeholders(text)
        for start, stop, placeholder in spans:
            parts += [text[end:start], placeholder]
            end = stop
        return "".join([*parts, text[end:]]), len(spans)

    def placeholders(self, text: str) -> list[tuple[int, int, str]]:
        """What `redact` puts for which code points, in order."""
        return [
            (start, stop, f"[REDACTED-{self._number(text[start:stop])}]")
            for start, stop in self._spans(text)
        ]

    def restore(self, text: str, *, in_json: bool = False) -> str:
        """The text with what our placeholders stand for; `in_json`: escaped as in a string."""

        def original(match: re.Match[str]) -> str:
            number = int(match[1])
            if not 1 <= number <= len(self._texts):
                return match[0]
            value = self._texts[number - 1]
            return json.dumps(value, ensure_ascii=False)[1:-1] if in_json else value

        return _PLACEHOLDER.sub(original, text) if self._texts else text

    def restored(self, pieces: Iterator[str]) -> Iterator[str]:
        """The same for a reply that comes in pieces: a placeholder may stand in several."""
        buffer = ""
        for piece in pieces:
            buffer += piece
            begun = _BEGUN.search(buffer)
            end = begun.start() if begun else len(buffer)
            if text := self.restore(buffer[:end]):
                yield text
            buffer = buffer[end:]
        if buffer:
            yield buffer

    def _spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Where something must go, in order, none overlapping another."""
        if not self._patterns:
            return
        ranges: list[tuple[int, int]] = []
        folded, starts, stops = _folded(text, self._plain)
        for pattern in self._patterns:
            try:
                ranges += self._matches(pattern, text)
                if folded != text:
                    spans = self._matches(pattern, folded)
                    ranges += [(starts[start], stops[stop - 1]) for start, stop in spans]
            except TimeoutError as error:
                raise ConfigError(
                    "The pattern {pattern} of hosted.redact takes too long on a text that was to "
                    "be sent; nothing was sent.",
                    hint="Write it without nested repetitions such as (a+)+.",
                    pattern=pattern.pattern,
                ) from error
        ranges.sort()
        while ranges:
            start, stop = ranges.pop(0)
            while ranges and ranges[0][0] < stop:
                stop = max(stop, ranges.pop(0)[1])
            yield start, stop

    def _matches(self, pattern: Any, text: str) -> list[tuple[int, int]]:
        matches = pattern.finditer(text, timeout=self._seconds)
        return [match.span() for match in matches if match.end() > match.start()]

    def _number(self, text: str) -> int:
        with self._lock:
            if text not in self._numbers:
                self._texts.append(text)
                self._numbers[text] = len(self._texts)
            return self._numbers[text]


def _folded(text: str, plain_of: Callable[[str], str]) -> tuple[str, list[int], list[int]]:
    """The text as it reads, and where each of its characters begins and ends in the original.

    Full-width and other compatibility forms become the plain ones (NFKC), digits of every script
    0 to 9; what takes no room, such as a soft hyphen, is left out, and so are marks on plain
    letters and digits with which they make no character of their own, such as a strike-through.
    """
    if text.isascii() and not _CONTROL.search(text):
        return text, [], []
    parts: list[str] = []
    starts: list[int] = []
    stops: list[int] = []
    for match in _compiled(r"\X").finditer(text):  # a character with the marks on it
        plain = plain_of(match[0])
        parts.append(plain)
        starts += [match.start()] * len(plain)
        stops += [match.end()] * len(plain)
    return "".join(parts), starts, stops


def _plain(cluster: str) -> str:
    plain = _invisible().sub("", unicodedata.normalize("NFKC", cluster))
    digits = [unicodedata.decimal(letter, None) for letter in plain]
    plain = "".join(
        letter if digit is None else str(digit) for letter, digit in zip(plain, digits, strict=True)
    )
    if plain[:1].isascii():  # its marks, which did not combine with it
        return "".join(
            letter for letter in plain if unicodedata.category(letter) not in ("Mn", "Me")
        )
    return plain


@cache
def _invisible() -> Any:
    # Of the controls, those that are white space stay: patterns ask for them.
    controls = r"\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f"
    return _compiled(r"[\p{Default_Ignorable_Code_Point}\p{Cf}" + controls + "]")


def _compiled(pattern: str) -> Any:
    import regex  # type: ignore[import-untyped]

    return regex.compile(pattern)
