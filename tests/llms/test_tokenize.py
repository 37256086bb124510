"""What llama.cpp is given to cut into tokens."""

from __future__ import annotations

import pytest
from counting import seconds

from localrag.models.llms.llama_cpp.context import LONGEST_RUN, within_the_stack


@pytest.mark.parametrize(
    "unit", ["a", "茶", "1", " ", "\n", "!", "क्", "!\u0301", "_", "\x01", "Ab"]
)
def test_a_run_is_cut(unit: str) -> None:
    text = "Before. " + unit * 40_000 + " after"
    parts = within_the_stack(text)
    assert "".join(parts) == text
    assert max(map(len, parts)) < 2 * LONGEST_RUN + 20


@pytest.mark.parametrize("unit", ["word ", "茶园，", "a.b", "1 ", "x" * LONGEST_RUN + " "])
def test_a_text_of_words_is_not(unit: str) -> None:
    assert within_the_stack(unit * 2000) == [unit * 2000]


def test_looking_for_runs_is_quick() -> None:
    text = ("x" * (LONGEST_RUN - 1) + " ") * 1000
    assert seconds(lambda: within_the_stack(text)) < 2
