"""Reading pictures of text: lines with their places and how sure the recognition is of them.

PP-OCRv6 through rapidocr, on ONNX Runtime, with the weights that come inside its package. Its own
classifier of lines that stand on their head loses whole lines of English (9.4% wrong characters
against 0.4% without it), so that a page's rotation is found by page instead: text boxes higher
than wide mean that it lies on its side, and a sample of lines is read both ways round.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from localrag.egress import network
from localrag.errors import ModelCorruptError

Turn = Literal[0, 90, 180, 270]
Image = NDArray[np.uint8]
"""Rows x columns x 3, RGB."""
Box = tuple[float, float, float, float]
"""Left, top, right, bottom in pixels."""

DPI = 200
"""At which pages are drawn to be read."""
MOST_PIXELS = 12_000_000
"""A page of A4 at 300 dpi has 8.7 million."""
SURE = 0.9
"""Mean confidence of lines that are read as they lie: upright print is above .95, print on its
head below .7."""
LEAST = 0.5
"""Confidence below which a line is taken for no text."""

MODEL = "PP-OCRv6 small"

WEIGHTS = {
    "PP-OCRv6_det_small.onnx": "090f04abcd9d9a7498bc4ebf677e4cb9bdce1fe4197ddb7e529f1ef44e1ff94f",
    "PP-OCRv6_rec_small.onnx": "6f327246b50388f3c176ae304bd95767ea6dc0c9ae92153ef8cbe210b3c14884",
}
"""SHA-256 of what finds lines, and of what reads them."""

_DETECTION_SIDE = 1600
"""Pixels of the longer side at which lines are looked for: they are then read from the picture as
it is. At 2400 the same lines are found, for twice the time and memory."""
_SMALL = 1000
"""Pixels: a picture whose longer side is less is enlarged before lines are looked for."""
_LONGEST_BAND = 2600
_SLIMMEST_BAND = 2.0
_SAMPLE = 6
_TALL = 1.5
"""Times as high as wide: rapidocr lays what is higher on its side."""


class OcrWord(NamedTuple):
    """Code points `start:end` of a line: a word, or Chinese characters that stand together."""

    start: int
    end: int
    box: Box


@dataclass(frozen=True, slots=True)
class OcrLine:
    """A line of text as found: often a part of a visual line.

    `box` and those of `words` are in the picture as given. `corners`, from the upper left one
    clockwise, are in the picture turned upright, where it may still be a little askew.
    """

    text: str
    confidence: float
    box: Box
    corners: tuple[tuple[float, float], ...]
    words: tuple[OcrWord, ...] = ()


@dataclass(frozen=True, slots=True)
class PictureReading:
    """What was read of a picture, turned clockwise by `turn` degrees before."""

    lines: tuple[OcrLine, ...]
    turn: Turn = 0

    @property
    def confidence(self) -> float:
        """The mean over all characters, 0 if there are none."""
        return _mean(self.lines)


class PageReader(Protocol):
    """Reads pictures of text."""

    def read(self, image: Image) -> PictureReading:
        """The lines of a picture, upright."""


class RapidOcrReader:
    """PP-OCRv6 small, Chinese and English, on one thread."""

    def read(self, image: Image) -> PictureReading:
        """The lines of a picture, whichever way it lies.

        Raises ModelCorruptError where the weights are not those that belong to the package.
        """
        quads = _detect(image)
        if not len(quads):
            return PictureReading(())
        crops = _crops(image, quads)
        turn, read = _turn_of(quads, crops)
        if turn:
            read = {}
            upright = np.ascontiguousarray(np.rot90(image, -turn // 90))
            quads = _detect(upright)
            crops = _crops(upright, quads)
        height, width = image.shape[:2]
        lines = []
        left = [place for place in range(len(crops)) if place not in read]
        read |= dict(zip(left, _recognise([crops[place] for place in left]), strict=True))
        for place, (quad, crop) in enumerate(zip(quads, crops, strict=True)):
            reading = read[place]
            if _is_tall(quad):  # was laid on its left side; it may have been the wrong one
                quad = np.roll(quad, -1, axis=0)
                if reading.confidence < SURE:
                    (other,) = _recognise([np.rot90(crop, 2)])
                    if other.worth > reading.worth:
                        quad, reading = np.roll(quad, 2, axis=0), other
            if reading.confidence >= LEAST and reading.text.strip():
                lines.append(_line(quad, reading, turn, width, height))
        return PictureReading(tuple(lines), turn)


@functools.cache
def page_reader() -> PageReader:
    """The reader of this process."""
    return RapidOcrReader()


class _CropReading(NamedTuple):
    """What was read of one crop; words have their place as shares of its width."""

    text: str
    confidence: float
    words: tuple[tuple[int, int, float, float], ...]

    @property
    def worth(self) -> float:
        """How much was read how surely: a doubtful character counts little."""
        return len(self.text) * max(0.0, self.confidence - LEAST)


def _mean(lines: Sequence[OcrLine | _CropReading]) -> float:
    total = sum(len(line.text) for line in lines)
    return sum(len(line.text) * line.confidence for line in lines) / total if total else 0.0


def _turn_of(
    quads: NDArray[np.float32], crops: Sequence[Image]
) -> tuple[Turn, dict[int, _CropReading]]:
    """How the picture must be turned so that its text is upright; what was read of which crop."""
    lengths = [max(crop.shape[:2]) for crop in crops]
    tall = [_is_tall(quad) for quad in quads]
    lying = sum(length for length, is_tall in zip(lengths, tall, strict=True) if is_tall)
    sideways = 2 * lying > sum(lengths)
    # The longest lines tell best, of those that lie as most do.
    order = sorted(range(len(crops)), key=lambda i: -lengths[i])
    sample = [i for i in order if tall[i] == sideways][:_SAMPLE]
    ahead = _recognise([crops[i] for i in sample])
    if _mean(ahead) < SURE:
        back = _recognise([np.rot90(crops[i], 2) for i in sample])
        if sum(line.worth for line in back) > sum(line.worth for line in ahead):
            return (90 if sideways else 180), {}
    return (270 if sideways else 0), dict(zip(sample, ahead, strict=True))


def _is_tall(quad: NDArray[np.float32]) -> bool:
    """As rapidocr decides whether to lay a crop on its left side."""
    wide = max(np.linalg.norm(quad[0] - quad[1]), np.linalg.norm(quad[2] - quad[3]))
    high = max(np.linalg.norm(quad[0] - quad[3]), np.linalg.norm(quad[1] - quad[2]))
    return bool(int(high) >= _TALL * max(int(wide), 1))


def _detect(image: Image) -> NDArray[np.float32]:
    """Where lines of text are: n x 4 corners x (x, y), from the upper left one clockwise."""
    height, width = image.shape[:2]
    if max(height, width) < _SMALL:
        import cv2

        larger = cv2.resize(image, None, fx=2, fy=2, interpolation=cv2.INTER_CUBIC)
        return _detect_in(np.asarray(larger, np.uint8)) / np.float32(2)
    if height < width:
        turned = _bands(image.transpose(1, 0, 2))
        parts = [(image[:, top:end], (top, 0)) for top, end in turned]
    else:
        parts = [(image[top:end], (0, top)) for top, end in _bands(image)]
    quads = [_detect_in(part) + np.array(place, np.float32) for part, place in parts]
    return np.concatenate(quads).astype(np.float32)


def _bands(image: Image) -> list[tuple[int, int]]:
    """Rows `top:end` of the parts in which a long or large picture is looked through.

    Cut where a row shows least, as between lines of text.
    """
    height, width = image.shape[:2]
    longest = max(min(_LONGEST_BAND, int(_SLIMMEST_BAND * width)), 64)
    bands = []
    top = 0
    while height - top > longest:
        start = top + longest * 3 // 4
        rows = image[start : top + longest, :, 1].astype(np.int16)
        unrest = np.abs(np.diff(rows, axis=1)).sum(axis=1) if width > 1 else np.zeros(len(rows))
        end = start + int(np.argmin(unrest))
        bands.append((top, end))
        top = end
    return [*bands, (top, height)]


def _detect_in(image: Image) -> NDArray[np.float32]:
    if min(image.shape[:2]) < 8:
        return np.empty((0, 4, 2), np.float32)
    # rapidocr takes arrays as OpenCV has them, blue first.
    view = np.ascontiguousarray(image[:, :, ::-1])
    boxes = _engine()(view, use_det=True, use_cls=False, use_rec=False).boxes
    if boxes is None:
        return np.empty((0, 4, 2), np.float32)
    return np.asarray(boxes, np.float32).reshape(-1, 4, 2)


def _crops(image: Image, quads: NDArray[np.float32]) -> list[Image]:
    crops: list[Image] = _engine().crop_text_regions(image[:, :, ::-1], quads)
    return crops


def _recognise(crops: Sequence[Image]) -> list[_CropReading]:
    if not crops:
        return []
    result = _engine().recognize_txt(list(crops))
    return [
        _CropReading(text, float(score), _words(text, info))
        for text, score, info in zip(result.txts, result.scores, result.word_results, strict=True)
    ]


def _words(text: str, info: Any) -> tuple[tuple[int, int, float, float], ...]:
    """Start, end, left and right of words; rapidocr says the columns in which characters peak."""
    words = []
    place = 0
    length = max(float(info.line_txt_len), 1.0)
    for characters, columns in zip(info.words, info.word_cols, strict=True):
        word = "".join(characters)
        start = text.find(word, place)
        if start < 0:
            continue
        place = start + len(word)
        half = max(1.0, (columns[-1] - columns[0]) / max(2 * len(columns) - 2, 1))
        left, right = (columns[0] + 0.5 - half) / length, (columns[-1] + 0.5 + half) / length
        words.append((start, place, max(left, 0.0), min(right, 1.0)))
    return tuple(words)


def _line(
    quad: NDArray[np.float32], reading: _CropReading, turn: Turn, width: int, height: int
) -> OcrLine:
    """The line of a quad whose first edge is the upper one of its text."""
    upper_left, upper_right, lower_right, lower_left = (
        (float(x), float(y)) for x, y in quad.tolist()
    )

    def box(left: float, right: float) -> Box:
        corners = [
            _point_before_turn(
                a[0] + share * (b[0] - a[0]), a[1] + share * (b[1] - a[1]), turn, width, height
            )
            for a, b in ((upper_left, upper_right), (lower_left, lower_right))
            for share in (left, right)
        ]
        xs, ys = zip(*corners, strict=True)
        return min(xs), min(ys), max(xs), max(ys)

    words = tuple(
        OcrWord(start, end, box(left, right)) for start, end, left, right in reading.words
    )
    corners = (upper_left, upper_right, lower_right, lower_left)
    return OcrLine(reading.text, reading.confidence, box(0.0, 1.0), corners, words)


def _point_before_turn(
    x: float, y: float, turn: Turn, width: int, height: int
) -> tuple[float, float]:
    """A point of the turned picture, in the picture as it was given."""
    if turn == 90:
        return y, height - x
    if turn == 180:
        return width - x, height - y
    if turn == 270:
        return width - y, x
    return x, y


@functools.cache
def _engine() -> Any:
    network.quieten()
    import cv2
    import onnxruntime  # type: ignore[import-untyped]
    from rapidocr import RapidOCR

    onnxruntime.disable_telemetry_events()
    cv2.setNumThreads(1)
    finds, reads = weights()
    return RapidOCR(
        params={
            "Global.log_level": "error",
            "Global.use_cls": False,
            "Global.max_side_len": _DETECTION_SIDE,
            "Global.return_word_box": True,
            "EngineConfig.onnxruntime.intra_op_num_threads": 1,
            "EngineConfig.onnxruntime.inter_op_num_threads": 1,
            # As they are: the default enlarges a slim picture until its shorter side has 736.
            "Det.limit_type": "max",
            "Det.limit_side_len": 2 * _DETECTION_SIDE,
            # Paths of our own: without them rapidocr would fetch what it does not find.
            "Det.model_path": str(finds),
            "Rec.model_path": str(reads),
        }
    )


def weights() -> list[Path]:
    """The files of the model, in the installed package rapidocr, which is not imported.

    Raises ModelCorruptError where one is missing or has another SHA-256.
    """
    spec = importlib.util.find_spec("rapidocr")
    folders = spec.submodule_search_locations if spec else None
    return [
        _verified(Path(next(iter(folders or ("rapidocr",))), "models", name)) for name in WEIGHTS
    ]


def _verified(path: Path) -> Path:
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        digest = ""
    if digest != WEIGHTS[path.name]:
        raise ModelCorruptError(
            "The file {path} is not the one of {model}: its size or SHA-256 differs.",
            hint="Install the package rapidocr again: pip install --force-reinstall rapidocr",
            path=path,
            model=MODEL,
        )
    return path


def bounded(width: float, height: float, dpi: float = DPI) -> float:
    """The factor from points to pixels for a page, at most `MOST_PIXELS` in all."""
    scale = dpi / 72
    return min(scale, math.sqrt(MOST_PIXELS / max(1.0, width * height)))
