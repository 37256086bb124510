"""What steps have to tell a person, in words."""

from __future__ import annotations

import pytest

from localrag.presentation.steps import note_text
from localrag.types import Note


@pytest.mark.parametrize(
    ("name", "english", "chinese"),
    [
        ("vectors", "The vector index is ", "向量索引"),
        ("keywords", "The keyword index is ", "关键词索引"),
    ],
)
def test_an_index_that_is_rebuilt_is_named_as_a_person_would(
    name: str, english: str, chinese: str
) -> None:
    note = Note("index damaged", {"name": name})
    assert note_text(note, "en").startswith(f"{english}of an earlier version")
    assert note_text(note, "zh").startswith(chinese)
