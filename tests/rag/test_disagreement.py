from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from documents.test_linear_time import assert_linear

from localrag.errors import StoppedError
from localrag.rag.disagreement import MOST_FIGURES, MOST_STATEMENTS, disagreement
from localrag.text.tokenize import Tokenizer
from localrag.types import Chunk, Columns, ScoredChunk

PAIRS = Path(__file__).parent / "contradictions.json"
TERMS = Tokenizer()


def chunks(*texts: str, heading: str = "") -> list[ScoredChunk]:
    return [
        ScoredChunk(Chunk(n, f"d{n}", 0, text, heading, 1, 1, 0, len(text)), 1.0 / n, f"{n}.txt")
        for n, text in enumerate(texts, start=1)
    ]


def items(kind: str) -> list[Any]:
    return [pytest.param(i, id=i["question"]) for i in json.loads(PAIRS.read_bytes()) if kind in i]


@pytest.mark.parametrize("item", items("differ"))
def test_passages_that_contradict_each_other(item: dict[str, Any]) -> None:
    passages = chunks(*item["differ"])
    contradiction = disagreement(item["question"], passages, TERMS)
    assert contradiction is not None
    assert [side.figure for side in contradiction.statements] == item["figures"]
    for claim in contradiction.statements:
        assert passages[claim.chunk].chunk.text[claim.start : claim.end] == claim.text
        assert claim.figure in claim.text
    assert (contradiction.kind == "denial") == (item["figures"] == ["", ""])


@pytest.mark.parametrize("item", items("agree"))
def test_passages_about_another_matter_do_not(item: dict[str, Any]) -> None:
    assert disagreement(item["question"], chunks(*item["agree"]), TERMS) is None


def test_only_what_is_asked_is_compared() -> None:
    passages = chunks(
        "The hall was opened in 1907 and seats 300.", "The hall, opened in 1909, seats 300."
    )
    assert disagreement("How many people does the hall seat?", passages, TERMS) is None
    assert disagreement("Who opened the hall?", passages, TERMS) is None
    assert disagreement("When was the hall opened?", passages, TERMS) is not None


def test_one_passage_alone_does_not_contradict_itself() -> None:
    text = "The deposit for a locker is 20 euros. The deposit for a locker is 35 euros."
    assert disagreement("How much is the deposit for a locker?", chunks(text), TERMS) is None


def test_a_passage_that_gives_both_values_contradicts_neither() -> None:
    passages = chunks(
        "The deposit for a locker is 20 euros.",
        "The deposit for a locker rose from 20 euros to 35 euros.",
    )
    assert disagreement("How much is the deposit for a locker?", passages, TERMS) is None


def test_the_year_of_a_question_is_no_answer_to_it() -> None:
    passages = chunks("In 2019 the hall had 300 guests.", "In 2019 the hall had 450 guests.")
    contradiction = disagreement("How many guests did the hall have in 2019?", passages, TERMS)
    assert contradiction is not None
    assert [side.figure for side in contradiction.statements] == ["300", "450"]


def test_rows_of_tables_say_something_too() -> None:
    row = "Small locker | 20 euros"
    names = ("Item", "Deposit")
    table = Chunk(1, "a", 0, row, "", 1, 1, 0, len(row), (Columns(0, len(row), names),))
    other = chunks("The deposit for a small locker is 35 euros.")[0]
    contradiction = disagreement(
        "How much is the deposit for a small locker?",
        [ScoredChunk(table, 1.0, "a"), other],
        TERMS,
    )
    assert contradiction is not None
    assert [side.figure for side in contradiction.statements] == ["20", "35"]


def test_the_unread_that_say_something_else() -> None:
    passages = chunks(
        "The Marlow Bridge was opened in 1894.",
        "The bridge over the Tarn was opened in 1911.",
        "The Marlow Bridge was opened in 1894 by the mayor.",
        "The Marlow Bridge, opened in 1897, is 210 metres long.",
    )
    question = "When was the Marlow Bridge opened?"
    first, *rest = passages
    assert [passage for passage in rest if disagreement(question, [first, passage], TERMS)] == rest[
        2:
    ]
    assert disagreement("Who built the Marlow Bridge?", passages, TERMS) is None


COST = "How much does the elm cost?"


def listing(figures: list[str], between: str = " ") -> str:
    return f"The elm does cost {between.join(figures)}."


def test_a_row_of_figures_states_none() -> None:
    def differ(count: int, value: str) -> bool:
        other = listing([str(3000 + n) for n in range(count - 1)] + [value])
        return disagreement(COST, chunks(listing(["11"]), other), TERMS) is not None

    assert differ(MOST_FIGURES, "22")
    assert not differ(MOST_FIGURES + 1, "22")
    assert not differ(MOST_FIGURES, "11")  # both values are given


def test_a_figure_that_is_said_again_counts_once() -> None:
    contradiction = disagreement(
        COST, chunks(listing(["11"] * 100), listing(["22"] * 100, " and ")), TERMS
    )
    assert contradiction is not None
    assert [side.figure for side in contradiction.statements] == ["11", "22"]
    assert [side.text[18:20] for side in contradiction.statements] == ["11", "22"]


def test_of_very_many_statements_the_first_of_each_passage_are_compared() -> None:
    passages = chunks(*(" ".join(f"The elm costs {at}{n}." for n in range(90)) for at in "12"))
    contradiction = disagreement(COST, passages, TERMS)
    assert contradiction is not None
    assert [side.figure for side in contradiction.statements] == [
        f"{at}{n}" for at in "12" for n in range(MOST_STATEMENTS // 2)
    ]


@pytest.mark.parametrize(
    "between", [" ", ", ", ", the elm costs ", " kg and "], ids=["run", "list", "clauses", "units"]
)
def test_time_grows_with_the_number_of_figures(between: str) -> None:
    def work(count: int) -> Callable[[], object]:
        values = (["11"] * count + ["22"], ["22"] * count + ["11"])
        passages = chunks(*(listing(values[at % 2], between) for at in range(6)))
        return lambda: disagreement(COST, passages, TERMS)

    work(1)()
    assert_linear(work, 50)


def test_many_different_figures_and_clauses_take_no_time_either() -> None:
    def work(count: int) -> Callable[[], object]:
        texts = (
            listing([f"elm {at}x{n} {n % MOST_FIGURES}" for n in range(count)], ", ")
            + listing([str(10 * n + at) for n in range(count)])
            for at in range(6)
        )
        passages = chunks(*texts)
        return lambda: disagreement(COST, passages, TERMS)

    work(1)()
    assert_linear(work, 50)


def test_who_has_left_waits_for_no_comparison() -> None:
    stopped = threading.Event()

    def terms(text: str) -> list[str]:
        if "22" not in text:
            return TERMS(text)
        stopped.set()  # somewhere in the second passage
        return TERMS(text)

    passages = chunks(listing(["11"]), "The elm costs € 22, as told.", listing(["33"]))
    assert disagreement(COST, passages, TERMS, stopped) is not None
    with pytest.raises(StoppedError):
        disagreement(COST, passages, terms, stopped)
