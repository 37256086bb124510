"""Scans and pictures of text: what is asked of recognition, and what becomes of its lines."""

from __future__ import annotations

import io
import math
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import docx
import numpy as np
import openpyxl
import openpyxl.drawing.image
import pptx
import pymupdf
import pytest
from counting import seconds
from PIL import Image as Pillow

from localrag.documents import ocr, pictures, positions
from localrag.documents.files import parse_file
from localrag.documents.formats.table import ParseOptions
from localrag.documents.ocr import Image, OcrLine, PictureReading, Turn
from localrag.documents.worker import ParsingProcess
from localrag.errors import CorruptFileError, ImageOnlyFileError, ModelCorruptError
from localrag.types import Document, PageNote

Place = tuple[str, float, float, float]
"""A text, and its left, top and right in points; lines are 12 high."""


def line(text: str, left: float, top: float, right: float, sure: float = 0.99) -> OcrLine:
    scale = ocr.DPI / 72
    x0, y0, x1, y1 = (edge * scale for edge in (left, top, right, top + 12))
    return OcrLine(text, sure, (x0, y0, x1, y1), ((x0, y0), (x1, y0), (x1, y1), (x0, y1)))


def reading(*places: Place, sure: float = 0.99, turn: Turn = 0) -> PictureReading:
    return PictureReading(tuple(line(*place, sure) for place in places), turn)


class Fake:
    """Gives readings one after the other, and keeps the pictures."""

    def __init__(self) -> None:
        self.readings: list[PictureReading] = []
        self.seen: list[Image] = []

    def read(self, image: Image) -> PictureReading:
        self.seen.append(image)
        return self.readings.pop(0) if self.readings else PictureReading(())


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Fake:
    reader = Fake()
    monkeypatch.setattr(ocr.RapidOcrReader, "read", lambda _, image: reader.read(image))
    monkeypatch.setattr(pictures, "_read", {})
    return reader


def noise(width: int, height: int, seed: int = 0) -> bytes:
    values = np.random.default_rng(seed).integers(0, 255, (height, width, 3), np.uint8)
    return encoded(Pillow.fromarray(values), "PNG")


def encoded(picture: Pillow.Image, kind: str, **options: object) -> bytes:
    stream = io.BytesIO()
    picture.save(stream, kind, **options)
    return stream.getvalue()


def scan(*pages: str) -> pymupdf.Document:
    """Pages with a picture all over them, and text where there is any."""
    document = pymupdf.open()
    for number, text in enumerate(pages):
        page = document.new_page()
        if text:
            page.insert_text((72, 100), text, fontsize=11)
        else:
            page.insert_image(page.rect, stream=noise(50, 70, number))
    return document


def parse(document: pymupdf.Document, **options: bool) -> Document:
    return parse_file(Path("made.pdf"), document.tobytes(), ParseOptions(**options))


def texts(document: Document) -> list[list[str]]:
    return [page.text.split("\n") for page in document.pages]


# Pages of a PDF


def test_pages_without_text_are_read(fake: Fake) -> None:
    fake.readings = [
        reading(("a first line that goes on", 72, 100, 400), ("to here", 72, 116, 150)),
        reading(("turned", 72, 100, 150), turn=90),
        reading(("blurred", 72, 100, 150), sure=0.7),
    ]
    calls: list[tuple[int, int, bool]] = []

    def page_done(number: int = 0, pages: int = 0, *, recognised: bool = False) -> None:
        calls.append((number, pages, recognised))

    data = scan("written", "", "", "", "").tobytes()
    document = parse_file(Path("made.pdf"), data, page_done=page_done)
    assert texts(document) == [
        ["written"],
        ["a first line that goes on to here"],
        ["turned"],
        ["blurred"],
        [""],
    ]
    assert [page.how for page in document.pages] == ["text", "ocr", "ocr", "ocr", "text"]
    assert [page.confidence for page in document.pages] == [None, 0.99, 0.99, 0.7, None]
    assert [page.notes for page in document.pages] == [
        (),
        (),
        (PageNote("turned", {"degrees": 90}),),
        (PageNote("doubtful", {"confidence": 0.7}),),
        (PageNote("no text"),),
    ]
    assert calls == [(1, 5, False), *((number, 5, True) for number in range(2, 6))]
    # Drawn at 200 dpi, in colour.
    assert fake.seen[0].shape == (2339, 1653, 3)


