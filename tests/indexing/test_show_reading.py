"""What the library says of a file that it holds, and of one that lies in another."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from test_indexer import Room

from localrag.documents.chunking import WindowChunker
from localrag.documents.files import parse_file
from localrag.errors import UsageError
from localrag.indexing.reading import from_file, from_library
from localrag.library.records import FileState


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


def test_what_lies_in_a_file_stands_and_falls_with_it(room: Room) -> None:
    mail = room.write("mail.eml", "Subject: news\n\nthe letter")
    report = room.add()
    attachment = str(mail / "report.pdf")
    room.library.set_sources([(FileState(attachment, 1, 2, 3), report.committed[0].document_id)])
    for name in (attachment, "mail.eml/report.pdf", "report.pdf"):
        reading = from_library(room.library, name)
        assert reading is not None
        assert (reading.document.source, reading.origin) == (attachment, "library")
    room.write("mail.eml", "another letter", age=10)
    changed_reading = from_library(room.library, attachment)
    assert changed_reading is not None
    assert changed_reading.origin == "changed"
    mail.unlink()
    missing_reading = from_library(room.library, attachment)
    assert missing_reading is not None
    assert missing_reading.origin == "gone"


def test_a_file_that_is_here_goes_before_one_that_ends_like_it(
    room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room.write("a.txt", "in the library")
    room.add()
    monkeypatch.chdir(tmp_path)
    assert from_library(room.library, "a.txt") is not None
    Path("a.txt").write_text("here")
    assert from_library(room.library, "a.txt") is None
    reading = from_file(Path("a.txt"), parse_file, WindowChunker(60, 0), lambda _: "en")
    assert (reading.document.text, reading.document.source) == ("here", str(tmp_path / "a.txt"))
    assert [chunk.text for chunk in reading.chunks or ()] == ["here"]
    with pytest.raises(UsageError):
        from_file(Path("b.txt"), parse_file, None, lambda _: "en")


@pytest.mark.skipif(os.name == "nt", reason="only on POSIX: folders in a file's place")
def test_a_folder_in_its_place_is_a_change(room: Room) -> None:
    path = room.write("a.txt", "words")
    room.add()
    path.unlink()
    path.mkdir()
    reading = from_library(room.library, str(path))
    assert reading is not None
    assert reading.origin == "changed"
