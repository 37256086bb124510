"""Do the rectangles of a quotation cover its words and nothing else?

    python benchmarks/positions.py FILE.pdf... [--sentences 200] [--rotate 90] [--drawn]

Sentences of the documents are drawn at random. A rectangle is right when the characters that
`rawdict` of MuPDF puts into it are those of the sentence, each as often: the oracle shares no step
with what made the rectangles. Says how many are right, unmarked and wrong, the bytes that places
take, and the processor time of reading. With `--drawn` it is not the rectangles that are looked at
but the marker on the image of the page, as `localrag page` draws it.
"""

from __future__ import annotations

import argparse
import io
import random
import time
from collections import Counter
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pymupdf

from localrag.documents.drawing import draw
from localrag.documents.formats.pdf import reader
from localrag.documents.formats.table import SourceFile
from localrag.documents.positions import Box, Layout, decode, rectangles
from localrag.errors import ParsingError
from localrag.text.normalize import fold
from localrag.text.sentences import split_sentences
from localrag.types import Document, Page

_mupdf: Any = pymupdf
_STROKE = 6
"""Half the pixels that no stroke of a letter is wide."""


Printed = list[tuple[float, float, str]]
"""Where the middle of each character is."""


def rotated(data: bytes, degrees: int) -> bytes:
    """The file with its pages shown turned."""
    document = _mupdf.open(stream=data, filetype="pdf")
    for page in document:
        page.set_rotation((page.rotation + degrees) % 360)
    return bytes(document.tobytes())


def letters(text: str) -> Counter[str]:
    """What is printed of a text; hyphens at the end of a line come and go."""
    return Counter(c for c in fold(text) if not c.isspace() and c not in "|-")


def characters(page: Any) -> Printed:
    """The middle of each character on the page as it is shown."""
    found = []
    for block in page.get_text("rawdict", flags=pymupdf.TEXT_PRESERVE_WHITESPACE)["blocks"]:
        for line in block.get("lines", ()):
            for span in line["spans"]:
                for one in span["chars"]:
                    x, y = _middle(one, span["size"], line) * page.rotation_matrix
                    found.append((x, y, one["c"]))
    return found


def _middle(one: dict[str, Any], size: float, line: dict[str, Any]) -> Any:
    """The middle of a character: fonts may say that they are higher than they are."""
    box, origin = pymupdf.Rect(one["bbox"]), pymupdf.Point(one["origin"])
    middle = (box.tl + box.br) / 2
    if line["wmode"]:  # written from top to bottom
        return middle
    along = pymupdf.Point(line["dir"])
    away = middle - origin
    return (
        origin
        + along * (away.x * along.x + away.y * along.y)
        + pymupdf.Point(along.y, -along.x) * (0.3 * size)
    )


def inside(boxes: tuple[Box, ...], printed: Printed) -> Counter[str]:
    """The characters whose middle lies in one of the rectangles."""
    return letters(
        "".join(
            c
            for x, y, c in printed
            if any(left <= x <= right and top <= y <= bottom for left, top, right, bottom in boxes)
        )
    )


def below_the_marker(
    data: bytes, number: int, layout: Layout, boxes: tuple[Box, ...], printed: Printed
) -> Counter[str]:
    """The characters whose middle is marked on the image of the page, or ink within the mark."""
    size = layout.width, layout.height
    png, _ = draw(Path("page.pdf"), data, number, 1400, boxes, size)
    pixels = np.asarray(PIL.Image.open(io.BytesIO(png))).astype(int)
    marked = np.pad(pixels[..., 0] - pixels[..., 2] > 60, _STROKE)
    for closing in (np.logical_or, np.logical_and):  # over the ink, and back to the edges
        for axis in (0, 1):
            shifted = (np.roll(marked, by, axis) for by in range(-_STROKE, _STROKE + 1))
            marked = reduce(closing, shifted)
    marked = marked[_STROKE:-_STROKE, _STROKE:-_STROKE]
    scale = pixels.shape[1] / layout.width
    return letters("".join(c for x, y, c in printed if marked[int(y * scale), int(x * scale)]))


def spans(document: Document) -> Iterator[tuple[Page, int, int]]:
    """All sentences, also from one of their inner words on, as a quotation may begin."""
    for page in document.pages:
        start = 0
        for line in page.text.split("\n"):
            for first, last in split_sentences(line):
                yield page, start + first, start + last
                if (inner := line.find(" ", first, last)) > 0 and inner + 8 < last:
                    yield page, start + inner + 1, start + last
            start += len(line) + 1


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--sentences", type=int, default=200, help="of each file, at most")
    parser.add_argument("--rotate", type=int, default=0)
    parser.add_argument("--drawn", action="store_true", help="look at the image of the page")
    parser.add_argument("--show", action="store_true", help="what is wrong, and what unmarked")
    options = parser.parse_args()
    total: Counter[str] = Counter()
    print(
        "| file | sentences | right | unmarked | wrong | bytes a page: text, places | ms a page |"
    )
    print("|---|---|---|---|---|---|---|")
    for path in options.files:
        data = path.read_bytes()
        data = rotated(data, options.rotate) if options.rotate else data
        begun = time.process_time()
        try:
            document = reader.read(SourceFile(path.name, data))
        except ParsingError as error:
            print(f"| {path.name} | {type(error).__name__} |")
            continue
        took = time.process_time() - begun
        printed = [characters(page) for page in _mupdf.open(stream=data, filetype="pdf")]
        every = list(spans(document))
        drawn = random.Random(15).sample(every, min(options.sentences, len(every)))
        seen: Counter[str] = Counter()
        for page, start, end in drawn:
            text = page.text[start:end]
            boxes = rectangles(decode(page.layout), start, text) if page.layout else ()
            there = printed[page.number - 1]
            if boxes and options.drawn:
                layout = decode(page.layout)
                found = below_the_marker(data, page.number, layout, boxes, there)
            else:
                found = inside(boxes, there)
            kind = "unmarked" if not boxes else "right" if found == letters(text) else "wrong"
            seen[kind] += 1
            if options.show and kind != "right":
                extra, less = found - letters(text), letters(text) - found
                print(kind, page.number, repr(text), dict(extra), dict(less) if boxes else "")
        total += seen
        pages = len(document.pages)
        stored = sum(len(page.text.encode()) for page in document.pages) // pages
        places = sum(len(page.layout) for page in document.pages) // pages
        shares = " | ".join(str(seen[kind]) for kind in ("right", "unmarked", "wrong"))
        row = f"{len(drawn)} | {shares} | {stored}, {places} | {1000 * took / pages:.1f}"
        print(f"| {path.name} | {row} |")
    print(dict(total))


if __name__ == "__main__":
    main()
