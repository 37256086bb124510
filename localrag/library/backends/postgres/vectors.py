"""The vectors of a library in a database: searched on this node, or there where they are too many.

There it is an HNSW index of pgvector (Malkov and Yashunin, 2018) over a table of its own, which the
server keeps in step by itself: in the transaction that adds or removes, whoever does, and alike for
every node. It names candidates, which are then compared as the catalogue has them, by what compares
them on a node: equal candidates have equal scores, to the digit.
"""

# ruff: noqa: S608 - what is put into a statement here are names of our own, and of extensions

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from localrag.errors import LibraryError
from localrag.library.backends.postgres import dialect, policies
from localrag.library.backends.postgres.catalogue import CREATING, PostgresCatalogue, heard
from localrag.library.backends.postgres.connection import PostgresConnection
from localrag.library.backends.postgres.dialect import SCHEMA
from localrag.library.catalogue.reads import Snapshot
from localrag.library.derived import DerivedVectors
from localrag.library.indexes.base import DerivedIndex, SearchWithin, Vector, are_allowed
from localrag.library.indexes.comparison import compared
from localrag.library.records import ChunkIds, DerivedStatus, Lacking, Stamp
from localrag.types import Hit

if TYPE_CHECKING:
    import psycopg

    from localrag.library.catalogue.base import Row

EXACT = 5_000
"""Of up to so many that a filter allows all are compared, as they are."""

_LEAST = 100
"""So many candidates more than are asked for: the index compares with a rounded question."""

_OLDEST = (0, 8)
"""pgvector that goes on where a filter leaves too few."""

_WIDEST = 4_000
"""Dimensions of half precision that its index takes."""

_MOST_MEMORY = 1 << 20
"""Kilobytes that building it may take at most; the rest of its graph is then built on disk."""

_TABLE = dialect.NEAREST
_HALF = f"{dialect.SCHEMA}.half_vector"
_DECODING = f"""CREATE OR REPLACE FUNCTION {_HALF}(stored bytea) RETURNS {{schema}}.halfvec
IMMUTABLE STRICT PARALLEL SAFE LANGUAGE plpgsql AS $$
BEGIN
    RETURN ARRAY(
        SELECT ({{scale}})[get_byte(stored, 2 * i + 1)]
            * (({{above}})[get_byte(stored, 2 * i + 1)] + get_byte(stored, 2 * i))
        FROM generate_series(0, length(stored) / 2 - 1) AS i
    )::{{schema}}.halfvec;
END $$"""
"""What little-endian float16 says, by IEEE 754: of each higher byte the scale of a step, and how
many steps lie below those that the lower byte counts."""


@dataclass(frozen=True, slots=True)
class _Extension:
    """pgvector in a database: the schema in which it lies, for vectors of one dimension."""

    schema: str
    dimension: int

    @property
    def type(self) -> str:
        """That of a vector of half precision."""
        return f"{self.schema}.halfvec({self.dimension})"


class VectorsOfDatabase(DerivedVectors):
    """The dense leg of a library in a database."""

    _catalogue: PostgresCatalogue

    def search(self, query: Vector, k: int, allowed: ChunkIds | None = None) -> list[Hit]:
        """The k best by inner product of all, or of those that are `allowed`; ties by id."""
        with self._catalogue.read() as snapshot:
            self._check(snapshot)
            extension = self._pgvector(snapshot)
            if isinstance(extension, _Extension):
                return _InDatabase(snapshot, extension).search(query, k, allowed)
        return super().search(query, k, allowed)

    def at_hand(self, snapshot: Snapshot) -> SearchWithin[Vector] | None:
        """What this node holds of that state; or the database, as that transaction sees it."""
        extension = self._pgvector(snapshot)
        if isinstance(extension, _Extension):
            return _InDatabase(snapshot, extension)
        return super().at_hand(snapshot)

    def current(self, *, keep: bool = False) -> DerivedIndex[Vector]:
        """What this node holds as of now: nothing, where the database is searched."""
        with self._catalogue.read() as snapshot:
            there = isinstance(self._pgvector(snapshot), _Extension)
        if not there:
            return super().current(keep=keep)
        self.forget()
        if keep:
            super().erase()
        return self._index

    def build(self) -> None:
        """Have the server build its index, if the vectors are too many here and it can.

        The caller may write. Raises LibraryError where that was asked for and cannot be.
        """
        with self._catalogue.read() as snapshot:
            if self._pgvector(snapshot) not in ("extension", "version", "index"):
                return
            dimension, size = snapshot.embedding().dimension, snapshot.chunk_set().size
        lacking = _build(self._catalogue, dimension, size)
        # Where only the right to make tables is lacking, the owner's next command makes it.
        if lacking in ("extension", "version") and self._placement.where == "pgvector":
            raise LibraryError(
                "The vectors of the library {library} cannot be searched in the database: "
                "pgvector {version} or newer is not installed in it.",
                hint="Have its administrator run CREATE EXTENSION vector in that database, or "
                "search on this computer: `localrag config set database.vectors auto`.",
                library=str(self._catalogue.database),
                version=".".join(map(str, _OLDEST)),
            )

    def drop(self) -> None:
        """Take the index in the database away, because all vectors change; `build` makes it anew.

        The caller may write. An account that does not own the tables leaves it: what goes and comes
        is kept in step by the server there, too, only more slowly.
        """
        with (
            self._catalogue.translated(),
            self._catalogue.session() as inner,
            heard(inner),
        ):
            if inner.execute(f"SELECT {policies.OWNER}").fetchone() != (True,):
                return
            for statement in dialect.without_nearest(self._catalogue.number):
                inner.execute(statement)

    def status(self, stamp: Stamp) -> DerivedStatus:
        """Where the vectors are searched, and why not in the database if they should be."""
        with self._catalogue.read() as snapshot:
            extension = self._pgvector(snapshot)
        if isinstance(extension, _Extension):
            return DerivedStatus(self._leg.name, True, 0, 0, where="database")
        return replace(super().status(stamp), lacking=extension)

    def _pgvector(self, snapshot: Snapshot) -> _Extension | Lacking:
        """What is to search in the database, or what is lacking for that; "" for this node."""
        if not self._is_wanted(snapshot):
            return ""
        return _extension(snapshot, self._catalogue.number)

    def _is_wanted(self, snapshot: Snapshot) -> bool:
        """Whether they are to be searched in the database."""
        dimension = snapshot.embedding().dimension
        if self._placement.where == "node" or dimension > _WIDEST:
            return False
        size = snapshot.chunk_set().size
        return bool(size) and (
            self._placement.where == "pgvector" or self._placement.is_too_small(size, dimension)
        )


