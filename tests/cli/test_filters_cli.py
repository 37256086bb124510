"""`--source` and the rest, and `--expand`, as a person uses them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from as_program import run_program
from http_server import chat, serving

ROOT = Path(__file__).resolve().parents[2]
QUESTIONS = ["Who built the perceptron?", "perceptron inventor 1958", "Who presented it in 1958?"]


@pytest.fixture
def server() -> Iterator[tuple[str, list[str]]]:
    prompts: list[str] = []

    def say(request: dict[str, Any]) -> str:
        prompts.append(request["messages"][-1]["content"])
        if "Write a passage" in prompts[-1]:
            return "The perceptron was presented in 1958 by Frank Rosenblatt."
        return json.dumps(dict(zip(("other words", "keywords", "Chinese"), QUESTIONS, strict=True)))

    with serving(chat(say)) as running:
        yield f"{running.url}/v1", prompts


def localrag(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return run_program(*arguments, variables=variables)


@pytest.fixture(scope="module")
def library(models_dir: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> str:
    models_dir("use-multilingual-v3")
    folder = str(tmp_path_factory.mktemp("filters") / "library")
    result = localrag("add", str(ROOT / "data"), "--library", folder)
    assert result.returncode == 0, result.stderr
    return folder


def hits(library: str, *options: str) -> list[dict[str, Any]]:
    result = localrag(
        "search", "tea perceptron 茶园 感知机", "--json", "--library", library, *options
    )
    assert result.returncode == 0, result.stderr
    passages: list[dict[str, Any]] = json.loads(result.stdout)["hits"]
    return passages


def files(passages: list[dict[str, Any]]) -> set[str]:
    return {Path(hit["source"]).name for hit in passages}


@pytest.mark.models("use-multilingual-v3")
def test_search_stays_within_the_filter(library: str) -> None:
    assert len(files(hits(library, "-k", "40"))) == 4
    assert files(hits(library, "--source", "garden-handbook.zh.md")) == {"garden-handbook.zh.md"}
    assert files(hits(library, "--type", "markdown", "--language", "en", "-k", "40")) == {
        "garden-handbook.en.md"
    }
    assert files(hits(library, "--path", "data/*.pdf", "-k", "99")) == {
        "ai-overview.en.pdf",
        "ai-overview.zh.pdf",
    }
    paged = hits(library, "--type", "pdf", "--pages", "3-4", "-k", "99")
    assert {page for hit in paged for page in range(hit["page"], hit["last_page"] + 1)} == {3, 4}
    today = datetime.now(UTC).astimezone().date()
    assert len(files(hits(library, "--since", str(today - timedelta(days=1)), "-k", "40"))) == 4
    assert hits(library, "--until", str(today - timedelta(days=2))) == []


@pytest.mark.models("use-multilingual-v3")
def test_a_filter_that_leaves_nothing_is_said_without_a_language_model(library: str) -> None:
    broken = {"LOCALRAG_LLM_MODEL": "/no/such/model.gguf"}
    at = ("--library", library, "--source", "nowhere.pdf")
    result = localrag("search", "tea", *at, **broken)
    assert result.returncode == 0, result.stderr
    assert "Nothing found." in result.stdout
    assert "filter: 0 of " in result.stderr
    output = localrag("ask", "What is tea?", *at, "--explain", **broken)
    assert output.returncode == 0, output.stderr
    assert "Nothing in the library matches the filter" in output.stdout
    chinese = localrag("ask", "茶是什么？", *at, "--json", **broken)
    answer = json.loads(chinese.stdout)
    assert "没有符合筛选条件的内容" in answer["answer"]
    assert answer["grounded"] is False
    assert [step["name"] for step in answer["trace"]] == ["filter"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--pages", "ten"), "--pages cannot be read: ten."),
        (("--pages", "9-3"), "There are no pages from 9 to 3."),
        (("--pages", "0"), "There are no pages from 0 to 0."),
        (("--since", "yesterday"), "--since is not a date: yesterday."),
        (("--until", "2026-13-01"), "--until is not a date: 2026-13-01."),
        (("--until", "9999-12-31"), "9999-12-31"),
        (("--since", "2026-02-01", "--until", "2026-01-01"), "2026-02-01"),
        (("--source", ""), "non-empty"),
        (("--type", "docx"), "docx"),
    ],
)
@pytest.mark.parametrize("command", ["search", "ask"])
def test_bad_values_are_named(
    command: str, options: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    result = localrag(command, "tea", *options, "--library", str(tmp_path / "none"))
    assert result.returncode == 2
    assert said in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.models("use-multilingual-v3")
def test_search_expands_only_when_asked_to(library: str, server: tuple[str, list[str]]) -> None:
    url, prompts = server
    variables = {
        "LOCALRAG_LLM_BACKEND": "openai",
        "LOCALRAG_LLM_BASE_URL": url,
        "LOCALRAG_RETRIEVAL_EXPANSION": "multi-query",
    }
    question = ("search", "Who presented the perceptron?", "--json", "--library", library)
    plain = json.loads(localrag(*question, **variables).stdout)
    assert prompts == []
    assert plain["trace"] == []

    result = localrag(
        *question, "--expand", "multi-query", "--source", "ai-overview.en.pdf", **variables
    )
    assert result.returncode == 0, result.stderr
    expanded = json.loads(result.stdout)
    assert len(prompts) == 1
    assert [step["name"] for step in expanded["trace"]] == ["filter", "expand"]
    assert expanded["trace"][1]["decision"] == " | ".join(QUESTIONS)
    assert files(expanded["hits"]) == {"ai-overview.en.pdf"}
    assert {"dense", "keyword", "rewriting 1"} <= set(expanded["hits"][0]["ranks"])

    result = localrag(*question, "--expand", "hyde", **variables)
    assert result.returncode == 0, result.stderr
    assert "Frank Rosenblatt" in json.loads(result.stdout)["trace"][0]["decision"]

    output = localrag(*question, "--expand", "hyde", "--mode", "keyword", **variables)
    assert output.returncode == 2
    assert "dense search" in output.stderr
    assert len(prompts) == 2


@pytest.mark.models("use-multilingual-v3")
def test_a_server_that_is_away_leaves_the_plain_search(library: str) -> None:
    variables = {
        "LOCALRAG_LLM_BACKEND": "openai",
        "LOCALRAG_LLM_BASE_URL": "http://127.0.0.1:9/v1",
        "LOCALRAG_LLM_MAX_RETRIES": "0",
    }
    question = ("search", "Who presented the perceptron?", "--library", library, "--json")
    plain = json.loads(localrag(*question).stdout)
    result = localrag(*question, "--expand", "multi-query", **variables)
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["hits"] == plain["hits"]
    assert "only the question itself is searched" in report["trace"][0]["decision"]
