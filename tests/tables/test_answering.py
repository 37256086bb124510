"""Questions about all: which rows are meant, what is computed, and what is told of it."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scripted_llm import ScriptedLLM

from localrag.config.settings import Settings
from localrag.factory import make_tokenizer
from localrag.library.records import DocumentRecord
from localrag.models.llms.base import Activations
from localrag.models.llms.choices import Chooser, LogitChooser
from localrag.models.llms.probes import Direction, Probes
from localrag.presentation.computed import computed_json, computed_lines
from localrag.rag import months
from localrag.rag.grading import Grade
from localrag.rag.question_words import Asked
from localrag.tables import answering, linking, plan
from localrag.tables.answering import (
    LibraryAccess,
    _results_by_file,
    answered,
    answered_after_all,
    shown,
)
from localrag.tables.collections import collections
from localrag.tables.columns import proposed
from localrag.tables.comparison import Ask
from localrag.tables.formulation import MOST_QUERIES, Computed, compute
from localrag.tables.linking import is_named, linked, of_named_files
from localrag.tables.plan import OPERATIONS
from localrag.tables.query import Condition
from localrag.tables.records import LATE, Cell, CellDone, Column, Event, Patience, Reply, Row, Value
from localrag.tables.records import Table as Grid
from localrag.tables.sheets import Dataset, RawTable, dataset_of, datasets, short_name
from localrag.text.tokenize import Tokenizer
from localrag.types import Answer, Chunk, Citation, Place, ScoredChunk, Statement, Step

TOKENIZER = Tokenizer()

MADE_UP = Path(__file__).parents[2] / "benchmarks" / "probes" / "tables.jsonl"


def record(source: str, title: str = "") -> DocumentRecord:
    return DocumentRecord(source, title, (source,), "", 1, "en", {}, 1, 1, 10, "")


RECORDS = [
    record("/firm/contracts/marsh.docx", "Contract with Marsh"),
    record("/firm/contracts/ottway.docx", "Contract with Ottway"),
    record("/firm/contracts/veld.docx", "Contract with Veld"),
    record("/firm/contracts/change.docx", "Amendment"),
    record("/firm/stock.csv"),
]


def test_documents_of_one_kind_below_one_folder_are_a_collection() -> None:
    groups = {(group.folder, group.kind): len(group.documents) for group in collections(RECORDS)}
    assert groups == {("/firm/contracts", "contract"): 3, ("/firm/contracts", None): 4}


def stock() -> Dataset:
    rows = [("gloves", "3", "10"), ("masks", "20", "10"), ("soap", "1", "5")]
    places = [(2, 30), (3, 60), (4, 90)]
    names = ("Item", "In stock", "Minimum")
    return dataset_of([RawTable("/firm/stock.csv", "", names, rows, places, document_id="s")])


def told(quote: str) -> Citation:
    return Citation(1, 7, "x", 1, quote, Place(5))


GONE = ("s", 90)
"""Where a row stands of a document that is removed meanwhile."""


def cite(
    references: Sequence[tuple[str, int]], gone: tuple[str, int] | None = None
) -> tuple[list[ScoredChunk], dict[tuple[str, int], Citation]]:
    chunks = [ScoredChunk(Chunk(7, "s", 0, "text", "", 1, 1, 0, 4), 0.0, "x")]
    return chunks, {
        (document, at): Citation(1, 7, "x", 1, f"row at {at}", Place(at))
        for document, at in references
        if (document, at) != gone
    }


class Filled:
    """Cells as they were read: a reply for each document, None for none."""

    def __init__(self, replies: Sequence[Value | None], state: str = "found") -> None:
        self.replies, self.state = replies, state
        self.asked: list[Column] = []

    def __call__(
        self,
        documents: Sequence[DocumentRecord],
        columns: Sequence[Column],
        *,
        whole: bool,
    ) -> Iterator[Event]:
        self.asked += columns
        rows = []
        for number, (document, value) in enumerate(zip(documents, self.replies, strict=True)):
            cell = (
                Cell(self.state, value, value.text, (told("words"),), 0.9)  # type: ignore[arg-type]
                if value
                else Cell("not stated")
            )
            yield CellDone(number, 0, document.sources[0], cell, kept=False, left=0)
            rows.append(Row(document.id, document.sources[0], document.title, (cell,)))
        yield Grid(tuple(columns), tuple(rows))


def unparted(*_: object) -> Generator[Step, None, Grid | None]:
    """Documents of which none belongs more to a question than the others."""
    yield from ()
    return None


def unanswered(_: str) -> Generator[Step, None, Answer]:
    """What the documents do not hold."""
    yield from ()
    return Answer("", (), "en", False, (), (), 0.0)


def access(
    fill: Filled,
    *,
    hits: Sequence[str],
    sheets: Sequence[Dataset] = (),
    stated: Callable[[str], Grade] = lambda _: Grade(0.0),
    ask: Ask = lambda *_: Reply("", stated=False),
    answer: Callable[[str], Generator[Step, None, Answer]] = unanswered,
    belonging: Callable[..., Generator[Step, None, Grid | None]] = unparted,
) -> LibraryAccess:
    return LibraryAccess(
        hits=lambda *_: list(hits),
        records=lambda: RECORDS,
        sheets=lambda _: list(sheets),
        fill=fill,
        cite=cite,
        name=str,
        stated=stated,
        ask=ask,
        answer=answer,
        belonging=belonging,
    )


def run(
    question: str, llm: ScriptedLLM, library: LibraryAccess, chooser: Chooser | None = None
) -> tuple[str, Answer | None, list[Step]]:
    text, answer, steps = "", None, []
    for piece in answered(question, library, chooser or LogitChooser(llm), llm, TOKENIZER):
        if isinstance(piece, Statement):
            text += piece.written
        elif isinstance(piece, Answer):
            answer = piece
        else:
            steps.append(piece)
    return text, answer, steps


COUNT = {"LOOKUP": 1, "COUNT": 9}
LIST = {"LOOKUP": 1, "LIST": 9}
CONTENTS = {"DOCUMENTS": 1, "CONTENTS": 9}
FITS, MAYBE, NOT = {"Yes": 9, "No": 1}, {"Yes": 6, "No": 4}, {"Yes": 1, "No": 9}
YES, NO = Value("yes/no", "yes", 1.0), Value("yes/no", "no", 0.0)


def columns_reply(question: str, kind: str) -> str:
    return json.dumps({"columns": [{"type": kind, "question": question}]})


def test_a_question_about_one_thing_is_left_to_others() -> None:
    llm = ScriptedLLM(scores=[{"LOOKUP": 9, "LIST": 1}])
    assert run("Who signed?", llm, access(Filled([]), hits=[])) == ("", None, [])
    assert not llm.history


def test_a_number_that_a_passage_gives_is_not_counted_and_a_list_is_never_taken_from_one() -> None:
    questions: list[str] = []

    def stated(question: str) -> Grade:
        questions.append(question)
        return Grade(0.95)

    llm, question = ScriptedLLM(scores=[COUNT]), "How many days of leave are there?"
    assert run(question, llm, access(Filled([]), hits=[], stated=stated)) == ("", None, [])
    assert questions == [question]
    llm = ScriptedLLM(scores=[LIST])
    _, _, steps = run("Which contracts renew?", llm, access(Filled([]), hits=[], stated=stated))
    assert questions == [question]
    assert [step.kind for step in steps] == ["scope", "plan"]


@pytest.mark.parametrize(
    ("about_all", "stated", "rather"), [(3.0, 0.5, False), (3.0, 0.95, True), (1.2, 0.6, True)]
)
def test_what_a_section_rather_states_is_not_gone_through_for(
    about_all: float, stated: float, rather: bool
) -> None:
    """Also a list, where states were probed: both are probabilities then."""

    class State:
        def activations(self, *_: object, **__: object) -> Activations:
            return Activations(np.array([about_all, 1.0], np.float32))

    names = plan.PROBED
    weights = {"about_all": (1, 0), "LIST": (0, 1)}
    directions = {
        name: Direction(np.array(weights.get(name, (0, 0)), np.float32), 0.0) for name in names
    }
    library = access(Filled([]), hits=[], stated=lambda _: Grade(stated))
    chooser = LogitChooser(ScriptedLLM(), Probes(State(), directions))
    pieces = answered("Which contracts renew?", library, chooser, ScriptedLLM(), str.split)
    kinds = [piece.kind for piece in pieces if isinstance(piece, Step)]
    assert kinds == ([] if rather else ["scope", "plan"])


@pytest.mark.parametrize(
    ("operation", "question", "answer"),
    [
        ("COUNT", "How many sprayings were there?", "So no number is told"),
        ("SUM", "一共退了多少钱？", "因此不给出数字"),
        ("LIST", "Which contracts renew?", None),
    ],
)
def test_what_could_not_be_computed_is_not_counted_by_a_model(
    operation: str, question: str, answer: str | None
) -> None:
    class State:
        def activations(self, *_: object, **__: object) -> Activations:
            return Activations(np.array([3.0], np.float32))

    along = {"about_all": 1.0, operation: 1.0}
    names = plan.PROBED
    directions = {
        name: Direction(np.array([along.get(name, -1.0)], np.float32), 0.0) for name in names
    }
    library = access(Filled([]), hits=[], stated=lambda _: Grade(0.1))
    chooser = LogitChooser(ScriptedLLM(), Probes(State(), directions))
    *_, last = answered(question, library, chooser, ScriptedLLM(), str.split)
    if answer is None:
        assert isinstance(last, Step)
    else:
        assert isinstance(last, Answer)
        assert answer in last.text
        assert not last.grounded


@pytest.mark.parametrize(
    ("about_all", "drawn", "answer"),
    [
        (-0.5, ["SELECT COUNT(*) FROM data WHERE Minimum = 10"] * 3, "2 of 3 rows"),
        # Not for what is not asked, where readings differ or count nothing, nor about one thing.
        (-0.5, ["SELECT Minimum FROM data WHERE Item = 'gloves'"] * 3, ""),
        (-0.5, ["SELECT COUNT(*) FROM data WHERE Item = 'forklift'"] * 3, ""),
        (-0.5, [f"SELECT Item FROM data WHERE Minimum = {n}" for n in (10, 5)] * 2, ""),
        (-2.0, ["SELECT COUNT(*) FROM data WHERE Minimum = 10"] * 3, ""),
    ],
)
def test_what_no_section_answers_is_put_to_the_sheets(
    about_all: float, drawn: list[str], answer: str
) -> None:
    class State:
        def activations(self, *_: object, **__: object) -> Activations:
            return Activations(np.array([about_all, 1.0], np.float32))

    weights = {"about_all": (1, 0), plan.FITS: (0, 1)}
    directions = {
        name: Direction(np.array(weights.get(name, (0, 0)), np.float32), 0.0)
        for name in (*plan.PROBED, plan.FITS)
    }
    llm = ScriptedLLM([*drawn, ""])
    library = access(Filled([]), hits=["/firm/stock.csv"], sheets=[stock()])
    pieces = answered_after_all(
        "What is at its minimum?",
        library,
        LogitChooser(llm, Probes(State(), directions)),
        llm,
        str.split,
    )
    *_, last = [*pieces] or [None]
    assert (last.statements[0].text.strip() if isinstance(last, Answer) else "") == answer


@pytest.mark.parametrize(
    ("text", "question", "named"),
    [
        ("glove", "How many gloves are there?", True),
        ("In stock", "What is in stock?", True),
        ("HR", "How many in HR have signed?", True),
        ("Repairs", "What does each repair cost?", True),
        ("gloves", "Who is on call?", False),
        ("The Mill", "What does the tasting cost?", False),
        ("Anna and Tom", "How many gloves and masks are there?", False),
        ("一次性手套", "手套还有几副？", True),
        ("男", "有多少男员工？", True),
        ("一次性手套", "口罩还有几只？", False),
    ],
)
def test_a_text_is_named_by_a_word_that_carries_the_question(
    text: str, question: str, named: bool
) -> None:
    assert is_named(text, Asked(question, make_tokenizer(Settings()))) == named


ASKED = "Asked of each document: Does it renew?"


def test_documents_are_asked_one_by_one_and_listed_with_what_was_read() -> None:
    fill = Filled([YES, NO, YES])
    llm = ScriptedLLM([columns_reply("Does it renew?", "yes/no")], [LIST, FITS, MAYBE, CONTENTS])
    hits = [name.sources[0] for name in RECORDS[:3]]
    text, answer, steps = run("Which contracts renew?", llm, access(fill, hits=hits))
    listing = "2 of 3 documents\n- marsh [1]\n- veld [1]"
    assert text == f"{listing}\n\n{ASKED}\n3 of 3 documents read; none undecided."
    assert fill.asked == [Column("Does it renew?", "yes/no")]
    assert answer is not None
    assert answer.grounded
    assert answer.basis is not None
    assert (answer.basis.rows, answer.basis.counted, answer.basis.undecided) == (3, 2, ())
    assert answer.citations[0].quote == "words"  # what the cell quotes
    kinds = [step.kind for step in steps]
    assert kinds == ["scope", "plan", "columns", "cell", "cell", "cell", "compute"]


@pytest.mark.parametrize(
    ("question", "where", "told"),
    [
        ("How many are at their minimum?", "WHERE Minimum = 10", "2 of 3 rows"),
        ("How many are at their minimum?", "WHERE Item = 'gloves'", ""),
        ("How many contracts renew?", "", ""),
        ("How many items are there in the stock?", "", "3 of 3 rows"),
    ],
)
def test_behind_documents_that_say_nothing_the_likeliest_sheet_is_computed(
    question: str, where: str, told: str
) -> None:
    """Only what is surely asked for."""
    drawn = [f"SELECT COUNT(*) FROM data {where}"] * 3
    llm = ScriptedLLM(
        [columns_reply("How many are there?", "number"), *drawn],
        [COUNT, FITS, NOT, MAYBE, CONTENTS],
    )
    hits = [name.sources[0] for name in (*RECORDS[:3], *RECORDS[:3], RECORDS[-1])]
    library = access(Filled([None] * 3), hits=hits, sheets=[stock()])
    text, answer, steps = run(question, llm, library)
    assert [step.kind for step in steps if step.kind in ("plan", "compute")] == [
        "plan",
        "plan",
        "compute",
    ]
    assert text.partition(" [")[0] == told
    assert bool(answer) == bool(told)


def test_documents_that_could_not_be_decided_are_named_and_nothing_is_final() -> None:
    class Doubtful(Filled):
        def __call__(
            self, documents: Sequence[DocumentRecord], columns: Sequence[Column], *, whole: bool
        ) -> Iterator[Event]:
            *cells, table = super().__call__(documents, columns, whole=whole)
            assert isinstance(table, Grid)
            yield from cells
            first, *rest = table.rows
            cell = Cell("doubtful", None, "perhaps", reason="no value")
            row = Row(first.document_id, first.source, first.title, (cell,))
            yield Grid(table.columns, (row, *rest))

    llm = ScriptedLLM([columns_reply("Does it renew?", "yes/no")], [COUNT, FITS, MAYBE, CONTENTS])
    hits = [name.sources[0] for name in RECORDS[:3]]
    text, answer, _ = run(
        "How many contracts renew?", llm, access(Doubtful([YES, NO, YES]), hits=hits)
    )
    told_open = "3 of 3 documents read. Not final: marsh could not be decided."
    assert text == f"1 of 3 documents\n- veld [1]\n\n{ASKED}\n{told_open}"
    assert answer is not None
    assert answer.basis is not None
    assert answer.basis.undecided == ("/firm/contracts/marsh.docx",)
    assert [part.copied for part in answer.statements] == [(), ("veld",), ("marsh",)]


@pytest.mark.parametrize(
    ("whole", "spent", "done", "left", "ends"),
    [
        (False, 99.0, 9, 9, False),
        (False, 100.0, 9, 9, True),
        (True, 20.0, 2, 99, False),  # too few to foresee anything by
        (True, 20.0, 4, 15, False),  # 95 s
        (True, 20.0, 4, 16, True),  # 100 s
        (True, 99.0, 9, 0, False),
    ],
)
def test_it_is_foreseen_when_time_is_too_short_for_all(
    whole: bool, spent: float, done: int, left: int, ends: bool
) -> None:
    assert Patience(100.0, whole).ends(spent, done, left) is ends
    assert not Patience(whole=whole).ends(spent, done, left)


class Late(Filled):
    """Of which the last is not read in time."""

    def __call__(
        self, documents: Sequence[DocumentRecord], columns: Sequence[Column], *, whole: bool
    ) -> Iterator[Event]:
        self.order, self.whole = [record.sources[0] for record in documents], whole
        *cells, table = super().__call__(documents, columns, whole=whole)
        assert isinstance(table, Grid)
        yield from cells
        *head, last = table.rows
        yield Grid(table.columns, (*head, replace(last, cells=(LATE,))))


MARSH, OTTWAY, VELD = (name.sources[0] for name in RECORDS[:3])


def test_where_time_is_over_the_nearest_are_listed_and_nothing_is_final() -> None:
    llm = ScriptedLLM([columns_reply("Does it renew?", "yes/no")], [LIST, FITS, MAYBE, CONTENTS])
    late = Late([YES, YES, YES])
    library = access(late, hits=[VELD, OTTWAY, OTTWAY, MARSH])
    text, answer, _ = run("Which contracts renew?", llm, library)
    assert late.order == [VELD, OTTWAY, MARSH]
    assert not late.whole
    listing, closing = text.split("\n\n")
    assert listing == "2 of 2 documents\n- ottway [1]\n- veld [1]", "in the order of the documents"
    assert closing.startswith(
        f"{ASKED}\n2 of 3 documents read, those nearest to the question first"
    )
    assert "Not final" in closing
    assert answer is not None
    assert answer.basis is not None
    assert answer.basis.undecided == (MARSH,)


def test_where_time_is_over_nothing_is_counted() -> None:
    """Nor a sheet that fits less."""
    scores = [COUNT, FITS, NOT, MAYBE, CONTENTS]
    llm = ScriptedLLM([columns_reply("Does it renew?", "yes/no")], scores)
    late = Late([YES, YES, YES])
    library = access(late, hits=[VELD, OTTWAY, MARSH, "/firm/stock.csv"], sheets=[stock()])
    text, answer, steps = run("How many renew?", llm, library)
    assert late.whole
    assert (text, answer) == ("", None)
    assert [step.kind for step in steps].count("plan") == 1


def test_where_no_document_fits_that_is_the_answer() -> None:
    llm = ScriptedLLM([columns_reply("Does it renew?", "yes/no")], [LIST, FITS, MAYBE, CONTENTS])
    hits = [name.sources[0] for name in RECORDS[:3]]
    text, answer, _ = run("Which contracts renew?", llm, access(Filled([NO, NO, NO]), hits=hits))
    assert text == f"0 of 3 documents\n\n{ASKED}\n3 of 3 documents read; none undecided."
    assert answer is not None


BELOW = ['SELECT Item FROM data WHERE "In_stock" < "Minimum"'] * MOST_QUERIES
"""What a model writes of items that are below their minimum, as often as it is asked."""
BELOW_TOLD = (
    "Computed: “Item” of the rows, where “In stock” < “Minimum”.\nBased on 2 of 3 rows (stock)."
)


def test_rows_of_sheets_are_counted_where_readings_agree() -> None:
    llm = ScriptedLLM(BELOW, [LIST, FITS, MAYBE])
    text, answer, _ = run(
        "Which items are below their minimum?",
        llm,
        access(Filled([]), hits=["/firm/stock.csv"], sheets=[stock()]),
    )
    assert text == f"- gloves [1]\n- soap [1]\n\n{BELOW_TOLD}"
    assert answer is not None
    assert answer.grounded
    assert [citation.quote for citation in answer.citations] == ["row at 30", "row at 90"]
    assert answer.basis is not None
    assert answer.basis.documents == ("s",)


@pytest.mark.parametrize(
    ("question", "told"),
    [
        (
            "Which items are there?",
            "Computed: “Item” of the rows, all rows.\nBased on 3 of 3 rows (stock).\n"
            "Tables of stock that were not read: 7.",
        ),
        (
            "有哪些物品？",
            "计算内容：各行的“Item”，所有行。\n依据3行中的3行（stock）。\nstock中有7个表格未读取。",
        ),
    ],
)
def test_an_answer_says_what_was_computed_and_what_was_not_read(question: str, told: str) -> None:
    table = replace(stock().tables[0], unread=7)
    fits = FITS | {"是": 9, "否": 1}
    llm = ScriptedLLM(["SELECT Item FROM data"] * MOST_QUERIES, [LIST, fits, fits])
    library = access(Filled([]), hits=["/firm/stock.csv"], sheets=[dataset_of([table])])
    text, answer, _ = run(question, llm, library)
    assert text.endswith(f"\n{told}")
    assert answer is not None
    assert answer.basis is not None
    assert answer.basis.unread_tables == {"/firm/stock.csv": 7}


def test_an_answer_says_which_of_its_words_no_model_wrote() -> None:
    fits = [LIST, *[FITS] * 3]
    llm = ScriptedLLM(["SELECT Work FROM data WHERE Cost_GBP > 15"] * MOST_QUERIES, fits)
    library = access(Filled([]), hits=["/firm/fridge-1.csv"], sheets=[logs()])
    _, answer, _ = run("Which work cost more than 15 GBP?", llm, library)
    assert answer is not None
    *values, notice = [statement.copied or () for statement in answer.statements]
    assert values == [("repair",)]
    assert {"fridge-1", "fridge-2", "autoclave", "Work", "Cost GBP"} <= {*notice}


def test_two_readings_say_which_of_their_words_are_cells() -> None:
    llm = ScriptedLLM([BELOW[0], "SELECT Item FROM data"] * 2 + ["?"], [LIST, FITS, MAYBE])
    library = access(Filled([]), hits=["/firm/stock.csv"], sheets=[stock()])
    _, answer, _ = run("Which items are below their minimum?", llm, library)
    assert answer is not None
    readings, closing = answer.statements
    assert readings.copied == ("gloves", "soap", "masks")
    assert closing.copied is not None
    assert closing.copied[:2] == ("stock", "Item")


@pytest.mark.parametrize("name", ["a\nQuestion: b", "a\u2028Question:\r\nb"])
def test_the_name_of_a_file_writes_no_line_of_a_prompt(name: str) -> None:
    sheet = replace(stock(), sources=(f"/firm/{name}.csv",))
    group = collections([record(f"/firm/{name}/{name}{n}.docx", "Contract") for n in range(3)])[0]
    for rows in (sheet, group):
        text = "\n".join(message.content for message in plan.fit_messages("Which?", rows))
        assert "a Question: b" in text
        assert name not in text
    assert short_name(f"/firm/{name}.csv") == "a Question: b"


def test_a_row_whose_document_is_removed_meanwhile_is_not_cited() -> None:
    llm = ScriptedLLM(BELOW, [LIST, FITS, MAYBE])
    library = access(Filled([]), hits=["/firm/stock.csv"], sheets=[stock()])
    library = replace(library, cite=partial(cite, gone=GONE))
    text, answer, _ = run("Which items are below their minimum?", llm, library)
    assert text == f"- gloves [1]\n- soap\n\n{BELOW_TOLD}"
    assert answer is not None
    assert [citation.quote for citation in answer.citations] == ["row at 30"]


def test_where_they_differ_both_are_told_and_neither_is_the_answer() -> None:
    replies = [BELOW[0], "SELECT Item FROM data"] * 2 + ["?"]
    llm = ScriptedLLM(replies, [LIST, FITS, MAYBE])
    text, answer, _ = run(
        "Which items are below their minimum?",
        llm,
        access(Filled([]), hits=["/firm/stock.csv"], sheets=[stock()]),
    )
    assert "gloves; soap" in text
    assert "gloves; masks; soap" in text
    assert answer is not None
    assert not answer.grounded
    assert answer.basis is not None
    assert answer.basis.doubt == "differ"


@pytest.mark.parametrize("sql", ["SELECT Item FROM data WHERE Item = 'rope'", "no query at all"])
def test_where_no_row_fits_the_question_is_answered_as_ever(sql: str) -> None:
    llm = ScriptedLLM([sql] * MOST_QUERIES, [LIST, FITS, MAYBE])
    library = access(Filled([]), hits=["/firm/stock.csv"], sheets=[stock()])
    text, answer, steps = run("Which items are below their minimum?", llm, library)
    assert (text, answer) == ("", None)
    assert steps[-1].values["sure"] is False


def test_where_no_rows_are_meant_the_question_is_answered_as_ever() -> None:
    llm = ScriptedLLM(scores=[LIST, NOT, NOT])
    library = access(Filled([]), hits=["/firm/stock.csv"], sheets=[stock()])
    text, answer, steps = run("Which items are nice?", llm, library)
    assert (text, answer) == ("", None)
    assert [step.kind for step in steps] == ["scope", "plan"]


def test_more_rows_than_a_query_is_run_over_are_answered_as_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(answering, "MOST_ROWS", 2)
    llm = ScriptedLLM(scores=[LIST, FITS, MAYBE])
    library = access(Filled([]), hits=["/firm/stock.csv"], sheets=[stock()])
    text, answer, steps = run("Which items are below their minimum?", llm, library)
    assert (text, answer) == ("", None)
    assert [step.kind for step in steps] == ["scope", "plan"]


def test_columns_are_held_to_what_the_operation_needs() -> None:
    reply = json.dumps(
        {
            "columns": [
                {"type": "yes/no", "question": "Is it about falls?"},
                {"type": "number", "question": "How many are there?"},
            ]
        }
    )
    llm = ScriptedLLM([reply])
    assert proposed("How many reports are about falls?", "COUNT", llm) == (
        Column("Is it about falls?", "yes/no"),
    )
    assert proposed("How many?", "COUNT", ScriptedLLM(["no JSON"])) == ()


@pytest.mark.parametrize("operation", OPERATIONS[2:])
def test_no_column_is_proposed_whose_answers_are_not_named(operation: plan.Operation) -> None:
    llm = ScriptedLLM([columns_reply("How often is it paid?", "text")])
    assert proposed("Which are paid how often?", operation, llm)
    _, options = llm.history[-1]
    assert options.schema is not None
    assert '"one of"' not in json.dumps(options.schema)


def test_a_search_weighs_small_groups_that_it_fills_before_large_ones() -> None:
    small, large = sorted(collections(RECORDS), key=lambda group: len(group.documents))
    assert len(small.documents) < len(large.documents)
    hits = [name.sources[0] for name in RECORDS[:3]]
    weighed = plan.candidates("?", [large, small], [], hits, TOKENIZER)
    assert [rows for rows, _ in weighed] == [small, large]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0125, "%", "0.0125%"),
        (math.inf, "", "inf"),
        (1730.5, "GBP", "1,730.50 GBP"),
        (8.0, "", "8"),
        (12, "%", "12%"),
        ("soap", "", "soap"),
    ],
)
def test_values_are_written_for_readers(value: object, unit: str, text: str) -> None:
    assert shown(value, unit) == text


def orders() -> Dataset:
    rows = [
        ("A1", "2026-01-04", "Oak", "open", "10"),
        ("A2", "2026-01-09", "Elm", "open", "20"),
        ("A3", "2026-02-01", "Oak", "done", "30"),
    ]
    names = ("Order", "Day", "Site", "State", "Hours")
    return dataset_of([RawTable("/o.csv", "", names, rows, [(n, 9 * n) for n in (1, 2, 3)])])


def test_the_conditions_that_a_question_names_are_read_off_its_words() -> None:
    question = "Which orders of January 2026 are open?"
    assert linked(question, orders()) == (
        Condition("State", "=", "open"),
        Condition("Day", "begins with", "2026-01"),
    )
    assert linked("Orders at Oakmere", orders()) == ()


@pytest.mark.parametrize(
    ("question", "values"),
    [
        ("freight for Teratai", ["Teratai Jaya"]),
        ("freight for Teratai Jaya", ["Teratai Jaya"]),
        ("4月份Teratai那几票运费多少", ["Teratai Jaya"]),
        ("往Kestrel Bay一共出了几票", ["Kestrel Bay"]),
        ("禾粒那几票运费多少", ["禾粒速冻"]),
        ("freight for Kestrel", []),  # which begins two
        ("freight for Jaya", []),
        ("freight for teratais", []),
        ("Teratai and 禾粒", []),  # no row has both
    ],
)
def test_a_word_that_begins_one_value_names_it(question: str, values: list[str]) -> None:
    names = ["Teratai Jaya", "Kestrel Bay", "Kestrel Foods", "禾粒速冻"]
    rows = [(name, "7") for name in names]
    freight = dataset_of([RawTable("/f.csv", "", ("Customer", "Freight"), rows, [])])
    assert [condition.value for condition in linked(question, freight)] == values


def test_of_files_of_several_months_those_of_another_are_left_out() -> None:
    days = {"jan 25": "13/01/2025", "feb25": "2025-02-01", "March 2025": "1-Mar-25"}
    tables = [
        RawTable(f"/fuel {name}.csv", "", ("Date", "Litres"), [(day, "7"), (day, "8")], [])
        for name, day in days.items()
    ]
    fuel = dataset_of(tables)
    assert fuel.columns[0].kind == "date"
    assert of_named_files("van 1 january, total litres?", fuel).sources == ("/fuel jan 25.csv",)
    assert of_named_files("total litres in March", fuel).sources == ("/fuel March 2025.csv",)
    for question in ("total litres since January", "total litres in May", "1到3月一共多少升"):
        assert of_named_files(question, fuel) is fuel
    # A payroll is paid in the month behind; "03/02/2025" is a date beside "13/01/2025" alone.
    tables = [
        RawTable(f"/payroll {name}.csv", "", ("Date", "Gross"), [(day, "7")] * 2, [])
        for name, day in (("March", "2025-04-02"), ("April", "2025-05-02"))
    ]
    payroll = dataset_of(tables)
    assert of_named_files("total gross in April", payroll).sources == ("/payroll April.csv",)
    tables = [
        RawTable(f"/{n}.csv", "", ("Date", "Litres"), [(day, "7")] * 2, [])
        for n, day in enumerate(("13/01/2025", "03/02/2025"))
    ]
    ordered = dataset_of(tables)
    assert of_named_files("litres in February", ordered) is ordered


def test_a_count_of_none_is_a_misreading() -> None:
    def counted(day: str) -> str:
        return f"SELECT count(*) FROM data WHERE State = 'open' AND Day LIKE '{day}%'"

    def read(*days: str) -> Computed:
        return compute("How many are open?", orders(), ScriptedLLM(list(map(counted, days))))

    assert read(*["2026-06"] * MOST_QUERIES).doubt == "nothing"
    assert read(*["2026-01"] * 3).sure
    assert read("2026-06", "2026-01", "2026-01", "2026-06", "2026-01").sure
    differing = read("2026-06", "2026-01", "2026-06", "2026-06", "2026-01")
    assert (differing.doubt, differing.result.rows) == ("differ", ((0,),))
    assert differing.other.rows != ((0,),)
    assert read("2026-06", "2026-06", "2026-06").result.rows == ((0,),)


def logs() -> Dataset:
    """Two logs of fridges and one of an autoclave, as one table."""
    names = ("Date", "Work", "Cost GBP")
    tables = [
        RawTable(
            f"/firm/{name}.csv",
            "",
            names,
            [("2025-01-07", "repair", cost), ("2026-02-01", "check", "5.00")],
            [(2, 30), (3, 60)],
            document_id=name,
        )
        for name, cost in (("fridge-1", "10.50"), ("fridge-2", "20.00"), ("autoclave", "99.00"))
    ]
    return dataset_of(tables)


@pytest.mark.parametrize(
    ("question", "files"),
    [
        ("What did both fridges cost in 2025?", ["fridge-1", "fridge-2"]),
        ("What did the autoclave cost?", ["autoclave"]),
        ("What did all of it cost?", ["fridge-1", "fridge-2", "autoclave"]),
        ("Did a fridge or the autoclave cost more?", ["fridge-1", "fridge-2", "autoclave"]),
    ],
)
def test_a_word_of_the_question_singles_out_files(question: str, files: list[str]) -> None:
    files_named = of_named_files(question, logs())
    assert list(files_named.sources) == [f"/firm/{name}.csv" for name in files]
    assert len(files_named.rows) == 2 * len(files)


@pytest.mark.parametrize(
    ("left_out", "outcome"),
    [
        ((), {"all": 182, "alone": 75}),
        ((months, "_BEFORE_DIGITS", re.compile(r"(?!)")), {"all": 189, "alone": 68}),
        ((linking, "_of_the_month", lambda _, rows: rows), {"all": 198, "alone": 59}),
    ],
    ids=["as it is", "no digits behind words", "no months"],
)
def test_of_questions_that_others_wrote_none_is_given_another_sheet(
    left_out: tuple[Any, ...], outcome: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over the sheets that made-up organisations have alike; nothing was chosen on them."""
    if left_out:
        monkeypatch.setattr(*left_out)
    outcomes = Counter[str]()
    for line in MADE_UP.read_text("utf-8").splitlines():
        folder = json.loads(line)
        tables = [
            RawTable(
                sheet["file"],
                sheet["sheet"],
                tuple(sheet["columns"]),
                [tuple("" if cell is None else str(cell) for cell in row) for row in sheet["rows"]],
                [(place, 0) for place in range(1, len(sheet["rows"]) + 1)],
                document_id=sheet["id"],
            )
            for sheet in folder["tables"]
        ]
        for alike in datasets(tables):
            ids = set(alike.documents)
            for item in folder["questions"]:
                if len(ids) > 1 and item["table"] in ids:
                    documents = of_named_files(item["q"], alike).documents
                    right = item["table"] in documents
                    outcomes[
                        "wrong" if not right else "all" if len(documents) > 1 else "alone"
                    ] += 1
    assert outcomes == outcome


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("COUNT(*)", "By file:\n- fridge-1: 2\n- fridge-2: 2\n- autoclave: 2\n\n"),
        (
            "SUM(Cost_GBP)",
            "By file:\n- fridge-1: 15.50 GBP\n- fridge-2: 25 GBP\n- autoclave: 104 GBP\n\n",
        ),
        (
            "COUNT(*) FROM data WHERE Cost_GBP > 50",
            "By file:\n- fridge-1: 0\n- fridge-2: 0\n- autoclave: 1\n\n",
        ),
        ("SUM(Cost_GBP) FROM data WHERE file = 'fridge-1'", ""),
        (
            "MAX(Cost_GBP)",
            "By file:\n- fridge-1: repair: 10.50 GBP\n- fridge-2: repair: 20 GBP\n"
            "- autoclave: repair: 99 GBP\n\n",
        ),
        ("Work FROM data WHERE Cost_GBP < 15", ""),
        ("COUNT(DISTINCT file)", ""),
    ],
)
def test_what_each_file_gives_stands_beside_what_all_give(sql: str, told: str) -> None:
    statement = f"SELECT {sql}" if "FROM" in sql else f"SELECT {sql} FROM data"
    computation = compute("What does all of it cost?", logs(), ScriptedLLM([statement] * 3))
    assert computation.sure
    assert _results_by_file(logs(), computation, "en")[0] == told


