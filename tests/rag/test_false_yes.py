"""A "Yes" that its own sentence contradicts is taken out, and no other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from localrag.rag.false_yes import without_false_yes


@pytest.mark.parametrize(
    ("question", "written", "said"),
    [
        (
            "May I smoke in the room?",
            "Yes, smoking is forbidden in the rooms. It costs 8.5 euros.",
            "Smoking is forbidden in the rooms. It costs 8.5 euros.",
        ),
        ("Are cats allowed?", " yes, cats are not allowed [1]", "Cats are not allowed [1]"),
        ("可以带猫吗？", "可以，本店禁止带猫。", "本店禁止带猫。"),
        ("会议室里可以吃东西吗？", "是的，会议室不得饮食。", "会议室不得饮食。"),
    ],
)
def test_a_yes_before_a_no_goes(question: str, written: str, said: str) -> None:
    for size in (1, 3, 200):
        pieces = (written[at : at + size] for at in range(0, len(written), size))
        assert "".join(without_false_yes(pieces, question)) == said


@pytest.mark.parametrize(
    ("question", "written"),
    [
        ("May I smoke?", "Yes, you may smoke on the terrace."),
        ("May I smoke?", "Yes, but smoking is forbidden in the rooms."),
        ("May I smoke?", "Yes, you may. Smoking in the rooms is forbidden."),
        ("Is smoking forbidden?", "Yes, smoking is forbidden."),
        ("Is it true that cats may not stay?", "Yes, cats are not allowed."),
        ("Who is the owner?", "Yesterday smoking was forbidden."),
        ("禁止吸烟吗？", "是的，禁止吸烟。"),
        ("可以带猫吗？", "可以带猫，不能带狗。"),
        ("May I?", ""),
    ],
)
def test_what_says_one_thing_stays(question: str, written: str) -> None:
    for size in (1, 200):
        pieces = (written[at : at + size] for at in range(0, len(written), size))
        assert "".join(without_false_yes(pieces, question)) == written


@pytest.mark.parametrize("begun", ["The ", "Yes it is", "对于客", "可以追", "能源部"])
def test_what_begins_otherwise_is_not_waited_for(begun: str) -> None:
    def pieces() -> Iterator[str]:
        yield begun
        yield "glass"
        pytest.fail("it was there already")

    assert next(without_false_yes(pieces(), "May I smoke?")) == begun
