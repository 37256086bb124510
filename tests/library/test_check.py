from __future__ import annotations

import json
import random
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from fakes import HashEmbedder
from library_fixtures import (
    EMBEDDING,
    add,
    document,
    found,
    indexes,
    make_older,
    open_library,
    storage,
)

from localrag.documents.chunking import WindowChunker
from localrag.documents.files import parse_file
from localrag.errors import LibraryDamagedError, LibraryNotFoundError, LocalragError
from localrag.indexing.indexer import Indexer
from localrag.library.check import Inspection, check_library
from localrag.library.indexes.faiss import FaissVectors
from localrag.library.library import Library
from localrag.presentation.check import finding_text, repair_text

TEXTS = {
    "ships.txt": "the old harbour holds many ships and one lighthouse by the sea",
    "tea.txt": "green tea is picked in spring and dried over a slow fire",
    "zh.txt": "茶 在 春天 采摘 然后 慢火 烘干 味道 清香",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    directory = tmp_path / "library"
    with open_library(directory) as library:
        for name, text in TEXTS.items():
            add(library, document(text, source=name))
        library.sync()
    return directory


def check(directory: Path) -> Inspection:
    return check_library(directory, indexes())


def codes(inspection: Inspection) -> list[str]:
    return [f"{finding.part}:{finding.code}" for finding in inspection.findings]


@contextmanager
def sql(directory: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(directory / "catalogue.sqlite")) as connection:
        yield connection
        connection.commit()


def rebuild(directory: Path) -> None:
    with open_library(directory, create=False, embedding=None) as library:
        Indexer(
            library,
            chunker=WindowChunker(40, 0),
            chunking="window 40",
            embedder=HashEmbedder(),
            embedding=EMBEDDING,
            detect_language=lambda _: "en",
            parse=parse_file,
        ).rebuild()


def test_a_sound_library_has_no_findings(folder: Path) -> None:
    inspection = check(folder)
    assert inspection.ok
    assert inspection.findings == []
    assert inspection.counts is not None
    assert inspection.counts.documents == 3


def test_no_library_is_no_finding(tmp_path: Path) -> None:
    with pytest.raises(LibraryNotFoundError):
        check(tmp_path)


CATALOGUE_DAMAGE = {
    "text of a document": (
        "UPDATE blocks SET text = replace(text, 'green', 'brown')",
        ["catalogue:content", "keywords:terms"],
    ),
    "title": ("UPDATE documents SET title = 'x' WHERE title = 'tea.txt'", ["catalogue:content"]),
    "path": (
        "UPDATE sources SET path = 'te.txt' WHERE path = 'tea.txt'",
        ["catalogue:sources"],
    ),
    "path gone": ("DELETE FROM sources WHERE path = 'tea.txt'", ["catalogue:no-source"]),
    "chunk gone": (
        "DELETE FROM chunks WHERE id = (SELECT min(id) FROM chunks)",
        ["catalogue:dangling", "catalogue:passages", "vectors:ids", "keywords:ids"],
    ),
    "vector gone": (
        "DELETE FROM embeddings WHERE chunk = (SELECT min(chunk) FROM embeddings)",
        ["catalogue:passages"],
    ),
    "vector altered": (
        "UPDATE embeddings SET vector = zeroblob(128) "
        "WHERE chunk = (SELECT min(chunk) FROM embeddings)",
        ["catalogue:passages", "vectors:values"],
    ),
    "vector cut short": (
        "UPDATE embeddings SET vector = zeroblob(2) "
        "WHERE chunk = (SELECT min(chunk) FROM embeddings)",
        ["catalogue:passages"],
    ),
    "document gone": (
        "DELETE FROM documents WHERE title = 'tea.txt'",
        ["catalogue:dangling"] * 5,
    ),
    "dimension": ("UPDATE meta SET value = 'x' WHERE key = 'dimension'", ["catalogue:settings"]),
    "generation": (
        "UPDATE meta SET value = 1 WHERE key = 'generation'",
        ["catalogue:passages"] * 2,
    ),
    "model": ("DELETE FROM meta WHERE key = 'embedding'", ["catalogue:settings"]),
}
DERIVABLE = (
    "chunk gone",
    "vector gone",
    "vector altered",
    "vector cut short",
    "document gone",
    "generation",
)


@pytest.mark.parametrize("damage", CATALOGUE_DAMAGE)
def test_damage_of_the_catalogue_is_named(folder: Path, damage: str) -> None:
    statement, expected = CATALOGUE_DAMAGE[damage]
    with sql(folder) as connection:
        connection.execute(statement)
    inspection = check(folder)
    assert not inspection.ok
    assert codes(inspection)[: len(expected)] == expected
    assert all(repair_text(finding) for finding in inspection.findings)


@pytest.mark.parametrize("damage", DERIVABLE)
def test_rebuild_mends_what_can_be_derived(folder: Path, damage: str) -> None:
    with open_library(folder) as library:
        before = found(library, "green tea")
    with sql(folder) as connection:
        connection.execute(CATALOGUE_DAMAGE[damage][0])
    rebuild(folder)
    assert codes(check(folder)) == []
    with open_library(folder) as library:
        if damage != "document gone":
            assert found(library, "green tea") == before


def test_an_index_of_sqlite_itself_is_mended(folder: Path) -> None:
    whole = "CREATE INDEX chunks_by_generation ON chunks(generation)"
    for definition in (f"{whole} WHERE generation > 1", whole):
        with sql(folder) as connection:
            connection.execute("PRAGMA writable_schema = ON")
            connection.execute(
                "UPDATE sqlite_master SET sql = ? WHERE name = 'chunks_by_generation'",
                (definition,),
            )
        with sql(folder) as connection:
            if definition != whole:
                connection.execute("REINDEX chunks_by_generation")
    inspection = check(folder)
    assert set(codes(inspection)) == {"catalogue:structure"}
    assert all("rebuild" in repair_text(finding, "en") for finding in inspection.findings)
    rebuild(folder)
    assert check(folder).findings == []


def test_each_damage_of_the_vector_file_is_named(folder: Path) -> None:
    at = storage(folder / "vectors")
    text, other = HashEmbedder().embed_queries(["text", "other"])
    store = FaissVectors()
    store.open(at)
    stamp, ids = store.stamp, sorted(store.verify([]).ids)
    store.apply(ids[:1], [], stamp, at)
    assert codes(check(folder)) == ["vectors:ids"]
    store.apply((), [(77, text)], stamp, at)
    inspection = check(folder)
    message = finding_text(inspection.findings[0], "en")
    assert "1 passages of the catalogue are missing, 1 are not" in message
    store.apply([77], [(ids[0], other)], stamp, at)
    assert codes(check(folder)) == ["vectors:values"]
    short = FaissVectors()
    short.apply((), [(number, text[:8]) for number in ids], stamp, at)
    assert codes(check(folder)) == ["vectors:values"]
    (segment,) = at.path.glob("*.segment")
    whole = segment.read_bytes()
    for altered in (whole[:-20], whole[:-1] + bytes([whole[-1] ^ 1])):
        segment.write_bytes(altered)
        assert codes(check(folder)) == ["vectors:unreadable"]
    shutil.rmtree(at.path)
    assert codes(check(folder)) == ["vectors:missing"]
    rebuild(folder)
    assert check(folder).findings == []


def test_each_damage_of_the_keyword_index_is_named(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "copy")
    for file in sorted((folder / "keywords").glob("*.segment")):
        content = file.read_bytes()
        for altered in (content[:-1], content[: len(content) // 2], b"", None):
            if altered is None:
                file.unlink()
            else:
                file.write_bytes(altered)
            assert codes(check(folder)) == ["keywords:unreadable"], (file.suffix, altered)
        flipped = bytearray(content)
        flipped[0] ^= 4
        file.write_bytes(flipped)
        assert codes(check(folder)) == ["keywords:unreadable"]
        file.write_bytes(content)
    assert check(folder).findings == []
    (folder / "keywords" / "index.json").write_text("{}")
    assert codes(check(folder)) == ["keywords:unreadable"]
    shutil.rmtree(folder / "keywords")
    assert codes(check(folder)) == ["keywords:missing"]
    rebuild(folder)
    assert check(folder).findings == []


def test_an_index_that_is_behind_is_no_damage(folder: Path) -> None:
    with open_library(folder) as library, library.writing():
        add(library, document("one more", source="more.txt"))
        with library._catalogue.write() as transaction:
            transaction.remove_source("tea.txt")
        inspection = check(folder)
    assert inspection.ok
    assert codes(inspection) == ["vectors:behind", "keywords:behind"]
    assert "2 changes behind" in finding_text(inspection.findings[0], "en")


def test_indexes_of_another_time_line_are_named(folder: Path) -> None:
    with sql(folder) as connection:
        connection.execute("UPDATE meta SET value = 'restored' WHERE key = 'epoch'")
    assert codes(check(folder)) == ["vectors:other-state", "keywords:other-state"]


def test_a_lost_catalogue_is_no_new_library(folder: Path) -> None:
    for empty in (True, False):
        if empty:
            (folder / "catalogue.sqlite").write_bytes(b"")
        else:
            (folder / "catalogue.sqlite").unlink()
        assert codes(check(folder)) == ["catalogue:missing"]
        with pytest.raises(LibraryDamagedError, match="missing or empty"):
            open_library(folder)


def test_an_older_catalogue_gets_its_checksums(folder: Path) -> None:
    with sql(folder) as connection:
        make_older(connection, 1)
    assert check(folder).findings == []
    with sql(folder) as connection:
        assert connection.execute("SELECT count(*) FROM checksums").fetchone() == (3,)


def test_a_pointer_cannot_lead_out_of_the_library(folder: Path, tmp_path: Path) -> None:
    moved = tmp_path / "0123456789abcdef.segment"
    next((folder / "keywords").glob("*.segment")).rename(moved)
    pointer = folder / "keywords" / "index.json"
    name = json.loads(pointer.read_text())["segments"][0]["name"]
    pointer.write_text(pointer.read_text().replace(name, f"../../{moved.name}"))
    with open_library(folder, create=False) as library:
        assert found(library, "green tea")[1]
    assert moved.is_file()
    assert list((folder / "keywords").glob("*.segment")) != []


def _state(library: Library) -> object:
    documents = [library.document(record.id) for record in library.documents()]
    passages = [library.document_chunks(entry.id) for entry in documents if entry]
    paths = [record.state.path for record in library.sources()]
    return documents, passages, paths, found(library, "green tea"), found(library, "茶 味道")


def test_any_damage_is_named_or_does_no_harm(folder: Path, tmp_path: Path) -> None:
    """Bits flipped, files cut short, files gone: where `check` finds nothing, nothing differs."""
    with open_library(folder, create=False) as library:
        library.remove(sources=["ships.txt"])
        expected = _state(library)
    draw = random.Random(5)
    files = [path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file()]
    files += [Path("catalogue.sqlite")] * len(files)
    outcomes = set()
    for number in range(60):
        copy = tmp_path / str(number)
        shutil.copytree(folder, copy)
        victim = copy / draw.choice(files)
        content = bytearray(victim.read_bytes())
        match draw.choice(["flip", "flip", "cut", "gone"]):
            case "flip" if content:
                content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
                victim.write_bytes(content)
            case "cut" if content:
                victim.write_bytes(content[: draw.randrange(len(content))])
            case _:
                victim.unlink()
        sound = check(copy).ok
        try:
            with open_library(copy, create=False) as library:
                unchanged = _state(library) == expected
        except LocalragError:
            unchanged = False
        assert unchanged or not sound, (number, victim)
        outcomes.add((unchanged, sound))
        shutil.rmtree(copy)
    assert outcomes == {(True, True), (True, False), (False, False)}
