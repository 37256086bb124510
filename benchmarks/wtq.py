"""Questions about single sheets: what is computed, and is it right?

    python benchmarks/wtq.py DATA [--half even|odd] [--questions N] [--out OUT.jsonl]
    python benchmarks/wtq.py benchmarks/probes/tables.jsonl --columns [--questions N]

DATA is a folder of WikiTableQuestions, `questions.jsonl` {id, table, question, answers} and the
tables as CSV, or `probes/tables.jsonl`: sheets of made-up organisations with questions and SQL,
whose operation is taken as known there (a probe tells it). The halves are of tables, drawn by a
seed, or of organisations in their order, of which the even ones were chosen on. "sure" is what
would be shown as the answer. `--columns` tells how well those that conditions are about are known
by where the model looks (`plan.looked_at`), and how many of them are below the bound.

Pasupat and Liang 2015, Compositional Semantic Parsing on Semi-Structured Tables; its evaluator
compares sets of values without case, accents, quotation marks and brackets, and numbers as numbers.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import re
import sqlite3
import sys
import tempfile
import time
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from probes import Sheet, SheetFolder
from sklearn.metrics import roc_auc_score

from localrag.api import LocalRAG
from localrag.rag.question_words import Asked
from localrag.tables.formulation import compute
from localrag.tables.linking import LEAST_LOOKED_AT, is_named
from localrag.tables.plan import COMPUTES_OF, looked_at, meaning
from localrag.tables.query import COMPUTES, Compute
from localrag.tables.sheets import Dataset, RawTable, dataset_of

SEED = 7
_WHERE = re.compile(r"\bWHERE\b(.*?)(?=\bORDER BY\b|\bGROUP BY\b|\Z)", re.S)
"""`c3 = 'open' AND c4 > 2` behind WHERE."""
_COLUMN = re.compile(r"\bc(\d+)\b")
"""`c3`, the third column in the SQL of made-up organisations."""
_LEFT_OUT = re.compile(r"[\"'‘’“”\[\](){}]")
_NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?")
"""A number with its thousands set apart: "1,250.5"."""


def main() -> None:
    """Put the questions, and print how many are answered and how many of these rightly."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--half", choices=["even", "odd"], help="of the tables or organisations")
    parser.add_argument("--questions", type=int, help="so many, drawn by a seed")
    parser.add_argument("--out", type=Path, help="a line of JSON for each question")
    parser.add_argument("--columns", action="store_true", help="tell which are known to be meant")
    arguments = parser.parse_args()
    if arguments.columns:
        columns(chosen(arguments.data, arguments.half, arguments.questions))
        return
    rows = []
    with tempfile.TemporaryDirectory() as place, LocalRAG.open(Path(place) / "library") as rag:
        for case in chosen(arguments.data, arguments.half, arguments.questions):
            began = time.perf_counter()
            dataset, model = case.dataset, rag.model
            meant = meaning(case.question, dataset, rag.engine.tokenizer, model.chooser)
            computed = compute(case.question, dataset, model.llm, case.computes, meant)
            seconds = round(time.perf_counter() - began, 2)
            values = [row[0] for row in computed.values if row]
            right = same(values, case.answers)
            row = {
                "id": case.id,
                "question": case.question,
                "answers": case.answers,
                "sure": computed.sure,
                "right": right,
                "doubt": computed.doubt,
                "share": computed.share,
                "sql": computed.result.sql,
                "values": list(map(str, values[:20])),
                "seconds": seconds,
            }
            rows.append(row)
            verdict = ("right" if right else "wrong") if computed.sure else computed.doubt
            print(f"{case.id:10} {verdict:9} {seconds:6.1f} s", file=sys.stderr, flush=True)
            if arguments.out:
                with arguments.out.open("a", encoding="utf-8") as file:
                    print(json.dumps(row, ensure_ascii=False), file=file)
    sure = [row for row in rows if row["sure"]]
    right = sum(row["right"] for row in sure)
    print(f"{len(rows)} questions, {len(sure)} answered, {right} of these rightly")


def columns(cases: Sequence[Case]) -> None:
    """How well the columns of conditions are known by where the model looks, and by their names."""
    looked, named, meant = [], [], []
    with tempfile.TemporaryDirectory() as place, LocalRAG.open(Path(place) / "library") as rag:
        for case in (case for case in cases if case.conditions):
            shares = looked_at(case.question, case.dataset, rag.model.chooser)
            asked = Asked(case.question, rag.engine.tokenizer)
            # Those that are made of another stand beside it.
            as_in_sheet = (column for column in case.dataset.columns if not column.of)
            for number, column in enumerate(as_in_sheet, 1):
                if column.key in shares:
                    looked.append(shares[column.key])
                    named.append(is_named(column.name, asked))
                    meant.append(number in case.conditions)
    if not meant:
        print("No condition is known, or the model does not show where it looks.")
        return
    print("| columns | of conditions | area | by name | not looked at | of conditions |")
    print("|---|---|---|---|---|---|")
    low = np.array(looked) < LEAST_LOOKED_AT
    areas = (f"{roc_auc_score(meant, scores):.3f}" for scores in (looked, named))
    cells = (len(meant), sum(meant), *areas, low.sum(), (low & np.array(meant)).sum())
    print(f"| {' | '.join(map(str, cells))} |")


