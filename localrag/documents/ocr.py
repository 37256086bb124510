"""Reading pictures of text: lines with their boxes and how sure the recognition is of them.

PP-OCRv6 through rapidocr, on ONNX Runtime, with the weights that come inside its package. Its own
classifier of lines that stand on their head loses whole lines of English (9.4% wrong characters
against 0.4% without it), so that a page's rotation is found by page instead: where little is read
or little is certain, the page is read turned, and the reading that is surest is kept.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

Turn = Literal[0, 90, 180, 270]
Image = NDArray[np.uint8]
"""Rows x columns x 3, RGB."""

SURE = 0.9
"""Mean confidence of a page that is read as it lies: upright pages of print are above .95."""
MOST_PIXELS = 12_000_000
"""A page of A4 at 300 dpi has 8.7 million."""
LONGEST_SIDE = 2400
"""Pixels: what is larger is made smaller before text is looked for."""


@dataclass(frozen=True, slots=True)
class OcrLine:
    """A line of text: its box is left, top, right, bottom in pixels of the picture as given."""

    text: str
    box: tuple[float, float, float, float]
    confidence: float


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read of a picture, turned clockwise by `turn` degrees before."""

    lines: tuple[OcrLine, ...]
    turn: Turn = 0

    @property
    def confidence(self) -> float:
        """The mean over all characters, 0 if there are none."""
        total = sum(len(line.text) for line in self.lines)
        return (
            sum(len(line.text) * line.confidence for line in self.lines) / total if total else 0.0
        )


class PageReader(Protocol):
    """Reads pictures of text."""

    def read(self, image: Image) -> Reading:
        """The lines of a picture, upright."""
        ...


class RapidOcrReader:
    """PP-OCRv6 small, Chinese and English, one thread."""

    def __init__(self, threads: int = 1) -> None:
        self._threads = threads

    def read(self, image: Image) -> Reading:
        """The lines of a picture, upright, whichever way the picture lies."""
        first = self._turned(image, 0)
        if first.confidence >= SURE and not _is_sideways(first):
            return first
        turns: Sequence[Turn] = (90, 270) if _is_sideways(first) else (180, 90, 270)
        best = first
        for turn in turns:
            reading = self._turned(image, turn)
            if _worth(reading) > _worth(best):
                best = reading
            if best.turn and best.confidence >= SURE and not _is_sideways(best):
                break
        return best

    def _turned(self, image: Image, turn: Turn) -> Reading:
        view = np.ascontiguousarray(np.rot90(image, -turn // 90))
        # rapidocr takes arrays as OpenCV has them, blue first.
        result = _engine(self._threads)(view[:, :, ::-1], use_cls=False)
        if result.boxes is None:
            return Reading((), turn)
        height, width = image.shape[:2]
        lines = []
        for box, text, score in zip(result.boxes, result.txts, result.scores, strict=True):
            corners = [_back(x, y, turn, width, height) for x, y in np.asarray(box).tolist()]
            xs, ys = [x for x, _ in corners], [y for _, y in corners]
            lines.append(OcrLine(text, (min(xs), min(ys), max(xs), max(ys)), float(score)))
        return Reading(tuple(lines), turn)


def _back(x: float, y: float, turn: Turn, width: int, height: int) -> tuple[float, float]:
    """A point of the turned picture, in the picture as it was given."""
    if turn == 90:
        return y, height - x
    if turn == 180:
        return width - x, height - y
    if turn == 270:
        return width - y, x
    return x, y


def _is_sideways(reading: Reading) -> bool:
    """Whether most of the text stands in boxes that are higher than wide."""
    upright = turned = 0
    for line in reading.lines:
        left, top, right, bottom = line.box
        if len(line.text) > 1:
            high = (bottom - top) > 1.5 * (right - left)
            sideways = high if reading.turn in (0, 180) else (right - left) > 1.5 * (bottom - top)
            turned += len(line.text) * sideways
            upright += len(line.text) * (not sideways)
    return turned > upright


def _worth(reading: Reading) -> float:
    """How much was read how surely; a doubtful character counts little."""
    return sum(len(line.text) * max(0.0, line.confidence - 0.5) for line in reading.lines)


@functools.cache
def _engine(threads: int) -> Any:
    from rapidocr import RapidOCR

    models = resources.files("rapidocr") / "models"
    return RapidOCR(
        params={
            "Global.log_level": "error",
            "Global.use_cls": False,
            "Global.max_side_len": LONGEST_SIDE,
            "EngineConfig.onnxruntime.intra_op_num_threads": threads,
            "EngineConfig.onnxruntime.inter_op_num_threads": 1,
            "Det.model_path": str(models / "PP-OCRv6_det_small.onnx"),
            "Rec.model_path": str(models / "PP-OCRv6_rec_small.onnx"),
        }
    )


def bounded(width: float, height: float, dpi: int) -> float:
    """The factor from points to pixels for a page, at most `MOST_PIXELS` in all."""
    scale = dpi / 72
    return min(scale, math.sqrt(MOST_PIXELS / max(1.0, width * height)))
