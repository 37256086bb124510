"""What a reader sees while a reply is being written."""

from __future__ import annotations

import pytest

from localrag.models.llms.reply_text import ReplyText


def shown(data: bytes, *, size: int = 1, thinking: bool = False) -> list[str]:
    text = ReplyText(thinking=thinking)
    pieces = [text.feed(data[start : start + size]) for start in range(0, len(data), size)]
    return [*pieces, text.finish()]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 1000])
def test_characters_are_never_split(size: int) -> None:
    original = "水壶 and a 𝄞 clef, é"
    pieces = shown(original.encode(), size=size)
    assert "".join(pieces) == original
    assert all("\ufffd" not in piece for piece in pieces)


def test_half_a_character_at_the_end_is_dropped() -> None:
    assert "".join(shown("水壶".encode()[:-1])) == "水"


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
@pytest.mark.parametrize(
    ("original", "expected"),
    [
        ("<think>\nhm\n</think>\n\nYes.", "Yes."),
        ("\n<think></think>Yes.", "Yes."),
        ("<thinking> is a tag", "<thinking> is a tag"),
        ("a <think>b</think> c", "a <think>b</think> c"),
        ("<think> never closed", ""),
        ("<thi", "<thi"),
        (" \n<thi", " \n<thi"),
        ("<think>a</think> \n", ""),
        ("<think>a</th</think> \n b", "b"),
        (" \n x", " \n x"),
        ("", ""),
    ],
)
def test_a_thought_at_the_head_is_removed(original: str, expected: str, size: int) -> None:
    assert "".join(shown(original.encode(), size=size)) == expected


def test_a_thought_that_the_template_opened_is_removed() -> None:
    assert "".join(shown(b"hm </think> Yes.", thinking=True)) == "Yes."
