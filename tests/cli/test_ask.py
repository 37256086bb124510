"""`ask` and `chat` against a local server that speaks OpenAI's protocol: no model is loaded."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from as_program import run_program
from http_server import allowed_answers, asked_text, chat, serving

from localrag.cli.ask import ask
from localrag.cli.output import read_seconds

ROOT = Path(__file__).resolve().parents[2]
REPLY = "Frank Rosenblatt presented the perceptron in 1958."


def grade(choices: list[str], rules: str) -> str:
    """What Self-RAG's questions get: only passages about Rosenblatt are relevant."""
    if choices[0] in ("Yes", "是"):
        return choices[0 if "Rosenblatt" in rules else 1]
    return "5" if choices[0] == "1" else choices[0]


@pytest.fixture
def server() -> Iterator[tuple[str, list[str]]]:
    prompts: list[str] = []

    def say(request: dict[str, Any]) -> str:
        prompts.append(request["messages"][-1]["content"])
        if choices := allowed_answers(request):
            return json.dumps({"answer": grade(choices, asked_text(request))})
        return "Who presented the perceptron?" if "Rewrite" in prompts[-1] else REPLY

    with serving(chat(say)) as running:
        yield f"{running.url}/v1", prompts


@pytest.fixture
def run(
    server: tuple[str, list[str]], models_dir: Callable[[str], Path], tmp_path: Path
) -> Callable[..., subprocess.CompletedProcess[str]]:
    models_dir("use-multilingual-v3")

    def localrag(
        *arguments: str, typed: str = "", base_url: str = server[0], language: str = "en"
    ) -> subprocess.CompletedProcess[str]:
        variables = {
            "LOCALRAG_LLM_BACKEND": "openai",
            "LOCALRAG_LLM_BASE_URL": base_url,
            "LOCALRAG_LIBRARY": str(tmp_path / "library"),
            "LOCALRAG_LANG": language,
        }
        return run_program(*arguments, variables=variables, typed=typed)

    result = localrag("add", str(ROOT / "data" / "ai-overview.en.pdf"))
    assert result.returncode == 0, result.stderr
    return localrag


@pytest.mark.models("use-multilingual-v3")
def test_ask_json_has_everything_a_program_needs(run: Callable[..., Any]) -> None:
    result = run("ask", "Who presented the perceptron, and when?", "--json")
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout)
    assert answer["grounded"] is True
    assert answer["language"] == "en"
    assert answer["answer"].startswith(REPLY.rstrip("."))
    (citation,) = answer["citations"]
    assert Path(citation["source"]).name == "ai-overview.en.pdf"
    assert "perceptron" in citation["quote"].lower()
    context = answer["contexts"][citation["marker"] - 1]
    assert citation["quote"] in context["text"]
    assert context["page"] <= citation["page"] <= context["last_page"]
    assert {"source", "page", "score", "text"} <= set(context)
    assert answer["trace"][0]["name"] == "retrieve"
    assert answer["seconds"] > 0


@pytest.mark.models("use-multilingual-v3")
def test_ask_prints_answer_citation_and_trace(run: Callable[..., Any]) -> None:
    result = run("ask", "Who presented the perceptron, and when?", "--explain")
    assert result.returncode == 0
    assert "1958 [" in result.stdout
    assert "ai-overview.en.pdf, p. " in result.stdout
    assert "check citations" in result.stdout


@pytest.mark.models("use-multilingual-v3")
def test_chat_understands_a_follow_up(
    run: Callable[..., Any], server: tuple[str, list[str]]
) -> None:
    result = run("chat", typed="What is the perceptron?\nWho presented it?\n")
    assert result.returncode == 0, result.stderr
    assert "Understood as: Who presented the perceptron?" in result.stderr
    rewriting = [prompt for prompt in server[1] if "Rewrite" in prompt]
    assert len(rewriting) == 1
    assert "What is the perceptron?" in rewriting[0]


@pytest.mark.models("use-multilingual-v3")
def test_a_host_elsewhere_is_refused_with_the_way_to_allow_it(run: Callable[..., Any]) -> None:
    result = run("ask", "Who?", base_url="https://models.example/v1")
    assert result.returncode == 1
    assert "models.example" in result.stderr
    assert "allow_network" in result.stderr
    assert "Traceback" not in result.stderr


SELF_RAG = ("ask", "Who presented the perceptron, and when?", "--mode", "self-rag")


