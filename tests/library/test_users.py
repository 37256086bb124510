"""Users of a database: what each may see and do, down to every table."""

from __future__ import annotations

import json
import os
import re
import shlex
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import astuple, dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import count, product
from typing import Any, get_args

import pytest
from click.testing import CliRunner
from library_fixtures import EMBEDDER, add, document, indexes, open_library
from relay import relayed

from localrag.cli.group import cli
from localrag.config.settings import EmbeddingSettings, Settings
from localrag.egress.databases import Database, read_url
from localrag.engine import Engine
from localrag.errors import (
    ForbiddenError,
    LibraryError,
    LibraryNotFoundError,
    LibraryUnreachableError,
    UsageError,
    UsersBeganError,
)
from localrag.library.acting import Action, acting_as, acting_as_server
from localrag.library.backends.postgres import policies
from localrag.library.backends.postgres.catalogue import PostgresCatalogue
from localrag.library.backends.postgres.connection import idle
from localrag.library.backends.postgres.dialect import home
from localrag.library.backends.postgres.queue import Arguments, Progress
from localrag.library.backends.postgres.users import Users
from localrag.library.catalogue.catalogue import SqliteCatalogue
from localrag.library.check import check_library
from localrag.library.folder.filesystem import CATALOGUE
from localrag.library.library import Library
from localrag.library.transfer import migrate_library
from localrag.messages import spoken_to
from localrag.server.libraries import Libraries
from localrag.server.node import Node

ACCOUNTS = {"keeper": "CREATEROLE", "node": "", "stranger": ""}
"""The owner of the tables, what a server logs in as, and an account that has nothing here."""

_numbers = count()

USERS = {"ann": "reader", "bob": "editor", "cid": "owner"}
LIBRARIES = ("alpha", "beta", "gamma")


def administrating(url: str) -> Any:
    """A connection of the server's own administrator."""
    catalogue = PostgresCatalogue(read_url(f"{url}#any"))
    return closing(catalogue), catalogue.session()


def called(place: Database, library: str) -> Database:
    return replace(place, library=library)


@dataclass
class Made:
    """Databases to begin with: one with libraries and one that has users, too."""

    plain: str
    peopled: str
    tokens: dict[str, str]


@pytest.fixture(scope="module")
def made(_postgres_server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    """Three libraries, each with a document of its own and one that all have; three users."""
    pytest.importorskip("psycopg", reason="only where psycopg is installed")
    names = [f"{kind}_{os.getpid()}" for kind in ("plain", "peopled")]
    location = replace(read_url(f"{_postgres_server}#any"), name=names[0], user="keeper")
    catalogue, administrator = administrating(_postgres_server)
    with catalogue, administrator as session, pytest.MonkeyPatch.context() as patched:
        cache = tmp_path_factory.mktemp("cache")
        patched.setattr("platformdirs.user_cache_path", lambda *_, **__: cache)
        for account, rights in ACCOUNTS.items():
            session.execute(f"CREATE ROLE {account} LOGIN {rights}")
        session.execute(f"CREATE DATABASE {names[0]} OWNER keeper")
        for name in LIBRARIES:
            with open_library(called(location, name)) as library:
                own = document(f"the secret of {name} is kept in {name}", source=f"{name}.txt")
                add(library, own)
                add(library, document("what everybody knows", source="common.txt"))
                library.keep_history(on=True)
        copy_database(session, names[0], names[1])
        with Users(replace(location, name=names[1], library="alpha")) as users:
            tokens = {name: users.add(name) for name in USERS}
            for (name, role), place in zip(USERS.items(), LIBRARIES, strict=True):
                users.grant(name, place, role)  # type: ignore[arg-type]
        session.execute(f"GRANT {policies.MEMBER}, {policies.SERVER} TO node")
        yield Made(*names, tokens)
        for name in names:
            session.execute(f"DROP DATABASE {name} WITH (FORCE)")
        for role in (policies.MEMBER, policies.SERVER, *ACCOUNTS):
            session.execute(f"DROP ROLE {role}")


@pytest.fixture
def root(postgres: str) -> Iterator[Any]:
    catalogue, administrator = administrating(postgres)
    with catalogue, administrator as session:
        yield session


@pytest.fixture
def without_roles(made: Made, root: Any) -> Iterator[None]:
    """As on a server on which no database has users yet."""
    for role in (policies.MEMBER, policies.SERVER):
        root.execute(f"ALTER ROLE {role} RENAME TO {role}_kept")
    yield
    for role in (policies.MEMBER, policies.SERVER):
        root.execute(f"DROP ROLE IF EXISTS {role}")
        root.execute(f"ALTER ROLE {role}_kept RENAME TO {role}")


def copy_database(session: Any, template: str, name: str) -> None:
    """A copy with the same owner, once nobody is connected: a pooler keeps connections."""
    session.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [template]
    )
    session.execute(f"CREATE DATABASE {name} OWNER keeper TEMPLATE {template}")


@contextmanager
def copied(root: Any, postgres: str, template: str) -> Iterator[Database]:
    name = f"users_{os.getpid()}_{next(_numbers)}"
    copy_database(root, template, name)
    yield replace(read_url(f"{postgres}#alpha"), name=name, user="keeper")
    root.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def place(made: Made, root: Any, postgres: str) -> Iterator[Database]:
    """The library `alpha` in a database without users that belongs to `keeper`."""
    with copied(root, postgres, made.plain) as copy_place:
        yield copy_place


@dataclass
class Team:
    """Three users, each with a role in one of three libraries."""

    place: Database
    users: Users
    tokens: dict[str, str]

    def serve(self, library: str, account: str = "node") -> Library:
        location = replace(called(self.place, library), user=account)
        return open_library(location, create=False, serving=True)


@pytest.fixture
def team(made: Made, root: Any, postgres: str) -> Iterator[Team]:
    with copied(root, postgres, made.peopled) as copy_place, Users(copy_place) as users:
        yield Team(copy_place, users, made.tokens)


@contextmanager
def raw(place: Database, account: str = "node") -> Iterator[Any]:
    with (
        closing(PostgresCatalogue(replace(place, user=account))) as catalogue,
        catalogue.session() as session,
    ):
        yield session


@contextmanager
def transaction_of(session: Any, user: str) -> Iterator[None]:
    """As the catalogue begins one, and always taken back."""
    session.execute(f"BEGIN; SET LOCAL ROLE {policies.MEMBER}")
    session.execute("SELECT set_config(%s, %s, true)", [policies.USER, user])
    yield
    session.execute("ROLLBACK")


def attempt(session: Any, statement: str) -> int | str:
    """How many rows it concerned, or why it did not run."""
    from psycopg import Error

    try:
        with session.transaction():
            cursor = session.execute(statement)
            return int(cursor.fetchone()[0]) if cursor.description else int(cursor.rowcount)
    except Error as error:
        return type(error).__name__


NOTHING = (0, "InsufficientPrivilege", "GeneratedAlways")


def tables_of(session: Any) -> list[tuple[str, str, str]]:
    """Schema, name and a column of every table that localrag has made, of whatever version."""
    rows = session.execute(
        "SELECT n.nspname, c.relname, quote_ident(a.attname) FROM pg_class c "
        "JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a "
        "ON a.attrelid = c.oid AND a.attnum = 1 WHERE n.nspname ~ '^localrag(_[0-9]+)?$' "
        "AND c.relkind IN ('r', 'p', 'm', 'v') ORDER BY 1, 2"
    ).fetchall()
    return [(str(schema), str(table), str(column)) for schema, table, column in rows]