def test_a_column_of_a_sheet_that_is_called_file_is_not_the_files_name() -> None:
    tables = [
        RawTable(
            f"/firm/{name}.csv",
            "",
            ("File", "Owner", "Size"),
            [("a.txt", "Ola", size), ("b.txt", "Kim", "5")],
            [(2, 30), (3, 60)],
            document_id=name,
        )
        for name, size in (("january", "3"), ("february", "4"))
    ]
    dataset = dataset_of(tables)
    llm = ScriptedLLM(["SELECT SUM(Size) FROM data WHERE Owner = 'Ola'"] * 3)
    text, words = _results_by_file(dataset, compute("What size has Ola?", dataset, llm), "en")
    assert text == "By file:\n- january: 3\n- february: 4\n\n"
    assert words == ["january", "3", "february", "4"]


def test_what_is_computed_tells_each_file_by_itself_also_0_of_them() -> None:
    tables = [
        RawTable(
            f"/in/{name}.csv", "", ("Owner", "Size"), [(owner, "3")], [(2, 9)], document_id=name
        )
        for name, owner in (("january", "Ola"), ("february", "Per"))
    ]
    dataset = dataset_of(tables)
    llm = ScriptedLLM(["SELECT COUNT(*) FROM data WHERE Owner = 'Ola'"] * 3)
    computation = compute("How many has Ola?", dataset, llm)
    assert list(computed_lines(dataset, computation))[:3] == ["1", "- january: 1", "- february: 0"]
    assert computed_json(dataset, computation)["by_file"] == {"january": [[1]], "february": [[0]]}
    alone = dataset_of(tables[:1])
    llm = ScriptedLLM(["SELECT COUNT(*) FROM data WHERE Owner = 'Ola'"] * 3)
    assert computed_json(alone, compute("How many?", alone, llm))["by_file"] == {}


