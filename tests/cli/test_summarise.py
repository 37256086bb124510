"""`localrag summarise`: a document section by section, a folder line by line, and as JSON."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result
from library.library_fixtures import add, document
from summaries.summary_fixtures import Repeating, engine, llm

from localrag.api import LocalRAG
from localrag.cli.group import cli
from localrag.engine import Engine

__all__ = ["engine", "llm"]


@pytest.fixture(autouse=True)
def opened(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("localrag.cli.summarise.open_library", lambda _: LocalRAG(engine))
    monkeypatch.setattr(engine, "close", lambda: None)


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, ["summarise", *words])


def test_a_document_is_printed_with_its_places_and_what_it_leaves_out() -> None:
    result = run("elm.txt")
    assert result.exit_code == 0, result.output
    assert "The mill of Elm was built in 1800 by the people of the valley [1]." in result.stdout
    assert "[1] elm.txt, p. 1: “The mill of Elm was built in 1800" in result.stdout
    assert "Sentences were chosen from " in result.stdout
    assert "to write, about" in result.stderr
    assert "0 left. " in result.stderr


def test_as_json_it_is_plain_and_says_whether_it_is_final(llm: Repeating) -> None:
    llm.fails = True
    record = json.loads(run("elm.txt", "--json").stdout)
    assert record["final"] is False
    assert {section["reason"] for section in record["documents"][0]["sections"]} == {"failed"}


def test_a_folder_is_a_line_a_document(engine: Engine) -> None:
    add(engine.library, document("The lease of Elm costs 90.", source="/books/lease.txt"))
    result = run("books")
    assert "lease.txt" in result.stdout
    assert "  The lease of Elm costs 90. [1]" in result.stdout


def test_what_cannot_be_asked_is_said(engine: Engine) -> None:
    assert run().exit_code == 2
    assert run("elm.txt", "--budget", "soon").exit_code == 2
    assert "none matches" in str(run("letters").exception)
    assert "cannot be read" in str(run("elm.txt", "--pages", "x").exception)
