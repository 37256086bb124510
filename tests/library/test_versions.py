"""Libraries of every released version open, and are upgraded with their vectors kept.

The fixtures were made by the code of their time: `schema-1.zip` before checksums were kept,
`schema-2.zip` by localrag 0.1.0, `schema-3.zip` before it was kept how pages were read,
`schema-4.zip` before chunks were numbered, `schema-5.zip` before kept answers were somebody's,
`schema-6.zip` before cells of tables were kept and `schema-7.zip` before tables were saved (each
opened from the one before). All hold a document in English and one in Chinese, and were made with a
third that was removed.
"""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
import zipfile
from contextlib import closing
from pathlib import Path

import pytest
from fakes import HashEmbedder
from library_fixtures import (
    EMBEDDING,
    bytes_on_disk,
    found,
    indexes,
    open_library,
    write_protected,
)

from localrag.documents.chunking import WindowChunker
from localrag.documents.files import parse_file
from localrag.errors import LibraryError
from localrag.indexing.indexer import Indexer
from localrag.library.catalogue import migrations
from localrag.library.catalogue.guarded import read_header
from localrag.library.catalogue.migrations import MIGRATIONS, is_current
from localrag.library.check import check_library
from localrag.library.library import Library
from localrag.library.records import FileState
from localrag.library.transfer import export_library, import_library

FIXTURES = Path(__file__).with_name("fixtures")
ANSWERS = {
    "the harbour of Greyholm": "the harbour of Greyholm is old",
    "灯塔 建于 1874": "港口 很 古老 。 灯塔 建于 1874 年 。",
}
"""What the best passage by vectors begins with."""


def best(library: Library, question: str) -> str:
    dense, _ = found(library, question)
    return library.chunks([dense[0][0]])[dense[0][0]].text


@pytest.fixture(params=sorted(path.name for path in FIXTURES.glob("schema-*.zip")))
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    with zipfile.ZipFile(FIXTURES / request.param) as archive:
        archive.extractall(tmp_path / "library")
    return tmp_path / "library"


def rows(directory: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(directory / "catalogue.sqlite")) as connection:
        return connection.execute(query).fetchall()


def vectors(directory: Path) -> list[tuple[object, ...]]:
    """The vector of each chunk, by the chunk's id, which was its number once."""
    key = "number" if int(str(version(directory))) >= 5 else "id"
    query = f"SELECT c.id, e.vector FROM chunks c JOIN embeddings e ON e.chunk = c.{key} ORDER BY 1"
    return rows(directory, query)


def version(directory: Path) -> object:
    return rows(directory, "PRAGMA user_version")[0][0]


def test_there_is_a_library_of_every_version() -> None:
    names = {path.name for path in FIXTURES.glob("schema-*.zip")}
    assert {f"schema-{number}.zip" for number in range(1, len(MIGRATIONS))} <= names