def test_equal_values_of_two_columns_are_not_told_as_one() -> None:
    llm = ScriptedLLM(
        ["SELECT COUNT(DISTINCT Date) FROM data", "SELECT COUNT(DISTINCT Work) FROM data"] * 3
    )
    assert not compute("How many different jobs?", logs(), llm).beside


def test_readings_that_agree_on_the_rows_tell_all_columns_that_they_list() -> None:
    where = "FROM data WHERE Cost_GBP > 15 AND Date LIKE '2025%'"
    columns = ["Date", "Work", "Work", "Cost_GBP", "Work"]
    llm = ScriptedLLM([f"SELECT {column} {where}" for column in columns])
    computation = compute("Which jobs cost more than 15 in 2025?", logs(), llm)
    assert computation.sure
    assert (computation.rows, computation.beside) == ((3, 5), ("Date", "Cost_GBP"))
    lines = list(computed_lines(logs(), computation))
    assert lines[0].startswith("Date: 2025-01-07 | Work: repair | Cost GBP: GBP 20; ")
    assert "Computed: “Work, Date, Cost GBP” of the rows" in lines[1]
    record = computed_json(logs(), computation)
    assert record["columns"] == ["Date", "Work", "Cost GBP"]
    assert record["answer"][1] == ["2025-01-07", "repair", 99.0]
    texts = [text for text, _ in answering._values(logs(), computation, "en")]
    assert texts == [
        "Date: 2025-01-07 | Work: repair | Cost GBP: 20 GBP",
        "Date: 2025-01-07 | Work: repair | Cost GBP: 99 GBP",
    ]


