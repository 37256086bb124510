"""Libraries behind a pooler that gives each transaction another connection.

All tests of libraries in a database can run behind one, with TEST_BEHIND_POOLER=1.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from library_fixtures import add, document, open_library
from pooler import pooled

from localrag.egress.databases import Database, read_url
from localrag.errors import LibraryError, LibraryLockedError
from localrag.library.backends.postgres.catalogue import PostgresCatalogue
from localrag.library.library import Library

HOLD = """
import sys, time
from localrag.egress.databases import read_url
from localrag.library.backends.opening import open_backend
with open_backend(read_url(sys.argv[1])).lock.hold(0):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def pool(postgres: str) -> Iterator[str]:
    """Four connections for all."""
    with pooled(postgres, connections=4) as url:
        yield url


@pytest.fixture
def places(pool: str, tmp_path: Path) -> list[Database]:
    return [read_url(f"{pool}#{tmp_path.name} {name}") for name in ("one", "two")]


def filled(place: Database) -> Library:
    library = open_library(place)
    for number in range(8):
        text = f"{place.library} tells of the harbour for the time {number}"
        add(library, document(text, source=f"{place.library} {number}"))
    return library


def test_many_on_few_connections_see_their_own_library_alone(places: list[Database]) -> None:
    wrong: list[object] = []

    def use(library: Library, name: str) -> None:
        for turn in range(10):
            hits = library.keywords.search(["harbour"], 100)
            chunks = library.chunks([hit.chunk_id for hit in hits]).values()
            sources = {source.state.path for source in library.sources()}
            if len(hits) < 8 or any(not source.startswith(name) for source in sources):
                wrong.append((name, len(hits), sources))
            if any(
                "tells" in chunk.text and name.split()[-1] not in chunk.text for chunk in chunks
            ):
                wrong.append(chunks)
            if turn % 5 == 0:
                text = f"{name} {threading.get_ident()} {turn} harbour"
                add(library, document(text, source=f"{name} {threading.get_ident()} {turn}"))

    with filled(places[0]) as first_library, filled(places[1]) as second_library:
        callers = [
            threading.Thread(target=use, args=(library, place.library))
            for library, place in zip((first_library, second_library) * 4, places * 4, strict=True)
        ]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        assert wrong == []
        assert [library.counts().documents for library in (first_library, second_library)] == [
            16,
            16,
        ]


def test_nothing_of_a_transaction_stays_on_a_connection(places: list[Database]) -> None:
    with filled(places[0]) as library, closing(PostgresCatalogue(places[1])) as other:
        library.sync()
        for _ in range(20):
            with other.session() as session:
                row = session.execute(
                    "SELECT current_setting('search_path'), pg_backend_pid(), "
                    "(SELECT count(*) FROM pg_prepared_statements)"
                ).fetchone()
            assert row is not None
            assert "localrag_" not in row[0]
            assert row[2] == 0


def test_the_right_to_write_is_one_for_all_and_ends_with_its_process(
    places: list[Database],
) -> None:
    with filled(places[0]) as library:
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(places[0])], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "held\n"
            with (
                pytest.raises(LibraryLockedError, match=f"process {process.pid} on"),
                library.writing(timeout=0.2),
            ):
                pass
            assert library.counts().documents == 8
        finally:
            process.kill()
            process.communicate()
        with library.writing(timeout=60):
            add(library, document("in time", source="next.txt"))
        assert library.counts().documents == 9


def test_a_pooler_whose_server_ends_connections(places: list[Database], postgres: str) -> None:
    direct = PostgresCatalogue(read_url(f"{postgres}#{places[0].library}"))

    def end_all() -> None:
        with direct.session() as session:
            session.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE pid != pg_backend_pid() AND backend_type = 'client backend'"
            )

    with closing(direct), filled(places[0]) as library:
        end_all()
        assert library.counts().documents == 8

        def robbed() -> None:
            with library.writing():
                end_all()
                add(library, document("one too many", source="late.txt"))

        with pytest.raises(LibraryError):
            robbed()
        assert library.counts().documents == 8
        add(library, document("in time", source="next.txt"))
        assert library.counts().documents == 9
