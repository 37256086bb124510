"""Cells of tables, as they were read: what a document answers to a question, by a key.

The key says which question was put to which model in which words, and is a hash: it does not say
the question. A cell lives as long as its document is as it was.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from localrag.library.catalogue.base import Connection
from localrag.library.catalogue.reads import Snapshot


def kept_cells(
    snapshot: Snapshot, documents: Iterable[str], keys: Iterable[str]
) -> dict[tuple[str, str], str]:
    """Records by the id of the document and the key, of those that are kept."""
    rows = snapshot.sql.rows(
        'SELECT d.id, c."key", c.record FROM documents d JOIN cells c ON c.document = d.number '
        "WHERE d.id IN (SELECT value FROM json_each(?)) "
        'AND c."key" IN (SELECT value FROM json_each(?)) ORDER BY d.number, c."key"',
        json.dumps(sorted(set(documents))),
        json.dumps(sorted(set(keys))),
        kinds=(str, str, str),
        ordered=False,
    )
    return {(document, key): record for document, key, record in rows}


def keep_cells(sql: Connection, cells: Mapping[tuple[str, str], str]) -> None:
    """Keep records by document and key in place of older ones; not of documents that have gone."""
    for (document, key), record in cells.items():
        sql.execute(
            'DELETE FROM cells WHERE "key" = ? AND document IN '
            "(SELECT number FROM documents WHERE id = ?)",
            (key, document),
        )
        sql.execute(
            'INSERT INTO cells(document, "key", record) '
            "SELECT number, ?, ? FROM documents WHERE id = ?",
            (key, record, document),
        )


def forget_cells(sql: Connection) -> None:
    """Drop all of them."""
    sql.execute("DELETE FROM cells")
