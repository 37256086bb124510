"""Answers that a person wanted to keep, by conversation.

An answer lives as long as the documents that it was written from are as they were: it goes with the
first of them that is removed, replaced or read anew, and so do those after it in its conversation,
which were asked in the light of it. In a database with users each user's are that user's alone: the
policies of the database see to that.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime

from localrag.library.acting import acting
from localrag.library.catalogue.base import Connection, delete_rows
from localrag.library.catalogue.reads import HISTORY, Snapshot
from localrag.library.records import KeptAnswer, KeptConversation

_SHOWN = 300
"""Characters of its first question that a conversation is known by."""


def keeps_history(snapshot: Snapshot) -> bool:
    """Whether answers are to be kept."""
    return bool(snapshot.meta(HISTORY))


def conversations(snapshot: Snapshot) -> list[KeptConversation]:
    """All of them, the one that was last added to first."""
    rows = snapshot.sql.rows(
        "SELECT c.newest, a.conversation, substr(a.question, 1, ?), c.answers, c.began, c.ended "
        "FROM (SELECT max(number) AS newest, min(number) AS oldest, count(1) AS answers, "
        "min(asked_at) AS began, max(asked_at) AS ended FROM answers GROUP BY conversation) c "
        "JOIN answers a ON a.number = c.oldest ORDER BY c.newest",
        _SHOWN,
        kinds=(int, str, str, int, str, str),
    )
    return [KeptConversation(*row[1:]) for row in reversed(list(rows))]


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
    sql: Connection,
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
        sql.execute("SELECT 1 FROM documents WHERE id = ?", (document,)).fetchone()
        for document in documents
    ]
    if before != after or None in there:
        return False
    now = datetime.now(UTC).isoformat(timespec="seconds")
    with sql.of_everybody():
        (number,) = sql.execute("SELECT coalesce(max(number), 0) + 1 FROM answers").fetchone()
    who = acting.get()
    sql.execute(
        "INSERT INTO answers VALUES (?, ?, ?, ?, ?, ?)",
        (number, conversation, question, now, record, who if isinstance(who, str) else ""),
    )
    sql.executemany(
        "INSERT INTO answer_documents VALUES (?, ?)",
        ((number, document) for document in sorted(set(documents))),
    )
    return True


def forget_answers_from(sql: Connection, document: str) -> None:
    """Drop the answers that were written from a document, and those after them, whosever."""
    with sql.of_everybody():
        sql.execute(
            "DELETE FROM answers WHERE number IN (SELECT later.number FROM answer_documents d "
            "JOIN answers one ON one.number = d.answer JOIN answers later "
            "ON later.conversation = one.conversation AND later.number >= one.number "
            "WHERE d.document = ?)",
            (document,),
        )


def forget_conversations(sql: Connection, conversation: str | None = None) -> bool:
    """Drop a conversation, or all; whether there was one."""
    return delete_rows(sql, "answers", "conversation", conversation)
