"""Finds out whether a text quotes another, whatever was done to blanks and punctuation."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

LENGTH = 40
"""Letters and digits of a stretch that is compared; a Chinese character counts for two."""

STRIDE = 10
"""Of each text every so many letters begin a stretch, and of what is looked at every letter:
whatever is quoted in a run of `LENGTH + STRIDE - 1` letters (10 English words, 25 Chinese
characters) is found."""

_WIDE = "\u2e80"


class Quotations:
    """Texts, of which it can be asked whether another text quotes them."""

    def __init__(self, texts: Iterable[str]) -> None:
        stretches: list[int] = []
        self._short: set[str] = set()
        for text in texts:
            letters = _letters(text)
            if len(letters) < LENGTH:
                self._short |= {letters} if len(letters) >= LENGTH // 4 else set()
                continue
            # The last stretch ends with the text, so that its end is not left out.
            starts = [*range(0, len(letters) - LENGTH, STRIDE), len(letters) - LENGTH]
            stretches += [hash(letters[start : start + LENGTH]) for start in starts]
        self._known: NDArray[np.int64] = np.unique(np.array(stretches, dtype=np.int64))

    def quoted(self, text: str, apart_from: Iterable[str] = ()) -> bool:
        """Whether `text` quotes one of them, in words that none of `apart_from` holds too."""
        letters = _letters(text)
        if any(short in letters for short in self._short):
            return True
        stretches = set(self._known[np.isin(self._known, _stretches(letters))].tolist())
        for other in apart_from if stretches else ():
            stretches -= set(_stretches(_letters(other)).tolist())
        return bool(stretches)


def contains(text: str, part: str) -> bool:
    """Whether `text` holds `part`, or a good piece of it, in the same words."""
    letters, piece = _letters(text), _letters(part)
    length = min(len(piece), LENGTH)
    places = {0, max(0, len(piece) // 2 - length // 2), len(piece) - length}
    return bool(piece) and any(piece[at : at + length] in letters for at in places)


def _letters(text: str) -> str:
    """Letters and digits alone, in small letters; wide ones with a mark behind them."""
    return "".join(
        character + "\0" if character >= _WIDE else character
        for character in text.casefold()
        if character.isalnum()
    )


def _stretches(letters: str) -> NDArray[np.int64]:
    count = max(0, len(letters) - LENGTH + 1)
    return np.fromiter((hash(letters[at : at + LENGTH]) for at in range(count)), np.int64, count)