@dataclass(frozen=True)
class Case:
    """A question over the rows of a dataset, whose values are known."""

    id: str
    table: str
    question: str
    answers: list[str]
    dataset: Dataset
    computes: Sequence[Compute] = COMPUTES
    conditions: frozenset[int] = frozenset()
    """The numbers of the columns that conditions are about, from 1."""


def chosen(data: Path, half: str | None, count: int | None) -> list[Case]:
    """The questions of a half of the tables, so many of them."""
    cases = list(web_cases(data) if data.is_dir() else made_up_cases(data))
    tables = list(dict.fromkeys(case.table for case in cases))
    if data.is_dir():
        tables.sort()
        random.Random(SEED).shuffle(tables)
    if half:
        tables = tables[half == "odd" :: 2]
    cases = [case for case in cases if case.table in set(tables)]
    random.Random(SEED).shuffle(cases)
    return cases[:count]


def web_cases(data: Path) -> Iterator[Case]:
    """Of WikiTableQuestions."""
    for line in (data / "questions.jsonl").read_text("utf-8").splitlines():
        asked: dict[str, Any] = json.loads(line)
        dataset = dataset_in(data / asked["table"])
        yield Case(asked["id"], asked["table"], asked["question"], asked["answers"], dataset)


def made_up_cases(path: Path) -> Iterator[Case]:
    """Of made-up organisations: of each question what its SQL gives."""
    for line in path.read_text("utf-8").splitlines():
        folder = msgspec.json.decode(line, type=SheetFolder)
        sheets = {sheet.id: sheet for sheet in folder.tables}
        for number, asked in enumerate(folder.questions):
            computes = next((some for some in COMPUTES_OF.values() if asked.kind in some), ())
            if asked.table is None or asked.sql is None or not computes:
                continue
            sheet = sheets[asked.table]
            texts = [tuple(map(cell_text, row)) for row in sheet.rows]
            places = [(row, 0) for row in range(1, len(texts) + 1)]
            raw = RawTable(sheet.file, sheet.sheet, tuple(sheet.columns), texts, places)
            yield Case(
                f"{sheet.id}-{number}",
                folder.folder,
                asked.q,
                truth(sheet, asked.sql),
                dataset_of([raw]),
                computes,
                frozenset(map(int, _COLUMN.findall(" ".join(_WHERE.findall(asked.sql))))),
            )


def cell_text(value: str | float | None) -> str:
    """A value as a sheet shows it."""
    return "" if value is None else f"{value:.10g}" if isinstance(value, float) else str(value)


def truth(sheet: Sheet, sql: str) -> list[str]:
    """What a query over the columns c1, c2 ... of a sheet gives."""
    names = ", ".join(f"c{number}" for number in range(1, len(sheet.columns) + 1))
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"CREATE TABLE data({names})")
        marks = ", ".join("?" * len(sheet.columns))
        connection.executemany(f"INSERT INTO data VALUES ({marks})", sheet.rows)
        values = [row[0] for row in connection.execute(sql)]
    return [str(value) for value in values if value not in (None, "")]


def dataset_in(path: Path) -> Dataset:
    """The rows of a CSV file."""
    with path.open(encoding="utf-8", newline="") as file:
        header, *lines = [tuple(" ".join(cell.split()) for cell in row) for row in csv.reader(file)]
    places = [(number, 0) for number in range(1, len(lines) + 1)]
    return dataset_of([RawTable(path.name, "", header, lines, places)])


def same(values: Iterable[object], answers: Sequence[str]) -> bool:
    """Whether the values are the answers, in any order."""
    return {plain(value) for value in values} == {plain(answer) for answer in answers}


def plain(value: object) -> str:
    """A value as it is compared: "12.0" and "12" are the same, and so are "Café" and "cafe"."""
    text = unicodedata.normalize("NFKD", _LEFT_OUT.sub("", str(value)).casefold())
    text = " ".join("".join(c for c in text if not unicodedata.combining(c)).split())
    if _NUMBER.fullmatch(text):
        return f"{float(text.replace(',', '')):.6g}"
    return text


if __name__ == "__main__":
    main()