def test_a_huge_page_is_drawn_smaller(fake: Fake) -> None:
    document = pymupdf.open()
    page = document.new_page(width=14_000, height=14_000)
    page.draw_line((0, 0), (14_000, 14_000))
    with pytest.raises(Exception, match="contains no text"):
        parse(document)
    assert fake.seen[0].shape[0] * fake.seen[0].shape[1] <= ocr.MOST_PIXELS * 1.001


def test_recognition_can_be_switched_off(fake: Fake) -> None:
    document = parse(scan("written", ""), ocr=False)
    assert document.pages[1].notes == (PageNote("not recognised"),)
    assert not fake.seen
    with pytest.raises(ImageOnlyFileError, match="switched off"):
        parse(scan("", ""), ocr=False)
    with pytest.raises(ImageOnlyFileError, match=r"found no text on any of its 2 pages"):
        parse(scan("", ""))


def test_pictures_on_pages_of_text_are_read(fake: Fake) -> None:
    document = pymupdf.open()
    page = document.new_page()
    page.insert_text((72, 100), "before the picture", fontsize=11)
    page.insert_image((72, 150, 372, 300), stream=noise(60, 30))
    page.insert_text((72, 400), "after the picture", fontsize=11)
    page.insert_image((500, 20, 530, 40), stream=noise(30, 20, 1))  # a logo
    fake.readings = [reading(("Code: AB-12", 10, 20, 90))]
    (only,) = parse(document).pages
    assert only.text.split("\n") == ["before the picture", "Code: AB-12", "after the picture"]
    assert (only.how, only.confidence) == ("mixed", 0.99)
    assert len(fake.seen) == 1
    height, width = fake.seen[0].shape[:2]
    assert (width, height) == pytest.approx((300 * ocr.DPI / 72, 150 * ocr.DPI / 72), abs=2)


def test_photographs_and_what_is_on_every_page_cost_little(fake: Fake) -> None:
    document = pymupdf.open()
    picture = noise(60, 30)
    for number in range(3):
        page = document.new_page()
        page.insert_text((72, 100), f"page number {number}", fontsize=11)
        page.insert_image((72, 150, 372, 300), stream=picture)
    fake.readings = [reading(("lllii1", 10, 20, 90), sure=0.6)]
    pages = parse(document).pages
    assert [page.how for page in pages] == ["text"] * 3
    assert len(fake.seen) == 1


def test_text_on_a_picture_is_not_read_twice(fake: Fake) -> None:
    document = pymupdf.open()
    page = document.new_page()
    ground = encoded(Pillow.new("RGB", (40, 40), (0, 0, 120)), "PNG")
    page.insert_image(page.rect, stream=ground, keep_proportion=False)
    page.insert_text((72, 100), "a title on blue", fontsize=20, color=(1, 1, 1))
    parse(document)
    assert fake.seen[0].reshape(-1, 3).max(axis=0).tolist() == pytest.approx([0, 0, 120], abs=3)


def test_a_page_that_recognition_fails_on_keeps_its_text(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: object, __: Image) -> PictureReading:
        raise MemoryError("too large")

    monkeypatch.setattr(ocr.RapidOcrReader, "read", fails)
    document = scan("written", "also written")
    document[1].insert_image((72, 150, 372, 300), stream=noise(60, 30))
    second = parse(document).pages[1]
    assert second.text == "also written"
    assert second.notes == (PageNote("damaged", {"reason": "too large"}),)


