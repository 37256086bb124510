"""The Model Context Protocol over HTTP, spoken by the SDK's own client."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Literal

import anyio
import httpx2
import pytest
from library.library_fixtures import add, document
from mcp import Client, types
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from server.conftest import TOKEN, Served

from localrag.config.settings import HostedSettings

ERA = ("auto", "legacy")
"""What clients of this year speak, and what those before do: a handshake and a session."""


@asynccontextmanager
async def connected(
    served: Served, era: str = "auto", token: str = TOKEN, **headers: str
) -> AsyncIterator[Client]:
    known = {"authorization": f"Bearer {token}", **headers}
    async with httpx2.AsyncClient(headers=known, trust_env=False, timeout=20) as http:
        transport = streamable_http_client(f"{served.url}/mcp", http_client=http)
        async with Client(transport, mode=era) as client:
            yield client


def text_of(result: types.CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, types.TextContent)
    return content.text


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    anyio.run(work)


@pytest.mark.parametrize("era", ERA)
def test_a_search_says_file_page_and_quotation_and_the_same_as_data(
    served: Served, era: str
) -> None:
    async def work() -> None:
        async with connected(served, era) as client:
            result = await client.call_tool("search", {"query": "When was the glass house opened?"})
            text, data = text_of(result), result.structured_content
            assert data is not None
            first = data["passages"][0]
            assert text.startswith(f'[1] {first["where"]}: "{first["text"]}"\n{first["link"]}')
            assert first["where"].startswith("garden.txt")
            assert "1907" in first["text"]
            assert data["left_out"] == 0
            page = httpx2.get(first["link"].replace("/view#", "/api/view?"), trust_env=False)
            assert page.status_code == 200, "the link brings the key to this view"

    run(work)
