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
        value = [item for key, item in value.items() if key not in skipped]
    if isinstance(value, list):
        for entry in value:
            yield from strings(entry, skipped)
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
    body = {"messages": [{"role": "user", "content": QUESTION}], "stream": stream}
    with evil.client() as http:
        reply = http.post("/v1/chat/completions", json=body)
    parts = list(events(reply.text)) if stream else [reply.json()]
    deltas = [part["choices"][0].get("delta", part["choices"][0].get("message")) for part in parts]
    content = "".join(delta.get("content", "") for delta in deltas)
    assert "1907" in content
    assert "a picture]\\(hxxp://evil.example/secret.png) and &lt;img" in content
    annotation, *_ = (note for delta in deltas for note in delta.get("annotations", ()))
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
    (message,) = (item for item in whole["output"] if item["type"] == "message")
    (content,) = message["content"]
    if stream:
        assert content["text"] == "".join(part["delta"] for part in parts if "delta" in part)
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
    for entry in documents if isinstance(documents, list) else ():  # a table counts them
        for section in entry.get("sections", ()):
            yield from section["citations"]


def test_assistants(evil: Served) -> None:
    """The text of each reply, and the same as data, which a model reads and may repeat."""
    calls = {
        "search": {"query": QUESTION},
        "ask": {"question": QUESTION},
        "table": {"columns": [QUESTION, "Does it have a picture?"]},
        "summarise": {"documents": ["*notes*"]},
        "get_page": {"document": NAME, "image": False, "mark": "a picture", "question": QUESTION},
        "list_documents": {},
        "status": {},
    }
    messages: list[str] = []

    async def hear(_: float, __: float | None, message: str | None) -> None:
        messages.append(message or "")

    async def work() -> None:
        async with connected(evil) as (client, _):
            for name, arguments in calls.items():
                result = await client.call_tool(name, arguments, progress_callback=hear)
                data = result.structured_content
                assert data is not None, result
                (content,) = result.content
                text = getattr(content, "text", "")
                for link in {
                    record["link"]
                    for record in [data, *data.get("passages", ()), *quotations(data)]
                    if "link" in record
                }:
                    assert link.startswith(f"{evil.url}/view#")
                    assert link in text
                    text = text.replace(link, "")
                for wording in [text, *strings(data, frozenset({"link"}))]:
                    assert list(addresses(wording)) == [], name
                if name in ("search", "ask", "table", "summarise", "get_page"):
                    assert data["disarmed"] > 0
                    assert "Links, pictures and HTML in the documents are shown as text" in text
            result_of_failure = await client.call_tool(
                "get_page", {"document": "![x](http://evil.example)"}
            )
            assert result_of_failure.is_error
            assert list(addresses(getattr(result_of_failure.content[0], "text", ""))) == []
            resources = (await client.list_resources()).resources
            assert all(list(addresses(resource.name)) == [] for resource in resources)

    anyio.run(work)
    assert messages
    assert all(list(addresses(line)) == [] for line in messages)