# From lines to text


def test_pieces_of_one_visual_line_are_one_line() -> None:
    recognition = reading(
        ("Name", 72, 100, 110),
        ("Amount", 300, 101, 350),
        ("Anna", 72, 118, 100),
        ("330,435.30", 300, 117, 370),
        ("Zoë", 72, 134, 95),
        ("12", 300, 135, 315),
    )
    contents = [text_line.text for text_line in pictures.page_lines(recognition)]
    assert contents == ["Name | Amount", "Anna | 330,435.30", "Zoë | 12"]


def test_columns_are_read_one_after_the_other() -> None:
    first_column = [f"the left column has line {number} here," for number in "abcdef"]
    right = [f"the right column has line {number} here," for number in "uvwxyz"]
    places: list[Place] = [("A heading over both of the columns", 72, 60, 400)]
    for row, (text, other) in enumerate(zip(first_column, right, strict=True)):
        top = 100 + 15 * row
        places += [(text, 72, top, 290), (other, 310, top + 1, 530)]
    words = " ".join(heard_line.text for heard_line in pictures.page_lines(reading(*places)))
    assert words == " ".join([places[0][0], *first_column, *right])


def test_a_page_askew_is_put_straight() -> None:
    lines = []
    slope = math.radians(2)
    for row in range(8):
        for text, left, right in ((f"left {row}", 100, 180), (f"right {row}", 900, 990)):
            y = 100 + 40 * row
            corners = [(left, y), (right, y), (right, y + 30), (left, y + 30)]
            turned = tuple(
                (
                    x * math.cos(slope) - y * math.sin(slope),
                    x * math.sin(slope) + y * math.cos(slope),
                )
                for x, y in corners
            )
            lines.append(OcrLine(text, 0.99, (0, 0, 1, 1), turned))
    contents = [text_line.text for text_line in pictures.page_lines(PictureReading(tuple(lines)))]
    assert contents == [f"left {row} | right {row}" for row in range(8)]


def test_lines_that_end_early_are_lines_of_their_own() -> None:
    recognition = reading(
        ("本公司成立于二零二零年，是一家专注于人工智能", 72, 60, 336),
        ("技术研发的企业。", 72, 75, 168),
        ("营业收入：人民币五千万元", 72, 120, 216),
        ("净利润：人民币八百万元", 72, 135, 204),
    )
    assert [text_line.text for text_line in pictures.page_lines(recognition)] == [
        "本公司成立于二零二零年，是一家专注于人工智能技术研发的企业。",
        "营业收入：人民币五千万元",
        "净利润：人民币八百万元",
    ]


def test_chinese_is_joined_without_spaces() -> None:
    recognition = reading(
        ("人工智能正在改变我们的生活，从", 72, 100, 300),
        ("交通到 AI 医疗都是如此。", 72, 115, 240),
    )
    assert [text_line.text for text_line in pictures.page_lines(recognition)] == [
        "人工智能正在改变我们的生活，从交通到 AI 医疗都是如此。"
    ]


# Pictures


@pytest.mark.parametrize("kind", ["png", "jpg", "jpeg", "tif", "tiff", "webp", "bmp", "gif"])
def test_every_kind_of_picture(kind: str, fake: Fake) -> None:
    fake.readings = [reading(("some text", 10, 10, 90))]
    name = {"jpg": "JPEG", "tif": "TIFF"}.get(kind, kind.upper())
    data = encoded(Pillow.new("RGB", (400, 200), "white"), name)
    document = parse_file(Path(f"scan.{kind}"), data)
    assert [(page.text, page.how, page.confidence) for page in document.pages] == [
        ("some text", "ocr", 0.99)
    ]
    assert fake.seen[0].shape == (200, 400, 3)


