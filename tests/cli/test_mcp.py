"""`localrag mcp`: the Model Context Protocol on the pipes of a process, and nothing else there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from http_server import allowed_answers, chat, serving
from mcp import Client, types
from mcp.client.stdio import StdioServerParameters, stdio_client

ROOT = Path(__file__).resolve().parents[2]
REPLY = "Frank Rosenblatt presented the perceptron in 1958."

LOUD = """
import ctypes, os, sys
sys.path.insert(0, {tests!r})
from fakes import HashEmbedder
from localrag import factory

def loud(*_):
    print("a library prints", flush=True)
    print("a library prints, later")
    os.write(1, b"a library writes\\n")
    ctypes.CDLL(None).puts(b"a library in C prints when the process ends")
    return HashEmbedder()

factory.make_embedder = loud
sys.argv = ["localrag", *sys.argv[1:]]
from localrag.__main__ import main
main()
"""


def loud(*arguments: str) -> list[str]:
    """The command line with an embedding model whose library prints."""
    code = LOUD.format(tests=str(ROOT / "tests"))
    return [sys.executable, "-c", code, *arguments]


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A library of one file, whose vectors mean nothing."""
    (tmp_path / "garden.md").write_text("The glass house was opened in 1907.", encoding="utf-8")
    folder = tmp_path / "garden"
    command = loud("--library", str(folder), "add", str(tmp_path / "garden.md"))
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return folder


class Pipes:
    """A process and its messages, as a client that trusts nothing reads them."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        greeting = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        }
        assert self.ask(1, "initialize", greeting)["serverInfo"]["name"] == "localrag"
        self.say({"method": "notifications/initialized"})

    def say(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def ask(self, number: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.say({"id": number, "method": method, "params": params})
        assert self.process.stdout is not None
        reply = json.loads(self.process.stdout.readline())
        assert reply["id"] == number
        result: dict[str, Any] = reply["result"]
        return result

    def ended(self) -> tuple[str, str]:
        """What was still written to each pipe."""
        rest, stderr = self.process.communicate(timeout=60)
        return rest, stderr


@contextmanager
def speaking(*arguments: str) -> Iterator[Pipes]:
    pipes = Pipes(loud(*arguments))
    try:
        yield pipes
    finally:
        pipes.process.kill()
        pipes.process.communicate()


@pytest.mark.skipif(os.name == "nt", reason="prints with the C library of a POSIX system")
def test_nothing_but_the_protocol_is_on_standard_output(library: Path) -> None:
    with speaking("--library", str(library), "mcp") as pipes:
        call = {"name": "search", "arguments": {"query": "glass house"}}
        result = pipes.ask(2, "tools/call", call)
        assert result["content"][0]["text"].startswith('[1] garden.md, para. 1: "The glass house')
        assert "link" not in result["structuredContent"]["passages"][0], "no server shows it"
        rest, stderr = pipes.ended()
        assert rest == ""
        for line in ("prints\n", "prints, later\n", "writes\n", "when the process ends\n"):
            assert f"a library {line}" in stderr or f"in C prints {line}" in stderr
        assert pipes.process.returncode == 0


def test_the_end_of_the_input_and_an_interrupt_end_it(library: Path) -> None:
    with speaking("--library", str(library), "mcp") as pipes:
        pipes.ended()
    if os.name != "nt":
        with speaking("--library", str(library), "mcp") as pipes:
            pipes.process.send_signal(signal.SIGINT)
            assert pipes.process.wait(60) == 130


def test_files_are_added_only_where_that_is_allowed(library: Path, tmp_path: Path) -> None:
    more = tmp_path / "more"
    more.mkdir()
    (more / "tea.md").write_text("Tea is picked in March.", encoding="utf-8")
    (more / "broken.pdf").write_bytes(b"%PDF-1.7 broken")
    call = {"name": "add", "arguments": {"paths": [str(more)]}}
    with speaking("--library", str(library), "mcp", "--allow-add") as pipes:
        tools = {tool["name"]: tool for tool in pipes.ask(2, "tools/list", {})["tools"]}
        assert tools["add"]["annotations"]["readOnlyHint"] is False
        assert tools["search"]["annotations"]["readOnlyHint"] is True
        result = pipes.ask(3, "tools/call", call)
        assert result["structuredContent"]["added"] == ["tea.md"]
        assert [file["file"] for file in result["structuredContent"]["not_read"]] == ["broken.pdf"]
        relative = {"name": "add", "arguments": {"paths": ["more"]}}
        assert pipes.ask(4, "tools/call", relative)["isError"] is True
    with speaking("--library", str(library), "mcp") as pipes:
        pipes.say({"id": 5, "method": "tools/call", "params": call})
        assert pipes.process.stdout is not None
        assert "There is no tool add" in pipes.process.stdout.readline()


def test_a_folder_without_a_library_is_said_on_standard_error(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "localrag", "--library", str(tmp_path / "no"), "mcp"]
    result = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60, check=False)
    assert result.returncode == 1
    assert result.stdout == ""
    assert "no" in result.stderr


@pytest.mark.models("use-multilingual-v3")
@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_sdk_s_client_asks_two_libraries(
    language: str, models_dir: Callable[[str], Path], tmp_path: Path
) -> None:
    models = models_dir("use-multilingual-v3").parent

    def say(request: dict[str, Any]) -> str:
        choices = allowed_answers(request)
        return json.dumps({"answer": choices[0]}) if choices else REPLY

    async def work(environment: dict[str, str]) -> None:
        server = StdioServerParameters(
            command=sys.executable,
            args=["-m", "localrag", "--library", str(tmp_path / "ai"), "mcp", str(tmp_path / "园")],
            env=environment,
        )
        with (tmp_path / "log").open("w") as log:
            async with Client(stdio_client(server, errlog=log)) as client:
                await asked(client)

    async def asked(client: Client) -> None:
        messages: list[str] = []

        async def hear(_: float, __: float | None, message: str | None) -> None:
            messages.append(message or "")

        result = await client.call_tool(
            "ask", {"question": "Who presented the perceptron?"}, progress_callback=hear
        )
        (content,) = result.content
        assert isinstance(content, types.TextContent)
        where = "ai-overview.en.pdf, p. 4" if language == "en" else "ai-overview.en.pdf，第 4 页"
        assert f'[1] {where}: "Frank Rosenblatt presented the perceptron' in content.text
        assert any(line.startswith("retrieve" if language == "en" else "检索") for line in messages)
        result = await client.call_tool("search", {"query": "采茶", "library": "园", "k": 1})
        assert result.structured_content is not None
        (passage,) = result.structured_content["passages"]
        assert passage["file"] == "garden-handbook.zh.md"
        page = await client.read_resource(passage["resource"])
        assert isinstance(page.contents[0], types.TextResourceContents)
        assert passage["text"].partition("\n")[2] in page.contents[0].text

    with serving(chat(say)) as running:
        environment = {
            "LOCALRAG_MODELS": str(models),
            "LOCALRAG_LANG": language,
            "LOCALRAG_LLM_BACKEND": "openai",
            "LOCALRAG_LLM_BASE_URL": f"{running.url}/v1",
        }
        for name, file in (("ai", "ai-overview.en.pdf"), ("园", "garden-handbook.zh.md")):
            folder, path = str(tmp_path / name), str(ROOT / "data" / file)
            subprocess.run(
                [sys.executable, "-m", "localrag", "--library", folder, "add", path],
                env=os.environ | environment,
                check=True,
                capture_output=True,
                timeout=120,
            )
        anyio.run(work, environment)
