"""Questions about single sheets (WikiTableQuestions): what is computed, and is it right?

    python benchmarks/wtq.py DATA [--half even|odd] [--questions N] [--out OUT.jsonl]

DATA holds `questions.jsonl` {id, table, question, answers} and the tables as CSV. The halves are of
tables, not of questions. "sure" is what would be shown as the answer.

Pasupat and Liang 2015, Compositional Semantic Parsing on Semi-Structured Tables; its evaluator
compares sets of values without case, accents, quotation marks and brackets, and numbers as numbers.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import re
import sys
import tempfile
import time
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from localrag.api import LocalRAG
from localrag.tables.formulation import compute
from localrag.tables.sheets import Dataset, RawTable, dataset_of

SEED = 7
_LEFT_OUT = re.compile(r"[\"'‘’“”\[\](){}]")
_NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?")
"""A number with its thousands set apart: "1,250.5"."""


def main() -> None:
    """Put the questions, and print how many are answered and how many of these rightly."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--half", choices=["even", "odd"], help="of the tables, drawn by a seed")
    parser.add_argument("--questions", type=int, help="so many, drawn by a seed")
    parser.add_argument("--out", type=Path, help="a line of JSON for each question")
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as place, LocalRAG.open(Path(place) / "library") as rag:
        for question in chosen(arguments.data, arguments.half, arguments.questions):
            dataset = dataset_in(arguments.data / question["table"])
            began = time.perf_counter()
            computed = compute(question["question"], dataset, rag.model.llm)
            seconds = round(time.perf_counter() - began, 2)
            values = [row[0] for row in computed.values if row]
            right = computed.sure and same(values, question["answers"])
            row = question | {
                "sure": computed.sure,
                "right": right,
                "doubt": computed.doubt,
                "form": computed.form.sql,
                "sql": computed.sql.sql,
                "values": list(map(str, values[:20])),
                "seconds": seconds,
            }
            rows.append(row)
            verdict = "right" if right else "wrong" if computed.sure else computed.doubt
            print(f"{question['id']:10} {verdict:9} {seconds:6.1f} s", file=sys.stderr, flush=True)
            if arguments.out:
                with arguments.out.open("a", encoding="utf-8") as file:
                    print(json.dumps(row, ensure_ascii=False), file=file)
    sure = [row for row in rows if row["sure"]]
    right = sum(row["right"] for row in sure)
    print(f"{len(rows)} questions, {len(sure)} answered, {right} of these rightly")


def chosen(data: Path, half: str | None, count: int | None) -> list[dict[str, Any]]:
    """The questions of a half of the tables, so many of them."""
    lines = (data / "questions.jsonl").read_text("utf-8").splitlines()
    questions: list[dict[str, Any]] = [json.loads(line) for line in lines]
    tables = sorted({question["table"] for question in questions})
    random.Random(SEED).shuffle(tables)
    if half:
        tables = tables[half == "odd" :: 2]
    questions = [question for question in questions if question["table"] in set(tables)]
    random.Random(SEED).shuffle(questions)
    return questions[:count]


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
