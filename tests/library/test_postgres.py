"""What only a library in a database has to show: nodes, neighbours, lost connections."""

from __future__ import annotations

import json
import os
import random
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from library_fixtures import (
    EMBEDDER,
    EMBEDDING,
    Words,
    add,
    bytes_on_disk,
    document,
    indexes,
    open_library,
)

from localrag.documents.chunking import WindowChunker, passage_text
from localrag.egress.databases import Database, read_url
from localrag.errors import (
    LibraryDamagedError,
    LibraryError,
    LibraryLockedError,
    LibraryNotFoundError,
    ParsingError,
    UsageError,
)
from localrag.library.acting import acting_as, acting_as_server
from localrag.library.backends.postgres import connection, dialect
from localrag.library.backends.postgres.catalogue import WRITING, PostgresCatalogue
from localrag.library.backends.postgres.connection import PostgresConnection
from localrag.library.catalogue.base import Result
from localrag.library.catalogue.filters import Filter, Glob
from localrag.library.catalogue.migrations import MIGRATIONS
from localrag.library.check import check_library
from localrag.library.folder.locking import Holder, WriteLock
from localrag.library.library import Library
from localrag.library.location import Location
from localrag.library.records import FileState, UnreadFile
from localrag.library.transfer import export_library, import_library, migrate_library
from localrag.types import Hit

TEXTS = [
    "the old harbour holds many ships and one lighthouse by the sea",
    "green tea is picked in spring and dried over a slow fire",
    "a telescope gathers light of distant stars and planets",
    "茶 在 春天 采摘 然后 慢火 烘干 味道 清香",
]


@pytest.fixture
def place(postgres: str, tmp_path: Path) -> Database:
    return read_url(f"{postgres}#{tmp_path.name}")


def filled(place: Location, count: int = 40, **changes: object) -> Library:
    library = open_library(place, **changes)
    for number in range(count):
        text = f"{TEXTS[number % 4]} and it is told for the time {number}"
        add(library, document(text, source=f"{number}.txt"))
    return library


def exactly(library: Library, question: str) -> tuple[list[Hit], list[Hit]]:
    """Both legs to the last digit."""
    dense = library.vectors.search(EMBEDDER.embed_queries([question])[0], 1000)
    return dense, library.keywords.search(question.split(), 1000)


QUESTIONS = ("green tea in spring", "ships by the sea", "茶 味道", "told for the time 7")


