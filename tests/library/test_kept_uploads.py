"""Files that a library keeps: which source each is of, and when it goes."""

from __future__ import annotations

import hashlib
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from library_fixtures import EMBEDDER, Where, bytes_on_disk, indexes, open_library

from localrag import factory
from localrag.config.settings import Settings
from localrag.egress.databases import read_url
from localrag.indexing.indexer import Indexer
from localrag.library.folder.gate import UPLOADS
from localrag.library.library import Library
from localrag.library.location import Location
from localrag.library.transfer import export_library, import_library, migrate_library

SENT = "The lease ends in May 2031."
MINE = "Minutes of the board."


def opened(place: Location) -> Library:
    settings = Settings()
    return open_library(
        place,
        tokenize=factory.make_tokenizer(settings),
        embedding=factory.identity_of(EMBEDDER, settings),
    )


def indexer(library: Library) -> Indexer:
    return factory.make_indexer(Settings(), library, EMBEDDER)


def send(library: Library, scratch: Path, text: str = SENT, name: str = "report.txt") -> str:
    """Upload a text; the id of its document."""
    file = scratch / "sent"
    file.write_text(text, encoding="utf-8")
    (commit,) = indexer(library).upload(file, name).committed
    return commit.document_id


def elsewhere(act: Callable[[], None]) -> None:
    """Do it in another thread."""
    thread = threading.Thread(target=act)
    thread.start()
    thread.join()


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A file of one's own in a folder that has the name of the library's."""
    file = tmp_path / "mine" / UPLOADS / "report.txt"
    file.parent.mkdir(parents=True)
    file.write_text(MINE, encoding="utf-8")
    return file


def test_a_folder_of_ones_own_called_uploads_travels(
    where: Where, mine: Path, tmp_path: Path
) -> None:
    with opened(where()) as library:
        indexer(library).add([mine.parent])
        send(library, tmp_path)
    export_library(where(), tmp_path / "a.zip", "0")
    import_library(tmp_path / "a.zip", tmp_path / "new", indexes=indexes())
    assert (tmp_path / "new" / UPLOADS / "report.txt").read_text(encoding="utf-8") == SENT
    with opened(tmp_path / "new") as library:
        assert len(library.documents()) == 2
        assert library.file_of(str(mine)) == mine


@pytest.mark.parametrize("size", ["another", "the same"])
def test_an_upload_goes_though_a_file_elsewhere_has_its_name(
    mine: Path, tmp_path: Path, size: str
) -> None:
    text = SENT if size == "another" else SENT[: len(MINE)]
    with opened(tmp_path / "one") as library:
        indexer(library).add([mine.parent])
        assert library.remove(documents=[send(library, tmp_path, text)]).purged
        assert text.encode() not in bytes_on_disk(tmp_path / "one")
        assert [source.state.path for source in library.sources()] == [str(mine)]


@pytest.mark.parametrize("text", [SENT, MINE], ids=["other bytes", "the same bytes"])
def test_a_file_of_ones_own_is_pruned_though_an_upload_has_its_name(
    mine: Path, tmp_path: Path, text: str
) -> None:
    with opened(tmp_path / "one") as library:
        send(library, tmp_path, text)
        indexer(library).add([mine.parent])
        mine.unlink()
        assert indexer(library).add([mine.parent], prune=True).removed == (str(mine),)
        upload = tmp_path / "one" / UPLOADS / "report.txt"
        assert [source.state.path for source in library.sources()] == [str(upload)]
        assert upload.read_text(encoding="utf-8") == text


def test_bytes_that_lie_elsewhere_too_travel_once(mine: Path, tmp_path: Path) -> None:
    with opened(tmp_path / "one") as library:
        send(library, tmp_path, MINE)
        indexer(library).add([mine.parent])
    moved = (tmp_path / "one").rename(tmp_path / "moved")
    export_library(moved, tmp_path / "a.zip", "0")
    import_library(tmp_path / "a.zip", tmp_path / "new", indexes=indexes())
    assert [path.name for path in (tmp_path / "new" / UPLOADS).iterdir()] == ["report.txt"]


@pytest.mark.parametrize("how", ["moved", "copied", "imported"])
def test_uploads_stay_where_their_library_lies_elsewhere_by_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """And none is read whole with every sweep."""
    place, new = tmp_path / "one", tmp_path / "new"
    with opened(place) as library:
        document = send(library, tmp_path)
    if how == "moved":
        place.rename(new)
    elif how == "copied":
        shutil.copytree(place, new, copy_function=shutil.copyfile)
    else:
        export_library(place, tmp_path / "a.zip", "0")
        import_library(tmp_path / "a.zip", new, indexes=indexes())
    upload, reads = new / UPLOADS / "report.txt", list[Any]()
    digest = hashlib.file_digest
    with opened(new) as library, monkeypatch.context() as patched:
        patched.setattr(hashlib, "file_digest", lambda *of: reads.append(of) or digest(*of))
        library.sweep_uploads()
        assert len(reads) == (0 if how == "moved" else 1)
        library.sweep_uploads()
        assert len(reads) == (0 if how == "moved" else 1)
        assert library.file_of(library.sources()[0].state.path) == upload
    with opened(new) as library:
        (new / UPLOADS / "half.txt").write_text("of an upload that was killed", encoding="utf-8")
        send(library, tmp_path, MINE, "other.txt")
        assert sorted(path.name for path in upload.parent.iterdir()) == ["other.txt", "report.txt"]
        assert library.remove(documents=[document]).purged
        assert not upload.exists()


@pytest.mark.parametrize("place", ["one", "moved"])
def test_an_upload_that_its_owner_has_changed_stays(tmp_path: Path, place: str) -> None:
    with opened(tmp_path / "one") as library:
        send(library, tmp_path)
    (tmp_path / "one").rename(tmp_path / place)
    with opened(tmp_path / place) as library:
        upload = tmp_path / place / UPLOADS / "report.txt"
        upload.write_text("The lease was ended.", encoding="utf-8")
        library.sweep_uploads()
        assert upload.read_text(encoding="utf-8") == "The lease was ended."


def test_what_a_killed_import_or_move_left_is_in_nobodys_way(where: Where, tmp_path: Path) -> None:
    with opened(where()) as library:
        send(library, tmp_path)
    new = tmp_path / "new"
    opened(new).close()
    (new / UPLOADS).mkdir()
    for name in ("report.txt", "other.txt"):
        (new / UPLOADS / name).write_text("was put here", encoding="utf-8")
    if isinstance(where(), Path):
        export_library(where(), tmp_path / "a.zip", "0")
        import_library(tmp_path / "a.zip", new, indexes=indexes())
    else:
        migrate_library(where(), new, indexes=indexes())
    texts = {path.name: path.read_text(encoding="utf-8") for path in (new / UPLOADS).iterdir()}
    assert texts == {"report.txt": SENT}


def test_an_upload_that_was_killed_stays_on_no_node(
    postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its bytes would be there still once another node has removed the document."""
    place = read_url(f"{postgres}#{tmp_path.name}")
    with opened(place) as library:
        upload = library.directory / UPLOADS / "report.txt"
        with monkeypatch.context() as killed:
            killed.setattr(Indexer, "_sync", lambda *_: elsewhere(library.forget))
            killed.setattr(Library, "sweep_uploads", lambda _: None)
            send(library, tmp_path)
        assert upload.exists(), "while it is under way, nobody sweeps"
        assert library.uploads.kept(library.sources()[0].state.path) == SENT.encode()
    with opened(place):
        assert not upload.exists()
