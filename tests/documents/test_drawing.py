"""Images of pages: what is marked is yellow and nothing else is; hostile files are bounded."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import PIL.ImageDraw
import pymupdf
import pytest
from numpy.typing import NDArray

from localrag.documents import drawing, worker
from localrag.documents.files import parse_file
from localrag.documents.formats.table import Limits
from localrag.documents.positions import Box, decode, rectangles
from localrag.documents.worker import ParsingProcess
from localrag.errors import CorruptFileError, EncryptedFileError, ParsingError, UnsupportedFileError

FIRST = "The ferry leaves the old harbour at seven, before the mail has come."
SECOND = "In winter it waits for the mail, and the crossing takes forty minutes longer."
THIRD = "Nobody complains: there is soup."
CHINESE = "杀青锅温约为240摄氏度，时间不超过8分钟，鲜叶须在当日加工。"
WIDTH = 1000


@pytest.fixture(scope="module")
def process() -> Iterator[ParsingProcess]:
    parser = ParsingProcess()
    yield parser
    parser.close()


def pdf(rotation: int = 0) -> bytes:
    document = pymupdf.open()
    page = document.new_page(width=400, height=500)
    page.insert_textbox((40, 40, 360, 200), f"{FIRST} {SECOND} {THIRD}", fontsize=12)
    page.insert_textbox((40, 240, 360, 400), CHINESE, fontsize=14, fontname="china-s")
    page.set_rotation(rotation)
    return bytes(document.tobytes())


def yellow(png: bytes) -> NDArray[np.bool_]:
    """Which pixels are marked."""
    pixels = np.asarray(PIL.Image.open(io.BytesIO(png)).convert("RGB")).astype(int)
    mask: NDArray[np.bool_] = pixels[..., 0] - pixels[..., 2] > 60
    return mask


def characters(data: bytes) -> list[tuple[str, Any]]:
    """Each character in order, and its place on the page as it is shown."""
    page = pymupdf.open(stream=data, filetype="pdf")[0]
    blocks = page.get_text("rawdict")["blocks"]
    return [
        (char["c"], pymupdf.Rect(char["bbox"]) * page.rotation_matrix)
        for block in blocks
        for line in block["lines"]
        for span in line["spans"]
        for char in span["chars"]
        if char["c"].strip()
    ]


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
@pytest.mark.parametrize("sentence", [SECOND, "the old harbour", CHINESE[4:20]])
def test_a_sentence_is_yellow_and_nothing_else(
    process: ParsingProcess, rotation: int, sentence: str
) -> None:
    data = pdf(rotation)
    page = parse_file(Path("ferry.pdf"), data).pages[0]
    layout = decode(page.layout)
    start = page.text.index(sentence)
    boxes = rectangles(layout, start, sentence)
    image = process.draw(
        Path("ferry.pdf"), data, 1, width=WIDTH, boxes=boxes, size=(layout.width, layout.height)
    )
    assert image.marked
    mask = yellow(image.png)
    assert mask.shape[1] == WIDTH
    scale = WIDTH / layout.width
    letters = characters(data)
    text = "".join(c for c, _ in letters)
    squeezed = "".join(sentence.split())
    first = text.index(squeezed)
    inside = range(first, first + len(squeezed))
    covered = np.zeros_like(mask)
    for number, (_, box) in enumerate(letters):
        x, y = (int((a + b) / 2 * scale) for a, b in ((box.x0, box.x1), (box.y0, box.y1)))
        assert mask[y, x] or number not in inside or not _is_paper(image.png, x, y)
        if number in inside:
            spread = [round(edge * scale) for edge in box]
            covered[
                max(0, spread[1] - 6) : spread[3] + 6, max(0, spread[0] - 10) : spread[2] + 10
            ] = True
        else:
            assert not mask[y, x]
    assert not (mask & ~covered).any()
    assert mask.sum() > 0.5 * covered.sum()


def _is_paper(png: bytes, x: int, y: int) -> bool:
    """Whether the page is light there: ink stays ink below a marker."""
    return sum(PIL.Image.open(io.BytesIO(png)).convert("RGB").getpixel((x, y))) > 500  # type: ignore[arg-type]


def picture(color: str = "white", size: tuple[int, int] = (600, 300), **options: Any) -> bytes:
    stream = io.BytesIO()
    image = PIL.Image.new("RGB", size, color)
    PIL.ImageDraw.Draw(image).text((60, 60), "Tea", fill="black" if color == "white" else "white")
    image.save(stream, options.pop("format", "PNG"), **options)
    return stream.getvalue()


def marked_of(
    name: str, data: bytes, boxes: Sequence[Box], size: tuple[float, float], page: int = 1
) -> NDArray[np.bool_]:
    png, all_marked = drawing.draw(Path(name), data, page, WIDTH, boxes, size)
    assert all_marked
    return yellow(png)


@pytest.mark.parametrize("color", ["white", "black"])
def test_a_picture_is_marked_in_its_own_pixels_on_light_and_on_dark(color: str) -> None:
    mask = marked_of("tea.png", picture(color), [(50, 50, 90, 80)], (600, 300))
    assert mask.shape == (300, 600)
    assert mask[50:80, 50:90].mean() > 0.7
    mask[50:80, 50:90] = False
    assert not mask.any()


def test_a_large_picture_is_drawn_smaller_and_marked_as_far() -> None:
    mask = marked_of("tea.png", picture(size=(3000, 2000)), [(0, 0, 1500, 1000)], (3000, 2000))
    assert mask.shape == (667, WIDTH)
    assert mask[:333, :500].mean() > 0.9
    assert mask[335:].sum() == mask[:, 502:].sum() == 0


def test_frames_of_a_tiff_and_a_photograph_on_its_side() -> None:
    frames = [PIL.Image.new("L", (200, 100 * n), 255) for n in (1, 2)]
    stream = io.BytesIO()
    frames[0].save(stream, "TIFF", save_all=True, append_images=frames[1:])
    mask = marked_of("two.tif", stream.getvalue(), [(0, 0, 20, 10)], (200, 200), page=2)
    assert mask.shape == (200, 200)
    assert mask[:10, :20].all()
    exif = PIL.Image.Exif()
    exif[0x0112] = 6
    data = picture(format="JPEG", exif=exif)
    assert marked_of("side.jpg", data, [(0, 0, 30, 60)], (300, 600)).shape == (600, 300)
    with pytest.raises(CorruptFileError):
        drawing.draw(Path("two.tif"), stream.getvalue(), 3, WIDTH, (), (0, 0))


def test_nothing_is_marked_on_a_page_of_another_size() -> None:
    png, marked = drawing.draw(Path("tea.png"), picture(), 1, WIDTH, [(50, 50, 90, 80)], (400, 300))
    assert not marked
    assert not yellow(png).any()


@pytest.mark.parametrize(
    "box",
    [
        (-9e9, -9e9, -1, -1),
        (700, 10, 9e18, 20),
        (math.nan, 0, math.inf, 10),
        (90, 80, 50, 50),
        (10, 10, 10, 10),
    ],
)
def test_boxes_beyond_the_page_mark_nothing_and_are_not_called_marked(box: Box) -> None:
    png, marked = drawing.draw(Path("tea.png"), picture(), 1, WIDTH, [box], (600, 300))
    assert not marked
    assert not yellow(png).any()


@pytest.mark.parametrize("page", [-1, 0, 2, 10**12, -(10**12)])
@pytest.mark.parametrize("name", ["ferry.pdf", "tea.tif"])
def test_a_page_that_is_not_there_is_refused(process: ParsingProcess, name: str, page: int) -> None:
    data = pdf() if name == "ferry.pdf" else picture(format="TIFF")
    with pytest.raises((UnsupportedFileError, CorruptFileError)) as error:
        process.draw(Path(name), data, page, width=WIDTH)
    assert error.value.values["source"] == name


@pytest.mark.parametrize(
    ("name", "data", "error"),
    [
        ("tea.md", b"# Tea", UnsupportedFileError),
        ("tea.pdf", b"%PDF-1.4 nothing", CorruptFileError),
        ("tea.pdf", picture(), CorruptFileError),
        ("tea.png", b"\x89PNG\r\n\x1a\n", CorruptFileError),
        ("tea.png", b"", CorruptFileError),
    ],
)
def test_what_cannot_be_drawn_is_said(
    process: ParsingProcess, name: str, data: bytes, error: type[ParsingError]
) -> None:
    with pytest.raises(error):
        process.draw(Path(name), data, 1, width=WIDTH)


def test_a_locked_pdf_is_said_to_be_locked(process: ParsingProcess) -> None:
    document = pymupdf.open(stream=pdf(), filetype="pdf")
    locked = document.tobytes(encryption=pymupdf.PDF_ENCRYPT_AES_256, user_pw="tea")
    with pytest.raises(EncryptedFileError):
        process.draw(Path("locked.pdf"), locked, 1, width=WIDTH)


def test_pages_out_of_all_proportion_are_drawn_within_bounds() -> None:
    for width, height in ((14_000, 3), (3, 14_000), (1e-3, 1e-3)):
        document = pymupdf.open()
        document.new_page(width=width, height=height)
        png, _ = drawing.draw(Path("a.pdf"), document.tobytes(), 1, 10**9, (), (0, 0))
        image = PIL.Image.open(io.BytesIO(png))
        assert image.width * image.height <= 16_000_000
        assert image.width <= 4000


def test_an_image_has_no_more_bytes_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "LARGEST", 200_000)
    noise = np.random.default_rng(1).integers(0, 255, (400, 600, 3), dtype=np.uint8)
    stream = io.BytesIO()
    PIL.Image.fromarray(noise).save(stream, "PNG")
    png, _ = drawing.draw(Path("noise.png"), stream.getvalue(), 1, WIDTH, (), (0, 0))
    assert len(png) <= 200_000
    assert PIL.Image.open(io.BytesIO(png)).width in (150, 300)


HANGS = """
import time
import localrag.documents.drawing as drawing

def draw(path, *_):
    if path.stem == "hang":
        time.sleep(60)
    return (b"GIF89a", True) if path.stem == "gif" else (b"\\x89PNG\\r\\n\\x1a\\n", True)

drawing.draw = draw
from localrag.documents.worker import main; main()
"""


def test_drawing_that_hangs_is_given_up_and_the_next_page_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker, "DRAWING", 3.0)
    process = ParsingProcess(limits=Limits(silence=3.0), program=HANGS)
    try:
        assert process.draw(Path("fine.pdf"), b"x", 1, width=9).marked
        for name in ("hang.pdf", "gif.pdf"):  # and what is no PNG is not believed
            with pytest.raises(ParsingError, match=name):
                process.draw(Path(name), b"x", 1, width=9)
        assert process.draw(Path("fine.pdf"), b"x", 1, width=9).marked
    finally:
        process.close()
