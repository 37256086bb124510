"""What a question or one change costs does not grow with the library: no table is read whole."""

from __future__ import annotations

import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from library.library_fixtures import EMBEDDER, open_library
from scripted_llm import ScriptedLLM
from test_ask_options import Helpful

from localrag import factory
from localrag.api import LocalRAG
from localrag.cli.group import cli
from localrag.config.settings import Settings
from localrag.documents.chunking import WindowChunker
from localrag.documents.files import parse_file
from localrag.engine import AskOptions, Engine
from localrag.indexing.indexer import Indexer
from localrag.library import derived
from localrag.library.catalogue.guarded import GuardedConnection
from localrag.library.library import Library

SMALL = {
    "sqlite_master": "as many rows as the schema has",
    "meta": "as many as there are settings",
    "unread": "what `add` has to say of files that could not be read",
    "d": "the documents of kept answers",
    "answers": "kept answers",
    "saved_tables": "tables that somebody has saved",
    "later": "kept answers",
    "removals": "what was removed since the last purge",
    "json_each": "what the caller has named",
    "asked": "what the caller has named",
}
WHOLE = re.compile(r"VACUUM$|VACUUM INTO|REINDEX|integrity_check|quick_check|foreign_key_check")


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Every statement from now on, with values that it had."""
    statements: dict[str, Any] = {}
    execute, executemany = GuardedConnection.execute, GuardedConnection.executemany

    def execute_guarded(
        connection: GuardedConnection, sql: str, values: Any = (), /
    ) -> sqlite3.Cursor:
        statements[sql] = values
        return execute(connection, sql, values)

    def many(connection: GuardedConnection, sql: str, values: Any, /) -> sqlite3.Cursor:
        rows = list(values)
        if rows:
            statements[sql] = rows[0]
        return executemany(connection, sql, rows)

    monkeypatch.setattr(GuardedConnection, "execute", execute_guarded)
    monkeypatch.setattr(GuardedConnection, "executemany", many)
    return statements


def scans(path: Path, statements: dict[str, Any]) -> list[tuple[str, str]]:
    """Statements that read a table or an index from one end to the other, and which."""
    faults = []
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA foreign_keys = ON")
        for sql, values in statements.items():
            if not re.match(r"SELECT|WITH|INSERT|UPDATE|DELETE", sql):
                if WHOLE.search(sql):
                    faults.append((sql, "all"))
                continue
            for *_, step in connection.execute(f"EXPLAIN QUERY PLAN {sql}", values):
                scan = re.match(r"SCAN (?!(?:\d+ )?CONSTANT ROW)(\w+)\b(?! VIRTUAL)", step)
                if scan and scan[1] not in SMALL and not ended(sql, scan[1]):
                    faults.append((sql, step))
    return faults


def ended(sql: str, table: str) -> bool:
    """Whether it stops at the first row, or at one end of the table."""
    return f"SELECT 1 FROM {table} LIMIT" in sql or "max(number)" in sql


def library_of(tmp_path: Path) -> Library:
    identity = factory.identity_of(EMBEDDER, Settings())
    return open_library(
        tmp_path / "library", tokenize=factory.make_tokenizer(Settings()), embedding=identity
    )


def indexer(library: Library) -> Indexer:
    return Indexer(
        library,
        chunker=WindowChunker(40, 0),
        chunking="window 40",
        embedder=EMBEDDER,
        embedding=factory.identity_of(EMBEDDER, Settings()),
        detect_language=lambda _: "en",
        parse=parse_file,
    )


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    for number in range(20):
        file = folder / f"{number}.txt"
        file.write_text(f"the glass house {number} was opened in {1900 + number}")
        os.utime(file, (1, 1))
    with library_of(tmp_path) as library:
        indexer(library).add([folder])
    return folder


def test_questions(
    tmp_path: Path, files: Path, said: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    llm: ScriptedLLM = Helpful()
    monkeypatch.setattr(factory, "make_model", lambda *_: factory.Model(llm, llm, lambda: None))
    # As of a library that grows: the vectors of a small one are read whole, once, up to so much.
    monkeypatch.setattr(derived, "SMALL", 0)
    engine = Engine(library_of(tmp_path), Settings(), embedder=EMBEDDER)
    for mode in ("standard", "self-rag"):
        list(engine.stream("When was glass house 7 opened?", AskOptions(mode=mode)))
    engine.close()
    assert any("JOIN blocks" in sql for sql in said)
    assert scans(tmp_path / "library" / "catalogue.sqlite", said) == []


@pytest.mark.parametrize("what", ["add", "change", "remove", "nothing"])
def test_one_change(tmp_path: Path, files: Path, said: dict[str, Any], what: str) -> None:
    file = files / "7.txt"
    with library_of(tmp_path) as library:
        if what == "add":
            file = files / "new.txt"
        if what in ("add", "change"):
            file.write_text("a greenhouse")
        if what == "remove":
            assert library.remove(sources=[str(file)]).purged
        else:
            report = indexer(library).add([file])
            assert not report.failed
            assert bool(report.committed) == (what != "nothing")
    with library_of(tmp_path) as library:
        library.vectors.current()
        library.keywords.current()
    assert any("FROM sources" in sql for sql in said)
    assert scans(tmp_path / "library" / "catalogue.sqlite", said) == []


def test_what_commands_ask_beside(tmp_path: Path, files: Path, said: dict[str, Any]) -> None:
    with LocalRAG(Engine(library_of(tmp_path), Settings(), embedder=EMBEDDER)) as rag:
        rag.embedding_advice()
        assert rag.remove([files / "7.txt"]).purged
    assert any("FROM sources" in sql for sql in said)
    assert scans(tmp_path / "library" / "catalogue.sqlite", said) == []


@pytest.mark.parametrize("what", ["add", "remove"])
def test_one_change_by_a_command(
    tmp_path: Path, files: Path, said: dict[str, Any], monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """What a command says of the library around it, too."""
    monkeypatch.setattr(factory, "make_embedder", lambda *_: EMBEDDER)
    file = files / "7.txt"
    if what == "add":
        file.write_text("a greenhouse")
    command = [what, str(file), "--library", str(tmp_path / "library")]
    result = CliRunner().invoke(cli, command, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert any("FROM sources" in sql for sql in said)
    assert scans(tmp_path / "library" / "catalogue.sqlite", said) == []


def test_what_goes_with_a_document_is_found_by_an_index(tmp_path: Path, files: Path) -> None:
    """SQLite looks for it in the whole table otherwise, which no plan shows."""
    with closing(sqlite3.connect(tmp_path / "library" / "catalogue.sqlite")) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        for (table,) in tables.fetchall():
            for _, _, _, column, *_ in connection.execute(f"PRAGMA foreign_key_list({table})"):
                steps = connection.execute(
                    f"EXPLAIN QUERY PLAN SELECT 1 FROM {table} WHERE {column} = 1"
                ).fetchall()
                assert all(step.startswith("SEARCH") for *_, step in steps), (table, column)
