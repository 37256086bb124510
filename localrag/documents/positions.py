"""Where text stands on a page: a rectangle for each piece of it, kept in a few bytes.

A citation can be drawn on the image of its page without looking for its words again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import msgspec


class Mark(NamedTuple):
    """Code points `start:end` of a text stand in this rectangle.

    From the upper left corner of the page as it is shown, in points (1/72 inch); of a picture in
    pixels; of a sheet in cells, so that `top` counts its rows from 0.
    """

    start: int
    end: int
    left: float
    top: float
    right: float
    bottom: float

    def moved(self, by: int) -> Mark:
        """The mark in a text that has `by` code points more before it."""
        return self._replace(start=self.start + by, end=self.end + by)


@dataclass(frozen=True, slots=True)
class Layout:
    """The marks of a page in the order of its text; the unit of all lengths is that of `Mark`."""

    width: float
    height: float
    marks: tuple[Mark, ...]

    def encode(self) -> bytes:
        """The layout in few bytes."""
        return msgspec.msgpack.encode(self)


def decode(stored: bytes) -> Layout:
    """The layout that `encode` made; raises ValueError where the bytes are none."""
    return msgspec.msgpack.decode(stored, type=Layout)
