"""Who may use which library of a database: users, their secrets, their grants, and what they asked.

A user is a name, not an account of PostgreSQL. Secrets are 256 random bits and kept as SHA-256.
The owner of the tables changes users; a server asks whose a secret is and writes the log, as the
role for that (`policies.SERVER`), and can read neither secrets nor log.
"""

# ruff: noqa: S608 - what is put into a statement here are names of our own schema

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from localrag.egress.databases import Database
from localrag.errors import (
    ForbiddenError,
    LibraryError,
    LibraryNotFoundError,
    UsageError,
)
from localrag.library.acting import Action, Role, User
from localrag.library.backends.postgres import policies
from localrag.library.backends.postgres.catalogue import (
    SAFE,
    PostgresCatalogue,
    altered_tables,
    heard,
    no_library,
)
from localrag.library.backends.postgres.dialect import SCHEMA
from localrag.library.backends.postgres.policies import MEMBER, SERVER
from localrag.library.catalogue.base import Row

if TYPE_CHECKING:
    import psycopg

_NAME = re.compile(r"[^\x00-\x20\x7f\ud800-\udfff](?:[^\x00-\x1f\x7f\ud800-\udfff]{0,98}\S)?")
_LONGEST_SECRET = 1000
_BITS = 256


@dataclass(frozen=True, slots=True)
class UserRecord:
    """A user, since when there is one, and the roles by library."""

    name: str
    since: datetime
    roles: Mapping[str, Role]


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """That somebody used a library; `words` only where its owner has these written down."""

    at: datetime
    user: str
    library: str
    what: str
    words: str | None


