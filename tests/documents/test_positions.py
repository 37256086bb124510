"""Where text stands on its page: kept in few bytes, and found again for any span."""

from __future__ import annotations

import random
import time
import tracemalloc
import zlib
from collections import Counter
from pathlib import Path

import msgspec
import pymupdf
import pytest

from localrag.documents import positions
from localrag.documents.files import parse_file
from localrag.documents.positions import (
    Box,
    Layout,
    Mark,
    Piece,
    decode,
    place,
    rectangles,
    turned,
)
from localrag.text.sentences import split_sentences
from localrag.types import Page

INSET = (4, 4, -4, -4)
CHINESE = (
    "春茶采摘于清明前后，鲜叶须在当日加工。杀青锅温约为240摄氏度，时间不超过8分钟；"
    "揉捻之后，用Sencha工艺的茶坊会再蒸一次。成品含水率应低于6%，否则不宜久藏。"
)
ENGLISH = (
    "The ferry leaves the old harbour at seven. In winter it waits for the mail, and the "
    "crossing takes forty minutes longer. Nobody complains: there is soup. On Sundays a second "
    "boat follows at noon, with room for twelve bicycles and one piano."
)


def layout_of(*marks: Mark) -> Layout:
    return Layout(100.0, 200.0, marks)


# Encoding


def test_a_layout_survives_its_encoding() -> None:
    dice = random.Random(4)
    marks = []
    end = 0
    for _ in range(300):
        start = end + dice.randrange(3)
        end = start + dice.randrange(1, 9)
        left, top = (dice.randrange(0, 2000) / 4 for _ in range(2))
        wide, high = (dice.randrange(0, 400) / 4 for _ in range(2))
        marks.append(Mark(start, end, left, top, left + wide, top + high, dice.randrange(4)))
    layout = Layout(595.25, 842.0, tuple(marks))
    assert decode(layout.encode()) == layout


def test_lengths_are_kept_to_a_quarter_and_errors_do_not_add_up() -> None:
    marks = tuple(Mark(i, i + 1, i * 0.3, 10.1, i * 0.3 + 0.3, 20.2) for i in range(1000))
    decoded = decode(Layout(300.0, 50.0, marks).encode()).marks
    assert all(abs(a.left - b.left) <= 0.125 for a, b in zip(marks, decoded, strict=True))


@pytest.mark.parametrize("seed", range(20))
def test_other_bytes_are_refused(seed: int) -> None:
    dice = random.Random(seed)
    good = bytearray(layout_of(Mark(0, 4, 1, 1, 9, 3), Mark(5, 9, 1, 4, 9, 6)).encode())
    raw = bytearray(zlib.decompress(bytes(good)))
    for _ in range(200):
        data = raw[:]
        for _ in range(dice.randrange(1, 4)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        try:
            layout = decode(zlib.compress(bytes(data)))
        except ValueError:
            continue
        starts = [mark.start for mark in layout.marks]
        assert starts == sorted(starts)
        assert all(mark.start < mark.end and mark.left <= mark.right for mark in layout.marks)
    with pytest.raises(ValueError, match="not a layout"):
        decode(dice.randbytes(40))
    with pytest.raises(ValueError, match="not a layout"):
        decode(bytes(good[:-3]))


def test_a_bomb_is_not_unpacked() -> None:
    with pytest.raises(ValueError, match="too large"):
        decode(zlib.compress(bytes(2 * positions.LARGEST)))


def bomb(marks: int) -> bytes:
    """So many marks of one code point each, in a few thousand bytes."""
    zeros, ones = [0] * marks, [1] * marks
    values = [9, 9, [marks], [0], [0], [1], zeros, ones, zeros, ones]
    return zlib.compress(msgspec.msgpack.encode(values), 9)


def test_more_marks_than_a_page_has_code_points_are_not_built() -> None:
    most = bomb(positions.MOST)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="not a layout"):
            decode(bomb(positions.MOST + 1))
        with pytest.raises(ValueError, match="do not fit"):
            decode(most, length=positions.MOST - 1)
        start = time.thread_time()
        window = decode(most, positions.MOST - 7, positions.MOST - 4, length=positions.MOST)
        assert time.thread_time() - start < 30  # 1 s, traced
        assert tracemalloc.get_traced_memory()[1] < 100e6
    finally:
        tracemalloc.stop()
    assert [mark.start for mark in window.marks] == [positions.MOST - n for n in (7, 6, 5)]


def test_only_the_marks_of_a_span_are_decoded() -> None:
    marks = tuple(Mark(n * 4 + 2, n * 4 + 5, n, n % 3, n + 2, n % 3 + 1, n % 4) for n in range(50))
    encoded = layout_of(*marks).encode()
    for start in range(0, 220, 3):
        for end in (start + 1, start + 2, start + 9, start + 400):
            before = [mark for mark in marks if mark.start <= start][-1:]
            inside = [mark for mark in marks if start < mark.start < end]
            assert list(decode(encoded, start, end).marks) == before + inside


