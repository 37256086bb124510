"""Two libraries in a database that is dumped and restored elsewhere, by PostgreSQL's own means."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import postgres_server
import pytest
from library_fixtures import EMBEDDER, add, document, indexes, open_library

from localrag.egress.databases import Database, read_url
from localrag.library.backends.postgres.catalogue import PostgresCatalogue
from localrag.library.check import check_library
from localrag.library.library import Library
from localrag.types import Hit

TEXTS = {
    "handbook": "the old harbour holds many ships and one lighthouse by the sea",
    "茶": "茶 在 春天 采摘 然后 慢火 烘干 味道 清香",
}
QUESTIONS = ("ships by the sea", "茶 味道", "told for the time 7")
Answers = list[tuple[list[Hit], list[Hit]]]


def client(program: str, *arguments: str) -> None:
    suffix = ".exe" if sys.platform == "win32" else ""
    path = postgres_server.programs() / "bin" / f"{program}{suffix}"
    result = subprocess.run([path, *arguments], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def url(server: str, database: str) -> str:
    return str(replace(read_url(f"{server}#x"), name=database)).partition("#")[0]


def places(server: str, database: str) -> list[Database]:
    return [read_url(f"{url(server, database)}#{name}") for name in TEXTS]


def fill(place: Database, numbers: range) -> None:
    with open_library(place) as library:
        for number in numbers:
            text = f"{TEXTS[place.library]} and it is told for the time {number}"
            add(library, document(text, source=f"{number}.txt"))


def answers(place: Database) -> Answers:
    """Both legs to the last digit, with what they found."""
    with open_library(place, create=False) as library:
        return [exactly(library, question) for question in QUESTIONS]


def exactly(library: Library, question: str) -> tuple[list[Hit], list[Hit]]:
    dense = library.vectors.search(EMBEDDER.embed_queries([question])[0], 1000)
    keyword = library.keywords.search(question.split(), 1000)
    assert len(library.chunks([hit.chunk_id for hit in (*dense, *keyword)])) > 0
    return dense, keyword


def run(server: str, statement: str) -> None:
    catalogue = PostgresCatalogue(read_url(f"{server}#x"))
    with catalogue.session() as session:
        session.execute(statement.encode())
    catalogue.close()


@pytest.fixture
def database(postgres: str, tmp_path: Path) -> Iterator[str]:
    name = re.sub("[^a-z]", "_", tmp_path.name)
    run(postgres, f"CREATE DATABASE \"{name}\" TEMPLATE template0 ENCODING 'UTF8'")
    yield name
    run(postgres, f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


@pytest.fixture
def on_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """From then on this process keeps what it derives where that node would."""

    def choose(name: str) -> None:
        monkeypatch.setattr("platformdirs.user_cache_path", lambda *_, **__: tmp_path / name)

    return choose


def test_a_dump_restored_elsewhere_gives_equal_answers(
    postgres: str, database: str, tmp_path: Path, on_node: Callable[[str], None]
) -> None:
    on_node("here")
    before = []
    for place in places(postgres, database):
        fill(place, range(30))
        with open_library(place) as library:
            library.remove(sources=["3.txt", "8.txt"])
        before.append(answers(place))
    assert before[0] != before[1]
    roles, dump = tmp_path / "roles.sql", tmp_path / "docs.dump"
    client(
        *("pg_dumpall", "--roles-only", "--no-role-passwords", f"--file={roles}"),
        f"--dbname={postgres}",
    )
    client("pg_dump", "--format=custom", f"--file={dump}", url(postgres, database))
    with postgres_server.running(tmp_path / "elsewhere") as other:
        # The administrator is there already, and psql goes on where a role is.
        client("psql", f"--file={roles}", other)
        client("pg_restore", "--create", "--exit-on-error", f"--dbname={other}", str(dump))
        on_node("there")
        restored = places(other, database)
        assert [answers(place) for place in restored] == before
        for place in restored:
            assert not check_library(place, indexes()).findings
        fill(restored[0], range(30, 32))  # and it goes on
        assert answers(restored[0]) != before[0]


def test_a_cache_that_is_ahead_of_a_restored_database_is_made_anew(
    postgres: str, database: str, tmp_path: Path, on_node: Callable[[str], None]
) -> None:
    on_node("here")
    (place, _) = places(postgres, database)
    fill(place, range(10))
    before, dump = answers(place), tmp_path / "docs.dump"
    client("pg_dump", "--format=custom", f"--file={dump}", url(postgres, database))
    fill(place, range(10, 14))
    later = answers(place)
    assert later != before

    def restore() -> None:
        run(postgres, f'DROP DATABASE "{database}" WITH (FORCE)')
        client("pg_restore", "--create", "--exit-on-error", f"--dbname={postgres}", str(dump))

    restore()
    assert answers(place) == before
    fill(place, range(10, 14))
    assert answers(place) == later
    restore()
    fill(place, range(20, 24))  # as many changes as the cache knows, but others
    with open_library(place, create=False) as library:
        sources = {source.state.path for source in library.sources()}
        assert library.keywords.search(["12"], 10) == []
        for hits in (library.keywords.search(["22"], 10), exactly(library, "22")[0]):
            assert hits
            assert set(library.chunks(ids := [hit.chunk_id for hit in hits])) == set(ids)
    assert sources == {f"{number}.txt" for number in (*range(10), *range(20, 24))}
    assert not check_library(place, indexes()).findings
