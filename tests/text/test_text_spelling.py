from __future__ import annotations

import pytest

from localrag.text.spelling import edits_between


@pytest.mark.parametrize(
    ("one", "other", "edits"),
    [
        ("turing", "turing", 0),
        ("turring", "turing", 1),
        ("turing", "turign", 1),
        ("backpropogation", "backpropagation", 1),
        ("李思魔", "李思摩", 1),
        ("", "ab", 2),
        ("abc", "", 3),
        ("kitten", "sitting", 3),
        ("abcdef", "badcfe", 3),
    ],
)
def test_edits(one: str, other: str, edits: int) -> None:
    assert edits_between(one, other, 3) == edits == edits_between(other, one, 3)
    for most in range(edits):
        assert edits_between(one, other, most) == most + 1, "no more is counted than asked"
