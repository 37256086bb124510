"""What users and servers may do in a database that has users: two roles, and row-level security.

Statements only. A statement about rows runs as the role MEMBER, with the user's name in the setting
`localrag.user`, or as the role SERVER; neither owns a table. The policies ask for the user's grant
once in a statement, before any row is looked at. Users are no accounts of PostgreSQL: whoever can
log in to the database as an account with these roles can act as any user.
"""

# ruff: noqa: S608 - what is put into a statement here are names of our own schema

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from localrag.egress.databases import Database
from localrag.errors import LibraryError
from localrag.library.acting import ROLES
from localrag.library.backends.postgres.dialect import SCHEMA, home
from localrag.library.catalogue.base import Row
from localrag.library.catalogue.reads import FORGOTTEN, PURGE_DUE

if TYPE_CHECKING:
    import psycopg

MEMBER = "localrag_member"
"""Acts for a user."""

SERVER = "localrag_server"
"""Acts for a server: reads what indexes follow, asks whose a secret is, writes the audit log."""

USER = "localrag.user"
"""The setting of a transaction that names the user."""

USED = f"SELECT to_regclass('{SCHEMA}.users') IS NOT NULL"
"""Whether a database has users; it stays so."""

OWNER = (
    "(SELECT pg_has_role(current_user, relowner, 'USAGE') FROM pg_class "
    f"WHERE oid = '{SCHEMA}.version'::regclass)"
)
"""Whether this account owns the tables."""

STATE = f"{USED}, {OWNER}"
"""Both."""

OPEN = "SELECT has_database_privilege('public', current_database(), 'CONNECT')"
"""Whether every account of the server may connect, as by default. The roles are the whole server's:
one that acts for the users of another database could then act for those of this one."""

SESSION_HOURS = 12
KEPT_DAYS = 90
"""How long the audit log goes back, unless it is said otherwise."""

_LONGEST_WORDS = 10_000
_PRUNED_EVERY = 500
"""Entries of the audit log after which, on average, what is too old goes."""


def blank_jobs(library: str, gone: str) -> str:
    """The statement after which no ended job of a library names the paths that are gone."""
    return f"""UPDATE {SCHEMA}.jobs j SET fault = NULL, arguments = coalesce(jsonb_set(
            j.arguments, '{{paths}}', (SELECT jsonb_agg(CASE WHEN p IN (SELECT unnest({gone}))
            THEN '[…]' ELSE p END) FROM jsonb_array_elements_text(j.arguments->'paths') p)),
            j.arguments) WHERE j.library = {library} AND j.ended IS NOT NULL
            AND (EXISTS (SELECT FROM jsonb_array_elements_text(j.arguments->'paths') p
            WHERE p IN (SELECT unnest({gone}))) OR EXISTS (SELECT FROM
            jsonb_each_text(j.fault->'values') v, unnest({gone}) p WHERE strpos(v.value, p) > 0))"""


