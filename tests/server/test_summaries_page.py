"""Summaries as events, kept and gone on with, to assistants, and in Chromium."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anyio
import httpx
import pytest
from library.library_fixtures import add, document
from playwright.sync_api import expect
from server.conftest import Served, streamed_events
from server.in_browser import Open
from server.test_mcp_http import call, connected

SENTENCES = (
    "The palm house was opened in 1911 by the gardener of the park.",
    "It has two hundred palms from the islands of the south.",
    "The heating of the palm house burns wood from the forest.",
    "In winter the palm house is closed from noon until the morning.",
    "The roof of the palm house was mended with new glass in 1950.",
)


@pytest.fixture
def houses(served: Served) -> Served:
    """A document with enough to write about, in a folder with another."""
    served.llm.pieces = (SENTENCES[0],)
    library = served.engine.library
    add(library, document(" ".join(SENTENCES), source="/home/ada/park/houses/palm.txt"), size=999)
    add(library, document("The fern house is old.", source="/home/ada/park/houses/fern.txt"))
    return served


def told(http: httpx.Client, **fields: object) -> Iterator[tuple[str, Any]]:
    return streamed_events(http, "/api/summaries", json=fields)


def text_of(section: dict[str, Any]) -> str:
    """Without the gap before each marker."""
    return "".join(run.get("text", "") for run in section["runs"]).replace(" .", ".")


def test_a_document_is_told_in_its_words_then_written_and_kept(houses: Served) -> None:
    with houses.client() as http:
        events = [event for event in told(http, patterns=["palm.txt"]) if event[0] != "loading"]
        again = list(told(http, patterns=["palm.txt"], kept_only=True))
    (_, start), (_, end), (name, summary) = events
    (document,) = start["documents"]
    (own,) = document["sections"]
    assert document["source"] == "palm.txt"
    assert own["state"] == "not written"
    assert "own words" in own["note"]
    assert start["left"] == 1
    section = end["section"]
    assert (section["state"], section["note"]) == ("written", "")
    assert text_of(section).strip() == SENTENCES[0]
    (citation,) = section["citations"]
    assert citation["cited"] == "palm.txt, p. 1"
    assert citation["view"]["document"] == document["document"]
    assert name == "summary"
    assert summary["final"]
    assert "from 1 of 1 passage" in summary["lines"][0][0]
    assert again[0][1]["kept"] == 1
    assert [data["section"] for kind, data in again if kind == "section"] == [section]
    assert "/home" not in json.dumps(events)


def test_a_folder_and_a_topic_and_what_does_not_fit(houses: Served) -> None:
    with houses.client() as http:
        *_, (_, start), (_, summary) = told(http, patterns=["houses"])
        assert [entry["source"] for entry in start["documents"]] == ["fern.txt", "palm.txt"]
        assert all(len(entry["sections"]) == 1 for entry in start["documents"])
        assert summary["final"]
        *_, (kind, error) = told(http, patterns=["houses"], first_page=2)
        assert kind == "error"
        assert "--pages" in error["message"]
        *_, (kind, error) = told(http, patterns=["/etc/*"])
        assert kind == "error"
        assert http.post("/api/summaries", json={"first_page": "x"}).status_code == 400


def test_assistants_get_quotations_and_what_is_not_covered(houses: Served) -> None:
    async def work() -> None:
        async with connected(houses) as (client, _):
            text, data = await call(client, "summarise", documents=["palm.txt"])
            (document,) = data["documents"]
            (section,) = document["sections"]
            assert section["state"] == "written"
            assert section["text"].startswith(SENTENCES[0].rstrip("."))
            assert section["citations"][0]["quote"] == SENTENCES[0]
            assert "/view#" in section["citations"][0]["link"]
            assert "Sentences were chosen from 1 of 1 passage." in text
            assert data["final"] is True
            _, several = await call(client, "summarise", documents=["houses"])
            assert [entry["file"] for entry in several["documents"]] == ["fern.txt", "palm.txt"]

    anyio.run(work)


@pytest.mark.usefixtures("houses")
def test_the_page_shows_a_summary_and_opens_its_places(opened: Open) -> None:
    page = (at := opened()).page
    page.get_by_role("button", name="Summary", exact=True).click()
    summary = page.get_by_role("region", name="Summary")
    summary.get_by_label("File name contains").fill("palm")
    expect(summary.get_by_text("1 of 4 documents")).to_be_visible()
    summary.get_by_role("button", name="Sum up").click()
    expect(summary.get_by_text("Sentences were chosen from 1 of 1 passage.")).to_be_visible()
    marker = summary.get_by_role("button", name="1", exact=True)
    marker.click()
    expect(page.locator(".viewer")).to_contain_text(SENTENCES[0])
    at.is_accessible()
    page.get_by_role("button", name="中文").click()
    expect(page.get_by_role("region", name="摘要")).to_be_visible()