@dataclass(frozen=True, slots=True)
class _InDatabase:
    """The vectors of one state, while its transaction lasts."""

    snapshot: Snapshot
    own: _Extension

    def search(self, query: Vector, k: int, allowed: ChunkIds | None = None, /) -> list[Hit]:
        """The k best by inner product of all, or of those that are `allowed`; ties by id."""
        total = self.snapshot.chunk_set().size
        wanted = total if allowed is None else len(allowed)
        if k < 1 or not wanted:
            return []
        sql = cast("PostgresConnection", self.snapshot.sql)
        if allowed is not None and wanted <= EXACT:
            ids = allowed
        else:
            ids = _candidates(sql, self.own, query, k + max(k, _LEAST), total, allowed)
        return compared(*self.snapshot.vectors_by_id(ids), query, k)


def _candidates(
    sql: PostgresConnection,
    own: _Extension,
    query: Vector,
    count: int,
    total: int,
    allowed: ChunkIds | None,
) -> ChunkIds:
    """At least so many of the nearest that are allowed, as far as the index finds them."""
    asked = str(query.tolist())
    most = math.ceil(count if allowed is None else count * total / len(allowed))
    while True:
        most = min(most, total)
        nearest = _first(sql, own, asked, most)
        ids = nearest if allowed is None else nearest[are_allowed(nearest, allowed)]
        if len(ids) >= count or most == total or len(nearest) < most:
            return ids
        most *= 2


def _first(sql: PostgresConnection, own: _Extension, asked: str, most: int) -> NDArray[np.int64]:
    """So many ids, the nearest first, more or less."""
    with sql.inner.pipeline():
        sql.execute(
            "SELECT set_config('hnsw.iterative_scan', 'relaxed_order', true), "
            "set_config('hnsw.ef_search', ?, true), "
            "set_config('hnsw.max_scan_tuples', ?, true), "
            "set_config('hnsw.scan_mem_multiplier', '16', true), set_config('jit', 'off', true)",
            (str(min(most, 1000)), str(max(4 * most, 20_000))),
        )
        rows = sql.execute(
            f"WITH near AS MATERIALIZED (SELECT chunk FROM {_TABLE} ORDER BY vector "
            f"OPERATOR({own.schema}.<#>) CAST(? AS {own.type}) LIMIT ?) "
            "SELECT c.id FROM near JOIN chunks c ON c.number = near.chunk",
            (asked, most),
        )
    return np.fromiter((row[0] for row in rows.fetchall()), dtype=np.int64)


def _extension(snapshot: Snapshot, number: int) -> _Extension | Lacking:
    dimension = snapshot.embedding().dimension
    rows = snapshot.sql.execute(
        "SELECT n.nspname, e.extversion, to_regclass(?) IS NOT NULL FROM pg_extension e "
        "JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'",
        (f"{dialect.home(number)}.{_index_of(dimension)}",),
    ).fetchall()
    if not rows:
        return "extension"
    ((schema, version, built),) = rows
    if tuple(int(part) for part in version.split(".")[:2]) < _OLDEST:
        return "version"
    return _Extension(_quoted(schema), dimension) if built else "index"


