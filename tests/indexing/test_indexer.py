from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fakes import HashEmbedder

from localrag.documents.chunking import WindowChunker
from localrag.documents.files import parse_file
from localrag.documents.worker import ParsingProcess
from localrag.errors import EmptyFileError, LibraryLockedError, LibraryMismatchError
from localrag.factory import indexes_of
from localrag.indexing import indexer, rebuilding
from localrag.indexing.events import (
    AddReport,
    Committed,
    Embedded,
    Failed,
    FilesFound,
    IndexingEvent,
    Linked,
    Parsed,
    Removed,
    Unchanged,
    Vanished,
)
from localrag.indexing.indexer import Indexer
from localrag.library.library import Library
from localrag.library.records import EmbeddingIdentity
from localrag.models.embeddings.base import Progress, Vectors
from localrag.types import Document, Page

ROOT = Path(__file__).resolve().parents[2]


class Words:
    fingerprint = "words"

    def __call__(self, text: str) -> list[str]:
        return text.split()


class Room:
    """A library, files to add to it, and an indexer."""

    def __init__(self, base: Path, embedder: HashEmbedder | None = None, size: int = 60) -> None:
        self.files = base / "files"
        self.files.mkdir(exist_ok=True)
        self.embedder = embedder or HashEmbedder()
        self.identity = EmbeddingIdentity(
            self.embedder.fingerprint, "hash", self.embedder.dimension
        )
        self.library = Library.open(
            base / "library",
            create=True,
            embedding=None if (base / "library").exists() else self.identity,
            indexes=indexes_of(Words()),
        )
        self.size = size
        self.events: list[IndexingEvent] = []

    def write(self, name: str, text: str, *, age: float = 100) -> Path:
        path = self.files / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        moment = path.stat().st_mtime - age
        os.utime(path, (moment, moment))
        return path

    def indexer(self, **changes: Any) -> Indexer:
        arguments: dict[str, Any] = {
            "chunker": WindowChunker(self.size, 0),
            "chunking": f"window {self.size}",
            "embedder": self.embedder,
            "embedding": self.identity,
            "detect_language": lambda text: "zh" if "中" in text else "en",
            "parse": parse_file,  # quicker than a process of its own
        }
        return Indexer(self.library, **(arguments | changes))

    def add(self, *paths: Path, prune: bool = False, **changes: Any) -> AddReport:
        self.events.clear()
        return self.indexer(**changes).add(paths or (self.files,), self.events.append, prune=prune)

    def finds(self, term: str) -> list[str]:
        hits = self.library.keywords.search([term], 99)
        chunks = self.library.chunks(hit.chunk_id for hit in hits)
        names = self.library.sources_of(chunk.document_id for chunk in chunks.values())
        return sorted({Path(source).name for source in names.values()})


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


def test_adds_files_and_tells_each_step(room: Room) -> None:
    room.write("a.txt", "apples and pears " * 20)
    room.write("中.md", "# 标题\n\n中文 内容")
    room.write("data.bin", "x\0")
    report = room.add()
    assert [Path(c.source).name for c in report.committed] == ["a.txt", "中.md"]
    assert [type(error).__name__ for error in report.skipped] == ["UnsupportedFileError"]
    assert report.failed == report.unchanged == report.linked == ()
    assert set(report.seconds) == {"read", "parse", "chunk", "embed", "store", "index"}
    assert room.events[0] == FilesFound(2)
    kinds = [type(event) for event in room.events]
    assert kinds.index(Parsed) < kinds.index(Embedded) < kinds.index(Committed)
    embedded = sum(event.chunks for event in room.events if isinstance(event, Embedded))
    assert embedded == report.chunks == room.library.counts().chunks == 7
    assert room.finds("apples") == ["a.txt"]
    assert {record.language for record in room.library.documents()} == {"en", "zh"}


def test_second_add_reads_nothing(room: Room) -> None:
    room.write("a.txt", "apples")
    room.add()

    def never(*_: object, **__: object) -> bytes:
        raise AssertionError("an unchanged file was read")

    report = room.add(read=never)
    assert len(report.unchanged) == 1
    assert report.committed == ()
    assert len(room.embedder.calls) == 1


