"""Work on a library that waits for a node, in a table that all its nodes look at.

A node takes a job for as long as it keeps saying that it is at work on it: its lease. Of one that
falls silent another node takes the job, which is to go on where the first has committed last. A
lease is there so that nothing is done twice for nothing; what keeps two nodes from writing at once
is the right to write (`PostgresLock`) and nothing else. Only the server's clock counts, and nothing
is kept in a session, so that all of it holds behind a pooler.
"""

# ruff: noqa: S608 - what is put into a statement here are names of our own schema

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Literal, cast

import msgspec

from localrag.errors import LibraryError, LocalragError, UsageError, kept_error
from localrag.library.acting import acting_as_server
from localrag.library.backends.postgres import policies
from localrag.library.backends.postgres.dialect import SCHEMA
from localrag.library.backends.postgres.dialect import value as storable
from localrag.library.catalogue.base import Row
from localrag.library.catalogue.guarded import damaged_rows

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from localrag.library.backends.postgres.catalogue import PostgresCatalogue
    from localrag.library.backends.postgres.connection import PostgresConnection
    from localrag.library.catalogue.writes import Transaction

Kind = Literal["add", "rebuild"]
State = Literal["waiting", "running", "done", "failed", "cancelled"]
Declined = Literal["not there", "not allowed"]
"""Why a node leaves a job to others: it sees no such path, or may not add what is there."""

LEASE = 30.0
"""Seconds for which a node takes a job, and takes it anew long before they are over."""
ATTEMPTS = 3
"""How often a job is begun that fails or whose node falls silent."""
_AGAIN = 10.0
"""Seconds until a job that has failed is tried again."""
_LISTED = 100
"""How many jobs are listed."""
_SWEEP = 3600.0
"""Seconds from one look of a node for ended jobs that are too old to the next."""
_LONGEST = 4096
"""Code points of one value of an error that is kept."""

_TIME = "'YYYY-MM-DD\"T\"HH24:MI:SS+00:00'"
_COLUMNS = ", ".join(
    (
        *("number", "kind", "arguments::text", "asked_by", "state", "node", "attempts"),
        *("progress::text", "declined::text", "fault::text"),
        *(
            f"to_char({column} AT TIME ZONE 'UTC', {_TIME})"
            for column in ("made", "began", "ended")
        ),
    )
)
_MINE = "WHERE number = %s AND library = %s AND node = %s AND state = 'running'"


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is to be added: whole paths, as the nodes see them."""

    paths: tuple[str, ...] = ()
    prune: bool = False


class Progress(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far a job is: files that have an outcome, of those that were found."""

    files: int = 0
    done: int = 0
    unread: int = 0
    """Of those, files that could not be read."""
    passages: int = 0
    """Embedded since a node began, which a node that goes on begins anew."""


class _Fault(msgspec.Struct):
    message: str
    hint: str = ""
    values: dict[str, str | int | float] = {}


class QueuedJob(msgspec.Struct, frozen=True):
    """A job as the table has it; times are ISO 8601 in UTC, "" where it has not come to that."""

    number: int
    kind: Kind
    arguments: Arguments
    asked_by: str
    """Who asked, where the database knows users; else ""."""
    state: State
    node: str
    """Who does it, or did it last."""
    attempts: int
    progress: Progress
    declined: dict[str, Declined]
    """The machines whose nodes leave it to others."""
    fault: LibraryError | None
    """Why it failed, or failed before."""
    made: str
    began: str
    ended: str


def machine(node: str) -> str:
    """Where a node runs, which has a name of its own each time that it starts."""
    return node.rsplit(":", 2)[0]


