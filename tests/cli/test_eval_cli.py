"""`localrag eval` as a person runs it, with a model server of our own."""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from as_program import run_program
from http_server import Exchange, chat, serving
from judging_llm import JudgingLLM
from waiting import until

from localrag.models.llms.base import Options
from localrag.retrieval.sections import READ
from localrag.types import Message

ROOT = Path(__file__).resolve().parents[2]
MILL = {
    "question": "When was the Thorn mill built?",
    "answer": "The Thorn mill was built in 1820. [1]",
    "contexts": ["The Thorn mill was built in 1820.", "The moon is round."],
    "ground_truth": "The Thorn mill was built in 1820.",
}
ROWS = [
    MILL,
    MILL | {"question": "How many floors?", "answer": "The mill has nine floors. [1]"},
    {
        "question": "法国在哪里？",
        "answer": "法国位于西欧，法国的首都是巴黎。",
        "contexts": ["法国位于西欧。"],
        "ground_truth": "法国位于西欧。",
    },
    {
        "question": "Who owns the moon?",
        "answer": "The documents do not contain the answer to this question.",
        "contexts": ["The moon is round."],
        "has_answer": False,
    },
]


@dataclass
class Server:
    """An OpenAI-compatible server that judges by rules, and holds back what is beyond `most`."""

    url: str = ""
    most: float = math.inf
    asked: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    state = Server()
    judge = JudgingLLM()

    def say(request: dict[str, Any]) -> str:
        messages = [Message(message["role"], message["content"]) for message in request["messages"]]
        state.asked.append(messages[-1].content)
        place = len(state.asked)
        until(lambda: place <= state.most)
        schema = request.get("response_format", {}).get("json_schema", {}).get("schema")
        return judge.complete(messages, Options(schema=schema)).text if schema else "1"

    def respond(exchange: Exchange) -> None:
        if exchange.path == "/props":  # as llama.cpp's server tells its slots
            exchange.send('{"total_slots": 4}')
        else:
            chat(say)(exchange)

    with serving(respond) as running:
        state.url = f"{running.url}/v1"
        yield state


Command = Callable[..., list[str]]


@pytest.fixture
def environment(
    server: Server, models_dir: Callable[[str], Path], tmp_path: Path
) -> dict[str, str]:
    models_dir("use-multilingual-v3")
    server.delay = 0.0
    server.asked.clear()
    return os.environ | {
        "LOCALRAG_CONFIG": str(tmp_path / "config.toml"),
        "LOCALRAG_LANG": "en",
        "LOCALRAG_LIBRARY": str(tmp_path / "library"),
        "LOCALRAG_LLM_BACKEND": "openai",
        "LOCALRAG_LLM_BASE_URL": server.url,
    }


