"""What becomes a link after a folder was listed is not read, whoever does the adding."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_indexer import Room
from test_watching import World

from localrag.documents.files import read_bytes
from localrag.indexing.events import FilesFound, IndexingEvent, Watching

pytestmark = pytest.mark.skipif(os.name == "nt", reason="only where links need no rights")


@pytest.fixture
def private(tmp_path: Path) -> Path:
    path = tmp_path / "private" / "pgpass.txt"
    path.parent.mkdir()
    path.write_text("the password of the database")
    return path


def swaps(folder: Path, private: Path) -> Callable[[], None]:
    """Make a link of a file, and of a folder, that were listed."""

    def swap() -> None:
        (folder / "a.txt").unlink()
        (folder / "a.txt").symlink_to(private)
        (folder / "sub" / private.name).unlink()
        (folder / "sub").rmdir()
        (folder / "sub").symlink_to(private.parent)

    return swap


def test_an_add_reads_nothing_outside_what_was_named(tmp_path: Path, private: Path) -> None:
    room = Room(tmp_path)
    for name in ("a.txt", "b.txt", f"sub/{private.name}"):
        room.write(name, f"apples {name}")
    swap = swaps(room.files, private)

    def hear(event: IndexingEvent) -> None:
        if isinstance(event, FilesFound):
            swap()

    report = room.indexer().add([room.files], hear)
    assert [Path(file.source).name for file in report.committed] == ["b.txt"]
    assert sorted(Path(failure.source).name for failure in report.failed) == ["a.txt", private.name]
    assert all("outside what is being added" in str(failure.error) for failure in report.failed)
    assert room.finds("password") == []


def test_a_change_of_what_is_known_reads_nothing_outside(tmp_path: Path, private: Path) -> None:
    """Nor does a link to what is hidden in the folder itself."""
    room = Room(tmp_path)
    file = room.write("a.txt", "apples")
    hidden = room.write(".git/key.txt", "a password of its own")
    room.add()

    def read(path: Path, **options: Any) -> bytes:
        file.unlink()
        file.symlink_to(hidden)
        return read_bytes(path, **options)

    room.write("a.txt", "pears", age=50)
    report = room.add(read=read)
    assert [Path(failure.source).name for failure in report.failed] == ["a.txt"]
    assert room.finds("password") == []
    assert room.finds("apples") == ["a.txt"]


def test_a_link_within_what_was_named_is_followed(tmp_path: Path) -> None:
    """Also from one folder that was named to another, and where the folder itself is a link."""
    room, other = Room(tmp_path), tmp_path / "other"
    other.mkdir()
    (other / "real.txt").write_text("pears in a folder of its own")
    room.write("deep/b.txt", "apples in a folder")
    (room.files / "a.txt").symlink_to(room.files / "deep" / "b.txt")
    (room.files / "c.txt").symlink_to("../other/real.txt")
    way = tmp_path / "way"
    way.symlink_to(other)
    report = room.add(room.files, way)
    assert not report.failed
    assert not report.skipped
    assert {Path(file.source) for file in report.committed} == {
        room.files / "deep" / "b.txt",
        way / "real.txt",
    }


def test_a_watch_reads_nothing_outside_what_it_watches(tmp_path: Path, private: Path) -> None:
    world = World(tmp_path)
    for name in ("a.txt", "b.txt", f"sub/{private.name}"):
        world.write(name, f"apples {name}")
    swap, tell = swaps(world.files, private), world.events.append

    class Told(list[IndexingEvent]):
        def append(self, event: IndexingEvent) -> None:
            tell(event)
            if isinstance(event, Watching):  # it has looked, and will read now
                swap()

    world.events = Told()
    world.watch()
    names = {Path(source.state.path).name for source in world.library.sources()}
    assert names == {"b.txt"}
    assert {Path(source.state.path).name for source in world.library.unread()} >= {"a.txt"}
    chunks = [
        chunk.text
        for document in world.library.documents()
        for chunk in world.library.document_chunks(document.id)
    ]
    assert not any("password" in text for text in chunks)
