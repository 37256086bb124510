"""What is put to each document, so that a question about all of them can be computed.

The language model proposes the questions, held to a JSON schema.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from localrag.models.llms.base import LLM
from localrag.models.llms.structured import list_schema, object_schema, proposal
from localrag.prompts import with_examples
from localrag.tables.documents import LONGEST_COLUMN
from localrag.tables.plan import Operation
from localrag.tables.records import Column, ColumnKind
from localrag.text.language import answer_language

MOST = 3
"""Questions to each document."""

_MOST_TOKENS = 200


class _Question(msgspec.Struct):
    question: str
    type: ColumnKind


class _ColumnProposal(msgspec.Struct):
    columns: list[_Question] = []


_KINDS: Mapping[Operation, tuple[ColumnKind, ...]] = {
    "LIST": ("text", "number", "money", "date", "yes/no"),
    "COUNT": ("yes/no", "date", "money", "number"),
    "SUM": ("money", "number", "yes/no"),
    "MAX": ("money", "number", "date", "yes/no"),
}
"""What a document may be asked for, by what is done with the replies."""


def proposed(question: str, operation: Operation, llm: LLM) -> tuple[Column, ...]:
    """The columns that a question about many documents needs; none where the reply is no proposal.

    Raises `GenerationError` from the model.
    """
    messages = with_examples("columns", answer_language(question), question)
    kinds = {"enum": list(_KINDS[operation])}
    column_schema = object_schema(type=kinds, question={"type": "string"})
    schema = object_schema(columns=list_schema(column_schema, 1, MOST))
    columns = {
        " ".join(column.question.split()): Column(column.question.strip(), column.type)
        for column in proposal(llm, messages, _ColumnProposal, schema, _MOST_TOKENS).columns
        if column.question.strip() and len(column.question) < LONGEST_COLUMN
    }
    proposals = tuple(columns.values())
    if operation in ("LIST", "COUNT") and proposals and proposals[0].kind == "yes/no":
        # What is listed or counted are the documents for which all is so.
        return tuple(column for column in proposals if column.kind == "yes/no")
    return proposals