_FUNCTIONS = {
    # The name, its arguments, what it gives, who may call it, its body.
    "role": (
        "number integer",
        "text",
        (MEMBER,),
        f"""RETURN (SELECT g.role FROM {SCHEMA}.grants g JOIN {SCHEMA}.users u
            ON u.number = g."user" WHERE u.name = current_setting('{USER}', true)
            AND g.library = role.number);""",
    ),
    # True, false where nobody is named, or the end of the statement at its first row: PostgreSQL
    # would look at all rows to leave each of them out, and change none of them without a word.
    "may": (
        "number integer, wanted text",
        "boolean",
        (MEMBER,),
        f"""IF coalesce(current_setting('{USER}', true), '') = '' THEN
                RETURN false;
            END IF;
            IF array_position(ARRAY{list(ROLES)}, {SCHEMA}.role(may.number))
                >= array_position(ARRAY{list(ROLES)}, may.wanted) THEN
                RETURN true;
            END IF;
            RAISE insufficient_privilege USING MESSAGE = 'this user may not do this';""",
    ),
    "named": (
        "name text",
        'TABLE("user" text, library text, role text)',
        (SERVER,),
        f"""RETURN QUERY SELECT u.name, l.name::text, g.role FROM {SCHEMA}.users u
            LEFT JOIN {SCHEMA}.grants g ON g."user" = u.number
            LEFT JOIN {SCHEMA}.libraries l ON l.number = g.library WHERE u.name = named.name;""",
    ),
    "known": (
        "secret bytea",
        'TABLE("user" text, library text, role text)',
        (SERVER,),
        f"""RETURN QUERY SELECT n.* FROM {SCHEMA}.users u, {SCHEMA}.named(u.name) n
            WHERE u.number = coalesce(
            (SELECT t.number FROM {SCHEMA}.users t WHERE t.token = known.secret),
            (SELECT s."user" FROM {SCHEMA}.sessions s
            WHERE s.secret = known.secret AND s.ends > now()));""",
    ),
    "begin_session": (
        # By a token alone: a session that began another would never end.
        "token bytea, secret bytea",
        "boolean",
        (SERVER,),
        f"""DELETE FROM {SCHEMA}.sessions s WHERE s.ends <= now();
            INSERT INTO {SCHEMA}.sessions(secret, "user", ends)
            SELECT begin_session.secret, u.number, now() + interval '{SESSION_HOURS} hours'
            FROM {SCHEMA}.users u WHERE u.token = begin_session.token;
            RETURN FOUND;""",
    ),
    "end_session": (
        "secret bytea",
        "boolean",
        (SERVER,),
        f"""DELETE FROM {SCHEMA}.sessions s WHERE s.secret = end_session.secret;
            RETURN FOUND;""",
    ),
    "record": (
        '"user" text, library text, what text, words text, seconds real',
        "boolean",
        (SERVER,),
        f"""INSERT INTO {SCHEMA}.audit("user", library, name, what, words, seconds)
            SELECT record."user", l.number, record.library, record.what,
            CASE WHEN l.words THEN left(record.words, {_LONGEST_WORDS}) END, record.seconds
            FROM (SELECT 1) one LEFT JOIN {SCHEMA}.libraries l ON l.name = record.library;
            IF random() * {_PRUNED_EVERY} < 1 THEN
                PERFORM {SCHEMA}.prune();
            END IF;
            RETURN true;""",
    ),
    # In the table's owner's name, who is shown no job in a transaction that is for a user.
    "blank_jobs": (
        "number integer, gone text[]",
        "boolean",
        (MEMBER,),
        f"""DECLARE asking text := current_setting('{USER}', true);
            BEGIN
                IF NOT {SCHEMA}.may(blank_jobs.number, 'editor') THEN
                    RETURN false;
                END IF;
                PERFORM set_config('{USER}', '', true);
                {blank_jobs("blank_jobs.number", "blank_jobs.gone")};
                PERFORM set_config('{USER}', asking, true);
                RETURN true;
            END;""",
    ),
    "prune": (
        "",
        "boolean",
        (),
        f"""DELETE FROM {SCHEMA}.audit a WHERE a.at < now() - make_interval(days =>
            (SELECT r.days FROM {SCHEMA}.audit_rules r));
            RETURN FOUND;""",
    ),
}
_PURGED = {"meta": f"key IN ('{PURGE_DUE}', '{FORGOTTEN}')", "removals": "true"}
"""Rows that a server may change of its own accord, by table."""

# The owner, too, sees nothing in a transaction that is for a user and has not taken the role.
_THE_OWNER = f"{OWNER} AND coalesce(current_setting('{USER}', true), '') = ''"

# A policy holds for whoever is in the role, too: an account that has not taken it sees nothing.
_AS_MEMBER, _AS_SERVER = (f"current_user = '{role}'" for role in (MEMBER, SERVER))

_POLICIES = (
    *("owner", "reader", "editor_insert", "editor_update", "editor_delete", "asking"),
    *("server", "server_purge"),
)
_READING = ("role", "may", "named", "known")


def no_roles(database: Database, account: str) -> LibraryError:
    """What is to be done where an account may not act for users."""
    return LibraryError(
        "The account {account} of the database {database} may not act for users.",
        hint="An administrator of the database runs once: "
        "CREATE ROLE localrag_member NOLOGIN; CREATE ROLE localrag_server NOLOGIN; "
        'and for each account: GRANT localrag_member, localrag_server TO "{account}"; '
        'GRANT CONNECT ON DATABASE "{name}" TO "{account}"',
        account=account,
        database=str(database),
        name=database.name,
    )


