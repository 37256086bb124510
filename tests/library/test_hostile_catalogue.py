"""Catalogues that somebody else may have written anything into."""

from __future__ import annotations

import io
import os
import shutil
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from library_fixtures import add, bytes_on_disk, document, found, indexes, open_library

from localrag.errors import LibraryDamagedError, LibraryError, LibraryMismatchError, LocalragError
from localrag.library.catalogue import guarded
from localrag.library.catalogue.catalogue import SqliteCatalogue
from localrag.library.catalogue.filters import Filter
from localrag.library.catalogue.guarded import connect, read_header
from localrag.library.catalogue.migrations import MIGRATIONS
from localrag.library.check import Inspection, check_library
from localrag.library.transfer import export_library
from localrag.presentation.check import finding_text

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))
try:
    from fuzz_catalogue import SCHEMAS, SETTINGS, VALUES, make_deleting, make_endless
finally:
    sys.path.remove(str(SCRIPTS))

TABLES = ("documents", "sources", "blocks", "pages", "headings", "chunks", "embeddings")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    directory = tmp_path / "library"
    with open_library(directory) as library:
        add(library, document("the old harbour", "a second page", source="a.txt"))
        add(library, document("港口 很 古老", source="b.txt"), language="zh")
        library.sync()
    return directory


@contextmanager
def sql(directory: Path) -> Iterator[sqlite3.Connection]:
    path = directory / "catalogue.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


def check(directory: Path) -> Inspection:
    return check_library(directory, indexes())


def use(directory: Path) -> None:
    """All that reads rows: status, search, documents, and what a removal asks."""
    with open_library(directory, create=False, embedding=None) as library:
        library.status()
        found(library, "harbour")
        for record in library.documents():
            library.document(record.id)
            library.document_chunks(record.id)
            library.place(record.id, record.length)
            library.rectangles(record.id, 0, record.length)
            library.document_vectors(record.id)
        library.sources()
        library.problems()


def whole(directory: Path) -> dict[str, bytes]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


# The schema


@pytest.mark.parametrize("script", SCHEMAS)
def test_another_schema_than_ours_is_not_opened(folder: Path, script: str) -> None:
    with sql(folder) as connection:
        connection.executescript(script)
    before = (folder / "catalogue.sqlite").read_bytes()
    with pytest.raises(LibraryDamagedError):
        use(folder)
    with pytest.raises(LibraryDamagedError):
        export_library(folder, folder.with_name("export"), "0")
    inspection = check(folder)
    assert not inspection.ok
    assert inspection.findings[0].part == "catalogue"
    assert (folder / "catalogue.sqlite").read_bytes() == before


def test_what_it_says_of_another_schema(folder: Path) -> None:
    with sql(folder) as connection:
        connection.execute("CREATE TRIGGER t DELETE ON blocks BEGIN SELECT 1; END")
    with pytest.raises(LibraryDamagedError, match="not as localrag creates it") as error:
        use(folder)
    assert "localrag import" in error.value.hint


def test_a_trigger_that_comes_while_the_library_is_open(folder: Path) -> None:
    with open_library(folder) as library:
        library.counts()
        with sql(folder) as connection:
            connection.execute("CREATE TRIGGER t DELETE ON blocks BEGIN SELECT RAISE(IGNORE); END")
        with pytest.raises(LibraryDamagedError, match="tables are not those"):
            library.counts()
        with pytest.raises(LibraryDamagedError, match="tables are not those"):
            library.remove(sources=["a.txt"])


