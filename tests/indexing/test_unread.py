"""Files that could not be read: which are tried again, and when they are forgotten."""

from __future__ import annotations

from email.message import EmailMessage
from pathlib import Path
from typing import Any, NoReturn

import pytest
from test_indexer import Room

from localrag.documents import files
from localrag.documents.files import parse_file
from localrag.errors import ParsingError, SlowFileError, UnsupportedFileError
from localrag.types import READER, Document


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


class Parser:
    """Reads what is asked for and remembers it; PDFs fail."""

    def __init__(self) -> None:
        self.read: list[str] = []

    def __call__(self, path: Path, data: bytes, **_: object) -> Document:
        self.read.append(path.name)
        return parse_file(path, data)


def unread(room: Room) -> dict[str, str]:
    """Names and kinds of error, as the library remembers them."""
    return {
        Path(source.state.path).name: type(source.error).__name__
        for source in room.library.unread()
    }


def test_a_file_that_failed_is_not_tried_again_unless_it_changed_or_is_named(room: Room) -> None:
    room.write("good.txt", "words")
    bad = room.write("bad.pdf", "%PDF- nothing")
    parser = Parser()
    first = room.add(parse=parser)
    assert parser.read == ["bad.pdf", "good.txt"]
    assert unread(room) == {"bad.pdf": "CorruptFileError"}
    again = room.add(parse=parser)
    assert parser.read == ["bad.pdf", "good.txt"]
    assert [(failure.source, str(failure.error), failure.tried) for failure in again.failed] == [
        (str(bad), str(first.failed[0].error), False)
    ]
    room.add(bad, parse=parser)
    assert parser.read[2:] == ["bad.pdf"]
    room.write("bad.pdf", "%PDF- nothing else", age=50)
    assert room.add(parse=parser).failed[0].tried
    assert parser.read[3:] == ["bad.pdf"]


def test_what_another_program_or_right_would_mend_is_tried_again(room: Room) -> None:
    path = room.write("large.txt", "words")
    refusals = [
        UnsupportedFileError("{source} is too large.", source=str(path)),
        ParsingError("{source} cannot be read: {reason}.", source=str(path), reason="rights"),
    ]

    def refuse(_: Path, **__: object) -> bytes:
        raise refusals[0]

    for _ in range(4):
        report = room.add(read=refuse)
        assert [failure.tried for failure in report.failed] == [True]
        refusals.reverse()
    assert len(room.add().committed) == 1
    assert unread(room) == {}


@pytest.mark.parametrize("inside", [False, True])
def test_a_file_given_up_for_the_time_it_took_is_tried_again(room: Room, inside: bool) -> None:
    """The machine may have been busy with other things."""
    if inside:
        message = EmailMessage()
        message.set_content("a letter")
        message.add_attachment("words", filename="slow.txt")
        room.write("m.eml", message.as_string())
    else:
        room.write("slow.txt", "words")
    busy = True

    def parse(path: Path, data: bytes, **options: Any) -> Document:
        if busy and path.name == "slow.txt":
            raise SlowFileError("Gave up on {source}", source=str(path))
        return parse_file(path, data, **options)

    for _ in range(3):
        assert [failure.tried for failure in room.add(parse=parse).failed] == [True]
        assert unread(room) == {"slow.txt": "SlowFileError"}
    busy = False
    room.add(parse=parse)
    assert unread(room) == {}
    assert "slow.txt" in {Path(source.state.path).name for source in room.library.sources()}


def test_a_file_tried_by_an_older_reader_is_tried_again(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    room.write("bad.pdf", "%PDF- nothing")
    room.add()
    assert not room.add().failed[0].tried
    monkeypatch.setattr("localrag.indexing.unread.READER", READER + 1)
    assert room.add().failed[0].tried
    assert not room.add().failed[0].tried


def test_unread_files_are_forgotten_when_they_are_read_or_gone(room: Room) -> None:
    bad = room.write("bad.txt", "")
    room.write("gone.txt", "")
    room.write("clip.mp4", "\0\1\2")
    room.write("sub/film.mp4", "\0\1\2")
    room.write("sub/other.mp4", "\0\1\2")
    elsewhere = room.files.with_name("elsewhere.txt")
    elsewhere.write_text("")
    room.add(room.files, elsewhere)
    kinds = {
        source.state.path: source.error.values.get("count") for source in room.library.unread()
    }
    assert kinds == {
        str(bad): None,
        str(room.files / "gone.txt"): None,
        str(elsewhere): None,
        str(room.files / "*.mp4"): 1,
        str(room.files / "sub" / "*.mp4"): 2,
    }
    (room.files / "gone.txt").unlink()
    elsewhere.unlink()
    for name in ("film", "other"):
        (room.files / "sub" / f"{name}.mp4").unlink()
    room.write("bad.txt", "words", age=50)
    room.add()
    assert unread(room) == {"*.mp4": "UnsupportedFileError", "elsewhere.txt": "EmptyFileError"}


def test_what_could_not_be_opened_is_forgotten_once_it_can(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it is then one of the files of types that are not read."""
    room.write("x.bin", "\0\1\2")

    def closed(path: Path, *_: object) -> NoReturn:
        raise PermissionError(13, "Permission denied", str(path))

    with monkeypatch.context() as patched:
        patched.setattr(files, "_opened", closed)
        room.add()
    assert list(unread(room)) == ["x.bin"]
    room.add()
    assert unread(room) == {"*.bin": "UnsupportedFileError"}


def test_a_new_version_that_cannot_be_read_is_remembered_beside_the_old(room: Room) -> None:
    path = room.write("a.txt", "words")
    room.add()
    room.write("a.txt", "", age=50)
    assert len(room.add().failed) == 1
    assert unread(room) == {"a.txt": "EmptyFileError"}
    assert room.finds("words") == ["a.txt"]
    room.library.remove(sources=[str(path)])
    assert unread(room) == {}


def test_nothing_is_written_for_what_is_known(room: Room) -> None:
    room.write("bad.txt", "")
    room.write("clip.mp4", "\0\1\2")
    room.add()
    entries: list[Any] = []
    room.library.set_unread = lambda files, forgotten=(): entries.extend([*files, *forgotten])  # type: ignore[method-assign]
    room.add()
    assert entries == []