def test_a_tiff_has_pages(fake: Fake) -> None:
    fake.readings = [
        reading(("one", 10, 10, 90)),
        PictureReading(()),
        reading(("three", 10, 10, 90)),
    ]
    first, *frames = (Pillow.new("1", (300, 200), 1) for _ in range(3))
    data = encoded(first, "TIFF", save_all=True, append_images=frames)
    document = parse_file(Path("scan.tif"), data)
    assert texts(document) == [["one"], [""], ["three"]]
    assert document.pages[1].notes == (PageNote("no text"),)


@pytest.mark.parametrize(
    ("made", "shape", "corner"),
    [
        (lambda: Pillow.new("RGBA", (30, 20), (0, 0, 0, 0)), (20, 30), [255, 255, 255]),
        (lambda: Pillow.new("P", (30, 20), 0), (20, 30), [0, 0, 0]),
        (lambda: Pillow.new("I;16", (30, 20), 0), (20, 30), [0, 0, 0]),
        (lambda: Pillow.new("CMYK", (30, 20), (0, 0, 0, 0)), (20, 30), [255, 255, 255]),
        (lambda: Pillow.new("1", (9000, 3000), 1), (2000, 6000), [255, 255, 255]),
    ],
)
def test_every_mode_of_pixels(
    made: Callable[[], Pillow.Image], shape: tuple[int, int], corner: list[int]
) -> None:
    with pictures.opened(encoded(made(), "TIFF")) as picture:
        array, size = pictures.pixels(picture)
        assert size == picture.size
    assert array.shape == (*shape, 3)
    assert array[0, 0].tolist() == corner


def test_a_photograph_is_turned_as_its_camera_says() -> None:
    exif = Pillow.Exif()
    exif[0x0112] = 6
    data = encoded(Pillow.new("RGB", (40, 30)), "JPEG", exif=exif)
    with pictures.opened(data) as picture:
        array, size = pictures.pixels(picture)
    assert array.shape == (40, 30, 3)
    assert size == (30, 40)