def test_an_old_library_that_can_only_be_read_answers_too(
    old: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    was = bytes_on_disk(old)
    with (
        write_protected(old, monkeypatch),
        open_library(old, create=False, embedding=None) as library,
    ):
        assert library.status().schema == len(MIGRATIONS)
        for question, text in ANSWERS.items():
            assert best(library, question).startswith(text)
        with pytest.raises(LibraryError, match="is read-only"):
            library.remove(sources=["harbour.txt"])
    assert bytes_on_disk(old) == was
    scratch = tmp_path / "cache" / "localrag" / "scratch"
    assert not scratch.exists() or list(scratch.iterdir()) == []


def test_an_old_library_is_upgraded_and_answers(old: Path) -> None:
    queries = [
        "SELECT * FROM blocks",
        'SELECT id, document, position, heading, "start", "end" FROM chunks ORDER BY id',
    ]
    before = [rows(old, query) for query in queries], vectors(old)
    assert all(before)
    with open_library(old, create=False, embedding=None) as library:
        assert library.status().schema == len(MIGRATIONS)
        for question, text in ANSWERS.items():
            assert best(library, question).startswith(text)
        titles = [record.title for record in library.documents()]
    assert titles == ["harbour.txt", "港口.txt"]
    assert ([rows(old, query) for query in queries], vectors(old)) == before
    inspection = check_library(old, indexes())
    assert inspection.ok
    with open_library(old, create=False, embedding=None) as library:
        library.remove(sources=["/a/harbour.txt"])
        assert library.counts().documents == 1


def test_a_rebuild_reads_the_documents_of_an_old_library_again(old: Path, tmp_path: Path) -> None:
    with open_library(old, create=False, embedding=None) as library:
        assert library.status().outdated == 2
        harbour, other = library.documents()
        pages = [page.text for page in library.document(harbour.id).pages]  # type: ignore[union-attr]
        file = tmp_path / "harbour.txt"
        file.write_bytes("\f".join(pages).encode())
        library.set_sources([(FileState(str(file), 87, 1, 2), harbour.id)])
        vectors = library.document_vectors(harbour.id)
        embedder = HashEmbedder()
        report = Indexer(
            library,
            chunker=WindowChunker(40, 0),
            chunking="window 40",
            embedder=embedder,
            embedding=EMBEDDING,
            detect_language=lambda _: "en",
            parse=parse_file,
        ).rebuild()
        assert [entry.document_id for entry in report.read_again] == [harbour.id]
        assert report.kept == other.sources
        vectors_read = library.document_vectors(harbour.id)
        assert vectors.keys() == vectors_read.keys()
        # The passages say what they said, under the title that the file is given now.
        texts = [text for call in embedder.calls for text in call]
        assert {text.partition("\n")[0] for text in texts} == {"harbour"}
        assert len(texts) == len(vectors_read)
        assert library.status().outdated == 1
        for question, text in ANSWERS.items():
            assert best(library, question).startswith(text)
    assert check_library(old, indexes()).ok


def test_an_old_library_is_checked_exported_and_imported(old: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(old, copy)
    assert check_library(copy, indexes()).ok
    before = version(old)
    export_library(old, tmp_path / "export", "0")
    assert version(old) == before  # nothing is written in what is exported
    import_library(tmp_path / "export", tmp_path / "there", indexes=indexes())
    assert vectors(tmp_path / "there") == vectors(old)


DIES = """
import os, sys
from pathlib import Path
from localrag.library.catalogue import migrations
from localrag.library.catalogue.catalogue import SqliteCatalogue

def last(connection):
    connection.execute("CREATE TABLE later(a)")
    os._exit(9)

migrations.MIGRATIONS = (*migrations.MIGRATIONS, last)
catalogue = SqliteCatalogue(Path(sys.argv[1]) / "catalogue.sqlite")
assert catalogue.needs_migration()
catalogue.migrate()
"""


def test_an_upgrade_that_is_killed_leaves_the_old_library(old: Path) -> None:
    before = version(old)
    result = subprocess.run([sys.executable, "-c", DIES, str(old)], check=False)
    assert result.returncode == 9
    assert version(old) == before  # none of the steps, though all but the last had ended
    assert rows(old, "SELECT * FROM sqlite_master WHERE name = 'later'") == []
    with open_library(old, create=False, embedding=None) as library:
        assert all(best(library, question).startswith(text) for question, text in ANSWERS.items())
    assert version(old) == len(MIGRATIONS)


def test_the_schema_of_a_new_step_is_known_from_the_step(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def step(connection: sqlite3.Connection) -> None:
        connection.execute("ALTER TABLE sources ADD COLUMN target TEXT NOT NULL DEFAULT ''")

    monkeypatch.setattr(migrations, "MIGRATIONS", (*MIGRATIONS, step))
    with open_library(old, create=False, embedding=None) as library:
        assert library.status().schema == len(MIGRATIONS) + 1
    with closing(sqlite3.connect(old / "catalogue.sqlite")) as connection:
        assert is_current(connection, old)


@pytest.mark.parametrize("written", [0, 10, 99])
def test_a_log_that_was_cut_off_in_its_first_page_opens(tmp_path: Path, written: int) -> None:
    directory = tmp_path / "library"
    open_library(directory).close()
    header = bytes.fromhex("377f0682002de218") + (4096).to_bytes(4, "big") + bytes(4) + b"saltsalt"
    frame = (1).to_bytes(4, "big") + (1).to_bytes(4, "big") + b"saltsalt" + bytes(8)
    log = directory / "catalogue.sqlite-wal"
    log.write_bytes(header + bytes(8) + frame + b"x" * written)
    assert read_header(directory / "catalogue.sqlite") is not None
    with open_library(directory, create=False) as library:
        assert library.counts().documents == 0