def test_a_trigger_that_only_the_log_brings(folder: Path, tmp_path: Path) -> None:
    path, elsewhere = folder / "catalogue.sqlite", tmp_path / "elsewhere"
    shutil.copy(path, elsewhere)
    with closing(sqlite3.connect(elsewhere, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TRIGGER t DELETE ON blocks BEGIN SELECT RAISE(IGNORE); END")
        shutil.copy(tmp_path / "elsewhere-wal", folder / "catalogue.sqlite-wal")
    assert b"TRIGGER" not in path.read_bytes()
    assert not check(folder).ok
    with pytest.raises(LibraryDamagedError, match="tables are not those"):
        use(folder)


def test_an_ordinary_change_by_another_process_is_no_other_schema(folder: Path) -> None:
    with open_library(folder) as reader, open_library(folder) as writer:
        reader.counts()
        add(writer, document("a third one", source="c.txt"))
        writer.remove(sources=["a.txt"])  # VACUUM counts as a change of the schema
        assert reader.counts().documents == 2


# Pages and journals


@pytest.mark.parametrize("table", ["documents", "blocks", "chunks", "embeddings", "removals"])
def test_tables_that_give_their_rows_for_ever(folder: Path, table: str) -> None:
    with open_library(folder) as library:
        add(library, document("to be removed", source="c.txt"))
    with sql(folder) as connection:
        connection.execute("INSERT INTO removals VALUES (1, 0)")
    make_endless(folder / "catalogue.sqlite", table)
    start = time.thread_time()
    assert not check(folder).ok
    with suppress(LocalragError):
        use(folder)
    with suppress(LocalragError), open_library(folder) as library:
        assert not library.remove(sources=["c.txt"]).purged
    with pytest.raises(LocalragError):
        export_library(folder, folder.with_name("export"), "0")
    assert time.thread_time() - start < 60  # it would never end


def test_a_journal_that_has_sqlite_delete_other_files(folder: Path, tmp_path: Path) -> None:
    victim = tmp_path / "letter.txt"
    victim.write_text("precious", encoding="utf-8")
    make_deleting(folder / "catalogue.sqlite", victim)
    with pytest.raises(LibraryError):
        use(folder)
    with pytest.raises(LibraryError):
        export_library(folder, tmp_path / "export", "0")
    with suppress(LibraryError):
        assert not check(folder).ok
    assert victim.read_text(encoding="utf-8") == "precious"


def test_a_journal_of_our_own_is_played_back(folder: Path) -> None:
    path = folder / "catalogue.sqlite"
    with sql(folder) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    with sql(folder) as connection:
        connection.execute("PRAGMA cache_size = 1")
        connection.execute("BEGIN")
        connection.execute("UPDATE blocks SET text = hex(zeroblob(20000))")
        torn, journal = path.read_bytes(), path.with_name(f"{path.name}-journal").read_bytes()
        connection.execute("ROLLBACK")
    path.write_bytes(torn)
    path.with_name(f"{path.name}-journal").write_bytes(journal)
    use(folder)
    assert check(folder).ok


def test_limits_of_every_connection(tmp_path: Path) -> None:
    with closing(connect(tmp_path / "a")) as connection:
        for pragma, expected in {"trusted_schema": 0, "cell_size_check": 1}.items():
            assert connection.execute(f"PRAGMA {pragma}").fetchone() == (expected,)
        with pytest.raises(sqlite3.OperationalError, match="too many attached"):
            connection.execute("ATTACH ':memory:' AS other")
        with pytest.raises(sqlite3.OperationalError, match="interrupted"):
            connection.execute(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
                "SELECT count(*) FROM n"
            ).fetchone()
        with pytest.raises(sqlite3.DataError, match="too big"):
            connection.execute("SELECT zeroblob(300000000)")


def test_no_statement_on_a_sound_library_comes_near_the_limit(tmp_path: Path) -> None:
    """Small rows take the most steps a byte: documents of one word, all of them removed."""
    with open_library(tmp_path) as library:
        for number in range(200):
            add(library, document(f"w{number}", source=f"{number}.txt"))
    size = (tmp_path / "catalogue.sqlite").stat().st_size
    most = 0
    with closing(connect(tmp_path / "catalogue.sqlite")) as connection:
        for statement in (
            "PRAGMA integrity_check",
            "PRAGMA foreign_key_check",
            "REINDEX",
            "INSERT INTO removals SELECT id, 1 FROM chunks",
            "DELETE FROM documents",
        ):
            steps = 0

            def count() -> int:
                nonlocal steps
                steps += 1
                return 0

            connection.execute("PRAGMA foreign_keys = ON")
            connection.set_progress_handler(count, 1)
            connection.execute(statement).fetchall()
            most = max(most, steps)
    assert most < size


# Values


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("value", VALUES[::4])
def test_values_that_cannot_have_been_stored(folder: Path, table: str, value: str) -> None:
    with sql(folder) as connection:
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    sound = whole(folder)
    for column in columns:
        with sql(folder) as connection, suppress(sqlite3.IntegrityError):
            connection.execute(f'UPDATE OR IGNORE {table} SET "{column}" = {value}')
        with suppress(LocalragError):
            use(folder)
        with suppress(LocalragError):
            check(folder)
        for path in folder.glob("catalogue.sqlite*"):
            path.unlink()
        (folder / "catalogue.sqlite").write_bytes(sound["catalogue.sqlite"])


@pytest.mark.parametrize("value", ["'x'", "x'ff'", "0.5"])
def test_ids_that_cannot_have_been_stored(folder: Path, value: str) -> None:
    with sql(folder) as connection:
        connection.execute(f"UPDATE chunks SET id = {value} WHERE number = 1")
    with open_library(folder, create=False, embedding=None) as library:
        for use_of_ids in (
            lambda: library.chunk_ids(Filter(types=("text",))),
            lambda: library.remove(sources=["a.txt"]),
            lambda: library.spread_chunks(5),
        ):
            with pytest.raises(LibraryDamagedError, match="cannot have stored") as error:
                use_of_ids()
            assert "localrag check" in error.value.hint
    assert "values" in [finding.code for finding in check(folder).findings]


@pytest.mark.parametrize(("table", "reference"), [("documents", "document"), ("chunks", "chunk")])
def test_numbers_after_which_none_follows(folder: Path, table: str, reference: str) -> None:
    with sql(folder) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        for (name,) in tables.fetchall():
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({name})")]
            column = "number" if name == table else reference
            if column in columns and name != "removals":
                connection.execute(f"UPDATE {name} SET {column} = {2**63 - 1} WHERE {column} = 1")
    with open_library(folder, create=False) as library:
        with pytest.raises(LibraryDamagedError, match="9223372036854775807") as error:
            add(library, document("a third one", source="c.txt"))
        assert "localrag check" in error.value.hint
    assert "values" in [finding.code for finding in check(folder).findings]


@pytest.mark.parametrize("script", SETTINGS)
def test_settings_that_say_something_else(folder: Path, script: str) -> None:
    with sql(folder) as connection:
        connection.executescript(script)
    with suppress(LocalragError):
        use(folder)
    with suppress(LocalragError):
        check(folder)


def test_check_names_values_settings_and_vectors(folder: Path) -> None:
    for statement, code in {
        "UPDATE removals SET chunk = 'x'": "values",
        "UPDATE documents SET size = 0.5 WHERE number = 1": "values",
        "UPDATE embeddings SET vector = CAST(x'007c' || substr(vector, 3) AS BLOB)": "values",
        "INSERT INTO meta VALUES ('allow_network', 1)": "foreign",
        "UPDATE meta SET value = 0.5 WHERE key = 'generation'": "settings",
    }.items():
        copy = folder.with_name(code)
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder, copy)
        with sql(copy) as connection:
            connection.execute("INSERT INTO removals VALUES (1, 0)")
            connection.execute(statement)
        inspection = check(copy)
        assert not inspection.ok, statement
        assert code in [finding.code for finding in inspection.findings], statement


def test_text_kept_where_none_belongs_is_named(folder: Path) -> None:
    """What was removed may have been copied to a place where nothing else is looked for."""
    with sql(folder) as connection:
        connection.execute("INSERT INTO removals SELECT text, 0 FROM blocks")
        connection.execute("INSERT INTO meta SELECT 'kept', text FROM blocks LIMIT 1")
    assert not check(folder).ok
    with open_library(folder, create=False, embedding=None) as library:
        library.remove(sources=["a.txt", "b.txt"])
    if b"harbour" in bytes_on_disk(folder):
        assert not check(folder).ok


# Versions


def test_a_newer_library_stays_as_it_is(folder: Path) -> None:
    with sql(folder) as connection:
        connection.execute("CREATE TABLE newer(a)")
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    before = whole(folder)
    with pytest.raises(LibraryMismatchError, match=f"schema version {len(MIGRATIONS) + 1}"):
        use(folder)
    with pytest.raises(LibraryMismatchError):
        check(folder)
    with pytest.raises(LibraryMismatchError):
        export_library(folder, folder.with_name("export"), "0")
    assert whole(folder) == before


def test_a_newer_library_of_which_only_the_log_says_so(folder: Path, tmp_path: Path) -> None:
    """A newer localrag was killed right after it had upgraded the library."""
    path, elsewhere = folder / "catalogue.sqlite", tmp_path / "elsewhere"
    shutil.copy(path, elsewhere)
    with closing(sqlite3.connect(elsewhere, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA user_version = 99")
        shutil.copy(tmp_path / "elsewhere-wal", folder / "catalogue.sqlite-wal")
    header = read_header(path)
    assert header is not None
    assert header[0] == 99
    before = whole(folder)
    with pytest.raises(LibraryMismatchError, match="schema version 99"):
        use(folder)
    assert whole(folder) == before


def test_a_database_of_another_program_stays_as_it_is(tmp_path: Path) -> None:
    with sql(tmp_path) as connection:
        connection.execute("CREATE TABLE theirs(a)")
    before = whole(tmp_path)
    with pytest.raises(LibraryDamagedError, match="another program"):
        use(tmp_path)
    assert whole(tmp_path) == before


def test_each_reader_has_its_schema_compared(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[object] = []
    catalogue = SqliteCatalogue(folder / "catalogue.sqlite")
    assert not catalogue.needs_migration()
    monkeypatch.setattr(
        "localrag.library.catalogue.catalogue.is_current", lambda sql, _: compared.append(sql)
    )
    for _ in range(3):
        with catalogue.read() as snapshot:
            snapshot.counts()
    catalogue.close()
    assert compared == []  # nothing has changed since it was opened


def test_a_log_is_read_up_to_its_first_empty_frame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "library"
    with open_library(directory) as library:
        add(library, document("green tea"))
    log = directory / "catalogue.sqlite-wal"
    start = (0x377F0682).to_bytes(4, "big") + (3007000).to_bytes(4, "big")
    log.write_bytes(start + (512).to_bytes(4, "big") + bytes(20))
    os.truncate(log, 1 << 25)  # frames of zeros, whose salt is that of the log
    reads = 0

    class Counted(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            nonlocal reads
            reads += 1
            return super().read(size)

    monkeypatch.setattr(guarded, "open_plain", lambda path: Counted(path.read_bytes()))
    assert read_header(directory / "catalogue.sqlite") is not None
    assert reads < 10


@pytest.mark.skipif(os.name == "nt", reason="not told there")
@pytest.mark.parametrize("name", ["catalogue.sqlite", "catalogue.sqlite-wal"])
def test_a_file_of_holes_makes_no_room_for_endless_statements(folder: Path, name: str) -> None:
    with sql(folder) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    path = folder / name
    path.touch()
    os.truncate(path, 1 << 36)
    assert "nearly empty" in " ".join(finding_text(finding) for finding in check(folder).findings)
    with pytest.raises(LocalragError, match="nearly empty"):
        use(folder)