def on_node(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Callable[[], None]:
    """From here on this process keeps what it derives where another node would."""
    return lambda: monkeypatch.setattr("platformdirs.user_cache_path", lambda *_, **__: folder)


def test_the_ranking_is_that_of_a_folder_to_the_digit(place: Database, tmp_path: Path) -> None:
    with filled(tmp_path / "folder") as folder, filled(place) as database_library:
        for library in (folder, database_library):
            library.remove(sources=["3.txt", "8.txt"])
        for question in QUESTIONS:
            assert exactly(database_library, question) == exactly(folder, question)
        assert database_library.embedding == folder.embedding
        assert [entry.id for entry in database_library.documents()] == [
            entry.id for entry in folder.documents()
        ]


def test_nodes_follow_each_other(
    place: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, neighbour = (on_node(monkeypatch, tmp_path / name) for name in ("one", "two"))
    node()
    writer = filled(place)
    neighbour()
    words = Words()
    reader = open_library(place, create=False, tokenize=words)
    with writer, reader:
        assert reader.directory != writer.directory
        assert exactly(reader, QUESTIONS[0]) == exactly(writer, QUESTIONS[0])
        cut = words.calls
        secret = "unmistakablesecret of the quarry"
        add(writer, document(secret, source="secret.txt"))
        assert exactly(reader, secret) == exactly(writer, secret)
        assert words.calls == cut + 2  # only what is new is cut, with its card
        reader.sync()
        assert b"unmistakablesecret" in bytes_on_disk(reader.directory)
        removals = reader.removals()
        assert writer.remove(sources=["secret.txt"]).purged
        assert b"unmistakablesecret" not in bytes_on_disk(writer.directory)
        assert reader.removals() != removals  # by this a server sees that there is something to do
        reader.forget()
        assert b"unmistakablesecret" not in bytes_on_disk(reader.directory)
        assert words.calls == cut + 2  # and follows without beginning anew
        for question in (*QUESTIONS, secret):
            assert exactly(reader, question) == exactly(writer, question)
    with open_library(place, create=False) as again:
        assert all(part.present and not part.behind for part in again.status().derived)


def test_what_was_removed_before_a_rebuild_goes_from_other_nodes(
    place: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, neighbour = (on_node(monkeypatch, tmp_path / name) for name in ("one", "two"))
    node()
    writer = filled(place, 4)
    secret = "unmistakablesecret of the quarry"
    add(writer, document(secret, source="secret.txt"))
    neighbour()
    with open_library(place, create=False) as reader:
        exactly(reader, secret)
    assert b"unmistakablesecret" in bytes_on_disk(reader.directory)
    node()
    with writer:
        assert writer.remove(sources=["secret.txt"]).purged
        for number in writer.begin_rebuild("plan"):
            text = writer.document(number)
            assert text is not None
            chunks = WindowChunker(20, 0).chunk(text)
            vectors = EMBEDDER.embed_documents([passage_text(chunk) for chunk in chunks])
            writer.stage([(number, chunks, vectors)])
        writer.finish_rebuild(EMBEDDING, "window 20")
    neighbour()
    with open_library(place, create=False) as reader:
        assert b"unmistakablesecret" not in bytes_on_disk(reader.directory)


def test_libraries_in_one_database_know_nothing_of_each_other(
    postgres: str, tmp_path: Path
) -> None:
    own_place, foreign_place = (
        read_url(f"{postgres}#{tmp_path.name} {name}") for name in ("mine", "theirs")
    )
    with filled(own_place, 4) as library, filled(foreign_place, 2) as other:
        other.set_unread([])
        assert (library.counts().documents, other.counts().documents) == (4, 2)
        assert {source.state.path for source in other.sources()} == {"0.txt", "1.txt"}
        ids = library.chunk_ids(Filter()).tolist()
        shared = other.chunk_ids(Filter()).tolist()
        assert set(shared) < set(ids)  # the same texts have the same ids
        assert set(other.chunks(ids)) == set(shared)
        assert other.has_document(library.documents()[0].id)
        assert not other.has_document(library.documents()[3].id)
        other.remove(sources=["0.txt"])
        assert library.counts().documents == 4
        assert len(exactly(library, "ships")[1]) == 1
        assert library.directory != other.directory
    with closing(PostgresCatalogue(own_place)) as catalogue, catalogue.session() as session:
        for table in dialect.tables():
            row = session.execute(
                "SELECT pg_get_partkeydef(c.oid), "
                "(SELECT attnotnull FROM pg_attribute WHERE attrelid = c.oid "
                "AND attname = 'library') FROM pg_class c WHERE c.oid = %s::regclass",
                [f"{dialect.SCHEMA}.{table}"],
            ).fetchone()
            assert row == ("LIST (library)", True)


def test_a_library_that_is_not_there(place: Database) -> None:
    with pytest.raises(LibraryNotFoundError, match=place.library):
        open_library(place, create=False)
    assert not check_library(filled_and_closed(place), indexes()).findings


def filled_and_closed(place: Database) -> Database:
    filled(place, 2).close()
    return place


def end_connections(catalogue: PostgresCatalogue) -> None:
    with catalogue.session() as session:
        session.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pid != pg_backend_pid() AND backend_type = 'client backend'"
        )


def test_a_server_that_ends_connections(place: Database) -> None:
    with filled(place, 4) as library, closing(PostgresCatalogue(place)) as other:
        end_connections(other)
        assert library.counts().documents == 4  # on a new one

        def cut_off() -> None:
            with library._catalogue.read() as snapshot:
                snapshot.counts()
                end_connections(other)
                snapshot.counts()

        with pytest.raises(LibraryError, match="cannot be reached"):
            cut_off()
        assert library.counts().documents == 4


def test_few_connections_wait_and_none_for_long(
    place: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who asks one library after the other, many at a time, leaves some to other nodes."""

    def taken(count: int) -> list[PostgresConnection]:
        with ExitStack() as stack:
            for _ in range(count):
                stack.enter_context(catalogue.session())
        return connection.idle.of(place)

    monkeypatch.setattr(connection, "_MOST_IDLE", 3)
    with closing(PostgresCatalogue(place)) as catalogue:
        sessions = taken(8)
        assert len(sessions) == 3
        monkeypatch.setattr(connection, "_IDLE_SECONDS", 0.05)
        time.sleep(0.1)
        (survivor,) = taken(1)
        assert [session.inner.closed for session in sessions].count(True) == 2
        assert survivor in sessions
    assert survivor.inner.closed
    assert not connection.idle.of(place)


@pytest.mark.skipif(sys.platform == "win32", reason="only where processes are forked")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_takes_no_connection_of_its_parent(place: Database) -> None:
    with closing(PostgresCatalogue(place)) as catalogue:
        with catalogue.session():
            pass
        assert connection.idle.of(place)
        child = os.fork()
        if child == 0:  # two processes would read each other's replies
            os._exit(len(connection.idle.of(place)))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        with catalogue.session() as inner:
            assert inner.execute("SELECT 7").fetchone() == (7,)


def test_libraries_of_a_database_use_the_same_connections(place: Database) -> None:
    places = [replace(place, library=f"{place.library} {number}") for number in range(6)]
    connection.idle.close(place)
    with ExitStack() as stack:
        libraries = [stack.enter_context(filled(location, 1)) for location in places]
        add(libraries[0], document("one more", source="more.txt"))
        for _ in range(2):
            assert [library.counts().documents for library in libraries] == [2, 1, 1, 1, 1, 1]
        waiting = [session for location in places for session in connection.idle.of(location)]
        assert len(waiting) <= 3
        with libraries[0]._catalogue.read() as snapshot:
            snapshot.counted_chunks()
        waiting = connection.idle.of(places[0])
        assert waiting[-1].counted is not None
        idle_session = connection.idle.take(places[1])
        assert idle_session is not None
        assert idle_session.counted is None
        connection.idle.keep(idle_session)


def test_what_is_shown_of_many_passages_takes_as_many_statements_as_of_one(
    place: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    statements: list[str] = []
    execute = PostgresConnection.execute

    def told(connection: PostgresConnection, sql: str, values: Sequence[object] = (), /) -> Result:
        statements.append(sql)
        return execute(connection, sql, values)

    with filled(place, 8) as library:
        monkeypatch.setattr(PostgresConnection, "execute", told)
        statement_counts = []
        ids_of_all = library.chunk_ids(Filter()).tolist()
        for ids in (ids_of_all[:1], ids_of_all):
            statements.clear()
            with library.one_state():
                chunks = library.chunks(ids)
                sources = library.sources_of({chunk.document_id for chunk in chunks.values()})
                places = library.places(
                    [(chunk.document_id, chunk.start) for chunk in chunks.values()]
                )
            statement_counts.append(len(statements))
            assert sources.keys() == {chunk.document_id for chunk in chunks.values()}
        assert statement_counts[0] == statement_counts[1] < 8
        assert places == [
            library.place(chunk.document_id, chunk.start) for chunk in chunks.values()
        ]
        texts = [chunk.text for chunk in chunks.values()]
        assert texts == [library.text(c.document_id, c.start, c.end) for c in chunks.values()]
        assert len(chunks) > 8


def end_writer(place: Database) -> None:
    """End the connection that is the right to write."""
    with closing(PostgresCatalogue(place)) as other, other.session() as session:
        session.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' "
            "AND classid = %s AND objid = %s AND granted",
            [int(WRITING), other.number],
        )


def test_who_loses_the_right_to_write_commits_nothing(place: Database) -> None:
    with filled(place, 1) as library:

        def robbed() -> None:
            with library.writing():
                end_writer(place)
                add(library, document("one too many", source="late.txt"))

        with pytest.raises(LibraryError, match="right to write"):
            robbed()
        assert library.counts().documents == 1

        def robbed_at_the_end() -> None:
            with library.writing():
                end_writer(place)

        with pytest.raises(LibraryError, match="cannot be reached"):
            robbed_at_the_end()
        add(library, document("in time", source="next.txt"))
        assert library.counts().documents == 2


def test_only_a_library_that_nobody_uses_is_dropped(
    place: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("localrag.library.backends.postgres.catalogue._DROP_PATIENCE", "100ms")
    with filled(place, 0) as library, closing(PostgresCatalogue(place)) as other:
        with library.writing():
            other.drop()
        assert library.counts().documents == 0
        add(library, document("somebody else's", source="x.txt"))
        other.drop()
        assert library.counts().documents == 1
        library.remove(sources=["x.txt"])
        other.drop()
        with pytest.raises(LibraryNotFoundError):
            other.expect()


def test_a_drop_stops_no_other_library(place: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an empty one, while tables are copied: all writing would wait behind the drop."""
    monkeypatch.setattr("localrag.library.backends.postgres.catalogue._DROP_PATIENCE", "300ms")
    other = replace(place, library=f"{place.library} other")
    with (
        filled(other, 0) as library,
        filled(place, 0) as neighbour,
        closing(PostgresCatalogue(place)) as catalogue,
        catalogue.session() as copying,
        copying.transaction(),
    ):
        copying.execute(f"LOCK TABLE {dialect.SCHEMA}.documents IN ACCESS SHARE MODE")
        dropping = threading.Thread(target=catalogue.drop)
        dropping.start()
        dropping.join(60)
        gave_up = not dropping.is_alive()
        if not gave_up:
            copying.execute("ROLLBACK")
        dropping.join()
        assert gave_up
        add(library, document("in time", source="next.txt"))
        assert neighbour.counts().documents == 0


def test_a_node_out_of_reach_holds_nothing_for_long(
    place: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "TEST_BEHIND_POOLER" in os.environ:
        pytest.skip("only without a pooler, which has settings of its own")
    sockets, place = place, replace(place, host="127.0.0.1")

    def told(inner: Any) -> list[str]:
        names = ("keepalives_idle", "keepalives_interval", "keepalives_count", "user_timeout")
        return [inner.execute(f"SHOW tcp_{name}").fetchone()[0] for name in names]

    expected = ["10", "5", "3", "25000"] if sys.platform == "linux" else ["10", "5"]
    of_owners: list[bool] = []

    def create_alone(_: object, inner: Any) -> None:
        of_owners.append(told(inner)[: len(expected)] == expected)

    monkeypatch.setattr(PostgresCatalogue, "create_alone", create_alone)
    with filled(place, 0) as library:
        catalogue = library._catalogue
        assert isinstance(catalogue, PostgresCatalogue)
        with library.writing():
            assert told(catalogue._used.right)[: len(expected)] == expected
            with catalogue.write() as transaction:
                assert isinstance(transaction.sql, PostgresConnection)
                assert told(transaction.sql.inner)[: len(expected)] == expected
        with catalogue.chore() as chore:
            assert told(chore)[: len(expected)] == expected
        with catalogue.session() as session:  # of others, behind a pooler
            assert told(session)[:2] != expected[:2]
        catalogue.delete()
        assert of_owners == [True, True]
        if sys.platform == "linux":
            with (
                catalogue.session() as session,
                socket.socket(fileno=os.dup(session.fileno())) as own,
            ):
                options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
                told_here = [own.getsockopt(socket.IPPROTO_TCP, name) for name in options]
                assert told_here == [30, 5, 3]
                assert own.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 30_000
    with open_library(sockets) as library, library.writing():
        add(library, document("over a socket", source="next.txt"))


def test_who_waits_for_the_folder_of_a_node_holds_up_no_other(
    place: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the indexes of a new node are made, which takes minutes."""
    node, neighbour = (on_node(monkeypatch, tmp_path / name) for name in ("one", "two"))
    neighbour()
    other = filled(place, 0)
    node()
    holders: list[Holder] = []
    busy = threading.Event()

    def upload() -> None:
        with library.writing(on_wait=lambda holder: (holders.append(holder), busy.set())):
            add(library, document("here", source="here.txt"))

    with filled(place, 0) as library, other:
        uploading = threading.Thread(target=upload)
        with WriteLock(library.directory).hold(0):  # as by another process
            uploading.start()
            assert busy.wait(60)
            with other.writing(timeout=30):
                add(other, document("there", source="there.txt"))
            assert library.counts().documents == 1
            assert [holder.pid for holder in holders] == [os.getpid()]
            with (
                pytest.raises(LibraryLockedError, match=f"process {os.getpid()} on"),
                closing(open_library(place)) as again,
                again.writing(timeout=0.3),
            ):
                pass
        uploading.join()
        assert library.counts().documents == 2


HOLD = """
import sys, time
from localrag.egress.databases import read_url
from localrag.library.backends.opening import open_backend
with open_backend(read_url(sys.argv[1])).lock.hold(0):
    print("held", flush=True)
    time.sleep(60)
"""


def test_one_writer_at_a_time_who_is_named(place: Database) -> None:
    with filled(place, 1) as library:
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(place)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "held\n"
            who = f"process {process.pid} on"
            with pytest.raises(LibraryLockedError, match=who), library.writing(timeout=0.2):
                pass
            assert library.status().writer.startswith(f"{process.pid} (")
            assert library.counts().documents == 1  # reading goes on
        finally:
            process.kill()
            process.communicate()
        with library.writing(timeout=60):
            assert library.status().writer


def test_two_threads_write_one_after_the_other(place: Database) -> None:
    with filled(place, 0) as library:

        def write(name: str) -> None:
            for number in range(5):
                add(library, document(f"{name} {number}", source=f"{name}{number}"))

        threads = [threading.Thread(target=write, args=(name,)) for name in ("a", "b")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert library.counts().documents == 10
        assert library.status().generation == 10


def test_moving_there_and_back_changes_nothing(place: Database, tmp_path: Path) -> None:
    with filled(tmp_path / "from") as library:
        library.keep_history(on=True)
        (first, *_) = library.documents()
        assert library.keep_answer("key", "a question", "{}", [first.id], after=0)
        answers = [exactly(library, question) for question in QUESTIONS]
        documents = library.documents()
    migrate_library(tmp_path / "from", place, indexes=indexes())
    migrate_library(place, tmp_path / "back", indexes=indexes())
    for location in (place, tmp_path / "back"):
        with open_library(location, create=False) as library:
            assert [exactly(library, question) for question in QUESTIONS] == answers
            assert library.documents() == documents
            assert library.keeps_history
            assert [answer.question for answer in library.kept_answers("key")] == ["a question"]
        assert check_library(location, indexes()).ok
    with pytest.raises(LibraryError, match="not empty"):
        migrate_library(tmp_path / "from", place, indexes=indexes())


def test_a_move_onto_itself_or_what_is_not_empty(place: Database, tmp_path: Path) -> None:
    filled(place, 2).close()
    alias = replace(place, host=f"{place.host}/.")  # another URL of the same
    for target in (place, alias) if place.host.startswith("/") else (place,):
        with pytest.raises(UsageError, match="onto itself"):
            migrate_library(place, target, indexes=indexes())
    other = replace(place, library=f"{place.library} other")
    with filled(other, 0) as library:
        library.set_unread([UnreadFile(FileState("a.pdf", 1, 1, 1), ParsingError("broken"))])
        assert library.unread()
    with pytest.raises(LibraryError, match="not empty"):
        migrate_library(place, other, indexes=indexes())
    with filled(place, 0) as library:
        assert library.counts().documents == 2


def test_a_move_that_fails_leaves_nothing(
    place: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path / "from", 3).close()

    def full(*_: object, **__: object) -> None:
        raise LibraryError("full")

    monkeypatch.setattr("localrag.library.catalogue.writes.Transaction.copy_from", full)
    with pytest.raises(LibraryError, match="full"):
        migrate_library(tmp_path / "from", place, indexes=indexes())
    monkeypatch.undo()
    on_node(monkeypatch, tmp_path / "node")()
    with pytest.raises(LibraryNotFoundError):
        open_library(place, create=False)
    with filled(replace(place, library=f"{place.library} beside"), 2) as library:
        library.remove(sources=["0.txt"])  # what makes its rows go with it still stands
        assert library.counts().chunks == len(library.document_chunks(library.documents()[0].id))


def test_rows_that_would_not_go_with_their_document(place: Database) -> None:
    """Somebody has dropped a library by hand, with CASCADE."""
    alone = f"{place.name}_{os.getpid()}"
    with closing(PostgresCatalogue(place)) as catalogue, catalogue.session() as session:
        session.execute(f"CREATE DATABASE {alone}")
        location = replace(place, name=alone)
        filled(location, 1).close()
        with closing(PostgresCatalogue(location)) as other, other.session() as other_session:
            other_session.execute(f"DROP SCHEMA {dialect.home(other.number)} CASCADE")
        with pytest.raises(LibraryDamagedError, match="foreign keys are missing"):
            open_library(replace(location, library="other"))
        session.execute(f"DROP DATABASE {alone} WITH (FORCE)")


def test_tables_of_an_earlier_version_get_what_they_lack(
    place: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first version with PostgreSQL has all five steps; a sixth adds a column and a table."""

    def sixth(connection: sqlite3.Connection) -> None:
        connection.execute("ALTER TABLE documents ADD COLUMN mood TEXT NOT NULL DEFAULT ''")
        connection.execute("CREATE TABLE moods(document INTEGER PRIMARY KEY REFERENCES documents)")

    alone = f"{place.name}_{os.getpid()}"
    location = replace(place, name=alone)
    with closing(PostgresCatalogue(place)) as catalogue, catalogue.session() as session:
        session.execute(f"CREATE DATABASE {alone}")
        filled(location, 1).close()
        with monkeypatch.context() as later:
            later.setattr(dialect, "MIGRATIONS", (*MIGRATIONS, sixth))
            _forget_tables()
            with filled(location, 2) as library:
                library.remove(sources=["0.txt"])
                assert library.counts().documents == library.counts().pages == 1
            with closing(PostgresCatalogue(location)) as newer, newer.session() as inner:
                assert not newer.needs_migration()
                home = dialect.home(newer.number)
                assert inner.execute(f"SELECT mood FROM {home}.documents").fetchall() == [("",)]
                assert inner.execute(f"SELECT count(*) FROM {home}.moods").fetchone() == (0,)
        _forget_tables()
        session.execute(f"DROP DATABASE {alone} WITH (FORCE)")


def _forget_tables() -> None:
    dialect.tables.cache_clear()
    dialect.translated.cache_clear()


def test_an_export_from_a_database_is_one_like_any_other(place: Database, tmp_path: Path) -> None:
    with filled(place, 8) as library:
        answers = [exactly(library, question) for question in QUESTIONS]
    export_library(place, tmp_path / "x.zip", "0")
    import_library(tmp_path / "x.zip", tmp_path / "there", indexes=indexes(), describe=str)
    with open_library(tmp_path / "there", create=False) as library:
        assert [exactly(library, question) for question in QUESTIONS] == answers


def test_a_text_with_nul_keeps_its_length(place: Database) -> None:
    with filled(place, 0) as library:
        original = document("before\0after")
        add(library, original)
        assert library.text(original.id, 0, 20) == "before\N{REPLACEMENT CHARACTER}after"
    assert check_library(place, indexes()).ok


@pytest.mark.parametrize(
    ("pattern", "expression"),
    [
        ("*.pdf", r"^(?:.*\.pdf)$"),
        ("a?b", "^(?:a.b)$"),
        ("[abc]*", "^(?:[abc].*)$"),
        ("[^a-c]x", "^(?:[^aa-c]x)$"),
        ("[]]", r"^(?:[\]])$"),
        ("[*?]", r"^(?:[\*\?])$"),
        ("(x|y)+", r"^(?:\(x\|y\)\+)$"),
        ("open[", "$."),
    ],
)
def test_patterns_of_sqlite_as_expressions(pattern: str, expression: str) -> None:
    assert dialect.value(Glob(pattern)) == expression


def test_a_pattern_means_the_same_in_both_engines(place: Database) -> None:
    draw = random.Random(5)
    signs = "az-^[]\\!*?/.: |{}_é茶"
    patterns = ["".join(draw.choices(signs, k=draw.randint(1, 8))) for _ in range(1500)]
    patterns += [f"[{''.join(draw.choices(signs, k=draw.randint(1, 6)))}]*" for _ in range(500)]
    texts = ["", *signs, "a-z", "[a]", "\\]", "a/z.", "^^"]
    database_catalogue = PostgresCatalogue(place)
    with (
        closing(sqlite3.connect(":memory:")) as memory,
        closing(database_catalogue),
        database_catalogue.session() as session,
    ):
        for pattern in patterns:
            query = "SELECT value GLOB ? FROM json_each(?)"
            matches = [
                bool(match) for (match,) in memory.execute(query, (pattern, json.dumps(texts)))
            ]
            rows = session.execute(
                'SELECT one COLLATE "C" ~ %s FROM unnest(%s::text[]) one',
                [dialect.value(Glob(pattern)), texts],
            )
            assert [match for (match,) in rows.fetchall()] == matches, pattern


def test_of_a_library_that_is_not_there_the_others_are_named(place: Database) -> None:
    mistyped = replace(place, library=f"{place.library}x")
    filled_and_closed(place)
    with pytest.raises(LibraryNotFoundError) as error:
        open_library(mistyped, create=False)
    names = str(error.value.values["names"]).split(", ")
    assert 1 <= len(names) <= 12
    assert names == sorted(filter(None, names))
    assert "There are" in error.value.hint
    for nobody_of_the_command_line in (acting_as("ann"), acting_as_server()):
        with nobody_of_the_command_line, pytest.raises(LibraryNotFoundError) as error:
            open_library(mistyped, create=False)
        assert error.value.values["names"] == ""
        assert "There are" not in error.value.hint


def test_taking_a_library_away_locks_little_of_the_others(place: Database) -> None:
    """A database of 400 libraries ran out of locks when one of them was deleted."""

    def locks() -> int:
        """Locks in a transaction that takes the library away, and does not in the end."""
        with closing(PostgresCatalogue(place)) as catalogue, catalogue.session() as session:
            session.execute("BEGIN")
            for statement in dialect.without(catalogue.number):
                session.execute(statement)
            query = "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid()"
            (count,) = session.execute(query).fetchone() or (0,)
            session.execute("ROLLBACK")
            return int(count)

    open_library(place).close()
    alone, number_of_others = locks(), 5
    for other in range(number_of_others):
        open_library(replace(place, library=f"{place.library}-{other}")).close()
    assert alone > len(dialect.tables())
    assert locks() - alone <= 15 * number_of_others  # 60 where every table is detached


def test_a_database_without_locks_says_what_to_raise(place: Database) -> None:
    from psycopg.errors import OutOfMemory

    class Diagnosed(OutOfMemory):
        diag = SimpleNamespace(
            message_primary="out of shared memory",
            message_hint='You might need to increase "max_locks_per_transaction".',
        )

    with (
        closing(PostgresCatalogue(place)) as catalogue,
        pytest.raises(LibraryError) as error,
        catalogue.translated(),
    ):
        raise Diagnosed
    assert "max_locks_per_transaction" in str(error.value.hint)
