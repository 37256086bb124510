"""After a removal nothing of the document is in any file, and answers are those of never."""

from __future__ import annotations

import errno
import hashlib
import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from library_fixtures import EMBEDDER, add, bytes_on_disk, found, open_library

from localrag.documents.chunking import WindowChunker, passage_text
from localrag.errors import LibraryError, ParsingError
from localrag.library.indexes.faiss import Rows
from localrag.library.library import Library
from localrag.library.records import FileState, UnreadFile
from localrag.types import Document, Heading, Page


def marked(tag: str, words: int = 30, headings: int = 3) -> Document:
    body = " ".join(f"body{tag}x{n} 正文{tag}x" for n in range(words))
    return Document(
        hashlib.sha256(body.encode()).hexdigest(),
        f"/home/someone/path{tag}x.txt",
        f"title{tag}x 标题{tag}x",
        (Page(1, body), Page(2, f"page{tag}x")),
        tuple(Heading(n, 1, f"heading{tag}x{n}") for n in range(headings)),
        {"author": f"author{tag}x"},
    )


def traces(document: Document, tag: str) -> dict[str, bytes]:
    """All that must not stay: texts in UTF-8 and UTF-16, vectors in either width, the id."""
    words = ["body", "正文", "title", "标题", "path", "page", "heading", "author"]
    patterns: dict[str, bytes] = {}
    for word in words:
        patterns[word] = f"{word}{tag}x".encode()
        patterns[f"{word} in UTF-16"] = f"{word}{tag}x".encode("utf-16-le")
    patterns["id"] = document.id.encode()
    chunks = WindowChunker(40, 0).chunk(document)
    vectors = EMBEDDER.embed_documents([passage_text(chunk) for chunk in chunks])
    for number, vector in enumerate(vectors):
        rounded = vector.astype("<f2").astype(np.float32)
        patterns[f"float16 vector {number}"] = vector.astype("<f2").tobytes()[:32]
        patterns[f"float32 vector {number}"] = vector.tobytes()[:32]
        patterns[f"rounded vector {number}"] = rounded.tobytes()[:32]
        rows = Rows.of(np.array([0]), rounded[None])
        patterns[f"one-bit code {number}"] = rows.codes.tobytes()
        patterns[f"vector in steps {number}"] = rows.levels.tobytes()[:32]
    for chunk in chunks:
        patterns[f"id of passage {chunk.position}"] = chunk.id.to_bytes(8, "little")
        patterns[f"id of passage {chunk.position} in SQLite"] = chunk.id.to_bytes(8, "big")
        patterns[f"id of passage {chunk.position} as a key"] = varint(chunk.id)
    return patterns


def varint(number: int) -> bytes:
    """A positive number of more than 56 bits as SQLite stores the key of a row."""
    high, low = divmod(number, 256)
    return bytes([*(high >> 7 * place & 127 | 128 for place in range(7, -1, -1)), low])


def left(directory: Path, document: Document, tag: str) -> list[str]:
    content = bytes_on_disk(directory)
    return [name for name, trace in traces(document, tag).items() if trace in content]


def test_every_trace_is_there_before_and_none_after(tmp_path: Path) -> None:
    secret = marked("SECRET")
    with open_library(tmp_path) as library:
        add(library, marked("other"))
        add(library, secret)
        found(library, "secret")
        before = left(tmp_path, secret, "SECRET")
        for name in ("body", "正文", "title", "标题", "path", "page", "heading", "author", "id"):
            assert name in before
        assert {"float16 vector 0", "one-bit code 0", "vector in steps 0"} <= {*before}
        assert "id of passage 0 in SQLite" in before
        assert library.remove(sources=[secret.source]).purged
        assert left(tmp_path, secret, "SECRET") == []
    assert left(tmp_path, secret, "SECRET") == []


