"""A page with words marked: its text always, its image while the file is what was read."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from dataclasses import replace
from email.message import EmailMessage
from pathlib import Path

import numpy as np
import PIL.Image
import pymupdf
import pytest
from test_indexer import Room

from localrag.documents.worker import ParsingProcess
from localrag.errors import UsageError
from localrag.indexing import viewing
from localrag.indexing.viewing import PageView, occurrences, view_span, view_words, with_image

TEXT = "The ferry leaves at seven. In winter it waits for the mail. Nobody complains."


@pytest.fixture(scope="module")
def drawing() -> Iterator[ParsingProcess]:
    parser = ParsingProcess()
    yield parser
    parser.close()


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


def pdf(*pages: str) -> bytes:
    document = pymupdf.open()
    for text in pages:
        document.new_page(width=400, height=300).insert_textbox((40, 40, 360, 260), text)
    return bytes(document.tobytes())


def put(room: Room, name: str, data: bytes) -> Path:
    path = room.files / name
    path.write_bytes(data)
    room.add()
    return path


def yellow(view: PageView) -> int:
    assert view.image is not None
    pixels = np.asarray(PIL.Image.open(io.BytesIO(view.image)).convert("RGB")).astype(int)
    return int((pixels[..., 0] - pixels[..., 2] > 60).sum())


def test_words_are_marked_on_the_image(room: Room, drawing: ParsingProcess) -> None:
    path = put(room, "ferry.pdf", pdf("A first page.", TEXT))
    bare = view_words(room.library, "ferry.pdf", 2, "in  WINTER it\nwaits")
    assert (bare.image, bare.marked, bare.state, bare.pages) == (None, False, "same", 2)
    assert [bare.text[a:b] for a, b in bare.spans] == ["In winter it waits"]
    assert bare.place.number == 2
    image_view = with_image(room.library, bare, drawing, width=500)
    assert (image_view.state, image_view.marked) == ("same", True)
    assert 0.1 < image_view.top < 0.4
    assert yellow(image_view) > 1000
    several = with_image(room.library, view_words(room.library, str(path), 2, "n"), drawing)
    assert not several.spans
    assert yellow(several) == 0
    page = with_image(room.library, view_words(room.library, "ferry.pdf", 1), drawing)
    assert (page.marked, yellow(page)) == (False, 0)


def test_a_span_is_cut_to_the_page_on_which_it_begins(
    room: Room, drawing: ParsingProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(room, "ferry.pdf", pdf(TEXT, TEXT))
    (document,) = room.library.documents()
    whole = room.library.text(document.id, 0, 10**6)
    start = whole.index("Nobody")
    view = view_span(room.library, document.id, start, start + 10**9)
    assert view is not None
    assert [view.text[a:b] for a, b in view.spans] == ["Nobody complains."]
    assert with_image(room.library, view, drawing).marked
    for first, last in ((5, 5), (9, 3), (10**12, 10**13)):
        empty = view_span(room.library, document.id, first, last)
        assert empty is not None
        assert empty.spans == ()
    assert view_span(room.library, "nothing", 0, 1) is None
    monkeypatch.setattr(viewing, "AROUND", 5)
    near = view_span(room.library, document.id, 10, 12)
    assert near is not None
    assert (near.text, near.start, near.spans) == (whole[5:17], 5, ((5, 7),))


def test_a_changed_file_and_one_that_is_gone_are_shown_as_text(
    room: Room, drawing: ParsingProcess
) -> None:
    path = put(room, "ferry.pdf", pdf(TEXT))
    other = pdf("Another text.")
    path.write_bytes(other)
    view = view_words(room.library, "ferry.pdf", 1, "the mail")
    image_view = with_image(room.library, view, drawing)
    assert (image_view.state, image_view.image, image_view.marked) == ("changed", None, False)
    assert [image_view.text[a:b] for a, b in image_view.spans] == ["the mail"]
    path.unlink()
    missing_view = with_image(room.library, view_words(room.library, "ferry.pdf", 1), drawing)
    assert (missing_view.state, missing_view.image) == ("gone", None)


def test_a_copy_that_is_still_as_it_was_is_drawn(room: Room, drawing: ParsingProcess) -> None:
    path = put(room, "ferry.pdf", pdf(TEXT))
    put(room, "copy.pdf", path.read_bytes())
    path.unlink()
    (document,) = room.library.documents()
    view = view_words(room.library, str(path), 1, "seven")
    assert view.paths == (str(path), str(room.files / "copy.pdf"))
    assert document.id == view.document_id
    assert with_image(room.library, view, drawing).marked


def test_a_file_that_looks_the_same_is_not_drawn(room: Room, drawing: ParsingProcess) -> None:
    data = pdf(TEXT)
    path = put(room, "ferry.pdf", data)
    state = path.stat()
    path.write_bytes(data.replace(b"%PDF-1.", b"%PDF-2.", 1))
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    view = view_words(room.library, "ferry.pdf", 1)
    assert view.state == "same"
    assert with_image(room.library, view, drawing).state == "changed"


def test_where_a_place_is_not_known_nothing_is_marked(
    room: Room, drawing: ParsingProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(room, "ferry.pdf", pdf(TEXT))
    view = view_words(room.library, "ferry.pdf", 1, "the mail")
    monkeypatch.setattr(type(room.library), "rectangles", lambda *_: ())
    image_view = with_image(room.library, view, drawing)
    assert (image_view.marked, yellow(image_view)) == (False, 0)


def test_a_page_that_cannot_be_drawn_is_said_to_be(room: Room, drawing: ParsingProcess) -> None:
    put(room, "notes.txt", b"words")
    broken = room.files / "broken.pdf"
    broken.write_bytes(b"words")  # what the library has read as text
    view = replace(view_words(room.library, "notes.txt", 1), paths=(str(broken),))
    failed_view = with_image(room.library, view, drawing)
    assert (failed_view.state, failed_view.image) == ("failed", None)
    assert "broken.pdf" in str(failed_view.fault)


def test_formats_without_pages_have_their_text(room: Room, drawing: ParsingProcess) -> None:
    put(room, "tea.md", "# 茶\n\n春茶在三月 采摘。\n".encode())
    view = with_image(room.library, view_words(room.library, "tea.md", 1, "三月采摘"), drawing)
    assert (view.is_drawn, view.image, view.state) == (False, None, "same")
    assert [view.text[a:b] for a, b in view.spans] == ["三月 采摘"]


def test_an_attachment_is_drawn_out_of_its_mail(drawing: ParsingProcess, tmp_path: Path) -> None:
    room = Room(tmp_path)
    inner, outer = EmailMessage(), EmailMessage()
    for mail in (inner, outer):
        mail["Subject"] = "The ferry"
        mail.set_content("See the file.")
    inner.add_attachment(pdf(TEXT), maintype="application", subtype="pdf", filename="ferry.pdf")
    outer.add_attachment(inner)
    path = put(room, "letter.eml", outer.as_bytes())
    sources = [
        source.state.path for source in room.library.sources() if source.state.path.endswith(".pdf")
    ]
    assert len(sources) == 1
    view = view_words(room.library, sources[0], 1, "the mail")
    assert with_image(room.library, view, drawing).marked
    path.write_bytes(inner.as_bytes().replace(b"Subject", b"X-Other"))
    again = view_words(room.library, sources[0], 1, "the mail")
    assert again.state == "changed"


@pytest.mark.parametrize(
    ("text", "words", "found"),
    [
        ("the other the", "the", ["the", "the"]),
        ("用AI技术的AI", "AI", ["AI", "AI"]),
        ("用 AI 技术", "用AI技术", ["用 AI 技术"]),
        ("用AI技术", "用 AI 技术", ["用AI技术"]),
        ("a (b) [c] a.b", "(b) [c]", ["(b) [c]"]),
        ("a.b axb", "a.b", ["a.b"]),
        ("well-\nknown well known", "well known", ["well known"]),
        ("therapist", "the rapist", []),
        ("ﬁne fine", "fine", ["fine"]),
        ("x", "y", []),
    ],
)
def test_words_are_found_whatever_white_space_is_between_them(
    text: str, words: str, found: list[str]
) -> None:
    assert [text[a:b] for a, b in occurrences(text, words)] == found


def test_what_cannot_be_looked_for_is_said(room: Room) -> None:
    put(room, "ferry.pdf", pdf("tea " * 60 + "\n" + "tea " * 60))
    for words in ("", " \n\u200b"):
        with pytest.raises(UsageError, match="no words"):
            view_words(room.library, "ferry.pdf", 1, words)
    with pytest.raises(UsageError, match="120 times"):
        view_words(room.library, "ferry.pdf", 1, "tea")
    for number in (0, 2, -1, 10**15):
        with pytest.raises(UsageError, match="it has 1 pages"):
            view_words(room.library, "ferry.pdf", number)
    with pytest.raises(UsageError, match="not in the library"):
        view_words(room.library, "nothing.pdf", 1)
