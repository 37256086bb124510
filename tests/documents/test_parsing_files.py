from __future__ import annotations

import contextlib
import hashlib
import io
import os
import socket
import subprocess
import sys
from pathlib import Path

import docx
import pymupdf
import pytest

from localrag.documents import files
from localrag.documents.files import parse_file, read_bytes, walk, walk_names, whereabouts
from localrag.documents.formats.table import suffixes
from localrag.errors import (
    CorruptFileError,
    EmptyFileError,
    ParsingError,
    UnsupportedFileError,
    UsageError,
)
from localrag.presentation.reading import note_text


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


def test_what_is_behind_a_wrong_suffix_is_read() -> None:
    document = pymupdf.open()
    document.new_page().insert_text((72, 72), "The marmot sleeps.")
    book = io.BytesIO()
    docx.Document().save(book)
    with pytest.raises(EmptyFileError):
        parse_file(Path("a.pdf"), book.getvalue())
    for name in ("a.docx", "a.txt", "a.png", "a.html"):
        page = parse_file(Path(name), document.tobytes()).pages[0]
        assert page.text == "The marmot sleeps."
        [note] = page.notes
        assert not note.problem
        assert note.values == {"suffix": Path(name).suffix, "content": "PDF"}
        assert f"({Path(name).suffix}: PDF)" in note_text(note, "en")


def test_refusals_say_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnsupportedFileError, match=r"not a type of file.*localrag doctor"):
        parse_file(write(tmp_path / "a.xyz", b"\x7fELF\0"))
    with pytest.raises(EmptyFileError, match="contains no text"):
        parse_file(write(tmp_path / "a.txt", b""))
    with monkeypatch.context() as patch:
        patch.setattr(files, "SIZE_LIMIT", 2 * 2**20)
        with pytest.raises(UnsupportedFileError, match="3 MB in size, above the limit of 2 MB"):
            parse_file(write(tmp_path / "b.txt", b"x" * (2 * 2**20 + 1)))
    with pytest.raises(ParsingError, match="cannot be read"):
        parse_file(tmp_path / "missing.txt")
    (tmp_path / "folder.txt").mkdir()
    with pytest.raises(UnsupportedFileError, match="folder or a device"):
        parse_file(tmp_path / "folder.txt")


@pytest.mark.parametrize("suffix", suffixes())
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
    ):
        write(tmp_path / name)
    write(tmp_path / "a" / "p.exe", b"MZ\0")
    skipped: list[ParsingError] = []
    paths = list(walk([tmp_path], skipped))
    assert [str(p.relative_to(tmp_path)) for p in paths] == ["a/c.PDF", "a/z.md", "b.txt"]
    assert [error.values["source"] for error in skipped] == [str(tmp_path / "a" / "p.exe")]
    arguments = [tmp_path / ".hidden.txt", tmp_path / "a" / "p.exe", tmp_path / "b.txt"]
    assert list(walk([*arguments, *arguments], [])) == arguments


def test_a_walk_names_files_as_the_folder_was_named(tmp_path: Path) -> None:
    write(tmp_path / "a" / "b.txt")
    with contextlib.chdir(tmp_path):
        for folder, path in ((".", "a/b.txt"), ("a", "a/b.txt"), ("../" + tmp_path.name, None)):
            skipped: list[ParsingError] = []
            expected = Path(path or f"{folder}/a/b.txt")
            assert list(walk([Path(folder)], skipped)) == [expected]
            assert list(walk_names([Path(folder)], skipped)) == [str(expected)]


def test_walk_passes_over_what_is_not_finished_and_the_library(tmp_path: Path) -> None:
    for name in ("a.pdf.part", "b.docx.crdownload", "~$c.docx", "d.txt~", "e.tmp", "sub/f.txt"):
        write(tmp_path / name)
    library = write(tmp_path / "library" / "notes.txt").parent
    skipped: list[ParsingError] = []
    folders: list[Path] = []
    paths = list(walk([tmp_path], skipped, library=library, folders=folders))
    assert paths == [tmp_path / "sub" / "f.txt"]
    assert folders == [tmp_path, tmp_path / "sub"]
    assert skipped == []
    for path in (library, library / "notes.txt"):
        with pytest.raises(UsageError, match="belongs to the library itself"):
            walk([tmp_path, path], [], library=library)


