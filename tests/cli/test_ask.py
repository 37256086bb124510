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

    def say(asked: dict[str, Any]) -> str:
        prompts.append(asked["messages"][-1]["content"])
        if choices := allowed_answers(asked):
            return json.dumps({"answer": grade(choices, asked_text(asked))})
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

    added = localrag("add", str(ROOT / "data" / "ai-overview.en.pdf"))
    assert added.returncode == 0, added.stderr
    return localrag


@pytest.mark.models("use-multilingual-v3")
def test_ask_json_has_everything_a_program_needs(run: Callable[..., Any]) -> None:
    done = run("ask", "Who presented the perceptron, and when?", "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["grounded"] is True
    assert answer["language"] == "en"
    assert answer["answer"].startswith(REPLY.rstrip("."))
    (citation,) = answer["citations"]
    assert Path(citation["source"]).name == "ai-overview.en.pdf"
    assert "perceptron" in citation["quote"].lower()
    cited = answer["contexts"][citation["marker"] - 1]
    assert citation["quote"] in cited["text"]
    assert cited["page"] <= citation["page"] <= cited["last_page"]
    assert {"source", "page", "score", "text"} <= set(cited)
    assert answer["trace"][0]["name"] == "retrieve"
    assert answer["seconds"] > 0


@pytest.mark.models("use-multilingual-v3")
def test_ask_prints_answer_citation_and_trace(run: Callable[..., Any]) -> None:
    done = run("ask", "Who presented the perceptron, and when?", "--explain")
    assert done.returncode == 0
    assert "1958 [" in done.stdout
    assert "ai-overview.en.pdf, p. " in done.stdout
    assert "check citations" in done.stdout


@pytest.mark.models("use-multilingual-v3")
def test_chat_understands_a_follow_up(
    run: Callable[..., Any], server: tuple[str, list[str]]
) -> None:
    done = run("chat", typed="What is the perceptron?\nWho presented it?\n")
    assert done.returncode == 0, done.stderr
    assert "Understood as: Who presented the perceptron?" in done.stderr
    rewriting = [prompt for prompt in server[1] if "Rewrite" in prompt]
    assert len(rewriting) == 1
    assert "What is the perceptron?" in rewriting[0]


@pytest.mark.models("use-multilingual-v3")
def test_a_host_elsewhere_is_refused_with_the_way_to_allow_it(run: Callable[..., Any]) -> None:
    done = run("ask", "Who?", base_url="https://models.example/v1")
    assert done.returncode == 1
    assert "models.example" in done.stderr
    assert "allow_network" in done.stderr
    assert "Traceback" not in done.stderr


SELF_RAG = ("ask", "Who presented the perceptron, and when?", "--mode", "self-rag")


@pytest.mark.models("use-multilingual-v3")
def test_self_rag_shows_its_decisions_and_marks_what_is_supported(run: Callable[..., Any]) -> None:
    done = run(*SELF_RAG, "--explain")
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert "retrieval decision: documents are needed 1.00" in lines
    assert "retrieve: 5 passages" in lines
    assert any(
        re.fullmatch(r"relevance: passage \d relevant \(not calibrated\) 1\.00", line)
        for line in lines
    )
    read = [line for line in lines if line.startswith("relevance:")]
    assert len(read) == 1, "the others need not be read"
    assert "support: fully supported 1.00" in lines
    assert "utility: useful, 1 to 5 5.00" in lines
    assert "\x1b" not in done.stderr, "no live view where nobody looks"
    assert re.search(r"in 1958 \[1\]\. ✓\n\(✓ fully supported\)\n", done.stdout)
    assert "ai-overview.en.pdf, p. " in done.stdout
    assert re.search(r"support of a sentence +fully supported +1\.000", done.stdout)

    done = run(*SELF_RAG, "--explain", language="zh")
    assert done.returncode == 0, done.stderr
    assert "检索判断：需要查阅文档 1.00" in done.stderr
    assert "完全支持" in done.stdout
    assert "检索判断" in done.stdout
    assert "documents" not in done.stderr + done.stdout
    assert "support" not in done.stderr + done.stdout

    done = run(*SELF_RAG, "--json", "--budget", "2m")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
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
    done = run(*nothing)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"Not from your documents:\n\n{REPLY}")
    assert "Looked for: whales, sing\n" in done.stdout
    assert "None of the passages found contains “whales” or “sing”." in done.stdout
    assert "✓" not in done.stdout
    written = len(server[1])
    done = run(*nothing, "--strict", "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["answer"] == "The documents do not contain the answer to this question."
    assert answer["grounded"] is False
    assert answer["citations"] == []
    assert answer["metrics"]["used_retrieval"] is False
    # A section may hold a sentence that could steer: then it is graded again without that.
    asked = server[1][written:]
    assert asked
    assert all("Reply only Yes or No." in request for request in asked), "nothing is written"
    done = run(*nothing, "--strict", language="zh")
    assert "最接近的句子" in done.stdout
    assert "找到的段落中都没有“whales”或“sing”。" in done.stdout


def failing(*arguments: str, language: str = "en") -> str:
    """What is said about a command line that makes no sense."""
    done = run_program("ask", "Who?", *arguments, variables={"LOCALRAG_LANG": language})
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    return done.stderr


def test_a_budget_that_is_no_time() -> None:
    said = failing("--mode", "self-rag", "--budget", "soon")
    assert "--budget" in said
    assert "a time looks like 30s or 2m, not soon" in said
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
