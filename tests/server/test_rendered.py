"""What chat clients and assistants get, rendered as they render it: no address in it but ours."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from library.library_fixtures import add, document
from presentation.test_markdown import addresses
from server.conftest import Served
from server.test_mcp_http import connected

QUESTION = "When was the glass house opened, and what does the picture of it show?"
EVIL = "http://evil.example/secret.png"
TEXT = f"The glass house was opened in 1907, see ![a picture]({EVIL}) and <img src='{EVIL}'>."
NAME = "[notes](www.evil.example).txt"
SAID = (
    "It was opened in 1907, see ![a pic",
    "ture](",
    EVIL[:9],
    EVIL[9:],
    ") and <",
    "img src=x> [1].",
)


@pytest.fixture
def evil(served: Served) -> Served:
    for record in served.engine.library.documents():
        served.engine.library.remove(documents=[record.id])
    add(served.engine.library, document(TEXT, source=NAME), size=400)
    served.llm.pieces = SAID
    return served


def strings(value: Any, skipped: frozenset[str]) -> Iterator[str]:
    """All texts of a reply but for those under these names."""
    if isinstance(value, dict):
        value = [one for key, one in value.items() if key not in skipped]
    if isinstance(value, list):
        for one in value:
            yield from strings(one, skipped)
    elif isinstance(value, str):
        yield value


def events(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        if line.startswith("data: {"):
            yield json.loads(line.removeprefix("data: "))


OURS = frozenset({"url", "localrag"})
"""Our own links; and the records of this program, which are data and no Markdown."""


@pytest.mark.parametrize("stream", [False, True])
def test_chat_completions(evil: Served, stream: bool) -> None:
    asked = {"messages": [{"role": "user", "content": QUESTION}], "stream": stream}
    with evil.client() as http:
        reply = http.post("/v1/chat/completions", json=asked)
    parts = list(events(reply.text)) if stream else [reply.json()]
    deltas = [one["choices"][0].get("delta", one["choices"][0].get("message")) for one in parts]
    content = "".join(delta.get("content", "") for delta in deltas)
    assert "1907" in content
    assert "a picture]\\(hxxp://evil.example/secret.png) and &lt;img" in content
    annotation, *_ = (one for delta in deltas for one in delta.get("annotations", ()))
    assert annotation["url_citation"]["url"].startswith(f"{evil.url}/view#"), "our own stays"
    for text in [content, *strings(parts, OURS)]:
        assert list(addresses(text)) == []
    assert parts[-1]["localrag"]["disarmed"] == 2


@pytest.mark.parametrize("stream", [False, True])
def test_responses(evil: Served, stream: bool) -> None:
    with evil.client() as http:
        reply = http.post("/v1/responses", json={"input": QUESTION, "stream": stream})
    parts = list(events(reply.text)) if stream else [reply.json()]
    assert "(hxxp" in str(parts)
    for text in strings(parts, OURS):
        assert list(addresses(text)) == []
    whole = parts[-1]["response"] if stream else parts[-1]
    assert whole["localrag"]["disarmed"] == 2
    (message,) = (one for one in whole["output"] if one["type"] == "message")
    (content,) = message["content"]
    if stream:
        assert content["text"] == "".join(one["delta"] for one in parts if "delta" in one)
    assert content["annotations"][0]["url"].startswith(f"{evil.url}/view#")


def test_a_search_of_a_vector_store(evil: Served) -> None:
    with evil.client() as http:
        reply = http.post("/v1/vector_stores/default/search", json={"query": QUESTION})
    assert "picture" in reply.text
    for text in strings(reply.json(), OURS):
        assert list(addresses(text)) == []


def quotations(data: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Those of an answer, or of the sections of a summary."""
    yield from data.get("citations", ())
    documents = data.get("documents", ())
    for one in documents if isinstance(documents, list) else ():  # a table counts them
        for section in one.get("sections", ()):
            yield from section["citations"]


def test_assistants(evil: Served) -> None:
    """The text of each reply, and the same as data, which a model reads and may repeat."""
    asked = {
        "search": {"query": QUESTION},
        "ask": {"question": QUESTION},
        "table": {"columns": [QUESTION, "Does it have a picture?"]},
        "summarise": {"documents": ["*notes*"]},
        "get_page": {"document": NAME, "image": False, "mark": "a picture", "question": QUESTION},
        "list_documents": {},
        "status": {},
    }
    told: list[str] = []

    async def hear(_: float, __: float | None, message: str | None) -> None:
        told.append(message or "")

    async def work() -> None:
        async with connected(evil) as (client, _):
            for name, arguments in asked.items():
                result = await client.call_tool(name, arguments, progress_callback=hear)
                data = result.structured_content
                assert data is not None, result
                (content,) = result.content
                text = getattr(content, "text", "")
                for link in {
                    one["link"]
                    for one in [data, *data.get("passages", ()), *quotations(data)]
                    if "link" in one
                }:
                    assert link.startswith(f"{evil.url}/view#")
                    assert link in text
                    text = text.replace(link, "")
                for one in [text, *strings(data, frozenset({"link"}))]:
                    assert list(addresses(one)) == [], name
                if name in ("search", "ask", "table", "summarise", "get_page"):
                    assert data["disarmed"] > 0
                    assert "Links, pictures and HTML in the documents are shown as text" in text
            failed = await client.call_tool("get_page", {"document": "![x](http://evil.example)"})
            assert failed.is_error
            assert list(addresses(getattr(failed.content[0], "text", ""))) == []
            resources = (await client.list_resources()).resources
            assert all(list(addresses(one.name)) == [] for one in resources)

    anyio.run(work)
    assert told
    assert all(list(addresses(one)) == [] for one in told)
