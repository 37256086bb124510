"""The catalogue against itself: SQLite's own structures, references, and checksums."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator

from localrag.messages import tr
from localrag.stores.checksums import content_checksum, passages_checksum, sources_checksum
from localrag.stores.findings import Finding, repair_by_rebuild, repair_from_backup
from localrag.stores.reads import Snapshot

_OF_AN_INDEX = re.compile(
    r"row \d+ missing from index|wrong # of entries in index|non-unique entry in index"
)


def catalogue_findings(snapshot: Snapshot) -> Iterator[Finding]:
    """All that is wrong; stops where SQLite's own structures are."""
    sql = snapshot.sql
    faults = [str(row[0]) for row in sql.execute("PRAGMA integrity_check") if row[0] != "ok"]
    for fault in faults:
        yield Finding(
            "catalogue",
            "structure",
            tr("catalogue.sqlite is damaged: {reason}.", reason=" ".join(fault.split())),
            repair_by_rebuild() if _OF_AN_INDEX.match(fault) else repair_from_backup(),
        )
    if faults:
        return
    yield from _dangling(sql)
    yield from _settings(snapshot)
    yield from _documents(sql)


def _dangling(sql: sqlite3.Connection) -> Iterator[Finding]:
    counts: dict[tuple[str, str], int] = {}
    for table, _, parent, _ in sql.execute("PRAGMA foreign_key_check"):
        counts[table, parent] = counts.get((table, parent), 0) + 1
    for (table, parent), count in counts.items():
        yield Finding(
            "catalogue",
            "dangling",
            tr(
                "catalogue.sqlite: {count} rows of {table} belong to nothing in {parent}.",
                count=count,
                table=table,
                parent=parent,
            ),
            repair_by_rebuild(),
        )


def _settings(snapshot: Snapshot) -> Iterator[Finding]:
    kinds = {"generation": int, "dimension": int, "epoch": str, "embedding": str}
    for key, kind in kinds.items():
        if not isinstance(snapshot.meta(key), kind):
            yield Finding(
                "catalogue",
                "settings",
                tr("catalogue.sqlite does not say what it must of “{key}”.", key=key),
                repair_from_backup(),
            )


def _documents(sql: sqlite3.Connection) -> Iterator[Finding]:
    rows = sql.execute(
        "SELECT d.number, d.id, min(s.path), c.content, c.passages, c.sources FROM documents d "
        "LEFT JOIN sources s ON s.document = d.number "
        "LEFT JOIN checksums c ON c.document = d.number GROUP BY d.number"
    ).fetchall()
    for number, document_id, path, content, passages, sources in rows:
        name = path if path is not None else str(document_id)
        if path is None:
            yield Finding(
                "catalogue",
                "no-source",
                tr(
                    "The document {name} belongs to no file any more, and is not shown.",
                    name=name,
                ),
                tr("Add its file again with `localrag add`."),
            )
        if content_checksum(sql, number) != content:
            yield Finding(
                "catalogue",
                "content",
                tr("{name}: what is stored of its text is not what was stored.", name=name),
                tr("Take it out with `localrag remove`, then add the file again."),
            )
        if path is not None and sources_checksum(sql, number) != sources:
            yield Finding(
                "catalogue",
                "sources",
                tr("{name}: the files it was added from are not those stored.", name=name),
                tr("Take it out with `localrag remove`, then add the file again."),
            )
        if not _passages_are_sound(sql, number, passages):
            yield Finding(
                "catalogue",
                "passages",
                tr("{name}: its passages or vectors are not what was stored.", name=name),
                tr("Run `localrag rebuild`, which cuts and embeds everything anew."),
            )


def passages_are_sound(sql: sqlite3.Connection) -> bool:
    """Whether every document's passages and vectors are those that were stored."""
    rows = sql.execute(
        "SELECT d.number, c.passages FROM documents d "
        "LEFT JOIN checksums c ON c.document = d.number"
    ).fetchall()
    return all(_passages_are_sound(sql, number, expected) for number, expected in rows)


def _passages_are_sound(sql: sqlite3.Connection, number: int, expected: object) -> bool:
    (wrong,) = sql.execute(
        "SELECT count(*) FROM chunks c LEFT JOIN embeddings e ON e.chunk = c.id "
        "WHERE c.document = ? AND (e.vector IS NULL "
        "OR length(e.vector) != 2 * (SELECT value FROM meta WHERE key = 'dimension') "
        "OR c.generation > (SELECT value FROM meta WHERE key = 'generation'))",
        (number,),
    ).fetchone()
    return not wrong and passages_checksum(sql, number) == expected
