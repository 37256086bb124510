"""The log of requests: one line each, and no text or name in it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from server.conftest import TOKEN, Served, Writing, serving


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def told(tmp_path: Path, lines: list[str]) -> Iterator[Served]:
    with serving(tmp_path / "garden", Writing(), lines.append) as one:
        yield one


def test_a_request_is_a_line_without_its_texts(told: Served, lines: list[str]) -> None:
    with told.client() as http:
        http.post("/api/search?library=garden", json={"question": "When was it opened?"})
        document = http.get("/api/documents").json()["documents"][0]["id"]
        http.delete(f"/api/documents/{document}")
        http.get("/secret-name.pdf")
        http.request("PURGE", "/api/search")
        http.get("/api/status")
    httpx.get(f"{told.url}/api/status?token={TOKEN}", trust_env=False)
    before = time.monotonic() + 10
    while len(lines) < 6 and time.monotonic() < before:  # a line is written behind its response
        time.sleep(0.01)
    said = [line.split(" ", 2)[2].rsplit(" ", 2)[0] for line in lines]
    assert said == [
        "POST /api/search 200",
        "GET /api/documents 200",
        "DELETE /api/documents/{document} 200",
        "GET - 404",
        "- /api/search 405",
        "GET /api/status 401",
    ]
    assert not any(word in line for line in lines for word in ("secret", document, TOKEN, "opened"))
