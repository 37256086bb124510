"""`page`: a page with words marked, as an image in a file or as text."""

from __future__ import annotations

from pathlib import Path

import pymupdf
import pytest
from in_process import Localrag, in_process

TEXT = "The ferry leaves at seven. In winter it waits for the mail."


@pytest.fixture
def localrag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Localrag:
    return in_process(tmp_path, monkeypatch)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    papers = tmp_path / "papers"
    papers.mkdir()
    (papers / "tea.md").write_text("# Tea\n\nGreen tea is picked in spring.\n")
    document = pymupdf.open()
    document.new_page().insert_text((72, 72), TEXT)
    document.save(papers / "ferry.pdf")
    return papers


@pytest.fixture
def library(localrag: Localrag, folder: Path, tmp_path: Path) -> tuple[str, str]:
    option = ("--library", str(tmp_path / "library"))
    localrag("add", str(folder), *option)
    return option


def test_an_image_goes_into_a_file(
    localrag: Localrag, library: tuple[str, str], tmp_path: Path
) -> None:
    image = tmp_path / "page.png"
    words = ("--highlight", "WAITS  for the\nmail", "-o", str(image))
    result = localrag("page", "ferry.pdf", "1", *words, *library)
    assert (result.code, result.out) == (0, "")
    assert result.err == f"The image is in {image}.\n"
    assert image.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    other = localrag("page", "ferry.pdf", "1", "--highlight", "soup", "-o", str(image), *library)
    assert other.code == 0
    assert "do not stand on the page, so nothing is marked" in other.err


def test_a_place_that_is_not_known_is_said(
    localrag: Localrag, library: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from localrag.library.library import Library

    monkeypatch.setattr(Library, "rectangles", lambda *_: ())
    words = ("--highlight", "winter", "-o", str(tmp_path / "page.png"))
    result = localrag("page", "ferry.pdf", "1", *words, *library)
    assert result.code == 0
    assert "not known for sure" in result.err


def test_without_a_file_to_write_and_for_other_formats_the_text_is_shown(
    localrag: Localrag, library: tuple[str, str], tmp_path: Path
) -> None:
    result = localrag("page", "ferry.pdf", "1", "--highlight", "winter", *library)
    assert (result.code, result.err) == (0, "")
    assert "— p. 1" in result.out
    assert "In ▶winter◀ it" in result.out
    image = tmp_path / "page.png"
    text = localrag("page", "tea.md", "1", "--highlight", "tea", "-o", str(image), *library)
    assert text.code == 1
    assert "▶Tea◀\n" in text.out
    assert "Green ▶tea◀ is picked" in text.out
    assert "only pages of PDF files and pictures" in text.err
    assert not image.exists()


def test_a_file_that_changed_or_is_gone_is_shown_as_the_library_holds_it(
    localrag: Localrag, library: tuple[str, str], folder: Path, tmp_path: Path
) -> None:
    words = ("ferry.pdf", "1", "--highlight", "mail", "-o", str(tmp_path / "page.png"))
    (folder / "ferry.pdf").write_bytes(b"%PDF-1.7 other")
    result = localrag("page", *words, *library)
    assert result.code == 1
    assert "for the ▶mail◀" in result.out
    assert "has changed since it was added" in result.err
    (folder / "ferry.pdf").unlink()
    second_result = localrag("page", *words, *library)
    assert second_result.code == 1
    assert "for the ▶mail◀" in second_result.out
    assert "is gone" in second_result.err
    assert "the original is needed" in second_result.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("ferry.pdf", "2"), "it has 1 pages"),
        (("ferry.pdf", "9" * 30), "it has 1 pages"),
        (("ferry.pdf", "0"), "0"),
        (("ferry.pdf", "x"), "x"),
        (("soup.pdf", "1"), "soup.pdf is not in the library"),
        (("", "1"), "empty"),
        (("ferry.pdf", "1", "--highlight", " "), "no words to mark"),
        (("ferry.pdf", "1", "-o", "/nothing/here/page.png"), "cannot be written"),
    ],
)
def test_what_cannot_be_is_said(
    localrag: Localrag, library: tuple[str, str], arguments: tuple[str, ...], said: str
) -> None:
    result = localrag("page", *arguments, *library)
    assert result.code == 2
    assert said in result.err


def test_the_document_is_not_written_over(
    localrag: Localrag, library: tuple[str, str], folder: Path
) -> None:
    before = (folder / "ferry.pdf").read_bytes()
    result = localrag("page", "ferry.pdf", "1", "-o", str(folder / "ferry.pdf"), *library)
    assert result.code == 2
    assert "is the document itself" in result.err
    assert (folder / "ferry.pdf").read_bytes() == before
