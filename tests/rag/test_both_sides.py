from __future__ import annotations

import pytest
from fakes import HashEmbedder
from scripted_llm import ScriptedLLM

from localrag.documents.tables import named_rows
from localrag.languages import LanguageCode
from localrag.models.llms.base import Options
from localrag.rag.base import Toolkit
from localrag.rag.both_sides import ConflictReporter
from localrag.rag.citations import read
from localrag.rag.disagreement import Disagreement, PassageClaim, disagreement
from localrag.text.tokenize import Tokenizer
from localrag.types import Card, Chunk, Citation, Columns, Message, Place, ScoredChunk, Statement

ENGLISH = ["The deposit for a locker is 20 euros.", "A locker needs a deposit of 35 euros."]
ASKED = Message("user", "Answer.")
CHINESE = ["会员的储物柜押金为20元。", "储物柜押金为35元。"]


def both(texts: list[str], question: str, language: LanguageCode) -> ConflictReporter:
    chunks = [
        ScoredChunk(Chunk(n, f"d{n}", 0, text, "", 1, 1, 0, len(text)), 1.0, f"/docs/{n}.txt")
        for n, text in enumerate(texts, start=1)
    ]
    contradiction = disagreement(question, chunks, Tokenizer())
    return ConflictReporter(
        contradiction,
        chunks,
        language,
        lambda hit: Card("", "", date="2024-03-01" if hit.score else ""),
    )


def cite(marker: int, text: str) -> Citation:
    return Citation(marker, marker, f"/docs/{marker}.txt", 1, text)


def completed(sides: ConflictReporter, text: str) -> list[Statement]:
    return sides.added(read(text, [cite(1, "x"), cite(2, "x")]), cite)


def test_the_model_is_told_that_passages_disagree() -> None:
    sides = both(ENGLISH, "How much is the deposit for a locker?", "en")
    (message,) = sides.with_note([ASKED])
    assert message.content.startswith(
        "Answer.\nPassages [1], [2] give different figures: 20 [1], 35 [2]."
    )
    assert [dict(step.values) for step in sides.steps] == [
        {"passages": ("1", "2"), "figures": ("20", "35")}
    ]


@pytest.mark.parametrize(
    ("texts", "question", "language", "text", "added"),
    [
        (
            ENGLISH,
            "How much is the deposit for a locker?",
            "en",
            "The deposit is 20 euros [1].",
            "By contrast, 2.txt (2024-03-01) says: “A locker needs a deposit of 35 euros.” [2]",
        ),
        (
            CHINESE,
            "储物柜押金是多少？",
            "zh",
            "押金为35元 [2]。",
            "但1.txt (2024-03-01)的说法不同：“会员的储物柜押金为20元。” [1]",
        ),
    ],
)
def test_what_an_answer_leaves_out_is_added(
    texts: list[str], question: str, language: LanguageCode, text: str, added: str
) -> None:
    (statement,) = completed(both(texts, question, language), text)
    assert (statement.written, statement.kind) == (f"\n\n{added}", "otherwise")
    assert [citation.citation.marker for citation in statement.citations] == [int(added[-2])]
    start, end = statement.extent
    assert statement.written[start:end] == added[:-4]
    assert (statement.rating, statement.quoted) == ("fully supported", True)
    assert statement.part in added


@pytest.mark.parametrize(
    "text", ["It is 20 euros [1], or 35 euros [2].", "Ask at the desk [1].", ""]
)
def test_nothing_is_added_to_what_says_both_or_something_else(text: str) -> None:
    assert completed(both(ENGLISH, "How much is the deposit for a locker?", "en"), text) == []


def test_nothing_is_said_where_passages_agree() -> None:
    sides = both(ENGLISH[:1] * 2, "How much is the deposit for a locker?", "en")
    assert (sides.with_note([ASKED]), sides.steps) == ([ASKED], [])
    assert completed(sides, "It is 20 euros [1].") == []


def test_a_denial_is_told_but_not_added() -> None:
    texts = ["Dogs are allowed in the reading room.", "Dogs are not allowed in the reading room."]
    sides = both(texts, "Are dogs allowed in the reading room?", "en")
    assert "Passages [1], [2] contradict each other." in sides.with_note([ASKED])[0].content
    assert completed(sides, "Dogs are allowed [1].") == []


@pytest.mark.parametrize(("documents", "differ"), [(("d", "d"), False), (("d", "e"), True)])
def test_rows_of_one_document_do_not_disagree(documents: tuple[str, str], differ: bool) -> None:
    """Each month has its own figures; two price lists for one thing differ."""
    head = "Item | Deposit"
    chunks = []
    for number, (document, figure) in enumerate(zip(documents, ("20", "35"), strict=True), start=1):
        text = f"{head}\nlocker with a key | {figure} euros"
        columns = (Columns(len(head) + 1, len(text), ("Item", "Deposit")),)
        chunk = Chunk(number, document, number, text, "", 1, 1, 0, len(text), columns)
        chunks.append(ScoredChunk(chunk, 1.0, "x"))
    tools = Toolkit(
        lambda *_: chunks,
        ScriptedLLM(),
        Tokenizer(),
        HashEmbedder(),
        lambda *_: Place(0),
        3,
        Options(),
    )
    question = "How much is the deposit for a locker with a key?"
    sides = ConflictReporter.among(question, chunks, [1], "en", tools, numbered=False)
    assert (sides.disagreement is not None) == differ


def test_of_rows_the_other_side_is_the_row_that_differs_in_its_numbers_alone() -> None:
    head = "Fee | Level | Rate"
    chunks, claims = [], []
    for number, rates in enumerate(((1500, 2600), (1650, 2800))):
        rows = [
            f"care | {level} | {rate}" for level, rate in zip(("half", "full"), rates, strict=True)
        ]
        text = "\n".join([head, *rows])
        columns = (Columns(len(head) + 1, len(text), ("Fee", "Level", "Rate")),)
        chunk = Chunk(number, f"d{number}", 0, text, "", 1, 1, 0, len(text), columns)
        chunks.append(ScoredChunk(chunk, 1.0, f"{number}.docx"))
        for _, _, row in named_rows(chunk):
            figure = row.rpartition(" ")[2]
            claims.append(PassageClaim(number, 0, len(row), row, figure))
    sides = ConflictReporter(
        Disagreement("number", tuple(claims)), chunks, "en", lambda _: Card("", "")
    )
    (added,) = completed(sides, "Fee: care | Level: full | Rate: 2800 [2]")
    assert added.part == "Fee: care | Level: full | Rate: 2600"
