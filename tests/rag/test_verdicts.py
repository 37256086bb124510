"""A yes or a no that the sentence of the document denies."""

from __future__ import annotations

import pytest

from localrag.rag.verdicts import borne_out

STAFF = "Staff on probation may not work from home."
DOGS = "Dogs are welcome in the garden."
禁烟 = "室内禁止吸烟。"


def shown(written: str, quote: str, step: int = 3) -> str:
    """The answer as it is shown, written some letters at a time."""
    pieces = (written[at : at + step] for at in range(0, len(written), step))
    return "".join(borne_out(pieces, lambda _: (2, quote)))


@pytest.mark.parametrize("step", [1, 3, 500])
@pytest.mark.parametrize(
    ("written", "quote", "expected"),
    [
        ("Yes, someone on probation can work from home [1].", STAFF, f"{STAFF} [2]"),
        ("Yes.", STAFF, f"{STAFF} [2]"),
        ("Yes", STAFF, f"{STAFF} [2]"),
        ("No", STAFF, f"{STAFF} [2]"),
        ("Yes.", DOGS, f"{DOGS} [2]"),
        ("Yes. [1]", DOGS, f"{DOGS} [2]"),
        ("No.", f"1. {STAFF}", f"{STAFF} [2]"),
        ("No, they may not work from home.", STAFF, "No, they may not work from home."),
        ("Yes, dogs may come along. Cats, too.", DOGS, "Yes, dogs may come along. Cats, too."),
        ("No.", DOGS, f"{DOGS} [2]"),
        ("Yes, smoking is not allowed.", "Smoking is not allowed.", "Smoking is not allowed."),
        ("可以，室内能吸烟。", 禁烟, f"{禁烟} [2]"),
        ("是的。", 禁烟, f"{禁烟} [2]"),
        ("不可以。", 禁烟, f"{禁烟} [2]"),
        ("可以在花园里遛狗。", 禁烟, "可以在花园里遛狗。"),
        ("Nova Ltd did not pay.", DOGS, "Nova Ltd did not pay."),
        ("Yesterday, nobody came.", DOGS, "Yesterday, nobody came."),
        ("5 minutes", STAFF, "5 minutes"),
        ("", STAFF, ""),
    ],
)
def test_what_is_shown(written: str, quote: str, expected: str, step: int) -> None:
    assert shown(written, quote, step) == expected


def test_a_verdict_stays_where_no_sentence_was_found_or_it_is_endless() -> None:
    assert shown("Yes.", "") == "Yes."
    assert shown("Yes.", "not " * 200) == "Yes."
    endless = "Yes, " + "x" * 400
    assert shown(endless, STAFF) == endless


def test_an_answer_without_a_verdict_is_not_waited_for() -> None:
    given: list[str] = []

    def pieces() -> object:
        for piece in ("The ", "notice ", "period"):
            given.append(piece)
            yield piece

    stream = borne_out(pieces(), lambda _: (1, DOGS))  # type: ignore[arg-type]
    assert next(stream) == "The "
    assert given == ["The "]