def test_touched_file_is_hashed_but_not_embedded(room: Room) -> None:
    path = room.write("a.txt", "apples")
    room.add()
    os.utime(path, (1_000_000, 1_000_000))
    report = room.add()
    assert len(report.unchanged) == 1
    assert "read" in report.seconds
    assert len(room.embedder.calls) == 1
    assert "read" not in room.add().seconds


def test_change_within_the_clock_tick_of_the_last_reading_is_seen(room: Room) -> None:
    path = room.write("a.txt", "apples", age=0)
    before = path.stat()
    room.add()
    path.write_text("orange", encoding="utf-8")  # as long, and set back to the same moment
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    report = room.add()
    assert [c.replaced for c in report.committed] == [True]
    assert room.finds("orange") == ["a.txt"]


def test_changed_file_replaces_its_old_version(room: Room) -> None:
    path = room.write("a.txt", "apples")
    room.write("b.txt", "bananas")
    room.add()
    room.write("a.txt", "cherries", age=50)
    report = room.add()
    assert [(Path(c.source), c.replaced) for c in report.committed] == [(path, True)]
    assert len(report.unchanged) == 1
    assert room.finds("apples") == []
    assert room.finds("cherries") == ["a.txt"]
    assert room.library.counts().documents == 2
    folder = room.library.directory
    assert not any(b"apples" in p.read_bytes() for p in folder.rglob("*") if p.is_file())


def test_same_bytes_are_stored_and_embedded_once(room: Room) -> None:
    for name in ("a.txt", "b.txt"):
        room.write(name, "the same")
    report = room.add()
    room.write("c.txt", "the same")
    later = room.add()
    assert len(report.committed) == 1
    assert [Path(linked.source).name for linked in report.linked] == ["b.txt"]
    assert [Path(linked.source).name for linked in later.linked] == ["c.txt"]
    assert room.library.counts().documents == 1
    assert room.library.counts().sources == 3
    assert sum(map(len, room.embedder.calls)) == 1


def test_file_that_takes_the_content_of_another_drops_its_own(room: Room) -> None:
    room.write("a.txt", "apples")
    room.write("b.txt", "bananas")
    room.add()
    room.write("b.txt", "apples", age=50)
    report = room.add()
    assert len(report.linked) == 1
    assert room.library.counts().documents == 1
    assert room.finds("bananas") == []


def test_unreadable_files_do_not_stop_the_rest(room: Room) -> None:
    room.write("a.txt", "apples")
    room.write("b.txt", "")
    (room.files / "c.txt").symlink_to(room.files / "nowhere")
    room.write("d.txt", "dates")
    report = room.add(room.files / "c.txt", room.files)
    assert {Path(c.source).name for c in report.committed} == {"a.txt", "d.txt"}
    failures = {Path(f.source).name: f.error for f in report.failed}
    assert isinstance(failures["b.txt"], EmptyFileError)
    assert "cannot be read" in str(failures["c.txt"])
    assert [event for event in room.events if isinstance(event, Failed)] == list(report.failed)


def test_file_that_became_unreadable_keeps_its_old_version(room: Room) -> None:
    room.write("a.txt", "apples")
    room.add()
    room.write("a.txt", "", age=50)
    assert len(room.add().failed) == 1
    assert room.finds("apples") == ["a.txt"]


def test_vanished_files_are_reported_and_pruned_on_request(room: Room) -> None:
    room.write("a.txt", "apples")
    room.write("sub/b.txt", "bananas")
    room.add()
    (room.files / "sub" / "b.txt").unlink()
    report = room.add()
    assert [Path(source).name for source in report.vanished] == ["b.txt"]
    assert report.removed == ()
    assert room.finds("bananas") == ["b.txt"]
    assert room.add(room.files / "a.txt").vanished == ()
    report = room.add(prune=True)
    assert report.removed == report.vanished != ()
    assert [type(e) for e in room.events if isinstance(e, Vanished | Removed)] == [
        Vanished,
        Removed,
    ]
    assert room.finds("bananas") == []