def header_only(width: int, height: int) -> bytes:
    def part(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    size = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    pixels = part(b"IDAT", zlib.compress(bytes(1000)))
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", size) + pixels + part(b"IEND", b"")


def test_a_picture_that_would_fill_the_memory_is_refused_by_its_header(fake: Fake) -> None:
    def refused() -> None:
        for width, height in ((100_000, 100_000), (1, 2**31 - 1), (20_000, 9_000)):
            with pytest.raises(CorruptFileError, match="cannot be opened as a picture"):
                parse_file(Path("a.png"), header_only(width, height))

    assert seconds(refused) < 1
    assert not fake.seen


def test_damaged_pictures_are_named(fake: Fake) -> None:
    data = noise(300, 200)
    for broken in (data[:100], data[:2000], b"GIF89a" + bytes(20)):
        with pytest.raises(CorruptFileError, match="cannot be opened as a picture"):
            parse_file(Path("a.png"), broken)
    with pytest.raises(ImageOnlyFileError, match="found none in it"):
        parse_file(Path("a.png"), data)


def test_a_note_that_begins_like_a_bitmap_is_text() -> None:
    assert parse_file(Path("a.txt"), b"BMW builds cars.").text == "BMW builds cars."


# The reader itself


@pytest.fixture(scope="module")
def process() -> Iterator[ParsingProcess]:
    worker = ParsingProcess()
    yield worker
    worker.close()


ENGLISH = "The lighthouse keeper counted 1,204 ships in 1887."
CHINESE = "守塔人在一八八七年数到一千二百零四艘船。"


@pytest.mark.parametrize(
    ("text", "font", "turn"),
    [
        (ENGLISH, "helv", 0),
        (ENGLISH, "helv", 90),
        (CHINESE, "china-s", 180),
        (CHINESE, "china-s", 270),
    ],
)
def test_print_is_read_whichever_way_it_lies(
    text: str, font: str, turn: int, process: ParsingProcess
) -> None:
    pdf = pymupdf.open()
    page = pdf.new_page(width=420, height=300)
    for row in range(3):
        page.insert_text((40, 60 + 30 * row), text, fontname=font, fontsize=13)
    pixmap = page.get_pixmap(dpi=150)
    document = pymupdf.open()
    sheet = document.new_page(width=420, height=300)
    sheet.insert_image(sheet.rect, pixmap=pixmap)
    sheet.set_rotation(turn)
    paper = process(Path("made.pdf"), document.tobytes())
    (only,) = paper.pages
    assert only.text.replace("\n", "").replace(" ", "") == (3 * text).replace(" ", "")
    assert only.how == "ocr"
    assert only.confidence is not None
    assert only.confidence > 0.95
    expected = (PageNote("turned", {"degrees": (360 - turn) % 360}),) if turn else ()
    assert only.notes == expected
    # Words stand on the page as it is shown: the first line 60 points from what was the top.
    layout = positions.decode(only.layout)
    assert (layout.width, layout.height) == ((420, 300) if turn % 180 == 0 else (300, 420))
    first = text.split()[0]
    (box,) = positions.rectangles(layout, 0, first)
    expected_box = positions.turned((40, 49, 40 + 13 * len(first) / 2, 63), turn // 90, 420, 300)
    wide, middle = (2, (box[1] + box[3]) / 2) if turn % 180 == 0 else (3, (box[0] + box[2]) / 2)
    level = (expected_box[1] + expected_box[3]) / 2 if wide == 2 else sum(expected_box[::2]) / 2
    assert middle == pytest.approx(level, abs=4)


def test_a_long_picture_is_looked_through_in_parts() -> None:
    pdf = pymupdf.open()
    page = pdf.new_page(width=300, height=3600)
    for row in range(30):
        page.insert_text((20, 60 + 120 * row), f"line number {row + 1} of thirty", fontsize=14)
    data = page.get_pixmap(dpi=100).tobytes("png")
    text = parse_file(Path("long.png"), data).text
    assert [f"line number {row + 1} of thirty" in text for row in range(30)] == [True] * 30


def test_weights_that_differ_are_not_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ocr, "WEIGHTS", dict.fromkeys(ocr.WEIGHTS, "0" * 64))
    ocr._engine.cache_clear()
    with pytest.raises(ModelCorruptError, match="PP-OCRv6 small"):
        parse(scan(""))
    ocr._engine.cache_clear()


# Pictures inside other documents


def office(tmp_path: Path, suffix: str, picture: bytes) -> Path:
    path, picture_path = tmp_path / f"made{suffix}", tmp_path / "picture.png"
    picture_path.write_bytes(picture)
    match suffix:
        case ".docx":
            word_file = docx.Document()
            word_file.add_paragraph("written")
            word_file.add_picture(str(picture_path))
            word_file.add_picture(str(picture_path))
            word_file.save(str(path))
        case ".pptx":
            show = pptx.Presentation()
            slide = show.slides.add_slide(show.slide_layouts[5])
            slide.shapes.title.text = "written"
            slide.shapes.add_picture(str(picture_path), 0, 0)
            show.save(str(path))
        case ".xlsx":
            book = openpyxl.Workbook()
            book.active["A1"] = "written"
            book.active.add_image(openpyxl.drawing.image.Image(str(picture_path)), "B2")
            book.save(path)
    return path


@pytest.mark.parametrize("suffix", [".docx", ".pptx", ".xlsx"])
def test_pictures_in_office_files_are_read(suffix: str, tmp_path: Path, fake: Fake) -> None:
    fake.readings = [reading(("Code: AB-12", 10, 20, 90))]
    path = office(tmp_path, suffix, noise(200, 100))
    (page,) = parse_file(path).pages
    assert page.text.split("\n")[-2:] == ["written", "Code: AB-12"]
    assert (page.how, page.confidence) == ("mixed", 0.99)
    assert len(fake.seen) == 1
    off = parse_file(path, options=ParseOptions(ocr=False)).pages[0]
    assert (off.how, off.text.split("\n")[-1]) == ("text", "written")


def with_media(path: Path, change: Callable[[bytes], bytes]) -> Path:
    """The same file with other pictures in it."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, change(data) if "media" in name else data)
    return path


def test_damaged_pictures_in_office_files_add_nothing(tmp_path: Path, fake: Fake) -> None:
    path = with_media(office(tmp_path, ".docx", noise(200, 100)), lambda data: data[:300])
    assert parse_file(path).text == "written"
    assert not fake.seen


def slides(path: Path, count: int) -> Path:
    """A presentation with a picture of its own on each slide."""
    show = pptx.Presentation()
    for number in range(count):
        slide = show.slides.add_slide(show.slide_layouts[5])
        slide.shapes.title.text = f"written {number + 1}"
        slide.shapes.add_picture(io.BytesIO(noise(200, 100, number)), 0, 0)
    show.save(str(path))
    return path


NOT_READ = PageNote("left out", {"what": "pictures", "count": 1})


@pytest.mark.parametrize("bound", [{"MOST": 2}, {"LONGEST": 0.5}])
def test_pictures_in_one_file_are_bounded(
    bound: dict[str, float], tmp_path: Path, fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in bound.items():
        monkeypatch.setattr(pictures, name, value)
    clock = iter([0.0, 0.3, 0.3, 0.7, 1.0, 1.0])
    monkeypatch.setattr("time.process_time", lambda: next(clock))
    calls: list[tuple[int, int]] = []

    def page_done(number: int = 0, pages: int = 0, *, recognised: bool = False) -> None:
        if recognised:
            calls.append((number, pages))

    document = parse_file(slides(tmp_path / "a.pptx", 4), page_done=page_done)
    assert [page.text for page in document.pages] == [f"written {n}" for n in (1, 2, 3, 4)]
    assert [page.notes for page in document.pages] == [(), (), (NOT_READ,), (NOT_READ,)]
    assert len(fake.seen) == 2
    assert calls == [(1, 0), (2, 0)]


def test_a_picture_that_recognition_fails_on_leaves_what_is_written(
    tmp_path: Path, fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object, image: Image) -> PictureReading:
        raise MemoryError

    monkeypatch.setattr(ocr.RapidOcrReader, "read", broken)
    (page,) = parse_file(office(tmp_path, ".xlsx", noise(200, 100))).pages
    assert (page.text.split("\n")[-1], page.how) == ("written", "text")
    assert page.notes[-1:] == (NOT_READ,)


def test_a_picture_that_cannot_be_unpacked_leaves_what_is_written(
    tmp_path: Path, fake: Fake
) -> None:
    path = office(tmp_path, ".docx", noise(200, 100))
    data = bytearray(path.read_bytes())
    place = data.find(b"word/media/") + 300
    data[place : place + 100] = bytes(100)
    path.write_bytes(data)
    (page,) = parse_file(path).pages
    assert (page.text, page.notes) == ("written", (NOT_READ,))


POSTSCRIPT = b"""%!PS-Adobe-3.0 EPSF-3.0
%%BoundingBox: 0 0 300 200
%%EndComments
(x) print
%%EOF
"""


def test_a_picture_that_is_a_program_is_not_run(
    tmp_path: Path, fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    run: list[object] = []
    monkeypatch.setattr("PIL.EpsImagePlugin.Ghostscript", lambda *arguments: run.append(arguments))
    with Pillow.open(io.BytesIO(POSTSCRIPT)) as picture:
        assert picture.format == "EPS"
    path = with_media(office(tmp_path, ".docx", noise(200, 100)), lambda _: POSTSCRIPT)
    assert parse_file(path).text == "written"
    assert not run
    assert not fake.seen
