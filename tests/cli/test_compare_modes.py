"""`localrag compare --modes` on the command line, with answers that are made up."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest
from click.testing import CliRunner, Result
from evaluation.mode_answers import compared, self_rag, standard

from localrag import api
from localrag.cli.group import cli
from localrag.errors import BackendError
from localrag.evaluation.comparisons.base import Compared, ComparedQuestion, Stage
from localrag.evaluation.comparisons.pairs import Verdict


class Rag:
    """Compares what it is asked, until `fails` has to be raised."""

    model = SimpleNamespace(llm=SimpleNamespace(name="small"))

    def __init__(self, fails: dict[int, BaseException]) -> None:
        self.fails = fails
        self.opened: dict[str, Any] = {}
        self.asked: list[ComparedQuestion] = []

    def open(self, library: Path, **options: Any) -> Self:
        self.opened = options | {"library": library}
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def compare_modes(
        self,
        questions: Sequence[ComparedQuestion],
        modes: tuple[str, str],
        tell: Any,
        *,
        k: int | None,
    ) -> Iterator[Compared[Verdict]]:
        self.k = k
        for number, question in enumerate(questions, start=1):
            for name in (*modes, "judge"):
                tell(Stage(number, name))
            if number in self.fails:
                raise self.fails[number]
            self.asked.append(question)
            answers = {"standard": standard("Two. [1]"), "self-rag": self_rag("Three. [1]")}
            yield compared(
                answers[modes[0]],
                answers[modes[1]],
                *(0.2, 0.2, 0.5, 0.9),
                question=question.question,
                reference=question.reference,
                answerable=question.answerable,
            )


def run(
    monkeypatch: pytest.MonkeyPatch, *arguments: str, fails: dict[int, BaseException] | None = None
) -> tuple[Result, Rag]:
    rag = Rag(fails or {})
    monkeypatch.setattr(api, "LocalRAG", rag)
    return CliRunner().invoke(cli, ["compare", *arguments]), rag


def test_one_question_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    result, rag = run(monkeypatch, "How many floors?", "--modes", "standard,self-rag", "-k", "3")
    assert result.exit_code == 0, result.output
    assert rag.k == 3
    for text in (
        "1. How many floors?",
        "The standard way  2.0 s",
        "Self-RAG  6.0 s",
        "Three. [1] ✓",
        "mill.pdf, p. 3",
        "Self-RAG (80%)",
        "documents needed; 2 of 5 passages relevant",
        "Self-RAG took 3.0 times as long",
        "What to use when",
    ):
        assert text in result.stdout
    assert "question 1 of 1: judging" in result.stderr
    assert "judging" not in result.stdout


def test_a_file_as_json_and_as_a_page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file, page = tmp_path / "q.jsonl", tmp_path / "page.html"
    rows = [{"question": "One?", "ideal_answer": "Three."}, {"question": "Two?"}]
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    arguments = ("--questions", str(file), "--modes", "self-rag, standard")
    process, rag = run(monkeypatch, *arguments, "--json", "--html", str(page))
    assert process.exit_code == 0, process.output
    assert rag.asked == [ComparedQuestion("One?", "Three.", True), ComparedQuestion("Two?")]
    result = json.loads(process.stdout)
    assert result["modes"] == ["self-rag", "standard"]
    assert (result["asked"], result["done"]) == (2, 2)
    first = result["questions"][0]
    assert first["reference"] == "Three."
    assert first["answers"]["self-rag"]["metrics"]["documents_retrieved"] == 5
    assert first["answers"]["standard"]["outcome"] == "from documents"
    assert first["verdicts"][0] == {
        "criterion": "relevance",
        "better": "standard",
        "probabilities": {"self-rag": 0.2, "standard": 0.8},
        "basis": "judge",
    }
    assert result["facts"]["overall"] == {"wins": [0, 2], "equal": 0}
    assert result["analysis"][0]["heading"] == "Result"
    assert page.read_text("utf-8").startswith("<!doctype html>")
    assert "1 of 2 questions, 0 s left" in process.stderr


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), BackendError("The server went away.")])
def test_what_is_done_is_shown_when_a_run_ends_early(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, failure: BaseException
) -> None:
    file = tmp_path / "q.txt"
    file.write_text("One?\nTwo?\nThree?\n", encoding="utf-8")
    arguments = ("--questions", str(file), "--modes", "standard,self-rag", "--json")
    process, _ = run(monkeypatch, *arguments, fails={3: failure})
    assert process.exit_code != 0
    result = json.loads(process.stdout[: process.stdout.rindex("}") + 1])
    assert (result["asked"], result["done"]) == (3, 2)
    process, _ = run(monkeypatch, *arguments, fails={1: failure})
    assert process.exit_code != 0
    assert "{" not in process.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "Give a question"),
        (("One?", "--questions", "q.txt", "--modes", "standard,self-rag"), "Give a question"),
        (("--questions", "q.txt"), "--questions needs --modes"),
        (
            ("--questions", "q.txt", "--modes", "standard,self-rag", "--reference", "x"),
            "--questions needs --modes",
        ),
        (("One?", "--modes", "standard"), "two modes look like"),
        (("One?", "--modes", "standard,standard"), "two modes look like"),
        (("One?", "--modes", "standard,self-rag,standard"), "two modes look like"),
    ],
)
def test_what_makes_no_sense_is_refused(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], said: str
) -> None:
    result, rag = run(monkeypatch, *arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert rag.opened == {}


def test_a_page_that_cannot_be_written_is_refused_before_the_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    page = tmp_path / "absent" / "page.html"
    result, rag = run(monkeypatch, "One?", "--modes", "standard,self-rag", "--html", str(page))
    assert result.exit_code != 0
    assert str(page) in str(result.exception)
    assert rag.opened == {}
