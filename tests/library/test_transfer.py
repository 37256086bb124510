"""A library goes through one file and comes out the same; what is not one is refused."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import zipfile
from collections import namedtuple
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from library_fixtures import (
    EMBEDDER,
    Words,
    add,
    bytes_on_disk,
    document,
    found,
    indexes,
    make_older,
    open_library,
    write_protected,
)
from read_only_medium import on_read_only_medium

from localrag.errors import (
    LibraryDamagedError,
    LibraryError,
    LibraryMismatchError,
    LibraryNotFoundError,
    LocalragError,
    ParsingError,
    UsageError,
)
from localrag.library import transfer
from localrag.library.catalogue import writes
from localrag.library.catalogue.migrations import migrate
from localrag.library.check import check_library
from localrag.library.folder.filesystem import CATALOGUE
from localrag.library.records import FileState, UnreadFile
from localrag.library.transfer import export_library, import_library
from localrag.presentation.check import finding_text
from localrag.system import files

QUESTIONS = ("green tea in spring", "the quick fox", "茶叶 春天", "nothing of this")


def bring(archive: Path, directory: Path, **more: Any) -> Any:
    return import_library(archive, directory, indexes=indexes(), describe=finding_text, **more)


@pytest.fixture
def library(tmp_path: Path) -> Path:
    directory = tmp_path / "library"
    with open_library(directory) as new_library:
        add(
            new_library,
            document(
                "green tea is picked in spring " * 9, "the quick brown fox", source="/a/tea.txt"
            ),
        )
        add(new_library, document("茶叶 在 春天 采摘 。 " * 20, source="/a/茶.txt"))
        add(new_library, document("a secret to be removed " * 20, source="/a/secret.txt"))
        add(new_library, document("foxes sleep", source="/b/fox.txt"))
        new_library.remove(sources=["/a/secret.txt"])
        new_library.sync()
    return directory


@pytest.fixture
def archive(library: Path, tmp_path: Path) -> Path:
    export_library(library, tmp_path / "library.zip", "0")
    return tmp_path / "library.zip"


def answers(directory: Path) -> list[Any]:
    with open_library(directory, create=False) as opened_library:
        return [found(opened_library, question) for question in QUESTIONS] + [
            opened_library.documents(),
            opened_library.sources(),
            {
                number: opened_library.chunks([number])
                for question in QUESTIONS
                for number, _ in found(opened_library, question)[0]
            },
        ]


def test_what_comes_out_answers_as_what_went_in(
    library: Path, archive: Path, tmp_path: Path
) -> None:
    calls = len(EMBEDDER.calls)
    manifest = bring(archive, tmp_path / "there" / "library")
    assert len(EMBEDDER.calls) == calls
    assert (manifest.documents, manifest.embedding_name) == (3, "hash")
    assert answers(tmp_path / "there" / "library") == answers(library)
    checked = check_library(tmp_path / "there" / "library", indexes())
    assert checked.findings == []


def test_it_can_be_added_to_and_exported_again(archive: Path, tmp_path: Path) -> None:
    bring(archive, tmp_path / "there")
    with open_library(tmp_path / "there") as copy:
        add(copy, document("a new harbour", source="/c/new.txt"))
        assert found(copy, "harbour")[1]
        copy.remove(sources=["/b/fox.txt"])
    export_library(tmp_path / "there", tmp_path / "again.zip", "0")
    bring(tmp_path / "again.zip", tmp_path / "elsewhere")
    assert answers(tmp_path / "elsewhere") == answers(tmp_path / "there")


def test_what_was_removed_or_is_derived_does_not_travel(library: Path, tmp_path: Path) -> None:
    (library / "kv").mkdir()
    (library / "kv" / "state").write_bytes(b"a state")
    with open_library(library) as original:
        original.begin_rebuild("plan")
        chunks = original.document_chunks(original.documents()[0].id)
        vectors = EMBEDDER.embed_documents([chunk.text for chunk in chunks])
        original.stage([(original.documents()[0].id, chunks, vectors)])
    with sqlite3.connect(library / "catalogue.sqlite") as raw:  # a removal that was cut off
        raw.execute("PRAGMA secure_delete = OFF")
        raw.execute("PRAGMA foreign_keys = ON")
        raw.execute("INSERT INTO meta VALUES ('purge due', 1), ('unheard of', 'setting')")
        raw.execute(
            "DELETE FROM documents WHERE id IN (SELECT d.id FROM documents d JOIN sources s "
            "ON s.document = d.number WHERE s.path = '/b/fox.txt')"
        )
    raw.close()
    assert b"foxes sleep" in bytes_on_disk(library)
    export_library(library, tmp_path / "x.zip", "0")
    with zipfile.ZipFile(tmp_path / "x.zip") as zip_file:
        assert sorted(zip_file.namelist()) == ["catalogue.sqlite", "manifest.json"]
        catalogue = zip_file.read("catalogue.sqlite")
    assert b"secret" not in catalogue
    assert b"foxes sleep" not in catalogue
    bring(tmp_path / "x.zip", tmp_path / "there")
    with sqlite3.connect(tmp_path / "there" / "catalogue.sqlite") as raw:
        settings = dict(raw.execute("SELECT key, value FROM meta"))
        staged = raw.execute("SELECT count(*) FROM staged_documents").fetchone()
    raw.close()
    assert set(settings) <= {
        "generation",
        "epoch",
        "embedding",
        "embedding_name",
        "dimension",
        "chunks",
        "forgotten",
    }
    assert staged == (0,)
    assert not (tmp_path / "there" / "kv").exists()


def test_while_somebody_writes_one_state_travels(library: Path, tmp_path: Path) -> None:
    end = threading.Event()

    def write() -> None:
        with open_library(library) as original:
            for number in range(40):
                add(original, document(f"number {number} " * 50, source=f"/n/{number}.txt"))
                if end.is_set():
                    break

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(3):
            export_library(library, tmp_path / f"{number}.zip", "0")
    finally:
        end.set()
        writer.join()
    for number in range(3):
        bring(tmp_path / f"{number}.zip", tmp_path / f"there {number}")


def test_what_could_not_be_read_is_not_exported(library: Path, tmp_path: Path) -> None:
    archive = tmp_path / "library.zip"
    error = ParsingError("It is locked.", source="/home/ann/private/salary.pdf")
    with open_library(library, create=False) as original:
        original.set_unread([UnreadFile(FileState("/home/ann/private/salary.pdf", 1, 2, 3), error)])
    export_library(library, archive, "0")
    with zipfile.ZipFile(archive) as zip_file:
        catalogue = zip_file.read(CATALOGUE)
    assert b"salary" not in catalogue
    assert b"/a/tea.txt" in catalogue, "whole paths are, as the guide says"
    with open_library(library, create=False) as original:
        assert [source.state.path for source in original.unread()] == [
            "/home/ann/private/salary.pdf"
        ]
    bring(archive, tmp_path / "other")


def test_every_table_is_either_copied_or_left_behind_on_purpose() -> None:
    with sqlite3.connect(":memory:", isolation_level=None) as fresh:
        migrate(fresh, "fresh")
        tables = {
            row[0] for row in fresh.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        }
    fresh.close()
    left_behind = {"meta", "removals", "staged_documents", "staged_chunks", "unread"}
    left_behind |= {"answers", "answer_documents", "cells", "saved_tables"}
    assert set(writes.COPIED) | left_behind == tables


def test_an_export_of_an_older_version(library: Path, archive: Path, tmp_path: Path) -> None:
    def older(catalogue: sqlite3.Connection) -> None:
        make_older(catalogue, 1)

    bring(altered(archive, tmp_path / "old.zip", older), tmp_path / "there")
    assert answers(tmp_path / "there") == answers(library)


# Refused


def altered(
    archive: Path, to: Path, alter: Callable[[sqlite3.Connection], None], **claims: Any
) -> Path:
    """The archive with another catalogue in it, and a manifest that fits."""
    scratch = to.with_suffix(".sqlite")
    with zipfile.ZipFile(archive) as zip_file:
        manifest = json.loads(zip_file.read("manifest.json"))
        scratch.write_bytes(zip_file.read("catalogue.sqlite"))
    connection = sqlite3.connect(scratch, isolation_level=None)
    alter(connection)
    connection.close()
    return repacked(scratch.read_bytes(), manifest, to, **claims)


def repacked(catalogue: bytes, manifest: dict[str, Any], to: Path, **claims: Any) -> Path:
    import hashlib

    manifest |= {"bytes": len(catalogue), "sha256": hashlib.sha256(catalogue).hexdigest()} | claims
    with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED) as zip_file:
        zip_file.writestr("manifest.json", json.dumps(manifest))
        zip_file.writestr("catalogue.sqlite", catalogue)
    return to


def refused(archive: Path, directory: Path) -> str:
    with pytest.raises(LocalragError) as error:
        bring(archive, directory)
    assert not directory.exists()
    return str(error.value)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("CREATE TABLE more(x)", "its tables are not those"),
        ("CREATE TRIGGER t AFTER INSERT ON meta BEGIN DELETE FROM documents; END", "its tables"),
        ("CREATE VIEW v AS SELECT load_extension('x')", "its tables are not those"),
        ("CREATE INDEX i ON documents(title)", "its tables are not those"),
        ("DROP INDEX chunks_by_generation", "its tables are not those"),
        ("PRAGMA application_id = 7", "a database of another program"),
        ("PRAGMA user_version = 0", "its tables are not those"),
        ("PRAGMA user_version = 99", "has schema version 99"),
        ("PRAGMA journal_mode = WAL", "not in the form that an export has"),
        ("UPDATE blocks SET text = 'other'", "its stored text was altered after it was added"),
        ("DELETE FROM embeddings", "its stored passages or vectors"),
        ("UPDATE meta SET value = 'x' WHERE key = 'dimension'", "dimension"),
        ("UPDATE meta SET value = 7 WHERE key = 'dimension'", "its stored passages or vectors"),
        ("DELETE FROM meta", "has no valid value"),
        ("DELETE FROM documents WHERE number = 1", "refer to nothing"),
        ("DELETE FROM sources", "no longer belongs to any file"),
    ],
)
def test_a_catalogue_that_is_not_as_exported(
    archive: Path, tmp_path: Path, statement: str, said: str
) -> None:
    other = altered(
        archive, tmp_path / "x.zip", lambda database: database.execute(statement) and None
    )
    assert said in refused(other, tmp_path / "there")


@pytest.mark.parametrize(
    "statement",
    [
        'UPDATE chunks SET "end" = 1 << 40',
        'UPDATE chunks SET "start" = -1',
        "UPDATE chunks SET position = -position - 1",
        'UPDATE pages SET "end" = 1 << 40',
        "UPDATE documents SET metadata = '[1]'",
        "UPDATE documents SET metadata = '{'",
        "UPDATE documents SET title = x'00ff'",
        "UPDATE chunks SET heading = x'37'",
        "UPDATE sources SET size = 'large'",
        "UPDATE embeddings SET vector = zeroblob(length(vector) - 2) || x'007e'",
    ],
)
def test_values_that_no_document_has_though_the_checksums_fit(
    archive: Path, tmp_path: Path, statement: str
) -> None:
    from localrag.library.catalogue.checksums import store_checksums

    def alter(catalogue: sqlite3.Connection) -> None:
        catalogue.execute(statement)
        for (number,) in catalogue.execute("SELECT number FROM documents").fetchall():
            store_checksums(catalogue, number)

    message = refused(altered(archive, tmp_path / "x.zip", alter), tmp_path / "there")
    assert "is not an exported library, or is damaged" in message


def test_settings_in_it_are_not_taken_over(archive: Path, tmp_path: Path) -> None:
    def alter(catalogue: sqlite3.Connection) -> None:
        catalogue.execute("INSERT INTO meta VALUES ('allow_network', 1), ('staging', 'x')")

    bring(altered(archive, tmp_path / "x.zip", alter), tmp_path / "there")
    with sqlite3.connect(tmp_path / "there" / "catalogue.sqlite") as raw:
        keys = {row[0] for row in raw.execute("SELECT key FROM meta")}
    raw.close()
    assert not keys & {"allow_network", "staging"}


@pytest.mark.parametrize(
    "claims",
    [
        {"bytes": 7},
        {"sha256": "0" * 64},
        {"sha256": "x"},
        {"documents": 99},
        {"dimension": 63},
        {"embedding": "another"},
        {"chunks": -1},
        {"format": 0},
        {"localrag": "x" * 2000},
        {"created": None},
    ],
)
def test_a_manifest_that_does_not_fit(
    archive: Path, tmp_path: Path, claims: dict[str, Any]
) -> None:
    other = altered(archive, tmp_path / "x.zip", lambda _: None, **claims)
    refused(other, tmp_path / "there")


def test_a_newer_format_is_a_mismatch(archive: Path, tmp_path: Path) -> None:
    other = altered(archive, tmp_path / "x.zip", lambda _: None, format=4)
    with pytest.raises(LibraryMismatchError, match="format 4"):
        bring(other, tmp_path / "there")


@pytest.mark.parametrize(
    "name", ["../x", "config.toml", "kv/state", "vectors.faiss", "/etc/x", "catalogue.sqlite-wal"]
)
def test_other_files_in_the_archive(archive: Path, tmp_path: Path, name: str) -> None:
    with zipfile.ZipFile(archive, "a") as zip_file:
        zip_file.writestr(name, b"x")
    assert "contains files that do not belong" in refused(archive, tmp_path / "there")


def test_a_name_in_the_archive_that_is_no_text(tmp_path: Path) -> None:
    archive_copy = tmp_path / "named.zip"
    with zipfile.ZipFile(archive_copy, "w") as new:
        new.writestr("\u00e9.txt", "x")
    archive_copy.write_bytes(archive_copy.read_bytes().replace(b"\xc3\xa9", b"\x98\xa9"))
    with pytest.raises(LibraryDamagedError, match="is not an exported library"):
        bring(archive_copy, tmp_path / "there")
    assert not (tmp_path / "there").exists()


def test_a_bomb(archive: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(archive) as zip_file:
        manifest = json.loads(zip_file.read("manifest.json"))
    other = repacked(bytes(500 << 20), manifest, tmp_path / "x.zip")
    assert "packed in a way" in refused(other, tmp_path / "there")


def test_damage_anywhere_is_found_or_harmless(library: Path, archive: Path, tmp_path: Path) -> None:
    sound, place = archive.read_bytes(), tmp_path / "x.zip"
    expected = answers(library)
    for position in range(0, len(sound), len(sound) // 25):
        flipped = sound[:position] + bytes([sound[position] ^ 16]) + sound[position + 1 :]
        for damaged in (flipped, sound[:position]):
            place.write_bytes(damaged)
            try:
                bring(place, tmp_path / "there")
            except LocalragError:
                assert not (tmp_path / "there").exists()
            else:
                assert answers(tmp_path / "there") == expected
                shutil.rmtree(tmp_path / "there")


def test_a_library_with_documents_is_not_overwritten(library: Path, archive: Path) -> None:
    before = answers(library)
    with pytest.raises(LibraryError, match="already contains documents"):
        bring(archive, library)
    assert answers(library) == before
    assert not list(library.glob("*.part"))


def test_an_empty_library_may_be_filled(library: Path, archive: Path, tmp_path: Path) -> None:
    with open_library(tmp_path / "there"):
        pass
    bring(archive, tmp_path / "there")
    assert answers(tmp_path / "there") == answers(library)


def test_a_library_that_was_emptied_and_filled_is_followed_as_any(
    archive: Path, tmp_path: Path
) -> None:
    with open_library(tmp_path / "there") as copy:
        for number in range(20):
            add(copy, document(f"foxes sleep {number}", source=f"/c/{number}.txt"))
            copy.remove(sources=[f"/c/{number}.txt"])
    bring(archive, tmp_path / "there")
    words = Words()
    with open_library(tmp_path / "there", tokenize=words) as copy:
        add(copy, document("a new harbour", source="/c/new.txt"))
        assert found(copy, "harbour")[1]
    assert words.calls == 2  # only what is new is cut, with its card


def test_other_peoples_folders_are_left_alone(archive: Path, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "letter.txt").write_text("mine")
    with pytest.raises(LibraryError, match="contains other files"):
        bring(archive, tmp_path / "there")
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["letter.txt"]


def test_exports_overwrite_nothing(library: Path, archive: Path, tmp_path: Path) -> None:
    before = archive.read_bytes()
    with pytest.raises(UsageError, match="already"):
        export_library(library, archive, "0")
    assert archive.read_bytes() == before
    with pytest.raises(LibraryNotFoundError):
        export_library(tmp_path / "none", tmp_path / "y.zip", "0")
    with pytest.raises(UsageError, match=r"no folder .*no folder\."):
        export_library(library, tmp_path / "no folder" / "y.zip", "0")
    with pytest.raises(UsageError, match="no file"):
        bring(tmp_path / "y.zip", tmp_path / "there")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["library", "library.zip"]


class Cut(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("where", ["_extract", "catalogue_findings"])
def test_an_import_that_was_cut_off_is_completed_by_the_next(
    library: Path, archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    def cut(*_: Any, **__: Any) -> None:
        raise Cut

    monkeypatch.setattr(transfer, where, cut)
    monkeypatch.setattr(transfer, "unmake_folder", lambda *_, **__: None)  # nor does a kill
    with pytest.raises(Cut):
        bring(archive, tmp_path / "there")
    monkeypatch.undo()
    (tmp_path / "there" / "catalogue.sqlite.import.1.part").write_bytes(b"left by a kill")
    bring(archive, tmp_path / "there")
    assert answers(tmp_path / "there") == answers(library)
    assert not list((tmp_path / "there").glob("*.part"))


def test_too_little_space(archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(9, 9, 9))
    assert "are free" in refused(archive, tmp_path / "there")


def test_a_damaged_library_is_not_exported(library: Path, tmp_path: Path) -> None:
    path = library / "catalogue.sqlite"
    path.write_bytes(path.read_bytes()[: 4096 * 3])
    with pytest.raises(LibraryDamagedError):
        export_library(library, tmp_path / "x.zip", "0")
    assert not (tmp_path / "x.zip").exists()


def test_an_export_deletes_no_folder_of_somebody_else(library: Path, tmp_path: Path) -> None:
    letters = [tmp_path / "x.zip.part" / "letter.txt", tmp_path / ".x.zip.old" / "letter.txt"]
    for letter in letters:
        letter.parent.mkdir()
        letter.write_text("mine")
    export_library(library, tmp_path / "x.zip", "0")
    assert [letter.read_text() for letter in letters] == ["mine", "mine"]
    names = [".x.zip.old", "library", "x.zip", "x.zip.part"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names


KILLED_EXPORT = """
import os, sys
from pathlib import Path
from localrag.system import files
from localrag.library import transfer
files._scratch_place = lambda **_: Path(sys.argv[3])
pack = transfer._pack
transfer._pack = lambda *arguments: (pack(*arguments), os._exit(9))
transfer.export_library(Path(sys.argv[1]), Path(sys.argv[2]), "0")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only on Linux files have no name at first")
def test_a_killed_export_leaves_nothing(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, scratch = tmp_path / "out", tmp_path / "scratch"
    out.mkdir()
    scratch.mkdir()
    command = [sys.executable, "-c", KILLED_EXPORT, *map(str, (library, out / "x.zip", scratch))]
    assert subprocess.run(command, check=False).returncode == 9
    assert list(out.iterdir()) == []
    assert [path.name for path in scratch.rglob("catalogue.sqlite")] == ["catalogue.sqlite"]
    monkeypatch.setattr(files, "_scratch_place", lambda **_: scratch)
    export_library(library, out / "x.zip", "0")
    assert [path.name for path in out.iterdir()] == ["x.zip"]
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("links", [True, False])
def test_of_two_exports_to_one_name_the_first_stays(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    def unable(*_: Any, **__: Any) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    if not links:
        monkeypatch.setattr(os, "link", unable)
    export_library(library, tmp_path / "before.zip", "0")
    true, other = transfer._manifest, tmp_path / "x.zip"

    def meanwhile(*arguments: Any) -> Any:
        other.write_bytes(b"of the other export")
        return true(*arguments)

    monkeypatch.setattr(transfer, "_manifest", meanwhile)
    with pytest.raises(UsageError, match="already"):
        export_library(library, other, "0")
    assert other.read_bytes() == b"of the other export"
    names = ["before.zip", "library", "x.zip"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    bring(tmp_path / "before.zip", tmp_path / "there")
    assert answers(tmp_path / "there") == answers(library)


def test_a_failed_export_leaves_nothing(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(zipfile.ZipFile, "write", full)
    with pytest.raises(LibraryError, match=r"cannot be exported .*No space left"):
        export_library(library, tmp_path / "x.zip", "0")
    assert [path.name for path in tmp_path.iterdir()] == ["library"]


@pytest.mark.parametrize("where", ["more", "format"])
def test_a_manifest_that_is_nested_without_end(archive: Path, tmp_path: Path, where: str) -> None:
    with zipfile.ZipFile(archive) as zip_file:
        catalogue = zip_file.read("catalogue.sqlite")
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as zip_file:
        zip_file.writestr("manifest.json", f'{{"{where}": {"[" * 100_000}{"]" * 100_000}}}')
        zip_file.writestr("catalogue.sqlite", catalogue)
    assert "is not an exported library" in refused(tmp_path / "x.zip", tmp_path / "there")


# An import that fails takes away what it made, and nothing else


def failing(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], Any]) -> None:
    def full(*_: Any, **__: Any) -> None:
        meanwhile()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(transfer, "_extract", full)


def test_who_waits_to_write_keeps_the_library(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, waiting = tmp_path / "there", threading.Event()

    def write() -> None:
        with (
            open_library(target) as copy,
            copy.writing(timeout=60, on_wait=lambda _: waiting.set()),
        ):
            add(copy, document("written meanwhile", source="/m.txt"))

    other = threading.Thread(target=write)

    def meanwhile() -> None:
        other.start()
        assert waiting.wait(60)

    failing(monkeypatch, meanwhile)
    with pytest.raises(LibraryError, match="cannot continue"):
        bring(archive, target)
    other.join()
    with open_library(target, create=False) as emptied:
        assert [source.state.path for source in emptied.sources()] == ["/m.txt"]


def test_a_folder_that_was_there_stays(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "there").mkdir()
    failing(monkeypatch, lambda: None)
    with pytest.raises(LibraryError, match="cannot continue"):
        bring(archive, tmp_path / "there")
    assert list((tmp_path / "there").iterdir()) == []


def test_files_that_came_meanwhile_stay(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    letter = tmp_path / "there" / "letter.txt"
    failing(monkeypatch, lambda: letter.write_text("mine"))
    with pytest.raises(LibraryError, match="cannot continue"):
        bring(archive, tmp_path / "there")
    assert list((tmp_path / "there").iterdir()) == [letter]


def test_what_is_complete_stays_though_its_indexes_fail(
    library: Path, archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as disk:
        disk.setattr(transfer.Library, "sync", full)
        with pytest.raises(LibraryError, match="cannot continue"):
            bring(archive, tmp_path / "there")
    assert answers(tmp_path / "there") == answers(library)


# From where nothing can be written


@pytest.fixture
def protected(library: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with write_protected(library, monkeypatch) as directory:
        yield directory


def state(directory: Path) -> dict[Path, tuple[int, bytes]]:
    return {
        path: (path.stat().st_mtime_ns, path.read_bytes())
        for path in directory.rglob("*")
        if path.is_file()
    }


def test_a_library_that_can_only_be_read_travels(protected: Path, tmp_path: Path) -> None:
    before = state(protected)
    export_library(protected, tmp_path / "x.zip", "0")
    assert state(protected) == before
    bring(tmp_path / "x.zip", tmp_path / "there")
    assert answers(tmp_path / "there") == answers(protected)


def test_a_library_of_an_older_version_is_exported_and_left_alone(
    library: Path, tmp_path: Path
) -> None:
    with sqlite3.connect(library / "catalogue.sqlite") as raw:
        make_older(raw, 1)
    raw.close()
    export_library(library, tmp_path / "x.zip", "0")
    with sqlite3.connect(library / "catalogue.sqlite") as raw:
        assert raw.execute("PRAGMA user_version").fetchone() == (1,)
    raw.close()
    bring(tmp_path / "x.zip", tmp_path / "there")
    assert answers(tmp_path / "there") == answers(library)


EXPORT = """
import os, sys
from pathlib import Path
from localrag.library.transfer import export_library
assert not os.access(sys.argv[1], os.W_OK), "this medium can be written"
print(export_library(Path(sys.argv[1]), Path(sys.argv[2]), "0").documents)
"""


def test_from_a_medium_that_is_mounted_read_only(library: Path, tmp_path: Path) -> None:
    place = tmp_path / "medium"
    result = on_read_only_medium(
        library, place, sys.executable, "-c", EXPORT, f"{place}/library", f"{tmp_path}/x.zip"
    )
    assert (result.returncode, result.stdout.strip()) == (0, "3"), result.stderr
    bring(tmp_path / "x.zip", tmp_path / "there")
    assert answers(tmp_path / "there") == answers(library)
