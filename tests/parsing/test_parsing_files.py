from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from localrag.errors import (
    CorruptFileError,
    EmptyFileError,
    ParsingError,
    UnsupportedFileError,
    UsageError,
)
from localrag.parsing import SUPPORTED_SUFFIXES, parse_file, walk


def write(path: Path, data: bytes = b"text") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def test_the_suffix_chooses_the_parser(tmp_path: Path) -> None:
    data = b"# Head\n\ntext"
    markdown = parse_file(write(tmp_path / "a.MD", data))
    assert markdown.text == "Head\ntext"
    assert markdown.id == hashlib.sha256(data).hexdigest()
    assert markdown.source == str(tmp_path / "a.MD")
    assert parse_file(tmp_path / "a.txt", data).text == "# Head\ntext"
    assert parse_file(Path("never/on/disk.html"), b"<h1>Head</h1>text").title == "Head"


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("a.txt", b"%PDF-1.7\nrest", "PDF"),
        ("a.pdf", b"\xff\xd8\xff\xe0rest", "JPEG"),
        ("a.pdf", b"<!DOCTYPE html><p>not found", "HTML"),
        ("a.md", b"PK\x03\x04rest", "ZIP"),
        ("a.html", b"\x89PNG\r\nrest", "PNG"),
    ],
)
def test_content_of_another_kind_is_named(name: str, data: bytes, kind: str) -> None:
    with pytest.raises(CorruptFileError, match=rf"{name} is named \.\w+ but its content is {kind}"):
        parse_file(Path(name), data)


def test_refusals_say_why(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedFileError, match=r"of a kind.*\.pdf"):
        parse_file(write(tmp_path / "a.xyz"))
    with pytest.raises(EmptyFileError, match="no bytes"):
        parse_file(write(tmp_path / "a.txt", b""))
    with pytest.raises(UnsupportedFileError, match="3 MB, more than the limit of 2 MB"):
        parse_file(write(tmp_path / "b.txt", b"x" * (2 * 2**20 + 1)), size_limit=2 * 2**20)
    with pytest.raises(ParsingError, match="cannot be read"):
        parse_file(tmp_path / "missing.txt")
    (tmp_path / "folder.txt").mkdir()
    with pytest.raises(UnsupportedFileError, match="folder or a device"):
        parse_file(tmp_path / "folder.txt")


@pytest.mark.parametrize("suffix", sorted(SUPPORTED_SUFFIXES))
def test_hostile_bytes_end_in_a_parsing_error_or_a_document(suffix: str) -> None:
    for seed in range(30):
        data = hashlib.shake_256(bytes([seed])).digest(10 + 40 * seed)
        with contextlib.suppress(ParsingError):
            assert parse_file(Path(f"a{suffix}"), data).text


def test_walk(tmp_path: Path) -> None:
    for name in (
        "b.txt",
        "a/z.md",
        "a/c.PDF",
        ".hidden.txt",
        ".git/x.txt",
        "a/.x/y.txt",
        "a/p.docx",
    ):
        write(tmp_path / name)
    skipped: list[ParsingError] = []
    found = list(walk([tmp_path], skipped))
    assert [str(p.relative_to(tmp_path)) for p in found] == ["a/c.PDF", "a/z.md", "b.txt"]
    assert [error.values["source"] for error in skipped] == [str(tmp_path / "a" / "p.docx")]
    named = [tmp_path / ".hidden.txt", tmp_path / "a" / "p.docx", tmp_path / "b.txt"]
    assert list(walk([*named, *named], [])) == named


def test_walk_names_a_missing_path_before_it_yields(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no file or folder .*gone"):
        walk([write(tmp_path / "a.txt"), tmp_path / "gone"], [])


@pytest.mark.skipif(os.name == "nt", reason="only on systems where links need no rights")
def test_walk_follows_links_once(tmp_path: Path) -> None:
    write(tmp_path / "real" / "a.txt")
    (tmp_path / "real" / "loop").symlink_to(tmp_path)
    (tmp_path / "again").symlink_to(tmp_path / "real")
    (tmp_path / "b.txt").symlink_to(tmp_path / "real" / "a.txt")
    (tmp_path / "broken.txt").symlink_to(tmp_path / "nothing")
    skipped: list[ParsingError] = []
    assert len(list(walk([tmp_path], skipped))) == 1
    assert [error.values["source"] for error in skipped] == [str(tmp_path / "broken.txt")]


def test_the_package_imports_no_parser_until_a_file_needs_it() -> None:
    code = (
        "import sys, localrag.parsing; "
        "sys.exit(any(m in sys.modules for m in ('pymupdf', 'selectolax', 'markdown_it')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