def localrag(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_program(*arguments, variables=environment)


def data_set(folder: Path, rows: list[dict[str, Any]] = ROWS) -> str:
    path = folder / "set.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows), "utf-8")
    return str(path)


def means(report: dict[str, Any]) -> dict[str, float | None]:
    return {metric["name"]: metric["mean"] for metric in report["metrics"]}


@pytest.mark.models("use-multilingual-v3")
def test_run_as_json_and_as_a_page(environment: dict[str, str], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    arguments = ("eval", "run", data_set(tmp_path), "--cache", str(tmp_path / "cache"))
    result = localrag(environment, *arguments, "--json", "--html", str(page))
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert set(report["metrics"][0]) >= {"name", "mean", "interval", "unreadable"}
    assert means(report)["faithfulness"] == pytest.approx((1 + 0 + 0.5) / 3)
    assert means(report)["context_precision"] == pytest.approx(1.0)
    assert means(report)["refusal"] == 1.0
    assert all(metric["unreadable"] == 0 for metric in report["metrics"])
    assert report["calibration"] is None
    assert "4 question(s)" in result.stderr
    assert page.read_text("utf-8").startswith("<!doctype html>")
    process = localrag(environment, *arguments)
    assert process.returncode == 0, process.stderr
    assert "Not calibrated" in process.stdout
    assert "How many floors?" in process.stdout


@pytest.mark.models("use-multilingual-v3")
def test_killed_at_any_moment_it_goes_on_with_the_same_numbers(
    environment: dict[str, str], server: Server, tmp_path: Path
) -> None:
    rows = [row | {"question": f"{row['question']} ({n})"} for n in range(3) for row in ROWS]
    dataset = data_set(tmp_path, rows)
    whole = localrag(environment, "eval", "run", dataset, "--cache", str(tmp_path / "a"), "--json")
    assert whole.returncode == 0, whole.stderr
    calls = len(server.asked)
    server.asked.clear()
    arguments = ["eval", "run", dataset, "--cache", str(tmp_path / "b"), "--json"]
    generator = random.Random(7)
    for _ in range(2):
        server.most = len(server.asked) + generator.randint(6, 14)
        process = subprocess.Popen(
            [sys.executable, "-m", "localrag", *arguments],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until(lambda: len(server.asked) > server.most)
        process.kill()
        assert process.wait() != 0, "it was to be killed before it ended"
    server.most = math.inf
    resumed = localrag(environment, *arguments)
    assert resumed.returncode == 0, resumed.stderr
    first, second = json.loads(whole.stdout), json.loads(resumed.stdout)
    first.pop("judge_seconds"), second.pop("judge_seconds")
    assert first == second
    # Four calls may have been under way each time, and the speed is measured anew.
    assert len(server.asked) <= calls + 2 * (4 + 3)


@pytest.mark.models("use-multilingual-v3")
def test_calibrate_is_carried_by_the_reports(environment: dict[str, str], tmp_path: Path) -> None:
    cache = ("--cache", str(tmp_path / "cache"))
    result = localrag(environment, "eval", "calibrate", *cache)
    assert result.returncode == 0, result.stderr
    for metric in ("faithfulness", "answer_relevancy", "context_recall", "context_precision"):
        assert metric.replace("_", " ") in result.stdout
    report = json.loads(
        localrag(environment, "eval", "run", data_set(tmp_path), *cache, "--json").stdout
    )
    agreement = {measure["name"]: measure for measure in report["calibration"]["metrics"]}
    assert agreement["faithfulness"]["items"] == 36
    assert -1 <= agreement["faithfulness"]["kappa"] <= 1
    untrusted = {name for name, measure in agreement.items() if not measure["trusted"]}
    assert untrusted <= set(report["calibration"]["untrustworthy"])


@pytest.mark.models("use-multilingual-v3")
def test_answers_from_a_library_for_two_configurations(
    environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "small.toml").write_text(
        '[chunking]\nstrategy = "windows"\nsize = 300\noverlap = 0\n'
    )
    (tmp_path / "word.toml").write_text('[retrieval]\nmode = "keyword"\n')
    dataset = data_set(
        tmp_path,
        [{"question": "Who presented the perceptron?", "source": "ai-overview.en.pdf", "page": 2}],
    )
    arguments = ["eval", "run", dataset, "--no-judge", "--json", "--cache", str(tmp_path / "cache")]
    for name in ("small", "word"):
        arguments += ["--config", str(tmp_path / f"{name}.toml")]
    arguments += ["--documents", str(ROOT / "data" / "ai-overview.en.pdf")]
    result = localrag(environment, *arguments)
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert [run["name"] for run in report["runs"]] == ["small", "word"]
    small, word = (run["questions"][0]["contexts"] for run in report["runs"])
    assert small != word
    # What is read is a section: as many small passages as it holds.
    assert max(len(context["text"]) for context in small) <= READ + 100
    assert {difference["metric"] for difference in report["differences"]} == {
        "page_reciprocal_rank",
        "page_rank",  # as it was called, until 0.3
    }
    assert not report["differences"][0]["ranked"]


@pytest.mark.models("use-multilingual-v3")
def test_what_is_missing_is_said(environment: dict[str, str], tmp_path: Path) -> None:
    dataset = data_set(tmp_path, [{"question": "q"}])
    result = localrag(environment, "eval", "run", dataset, "--no-judge")
    assert result.returncode == 1
    assert "library" in result.stderr
    result = localrag(environment, "eval", "run", dataset, "--config", str(tmp_path / "no.toml"))
    assert result.returncode == 2
    assert "There is no settings file" in result.stderr
    existing = tmp_path / "mine.jsonl"
    existing.write_text("edited", "utf-8")
    result = localrag(environment, "eval", "make", "-o", str(existing))
    assert result.returncode == 2
    assert existing.read_text("utf-8") == "edited"


@pytest.mark.models("use-multilingual-v3")
def test_make_writes_a_data_set(environment: dict[str, str], tmp_path: Path) -> None:
    output = tmp_path / "made.jsonl"
    document = ROOT / "data" / "garden-handbook.en.md"
    result = localrag(
        environment,
        *("eval", "make", str(document), "--questions", "3", "--unanswerable", "1"),
        *("-o", str(output), "--cache", str(tmp_path / "cache")),
    )
    assert result.returncode == 0, result.stderr
    rows = [json.loads(line) for line in output.read_text("utf-8").splitlines()]
    assert [row["has_answer"] for row in rows] == [True, True, False]
    assert all(row["source"] == "garden-handbook.en.md" and row["page"] == 1 for row in rows)
    assert all(row["question"].endswith("?") for row in rows)


@pytest.mark.models("use-multilingual-v3")
@pytest.mark.parametrize("options", [("--html", "q.jsonl"), ("--csv", "no/such/folder.csv")])
def test_a_report_never_takes_the_place_of_the_questions(
    options: tuple[str, str], environment: dict[str, str], tmp_path: Path
) -> None:
    questions = tmp_path / "q.jsonl"
    questions.write_text(json.dumps(MILL) + "\n", encoding="utf-8")
    before = questions.read_bytes()
    target = str(tmp_path / options[1])
    result = localrag(environment, "eval", "run", questions, "--no-judge", options[0], target)
    assert result.returncode == 2, result.stderr
    assert target in result.stderr
    assert questions.read_bytes() == before


@pytest.mark.models("use-multilingual-v3")
@pytest.mark.parametrize("role", ["--config", "--judge", "--documents"])
def test_a_report_takes_the_place_of_nothing_that_is_read(
    role: str, environment: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "read"
    folder.mkdir()
    config = folder / "mine.toml"
    config.write_text("[answer]\nk = 3\n", encoding="utf-8")
    value = str(folder if role == "--documents" else config)
    dataset = data_set(tmp_path)
    result = localrag(
        environment, "eval", "run", dataset, "--no-judge", role, value, "--html", str(config)
    )
    assert result.returncode == 2, result.stderr
    assert config.read_text("utf-8") == "[answer]\nk = 3\n"


@pytest.mark.models("use-multilingual-v3")
def test_configurations_that_need_libraries_of_their_own_are_not_compared_in_one(
    environment: dict[str, str], tmp_path: Path
) -> None:
    for size in (300, 600):
        (tmp_path / f"{size}.toml").write_text(
            f'[chunking]\nstrategy = "windows"\nsize = {size}\noverlap = 0\n'
        )
    dataset = data_set(tmp_path, [{"question": "q"}])
    configs = [f"--config={tmp_path / f'{size}.toml'}" for size in (300, 600)]
    result = localrag(environment, "eval", "run", dataset, *configs)
    assert result.returncode == 2, result.stderr
    assert "--documents" in result.stderr


@pytest.mark.models("use-multilingual-v3", "bge-small-en-v1.5-int8")
@pytest.mark.parametrize(
    ("named", "code"), [("bge-small-en-v1.5-int8", 0), ("use-multilingual-v3", 2)]
)
def test_configurations_are_compared_by_the_embedding_model_that_counts(
    environment: dict[str, str], tmp_path: Path, named: str, code: int
) -> None:
    (tmp_path / "en.md").write_text("The keeper now leads the tours of the lighthouse.", "utf-8")
    command = ("add", str(tmp_path / "en.md"), "--embedding", "english")
    assert localrag(environment, *command).returncode == 0
    configs = []
    for name, model in {"own": "", "named": named}.items():
        (tmp_path / f"{name}.toml").write_text(f'[embedding]\nmodel = "{model}"\n', "utf-8")
        configs.append(f"--config={tmp_path / f'{name}.toml'}")
    question = {"question": "Who leads the tours?", "source": "en.md", "page": 1}
    dataset = data_set(tmp_path, [question])
    cache = ("--cache", str(tmp_path / "cache"))
    result = localrag(environment, "eval", "run", dataset, "--no-judge", *cache, *configs)
    assert result.returncode == code, result.stderr
    assert ("--documents" in result.stderr) == bool(code)


@pytest.mark.models("use-multilingual-v3")
def test_no_metric_is_an_error(environment: dict[str, str], tmp_path: Path) -> None:
    arguments = ("--no-judge", "--metric", "faithfulness")
    result = localrag(environment, "eval", "run", data_set(tmp_path), *arguments)
    assert result.returncode == 2
    assert "faithfulness" in result.stderr