def test_walk_names_a_missing_path_before_it_yields(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no file or folder .*gone"):
        walk([write(tmp_path / "a.txt"), tmp_path / "gone"], [])


@pytest.mark.skipif(os.name == "nt", reason="only on systems where links need no rights")
def test_whereabouts(tmp_path: Path) -> None:
    mail, text = tmp_path / "m.eml", tmp_path / "a.txt"
    for path in (mail, text):
        path.write_text("words")
    (tmp_path / "folder.eml").mkdir()
    assert whereabouts(text) == text
    assert whereabouts(mail / "inner.eml" / "b.pdf") == mail
    assert whereabouts(text / "b.pdf") is None  # a file is now where its folder was
    assert whereabouts(tmp_path / "folder.eml" / "b.pdf") is None
    assert whereabouts(tmp_path / "gone" / "b.pdf") is None
    unknown = tmp_path / ("long" * 100) / "b.pdf"
    assert whereabouts(unknown) == unknown  # the system does not say


@pytest.mark.skipif(os.name == "nt", reason="only on systems where links need no rights")
def test_reading_only_what_lies_below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    private, folder = write(tmp_path / "private.txt"), tmp_path / "docs"
    inside, hidden = write(folder / "deep" / "a.txt"), write(folder / ".git" / "key.txt")
    (folder / "link.txt").symlink_to(private)
    (folder / "seen.txt").symlink_to(hidden)
    (folder / "way").symlink_to(tmp_path)
    (folder / "b.txt").symlink_to(inside)
    below = [os.path.realpath(folder)]
    for path in (inside, folder / "b.txt", folder / "way" / "docs" / "deep" / "a.txt"):
        assert read_bytes(path, below=below) == inside.read_bytes()
    outside = (folder / "link.txt", folder / "way" / "private.txt", folder / "seen.txt", private)
    for path in outside:
        with pytest.raises(ParsingError, match="outside"):
            read_bytes(path, below=below)
    with pytest.raises(ParsingError, match="outside"):
        read_bytes(inside, below=[])
    # What is named itself may be hidden.
    assert read_bytes(hidden, below=[os.path.realpath(hidden.parent)]) == hidden.read_bytes()


@pytest.mark.skipif(os.name == "nt", reason="only on systems where links need no rights")
@pytest.mark.parametrize("swapped", ["file", "folder"])
def test_what_becomes_a_link_as_it_is_opened_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swapped: str
) -> None:
    private, folder = write(tmp_path / "private" / "a.txt"), tmp_path / "docs"
    inside, below = write(folder / "deep" / "a.txt"), [os.path.realpath(folder)]
    true = os.path.realpath
    looks = 0

    def swap(path: str | Path) -> str:
        nonlocal looks
        real, looks = true(path), looks + 1
        if looks == 1:  # where it lies has been found out
            inside.unlink()
            if swapped == "file":
                inside.symlink_to(private)
            else:
                inside.parent.rmdir()
                inside.parent.symlink_to(private.parent)
        return real

    monkeypatch.setattr(os.path, "realpath", swap)
    with pytest.raises(ParsingError, match="outside") as error:
        read_bytes(inside, below=below)
    assert error.value.values["target"] == true(private)


