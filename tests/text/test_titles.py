from __future__ import annotations

import pytest

from localrag.text.titles import LONGEST_TITLE, bounded_title


@pytest.mark.parametrize(
    "title", ["", "Lease, Ottway", " a  b ", "word " * 60, "茶" * LONGEST_TITLE]
)
def test_an_ordinary_title_stays_as_it_is(title: str) -> None:
    assert len(title) <= LONGEST_TITLE
    assert bounded_title(title) == title


@pytest.mark.parametrize("length", [LONGEST_TITLE + 1, 2 * LONGEST_TITLE, 100_000])
@pytest.mark.parametrize("word", ["word ", "茶", "x", "a" * 200 + " ", "garden, "])
def test_a_long_title_is_cut_at_a_word(word: str, length: int) -> None:
    title = (word * length)[:length]
    cut = bounded_title(title)
    assert LONGEST_TITLE // 2 < len(cut) <= LONGEST_TITLE
    assert cut.endswith("…")
    assert title.startswith(cut[:-1])
    assert " " not in word or title[len(cut) - 1] == " "
    assert bounded_title(cut) == cut


def test_a_word_that_ends_at_the_bound_stays() -> None:
    title = "a" * 200 + " " + "b" * 98 + " c"
    assert bounded_title(title) == "a" * 200 + " " + "b" * 98 + "…"
