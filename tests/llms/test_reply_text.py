"""What a reader sees while a reply is being written."""

from __future__ import annotations

import pytest

from localrag.models.llms.reply_text import ReplyText


def shown(
    data: bytes, stops: tuple[str, ...] = (), *, size: int = 1, thinking: bool = False
) -> list[str]:
    text = ReplyText(stops, thinking=thinking)
    pieces = []
    for start in range(0, len(data), size):
        pieces.append(text.feed(data[start : start + size]))
        if text.stopped:
            return [*pieces, text.finish()]
    return [*pieces, text.finish()]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 1000])
def test_characters_are_never_split(size: int) -> None:
    original = "水壶 and a 𝄞 clef, é"
    pieces = shown(original.encode(), size=size)
    assert "".join(pieces) == original
    assert all("\ufffd" not in piece for piece in pieces)


def test_half_a_character_at_the_end_is_dropped() -> None:
    assert "".join(shown("水壶".encode()[:-1])) == "水"


@pytest.mark.parametrize("size", [1, 2, 4, 1000])
@pytest.mark.parametrize(
    ("original", "stops", "expected"),
    [
        ("one END two", ("END",), "one "),
        ("one EN two", ("END",), "one EN two"),
        ("one EEND", ("END",), "one E"),
        ("abcabd", ("abd",), "abc"),
        ("first\n\nsecond", ("\n\n", "second"), "first"),
        ("答案。\n问题：", ("\n问题",), "答案。"),
        ("ends in EN", ("END",), "ends in EN"),
        ("anything", ("",), "anything"),
    ],
)
def test_text_ends_before_a_stop_string(
    original: str, stops: tuple[str, ...], expected: str, size: int
) -> None:
    assert "".join(shown(original.encode(), stops, size=size)) == expected


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
        ("", ""),
    ],
)
def test_a_thought_at_the_head_is_removed(original: str, expected: str, size: int) -> None:
    assert "".join(shown(original.encode(), size=size)) == expected


def test_a_thought_that_the_template_opened_is_removed() -> None:
    assert "".join(shown(b"hm </think> Yes.", thinking=True)) == "Yes."


def test_stop_strings_inside_a_thought_do_not_stop() -> None:
    assert "".join(shown(b"<think>END</think>Yes END no", ("END",))) == "Yes "