@pytest.mark.skipif(os.name == "nt", reason="only on systems where links need no rights")
def test_a_folder_that_becomes_a_link_on_the_walk_is_not_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even the names in it are told."""
    write(tmp_path / "private" / "the name of a secret.txt")
    folder, list_folder = tmp_path / "docs", files._entries
    write(folder / "a.txt")
    write(folder / "deep" / "b.txt")

    def swap(path: str) -> list[os.DirEntry[str]]:
        entries = list_folder(path)
        if Path(path) == folder:
            (folder / "deep" / "b.txt").unlink()
            (folder / "deep").rmdir()
            (folder / "deep").symlink_to(tmp_path / "private")
        return entries

    monkeypatch.setattr(files, "_entries", swap)
    skipped: list[ParsingError] = []
    assert [path.name for path in walk([folder], skipped)] == ["a.txt"]
    (error,) = skipped
    assert error.values == {"source": str(folder / "deep"), "target": str(tmp_path / "private")}


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
        "import sys, localrag.documents.files, localrag.documents.worker; "
        "sys.exit(any(m in sys.modules for m in ('pymupdf', 'selectolax', 'markdown_it')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def linked(path: Path, to: Path | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.symlink_to(to, target_is_directory=Path(to).is_dir())
    except OSError:
        pytest.skip("only where links can be made")
    return path


def test_a_walk_does_not_leave_its_folder(tmp_path: Path) -> None:
    secret = write(tmp_path / "home" / "ssh" / "key.txt")
    folder = tmp_path / "folder"
    write(folder / "a.txt")
    write(folder / ".hidden" / "b.txt")
    out = [
        linked(folder / "notes", tmp_path / "home" / "ssh"),
        linked(folder / "deep" / "key.txt", secret),
        linked(folder / "over", folder / "notes"),
        linked(folder / "up", ".."),
        linked(folder / "seen", ".hidden"),
    ]
    linked(folder / "program", sys.executable)
    linked(folder / "gone.txt", tmp_path / "gone")
    linked(folder / "itself.txt", "itself.txt")
    linked(folder / "here", ".")
    skipped: list[ParsingError] = []
    assert list(walk([folder], skipped)) == [folder / "a.txt"]
    kinds = {error.values["source"]: error for error in skipped}
    assert set(kinds) == {
        *map(str, out),
        *(str(folder / name) for name in ("program", "gone.txt", "itself.txt")),
    }
    for link in out:
        error = kinds[str(link)]
        assert "outside what is being added" in str(error)
        assert error.values["target"] == os.path.realpath(link)
        assert f"localrag add {link}" in error.hint.format(**error.values)
    # What is named is followed, and what both hold is met once.
    assert list(walk([folder / "notes"], [])) == [folder / "notes" / "key.txt"]
    assert list(walk([out[1]], [])) == [out[1]]
    paths = list(walk([folder, tmp_path / "home"], []))
    assert paths == [folder / "a.txt", secret]
    assert list(walk([folder / "seen", folder], [])) == [
        folder / "seen" / "b.txt",
        folder / "a.txt",
    ]


def test_a_file_is_met_under_its_own_name(tmp_path: Path) -> None:
    real = write(tmp_path / "z" / "real.txt")
    linked(tmp_path / "a.txt", real)
    linked(tmp_path / "b", tmp_path / "z")
    assert list(walk([tmp_path], [])) == [real]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="only where there are such files")
def test_pipes_and_sockets_are_never_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    linked(tmp_path / "null.txt", os.devnull)
    linked(tmp_path / "piped.md", "pipe.txt")
    with socket.socket(socket.AF_UNIX) as listening, contextlib.chdir(tmp_path):
        listening.bind("socket.txt")
        skipped: list[ParsingError] = []
        assert list(walk([tmp_path], skipped)) == []
        with pytest.raises(ParsingError, match="cannot be read"):
            read_bytes(tmp_path / "socket.txt")
    messages = {Path(error.values["source"]).name: str(error) for error in skipped}
    assert set(messages) == {"pipe.txt", "socket.txt", "null.txt"}
    assert "pipe, a socket or a device" in messages["pipe.txt"]
    assert "pipe, a socket or a device" in messages["socket.txt"]
    assert "is outside what is being added" in messages["null.txt"]
    # Also where a file became one after the walk; nobody ever writes into it.
    for name in ("pipe.txt", "null.txt"):
        with pytest.raises(UnsupportedFileError, match="device"):
            read_bytes(tmp_path / name)


def test_a_file_that_grows_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.txt")
    path.write_bytes(b"x" * 100)
    real = os.fstat

    def fstat(number: int) -> os.stat_result:
        status = real(number)
        return os.stat_result((*status[:6], 10, *status[7:10]))

    monkeypatch.setattr("localrag.documents.files.os.fstat", fstat)
    assert read_bytes(path) == b"x" * 100
    monkeypatch.setattr(files, "SIZE_LIMIT", 50)
    with pytest.raises(UnsupportedFileError, match="limit"):
        read_bytes(path)