def test_what_another_process_removes_meanwhile_is_added_anew(tmp_path: Path, room: Room) -> None:
    room.write("a.txt", "apples")
    (document,) = room.add().committed
    copy = room.write("b.txt", "apples")
    other, documents = Room(tmp_path), [document.document_id]

    @contextmanager
    def hold() -> Iterator[None]:
        if documents:  # what it is a copy of was there when it was met
            other.library.remove(documents=[documents.pop()])
        with room.library.writing():
            yield

    report = room.indexer().add([copy], room.events.append, hold=hold)
    assert report.linked == ()
    assert [file.source for file in report.committed] == [str(copy)]
    assert room.finds("apples") == ["b.txt"]


def test_commit_is_reported_only_when_others_see_it(tmp_path: Path, room: Room) -> None:
    for number in range(6):
        room.write(f"{number}.txt", f"text {number} " * 200)
    other = Room(tmp_path)
    states: list[bool] = []

    def look(event: IndexingEvent) -> None:
        if isinstance(event, Committed):
            states.append(other.library.has_document(event.document_id))
            assert other.library.counts().documents >= len(states)

    room.indexer().add([room.files], look)
    assert states == [True] * 6


def test_interrupt_keeps_what_was_committed(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexer, "BATCH", 1)
    for number in range(5):
        room.write(f"{number}.txt", f"number{number}")

    def interrupt(event: IndexingEvent) -> None:
        if isinstance(event, Committed) and event.source.endswith("2.txt"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        room.indexer().add([room.files], interrupt)
    assert room.library.counts().documents == 3
    assert room.finds("number2") == ["2.txt"]
    assert room.finds("number3") == []
    report = room.add()
    assert (len(report.committed), len(report.unchanged)) == (2, 3)


def test_failing_model_adds_nothing_half(room: Room) -> None:
    class Failing(HashEmbedder):
        def embed_documents(
            self, texts: Sequence[str], progress: Progress | None = None
        ) -> Vectors:
            raise MemoryError

    room.write("a.txt", "apples")
    with pytest.raises(MemoryError):
        room.add(embedder=Failing())
    assert room.library.counts().documents == 0
    assert room.add().chunks == 1


def test_text_that_no_database_can_hold(room: Room) -> None:
    def parse(path: Path, data: bytes, **_: object) -> Document:
        return Document("f" * 64, str(path), "t\udce4", (Page(1, "a\ud800b nul\0 end"),))

    room.write("a.txt", "x")
    room.add(parse=parse)
    document = room.library.document("f" * 64)
    assert document is not None
    assert (document.title, document.text) == ("t\ufffd", "a\ufffdb nul\0 end")


@pytest.mark.skipif(
    sys.platform in ("win32", "darwin"), reason="only on systems whose file names are bytes"
)
def test_file_name_that_is_no_unicode(room: Room) -> None:
    name = os.fsdecode(b"caf\xe9.txt")
    (room.files / name).write_text("apples", encoding="utf-8")
    report = room.add()
    assert report.committed[0].source.endswith("caf\\xe9.txt")
    assert len(room.add().unchanged) == 1
    assert room.add().vanished == ()


def test_relative_paths_mean_the_same_file(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    room.write("a.txt", "apples")
    room.add()
    monkeypatch.chdir(room.files)
    assert len(room.add(Path("a.txt")).unchanged) == 1
    assert len(room.add(Path("../files")).unchanged) == 1
    assert room.events[1] == Unchanged(str(room.files / "a.txt"))


def test_another_model_may_not_add(room: Room) -> None:
    room.write("a.txt", "apples")
    other = EmbeddingIdentity("other", "other model", 8)
    with pytest.raises(LibraryMismatchError, match="other model"):
        room.add(embedding=other)


def test_second_writer_is_told(room: Room, tmp_path: Path) -> None:
    import threading

    room.write("a.txt", "apples")
    errors: list[BaseException] = []

    def second() -> None:
        try:
            Room(tmp_path).indexer().add([room.files], timeout=0.1)
        except LibraryLockedError as error:
            errors.append(error)

    with room.library.writing():
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
    assert f"process {os.getpid()}" in str(errors[0])


def answers(room: Room) -> list[Any]:
    query = room.embedder.embed_queries(["apples text 3"])[0]
    return [
        [(hit.chunk_id, round(hit.score, 3)) for hit in hits]
        for hits in (
            room.library.vectors.search(query, 50),
            room.library.keywords.search(["text", "3"], 50),
        )
    ]


def test_rebuild_with_another_model_equals_adding_with_it(tmp_path: Path) -> None:
    (tmp_path / "fresh").mkdir()
    room = Room(tmp_path)
    for number in range(8):
        room.write(f"{number}.txt", f"text {number} apples " * 30)
    room.add()
    rebuilt = Room(tmp_path, HashEmbedder(32, name="other"), size=90)
    report = rebuilt.indexer().rebuild()
    assert len(report.committed) == 8
    fresh = Room(tmp_path / "fresh", HashEmbedder(32, name="other"), size=90)
    fresh.add(room.files)
    assert answers(rebuilt) == answers(fresh)
    assert rebuilt.library.embedding == rebuilt.identity
    assert rebuilt.library.status().chunkings == {"window 90": 8}
    assert len(rebuilt.add(room.files).unchanged) == 8
    with pytest.raises(LibraryMismatchError):
        room.add()


def test_rebuild_that_is_cut_off_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebuilding, "BATCH", 1)
    room = Room(tmp_path)
    for number in range(6):
        room.write(f"{number}.txt", f"text {number}")
    room.add()
    before = answers(room)
    other = Room(tmp_path, HashEmbedder(32, name="other"))
    events: list[IndexingEvent] = []

    def interrupt(event: IndexingEvent) -> None:
        events.append(event)
        if sum(isinstance(event, Committed) for event in events) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        other.indexer().rebuild(interrupt)
    assert answers(room) == before
    report = other.indexer().rebuild()
    assert len(report.committed) == 2
    assert sum(map(len, other.embedder.calls)) == 6


def test_rebuild_with_the_same_settings_embeds_nothing(room: Room) -> None:
    room.write("a.txt", "text 3")
    room.add()
    before = answers(room)
    calls = len(room.embedder.calls)
    assert room.indexer().rebuild().committed == ()
    assert len(room.embedder.calls) == calls
    assert answers(room) == before


def test_linked_document_waits_for_the_commit(room: Room) -> None:
    room.write("a.txt", "same")
    room.write("b.txt", "same")
    room.add()
    kinds = [type(e) for e in room.events if isinstance(e, Committed | Linked)]
    assert kinds == [Committed, Linked]


def test_killed_adds_lose_nothing() -> None:
    script = ROOT / "scripts" / "kill_test.py"
    result = subprocess.run(
        [sys.executable, str(script), "--kills", "3", "--seed", "11"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "3/3: " in result.stdout


def test_files_are_read_in_a_process_of_their_own(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_here(*_: object, **__: object) -> None:
        raise AssertionError("read in this process")

    monkeypatch.setattr("localrag.documents.files.parse_file", not_here)
    room.write("a.txt", "apples and pears")
    room.write("b.pdf", "%PDF-1.7 no pages at all")
    room.write("c.html", "<p>plums</p><img src='http://tracker.invalid/x.png'>")
    report = room.add(parse=ParsingProcess())
    assert sorted(Path(file.source).name for file in report.committed) == ["a.txt", "c.html"]
    assert [Path(failure.source).name for failure in report.failed] == ["b.pdf"]


def test_where_the_bytes_lay_is_kept_also_of_what_an_older_version_added(room: Room) -> None:
    (room.files / "deep").mkdir()
    real = room.write("deep/one.txt", "one")
    link = room.files / "link.txt"
    try:
        link.symlink_to(real)
    except OSError:
        pytest.skip("only where links can be made")

    def led() -> tuple[str, ...]:
        record = room.library.source(str(link))
        assert record is not None
        return record.state.origins

    room.add(link)
    assert led() == (str(real),)
    with sqlite3.connect(room.library.directory / "catalogue.sqlite") as raw:
        raw.execute("DELETE FROM origins")
    raw.close()
    assert led() == ()
    report = room.add(link)
    assert report.unchanged == (str(link),)
    assert led() == (str(real),)