def test_readings_that_list_all_rows_agree_on_nothing() -> None:
    columns = ["Date", "Work", "Work", "Cost_GBP", "Date"]
    llm = ScriptedLLM([f"SELECT {column} FROM data" for column in columns])
    assert compute("Which jobs were there?", logs(), llm).doubt == "differ"


def test_two_values_of_one_column_mean_either_of_them() -> None:
    where = "file IN ('fridge-1', 'fridge-2') AND Date LIKE '2025%'"
    llm = ScriptedLLM([f"SELECT SUM(Cost_GBP) FROM data WHERE {where}"] * MOST_QUERIES)
    computation = compute("What did both fridges cost in 2025?", logs(), llm)
    assert computation.sure
    assert computation.values == ((30.5,),)
    prompt = llm.history[-1][0][-1].content
    assert "-- WHERE \"Date\" LIKE '2025%'\n" in prompt


@pytest.mark.parametrize(
    ("meanings", "told"),
    [
        (("9 Quay Row", "Mill House", "Pier"), "- H006: 9 Quay Row [1]\n- H022: Mill House [1]\n"),
        (("Bo", "Bo", "Cy"), "- H006 [1]\n- H022 [1]\n"),
        (("word " * 20, "Mill House", "Pier"), "- H006 [1]\n- H022 [1]\n"),
    ],
)
def test_beside_the_codes_of_a_list_stands_what_tells_them_apart(
    meanings: tuple[str, ...], told: str
) -> None:
    rows = list(zip(("H006", "H022", "H030"), meanings, ("due", "due", "done"), strict=True))
    places = [(number, 9 * number) for number in (1, 2, 3)]
    names = ("Ref", "Property", "State")
    data = dataset_of([RawTable("/firm/stock.csv", "", names, rows, places)])
    sql = "SELECT Ref FROM data WHERE State = 'due'"
    llm = ScriptedLLM([sql] * MOST_QUERIES, [{"LIST": 1}, FITS])
    library = access(Filled([]), hits=["/firm/stock.csv"], sheets=[data])
    text, _, _ = run("Which certificates are due?", llm, library)
    assert text.startswith(told)