def test_no_table_shows_or_takes_a_row_without_a_grant(team: Team) -> None:
    with raw(team.place) as node, raw(team.place, "keeper") as keeper:
        tables = tables_of(keeper)
        numbers = dict(keeper.execute("SELECT name, number FROM localrag.libraries").fetchall())
        total = 0
        for user, granted in zip((*USERS, "nobody"), (*LIBRARIES, ""), strict=True):
            for schema, name, column in tables:
                table = f'{schema}."{name}"'
                with transaction_of(node, user):
                    number = attempt(node, f"SELECT count(*) FROM {table}")
                    if granted and schema == home(numbers[granted]):
                        all_rows = keeper.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
                        assert number == all_rows, (user, table)
                        total += number
                        continue
                    assert number in NOTHING, (user, table)
                    for statement in (
                        f"INSERT INTO {table} DEFAULT VALUES",
                        f"UPDATE {table} SET {column} = {column}",
                        f"DELETE FROM {table}",
                        f"TRUNCATE {table}",
                        f"SELECT count(*) FROM (SELECT FROM {table} FOR UPDATE) x",
                    ):
                        assert attempt(node, statement) in NOTHING, (user, statement)
        assert total > 30  # else this would prove nothing
        assert len(tables) > 4 * 19


def test_an_account_that_takes_no_role_sees_and_changes_nothing(team: Team) -> None:
    """It is in both roles, and inherits what they may."""
    with raw(team.place) as node, raw(team.place, "keeper") as keeper:
        names = {f'{schema}."{name}"' for schema, name, _ in tables_of(keeper)}
        # Which libraries there are is told without a role, to find them.
        for table in sorted(names - {'localrag."version"', 'localrag."libraries"'}):
            for user in ("", "cid"):
                node.execute("BEGIN")
                node.execute("SELECT set_config(%s, %s, true)", [policies.USER, user])
                for statement in (f"SELECT count(*) FROM {table}", f"DELETE FROM {table}"):
                    assert attempt(node, statement) in NOTHING, (user, statement)
                node.execute("ROLLBACK")


def test_what_fails_for_a_user_names_no_library_of_others(team: Team) -> None:
    with team.users, raw(team.place, "keeper") as keeper:
        with Users(replace(team.place, user="node")) as serving:
            keeper.execute("ALTER TABLE localrag.audit RENAME TO gone")
            with pytest.raises(LibraryError) as error:
                serving.record("bob", "beta", "ask", "words")
            assert team.place.name in str(error.value)
            assert "alpha" not in f"{error.value} {error.value.values}"
        unreachable = replace(team.place, user="node", port=1)
        with Users(unreachable) as serving, pytest.raises(LibraryError) as error:
            serving.record("bob", "beta", "ask", "words")
        assert "alpha" not in f"{error.value} {error.value.values}"


