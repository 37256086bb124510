"""A rebuild reads again what an older version has read, and embeds only what changed."""

from __future__ import annotations

from dataclasses import replace
from email.message import EmailMessage
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import pytest
from fakes import HashEmbedder
from library.library_fixtures import bytes_on_disk
from test_indexer import Room, answers

from localrag.documents.files import parse_file
from localrag.errors import ParsingError
from localrag.indexing import rebuilding
from localrag.indexing.events import Failed, IndexingEvent, Kept, ReadAgain
from localrag.indexing.originals import is_elsewhere
from localrag.library.catalogue import reads, writes
from localrag.types import READER, Document

TEXT = "text 3 of the first sentence stands here. " * 4


def newer(path: Path, data: bytes, **_: object) -> Document:
    """Another reader of files: it sees one more page, and says how it read."""
    document = parse_file(path, data)
    (page,) = document.pages
    more = replace(page, number=2, text=f"a page that only {path.stem} has", how="ocr")
    return replace(document, pages=(replace(page, label="first"), more), unit="page")


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


def become_newer(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (reads, writes):
        monkeypatch.setattr(module, "READER", READER + 1)


def rebuilt(room: Room, **changes: Any) -> Any:
    return room.indexer(**({"parse": newer} | changes)).rebuild(room.events.append)


def test_what_an_older_version_has_read_is_as_if_it_were_added_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = Room(tmp_path)
    for name in ("a.txt", "b.txt"):
        room.write(name, f"{name} {TEXT}")
    room.add()
    embedded = sum(map(len, room.embedder.calls))
    assert room.library.status().outdated == 0
    become_newer(monkeypatch)
    assert room.library.status().outdated == 2
    report = rebuilt(room)
    assert room.library.status().outdated == 0
    assert report.committed == ()
    assert {Path(file.source).name for file in report.read_again} == {"a.txt", "b.txt"}
    again = sum(map(len, room.embedder.calls)) - embedded
    assert again == sum(file.embedded for file in report.read_again)
    assert (
        0 < again < sum(file.chunks for file in report.read_again) == room.library.counts().chunks
    )
    (tmp_path / "fresh").mkdir()
    fresh = Room(tmp_path / "fresh")
    fresh.add(room.files, parse=newer)
    assert answers(room) == answers(fresh)
    for record in fresh.library.documents():
        assert room.library.document(record.id) == fresh.library.document(record.id)
        assert room.library.document_chunks(record.id) == fresh.library.document_chunks(record.id)
    assert [document.sources for document in room.library.documents()] == [
        document.sources for document in fresh.library.documents()
    ]
    assert len(room.add().unchanged) == 2
    assert rebuilt(room).read_again == ()


def test_what_is_read_no_more_is_gone_from_the_disk(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    room.write("a.txt", f"{TEXT} PARSNIPS that nobody sees")
    room.add()
    assert b"PARSNIPS" in bytes_on_disk(room.library.directory)
    become_newer(monkeypatch)

    def without(path: Path, data: bytes) -> Document:
        document = parse_file(path, data)
        (page,) = document.pages
        return replace(document, pages=(replace(page, text=TEXT.strip()),))

    assert len(rebuilt(room, parse=without).read_again) == 1
    assert b"PARSNIPS" not in bytes_on_disk(room.library.directory)
    assert room.finds("PARSNIPS") == []


def test_what_cannot_be_read_again_stays_and_is_told(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing_file, changed_file, _ = (
        room.write(name, f"{name} {TEXT}") for name in ("gone.txt", "changed.txt", "refused.txt")
    )
    room.add()
    documents = [room.library.document(document.id) for document in room.library.documents()]
    before = answers(room)
    become_newer(monkeypatch)
    missing_file.unlink()
    changed_file.write_text("something else")

    def refuse(path: Path, data: bytes) -> Document:
        raise ParsingError("{source} is not for me.", source=path.name)

    report = rebuilt(room, parse=refuse)
    assert {Path(source).name for source in report.kept} == {"gone.txt", "changed.txt"}
    assert [Path(failure.source).name for failure in report.failed] == ["refused.txt"]
    assert report.read_again == ()
    assert [
        room.library.document(document.id) for document in room.library.documents()
    ] == documents
    assert answers(room) == before
    assert room.library.status().outdated == 3
    kinds = [type(event) for event in room.events if isinstance(event, Kept | Failed)]
    assert sorted(event.__name__ for event in kinds) == ["Failed", "Kept", "Kept"]


def test_any_of_its_files_will_do(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = room.write("a.txt", TEXT), room.write("b.txt", TEXT)
    room.add()
    first.unlink()
    become_newer(monkeypatch)
    (again,) = rebuilt(room).read_again
    assert Path(again.source).name == "a.txt"  # as the document is called
    assert room.finds("only") == ["a.txt"]


def test_a_share_on_another_machine_is_not_asked(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    room.write("a.txt", TEXT)
    room.add()
    become_newer(monkeypatch)
    monkeypatch.setattr(type(Path()), "drive", "\\\\server\\share", raising=False)

    def never(path: Path, **_: object) -> bytes:
        raise AssertionError(path)

    assert len(rebuilt(room, read=never).kept) == 1


def test_a_rebuild_that_is_cut_off_has_kept_what_it_told(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebuilding, "BATCH", 1)
    for number in range(5):
        room.write(f"{number}.txt", f"text {number}")
    room.add()
    become_newer(monkeypatch)
    events: list[IndexingEvent] = []

    def interrupt(event: IndexingEvent) -> None:
        events.append(event)
        if sum(isinstance(notice, ReadAgain) for notice in events) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        room.indexer(parse=newer).rebuild(interrupt)
    assert room.library.status().outdated == 2
    assert len(room.finds("only")) == 3
    assert len(rebuilt(room).read_again) == 2
    assert len(room.finds("only")) == 5


def test_another_model_and_another_reading_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = Room(tmp_path)
    for number in range(4):
        room.write(f"{number}.txt", f"text {number} {TEXT}")
    room.add()
    (room.files / "3.txt").unlink()
    become_newer(monkeypatch)
    other = Room(tmp_path, HashEmbedder(32, name="other"), size=90)
    report = rebuilt(other)
    assert (len(report.committed), len(report.read_again), len(report.kept)) == (4, 3, 1)
    assert other.library.embedding == other.identity
    assert other.library.status().chunkings == {"window 90": 4}
    assert len(other.finds("only")) == 3
    assert other.library.passages_are_sound()
    assert all(index.behind == 0 for index in other.library.status().derived)


def test_a_reading_is_not_undone_by_a_rebuild_that_was_begun_before(
    room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebuilding, "BATCH", 1)
    room.write("a.txt", TEXT)
    room.write("b.txt", f"b {TEXT}")
    room.add()
    other = Room(tmp_path, HashEmbedder(32, name="other"))
    staged: list[IndexingEvent] = []

    def interrupt(event: IndexingEvent) -> None:
        staged.append(event)
        if type(event).__name__ == "Committed":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        other.indexer().rebuild(interrupt)
    become_newer(monkeypatch)
    assert len(rebuilt(room).read_again) == 2
    rebuilt(other)
    assert other.finds("only") == ["a.txt", "b.txt"]


def test_what_lies_in_a_mail_is_read_again_out_of_it(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner, outer = EmailMessage(), EmailMessage()
    inner.set_content("inner")
    inner.add_attachment(TEXT, filename="deep.txt")
    outer.set_content("outer")
    outer.add_attachment(TEXT + "flat", filename="flat.txt")
    outer.add_attachment(inner, filename="inner.eml")
    room.write("outer.eml", outer.as_bytes().decode("ascii"))
    room.add()
    become_newer(monkeypatch)
    report = rebuilt(room, parse=parse_file)
    assert report.kept == report.failed == ()
    names = {Path(file.source).name for file in report.read_again}
    assert names == {"outer.eml", "flat.txt", "inner.eml", "deep.txt"}
    assert room.library.status().outdated == 0


@pytest.mark.parametrize(
    "source",
    [
        r"\\server\share\a.txt",
        r"\\?\UNC\server\share\a.txt",
        r"\\.\UNC\server\share\a.txt",
        r"//server/share/a.txt",
        r"\??\UNC\server\share\a.txt",
        r"/??/UNC/server/share/a.txt",
        r"\??\unc\server\share\a.txt",
    ],
)
def test_another_machine_that_a_library_names_is_recognised(source: str) -> None:
    assert is_elsewhere(PureWindowsPath(source))
    assert not is_elsewhere(PureWindowsPath(r"C:\Documents\a.txt"))
    assert not is_elsewhere(PurePosixPath("/??/UNC/a.txt"))
