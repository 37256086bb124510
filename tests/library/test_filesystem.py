from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from library_fixtures import EMBEDDER, add, document, indexes, open_library, write_protected
from read_only_medium import on_read_only_medium

from localrag.errors import LibraryError
from localrag.library.check import check_library
from localrag.library.folder import filesystem
from localrag.library.indexes.faiss import FaissVectors
from localrag.library.indexes.inverted import InvertedKeywords
from localrag.library.library import Library
from localrag.presentation.check import finding_text

TEXTS = ("the lantern by the harbour", "a quiet season in the city")


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    directory = tmp_path / "library"
    with open_library(directory) as library:
        for number, text in enumerate(TEXTS):
            add(library, document(text, source=f"{number}.txt"))
        library.sync()
    return directory


@pytest.fixture
def protected(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with write_protected(shelf, monkeypatch) as directory:
        yield directory


def found(library: Library, word: str) -> tuple[list[str], list[str]]:
    """Titles that the keyword search and the vector search find."""
    query = EMBEDDER.embed_queries([word])[0]
    hits = library.keywords.search([word], 1), library.vectors.search(query, 1)
    by_keyword, by_vector = (
        [chunk.text for chunk in library.chunks(hit.chunk_id for hit in results).values()]
        for results in hits
    )
    return by_keyword, by_vector


def state(directory: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(directory)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in directory.rglob("*")
        if path.is_file()
    }


def test_a_library_that_can_only_be_read_is_searched_and_left_alone(protected: Path) -> None:
    before = state(protected)
    with open_library(protected, create=False) as library:
        by_keyword, by_vector = found(library, "lantern")
        assert by_keyword == [TEXTS[0]]
        assert len(by_vector) == 1
        assert library.status().counts.documents == 2
        assert all(part.present for part in library.status().derived)
    assert check_library(protected, indexes()).ok
    assert state(protected) == before


def test_who_would_change_it_is_told_why_not(protected: Path) -> None:
    before = state(protected)
    with open_library(protected) as library:
        for change in (
            lambda: add(library, document("new", source="new.txt")),
            lambda: library.remove(sources=["0.txt"]),
            library.rebuild_indexes,
        ):
            with pytest.raises(LibraryError, match="is read-only"):
                change()
    stamps = {name: stamp for name, stamp in state(protected).items() if name in before}
    assert stamps == before


def test_its_indexes_are_followed_in_memory(protected: Path, monkeypatch: Any) -> None:
    with open_library(protected) as library:
        monkeypatch.setattr(InvertedKeywords, "open", lambda *_: None)
        assert found(library, "season")[0] == [TEXTS[1]]


def test_a_change_by_its_owner_is_seen(protected: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reading = open_library(protected)
    assert reading.counts().documents == 2
    with monkeypatch.context() as owner:
        owner.setattr("localrag.library.folder.locking.is_read_only", lambda *_: False)
        owner.setattr("localrag.library.backends.folder.is_read_only", lambda *_: False)
        for path in (protected, *protected.rglob("*")):
            path.chmod(0o755)
        with open_library(protected) as library:
            add(library, document("a river", source="2.txt"))
    assert reading.counts().documents == 3
    reading.close()


READ_ONLY = """
import os, sqlite3, sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
from library_fixtures import Words, open_library
from localrag.errors import LibraryError
directory = Path(sys.argv[1])
assert not os.access(directory, os.W_OK), "this medium can be written"
with open_library(directory, create=False) as library:
    print(len(library.keywords.search(["lantern"], 3)), library.counts().documents)
    try:
        library.remove(sources=["0.txt"])
    except LibraryError as error:
        print(error)
"""


def test_on_a_medium_that_is_mounted_read_only(shelf: Path, tmp_path: Path) -> None:
    place = tmp_path / "medium"
    paths = [str(Path(__file__).parent), str(Path(__file__).parents[1]), str(Path.cwd())]
    result = on_read_only_medium(
        shelf, place, sys.executable, "-c", READ_ONLY, f"{place}/library", *paths
    )
    assert result.returncode == 0, result.stderr
    first, second = result.stdout.splitlines()
    assert first == "1 2"
    assert "is read-only" in second


def test_a_search_goes_on_where_the_disk_is_full(
    shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_library(shelf) as library:
        add(library, document("a river", source="2.txt"))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with open_library(shelf) as library, monkeypatch.context() as disk:
        disk.setattr(FaissVectors, "_save", full)
        disk.setattr("localrag.library.indexes.segments.replace_file", full)
        assert found(library, "river")[0] == ["a river"]
        assert library.vectors.current().chunk_set().size == 3
        with pytest.raises(LibraryError):
            library.sync()
    with open_library(shelf) as library:  # space has been made
        library.sync()
        assert all(part.behind == 0 for part in library.status().derived)


def test_what_the_system_says_is_put_into_our_words(tmp_path: Path) -> None:
    with (
        pytest.raises(LibraryError, match="cannot be used: No space left"),
        filesystem.in_our_words(tmp_path),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def mounted(monkeypatch: pytest.MonkeyPatch, *mounts: tuple[str, str, str]) -> None:
    partitions = [SimpleNamespace(mountpoint=p, fstype=kind, opts=opts) for p, kind, opts in mounts]
    monkeypatch.setattr(psutil, "disk_partitions", lambda **_: partitions)


def test_a_network_drive_is_named(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounted(monkeypatch, ("/", "ext4", "rw"), (str(shelf.parent), "nfs4", "rw"))
    assert filesystem.network_drive(shelf) == "nfs4"
    inspection = check_library(shelf, indexes())
    assert inspection.ok
    assert [finding.code for finding in inspection.findings] == ["network-drive"]
    assert "nfs4" in finding_text(inspection.findings[0])


@pytest.mark.parametrize(
    ("mounts", "kind"),
    [
        ([("/", "ext4", "rw")], ""),
        ([("/", "nfs", "rw"), ("{}", "ext4", "rw")], ""),
        ([("/", "ext4", "rw"), ("{}", "fuse.sshfs", "rw")], "fuse.sshfs"),
        ([("/", "ext4", "rw"), ("{}-other", "cifs", "rw")], ""),
        ([("/", "ext4", "rw"), ("{}", "NTFS", "rw,remote")], "NTFS"),
    ],
)
def test_the_nearest_mount_counts(
    mounts: list[tuple[str, str, str]],
    kind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mounted(monkeypatch, *((point.format(tmp_path), *rest) for point, *rest in mounts))
    assert filesystem.network_drive(tmp_path / "library") == kind


def test_a_keyword_index_ahead_of_its_pointer_is_no_damage(
    shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with open_library(shelf) as library, monkeypatch.context() as disk:
        add(library, document("a river", source="2.txt"))
        disk.setattr(InvertedKeywords, "_save", ended)
        with pytest.raises(LibraryError, match="cannot be used"):
            library.sync()
    found_then = check_library(shelf, indexes())
    assert [(finding.part, finding.code) for finding in found_then.findings] == [
        ("keywords", "behind")
    ]
    with open_library(shelf) as library:
        assert found(library, "river")[0] == ["a river"]
        library.sync()
    assert not check_library(shelf, indexes()).findings


def test_where_mounts_cannot_be_listed_nothing_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psutil

    def refuse(all: bool) -> None:  # noqa: A002
        raise PermissionError("/proc/mounts")

    monkeypatch.setattr(psutil, "disk_partitions", refuse)
    assert filesystem.without_modes(tmp_path) == ""
    assert filesystem.network_drive(tmp_path) == ""