def test_the_words_of_a_question_are_in_no_statement(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL writes a statement that fails into its log."""
    import psycopg

    statements: list[str] = []
    real = psycopg.Connection.execute

    def execute(self: Any, query: Any, *arguments: Any, **more: Any) -> Any:
        statements.append(str(query))
        return real(self, query, *arguments, **more)

    monkeypatch.setattr(psycopg.Connection, "execute", execute)
    with Users(replace(team.place, user="node")) as serving:
        serving.record("ann", "alpha", "ask", "a private question")
        assert serving.by_token(team.tokens["ann"]) is not None
    assert any(".record(" in statement for statement in statements)
    assert not any("private" in statement for statement in statements)


def test_a_reader_changes_nothing(team: Team) -> None:
    with raw(team.place) as node, raw(team.place, "keeper") as keeper:
        (number,) = keeper.execute(
            "SELECT number FROM localrag.libraries WHERE name = 'alpha'"
        ).fetchone()
        for schema, name, column in tables_of(keeper):
            if schema != home(number):
                continue
            table = f'{schema}."{name}"'
            with transaction_of(node, "ann"):
                for statement in (
                    f"INSERT INTO {table} DEFAULT VALUES",
                    f"UPDATE {table} SET {column} = {column}",
                    f"DELETE FROM {table}",
                ):
                    assert attempt(node, statement) in NOTHING, statement
    with team.serve("alpha") as library, acting_as("ann"):
        assert library.counts().documents == 2
        with pytest.raises(LibraryError, match="may read the library alpha, but not change it"):
            add(library, document("one more", source="more.txt"))
        with pytest.raises(LibraryError, match="not change it"):
            library.remove(sources=["alpha.txt"])
        assert library.counts().documents == 2


def test_what_each_sees_through_a_server(team: Team) -> None:
    for account, name in product(("node", "keeper", "postgres"), LIBRARIES):
        with team.serve(name, account) as library:
            for user, granted in zip(USERS, LIBRARIES, strict=True):
                with acting_as(user):
                    if name == granted:
                        (hit, *_) = library.keywords.search(["secret"], 5)
                        assert name in library.chunks([hit.chunk_id])[hit.chunk_id].text
                        assert library.counts().documents == 2
                        continue
                    # As of a library that is not there: that there is one is told to nobody.
                    for question in (
                        library.counts,
                        library.documents,
                        library.chunk_set,
                        library.status,
                        lambda library=library: library.keywords.search(["secret"], 5),
                        lambda library=library: library.keywords.frequencies(["secret"]),
                        lambda library=library: library.remove(sources=["common.txt"]),
                    ):
                        with pytest.raises(LibraryNotFoundError, match="There is no library"):
                            question()


def test_an_editor_adds_and_removes(team: Team) -> None:
    with team.serve("beta") as library, acting_as("bob"):
        add(library, document("brand new words", source="new.txt"))
        assert len(library.keywords.search(["brand"], 5)) == 1
        library.sync()
        assert library.remove(sources=["new.txt", "beta.txt"]).purged
        assert not library.keywords.search(["brand"], 5)
        assert library.counts().documents == 1
    assert check_library(called(team.place, "beta"), indexes()).ok


def test_a_server_ends_a_removal_that_was_cut_off(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_off(_: Library) -> bool:
        raise LibraryError("cut off")

    with team.serve("beta") as library, acting_as("bob"), monkeypatch.context() as patched:
        patched.setattr(Library, "purge", cut_off)
        assert library.remove(sources=["beta.txt"]).fault is not None
        assert library.removals().due
    with team.serve("beta") as library:
        with acting_as("bob"):
            assert not library.removals().due
        with acting_as_server(), pytest.raises(LibraryError, match="does not allow"):
            library.keep_history(on=True)  # and changes no other setting


def test_nobody_asks_a_serving_library(team: Team) -> None:
    with team.serve("alpha") as library:
        for question in (library.counts, library.documents, library.sync, library.chunk_set):
            with pytest.raises(RuntimeError, match="for nobody"):
                question()
        with pytest.raises(RuntimeError, match="for nobody"):
            library.keywords.search(["secret"], 5)
        with acting_as("ann"):
            errors: list[BaseException] = []

            def bare() -> None:
                try:
                    library.counts()
                except RuntimeError as error:
                    errors.append(error)

            thread = threading.Thread(target=bare)  # which knows nothing of who asks
            thread.start()
            thread.join()
            assert errors
            assert library.counts().documents == 2
        with acting_as_server():  # a chore that reads, and changes nothing
            assert library.counts().documents == 2
            with pytest.raises(LibraryError, match="does not allow"):
                add(library, document("of no user", source="x.txt"))


def test_who_acts_within_somebody_elses_block(team: Team) -> None:
    """A connection that is in use is the user's alone, also within one thread."""
    with team.serve("alpha") as library:
        catalogue = library._catalogue
        with acting_as("ann"), catalogue.read() as own_snapshot:
            assert own_snapshot.counts().documents == 2
            with acting_as("bob"), pytest.raises(LibraryNotFoundError), catalogue.read():
                pass
            with acting_as_server(), catalogue.read() as chore:
                assert chore.sql is not own_snapshot.sql
                with acting_as("cid"), pytest.raises(LibraryNotFoundError), catalogue.read():
                    pass
            with catalogue.read() as again:
                assert again.sql is own_snapshot.sql


def test_a_warm_search_is_one_transaction_of_its_user(team: Team) -> None:
    settings = Settings(embedding=EmbeddingSettings(model="hash"))
    node_place = replace(team.place, user="node")
    with relayed(str(node_place).partition("#")[0]) as (url, relay):
        library = open_library(read_url(f"{url}#alpha"), create=False, serving=True, embedding=None)
        with closing(Engine(library, settings, embedder=EMBEDDER)) as engine:
            with acting_as("ann"):
                for _ in range(3):  # the second reads all vectors of so small a library
                    before = relay.waits
                    assert "alpha" in engine.search("the secret of alpha")[0].chunk.text
                assert relay.waits - before <= 10
            with acting_as("bob"), pytest.raises(LibraryNotFoundError):
                engine.search("the secret of alpha")
            team.users.grant("ann", "alpha", None)
            with acting_as("ann"), pytest.raises(LibraryNotFoundError):
                engine.search("the secret of alpha")


def test_who_loses_a_library_while_they_read_it_gets_nothing_of_it(team: Team) -> None:
    def read(taken_away: Callable[[], None]) -> int:
        with library.one_state():
            taken_away()
            return library.counts().documents

    with team.serve("alpha") as library, acting_as("ann"):
        assert read(lambda: None) == 2
        with pytest.raises(LibraryNotFoundError):
            read(lambda: team.users.grant("ann", "alpha", None))
        team.users.grant("ann", "alpha", "reader")
        with pytest.raises(LibraryNotFoundError):
            read(lambda: team.users.remove("ann"))
        catalogue = library._catalogue
        assert isinstance(catalogue, PostgresCatalogue)
        (connection,) = idle.of(catalogue.database)  # a refusal costs none
        assert not connection.inner.closed


def test_one_transaction_leaves_nothing_to_the_next(team: Team) -> None:
    """As a pooler hands one connection from transaction to transaction."""
    with team.serve("alpha") as library:
        catalogue = library._catalogue
        assert isinstance(catalogue, PostgresCatalogue)
        catalogue.close()
        for _ in range(2):
            with acting_as("ann"), catalogue.read() as snapshot:
                assert snapshot.counts().documents == 2
            (connection,) = idle.of(catalogue.database)
            row = connection.inner.execute(
                "SELECT current_user, current_setting(%s, true), current_setting('search_path')",
                [policies.USER],
            ).fetchone()
            assert row is not None
            assert (row[0], row[1] or "") == ("node", "")
            assert "localrag" not in row[2]
            with acting_as("bob"), pytest.raises(LibraryNotFoundError), catalogue.read():
                pass
            with acting_as("ann"), catalogue.read() as snapshot:
                assert snapshot.counts().documents == 2
            (connection,) = idle.of(catalogue.database)
            with pytest.raises(ZeroDivisionError), acting_as("ann"), catalogue.read():
                raise ZeroDivisionError
            assert connection.inner.closed  # what was cut off is not handed on
            with acting_as("ann"), catalogue.read():
                pass


PLANTED = """
CREATE TABLE {schema}.called(who text);
GRANT USAGE ON SCHEMA {schema} TO PUBLIC;
GRANT ALL ON {schema}.called TO PUBLIC;
CREATE FUNCTION {schema}.same(oid, regnamespace) RETURNS boolean LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO {schema}.called VALUES (current_user); RETURN $1 = $2::oid; END $$;
CREATE OPERATOR {schema}.= (LEFTARG = oid, RIGHTARG = regnamespace, FUNCTION = {schema}.same);
CREATE FUNCTION {schema}.pg_advisory_xact_lock(smallint, integer) RETURNS void LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO {schema}.called VALUES (current_user); END $$;
CREATE FUNCTION {schema}.pg_try_advisory_xact_lock(smallint, smallint) RETURNS boolean
    LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO {schema}.called VALUES (current_user); RETURN true; END $$;
"""
"""What fits the statements better than PostgreSQL's own, where it is in the search path."""


def test_what_others_have_planted_is_not_called(place: Database) -> None:
    """In `public`, or in a schema that is called as the account that asks."""
    with raw(place, "postgres") as session:
        session.execute(f"GRANT CREATE ON DATABASE {place.name} TO stranger")
        session.execute("GRANT ALL ON SCHEMA public TO stranger")
        with raw(place, "stranger") as stranger:
            for schema in ("public", "node", "keeper"):
                if schema != "public":
                    stranger.execute(f"CREATE SCHEMA {schema}")
                for statement in PLANTED.format(schema=schema).split(";\n"):
                    stranger.execute(statement)
        with Users(place) as users:
            token = users.add("ann")
            users.grant("ann", "alpha", "reader")
        session.execute(f"GRANT {policies.MEMBER}, {policies.SERVER} TO node")
        session.execute(f"GRANT CONNECT ON DATABASE {place.name} TO node")
        node_place = replace(place, user="node")
        with (
            Users(node_place) as users,
            open_library(node_place, create=False, serving=True) as library,
        ):
            assert users.by_token(token) is not None
            with acting_as("ann"):
                assert library.counts().documents == 2
        with open_library(called(place, "later")) as library:
            add(library, document("what came later", source="later.txt"))
            assert library.remove(sources=["later.txt"]).purged
        for schema in ("public", "node", "keeper"):
            rows = session.execute(f"SELECT who FROM {schema}.called").fetchall()
            assert rows == [], schema
        with raw(place, "keeper") as keeper:  # else this would prove nothing
            keeper.execute("SELECT pg_advisory_xact_lock(CAST(1 AS smallint), 1)")
            assert keeper.execute("SELECT count(*) FROM keeper.called").fetchone() == (1,)


def test_a_schema_of_somebody_else_holds_no_tables(made: Made, root: Any, postgres: str) -> None:
    """Who makes it in advance could drop the tables in it, and all libraries would fail."""
    with copied(root, postgres, "template0") as place, raw(place, "postgres") as session:
        session.execute(f"GRANT CREATE ON DATABASE {place.name} TO stranger")
        with raw(place, "stranger") as stranger:
            stranger.execute("CREATE SCHEMA localrag")
            stranger.execute("GRANT ALL ON SCHEMA localrag TO PUBLIC")
        for account in ("keeper", "postgres"):
            with pytest.raises(LibraryError, match="belongs to the account stranger"):
                open_library(replace(place, user=account))
        session.execute("ALTER SCHEMA localrag OWNER TO keeper")
        open_library(place).close()


def test_who_owns_the_database_opens_no_library_that_a_stranger_made(
    made: Made, root: Any, postgres: str
) -> None:
    """Its triggers would run as who writes to it, and a superuser may do all."""
    with copied(root, postgres, "template0") as place, raw(place, "postgres") as session:
        session.execute(f"ALTER DATABASE {place.name} OWNER TO keeper")
        session.execute(f"GRANT CREATE ON DATABASE {place.name} TO stranger")
        planted = replace(place, user="stranger")
        open_library(planted).close()
        with raw(place, "stranger") as stranger:
            stranger.execute("GRANT ALL ON SCHEMA localrag, localrag_1 TO PUBLIC")
            stranger.execute("GRANT ALL ON ALL TABLES IN SCHEMA localrag, localrag_1 TO PUBLIC")
        for account in ("keeper", "postgres"):
            with pytest.raises(LibraryError, match="belongs to the account stranger"):
                open_library(replace(place, user=account), create=False)
        open_library(planted, create=False).close()


def test_a_library_takes_no_schema_that_is_there(place: Database) -> None:
    location, free = called(place, "later"), 9
    with raw(place, "postgres") as session:
        session.execute(f"GRANT CREATE ON DATABASE {place.name} TO stranger")
        with raw(place, "stranger") as stranger:
            for number in range(len(LIBRARIES) + 1, free):
                stranger.execute(f"CREATE SCHEMA {home(number)}")
                stranger.execute(f"GRANT ALL ON SCHEMA {home(number)} TO PUBLIC")
        with open_library(location) as library, closing(PostgresCatalogue(location)) as catalogue:
            add(library, document("what came later", source="later.txt"))
            assert catalogue.number == free
        session.execute(f"ALTER SCHEMA {home(free)} OWNER TO stranger")  # as of an earlier version
        with pytest.raises(LibraryError, match="belongs to the account stranger"):
            open_library(location, create=False)
        session.execute(f"ALTER SCHEMA {home(free)} OWNER TO keeper")
        with open_library(location, create=False) as library:
            assert library.counts().documents == 1


def test_a_stranger_costs_no_scan(team: Team) -> None:
    with raw(team.place) as node, raw(team.place, "keeper") as keeper:
        (number,) = keeper.execute(
            "SELECT number FROM localrag.libraries WHERE name = 'alpha'"
        ).fetchone()
        schema = home(number)
        keeper.execute(
            f"INSERT INTO {schema}.blocks(document, block, text) "
            f"SELECT number, g, '' FROM {schema}.documents, generate_series(10, 1000) g"
        )
        statement_of_tuples, before = (
            f"SELECT pg_stat_get_xact_tuples_returned('{schema}.blocks'::regclass)",
            0,
        )

        def scanned() -> int:
            nonlocal before
            (rows,) = node.execute(statement_of_tuples).fetchone()
            before, more = rows, rows - before
            return int(more)

        statements = "SELECT count(*) FROM {}", "DELETE FROM {}", "UPDATE {} SET block = block"
        for statement in statements:
            with transaction_of(node, "bob"):
                outcome = attempt(node, statement.format(f"{schema}.blocks"))
                assert outcome == "InsufficientPrivilege"
                assert scanned() <= 1, statement
        with transaction_of(node, "ann"):
            assert attempt(node, statements[0].format(f"{schema}.blocks")) == 2 * 991 + 2
            assert scanned() == 2 * 991 + 2
        with transaction_of(node, "ann"):  # nor does a reader's change
            assert attempt(node, statements[1].format(f"{schema}.blocks")) in NOTHING[1:]
            assert scanned() <= 1


def test_the_grant_is_looked_up_once_in_a_statement(team: Team) -> None:
    with raw(team.place) as node, raw(team.place, "keeper") as keeper:
        (number,) = keeper.execute(
            "SELECT number FROM localrag.libraries WHERE name = 'alpha'"
        ).fetchone()

        def plan(statement: str) -> str:
            return "\n".join(row[0] for row in node.execute(f"EXPLAIN {statement}").fetchall())

        with transaction_of(node, "ann"):
            node.execute(f"SET LOCAL search_path TO {home(number)}")
            query_plan = plan("SELECT c.id FROM chunks c JOIN documents d ON d.number = c.document")
            assert "InitPlan" in query_plan
            assert "may(" not in query_plan.replace("InitPlan", "")  # in no filter of a row
            assert "Append" not in query_plan  # the partition itself, and no other
            # What is asked for still finds its index under the policies.
            node.execute("SET LOCAL enable_seqscan = off")
            for sql, column in (
                ("SELECT 1 FROM chunks WHERE id = 5", "id = 5"),
                ("SELECT 1 FROM chunks WHERE id IN (5, 6, 7)", "id = ANY"),
                ("SELECT 1 FROM documents WHERE id = 'x'", "id = 'x'"),
                ("SELECT 1 FROM sources WHERE path >= 'a' AND path < 'b'", "path >= 'a'"),
            ):
                lines = plan(sql).splitlines()
                assert any("Index Cond" in line and column in line for line in lines), lines


def test_secrets_and_what_they_are_worth(team: Team, root: Any) -> None:
    serving = Users(replace(team.place, user="node"))
    with serving, team.users as users:
        ann = serving.by_token(team.tokens["ann"])
        assert ann is not None
        assert (ann.name, dict(ann.roles)) == ("ann", {"alpha": "reader"})
        assert ann.may("alpha", "reader")
        assert not ann.may("alpha", "editor")
        assert not ann.may("beta", "reader")
        assert serving.by_name("ann") == ann
        for wrong in ("", "x", team.tokens["ann"][:-1], "\0", "\udc80", "x" * 10_000):
            assert serving.by_token(wrong) is None
            assert serving.by_name(wrong) is None
        session = serving.begin_session(team.tokens["ann"])
        assert serving.by_token(session) == ann
        for wrong in ("ann", session, ""):  # one session begins no other
            with pytest.raises(ForbiddenError):
                serving.begin_session(wrong)
        serving.end_session(session)
        assert serving.by_token(session) is None
        # Only hashes are there, and neither role nor the server's account reads them.
        with raw(team.place, "keeper") as keeper:
            dump = str(keeper.execute("SELECT * FROM localrag.users").fetchall())
            assert team.tokens["ann"] not in dump
            sessions = [serving.begin_session(team.tokens[name]) for name in ("ann", "bob")]
            keeper.execute(
                'UPDATE localrag.sessions SET ends = now() WHERE "user" = '
                "(SELECT number FROM localrag.users WHERE name = 'bob')"
            )
        assert serving.by_token(sessions[1]) is None  # it has run out
        with raw(team.place) as node:
            for role in (policies.MEMBER, policies.SERVER, "node"):
                for table in ("users", "sessions", "grants", "audit", "audit_rules"):
                    node.execute(f"BEGIN; SET LOCAL ROLE {role}")
                    outcome = attempt(node, f"SELECT count(*) FROM localrag.{table}")
                    node.execute("ROLLBACK")
                    assert outcome == "InsufficientPrivilege", (role, table)
        assert serving.by_token(sessions[0]) == ann
        renewed = users.renew("ann")
        assert serving.by_token(team.tokens["ann"]) is None
        assert serving.by_token(sessions[0]) is None
        assert serving.by_token(renewed) == ann
        session = serving.begin_session(renewed)
        with team.serve("alpha") as library, acting_as("ann"):
            assert library.counts().documents == 2
            users.remove("ann")
            with pytest.raises(LibraryNotFoundError):  # at once, in what is open already
                library.counts()
        for secret in (renewed, session):
            assert serving.by_token(secret) is None
        assert serving.by_name("ann") is None
        with pytest.raises(UsageError, match="no user ann"):
            users.renew("ann")
        again = users.add("ann")  # another one of this name has nothing of the first
        assert serving.by_token(again) is not None
        assert not serving.by_token(again).roles  # type: ignore[union-attr]


def test_who_changes_users_out_of_reach_holds_nothing_for_long(team: Team) -> None:
    if "TEST_BEHIND_POOLER" in os.environ:
        pytest.skip("only without a pooler, which has settings of its own")
    with Users(replace(team.place, host="127.0.0.1")) as users, users._changing() as inner:
        assert inner.execute("SHOW tcp_keepalives_idle").fetchone() == ("10",)


def test_what_a_server_and_a_member_cannot_call(team: Team) -> None:
    calls = {
        policies.MEMBER: (
            "known('x'::bytea)",
            "named('ann')",
            "begin_session('y'::bytea, 'x'::bytea)",
            "end_session('x'::bytea)",
            "record('ann', 'alpha', 'search', NULL, NULL)",
            "prune()",
        ),
        policies.SERVER: ("prune()", "may(1, 'reader')"),
        "stranger": ("may(1, 'reader')", "known('x'::bytea)"),
    }
    with raw(team.place, "postgres") as session:
        for role, statements in calls.items():
            for call in statements:
                session.execute(f"BEGIN; SET LOCAL ROLE {role}")
                outcome = attempt(session, f"SELECT count(*) FROM localrag.{call}")
                session.execute("ROLLBACK")
                assert outcome == "InsufficientPrivilege", (role, call)
        # A table of the caller's own does not take the place of ours.
        session.execute(f"BEGIN; SET LOCAL ROLE {policies.MEMBER}")
        session.execute("SELECT set_config(%s, 'bob', true)", [policies.USER])
        (number,) = session.execute("SELECT 1").fetchone()
        session.execute('CREATE TEMP TABLE grants("user" int, library int, role text)')
        session.execute("INSERT INTO grants VALUES (1, 1, 'owner'), (2, 1, 'owner')")
        session.execute("SET LOCAL search_path TO pg_temp, localrag")
        assert session.execute("SELECT localrag.role(%s)", [number]).fetchone() == (None,)
        session.execute("ROLLBACK")


def test_conversations_are_of_who_had_them(team: Team) -> None:
    team.users.grant("bob", "alpha", "editor")
    with team.serve("alpha") as library:
        with acting_as("bob"):
            first, common = sorted(library.documents(), key=lambda item: item.sources[0])
            assert library.keeps_history
        ids = [first.id, common.id]
        for user, question in (("ann", "a question of ann"), ("bob", "a question of bob")):
            with acting_as(user):
                assert library.keep_answer("key", question, "{}", ids, after=0)
                assert [answer.question for answer in library.kept_answers("key")] == [question]
                (conversation,) = library.conversations()
                assert question in map(str, astuple(conversation))
        with acting_as("ann"):
            assert library.forget_conversations()
            assert not library.conversations()
            assert library.keep_answer("key", "another of ann", "{}", [first.id], after=0)
        with acting_as("bob"):
            assert len(library.conversations()) == 1
            # What was written from a document goes with it, whosever it is.
            library.remove(sources=[first.sources[0]])
            assert not library.conversations()
        with acting_as("ann"):
            assert not library.conversations()
    with raw(team.place, "keeper") as keeper:
        assert keeper.execute("SELECT count(*) FROM localrag.answers").fetchone() == (0,)


def test_conversations_end_with_their_user(team: Team) -> None:
    with team.serve("alpha") as library:
        with acting_as("ann"):
            (first, *_) = library.documents()
            assert library.keep_answer("key", "a question of ann", "{}", [first.id], after=0)
        team.users.remove("ann")
        team.users.add("ann")
        team.users.grant("ann", "alpha", "owner")
        with acting_as("ann"):
            assert not library.conversations()
    with raw(team.place, "keeper") as keeper:
        for table in ("answers", "answer_documents"):
            assert keeper.execute(f"SELECT count(*) FROM localrag.{table}").fetchone() == (0,)


def test_conversations_stay_with_the_users_of_the_database(team: Team, tmp_path: Any) -> None:
    """A user elsewhere who has the same name is somebody else."""
    with team.serve("alpha") as library, acting_as("ann"):
        (first, *_) = library.documents()
        assert library.keep_answer("key", "a question of ann", "{}", [first.id], after=0)
    database_catalogue = PostgresCatalogue(called(team.place, "alpha"))
    with (
        closing(database_catalogue),
        database_catalogue.write() as transaction,
    ):  # one of before there were users
        values = (2, "before", "?", "2026-11-23", "{}", "")
        transaction.sql.execute("INSERT INTO answers VALUES (?, ?, ?, ?, ?, ?)", values)
        transaction.sql.execute("INSERT INTO answer_documents VALUES (?, ?)", (2, "any"))
    migrate_library(called(team.place, "alpha"), tmp_path / "folder", indexes=indexes())
    with open_library(tmp_path / "folder") as library:
        assert [conversation.key for conversation in library.conversations()] == ["before"]
    folder_catalogue = SqliteCatalogue(tmp_path / "folder" / CATALOGUE)
    with closing(folder_catalogue), folder_catalogue.write() as transaction:
        values = (3, "theirs", "?", "2026-11-23", "{}", "ann")
        transaction.sql.execute("INSERT INTO answers VALUES (?, ?, ?, ?, ?, ?)", values)
    migrate_library(tmp_path / "folder", called(team.place, "back"), indexes=indexes())
    with raw(team.place, "keeper") as keeper:
        query = "SELECT asker FROM localrag.answers ORDER BY asker"
        assert keeper.execute(query).fetchall() == [("",), ("",), ("ann",)]
        query = "SELECT answer FROM localrag.answer_documents ORDER BY answer"
        assert keeper.execute(query).fetchall() == [(1,), (2,), (2,)]


def test_the_log_of_who_asked_what(team: Team) -> None:
    with Users(replace(team.place, user="node")) as serving, team.users as users:
        serving.record("ann", "alpha", "search", "a private question")
        assert not users.keeps_words("alpha")
        assert users.keeps_words("alpha", on=True)
        serving.record("ann", "alpha", "ask", "a question\0 for the record")
        serving.record("bob", "beta", "ask", "what nobody writes down")
        serving.record("bob", "nowhere", "search", "words")
        requests = users.asked()
        assert [
            (request.user, request.library, request.what, request.words) for request in requests
        ] == [
            ("ann", "alpha", "search", None),
            ("ann", "alpha", "ask", "a question\N{REPLACEMENT CHARACTER} for the record"),
            ("bob", "beta", "ask", None),
            ("bob", "nowhere", "search", None),
        ]
        assert [request.user for request in users.asked("beta")] == ["bob"]
        assert len(users.asked(user="bob")) == 2
        assert not users.asked(since=datetime.now(UTC) + timedelta(hours=1))
        assert [request.what for request in users.asked(most=1)] == ["search"]
        assert not users.keeps_words("alpha", on=False)
        assert [request.words for request in users.asked("alpha")] == [None, None]
        with raw(team.place, "keeper") as keeper:
            keeper.execute("UPDATE localrag.audit SET at = now() - interval '10 days'")
        assert users.kept_days() == policies.KEPT_DAYS
        assert len(users.asked()) == 4
        assert users.kept_days(9) == 9
        assert not users.asked()
        with raw(team.place) as node:
            node.execute(f"BEGIN; SET LOCAL ROLE {policies.SERVER}")
            for statement in (
                "INSERT INTO localrag.audit(\"user\", name, what) VALUES ('x', 'x', 'x')",
                "UPDATE localrag.audit SET what = ''",
                "DELETE FROM localrag.audit",
            ):
                assert attempt(node, statement) == "InsufficientPrivilege"
            node.execute("ROLLBACK")
        with pytest.raises(ForbiddenError, match="does not own its tables"):
            serving.asked()


def test_a_database_without_users_asks_for_nothing(
    without_roles: None, place: Database, root: Any
) -> None:
    roles = "SELECT count(*) FROM pg_roles WHERE rolname ~ '^localrag_(member|server)$'"
    with open_library(place, create=False, serving=True) as library, Users(place) as users:
        assert not users.are_used()
        assert library.counts().documents == 2
        with acting_as("whoever"):
            assert library.counts().documents == 2
        with pytest.raises(LibraryError, match="has no users yet"):
            users.all()
        assert root.execute(roles).fetchone() == (0,)
        with pytest.raises(UsageError, match="1 to 100 characters"):
            users.add("two\nlines")
        users.add("ann")
        assert root.execute(roles).fetchone() == (2,)
        # What is open already minds it from the next statement on.
        with pytest.raises(UsersBeganError, match="since this server began"):
            library.counts()
        with acting_as("ann"), pytest.raises(LibraryNotFoundError):
            library.counts()
        users.grant("ann", "alpha", "reader")
        with acting_as("ann"):
            assert library.counts().documents == 2
        users.remove("ann")
        assert users.are_used()  # and stays so: nothing is open to all by a removal
        assert not users.all()


def test_accounts_that_do_not_own_the_tables(place: Database, root: Any) -> None:
    with Users(place) as users:
        users.add("ann")
        users.grant("ann", "alpha", "reader")
    with raw(place, "keeper") as keeper:
        keeper.execute("GRANT USAGE ON SCHEMA localrag TO stranger")
        keeper.execute("GRANT SELECT ON ALL TABLES IN SCHEMA localrag TO stranger")
        (number,) = keeper.execute(
            "SELECT number FROM localrag.libraries WHERE name = 'alpha'"
        ).fetchone()
        keeper.execute(f"GRANT USAGE ON SCHEMA {home(number)} TO stranger")
        keeper.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {home(number)} TO stranger")
        keeper.execute(f"GRANT CONNECT ON DATABASE {place.name} TO stranger")
    stranger_place = replace(place, user="stranger")
    with raw(stranger_place, "stranger") as session:  # who may read the tables sees no row of them
        assert session.execute("SELECT count(*) FROM localrag.documents").fetchone() == (0,)
        row = session.execute(f"SELECT count(*) FROM {home(number)}.documents").fetchone()
        assert row == (0,)
    for serving in (False, True):
        with pytest.raises(LibraryError, match="may not act for users") as error:
            open_library(stranger_place, create=False, serving=serving)
        assert "GRANT localrag_member, localrag_server TO" in error.value.hint
    root.execute(f"GRANT {policies.MEMBER}, {policies.SERVER} TO stranger")
    with open_library(stranger_place, create=False) as library:
        with pytest.raises(LibraryError, match="does not own its tables"):
            library.counts()
        with acting_as("ann"):
            assert library.counts().documents == 2
    for command in (("users",), ("users", "add", "bob"), ("grant", "ann", "owner"), ("audit",)):
        with pytest.raises(ForbiddenError, match="does not own its tables") as error:
            run(*command, "--library", str(stranger_place))
        assert "Name the owner in the URL" in error.value.hint


def test_roles_that_an_administrator_has_to_make(
    without_roles: None, place: Database, root: Any
) -> None:
    root.execute("ALTER ROLE keeper NOCREATEROLE")  # for the tests that follow it has no need of it
    with Users(place) as users:
        with pytest.raises(LibraryError, match="may not act for users") as error:
            users.add("ann")
        assert not users.are_used()
        root.execute(f"CREATE ROLE {policies.MEMBER} NOLOGIN BYPASSRLS")
        with pytest.raises(LibraryError, match="protects nothing"):
            users.add("ann")
        root.execute(f"ALTER ROLE {policies.MEMBER} NOBYPASSRLS LOGIN")
        with pytest.raises(LibraryError, match="can log in"):
            users.add("ann")
        root.execute(f"DROP ROLE {policies.MEMBER}")
        statements = error.value.hint.partition("CREATE")
        for statement in (statements[1] + statements[2]).format(**error.value.values).split(";"):
            text = statement.replace("and for each account:", "").strip()
            if text:
                root.execute(text)
        users.add("ann")
        users.grant("ann", "alpha", "reader")
    with open_library(place, create=False, serving=True) as library, acting_as("ann"):
        assert library.counts().documents == 2


def test_who_acts_for_users_of_another_database_does_not_get_in(place: Database, root: Any) -> None:
    """The roles are those of the whole server, and by default all may connect."""
    if "TEST_BEHIND_POOLER" in os.environ:
        pytest.skip("only without a pooler, which remembers that it was refused")
    root.execute(f"GRANT {policies.MEMBER}, {policies.SERVER} TO node")
    node_place = replace(place, user="node")
    with Users(place) as users, Users(node_place) as serving:
        assert users.is_open()
        users.add("ann")
        assert not users.is_open()
        with pytest.raises(LibraryUnreachableError, match="permission denied") as error:
            serving.by_name("ann")
        root.execute(error.value.hint.partition("runs: ")[2].format(**error.value.values))
        assert serving.by_name("ann") is not None


def test_users_are_not_begun_where_all_may_connect(
    place: Database, root: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by an account that owns the tables, and not the database."""
    root.execute(f"ALTER DATABASE {place.name} OWNER TO postgres")
    with Users(place) as users:
        with pytest.raises(LibraryError, match="Every account of the server") as error:
            users.add("ann")
        assert not users.are_used()
        assert f'GRANT CONNECT ON DATABASE "{place.name}" TO "keeper"' in str(
            error.value.hint.format(**error.value.values)
        )
        root.execute(f"GRANT CONNECT ON DATABASE {place.name} TO keeper")
        root.execute(f"REVOKE CONNECT ON DATABASE {place.name} FROM PUBLIC")
        users.add("ann")
    # As where users were begun by an earlier version.
    monkeypatch.setenv("LOCALRAG_LANG", "en")
    assert "Every account" not in run("users", "--library", str(place))[2]
    root.execute(f"GRANT CONNECT ON DATABASE {place.name} TO PUBLIC")
    assert "Every account" in run("users", "--library", str(place))[2]


def test_libraries_that_come_and_go(team: Team) -> None:
    later = called(team.place, "later")
    with open_library(later) as library:
        add(library, document("what came later", source="later.txt"))
    with raw(team.place, "keeper") as keeper:
        (open_tables,) = keeper.execute(
            "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname ~ '^localrag_[0-9]+$' AND c.relkind = 'r' "
            "AND NOT (relrowsecurity AND relforcerowsecurity)"
        ).fetchone()
        assert open_tables == 0
    with team.serve("later") as library:
        with acting_as("ann"), pytest.raises(LibraryNotFoundError):
            library.counts()
        team.users.grant("ann", "later", "editor")
        with acting_as("ann"):
            assert library.remove(sources=["later.txt"]).purged
    team.users.keeps_words("later", on=True)
    team.users.record("ann", "later", "ask", "who is to go?")
    with closing(PostgresCatalogue(later)) as catalogue:
        catalogue.drop()
    assert [request.words for request in team.users.asked("later")] == [None]
    assert [user.roles for user in team.users.all() if user.name == "ann"] == [{"alpha": "reader"}]
    with pytest.raises(LibraryNotFoundError):
        team.users.grant("ann", "later", "reader")
    with open_library(later):  # another one of that name
        pass
    assert team.users.asked("later") == []
    assert [user.roles for user in team.users.all() if user.name == "ann"] == [{"alpha": "reader"}]


def test_moving_to_and_from_a_database_with_users(team: Team, tmp_path: Any) -> None:
    migrate_library(called(team.place, "alpha"), tmp_path / "folder", indexes=indexes())
    migrate_library(tmp_path / "folder", called(team.place, "back"), indexes=indexes())
    team.users.grant("cid", "back", "owner")
    with team.serve("back") as library:
        with acting_as("cid"):
            assert library.counts().documents == 2
        with acting_as("ann"), pytest.raises(LibraryNotFoundError):
            library.counts()
    assert check_library(called(team.place, "back"), indexes()).ok


def test_the_owner_of_the_tables_in_a_users_transaction(team: Team) -> None:
    """Who has not taken the user's role sees nothing there, though the tables are theirs."""
    with raw(team.place, "keeper") as keeper:
        keeper.execute("BEGIN")
        assert keeper.execute("SELECT count(*) FROM localrag.documents").fetchone() == (6,)
        keeper.execute("SELECT set_config(%s, 'ann', true)", [policies.USER])
        assert keeper.execute("SELECT count(*) FROM localrag.documents").fetchone() == (0,)
        keeper.execute("ROLLBACK")


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def test_the_commands(place: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("LOCALRAG_LANG", "en")
    url = str(place)
    assert run("users", "--library", url)[1].startswith("There are no users.")
    code, out, err = run("users", "add", "ann", "--library", url)
    token = out.strip()
    assert code == 0
    assert re.fullmatch(r"[\w-]{43}", token)
    assert "The database now has users" in err
    assert "not shown again" in err
    assert f"localrag grant ann reader --library '{url}'" in err  # `#` begins a comment in a shell
    err = run("users", "add", "dee $x", "--library", url)[2]
    assert f"localrag grant 'dee $x' reader --library '{url}'" in err
    more = url.replace("#", ("&" if "?" in url else "?") + "sslrootcert=/the%20ca.crt#")
    err = run("users", "add", "eve", "--library", more)[2]
    (pasted,) = re.findall("localrag (grant .*)", err)
    assert run(*shlex.split(pasted))[1] == "eve is now reader of alpha.\n"
    assert run("users", "remove", "eve", "--library", more)[0] == 0
    assert more in pasted.replace("the ca", "the%20ca")
    assert run("users", "remove", "dee $x", "--library", url)[0] == 0
    record = json.loads(run("users", "add", "bob", "--library", url, "--json")[1])
    assert record["user"] == "bob"
    with pytest.raises(UsageError, match="already"):
        run("users", "add", "bob", "--library", url)
    assert run("grant", "ann", "editor", "--library", url)[1] == "ann is now editor of alpha.\n"
    assert run("grant", "bob", "reader", "--library", url, "--json")[0] == 0
    assert run("grant", "bob", "none", "--library", url)[1] == "bob may no longer use alpha.\n"
    with pytest.raises(UsageError, match="no user dan"):
        run("grant", "dan", "reader", "--library", url)
    assert run("grant", "ann", "admin", "--library", url)[0] == 2
    listing = json.loads(run("users", "list", "--library", url, "--json")[1])["users"]
    assert [(user["name"], user["roles"]) for user in listing] == [
        ("ann", {"alpha": "editor"}),
        ("bob", {}),
    ]
    # Named once, for the sub-command too; or in the environment.
    assert "alpha: editor" in run("users", "--library", url, "list")[1]
    monkeypatch.setenv("LOCALRAG_LIBRARY", url)
    assert "alpha: editor" in run("users")[1]
    renewed = run("users", "renew", "ann")[1].strip()
    with Users(place) as users:
        assert users.by_token(token) is None
        assert users.by_token(renewed) is not None
        assert "with the words" in run("audit", "--texts", "on")[2]
        users.record("ann", "alpha", "search", "harbour \x1b[2J")
        assert "90 days, with the words" in run("audit")[2]
        assert "harbour" in run("audit", "--user", "ann")[1]
        assert "harbour" not in run("audit", "--user", "bob")[1]
        (entry,) = json.loads(run("audit", "--since", "2026-01-01", "--json")[1])["list"]
        assert (entry["user"], entry["what"]) == ("ann", "search")
        assert "seconds" not in entry
        with pytest.raises(UsageError, match="no user anne"):
            run("audit", "--user", "anne")
        for action in get_args(Action):
            users.record("ann", "alpha", action)
        plain = re.compile(rf"\b({'|'.join(get_args(Action))})\b")
        assert not plain.search(run("audit", "--user", "ann")[1])
        with spoken_to("zh"):
            output = run("audit", "--user", "ann")[1]
            assert " 检索 " in output
            assert not plain.search(output)
        assert not json.loads(run("audit", "--since", "2999-01-01", "--json")[1])["list"]
        assert "7 days, without" in run("audit", "--texts", "off", "--keep", "7")[2]
        assert "harbour" not in run("audit")[1]
    assert run("users", "remove", "ann")[1] == "ann is no longer a user.\n"
    assert [user["name"] for user in json.loads(run("users", "--json")[1])["users"]] == ["bob"]
    for command in (("users",), ("grant", "bob", "reader"), ("audit",)):
        with pytest.raises(UsageError, match="libraries in a database"):
            run(*command, "--library", str(tmp_path))


def test_work_is_queued_for_an_editor(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCALRAG_LANG", "en")
    beta = str(called(team.place, "beta"))
    team.users.add("d d")
    team.users.grant("ann", "beta", "reader")

    def refused(*words: str) -> str:
        with pytest.raises(UsageError) as error:
            run("rebuild", *words, "--library", beta)
        return str(error.value)

    assert "Name one with --as USER" in refused("--queue")
    assert "There is no user bbo." in refused("--queue", "--as", "bbo")
    message = refused("--queue", "--as", "ann")
    assert "ann is reader of beta, and this takes editor." in message
    assert f"`localrag grant ann editor --library '{beta}'`" in message
    message = refused("--queue", "--as", "d d")
    assert "d d may not use beta" in message
    assert f"`localrag grant 'd d' editor --library '{beta}'`" in message
    for command in (("rebuild",), ("add", ".")):
        with pytest.raises(UsageError, match="no server is asked"):
            run(*command, "--as", "bob", "--library", beta)
    assert run("rebuild", "--queue", "--as", "bob", "--library", beta)[0] == 0


def test_jobs_are_seen_by_readers_and_cancelled_by_editors(team: Team) -> None:
    with open_library(called(team.place, "beta"), create=False) as owned:
        assert owned.jobs is not None
        number = owned.jobs.put("add", Arguments(("/docs",)), "bob")
    with team.serve("beta") as library, team.serve("alpha") as other:
        jobs = library.jobs
        assert jobs is not None
        assert other.jobs is not None
        with acting_as("ann"):
            assert other.jobs.all() == []
            for work in (jobs.all, lambda: jobs.cancel(number)):
                with pytest.raises(LibraryNotFoundError):
                    work()
        with pytest.raises(RuntimeError, match="for nobody"):
            jobs.all()
        taken_job = jobs.take("node")
        assert taken_job is not None
        assert (taken_job.number, taken_job.asked_by) == (number, "bob")
        for identity in (acting_as("bob"), acting_as_server()):
            with identity, pytest.raises(LibraryError, match="does not allow"):
                jobs.put("rebuild", Arguments())
        team.users.grant("bob", "beta", "reader")
        with acting_as("bob"):
            assert [job.number for job in jobs.all()] == [number]
            with pytest.raises(UsageError):
                jobs.cancel(number)
        assert jobs.renew(taken_job, Progress(files=3))
        team.users.grant("bob", "beta", "editor")
        with acting_as("bob"):
            jobs.cancel(number)
        assert not jobs.renew(taken_job, Progress(files=3))
    with raw(team.place) as node, transaction_of(node, "bob"):
        for column in ("arguments", "asked_by", "library", "kind", "node"):
            assert attempt(node, f"UPDATE localrag.jobs SET {column} = {column}") in NOTHING


@pytest.mark.parametrize("rights", ["of now", "of an earlier version"])
def test_a_server_forgets_jobs_that_ended_long_ago_and_no_others(team: Team, rights: str) -> None:
    with open_library(called(team.place, "beta"), create=False) as owned:
        assert owned.jobs is not None
        old, recent, waiting = (owned.jobs.put("add", Arguments(), "bob") for _ in range(3))
        owned.jobs.cancel(old)
        owned.jobs.cancel(recent)
        with raw(team.place, "keeper") as keeper:
            if rights != "of now":
                keeper.execute("REVOKE DELETE ON localrag.jobs FROM localrag_server")
            keeper.execute(
                f"UPDATE localrag.jobs SET ended = ended - interval '31 days' WHERE number = {old}"
            )
        with team.serve("beta") as library:
            assert library.jobs is not None
            assert library.jobs.take("node") is not None
        left = [recent, waiting] if rights == "of now" else [old, recent, waiting]
        assert [job.number for job in owned.jobs.all()] == left
    if rights == "of now":
        with raw(team.place) as node, transaction_of(node, "bob"):
            assert attempt(node, "DELETE FROM localrag.jobs") in NOTHING


def test_work_of_a_user_who_is_removed_is_not_done_for_the_next_of_that_name(team: Team) -> None:
    with open_library(called(team.place, "beta"), create=False) as owned:
        assert owned.jobs is not None
        number = owned.jobs.put("add", Arguments(("/private/of bob.txt",)), "bob")
        team.users.remove("bob")
        assert [job.state for job in owned.jobs.all()] == ["cancelled"]
        late = owned.jobs.put("add", Arguments(("/private/late.txt",)), "bob")
        team.users.add("bob")
        team.users.grant("bob", "beta", "editor")
        assert [(job.number, job.state) for job in owned.jobs.all()] == [
            (number, "cancelled"),
            (late, "cancelled"),
        ]
        assert owned.jobs.take("node") is None


@pytest.mark.parametrize("by", ["a user", "the owner of the tables"])
def test_no_ended_job_names_what_was_removed(team: Team, by: str) -> None:
    beta = called(team.place, "beta")
    with team.serve("beta") as library, open_library(beta, create=False) as owned:
        assert owned.jobs is not None
        for path in ("/in/kept.txt", "/in/secret.txt"):
            add(owned, document(f"words of {path}", source=path))
        owned.jobs.put("add", Arguments(("/in/kept.txt", "/in/secret.txt")), "bob")
        taken_job = owned.jobs.take("node")
        assert taken_job is not None
        owned.jobs.done(taken_job, Progress())
        owned.jobs.put("add", Arguments(("/in",)), "bob")
        taken_job = owned.jobs.take("node")
        assert taken_job is not None
        wrong = LibraryError("The file {path} cannot be read.", path="/in/secret.txt")
        owned.jobs.failed(taken_job, Progress(), wrong, again=False)
        owned.jobs.put("add", Arguments(("/in/secret.txt",)), "bob")
        if by == "a user":
            with acting_as("bob"):
                library.remove(sources=["/in/secret.txt"])
                assert library.jobs is not None
                jobs = library.jobs.all()
        else:
            owned.remove(sources=["/in/secret.txt"])
            jobs = owned.jobs.all()
        assert [job.arguments.paths for job in jobs] == [
            ("/in/kept.txt", "[…]"),
            ("/in",),
            ("/in/secret.txt",),  # which is still to be added
        ]
        assert [job.fault for job in jobs] == [None] * 3
        assert isinstance(owned._catalogue, PostgresCatalogue)
        number = owned._catalogue.number
        with raw(team.place) as node, transaction_of(node, "ann"):
            blank = f"SELECT localrag.blank_jobs({number}, '{{/in}}')"
            assert attempt(node, blank) == "InsufficientPrivilege"


def test_users_of_an_earlier_version_get_what_is_new(team: Team) -> None:
    with raw(team.place, "keeper") as keeper:
        keeper.execute("DROP FUNCTION localrag.blank_jobs")
        keeper.execute("UPDATE localrag.version SET number = number - 1")
    open_library(team.place, create=False).close()
    with team.serve("beta") as library, acting_as("bob"):
        assert library.remove(sources=["common.txt"]).purged


def test_a_node_has_the_rights_of_who_asked(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that they have when it is done."""
    texts = iter(("first words", "second words"))

    def work(engine: Any, *_: object) -> None:
        text = next(texts)
        add(engine.library, document(text, source=f"{text}.txt"))

    monkeypatch.setattr("localrag.server.node._work", work)
    with (
        open_library(called(team.place, "beta"), create=False) as owned,
        team.serve("beta") as library,
    ):
        jobs, engine = owned.jobs, Engine(library, Settings())
        assert jobs is not None
        worker = Node(Libraries([library.location], lambda _: engine))
        jobs.put("rebuild", Arguments(), "bob")
        assert worker.look(engine)
        team.users.grant("bob", "beta", "reader")
        jobs.put("rebuild", Arguments(), "bob")
        assert worker.look(engine)
        job, failure = jobs.all()
        assert (job.state, job.fault) == ("done", None)
        assert "not change it" in str(failure.fault)
        assert owned.counts().documents == 3
        logged = [(request.user, request.library, request.what) for request in team.users.asked()]
        assert logged == [("bob", "beta", "rebuild")] * 2