@pytest.mark.models("use-multilingual-v3")
def test_self_rag_shows_its_decisions_and_marks_what_is_supported(run: Callable[..., Any]) -> None:
    result = run(*SELF_RAG, "--explain")
    assert result.returncode == 0, result.stderr
    lines = result.stderr.splitlines()
    assert "retrieval decision: documents are needed 1.00" in lines
    assert "retrieve: 5 passages" in lines
    assert any(
        re.fullmatch(r"relevance: passage \d relevant \(not calibrated\) 1\.00", line)
        for line in lines
    )
    steps = [line for line in lines if line.startswith("relevance:")]
    assert len(steps) == 1, "the others need not be read"
    assert "support: fully supported 1.00" in lines
    assert "utility: useful, 1 to 5 5.00" in lines
    assert "\x1b" not in result.stderr, "no live view where nobody looks"
    assert re.search(r"in 1958 \[1\]\. ✓\n\(✓ fully supported\)\n", result.stdout)
    assert "ai-overview.en.pdf, p. " in result.stdout
    assert re.search(r"support of a sentence +fully supported +1\.000", result.stdout)

    result = run(*SELF_RAG, "--explain", language="zh")
    assert result.returncode == 0, result.stderr
    assert "检索判断：需要查阅文档 1.00" in result.stderr
    assert "完全支持" in result.stdout
    assert "检索判断" in result.stdout
    assert "documents" not in result.stderr + result.stdout
    assert "support" not in result.stderr + result.stdout

    result = run(*SELF_RAG, "--json", "--budget", "2m")
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout)
    (sentence,) = answer["support"]
    assert sentence["rating"] == "fully supported"
    assert sentence["share"] == 1.0
    assert sentence["text"] == answer["answer"]
    assert answer["metrics"] == {
        "retrieval_needed": True,
        "documents_retrieved": 5,
        "relevant_documents": answer["metrics"]["relevant_documents"],
        "response_support_ratings": ["fully supported"],
        "utility_ratings": [5.0],
        "best_score": 20.0,
        "used_retrieval": True,
    }
    assert answer["trace"][0]["decision"] == "documents are needed"
    (citation,) = answer["citations"]
    assert "1958" in citation["quote"]


@pytest.mark.models("use-multilingual-v3")
def test_self_rag_without_a_relevant_passage(
    run: Callable[..., Any], server: tuple[str, list[str]]
) -> None:
    nothing = ("ask", "How many whales sing?", "--mode", "self-rag", "-k", "1")
    result = run(*nothing)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith(f"Not from your documents:\n\n{REPLY}")
    assert "Looked for: whales, sing\n" in result.stdout
    assert "None of the passages found contains “whales” or “sing”." in result.stdout
    assert "✓" not in result.stdout
    count = len(server[1])
    result = run(*nothing, "--strict", "--json")
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout)
    assert answer["answer"] == "The documents do not contain the answer to this question."
    assert answer["grounded"] is False
    assert answer["citations"] == []
    assert answer["metrics"]["used_retrieval"] is False
    # A section may hold a sentence that could steer: then it is graded again without that.
    requests = server[1][count:]
    assert requests
    assert all("Reply only Yes or No." in request for request in requests), "nothing is written"
    result = run(*nothing, "--strict", language="zh")
    assert "最接近的句子" in result.stdout
    assert "找到的段落中都没有“whales”或“sing”。" in result.stdout


def failing(*arguments: str, language: str = "en") -> str:
    """What is said about a command line that makes no sense."""
    result = run_program("ask", "Who?", *arguments, variables={"LOCALRAG_LANG": language})
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    return result.stderr


def test_a_budget_that_is_no_time() -> None:
    message = failing("--mode", "self-rag", "--budget", "soon")
    assert "--budget" in message
    assert "a time looks like 30s or 2m, not soon" in message
    assert "时间的写法如 30s 或 2m，而不是 0s" in failing("--budget", "0s", language="zh")


def test_a_budget_needs_the_mode() -> None:
    assert "--budget needs --mode self-rag." in failing("--budget", "5s", "--mode", "standard")
    assert "需要与 --mode self-rag 一起使用" in failing("--budget", "5s", language="zh")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("2m", 120), ("45", 45), (" 1.5 M ", 90), ("0.5s", 0.5), ("１０s", 10)],
)
def test_times(text: str, seconds: float) -> None:
    assert parse_time(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "0m", "-5", "1h", "s", "1,5s", "NaN", "inf", "1e3"])
def test_no_times(text: str) -> None:
    with pytest.raises(click.BadParameter, match="a time looks like"):
        parse_time(text)


def parse_time(text: str) -> float | None:
    return read_seconds(click.Context(ask), click.Option(["--budget"]), text)
