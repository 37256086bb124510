from __future__ import annotations

import pytest

from localrag.prompts import PromptLanguage
from localrag.rag.both_sides import Both
from localrag.rag.disagreement import disagreement
from localrag.rag.faithfulness import Checked
from localrag.text.tokenize import Tokenizer
from localrag.types import Card, Chunk, Citation, Message, ScoredChunk

ENGLISH = ["The deposit for a locker is 20 euros.", "A locker needs a deposit of 35 euros."]
ASKED = Message("user", "Answer.")
CHINESE = ["会员的储物柜押金为20元。", "储物柜押金为35元。"]


def both(texts: list[str], question: str, language: PromptLanguage) -> Both:
    chunks = [
        ScoredChunk(Chunk(n, f"d{n}", 0, text, "", 1, 1, 0, len(text)), 1.0, f"/docs/{n}.txt")
        for n, text in enumerate(texts, start=1)
    ]
    found = disagreement(question, chunks, Tokenizer())
    return Both(
        found, chunks, language, lambda hit: Card("", "", date="2024-03-01" if hit.score else "")
    )


def cite(marker: int, text: str) -> Citation:
    return Citation(marker, marker, f"/docs/{marker}.txt", 1, text)


def completed(sides: Both, text: str) -> tuple[str, Checked]:
    answer = sides.completed(Checked(text, (cite(1, "x"),)), cite)
    return answer.text[len(text) :], answer


def test_the_model_is_told_that_passages_disagree() -> None:
    sides = both(ENGLISH, "How much is the deposit for a locker?", "en")
    (message,) = sides.told([ASKED])
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
    texts: list[str], question: str, language: PromptLanguage, text: str, added: str
) -> None:
    new, answer = completed(both(texts, question, language), text)
    assert new == f"\n\n{added}"
    assert answer.text == text + new
    assert [each.marker for each in answer.citations] == [1, int(added[-2])]
    (rated,) = answer.support
    assert answer.text[rated.start : rated.end] == added[:-4]
    assert answer.citations[1].claims == (added[:-4],)


@pytest.mark.parametrize(
    "text", ["It is 20 euros [1], or 35 euros [2].", "Ask at the desk [1].", ""]
)
def test_nothing_is_added_to_what_says_both_or_something_else(text: str) -> None:
    new, answer = completed(both(ENGLISH, "How much is the deposit for a locker?", "en"), text)
    assert (new, answer.text) == ("", text)


def test_nothing_is_said_where_passages_agree() -> None:
    sides = both(ENGLISH[:1] * 2, "How much is the deposit for a locker?", "en")
    assert (sides.told([ASKED]), sides.steps) == ([ASKED], [])
    assert completed(sides, "It is 20 euros [1].")[0] == ""


def test_a_denial_is_told_but_not_added() -> None:
    texts = ["Dogs are allowed in the reading room.", "Dogs are not allowed in the reading room."]
    sides = both(texts, "Are dogs allowed in the reading room?", "en")
    assert "Passages [1], [2] contradict each other." in sides.told([ASKED])[0].content
    assert completed(sides, "Dogs are allowed [1].")[0] == ""