def test_of_the_largest_it_is_said_whose_it_is() -> None:
    llm = ScriptedLLM(["SELECT MAX(Cost_GBP) FROM data"] * MOST_QUERIES, [{"MAX": 1}, FITS])
    sources = ["/firm/autoclave.csv"]
    text, _, _ = run("What cost most?", llm, access(Filled([]), hits=sources, sheets=[logs()]))
    assert text.startswith("autoclave, repair: 99 GBP [1]\n")


def test_a_row_is_named_whichever_column_is_told_of_it() -> None:
    rows = [("platen press", "MQ-1060", "958000"), ("cutter", "K-92", "1200")]
    names = ("Machine", "Model", "Price £")
    data = dataset_of([RawTable("/firm/stock.csv", "", names, rows, [(1, 0), (2, 9)])])
    sql = "SELECT Model FROM data ORDER BY Price_GBP DESC LIMIT 1"
    llm = ScriptedLLM([sql] * MOST_QUERIES, [{"MAX": 1}, FITS])
    library = access(Filled([]), hits=["/firm/stock.csv"], sheets=[data])
    text, _, _ = run("Which machine was dearest?", llm, library)
    assert text.startswith("platen press, MQ-1060: 958,000 GBP [1]\n")


def test_of_what_is_the_same_in_every_row_the_names_are_listed() -> None:
    rows = [("Ann", "yes"), ("Bo", "no"), ("Cy", "yes")]
    data = dataset_of([RawTable("/firm/stock.csv", "", ("Name", "First aid"), rows, [(1, 0)] * 3)])
    sqls = ["SELECT First_aid FROM data WHERE First_aid = 'yes'"] * 2
    sqls += ["SELECT Name FROM data WHERE First_aid = 'yes'"] * (MOST_QUERIES - 2)
    computation = compute("Who can do first aid?", data, ScriptedLLM(sqls))
    assert computation.sure
    assert computation.values == (("Ann",), ("Cy",))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT Name FROM data WHERE Name IN ('Ann', 'Bo') AND First_aid = 'yes'",
        "SELECT Name FROM data WHERE Name = 'Ann' AND First_aid = 'yes'",
    ],
)
def test_names_that_are_asked_about_are_listed_as_they_are(sql: str) -> None:
    rows = [("Ann", "nurse", "yes"), ("Bo", "cook", "no"), ("Cy", "clerk", "yes")]
    names = ("Name", "Role", "First aid")
    data = dataset_of([RawTable("/firm/staff.csv", "", names, rows, [(1, 0)] * 3)])
    computation = compute("Is Ann a first aider?", data, ScriptedLLM([sql] * MOST_QUERIES))
    assert computation.values == (("Ann",),)


