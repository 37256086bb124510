"""A metric of one's own is one object in one table; everything else takes it from there."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from localrag.cli.group import cli
from localrag.errors import UsageError
from localrag.evaluation.dataset import Context, Sample
from localrag.evaluation.scoring import METRICS
from localrag.evaluator.evaluator import Evaluator, chosen_metrics, open_cache
from localrag.messages import translate

NEW = """
from localrag.__main__ import main
from localrag.evaluation.metric import Case, Missing, metric
from localrag.evaluation.scoring import METRICS
from localrag.messages import translations

@metric("answer", "reference")
def brevity(case: Case) -> float | Missing:
    '''How short the answer is beside the reference: 1 where it is not longer.'''
    if not case.response.answer.strip():
        return "undefined"
    return min(1.0, len(case.sample.reference) / len(case.response.answer))

METRICS[brevity.name] = brevity
translations("zh")["brevity"] = "简短程度"
main()
"""
ROWS = [
    {"question": "When?", "answer": "1820", "contexts": ["In 1820."], "reference": "In 1820."},
    {"question": "Who?", "answer": "A miller, long ago", "contexts": [], "reference": "A miller."},
    {"question": "Why?", "answer": "For corn.", "contexts": []},
]


def data_set(folder: Path) -> Path:
    path = folder / "set.json"
    path.write_text(json.dumps(ROWS), encoding="utf-8")
    return path


def run(folder: Path, language: str, *options: str) -> str:
    program = folder / "new_metric.py"
    program.write_text(NEW, encoding="utf-8")
    arguments = ["eval", "run", str(data_set(folder)), "--no-judge", "--metric", "brevity"]
    result = subprocess.run(
        [sys.executable, str(program), *arguments, "--cache", str(folder / "cache"), *options],
        env=os.environ | {"LOCALRAG_LANG": language, "LOCALRAG_CONFIG": str(folder / "no.toml")},
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_it_is_run_and_reported_everywhere(tmp_path: Path) -> None:
    table, page = tmp_path / "t.csv", tmp_path / "p.html"
    report = json.loads(run(tmp_path, "en", "--json", "--csv", str(table), "--html", str(page)))
    (metric,) = report["metrics"]
    assert (metric["name"], metric["mean"], metric["scored"], metric["undefined"]) == (
        "brevity",
        0.75,
        2,
        1,
    )
    scores = [row["scores"]["brevity"] for row in report["runs"][0]["questions"]]
    assert scores[:2] == [{"value": 1.0, "state": "scored"}, {"value": 0.5, "state": "scored"}]
    with table.open(encoding="utf-8-sig", newline="") as file:
        assert [row["brevity"] for row in csv.DictReader(file)] == ["1.0", "0.5", ""]
    assert "brevity" in page.read_text("utf-8")


def test_its_reader_is_told_in_his_language(tmp_path: Path) -> None:
    page = tmp_path / "p.html"
    output = run(tmp_path, "zh", "--html", str(page))
    assert "简短程度" in output
    assert "简短程度" in page.read_text("utf-8")
    assert "brevity" not in output


def evaluated(folder: Path, *options: str) -> Result:
    arguments = ["eval", "run", str(data_set(folder)), "--no-judge", *options]
    return CliRunner().invoke(cli, [*arguments, "--cache", str(folder / "cache")])


def test_a_former_name_is_understood_and_answered_to(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    result = evaluated(tmp_path, "--metric", "page_rank", "--json", "--csv", str(table))
    assert result.exit_code == 0, result.output
    assert "page_reciprocal_rank" in result.stderr
    report = json.loads(result.stdout)
    assert [metric["name"] for metric in report["metrics"]] == ["page_reciprocal_rank", "page_rank"]
    scores = report["runs"][0]["questions"][0]["scores"]
    assert scores["page_rank"] == scores["page_reciprocal_rank"]
    head = table.read_text("utf-8-sig").splitlines()[0]
    assert head.endswith('"page_reciprocal_rank","page_rank"')


def test_a_name_that_is_none_is_refused(tmp_path: Path) -> None:
    sample = Sample("1", "q", "a", (Context("c"),))
    with (
        open_cache(tmp_path) as cache,
        pytest.raises(UsageError, match="no metric faithfulnes"),
    ):
        Evaluator(tmp_path, cache).evaluate("d", [sample], [], None, ["faithfulnes"])


def test_the_api_warns_of_a_former_name() -> None:
    with pytest.warns(DeprecationWarning, match="page_reciprocal_rank"):
        assert chosen_metrics(["page_rank"], judged=False) == ["page_reciprocal_rank"]


def test_every_metric_has_a_title_in_both_languages() -> None:
    for name, metric in METRICS.items():
        assert metric.name == name
        assert "_" not in metric.title
        assert translate(metric.title, "zh") != metric.title or metric.title == "f1"