@pytest.mark.parametrize("seed", range(3))
def test_no_trace_stays_however_rows_have_moved(tmp_path: Path, seed: int) -> None:
    """SQLite leaves copies behind when it moves rows between pages."""
    draw = random.Random(seed)
    alive: dict[str, Document] = {}
    removed_documents: dict[str, Document] = {}
    with open_library(tmp_path) as library:
        for step in range(10):
            for number in range(draw.randrange(4, 16)):
                tag = f"t{step}n{number}"
                alive[tag] = marked(tag, draw.randrange(1, 60), draw.randrange(6))
                add(library, alive[tag])
            for tag in draw.sample(sorted(alive), 3):
                removed_documents[tag] = alive.pop(tag)
                library.remove(sources=[removed_documents[tag].source])
            content = bytes_on_disk(tmp_path)
            for tag in removed_documents:
                for word in ("body", "正文", "title", "path", "heading", "author"):
                    assert f"{word}{tag}x".encode() not in content, (step, word, tag)


def test_answers_are_those_of_a_library_that_never_had_it(tmp_path: Path) -> None:
    with open_library(tmp_path / "one") as library, open_library(tmp_path / "never") as never:
        for number in range(12):
            add(library, marked(f"n{number}"))
            found(library, "body")
            if number % 3:
                add(never, marked(f"n{number}"))
        for number in range(0, 12, 3):
            library.remove(sources=[marked(f"n{number}").source])
        for question in ("bodyn1x0 bodyn2x3", "正文n4x", "pagen5x title", "bodyn0x1"):
            assert found(library, question) == found(never, question)
            terms = question.split()
            assert library.keywords.frequencies(terms) == never.keywords.frequencies(terms)
        assert library.counts() == never.counts()


class KilledError(BaseException):
    """Stands for the end of the process."""


