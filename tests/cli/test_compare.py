"""`localrag compare` and `--rerank` as a person runs them, with a model server of our own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from as_program import run_program
from http_server import allowed_answers, asked_text, chat, serving

ROOT = Path(__file__).resolve().parents[2]
ANSWER = "Frank Rosenblatt presented the perceptron in 1958."


def _choice(choices: list[str], passage: str) -> str:
    """Of two answers the one that does not refuse; relevant where the name stands; else yes."""
    if choices[0] == "Answer A":
        return choices["Answer A: The documents" in passage]
    return choices[choices[0] == "Yes" and "Rosenblatt" not in passage]


def _say(request: dict[str, Any]) -> str:
    passage = asked_text(request)
    if "0 to 10" in request["messages"][-1]["content"]:
        return json.dumps({"answer": "9" if "Rosenblatt" in passage else "1"})
    if choices := allowed_answers(request):
        return json.dumps({"answer": _choice(choices, passage)})
    return ANSWER


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with serving(chat(_say)) as running:
        yield f"{running.url}/v1"


Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def run(
    server: str, models_dir: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Run:
    for model in ("use-multilingual-v3", "ms-marco-minilm-l12-v2-int8"):
        models_dir(model)
    folder = tmp_path_factory.mktemp("compare")
    variables = {
        "LOCALRAG_CONFIG": str(folder / "config.toml"),
        "LOCALRAG_LANG": "en",
        "LOCALRAG_LIBRARY": str(folder / "library"),
        "LOCALRAG_LLM_BACKEND": "openai",
        "LOCALRAG_LLM_BASE_URL": server,
    }

    localrag = partial(run_program, variables=variables)
    result = localrag("add", str(ROOT / "data" / "ai-overview.en.pdf"))
    assert result.returncode == 0, result.stderr
    return localrag


QUESTION = "Who presented the perceptron, and when?"


@pytest.mark.models("use-multilingual-v3", "ms-marco-minilm-l12-v2-int8")
def test_compare_as_json_and_as_a_page(run: Run, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    process = run(
        "compare", QUESTION, "--reference", "In 1958.", "--json", "--html", str(page), "-k", "3"
    )
    assert process.returncode == 0, process.stderr
    result = json.loads(process.stdout)
    names = [way["name"] for way in result["ways"]]
    assert names == ["none", "keyword", "learned", "cross-encoder", "llm"]
    identifiers = [candidate["chunk_id"] for candidate in result["candidates"]]
    for way in result["ways"]:
        assert len(way["passages"]) == 3
        for rank, passage in enumerate(way["passages"], start=1):
            assert passage["rank"] == rank
            assert identifiers[passage["rank_before"] - 1] == passage["chunk_id"]
        assert way["answer"]["answer"].startswith(ANSWER.rstrip("."))
        assert way["rerank_seconds"] >= 0
    assert "Rosenblatt" in result["ways"][3]["passages"][0]["text"]
    # Every passage is graded 9; a third of the grade is the search's, whose best has 10.
    assert result["ways"][4]["passages"][0]["score"] == pytest.approx((2 * 9 + 10) / 3)
    assert [grade["agrees"] for grade in result["grades"]] == [1.0] * 5
    assert result["grades"][3]["rank"] == 1
    assert "Overall: " in result["verdict"]
    text = page.read_text("utf-8")
    assert text.startswith("<!doctype html>")
    assert "Overall: " in text
    assert str(page) in process.stderr


@pytest.mark.models("use-multilingual-v3", "ms-marco-minilm-l12-v2-int8")
def test_compare_for_a_reader(run: Run) -> None:
    result = run("compare", QUESTION, "-k", "2")
    assert result.returncode == 0, result.stderr
    for text in (
        "none",
        "keyword",
        "learned",
        "cross-encoder",
        "llm",
        ANSWER.rstrip("."),
        "ai-overview.en.pdf",
    ):
        assert text in result.stdout
    assert "Reranking: cross-encoder" in result.stderr
    assert "comparison" not in result.stdout


@pytest.mark.models("use-multilingual-v3", "ms-marco-minilm-l12-v2-int8")
def test_modes_through_both_pipelines(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "questions.json"
    file.write_text(json.dumps([{"question": QUESTION, "answer": "In 1958."}]), encoding="utf-8")
    process = run(
        *("compare", "--modes", "standard,self-rag", "--questions", str(file), "-k", "2", "--json")
    )
    assert process.returncode == 0, process.stderr
    result = json.loads(process.stdout)
    question = result["questions"][0]
    plain, graded_answer = (question["answers"][mode] for mode in result["modes"])
    assert plain["answer"].startswith(ANSWER.rstrip("."))
    assert graded_answer["answer"].startswith(ANSWER.rstrip("."))
    assert plain["metrics"] is None
    assert graded_answer["metrics"]["used_retrieval"] is True
    assert [step["name"] for step in graded_answer["trace"]][:2] == [
        "retrieval decision",
        "retrieve",
    ]
    assert {step["name"] for step in plain["trace"]}.isdisjoint({"relevance", "utility"})
    assert [verdict["basis"] for verdict in question["verdicts"]] == ["same answer"] * 4
    assert result["facts"]["ways"][1]["answerable"]["from documents"] == 1
    assert "question 1 of 1: judging" in process.stderr


@pytest.mark.models("use-multilingual-v3", "ms-marco-minilm-l12-v2-int8")
def test_rerank_on_search_and_ask(run: Run) -> None:
    plain = json.loads(run("search", QUESTION, "--json", "-k", "4").stdout)
    unranked = json.loads(run("search", QUESTION, "--json", "-k", "4", "--rerank", "none").stdout)
    assert plain["hits"] == unranked["hits"]
    result = run("search", QUESTION, "--json", "-k", "4", "--rerank", "cross-encoder")
    hits = json.loads(result.stdout)["hits"]
    assert "Rosenblatt" in hits[0]["text"]
    assert hits[0]["score"] != plain["hits"][0]["score"]
    answer = json.loads(run("ask", QUESTION, "--json", "-k", "2", "--rerank", "keyword").stdout)
    assert [step["name"] for step in answer["trace"]][:2] == ["retrieve", "rerank"]
    assert len(answer["contexts"]) == 2


@pytest.mark.models("use-multilingual-v3", "ms-marco-minilm-l12-v2-int8")
def test_a_model_that_does_not_serve_the_language_is_not_used_silently(run: Run) -> None:
    result = run("search", "谁提出了感知机？", "--rerank", "cross-encoder")
    assert result.returncode == 0
    assert result.stderr.count("does not serve Chinese") == 1
