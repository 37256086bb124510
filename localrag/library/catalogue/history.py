"""Answers that a person wanted to keep, by conversation.

An answer lives as long as the documents that it was written from are as they were: it goes with the
first of them that is removed, replaced or read anew, and so do those after it in its conversation,
which were asked in the light of it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from datetime import UTC, datetime

from localrag.library.catalogue.reads import HISTORY, Snapshot
from localrag.library.records import Conversation, KeptAnswer

_SHOWN = 300
"""Characters of its first question that a conversation is known by."""


def keeps_history(snapshot: Snapshot) -> bool:
    """Whether answers are to be kept."""
    return bool(snapshot.meta(HISTORY))


def conversations(snapshot: Snapshot) -> list[Conversation]:
    """All of them, the one that was last added to first."""
    rows = snapshot.sql.rows(
        "SELECT max(number), conversation, substr(question, 1, ?), min(number), count(1), "
        "min(asked_at), max(asked_at) FROM answers GROUP BY conversation ORDER BY max(number)",
        _SHOWN,
        kinds=(int, str, str, int, int, str, str),
    )
    return [
        Conversation(key, title, count, began, last)
        for _, key, title, _, count, began, last in reversed(list(rows))
    ]


def kept_answers(snapshot: Snapshot, conversation: str) -> list[KeptAnswer]:
    """The answers of a conversation, oldest first; none for one that is not there."""
    rows = snapshot.sql.rows(
        "SELECT number, question, asked_at, record FROM answers WHERE conversation = ? "
        "ORDER BY number",
        conversation,
        kinds=(int, str, str, str),
    )
    return [KeptAnswer(*row[1:]) for row in rows]


def keep_answer(
    sql: sqlite3.Connection,
    conversation: str,
    question: str,
    record: str,
    documents: Collection[str],
    *,
    after: int,
) -> bool:
    """Add an answer, written from these documents, to a conversation of `after` answers.

    False, and nothing is kept, where one of the documents or of the answers before has gone.
    """
    (before,) = sql.execute(
        "SELECT count(1) FROM answers WHERE conversation = ?", (conversation,)
    ).fetchone()
    there = [
        sql.execute("SELECT 1 FROM documents WHERE id = ?", (each,)).fetchone()
        for each in documents
    ]
    if before != after or None in there:
        return False
    now = datetime.now(UTC).isoformat(timespec="seconds")
    row = sql.execute(
        "INSERT INTO answers(conversation, question, asked_at, record) VALUES (?, ?, ?, ?)",
        (conversation, question, now, record),
    )
    sql.executemany(
        "INSERT INTO answer_documents VALUES (?, ?)",
        ((row.lastrowid, each) for each in sorted(set(documents))),
    )
    return True


def forget_answers_from(sql: sqlite3.Connection, document: str) -> None:
    """Drop the answers that were written from a document, and those after them."""
    sql.execute(
        "DELETE FROM answers WHERE number IN (SELECT later.number FROM answer_documents d "
        "JOIN answers one ON one.number = d.answer JOIN answers later "
        "ON later.conversation = one.conversation AND later.number >= one.number "
        "WHERE d.document = ?)",
        (document,),
    )


def forget_conversations(sql: sqlite3.Connection, conversation: str | None = None) -> bool:
    """Drop a conversation, or all; whether there was one."""
    gone = sql.execute("DELETE FROM answers WHERE ?1 IS NULL OR conversation = ?1", (conversation,))
    return bool(gone.rowcount)
