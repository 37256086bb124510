"""The dense leg of a library in a database: on this node, or there, by pgvector."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from library_fixtures import EMBEDDER, add, document, indexes, open_library

from localrag.documents.chunking import WindowChunker
from localrag.egress.databases import Database, read_url
from localrag.errors import LibraryError
from localrag.library.backends.postgres import dialect
from localrag.library.backends.postgres import vectors as nearest
from localrag.library.backends.postgres.catalogue import PostgresCatalogue
from localrag.library.catalogue.filters import Filter
from localrag.library.check import check_library
from localrag.library.derived import VectorPlacement
from localrag.library.library import Library, delete_library
from localrag.library.location import Location
from localrag.library.records import EmbeddingIdentity
from localrag.library.transfer import migrate_library
from localrag.types import Hit

WIDE = EmbeddingIdentity("wide", "wide", 96)
QUESTIONS = ("old harbour and 7 ships", "tea of the spring", "told for the time 11")


@pytest.fixture
def place(postgres: str, tmp_path: Path) -> Database:
    return read_url(f"{postgres}#{tmp_path.name}")


def opened(
    place: Location, where: Literal["auto", "node", "pgvector"] = "pgvector", **changes: Any
) -> Library:
    megabytes = changes.pop("megabytes", 2000)
    return open_library(
        place, indexes=replace(indexes(), placement=VectorPlacement(where, megabytes)), **changes
    )


def filled(place: Location, count: int = 12, **changes: Any) -> Library:
    library = opened(place, **changes)
    with library.writing():
        for number in range(count):
            text = f"the old harbour holds {number * 7919 % 101} ships, {number} times told"
            add(library, document(text, source=f"{number}.txt"), size=20)
    library.sync()
    return library


def vector(question: str) -> np.ndarray:
    array: np.ndarray = EMBEDDER.embed_queries([question])[0]
    return array


def served(library: Library) -> tuple[str, str]:
    part = next(index for index in library.status().derived if index.name == "vectors")
    return part.where, part.lacking


def catalogue_of(library: Library) -> PostgresCatalogue:
    catalogue = library._catalogue
    assert isinstance(catalogue, PostgresCatalogue)
    return catalogue


def rows(library: Library) -> int:
    catalogue = catalogue_of(library)
    with catalogue.session() as session:
        home = dialect.home(catalogue.number)
        count = session.execute(f"SELECT count(*) FROM {home}.{dialect.NEAREST}").fetchone()
    return int(count[0]) if count else -1


def expect_the_same(library: Library, other: Library, k: int = 20) -> None:
    ids = library.chunk_ids(Filter())[::2]
    for question in QUESTIONS:
        query = vector(question)
        assert library.vectors.search(query, k) == other.vectors.search(query, k)
        within = library.vectors.within(ids).search(query, k)
        assert within == other.vectors.within(ids).search(query, k)
        assert within
        assert all(hit.chunk_id in ids for hit in within)


def test_it_ranks_as_a_node_to_the_digit(place: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with filled(place) as database_library, opened(place, "node", create=False) as node_library:
        assert served(database_library) == ("database", "")
        assert served(node_library) == ("node", "")
        expect_the_same(database_library, node_library)
        assert (
            not (database_library.directory / "vectors").exists() or node_library.vectors.current()
        )
        monkeypatch.setattr(nearest, "EXACT", 3)  # what is allowed comes from the index, too
        expect_the_same(database_library, node_library)
        with database_library.one_state():  # in the transaction of a whole search, too
            legs = database_library.legs_at_hand()
            assert legs is not None
            assert isinstance(legs.vectors, nearest._InDatabase)
            query = vector(QUESTIONS[0])
            assert legs.vectors.search(query, 20) == node_library.vectors.search(query, 20)
        nothing = database_library.chunk_ids(Filter())[:0]
        assert database_library.vectors.within(nothing).search(vector("tea"), 5) == []
        assert database_library.vectors.search(vector("tea"), 0) == []


def test_a_change_is_seen_at_once_by_every_node(place: Database) -> None:
    with filled(place, 6) as writer, opened(place, create=False) as reader:
        assert rows(writer) == writer.counts().chunks
        new = document("an unheard of windmill on the hill", source="mill.txt")
        add(writer, new)  # and no `sync`
        assert rows(writer) == writer.counts().chunks
        (best, *_) = reader.vectors.search(vector("an unheard of windmill on the hill"), 3)
        assert best.chunk_id in {chunk.id for chunk in writer.document_chunks(new.id)}
        writer.remove(sources=["mill.txt", "3.txt"])
        assert rows(writer) == writer.counts().chunks
        ids = {hit.chunk_id for hit in reader.vectors.search(vector("windmill"), 1000)}
        assert ids == set(writer.chunk_ids(Filter()).tolist())
    assert check_library(place, indexes()).ok


def test_the_index_of_the_server_is_used(place: Database) -> None:
    with filled(place, 6) as library, library._catalogue.read() as snapshot:
        sql = snapshot.sql
        sql.execute("SELECT set_config('enable_seqscan', 'off', true)")
        schema = dialect.SCHEMA
        plan = sql.execute(
            f"EXPLAIN SELECT chunk FROM {dialect.NEAREST} ORDER BY vector "
            f"OPERATOR({schema}.<#>) CAST(? AS {schema}.halfvec({EMBEDDER.dimension})) LIMIT 5",
            (str(vector("tea").tolist()),),
        ).fetchall()
    assert f"Index Scan using {dialect.NEAREST}_{EMBEDDER.dimension}" in str(plan)


def test_recall_of_the_index(place: Database) -> None:
    """Candidates of the index alone, against all vectors compared."""
    with opened(place) as database_library, opened(place, "node", create=False) as node_library:
        add(
            database_library,
            document(" ".join(f"{number * 7919 % 10007}" for number in range(6000))),
            size=25,
        )
        database_library.sync()
        total = database_library.counts().chunks
        assert total > 1000
        matches = 0
        for number in range(20):
            query = vector(f"{number} 7919 {number * 31}")
            with database_library._catalogue.read() as snapshot:
                snapshot.sql.execute("SELECT set_config('enable_seqscan', 'off', true)")
                extension = nearest._extension(snapshot, catalogue_of(database_library).number)
                assert isinstance(extension, nearest._Extension)
                hits = nearest._InDatabase(snapshot, extension).search(query, 10)
            ranking = node_library.vectors.search(query, total)
            assert {*hits} <= {*ranking}
            matches += len({*hits} & {*ranking[:10]})
        assert matches >= 0.95 * 200


def test_auto_takes_it_only_above_the_room(
    place: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with filled(place, 5, where="auto") as library:
        assert served(library) == ("node", "")
        monkeypatch.setattr(VectorPlacement, "is_too_small", lambda *_: True)
        assert served(library)[1] in ("extension", "index")
        query = vector(QUESTIONS[0])
        before = library.vectors.search(query, 10)
        library.sync()
        assert served(library) == ("database", "")
        assert not (library.directory / "vectors" / "index.json").exists()
        assert library.vectors.search(query, 10) == before
        monkeypatch.undo()
        assert served(library) == ("node", "")
        assert library.vectors.search(query, 10) == before


def test_the_room_counts_what_an_index_takes(tmp_path: Path) -> None:
    with filled(tmp_path / "folder", 12) as library:
        (part, _) = library.status().derived
        count, dimension = library.counts().chunks, EMBEDDER.dimension
        size = count * (dimension + dimension // 8 + 32)
        assert size * 0.8 < part.size < size * 1.2
    assert VectorPlacement(megabytes=6).is_too_small(10_000, 512)
    assert not VectorPlacement(megabytes=7).is_too_small(10_000, 512)


def test_without_pgvector_the_node_goes_on(
    place: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    statement = "CREATE EXTENSION IF NOT EXISTS no_such_extension_as_this"
    monkeypatch.setattr(nearest, "_CREATE", statement)
    alone = replace(place, name=f"{place.name}_{os.getpid()}")
    with closing(PostgresCatalogue(place)) as catalogue, catalogue.session() as session:
        session.execute(f"CREATE DATABASE {alone.name}")
        try:
            with filled(alone, 5, where="auto") as library:
                monkeypatch.setattr(VectorPlacement, "is_too_small", lambda *_: True)
                library.sync()
                assert served(library) == ("node", "extension")
                assert library.vectors.search(vector(QUESTIONS[0]), 3)
            with opened(alone, create=False) as outright:
                with pytest.raises(LibraryError, match=r"pgvector 0\.8 or newer"):
                    outright.sync()
                assert outright.vectors.search(vector(QUESTIONS[0]), 3)
        finally:
            session.execute(f"DROP DATABASE {alone.name} WITH (FORCE)")


@contextmanager
def editing(library: Library) -> Iterator[Database]:
    """The place of a library for an account that may change its rows, and no tables."""
    catalogue = catalogue_of(library)
    # A name of its own: a pooler keeps connections of an account that is dropped.
    home, name = dialect.home(catalogue.number), f"editor_{os.getpid()}_{catalogue.number}"
    with catalogue.session() as session:
        session.execute("CREATE EXTENSION IF NOT EXISTS vector")
        session.execute(f"CREATE ROLE {name} LOGIN")
        session.execute(f"GRANT USAGE ON SCHEMA {dialect.SCHEMA}, {home} TO {name}")
        session.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {dialect.SCHEMA} TO {name}")
        session.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA {home} TO {name}")
        try:
            yield replace(catalogue.database, user=name)
        finally:
            session.execute(f"DROP OWNED BY {name}")
            session.execute(f"DROP ROLE {name}")


def test_an_account_that_may_not_create_tables(
    place: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It adds all the same, and what the server searches by follows where it is there."""
    with filled(place, 5, where="auto") as library, editing(library) as editor:
        monkeypatch.setattr(VectorPlacement, "is_too_small", lambda *_: True)
        with opened(editor, "auto", create=False) as editor_library:
            add(editor_library, document("a windmill on the hill", source="mill.txt"))
            editor_library.sync()
            assert served(editor_library) == ("node", "index")
            library.sync()
            assert served(library) == ("database", "")
            add(editor_library, document("a watermill by the brook", source="brook.txt"))
            editor_library.rebuild_indexes()
            assert served(editor_library) == ("database", "")
        assert rows(library) == library.counts().chunks