@pytest.mark.parametrize(
    "marks",
    [
        (Mark(0, 4, 9, 1, 1, 3),),
        (Mark(0, 4, 1, 3, 9, 1),),
        (Mark(0, 4, float("nan"), 1, 9, 3),),
        (Mark(0, 4, 1, 1, float("inf"), 3),),
        (Mark(0, 4, 1, 1, 1e15, 3),),
        (Mark(0, 4, 1, 1, 9, 3, 4),),
        (Mark(0, 0, 1, 1, 9, 3),),
        (Mark(4, 8, 1, 1, 9, 3), Mark(0, 4, 1, 1, 9, 3)),
    ],
)
def test_what_could_not_be_read_again_is_not_written(marks: tuple[Mark, ...]) -> None:
    assert layout_of(*marks).encode() == b""
    assert Layout(float("nan"), 10, (Mark(0, 4, 1, 1, 9, 3),)).encode() == b""


def test_numbers_that_do_not_fit_together_are_refused() -> None:
    raw = zlib.decompress(layout_of(Mark(0, 4, 1, 1, 9, 3)).encode())
    values = msgspec.msgpack.decode(raw)
    for place_, value in ((2, [2]), (3, [4]), (3, []), (5, [-1]), (6, [-1]), (7, [0]), (9, [-8])):
        wrong = [*values[:place_], value, *values[place_ + 1 :]]
        with pytest.raises(ValueError, match="not a layout"):
            decode(zlib.compress(msgspec.msgpack.encode(wrong)))


# Rectangles of a span


def test_a_span_gets_a_rectangle_for_each_visual_line() -> None:
    text = "one two three"
    layout = layout_of(
        Mark(0, 3, 0, 0, 30, 10), Mark(4, 7, 34, 0, 64, 10), Mark(8, 13, 0, 12, 50, 22)
    )
    assert rectangles(layout, 0, text) == ((0, 0, 64, 10), (0, 12, 50, 22))
    assert rectangles(layout, 4, "two") == ((34, 0, 64, 10),)
    assert rectangles(layout, 5, "wo th") == ((44, 0, 64, 10), (0, 12, 20, 22))


def test_what_is_not_known_for_sure_is_not_marked() -> None:
    layout = layout_of(Mark(4, 7, 34, 0, 64, 10), Mark(8, 13, 0, 12, 50, 22))
    assert rectangles(layout, 0, "one two three") == ()
    assert rectangles(layout, 4, "two three four") == ()
    assert rectangles(layout, 20, "beyond") == ()


def test_nothing_is_printed_between_cells() -> None:
    layout = layout_of(Mark(0, 3, 0, 0, 30, 10), Mark(6, 11, 35, 0, 85, 10))
    assert rectangles(layout, 0, "one | three") == ((0, 0, 85, 10),)
    assert rectangles(layout, 0, "one + three") == ()


@pytest.mark.parametrize("turn", range(4))
def test_parts_of_turned_lines_are_measured_along_them(turn: int) -> None:
    upright = Mark(0, 10, 10, 20, 60, 30)
    part = (20.0, 20.0, 35.0, 30.0)  # of code points 2 to 5
    mark = Mark(0, 10, *turned(upright[2:6], turn, 100, 200), turn)
    assert rectangles(Layout(100, 200, (mark,)), 2, "cde") == (turned(part, turn, 100, 200),)


def test_pieces_that_stand_far_apart_are_not_joined() -> None:
    layout = layout_of(Mark(0, 1, 0, 0, 5, 10), Mark(2, 3, 90, 0, 95, 10))
    assert len(rectangles(layout, 0, "a b")) == 2


# A line and its pieces


def pieces(*texts: str) -> list[Piece]:
    return [Piece(text, 10.0 * i, 0, 10.0 * i + 9, 5) for i, text in enumerate(texts)]


@pytest.mark.parametrize(
    ("text", "parts", "spans"),
    [
        ("a well-known fact", ["a", "well-", "known", "fact"], ["a", "well-", "known", "fact"]),
        ("an example", ["an", "exam-", "ple"], ["an", "exam", "ple"]),
        ("x | | 1,5", ["x", "1,5"], ["x", "1,5"]),
        ("a | b", ["a", "|", "b"], ["a", "|", "b"]),
        ("春茶采摘", ["春茶", "采摘"], ["春茶", "采摘"]),
        ("one two", ["one", "too"], []),
        ("one two", ["one"], []),
        ("one", ["one", "two"], []),
    ],
)
def test_pieces_find_their_place_or_none_does(
    text: str, parts: list[str], spans: list[str]
) -> None:
    assert [text[mark.start : mark.end] for mark in place(text, pieces(*parts))] == spans


# PDF


def printed(page: pymupdf.Page) -> list[tuple[pymupdf.Point, str]]:
    """The middle of each character as the page is shown: asked of MuPDF for each by itself."""
    return [
        (
            (box := pymupdf.Rect(char["bbox"]) * page.rotation_matrix).tl * 0.5 + box.br * 0.5,
            char["c"],
        )
        for block in page.get_text("rawdict")["blocks"]
        for line in block.get("lines", ())
        for span in line["spans"]
        for char in span["chars"]
    ]