@pytest.mark.parametrize("moment", ["vectors", "keywords", "sweep", "vacuum", "part"])
def test_a_removal_that_was_cut_off_is_finished_by_the_next_opening(
    tmp_path: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = marked("SECRET")
    library = open_library(tmp_path)
    add(library, marked("other"))
    add(library, secret)
    library.sync()

    def killed(*_: object, **__: object) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        if moment == "vectors":
            patch.setattr("localrag.library.indexes.faiss.FaissVectors._save", killed)
        elif moment == "keywords":
            patch.setattr("localrag.library.indexes.inverted.InvertedKeywords._save", killed)
        elif moment == "sweep":
            patch.setattr("localrag.library.indexes.segmented.clear_segments", killed)
        else:
            patch.setattr("localrag.library.catalogue.catalogue.SqliteCatalogue.purge", killed)
        with pytest.raises(KilledError):
            library.remove(sources=[secret.source])
    if moment == "part":
        (tmp_path / "vectors" / "index.json.99.part").write_bytes(b"bodySECRETx")
    library.close()
    if moment != "vacuum":  # by chance, as rows have not moved
        assert left(tmp_path, secret, "SECRET") != []
    with open_library(tmp_path, create=False, embedding=None) as again:
        assert again.counts().documents == 1
    assert left(tmp_path, secret, "SECRET") == []


@pytest.mark.parametrize("fault", [LibraryError("full"), OSError(errno.ENOSPC, "full")])
def test_a_full_disk_leaves_the_rest_for_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    secret = marked("SECRET")
    with open_library(tmp_path) as library:
        add(library, secret)

        def full(_: object) -> bool:
            raise fault

        with monkeypatch.context() as patch:
            patch.setattr("localrag.library.catalogue.catalogue.SqliteCatalogue.purge", full)
            removal = library.remove(sources=[secret.source])
            assert (removal.documents, removal.purged) == ((secret.id,), False)
            assert "full" in str(removal.fault)
            library.close()
            open_library(tmp_path).close()  # reading goes on
        open_library(tmp_path).close()
        assert left(tmp_path, secret, "SECRET") == []


def test_a_replaced_version_leaves_no_trace_either(tmp_path: Path) -> None:
    with open_library(tmp_path) as library:
        old = marked("OLD")
        add(library, old, "a.txt")
        library.sync()
        add(library, marked("new"), "a.txt")
        library.purge_if_due()
        assert left(tmp_path, old, "OLD") == []


def test_a_reader_that_was_killed_keeps_nothing(tmp_path: Path) -> None:
    secret = marked("SECRET")
    with open_library(tmp_path) as library:
        add(library, secret)
        add(library, marked("other"))
        library.sync()
        scratch = tmp_path / "keywords" / "reader-0123abcd"
        scratch.mkdir()
        (segment,) = tmp_path.glob("keywords/*.segment")
        shutil.copyfile(segment, scratch / "0.term")
        library.remove(sources=[secret.source])
    assert left(tmp_path, secret, "SECRET") == []


def test_readers_follow_a_removal_whose_ids_are_forgotten(tmp_path: Path) -> None:
    with open_library(tmp_path) as library, open_library(tmp_path, create=False) as reader:
        for tag in ("a", "b", "c"):
            add(library, marked(tag))
        assert found(reader, "bodyax1")[1]
        library.remove(sources=[marked("a").source])
        add(library, marked("d"))  # as many passages as before
        library.sync()
        assert _same(reader, library, "bodyax1 bodydx1")
        assert found(reader, "bodydx1")[1]
        assert found(reader, "bodyax1")[1] == []


def _same(reader: Library, library: Library, question: str) -> bool:
    return found(reader, question) == found(library, question)


INDEXES = {
    "sqlite_autoindex_blocks_1": "document, block, row",
    "chunks_by_document": "document, position, row",
}


def hide_first_document(catalogue: Path, index: str) -> None:
    """Take the first document out of an index of SQLite's, and leave its rows in the table.

    For that, the pages of the index get the name of a table of their own for a while.
    """
    with closing(sqlite3.connect(catalogue, isolation_level=None)) as sql:
        root = "SELECT rootpage FROM sqlite_master WHERE name = ?"
        (page,) = sql.execute(root, (index,)).fetchone()
        (version,) = sql.execute("PRAGMA schema_version").fetchone()
        columns = INDEXES[index]
        text = f"CREATE TABLE bare({columns}, PRIMARY KEY({columns})) WITHOUT ROWID"
        sql.execute("PRAGMA writable_schema = ON")
        row = ("table", "bare", "bare", page, text)
        sql.execute("INSERT INTO sqlite_master VALUES (?, ?, ?, ?, ?)", row)
        sql.execute(f"PRAGMA schema_version = {version + 1}")
    with closing(sqlite3.connect(catalogue, isolation_level=None)) as sql:
        sql.execute("DELETE FROM bare WHERE document = 1")
        sql.execute("PRAGMA writable_schema = ON")
        sql.execute("DELETE FROM sqlite_master WHERE name = 'bare'")
        sql.execute(f"PRAGMA schema_version = {version}")


@pytest.mark.parametrize("index", ["sqlite_autoindex_blocks_1", "chunks_by_document"])
def test_what_an_index_hides_is_removed_too(tmp_path: Path, index: str) -> None:
    directory = tmp_path / "library"
    removed_document, survivor = marked("gone"), marked("left")
    with open_library(directory) as library:
        add(library, removed_document)
        add(library, survivor, path="left.txt")
        library.sync()
    hide_first_document(directory / "catalogue.sqlite", index)
    with open_library(directory) as library:
        assert library.remove(documents=[removed_document.id]).purged
        assert library.counts().documents == 1
        dense, keyword = found(library, "bodygonex1")
        assert not {chunk for chunk, _ in [*dense, *keyword]} - {
            chunk.id for chunk in library.document_chunks(survivor.id)
        }
    content = bytes_on_disk(directory)
    assert [
        name for name, trace in traces(removed_document, "gone").items() if trace in content
    ] == []


def test_files_that_could_not_be_read_are_forgotten_with_every_byte(tmp_path: Path) -> None:
    def failed(tag: str) -> UnreadFile:
        error = ParsingError("{source}: {reason}", source=f"/{tag}x.pdf", reason=f"{tag}reason")
        return UnreadFile(FileState(f"/{tag}x.pdf", 1, 2, 3), error)

    with open_library(tmp_path) as library:
        add(library, marked("other"))
        library.set_unread(failed(f"SECRET{number}") for number in range(300))
        library.set_unread([failed("KEPT")])
        assert b"SECRET7reason" in bytes_on_disk(tmp_path)
        library.remove(unread=[f"/SECRET{number}x.pdf" for number in range(200)])
        library.set_unread([], forgotten=[f"/SECRET{number}x.pdf" for number in range(200, 300)])
        library.purge_if_due()
        assert [source.state.path for source in library.unread()] == ["/KEPTx.pdf"]
        assert b"SECRET" not in bytes_on_disk(tmp_path)
    assert b"SECRET" not in bytes_on_disk(tmp_path)