class Jobs:
    """The jobs of one library. May be used from several threads."""

    def __init__(self, catalogue: PostgresCatalogue) -> None:
        self._catalogue = catalogue
        # What nodes have declined here: the table says it of their machine, for people to read,
        # and a node that is started again, with another folder mounted, say, looks again.
        self._left: set[tuple[str, int]] = set()
        self._swept = -math.inf

    # For whoever asks

    def put(self, kind: Kind, arguments: Arguments, asked_by: str = "") -> int:
        """Have something done; its number. What ended long ago is forgotten."""
        library = self._catalogue.number
        self._forget_old()
        ((number,),) = self._run(
            f"INSERT INTO {SCHEMA}.jobs(library, kind, arguments, asked_by) "
            "VALUES (%s, %s, %s, %s) RETURNING number",
            [library, kind, _text(arguments), asked_by],
        )
        return int(number)

    def _may_forget(self) -> bool:
        """Whether this account may delete jobs, which users of an earlier version do not allow."""
        may = self._run(f"SELECT has_table_privilege('{SCHEMA}.jobs', 'DELETE')", [])
        return may == [(True,)]

    def _forget_old(self) -> None:
        self._run(
            f"DELETE FROM {SCHEMA}.jobs WHERE library = %s AND {policies.OLD_JOB}",
            [self._catalogue.number],
        )

    def all(self) -> list[QueuedJob]:
        """Those that wait or run and those that ended last, in the order in which they came."""
        rows = self._run(
            f"SELECT {_COLUMNS} FROM {SCHEMA}.jobs WHERE library = %s ORDER BY ended IS NULL DESC, "
            "number DESC LIMIT %s",
            [self._catalogue.number, _LISTED],
        )
        return sorted(map(_job, rows), key=lambda job: job.number)

    def cancel(self, number: int) -> None:
        """Have a job end; what it has committed stays. Raises UsageError where there is none.

        Its node notices when it next says that it is at work.
        """
        cancelled = self._run(
            f"UPDATE {SCHEMA}.jobs SET state = 'cancelled', ended = now() WHERE number = %s "
            "AND library = %s AND state IN ('waiting', 'running') RETURNING number",
            [number, self._catalogue.number],
        )
        if not cancelled:
            raise UsageError(
                "There is no job {number} that waits or runs.",
                hint="See `localrag jobs`.",
                number=number,
            )

    def forget(self, transaction: Transaction, gone: Collection[str]) -> None:
        """Have no ended job name these paths, which are removed in that transaction."""
        sql = cast("PostgresConnection", transaction.sql)
        library, paths = self._catalogue.number, [*map(storable, gone)]
        if sql.is_member:
            query = f"SELECT {SCHEMA}.blank_jobs(%s, CAST(%s AS text[]))"
            sql.inner.execute(query, [library, paths])
            return
        # Without users, an account may write to the library and have nothing to do with jobs.
        may = f"SELECT has_table_privilege('{SCHEMA}.jobs', 'UPDATE')"
        if paths and sql.inner.execute(may).fetchone() == (True,):
            statement = policies.blank_jobs("%(library)s", "CAST(%(gone)s AS text[])")
            sql.inner.execute(statement, {"library": library, "gone": paths})

    # For a node

    def take(self, node: str, lease: float = LEASE) -> QueuedJob | None:
        """The next job for this node, if there is one and no other of this library runs."""
        with acting_as_server():
            # A library to which nobody adds any more would keep the last names for ever.
            if time.monotonic() - self._swept > _SWEEP:
                self._swept = time.monotonic()
                if self._may_forget():
                    self._forget_old()
            return self._take(node, lease)

    def _take(self, node: str, lease: float) -> QueuedJob | None:
        library = self._catalogue.number
        states = self._run(
            f"SELECT state, lease < now() FROM {SCHEMA}.jobs WHERE library = %s "
            "AND state IN ('waiting', 'running')",
            [library],
        )
        if ("running", True) in states:
            self._lapse()
        elif not states or any(state == "running" for state, _ in states):
            return None
        left = [number for who, number in self._left.copy() if who == node]
        taken = self._run(
            f"UPDATE {SCHEMA}.jobs SET state = 'running', node = %s, attempts = attempts + 1, "
            "progress = '{}', began = coalesce(began, now()), "
            "declined = declined - CAST(%s AS text), "
            "lease = now() + %s * interval '1 second' WHERE number = ("
            f"SELECT number FROM {SCHEMA}.jobs WHERE library = %s AND state = 'waiting' "
            "AND due <= now() AND number <> ALL (CAST(%s AS bigint[])) "
            "ORDER BY number LIMIT 1 FOR UPDATE SKIP LOCKED) "
            f"RETURNING {_COLUMNS}",
            [node, machine(node), lease, library, left],
        )
        return _job(taken[0]) if taken else None

    def _lapse(self) -> None:
        """Have a job wait again whose node has fallen silent, unless that has happened often."""
        fault = LibraryError(
            "The server {node} fell silent while it was at work on this.",
            hint="What it committed is kept. See its log, then queue the same again.",
        )
        self._run(
            f"UPDATE {SCHEMA}.jobs SET "
            "fault = CAST(%s AS jsonb) || jsonb_build_object('values', "
            "jsonb_build_object('node', node)), "
            "state = CASE WHEN attempts < %s THEN 'waiting' ELSE 'failed' END, "
            "ended = CASE WHEN attempts < %s THEN ended ELSE now() END "
            "WHERE library = %s AND state = 'running' AND lease < now()",
            [_text(_fault(fault)), ATTEMPTS, ATTEMPTS, self._catalogue.number],
        )

    def renew(self, job: QueuedJob, progress: Progress, lease: float = LEASE) -> bool:
        """Say that its node is at work on it; False where it is no longer that node's."""
        return self._mine(
            job,
            "progress = %s, lease = now() + %s * interval '1 second'",
            [_text(progress), lease],
        )

    def done(self, job: QueuedJob, progress: Progress) -> bool:
        """Say that it is done."""
        return self._mine(
            job, "state = 'done', fault = NULL, ended = now(), progress = %s", [_text(progress)]
        )

    def failed(
        self, job: QueuedJob, progress: Progress, error: LocalragError, *, again: bool
    ) -> bool:
        """Say why it failed; `again`, it is tried once more in a while, unless that was often."""
        again = again and job.attempts < ATTEMPTS
        ended = "state = 'waiting'" if again else "state = 'failed', ended = now()"
        return self._mine(
            job,
            f"{ended}, fault = %s, progress = %s, due = now() + %s * interval '1 second'",
            [_text(_fault(error)), _text(progress), _AGAIN],
        )

    def decline(self, job: QueuedJob, why: Declined) -> bool:
        """Leave it to other nodes, and say why."""
        self._left.add((job.node, job.number))
        return self._mine(
            job,
            "state = 'waiting', attempts = attempts - 1, declined = declined || "
            "jsonb_build_object(CAST(%s AS text), CAST(%s AS text))",
            [machine(job.node), why],
        )

    def give_back(self, job: QueuedJob) -> bool:
        """Let another node go on with it, because this one ends."""
        return self._mine(job, "state = 'waiting', attempts = attempts - 1", [])

    def _mine(self, job: QueuedJob, change: str, values: Sequence[object]) -> bool:
        with acting_as_server():
            changed = self._run(
                f"UPDATE {SCHEMA}.jobs SET {change} {_MINE} RETURNING number",
                [*values, job.number, self._catalogue.number, job.node],
            )
        return bool(changed)

    def _run(self, statement: str, values: Sequence[object]) -> list[Row]:
        with self._catalogue.chore() as inner:
            from psycopg.errors import UniqueViolation

            try:
                cursor = inner.execute(statement, [*map(storable, values)])
            except UniqueViolation:  # another node has taken another job this very moment
                return []
            return cursor.fetchall() if cursor.description else []


def _job(row: Row) -> QueuedJob:
    """A row as it is read. Raises LibraryDamagedError for what is none of ours."""
    names = QueuedJob.__struct_fields__
    fields = dict(zip(names, row, strict=True))
    try:
        for name in ("arguments", "progress", "declined", "fault"):
            fields[name] = msgspec.json.decode(fields[name] or "null")
        fault = fields.pop("fault")
        error = None
        if fault is not None:
            kept = msgspec.convert(fault, _Fault)
            error = kept_error(LibraryError, kept.message, kept.hint, kept.values)
        times = {name: fields[name] or "" for name in ("began", "ended")}
        return msgspec.convert(fields | times | {"fault": error}, QueuedJob)
    except (msgspec.MsgspecError, ValueError) as wrong:
        raise damaged_rows(wrong) from wrong


def _text(value: msgspec.Struct) -> str:
    return msgspec.json.encode(value).decode()


def _fault(error: LocalragError) -> _Fault:
    values: dict[str, str | int | float] = {
        name: value if isinstance(value, int | float) else str(value)[:_LONGEST]
        for name, value in error.values.items()
    }
    return _Fault(error.message, error.hint, values)