def open_to_all(database: Database, account: str) -> LibraryError:
    """What is to be done where an account may not close the database to those of others."""
    return LibraryError(
        "Every account of the server may connect to the database {database}, also one that acts "
        "for the users of another database.",
        hint='The owner of the database runs once: GRANT CONNECT ON DATABASE "{name}" TO '
        '"{account}", and to each account that a server uses; then REVOKE CONNECT ON DATABASE '
        '"{name}" FROM PUBLIC',
        account=account,
        database=str(database),
        name=database.name,
    )


def tables() -> Iterator[str]:
    """Users, what they may, their secrets as SHA-256, and the audit log; what is there stays."""
    roles = ", ".join(f"'{role}'" for role in ROLES)
    yield (
        f"CREATE TABLE IF NOT EXISTS {SCHEMA}.users("
        "number integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
        'name text COLLATE "C" NOT NULL UNIQUE, token bytea NOT NULL UNIQUE, '
        "since timestamptz NOT NULL DEFAULT now())"
    )
    yield (
        f'CREATE TABLE IF NOT EXISTS {SCHEMA}.grants("user" integer NOT NULL '
        f"REFERENCES {SCHEMA}.users ON DELETE CASCADE, library integer NOT NULL "
        f"REFERENCES {SCHEMA}.libraries ON DELETE CASCADE, "
        f'role text NOT NULL CHECK (role IN ({roles})), PRIMARY KEY ("user", library))'
    )
    yield (
        f"CREATE TABLE IF NOT EXISTS {SCHEMA}.sessions(secret bytea PRIMARY KEY, "
        f'"user" integer NOT NULL REFERENCES {SCHEMA}.users ON DELETE CASCADE, '
        "ends timestamptz NOT NULL)"
    )
    # No references: what was done stays known when a user or a library is gone.
    yield (
        f"CREATE TABLE IF NOT EXISTS {SCHEMA}.audit(at timestamptz NOT NULL DEFAULT now(), "
        '"user" text NOT NULL, library integer, name text NOT NULL, what text NOT NULL, '
        "words text, seconds real)"
    )
    yield f"CREATE INDEX IF NOT EXISTS audit_by_at ON {SCHEMA}.audit(at)"
    yield f"CREATE TABLE IF NOT EXISTS {SCHEMA}.audit_rules(days integer NOT NULL)"
    yield (
        f"INSERT INTO {SCHEMA}.audit_rules SELECT {KEPT_DAYS} "
        f"WHERE NOT EXISTS (SELECT FROM {SCHEMA}.audit_rules)"
    )
    yield (
        f"ALTER TABLE {SCHEMA}.libraries ADD COLUMN IF NOT EXISTS words boolean "
        "NOT NULL DEFAULT false"
    )


def functions() -> Iterator[str]:
    """What the two roles may ask of those tables, which they cannot read."""
    for name, (arguments, result, callers, body) in _FUNCTIONS.items():
        kinds = "STABLE PARALLEL SAFE" if name in _READING else "VOLATILE"
        # A search path of its own: else the caller's would say what the names in it mean.
        yield (
            f"CREATE OR REPLACE FUNCTION {SCHEMA}.{name}({arguments}) RETURNS {result} "
            f"LANGUAGE plpgsql {kinds} SECURITY DEFINER SET search_path = pg_catalog, pg_temp "
            f"AS $$ #variable_conflict use_column\nBEGIN {body} END $$"
        )
        yield f"REVOKE ALL ON FUNCTION {SCHEMA}.{name} FROM PUBLIC"
        for caller in callers:
            yield f"GRANT EXECUTE ON FUNCTION {SCHEMA}.{name} TO {caller}"
    yield f"GRANT USAGE ON SCHEMA {SCHEMA} TO {MEMBER}, {SERVER}"
    yield f"GRANT SELECT ON {SCHEMA}.version, {SCHEMA}.libraries TO {SERVER}"


def protect(inner: psycopg.Connection[Row], number: int | None = None) -> None:
    """Put the tables of a library under row-level security, or those that have them as parts.

    Whatever tables there are: one that a later version adds is not forgotten.
    """
    schema = SCHEMA if number is None else home(number)
    rows = inner.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = %s::regnamespace AND relkind = %s",
        [schema, "p" if number is None else "r"],
    ).fetchall()
    statements = [statement for (name,) in rows for statement in _protected(schema, name, number)]
    if number is not None:
        statements.append(f"GRANT USAGE ON SCHEMA {schema} TO {MEMBER}, {SERVER}")
    else:
        statements += _protected_jobs()
    if statements:
        inner.execute("; ".join(statements))


