"""The document's own sentences in place of a yes or no."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from localrag.config.settings import Settings
from localrag.factory import make_tokenizer
from localrag.rag.verdicts import Echo, without_guess

STAFF = "Staff on probation may not work from home. [2]"
STAYS = ""


TERMS = make_tokenizer(Settings())
ECHO = Echo("Where may staff work while they are on probation?", TERMS)


def shown(
    written: str, step: int, *, guesses: bool, sentences: str = STAFF, echo: Echo = ECHO
) -> str:
    """The answer as it is shown, written some letters at a time."""
    pieces = (written[at : at + step] for at in range(0, len(written), step))
    return "".join(without_guess(pieces, lambda: sentences, echo if guesses else None))


@pytest.mark.parametrize("step", [1, 3, 500])
@pytest.mark.parametrize(
    ("written", "of_guesses", "of_others"),
    [
        ("Yes, someone on probation can work from home [1].", STAFF, STAYS),
        ("No, they may not. Ask Nora.", STAFF, STAYS),
        ("可以，室内能吸烟。", STAFF, STAYS),
        ("Yes.", STAFF, STAFF),
        ("No", STAFF, STAFF),
        ("Yes. [1]", STAFF, STAFF),
        ("Yes [source 1]", STAFF, STAFF),
        ("No, 14.", STAFF, STAYS),
        ("是，30%。", STAFF, STAYS),
        ("No. 4711", STAYS, STAYS),
        ("Yes: 400,000.", STAYS, STAYS),
        ("需要：身份证、户口本。", STAYS, STAYS),
        ("是的。", STAFF, STAFF),
        ("不可以。", STAFF, STAFF),
        ("可以在花园里遛狗。", STAYS, STAYS),
        ("Nova Ltd did not pay.", STAYS, STAYS),
        ("Yesterday, nobody came.", STAYS, STAYS),
        ("5 minutes", STAYS, STAYS),
        ("", STAYS, STAYS),
    ],
)
def test_what_is_shown(written: str, of_guesses: str, of_others: str, step: int) -> None:
    assert shown(written, step, guesses=True) == (of_guesses or written)
    assert shown(written, step, guesses=False) == (of_others or written)


def test_a_verdict_stays_where_no_sentence_is_known() -> None:
    assert shown("Yes, they can.", 3, guesses=True, sentences="") == "Yes, they can."


@pytest.mark.parametrize(
    ("written", "guesses", "read"),
    [
        (["Only ", "at ", "home"], True, 1),
        (["Yes", ", it ", "does", "."], False, 2),
        (["Yes", ", it ", "does", "."], True, 2),
    ],
)
def test_no_more_is_waited_for_than_needed(written: list[str], guesses: bool, read: int) -> None:
    parts: list[str] = []

    def pieces() -> Iterator[str]:
        for piece in written:
            parts.append(piece)
            yield piece

    next(without_guess(pieces(), lambda: STAFF, ECHO if guesses else None))
    assert len(parts) == read


def test_the_model_is_stopped_where_its_answer_gives_way() -> None:
    stops: list[bool] = []

    def pieces() -> Iterator[str]:
        try:
            yield from ["Yes, ", "they ", "can."]
        finally:
            stops.append(True)

    def sentences() -> str:
        return STAFF

    stream_of_pieces = pieces()
    stream = without_guess(stream_of_pieces, sentences, ECHO)
    assert next(stream) == STAFF
    assert stops == [True]


@pytest.mark.parametrize("step", [1, 3, 500])
@pytest.mark.parametrize(
    ("question", "written", "is_echo"),
    [
        ("How many stitches did the hospital put in?", "The hospital put in stitches [1].", True),
        ("How many stitches did the hospital put in?", "The hospital put in seven.", False),
        ("Who charges less, Brask or Veldmoor?", "Veldmoor charged less.", True),
        ("Who charges less, Brask or Veldmoor?", "Veldmoor, at 40 pounds.", False),
        ("医院给缝了几针？", "医院给缝了几针。[1]", True),
        ("医院给缝了几针？", "医院给缝了7针。", False),
        ("医院给缝了几针？", "七针", False),
        ("面粉里长虫了几天内能找人家换", "面粉里长虫了几天内能找人家换。", True),
        ("面粉里长虫了几天内能找人家换", "收货后7日内能换", False),
        ("Who is the landlord?", "Not the tenant.", False),
        ("What is due?", " [1]", False),
        ("What grade is the steel?", "A.", False),
        ("Which block is Anna's laundry in?", "Anna's laundry is in block A.", False),
        ("宿舍在哪个区？", "宿舍在A区。", False),
        ("Which annex has the prices?", "Annex [A] has the prices [1].", False),
        ("What is the fee for a quarter?", "The fees are £15 for each quarter.", False),
        ("On which floor is the office?", "The office is on floor II.", False),
    ],
)
def test_what_the_question_says_already_is_no_answer(
    question: str, written: str, step: int, *, is_echo: bool
) -> None:
    echo = Echo(question, TERMS)
    assert shown(written, step, guesses=True, echo=echo) == (STAFF if is_echo else written)
    assert shown(written, step, guesses=False, echo=echo) == written


def test_an_echo_is_waited_for_until_it_says_more() -> None:
    parts: list[str] = []

    def pieces() -> Iterator[str]:
        for piece in ("The ", "hospital ", "put ", "in ", "seven ", "of ", "them."):
            parts.append(piece)
            yield piece

    echo = Echo("How many stitches did the hospital put in?", TERMS)
    next(without_guess(pieces(), lambda: STAFF, echo))
    assert parts[-1] == "seven "
