"""The log of requests: one line each, and no text or name in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from server.conftest import TOKEN, Served, Writing, serving
from starlette.convertors import PathConvertor, StringConvertor
from starlette.routing import Mount, Route
from waiting import until

from localrag.server.access import Access
from localrag.server.app import routes_of
from localrag.server.libraries import Libraries


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def told(tmp_path: Path, lines: list[str]) -> Iterator[Served]:
    with serving(tmp_path / "garden", Writing(), lines.append) as server:
        yield server


def test_a_request_is_a_line_without_its_texts(told: Served, lines: list[str]) -> None:
    with told.client() as http:
        http.post("/api/search?library=garden", json={"question": "When was it opened?"})
        document = http.get("/api/documents").json()["documents"][0]["id"]
        http.delete(f"/api/documents/{document}")
        http.get("/secret-name.pdf")
        http.request("PURGE", "/api/search")
        http.get("/api/status")
    httpx.get(f"{told.url}/api/status?token={TOKEN}", trust_env=False)
    until(lambda: len(lines) >= 6)  # a line is written behind its response
    entries = [line.split(" ", 2)[2].rsplit(" ", 2)[0] for line in lines]
    assert entries == [
        "POST /api/search 200",
        "GET /api/documents 200",
        "DELETE /api/documents/{document} 200",
        "GET - 404",
        "- /api/search 405",
        "GET /api/status 401",
    ]
    assert not any(word in line for line in lines for word in ("secret", document, TOKEN, "opened"))


def test_what_a_path_names_is_read_behind_the_gate_alone(
    told: Served, lines: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Python's numbers from text have a longest one, beyond which reading it raises."""
    long = f"/api/jobs/{'9' * 5000}/cancel"
    assert httpx.post(f"{told.url}{long}", trust_env=False).status_code == 401
    with told.client() as http:
        for path in (long, "/api/jobs/x/cancel", "/api/jobs/1/cancel"):
            response = http.post(path)
            assert response.status_code == 404
            assert "There is no job" in response.json()["error"]["message"]
    until(lambda: len(lines) >= 4)
    assert [line.split(" ", 2)[2].rsplit(" ", 2)[0] for line in lines] == [
        "POST /api/jobs/{number}/cancel 401",
        *["POST /api/jobs/{number}/cancel 404"] * 3,
    ]
    assert not [record for record in caplog.records if record.exc_info]


def test_no_route_can_fail_to_be_matched() -> None:
    """Log and roles match routes where nothing may fail: for requests without a token, too."""
    routes = routes_of(Libraries([], lambda _: None), Access("x" * 20, 1))  # type: ignore[arg-type,return-value]
    converters = [
        converter
        for route in routes
        if isinstance(route, Route | Mount)
        for converter in route.param_convertors.values()
    ]
    assert converters
    assert {type(converter) for converter in converters} == {StringConvertor, PathConvertor}