def _protected(schema: str, name: str, number: int | None) -> Iterator[str]:
    table = f'{schema}."{name}"'
    yield f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY"
    yield f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY"
    policies = {"owner": f"ALL TO PUBLIC USING ({_THE_OWNER})"}
    if number is not None:
        yield f"REVOKE ALL ON {table} FROM {MEMBER}, {SERVER}"
        yield f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {MEMBER}"
        reads = f"(SELECT {SCHEMA}.may({number}, 'reader'))"
        if name in ("answers", "answer_documents"):
            # What somebody asked is theirs alone; a server only takes it along with a document.
            mine = f"asker = (SELECT current_setting('{USER}', true))"
            if name == "answer_documents":
                mine = f"answer IN (SELECT a.number FROM {schema}.answers a WHERE {mine})"
            policies["asking"] = f"ALL TO {MEMBER} USING ({_AS_MEMBER} AND {reads} AND {mine})"
            policies["server"] = f"ALL TO {SERVER} USING ({_AS_SERVER})"
            shown = "number, conversation" if name == "answers" else "answer, document"
            yield f"GRANT SELECT ({shown}), DELETE ON {table} TO {SERVER}"
        else:
            edits = f"(SELECT {SCHEMA}.may({number}, 'editor'))"
            policies["reader"] = f"SELECT TO {MEMBER} USING ({_AS_MEMBER} AND {reads})"
            policies["editor_insert"] = f"INSERT TO {MEMBER} WITH CHECK ({_AS_MEMBER} AND {edits})"
            policies["editor_update"] = f"UPDATE TO {MEMBER} USING ({_AS_MEMBER} AND {edits})"
            policies["editor_delete"] = f"DELETE TO {MEMBER} USING ({_AS_MEMBER} AND {edits})"
            policies["server"] = f"SELECT TO {SERVER} USING ({_AS_SERVER})"
            yield f"GRANT SELECT ON {table} TO {SERVER}"
            if name in _PURGED:  # what a removal that was cut off has left to do
                policies["server_purge"] = (
                    f"ALL TO {SERVER} USING ({_AS_SERVER} AND {_PURGED[name]})"
                )
                yield f"GRANT INSERT, DELETE ON {table} TO {SERVER}"
    for policy in _POLICIES:
        yield f"DROP POLICY IF EXISTS {policy} ON {table}"
        if policy in policies:
            yield f"CREATE POLICY {policy} ON {table} FOR {policies[policy]}"


JOB_DAYS = 30
"""How long ended jobs are kept."""
OLD_JOB = f"ended < now() - interval '{JOB_DAYS} days'"


def _protected_jobs() -> Iterator[str]:
    """Jobs are queued by the owner of the tables, seen by who may read, cancelled by who may edit.

    A server says how far they are, deletes those that ended long ago, and can neither queue one
    nor change what is to be done.
    """
    table = f"{SCHEMA}.jobs"
    role = f"{SCHEMA}.role(library)"
    columns = "state, node, lease, due, attempts, progress, declined, fault, began, ended"
    yield f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY"
    yield f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY"
    yield f"REVOKE ALL ON {table} FROM {MEMBER}, {SERVER}"
    yield f"GRANT SELECT, UPDATE (state, ended) ON {table} TO {MEMBER}"
    yield f"GRANT SELECT, UPDATE ({columns}), DELETE ON {table} TO {SERVER}"
    for policy, rule in {
        "owner": f"ALL TO PUBLIC USING ({_THE_OWNER})",
        "reader": f"SELECT TO {MEMBER} USING ({_AS_MEMBER} AND {role} IS NOT NULL)",
        "editor_update": f"UPDATE TO {MEMBER} USING ({_AS_MEMBER} "
        f"AND {role} IN ('editor', 'owner'))",
        "server": f"SELECT TO {SERVER} USING ({_AS_SERVER})",
        "server_update": f"UPDATE TO {SERVER} USING ({_AS_SERVER})",
        "server_delete": f"DELETE TO {SERVER} USING ({_AS_SERVER} AND {OLD_JOB})",
    }.items():
        yield f"DROP POLICY IF EXISTS {policy} ON {table}"
        yield f"CREATE POLICY {policy} ON {table} FOR {rule}"
