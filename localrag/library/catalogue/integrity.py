"""The catalogue against itself: SQLite's own structures, references, checksums and values."""

# ruff: noqa: S608 - what is put into a statement here are names of our own schema

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Generator, Iterator

import numpy as np

from localrag.library.catalogue.base import Connection
from localrag.library.catalogue.checksums import CONTENT, PASSAGES, SOURCES, checksum
from localrag.library.catalogue.guarded import GuardedConnection
from localrag.library.catalogue.reads import BEYOND, CHUNKS, SETTINGS, Snapshot
from localrag.types import Finding

FOREIGN = "foreign"
"""The code of a finding that an import leaves behind."""

_REQUIRED = ("generation", "dimension", "epoch", "embedding", CHUNKS)
_TYPES = {"INTEGER": "integer", "TEXT": "text", "BLOB": "blob"}
_IMPOSSIBLE = (
    "SELECT count(1) FROM chunks c JOIN documents d ON d.number = c.document WHERE c.id < 0 OR "
    'c."start" < 0 OR c."end" < c."start" OR c."end" > d.length OR c.position < 0',
    "SELECT count(1) FROM pages p JOIN documents d ON d.number = p.document WHERE "
    'p."start" < 0 OR p."end" < p."start" OR p."end" > d.length',
    "SELECT count(1) FROM headings h JOIN documents d ON d.number = h.document WHERE "
    'h."start" < 0 OR h."start" > d.length',
    "SELECT count(1) FROM documents WHERE length < 0 OR size < 0",
    f"SELECT count(1) FROM documents WHERE number >= {BEYOND}",
    f"SELECT count(1) FROM chunks WHERE number >= {BEYOND}",
    "SELECT count(1) FROM chunks WHERE number NOT IN (SELECT chunk FROM embeddings)",
)
"""How many rows say what no document can be."""

_OF_AN_INDEX = re.compile(
    r"row \d+ missing from index|wrong # of entries in index|non-unique entry in index"
)


def catalogue_findings(snapshot: Snapshot) -> Iterator[Finding]:
    """All that is wrong; stops where SQLite's own structures are."""
    sql, wrong = snapshot.sql, list[Finding]()
    if isinstance(sql, GuardedConnection):  # a server sees to its own pages, keys and types
        faults = yield from _structure(sql)
        if faults:
            return
        wrong += [*_dangling(sql), *_settings(sql)]
    wrong += [*_documents(sql), *_values(snapshot)]
    yield from wrong
    if not wrong and snapshot.chunk_set() != snapshot.counted_chunks():
        yield _finding("settings", key=CHUNKS)


def _structure(sql: GuardedConnection) -> Generator[Finding, None, bool]:
    """What SQLite says of the file; returns whether that is anything."""
    faults = []
    for (message,) in sql.execute("PRAGMA integrity_check"):
        if message != "ok":
            faults.append(str(message))
        if faults and not _OF_AN_INDEX.match(faults[-1]):
            break  # pages that refer to each other in a ring would be looked at for ever
    for fault in faults:
        mendable = bool(_OF_AN_INDEX.match(fault))
        yield _finding("structure", reason=" ".join(fault.split()), mendable=mendable)
    return bool(faults)


def _finding(code: str, **values: object) -> Finding:
    return Finding("catalogue", code, values)


def _dangling(sql: GuardedConnection) -> Iterator[Finding]:
    rows = sql.execute("PRAGMA foreign_key_check")
    for (table, parent), count in Counter((row[0], row[2]) for row in rows).items():
        yield _finding("dangling", count=count, table=table, parent=parent)


def _settings(sql: GuardedConnection) -> Iterator[Finding]:
    settings = dict(sql.execute("SELECT key, value FROM meta LIMIT 1000"))
    wrong = [key for key in _REQUIRED if key not in settings]
    wrong += [
        key for key in settings if key in SETTINGS and type(settings[key]) is not SETTINGS[key]
    ]
    for key in wrong:
        yield _finding("settings", key=key)
    for key in (key for key in settings if key not in SETTINGS):
        yield _finding(FOREIGN, key=key)


def _values(snapshot: Snapshot) -> Iterator[Finding]:
    """Whether every value is one that can have been stored there."""
    sql = snapshot.sql
    queries = [*_IMPOSSIBLE, *(_mistyped(sql) if isinstance(sql, GuardedConnection) else ())]
    count = sum(int(sql.execute(query).fetchone()[0]) for query in queries)
    count += sum(not _is_object(row[0]) for row in sql.execute("SELECT metadata FROM documents"))
    if not count:
        for _, vectors in snapshot.packed_embeddings():
            packed = np.frombuffer(b"".join(vectors), dtype=np.uint8)
            count += packed.size % 2 or int((~np.isfinite(packed.view("<f2"))).sum())
    if count:
        yield _finding("values", count=count)


def _mistyped(sql: GuardedConnection) -> Iterator[str]:
    tables = sql.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    for (table,) in tables:
        columns = sql.execute(f"PRAGMA table_info({table})").fetchall()
        other = [f"typeof(\"{c[1]}\") != '{_TYPES[c[2]]}'" for c in columns if c[2]]
        yield f"SELECT count(1) FROM {table} WHERE {' OR '.join(other)}"


def _is_object(stored: object) -> bool:
    try:
        return isinstance(json.loads(str(stored)), dict)
    except (ValueError, RecursionError):
        return False


def _documents(sql: Connection) -> Iterator[Finding]:
    rows = sql.execute(
        "SELECT d.number, d.id, min(s.path), c.content, c.passages, c.sources FROM documents d "
        "LEFT JOIN sources s ON s.document = d.number "
        "LEFT JOIN checksums c ON c.document = d.number "
        "GROUP BY d.number, d.id, c.content, c.passages, c.sources"
    ).fetchall()
    for number, document_id, path, content, passages, sources in rows:
        name = path if path is not None else str(document_id)
        if path is None:
            yield _finding("no-source", name=name)
        if checksum(sql, CONTENT, number) != content:
            yield _finding("content", name=name)
        if path is not None and checksum(sql, SOURCES, number) != sources:
            yield _finding("sources", name=name)
        if not _passages_are_sound(sql, number, passages):
            yield _finding("passages", name=name)


def passages_are_sound(snapshot: Snapshot) -> bool:
    """Whether passages and vectors are those that were stored; reads all of them."""
    rows = snapshot.sql.execute(
        "SELECT d.number, c.passages FROM documents d "
        "LEFT JOIN checksums c ON c.document = d.number"
    ).fetchall()
    return all(_passages_are_sound(snapshot.sql, number, expected) for number, expected in rows)


def _passages_are_sound(sql: Connection, number: int, expected: object) -> bool:
    (wrong,) = sql.execute(
        "SELECT count(*) FROM chunks c LEFT JOIN embeddings e ON e.chunk = c.number "
        "WHERE c.document = ? AND (e.vector IS NULL "
        "OR length(e.vector) != "
        "2 * CAST((SELECT value FROM meta WHERE key = 'dimension') AS BIGINT) "
        "OR c.generation > CAST((SELECT value FROM meta WHERE key = 'generation') AS BIGINT))",
        (number,),
    ).fetchone()
    return not wrong and checksum(sql, PASSAGES, number) == expected