def rebuilt(library: Library) -> np.ndarray:
    """With vectors of another model, which have 96 numbers; one of them."""
    documents = library.documents()
    plan = library.begin_rebuild("wider")
    assert len(plan) == len(documents)
    for number, record in enumerate(documents):
        text = library.document(record.id)
        assert text is not None
        chunks = WindowChunker(20, 0).chunk(text)
        vectors = np.random.default_rng(number).standard_normal((len(chunks), 96))
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        library.stage([(record.id, chunks, vectors.astype(np.float32))])
    library.finish_rebuild(WIDE, "window 20")
    array: np.ndarray = vectors[0].astype(np.float32)
    return array


def test_an_account_that_may_not_drop_tables_brings_another_model(
    place: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a node does in a queued rebuild: until the owner comes, nodes search by themselves."""
    monkeypatch.setattr(VectorPlacement, "is_too_small", lambda *_: True)
    with filled(place, 6, where="auto") as library, editing(library) as editor:
        assert served(library) == ("database", "")
        with opened(editor, "auto", create=False) as editor_library:
            query = rebuilt(editor_library)
            editor_library.sync()
            assert served(editor_library) == ("node", "index")
            hits = editor_library.vectors.search(query, 3)
            assert hits[0].score == pytest.approx(1.0, abs=1e-3)
    with opened(place, "auto", create=False, embedding=WIDE) as owner:
        owner.sync()
        assert served(owner) == ("database", "")
        assert rows(owner) == owner.counts().chunks
        assert owner.vectors.search(query, 3) == hits


def test_another_model_has_other_dimensions(place: Database) -> None:
    with filled(place, 6) as library:
        query = rebuilt(library)
        assert served(library) == ("database", "")
        assert rows(library) == library.counts().chunks
        hits = library.vectors.search(query, 3)
        assert hits[0].score == pytest.approx(1.0, abs=1e-3)
        library.rebuild_indexes()
        assert library.vectors.search(query, 3) == hits


def test_a_library_that_moves_in_and_out(place: Database, tmp_path: Path) -> None:
    searched = replace(indexes(), placement=VectorPlacement("pgvector"))
    with filled(tmp_path / "from") as library:
        before = [library.vectors.search(vector(question), 20) for question in QUESTIONS]
    migrate_library(tmp_path / "from", place, indexes=searched)
    with opened(place, create=False) as moved_library:
        assert served(moved_library) == ("database", "")
        assert [
            moved_library.vectors.search(vector(question), 20) for question in QUESTIONS
        ] == before
    migrate_library(place, tmp_path / "back", indexes=searched)
    with opened(tmp_path / "back", create=False) as back:
        assert [back.vectors.search(vector(question), 20) for question in QUESTIONS] == before
    delete_library(place)
    with opened(place) as anew:
        assert anew.counts().chunks == 0


def test_every_half_is_read_as_it_is(place: Database) -> None:
    """All 63,488 finite numbers of half precision."""
    bits = np.arange(1 << 16, dtype="<u2")
    numbers = bits.view("<f2")
    numbers = numbers[np.isfinite(numbers)]
    with filled(place, 1) as library, catalogue_of(library).session() as session:
        for start in range(0, len(numbers), 4000):
            batch = numbers[start : start + 4000]
            (text,) = session.execute(
                f"SELECT {nearest._HALF}(%s)::text", [batch.tobytes()]
            ).fetchone()
            array = np.array(text.strip("[]").split(","), dtype=np.float32)
            assert np.array_equal(array.astype("<f2"), batch)


def test_ties_are_broken_by_id(place: Database) -> None:
    with opened(place) as library:
        for number in range(30):
            text = "one and the same sentence"
            twin = replace(document(f"{text}\f{number}", source=f"{number}.txt"), title="one")
            add(library, twin, size=len(text))
        library.sync()
        hits: list[Hit] = library.vectors.search(vector("one and the same sentence"), 60)
        order = [(-hit.score, hit.chunk_id) for hit in hits]
        assert order == sorted(order)
        assert len({hit.score for hit in hits}) < len(hits)