def covered(boxes: tuple[Box, ...], page: pymupdf.Page) -> Counter[str]:
    rects = [pymupdf.Rect(box) for box in boxes]
    return Counter(c for p, c in printed(page) if c.strip() and any(p in rect for rect in rects))


def rectangles_of(page: Page, start: int, end: int) -> tuple[Box, ...]:
    return rectangles(decode(page.layout), start, page.text[start:end])


def assert_exact(document: pymupdf.Document, *, hyphens: int = 0) -> int:
    """Each sentence, and each end of one from a word on: its own characters and no others."""
    pages = parse_file(Path("made.pdf"), document.tobytes()).pages
    count = 0
    for page, sheet in zip(pages, document, strict=True):
        assert decode(page.layout).width == pytest.approx(sheet.rect.width, abs=0.2)
        start = 0
        for line in page.text.split("\n"):
            for first, last in split_sentences(line):
                inner = max(line.find(" ", first, last), line.find("，", first, last)) + 1
                for begin in {first, inner or first}:
                    boxes = rectangles_of(page, start + begin, start + last)
                    expected = Counter("".join(line[begin:last].replace("|", "").split()))
                    characters = covered(boxes, sheet)
                    assert (characters - expected).total() <= hyphens, line[begin:last]
                    assert not expected - characters, line[begin:last]
                    assert all(
                        0 <= left < right <= sheet.rect.width + 1
                        and 0 <= top < bottom <= sheet.rect.height + 1
                        for left, top, right, bottom in boxes
                    )
                    count += 1
            start += len(line) + 1
    return count


def chinese_and_english() -> pymupdf.Document:
    document = pymupdf.open()
    page = document.new_page()
    page.insert_textbox((72, 72, 300, 250), CHINESE, fontsize=11, fontname="china-s")
    page.insert_textbox((72, 300, 280, 500), ENGLISH, fontsize=11)
    return document


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_sentences_are_marked_on_turned_pages(rotation: int) -> None:
    document = chinese_and_english()
    document[0].set_rotation(rotation)
    assert assert_exact(document) >= 10


@pytest.mark.parametrize("rotation", [90, 180, 270])
def test_sentences_are_marked_where_the_text_itself_is_turned(rotation: int) -> None:
    document = pymupdf.open()
    page = document.new_page()
    page.insert_textbox(
        (72, 72, 300, 700), CHINESE, fontsize=11, fontname="china-s", rotate=rotation
    )
    page.insert_textbox((320, 72, 500, 700), ENGLISH, fontsize=11, rotate=rotation)
    assert assert_exact(document) >= 10


def test_columns_and_hyphens() -> None:
    document = pymupdf.open()
    page = document.new_page()
    page.insert_textbox((50, 72, 280, 600), f"{ENGLISH} " * 3, fontsize=10)
    page.insert_textbox((310, 72, 540, 600), f"{CHINESE}" * 3, fontsize=10, fontname="china-s")
    page.insert_text((50, 650), "The last sentence of the page ends with an exam-", fontsize=10)
    page.insert_text((50, 662), "ple of a word that was cut in two.", fontsize=10)
    assert assert_exact(document, hyphens=1) >= 20


def test_table_rows_are_marked_cell_by_cell() -> None:
    document = pymupdf.open()
    page = document.new_page()
    for i, texts in enumerate((["Alloy", "Part"], ["TA15", "of two lines, in its own cell"])):
        for j, text in enumerate(texts):
            box = pymupdf.Rect(72 + 120 * j, 80 + 40 * i, 192 + 120 * j, 120 + 40 * i)
            page.draw_rect(box)
            page.insert_textbox(box + INSET, text, fontsize=10)
    assert assert_exact(document) >= 2


def test_a_cropped_page_counts_from_the_corner_that_is_shown() -> None:
    document = chinese_and_english()
    document[0].set_cropbox(pymupdf.Rect(50, 60, 400, 520))
    assert assert_exact(document) >= 10


def test_text_that_runs_aslant_is_not_marked() -> None:
    document = pymupdf.open()
    page = document.new_page()
    page.insert_text((72, 72), ENGLISH[:60], fontsize=11)
    aslant = (pymupdf.Point(100, 400), pymupdf.Matrix(30))
    page.insert_text((100, 400), "CONFIDENTIAL DRAFT", fontsize=20, morph=aslant)
    (sheet,) = parse_file(Path("made.pdf"), document.tobytes()).pages
    start = sheet.text.index("CONFIDENTIAL")
    assert rectangles_of(sheet, start, start + 12) == ()
    assert rectangles_of(sheet, 4, 9) != ()


def test_positions_take_a_fraction_of_the_text() -> None:
    (page,) = parse_file(Path("made.pdf"), chinese_and_english().tobytes()).pages
    assert len(page.layout) < len(page.text.encode())