def test_a_category_is_no_name_of_a_row() -> None:
    rows = [("IT", "Cy", "9"), ("IT", "Di", "4"), ("HR", "Ed", "5")]
    names = ("Department", "Employee", "Cost £")
    data = dataset_of(
        [RawTable("/firm/stock.csv", "", names, rows, [(n, 9 * n) for n in (1, 2, 3)])]
    )
    sql = "SELECT Employee FROM data ORDER BY Cost_GBP DESC LIMIT 1"
    llm = ScriptedLLM([sql] * MOST_QUERIES, [{"MAX": 1}, FITS])
    library = access(Filled([]), hits=["/firm/stock.csv"], sheets=[data])
    text, _, _ = run("Which employee cost most?", llm, library)
    assert text.startswith("Cy: 9 GBP [1]\n")


def test_a_count_has_the_measure_word_of_its_question() -> None:
    scores = [{"COUNT": 1}, {"是": 9, "否": 1}]
    llm = ScriptedLLM(["SELECT COUNT(*) FROM data"] * MOST_QUERIES, scores)
    library = access(Filled([]), hits=["/firm/stock.csv"], sheets=[stock()])
    text, _, _ = run("清单里有几件物品？", llm, library)
    assert text.startswith("3件（共3行） [1]\n")


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ("out of service", ["spot", "sub"]),
        ("ok", ["lamp"]),
        ("不合格", ["门"]),  # which is a cell itself
        ("out of service' OR State = 'ok", ["lamp", "spot", "sub"]),
        # Not what is denied, and no part of a name.
        ("service", []),
        ("合格", []),
        ("paid", []),
        ("settled", []),
        ("Oak", []),
    ],
)
def test_a_value_that_cells_begin_with_means_these(value: str, names: list[str]) -> None:
    states = {
        "lamp": "OK",
        "spot": "Out of service - lamp",
        "sub": "Out of service: cone",
        "fee": "Unpaid",
        "rent": "Not settled",
        "desk": "Oak Road 3",
        "shed": "Oak Road 5",
        "门": "不合格",
        "窗": "不合格，待修",
    }
    rows, places = [*states.items()], [(2 + n, 30 * n) for n in range(len(states))]
    sheet = RawTable("/firm/kit.csv", "", ("Item", "State"), rows, places)
    sql = f"SELECT Item FROM data WHERE State = '{value}'"
    computed = compute("What is broken?", dataset_of([sheet]), ScriptedLLM([sql] * MOST_QUERIES))
    assert [row[0] for row in computed.values] == names
