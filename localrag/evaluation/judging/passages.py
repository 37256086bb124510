"""Packing passages into parts that a judge's window holds; nothing is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from localrag.text.sentences import split_sentences

_JOINT = 4
"""Tokens allowed for what stands between two passages."""


def pack(texts: Sequence[str], room: int, count: Callable[[str], int]) -> list[list[str]]:
    """Parts of at most `room` tokens in the order of the texts.

    A text that is too long by itself is cut between sentences, and a sentence that is, in the
    middle. Raises ValueError where not even one character has room.
    """
    parts: list[list[str]] = []
    used = room + 1
    for text in texts:
        for piece in _pieces(text, room - _JOINT, count):
            size = count(piece) + _JOINT
            if used + size > room:
                parts.append([])
                used = 0
            parts[-1].append(piece)
            used += size
    return parts


def _pieces(text: str, room: int, count: Callable[[str], int]) -> Iterator[str]:
    if count(text) <= room:
        yield text
        return
    gathered = ""
    start = 0
    for span in split_sentences(text):
        # Up to the next sentence, so that line breaks between them stay.
        longer = text[start : span.end]
        if gathered and count(longer) > room:
            yield gathered
            start = span.start
            longer = text[start : span.end]
        gathered = longer
        if count(gathered) > room:
            *whole, gathered = _halves(gathered, room, count)
            yield from whole
            start = span.end - len(gathered)
    if gathered:
        yield gathered


def _halves(text: str, room: int, count: Callable[[str], int]) -> Iterator[str]:
    if count(text) <= room:
        yield text
        return
    if len(text) < 2:
        raise ValueError(f"a character does not fit into {room} tokens")
    middle = len(text) // 2
    space = text.rfind(" ", middle - 40 if middle > 40 else 0, middle)
    cut = space + 1 if space > 0 else middle
    yield from _halves(text[:cut], room, count)
    yield from _halves(text[cut:], room, count)
