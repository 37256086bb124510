"""Small documents and a library to put them in, for the tests of stores and indexing."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import pytest
from fakes import HashEmbedder

from localrag.documents.chunking import WindowChunker, passage_text
from localrag.factory import indexes_of
from localrag.library.catalogue.migrations import MIGRATIONS
from localrag.library.derived import Indexes
from localrag.library.indexes.base import Storage
from localrag.library.indexes.comparison import WithVectors
from localrag.library.indexes.faiss import FaissVectors
from localrag.library.library import Library
from localrag.library.location import Location
from localrag.library.records import EmbeddingIdentity, FileState, NewDocument
from localrag.system.seals import own_seal
from localrag.types import Document, Hit, Page


class SearchedVectors(FaissVectors):
    """With the vectors beside it, as a catalogue has them: the last that was given for an id."""

    known: ClassVar[dict[int, Any]] = {}

    def apply(self, removed: Any, added: Any, stamp: Any, at: Any = None) -> None:
        super().apply(removed, map(self._noted, added), stamp, at)

    def search(self, query: Any, k: int, allowed: Any = None) -> list[Hit]:
        return WithVectors(self, self._held).search(query, k, allowed)

    def _noted(self, entry: tuple[int, Any]) -> tuple[int, Any]:
        self.known[entry[0]] = entry[1]
        return entry

    def _held(self, ids: Any) -> Any:
        return np.array([self.known[number] for number in ids.tolist()], dtype=np.float16)


class Where(Protocol):
    """Gives a library its place, in a folder or in a database; the same for the same name."""

    def __call__(self, name: str = "one", /) -> Location: ...


class Words:
    """Splits at white space, counting what it cut."""

    def __init__(self, fingerprint: str = "words") -> None:
        self.fingerprint = fingerprint
        self.calls = 0

    def __call__(self, text: str) -> list[str]:
        self.calls += 1
        return text.lower().split()


EMBEDDER = HashEmbedder()
EMBEDDING = EmbeddingIdentity(EMBEDDER.fingerprint, "hash", EMBEDDER.dimension)


def indexes(tokenize: Any = None, engine: Any = "inverted-index") -> Indexes:
    return indexes_of(tokenize or Words(), engine)


def storage(path: Path) -> Storage:
    """A place for an index, with this user's seal."""
    return Storage(path, own_seal())


def open_library(
    directory: Location,
    *,
    tokenize: Any = None,
    keyword_engine: str = "inverted-index",
    **changes: Any,
) -> Library:
    arguments: dict[str, Any] = {
        "create": True,
        "embedding": EMBEDDING,
        "indexes": indexes(tokenize, keyword_engine),
    }
    return Library.open(directory, **(arguments | changes))


def document(text: str, *more_pages: str, source: str = "a.txt") -> Document:
    pages = (text, *more_pages)
    digest = hashlib.sha256("\f".join(pages).encode()).hexdigest()
    return Document(digest, source, source, tuple(Page(n, p) for n, p in enumerate(pages, 1)))


def new_document(
    document: Document, path: str | None = None, size: int = 40, language: str = "en"
) -> NewDocument:
    """What is added of a document: its passages of `size` characters, and their vectors."""
    chunks = WindowChunker(size, 0).chunk(document)
    return NewDocument(
        document=document,
        states=[FileState(path or document.source, len(document.text), 1, 2)],
        size=len(document.text.encode()),
        language=language,
        chunking=f"window {size}",
        chunks=chunks,
        vectors=EMBEDDER.embed_documents([passage_text(chunk) for chunk in chunks]),
    )


def add(
    library: Library,
    item: Document,
    path: str | None = None,
    size: int = 40,
    language: str = "en",
) -> None:
    library.add([new_document(item, path, size, language)])


def found(library: Library, question: str, k: int = 1000) -> tuple[list[Any], list[Any]]:
    """What both legs find: (chunk id, score rounded) in the order of rank."""
    dense = library.vectors.search(EMBEDDER.embed_queries([question])[0], k)
    keyword = library.keywords.search(question.lower().split(), k)
    return (
        [(hit.chunk_id, round(hit.score, 3)) for hit in dense],
        [(hit.chunk_id, round(hit.score, 3)) for hit in keyword],
    )


def bytes_on_disk(directory: Path) -> bytes:
    return b"".join(p.read_bytes() for p in sorted(directory.rglob("*")) if p.is_file())


@contextmanager
def write_protected(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A library that this user may not write to; for root, the system's answer is put on."""
    if os.geteuid() == 0:
        true = os.access

        def access(path: Any, mode: int, **options: Any) -> bool:
            below = Path(path) == directory or directory in Path(path).parents
            return False if mode & os.W_OK and below else true(path, mode, **options)

        monkeypatch.setattr(os, "access", access)
    for path in (*directory.rglob("*"), directory):
        path.chmod(0o555 if path.is_dir() else 0o444)
    yield directory
    for path in (directory, *directory.rglob("*")):
        path.chmod(0o755)


def make_older(catalogue: sqlite3.Connection, version: int) -> None:
    """Put what a catalogue holds into the tables that it had after that step."""
    tables: dict[str, list[dict[str, Any]]] = {}
    for (table,) in catalogue.execute("SELECT name FROM sqlite_master WHERE type = 'table'"):
        rows = catalogue.execute(f"SELECT * FROM {table}")
        names = [column[0] for column in rows.description]
        tables[table] = [dict(zip(names, row, strict=True)) for row in rows.fetchall()]
    if version < 5:
        ids = {row["number"]: row["id"] for row in tables["chunks"]}
        for row in tables["embeddings"]:
            row["chunk"] = ids.get(row["chunk"], row["chunk"])
    for table in tables:
        catalogue.execute(f"DROP TABLE {table}")
    for step in MIGRATIONS[:version]:
        step(catalogue)
    catalogue.execute("DELETE FROM meta")
    for table, rows in tables.items():
        column_names = [row[1] for row in catalogue.execute(f"PRAGMA table_info({table})")]
        for row in rows if column_names else ():
            names = [name for name in column_names if name in row]
            columns = ", ".join(f'"{name}"' for name in names)
            catalogue.execute(
                f"INSERT INTO {table}({columns}) VALUES ({', '.join('?' * len(names))})",
                [row[name] for name in names],
            )
    catalogue.execute(f"PRAGMA user_version = {version}")