class Users:
    """The users of a database. May be used from several threads."""

    def __init__(self, database: Database) -> None:
        """`database` may name any of its libraries; the first user needs one that is there."""
        self.database = database
        self.server = database.host, database.port, database.name
        """What tells the database from others."""
        self._catalogue = PostgresCatalogue(database)

    def close(self) -> None:
        """Close all connections."""
        self._catalogue.close()

    def __enter__(self) -> Users:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # By the owner of the tables

    def are_used(self) -> bool:
        """Whether the database has users; from the first one on it does, though all are removed."""
        with self._session() as inner, heard(inner):
            return inner.execute(policies.USED).fetchone() == (True,)

    def is_open(self) -> bool:
        """Whether accounts may connect that nobody has named.

        The first user ends that, but did not in earlier versions.
        """
        with self._session() as inner, heard(inner):
            return inner.execute(policies.OPEN).fetchone() == (True,)

    def add(self, name: str) -> str:
        """A new user, who may use no library yet; the token is to be had only here.

        The first one turns row-level security on for all libraries of the database, and lets only
        accounts connect to it that are named. Raises UsageError for a name that is taken or unfit,
        LibraryNotFoundError where there is nothing yet, LibraryError where this account may not.
        """
        if not _NAME.fullmatch(name):
            raise UsageError(
                "The name of a user has 1 to 100 characters on one line, and no space around it."
            )
        self._turn_on()
        token = _secret()
        with self._changing() as inner:
            added = inner.execute(
                f"INSERT INTO {SCHEMA}.users(name, token) VALUES (%s, %s) ON CONFLICT (name) "
                "DO NOTHING RETURNING 1",
                [name, _hash_of(token)],
            ).fetchone()
            if added is not None:  # of somebody who had it before, and asked as they were removed
                _forget_asked(inner, name)
        if added is None:
            raise UsageError(
                "There is a user {name} already.",
                hint="A new token: localrag users renew NAME.",
                name=name,
            )
        return token

    def renew(self, name: str) -> str:
        """Another token; the old one and all sessions end.

        Raises UsageError for an unknown user.
        """
        token = _secret()
        with self._changing() as inner:
            number = self._number(inner, name)
            inner.execute(f'DELETE FROM {SCHEMA}.sessions WHERE "user" = %s', [number])
            inner.execute(
                f"UPDATE {SCHEMA}.users SET token = %s WHERE number = %s", [_hash_of(token), number]
            )
        return token

    def remove(self, name: str) -> None:
        """Forget a user with token, sessions, grants and kept answers; what was logged stays.

        What nodes do or have still to do for them is cancelled. Raises UsageError for an unknown
        user.
        """
        with self._changing() as inner:
            number = self._number(inner, name)
            _forget_asked(inner, name)
            inner.execute(f"DELETE FROM {SCHEMA}.users WHERE number = %s", [number])

    def all(self) -> list[UserRecord]:
        """All users by name."""
        with self._changing() as inner:
            rows = inner.execute(
                f"SELECT u.name, u.since, l.name, g.role FROM {SCHEMA}.users u "
                f'LEFT JOIN {SCHEMA}.grants g ON g."user" = u.number '
                f"LEFT JOIN {SCHEMA}.libraries l ON l.number = g.library ORDER BY u.name, l.name"
            ).fetchall()
        records: dict[str, UserRecord] = {}
        for name, since, library, role in rows:
            record = records.setdefault(name, UserRecord(name, since, {}))
            if library is not None:
                records[name] = UserRecord(name, since, {**record.roles, library: role})
        return list(records.values())

    def grant(self, user: str, library: str, role: Role | None) -> None:
        """Let a user be this in a library, and nothing else there; None for nothing at all.

        Raises UsageError for an unknown user, LibraryNotFoundError for an unknown library.
        """
        with self._changing() as inner:
            number, place = self._number(inner, user), self._library(inner, library)
            inner.execute(
                f'DELETE FROM {SCHEMA}.grants WHERE "user" = %s AND library = %s', [number, place]
            )
            if role is not None:
                inner.execute(
                    f"INSERT INTO {SCHEMA}.grants VALUES (%s, %s, %s)", [number, place, role]
                )

    def asked(
        self,
        library: str | None = None,
        *,
        user: str | None = None,
        since: datetime | None = None,
        most: int = 1000,
    ) -> list[AuditRecord]:
        """The newest entries of the log, oldest first; of one library, one user, from then on.

        Of a library that is gone there are entries only until another one has its name.
        """
        with self._changing() as inner:
            inner.execute(f"SELECT {SCHEMA}.prune()")
            rows = inner.execute(
                'SELECT at, "user", name, what, words FROM '
                f"{SCHEMA}.audit WHERE (%(library)s::text IS NULL OR name = %(library)s "
                f"AND coalesce((SELECT l.number FROM {SCHEMA}.libraries l "
                "WHERE l.name = %(library)s), library) IS NOT DISTINCT FROM library) "
                'AND (%(user)s::text IS NULL OR "user" = %(user)s) '
                "AND (%(since)s::timestamptz IS NULL OR at >= %(since)s) "
                "ORDER BY at DESC LIMIT %(most)s",
                {"library": library, "user": user, "since": since, "most": most},
            ).fetchall()
        return [AuditRecord(*row) for row in reversed(rows)]

    def keeps_words(self, library: str, *, on: bool | None = None) -> bool:
        """Whether the log has the words of what is asked of a library; `on` changes that.

        Turned off, those that are there go.
        """
        with self._changing() as inner:
            number = self._library(inner, library)
            if on is not None:
                inner.execute(
                    f"UPDATE {SCHEMA}.libraries SET words = %s WHERE number = %s", [on, number]
                )
            if on is False:
                inner.execute(
                    f"UPDATE {SCHEMA}.audit SET words = NULL WHERE library = %s", [number]
                )
            row = inner.execute(
                f"SELECT words FROM {SCHEMA}.libraries WHERE number = %s", [number]
            ).fetchone()
        return row == (True,)

    def kept_days(self, days: int | None = None) -> int:
        """How many days the log goes back; `days` changes that, and drops what is older."""
        with self._changing() as inner:
            if days is not None:
                inner.execute(f"UPDATE {SCHEMA}.audit_rules SET days = %s", [days])
                inner.execute(f"SELECT {SCHEMA}.prune()")
            row = inner.execute(f"SELECT days FROM {SCHEMA}.audit_rules").fetchone()
        return int(row[0]) if row else policies.KEPT_DAYS

    # By a server

    def by_token(self, token: str) -> User | None:
        """Whose token or session this is, with the roles as they are now."""
        if len(token) > _LONGEST_SECRET:
            return None
        return _user(self._rows_as_server(f"SELECT * FROM {SCHEMA}.known(%s)", _hash_of(token)))

    def by_name(self, name: str) -> User | None:
        """The user of this name, for who knows already that it is theirs."""
        if not _NAME.fullmatch(name):
            return None
        return _user(self._rows_as_server(f"SELECT * FROM {SCHEMA}.named(%s)", name))

    def begin_session(self, token: str) -> str:
        """A secret that stands for the token's user for `policies.SESSION_HOURS`.

        Raises ForbiddenError for what is nobody's token, such as the secret of a session.
        """
        secret = _secret()
        query = f"SELECT {SCHEMA}.begin_session(%s, %s)"
        if self._rows_as_server(query, _hash_of(token), _hash_of(secret)) != [(True,)]:
            raise ForbiddenError(
                "A session begins with the token of a user, not with another session.",
                hint="Sign in with your token.",
            )
        return secret

    def end_session(self, secret: str) -> None:
        """From now on it is nobody's; an unknown one is fine."""
        self._rows_as_server(f"SELECT {SCHEMA}.end_session(%s)", _hash_of(secret))

    def record(self, user: str, library: str, what: Action, words: str | None = None) -> None:
        """Log that a user did something with a library.

        The words are kept only where the library's owner has said so.
        """
        words = words and words.replace("\0", "\N{REPLACEMENT CHARACTER}")
        query = f"SELECT {SCHEMA}.record(%s, %s, %s, %s, NULL)"
        self._rows_as_server(query, user, library, what, words)

    def _rows_as_server(self, query: str, *values: Any) -> Sequence[Row]:
        """The rows of a question as the role of a server.

        In one round trip: the server waits for nobody in between, whoever falls silent. The values
        are no part of a statement, which PostgreSQL logs where it fails.
        """
        try:
            return self._query_as_server(query, values)
        except LibraryNotFoundError as error:  # it names a library, and nobody asked about that
            reason = str(error.__cause__).partition("\n")[0]
            raise altered_tables(str(self.database).partition("#")[0], reason) from error

    def _query_as_server(self, query: str, values: Sequence[Any]) -> Sequence[Row]:
        from psycopg import errors

        with self._session() as inner:
            try:
                with inner.pipeline():
                    inner.execute("BEGIN")
                    inner.execute(SAFE)
                    inner.execute(f"SET LOCAL ROLE {SERVER}")
                    asked = inner.execute(query, values)
                    inner.execute("COMMIT")
                return asked.fetchall()
            except (errors.InsufficientPrivilege, errors.InvalidParameterValue) as error:
                raise policies.no_roles(self.database, inner.info.user) from error

    # Inner parts

    @contextmanager
    def _session(self) -> Iterator[psycopg.Connection[Row]]:
        try:
            with self._catalogue.translated(), self._catalogue.session() as inner:
                yield inner
        except LibraryError as error:
            # Which of its libraries the server was given first is nothing to who asks.
            if "database" in error.values:
                error.values["database"] = str(self.database).partition("#")[0]
            raise

    @contextmanager
    def _changing(self) -> Iterator[psycopg.Connection[Row]]:
        """A transaction of the tables' owner.

        Raises LibraryError where there are no users, ForbiddenError for another account.
        """
        with self._session() as inner, heard(inner):
            if inner.execute(policies.USED).fetchone() != (True,):
                raise LibraryError(
                    "The database {database} has no users yet.",
                    hint="Add the first one: localrag users add NAME.",
                    database=str(self.database),
                )
            if inner.execute(f"SELECT {policies.OWNER}").fetchone() != (True,):
                raise ForbiddenError(
                    "The database {database} has users, and this account does not own its tables.",
                    hint="Name the owner in the URL: postgresql://OWNER@HOST/DATABASE#NAME.",
                    database=str(self.database),
                )
            yield inner

    def _number(self, inner: psycopg.Connection[Row], name: str) -> int:
        row = inner.execute(f"SELECT number FROM {SCHEMA}.users WHERE name = %s", [name]).fetchone()
        if row is None:
            raise UsageError(
                "There is no user {name}.", hint="See who there is: localrag users.", name=name
            )
        return int(row[0])

    def _library(self, inner: psycopg.Connection[Row], name: str) -> int:
        row = inner.execute(
            f"SELECT number FROM {SCHEMA}.libraries WHERE name = %s", [name]
        ).fetchone()
        if row is None:
            raise no_library(name, self.database, self._catalogue.names())
        return int(row[0])

    def _turn_on(self) -> None:
        """Make the roles, the tables and the policies, where they are missing."""
        if self.are_used():
            return
        self._catalogue.expect()
        if self._catalogue.needs_migration():
            self._catalogue.migrate()
        with self._session() as inner, heard(inner):
            self._catalogue.create_alone(inner)
            if inner.execute(f"SELECT {policies.OWNER}").fetchone() != (True,):
                raise LibraryError(
                    "Users are added by the account that owns the tables of {database}; {account} "
                    "does not.",
                    hint="Name the owner in the URL: postgresql://OWNER@HOST/DATABASE#NAME.",
                    database=str(self.database),
                    account=inner.info.user,
                )
            self._expect_roles(inner)
            self._close(inner)
            for statement in (*policies.tables(), *policies.functions()):
                inner.execute(statement)
            numbers = inner.execute(f"SELECT number FROM {SCHEMA}.libraries").fetchall()
            for number in (None, *(row[0] for row in numbers)):
                policies.protect(inner, number)

    def _expect_roles(self, inner: psycopg.Connection[Row]) -> None:
        """Make both roles and let this account act as them; raises where it must not."""
        from psycopg.errors import InsufficientPrivilege

        try:
            with inner.transaction():
                for role in (MEMBER, SERVER):
                    row = inner.execute(
                        "SELECT rolsuper OR rolbypassrls, rolcanlogin FROM pg_roles "
                        "WHERE rolname = %s",
                        [role],
                    ).fetchone()
                    if row and row[1]:
                        raise LibraryError(
                            "The role {role} can log in, and whoever does so acts as any user.",
                            hint="ALTER ROLE {role} NOLOGIN",
                            role=role,
                        )
                    if row and row[0]:
                        raise LibraryError(
                            "The role {role} may pass by row-level security, so it protects "
                            "nothing.",
                            hint="ALTER ROLE {role} NOSUPERUSER NOBYPASSRLS",
                            role=role,
                        )
                    if row is None:
                        inner.execute(f"CREATE ROLE {role} NOLOGIN")
                    if not _may_act_as(inner, role):
                        inner.execute(f"GRANT {role} TO CURRENT_USER")
        except InsufficientPrivilege as error:
            raise policies.no_roles(self.database, inner.info.user) from error

    def _close(self, inner: psycopg.Connection[Row]) -> None:
        """Let nobody connect but who is named; raises where that is not this account's to say."""
        from psycopg.errors import InsufficientPrivilege
        from psycopg.sql import SQL, Identifier

        if inner.execute(policies.OPEN).fetchone() != (True,):
            return
        ((name,),) = inner.execute("SELECT current_database()").fetchall()
        with suppress(InsufficientPrivilege), inner.transaction():
            inner.execute(SQL("REVOKE CONNECT ON DATABASE {} FROM PUBLIC").format(Identifier(name)))
        # Who does not own it, but may something with it, is only warned.
        if inner.execute(policies.OPEN).fetchone() == (True,):
            raise policies.open_to_all(self.database, inner.info.user)


def _may_act_as(inner: psycopg.Connection[Row], role: str) -> bool:
    # From version 16 on one may be a member who must not act as the role.
    right = "MEMBER" if inner.info.server_version < 160000 else "SET"
    return inner.execute("SELECT pg_has_role(%s, %s)", [role, right]).fetchone() == (True,)


def _forget_asked(inner: psycopg.Connection[Row], name: str) -> None:
    """Another one may get the name, by which answers are kept, and jobs."""
    inner.execute(f"DELETE FROM {SCHEMA}.answers WHERE asker = %s", [name])
    inner.execute(
        f"UPDATE {SCHEMA}.jobs SET state = 'cancelled', ended = now() "
        "WHERE asked_by = %s AND state IN ('waiting', 'running')",
        [name],
    )


def _user(rows: Sequence[Row]) -> User | None:
    if not rows:
        return None
    return User(rows[0][0], {library: role for _, library, role in rows if library is not None})


def _secret() -> str:
    return secrets.token_urlsafe(_BITS // 8)


def _hash_of(secret: str) -> bytes:
    return sha256(secret.encode("utf-8", "surrogatepass")).digest()
