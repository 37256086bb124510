"""`search` and `ask` beside `localrag serve`, each a process of its own with the doors closed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import pytest
from http_server import allowed_answers, chat, serving

from localrag.cli.served import _REASONS
from localrag.server.listening import bind
from localrag.server.setups import Difference

ROOT = Path(__file__).resolve().parents[2]
QUESTION = "Who presented the perceptron, and when?"


def say(request: dict[str, Any]) -> str:
    if choices := allowed_answers(request):
        return json.dumps({"answer": choices[0]})
    return "Frank Rosenblatt presented the perceptron in 1958."


def timeless(output: str) -> list[str]:
    return [line for line in output.splitlines() if '"seconds"' not in line]


@pytest.mark.models("use-multilingual-v3")
def test_a_running_server_answers_until_it_is_killed(
    models_dir: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models_dir("use-multilingual-v3")
    monkeypatch.setenv("LOCALRAG_LIBRARY", str(tmp_path / "library"))
    monkeypatch.setenv("LOCALRAG_LLM_BACKEND", "openai")
    monkeypatch.delenv("LOCALRAG_TOKEN", raising=False)
    with serving(chat(say)) as model:
        monkeypatch.setenv("LOCALRAG_LLM_BASE_URL", f"{model.url}/v1")
        localrag("add", str(ROOT / "data" / "ai-overview.en.pdf"))
        commands = ("search", QUESTION), ("ask", QUESTION), ("ask", QUESTION, "--mode", "self-rag")
        alone = [timeless(localrag(*words, "--json")) for words in commands]
        with server() as process:
            assert json.loads(localrag("status", "--json"))["server"]["used"]
            assert "running; search, ask and chat use it" in localrag("status")
            output = localrag("search", QUESTION, python=("-X", "importtime"))
            assert "| faiss\n" not in output.replace("  ", "")
            assert "not used" not in localrag("--debug", "search", QUESTION)
            served = [timeless(localrag(*words, "--json")) for words in commands]
            assert served == alone
            output = localrag("search", QUESTION, "--no-server", python=("-X", "importtime"))
            assert "faiss\n" in output
            localrag("add", str(ROOT / "data" / "garden-handbook.en.md"))
            assert "garden-handbook" in localrag("search", "When are tulips planted?", "-k", "1")
            localrag("remove", str(ROOT / "data" / "garden-handbook.en.md"))
            assert timeless(localrag("search", QUESTION, "--json")) == alone[0]
            monkeypatch.setenv("LOCALRAG_RETRIEVAL_K", "3")
            assert "started with other settings" in localrag("--debug", "search", QUESTION)
            monkeypatch.delenv("LOCALRAG_RETRIEVAL_K")
            process.kill()
            process.wait(60)
            assert timeless(localrag("search", QUESTION, "--json")) == alone[0]
        assert json.loads(localrag("status", "--json"))["server"] is None


def localrag(*words: str, python: tuple[str, ...] = ()) -> str:
    """Everything that a command writes."""
    result = subprocess.run(
        [sys.executable, *python, "-m", "localrag", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if python or "--debug" in words else subprocess.PIPE,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result
    return result.stdout


@contextmanager
def server() -> Iterator[subprocess.Popen[bytes]]:
    """`localrag serve`, once it says that it listens."""
    with bind("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "localrag", "serve", "--port", str(port)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    with process, process.stdout:
        try:
            assert b"Serving library" in process.stdout.readline()
            yield process
        finally:
            process.kill()


def test_every_reason_not_to_use_a_server_has_a_text() -> None:
    assert set(_REASONS) == {*get_args(Difference), "open", "unproven", "hosted"}