def _build(database: PostgresCatalogue, dimension: int, size: int) -> Lacking:
    """Make it, for so many vectors; what is lacking for that."""
    from psycopg import errors

    unable = (errors.InsufficientPrivilege, errors.FeatureNotSupported, errors.UndefinedFile)
    with database.translated(), database.session() as inner:
        try:
            inner.execute(_CREATE)
        except unable:
            return "extension"
        with database.read() as snapshot:
            lacking = _extension(snapshot, database.number)
        if lacking != "index":
            return "" if isinstance(lacking, _Extension) else lacking
        try:
            # On its own: it keeps everybody from the vectors while it lasts.
            with heard(inner):
                inner.execute("SELECT set_config('lock_timeout', '5s', true)")
                for statement in dialect.without_nearest(database.number):
                    inner.execute(statement)
            with heard(inner):
                _build_on(inner, database.number, dimension, size)
        except (errors.InsufficientPrivilege, errors.LockNotAvailable):
            return "index"
    return ""


def _build_on(inner: psycopg.Connection[Row], number: int, dimension: int, size: int) -> None:
    home = dialect.home(number)
    ((schema,),) = inner.execute(_SCHEMA_OF_IT).fetchall()
    own = _Extension(_quoted(schema), dimension)
    inner.execute("SELECT pg_advisory_xact_lock(%s, 0)", [CREATING])
    inner.execute(_decoding(own.schema))
    # Vectors and their neighbours; what does not fit is built many times slower.
    kilobytes = min(_MOST_MEMORY, size * (2 * dimension + 512) // 1024 + 65_536)
    inner.execute(
        "SELECT set_config('maintenance_work_mem', greatest(pg_size_bytes("
        "current_setting('maintenance_work_mem')) / 1024, %s)::text, true), "
        # Workers would share memory, of which a container has little unless it is told.
        "set_config('max_parallel_maintenance_workers', '0', true)",
        [kilobytes],
    )
    table = f"{home}.{_TABLE}"
    for statement in (
        f"CREATE TABLE {table}(chunk bigint, library integer, vector {own.type} NOT NULL, "
        "PRIMARY KEY (chunk, library), FOREIGN KEY (chunk, library) "
        f"REFERENCES {home}.embeddings(chunk, library) ON DELETE CASCADE)",
        f"INSERT INTO {table} SELECT chunk, library, {_HALF}(vector) FROM {home}.embeddings",
        f"CREATE INDEX {_index_of(dimension)} ON {table} USING hnsw "
        f"(vector {own.schema}.halfvec_ip_ops)",
        f"CREATE FUNCTION {home}.keep_{_TABLE}() RETURNS trigger LANGUAGE plpgsql "
        # Not those of another model, brought by an account that may not take this table away.
        f"SET search_path = '' AS $$ BEGIN IF length(NEW.vector) = {2 * dimension} THEN "
        f"INSERT INTO {table} VALUES (NEW.chunk, NEW.library, {_HALF}(NEW.vector)); "
        "END IF; RETURN NULL; END $$",
        f"CREATE TRIGGER keep_{_TABLE} AFTER INSERT ON {home}.embeddings "
        f"FOR EACH ROW EXECUTE FUNCTION {home}.keep_{_TABLE}()",
        f"ANALYZE {table}",
    ):
        inner.execute(statement)
    if inner.execute(policies.USED).fetchone() == (True,):
        policies.protect(inner, number)
        return
    # Who may do something with the vectors may do it here. Of a table with row-level security only
    # its policies can say so; without them nobody but its owner gets in.
    for right, account in inner.execute(
        "SELECT a.privilege_type, CASE a.grantee WHEN 0 THEN 'PUBLIC' "
        "ELSE a.grantee::regrole::text END FROM pg_class c, aclexplode(c.relacl) a "
        "WHERE c.oid = %s::regclass AND NOT c.relrowsecurity AND a.grantee != c.relowner",
        [f"{home}.embeddings"],
    ).fetchall():
        inner.execute(f"GRANT {right} ON {table} TO {account}")


_CREATE = f"CREATE EXTENSION IF NOT EXISTS vector SCHEMA {SCHEMA}"
"""In a schema whose owner is known: who owns the one that it lies in can drop it."""
_SCHEMA_OF_IT = (
    "SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace "
    "WHERE e.extname = 'vector'"
)


def _decoding(schema: str) -> str:
    scales, above = [], []
    for byte in range(256):
        exponent = byte >> 2 & 31
        sign = -1 if byte & 128 else 1
        scales.append(sign * 2.0 ** (max(exponent, 1) - 25))
        above.append(((byte & 3) << 8) + (1024 if exponent else 0))
    return _DECODING.format(schema=schema, scale=_array(scales), above=_array(above))


def _array(numbers: Sequence[float]) -> str:
    return "'[0:255]={" + ",".join(map(repr, numbers)) + "}'::float8[]"


def _index_of(dimension: int) -> str:
    return f"{_TABLE}_{dimension}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
