"""The interface of the server's page: searches and answers as they come."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.client import HTTPConnection

import httpx
from fakes import ConstantMeter
from server.conftest import (
    GARDEN,
    LONG,
    LONG_PAUSE,
    TOKEN,
    Served,
    expect_line,
    streamed_events,
)

QUESTION = "When was the glass house opened?"


def events(http: httpx.Client, **fields: object) -> Iterator[tuple[str, dict[str, object]]]:
    body = {"question": QUESTION, **fields}
    return streamed_events(http, "/api/ask", json=body)


def test_passages_come_before_the_answer_and_texts_make_it(served: Served) -> None:
    with served.client() as http:
        parts = list(events(http))
    kinds = [kind for kind, _ in parts]
    assert kinds[:2] == ["loading", "passages"]
    assert kinds[-1] == "answer"
    passages = parts[1][1]["passages"]
    assert isinstance(passages, list)
    assert passages[0]["text"] == GARDEN
    answer = parts[-1][1]
    assert (
        "".join(str(data["text"]) for kind, data in parts if kind == "text").strip()
        == (answer["answer"])
    )
    views = answer["views"]
    assert isinstance(views, list)
    assert [(view["start"], view["end"]) for view in views] == [(0, 35)]


def test_the_passages_of_a_follow_up_come_before_its_answer_too(served: Served) -> None:
    served.llm.replies.append("Who opened the glass house?")
    turn = {"question": QUESTION, "answer": "In 1907."}
    with served.client() as http:
        parts = list(events(http, question="Who opened it?", history=[turn]))
    kinds = [kind for kind, _ in parts if kind != "step"]
    assert kinds[:2] == ["loading", "passages"]
    assert kinds[-1] == "answer"
    assert kinds.count("passages") == 1
    passages = next(data["passages"] for kind, data in parts if kind == "passages")
    assert isinstance(passages, list)
    assert passages[0]["text"] == GARDEN


def test_steps_are_said_in_the_reader_s_language(served: Served) -> None:
    with served.client(**{"accept-language": "zh-CN,zh;q=0.9,en;q=0.8"}) as http:
        steps = [data for kind, data in events(http) if kind == "step"]
    assert any(step["kind"] == "retrieve" and step["name"] == "检索" for step in steps)


def test_what_an_answer_costs_comes_in_numbers_before_it(served: Served) -> None:
    served.engine._model = replace(served.engine.model, view=None, meter=ConstantMeter())
    with served.client() as http:
        parts = list(events(http))
    kinds = [data.get("kind", kind) for kind, data in parts]
    assert kinds.index("cost") < kinds.index("relevance") < kinds.index("text")
    before, after = (data["values"] for _, data in parts if data.get("kind") == "cost")
    assert isinstance(before, dict)
    assert before["kept"] == 10.0  # of both passages
    assert 40.0 < before["least"] < before["least"] + 10.0 == before["most"]
    assert after == {"read": 3.0, "written": 1.0, "kept": 5.0}


def test_who_waits_is_told_where_in_the_line(served: Served) -> None:
    served.llm.held = threading.Event()

    def ask_first() -> None:
        with served.client() as http:
            list(events(http))

    first = threading.Thread(target=ask_first)
    with served.client() as http:
        first.start()
        expect_line(http, waiting=0, answering=1)
        parts = []
        for kind, data in events(http):
            parts.append((kind, data))
            if kind == "waiting" and not served.llm.held.is_set():
                assert http.post("/api/search", json={"question": "tea"}).status_code == 200
                served.llm.held.set()
    waiting = [record for kind, record in parts if kind == "waiting"]
    assert waiting[0]["position"] == 1
    assert parts[-1][0] == "answer"
    first.join()


def test_an_error_is_told_in_the_stream(served: Served) -> None:
    with served.client() as http:
        _, part = events(http, question=" ")
        assert part[0] == "error"
        assert "empty" in str(part[1]["message"])
        for body in ({"question": "x", "library": "nix"}, {"question": "x", "k": 0}):
            assert http.post("/api/search", json=body).status_code in (400, 404)
        assert http.post("/api/search", content="question=x").status_code == 400
        form = {"content-type": "application/x-www-form-urlencoded"}
        assert http.post("/api/search", content="question=x", headers=form).status_code == 400


def test_documents_are_listed_and_removed(served: Served) -> None:
    with served.client() as http:
        documents = http.get("/api/documents").json()["documents"]
        assert [document["sources"] for document in documents] == [["tea.txt"], ["garden.txt"]]
        reply = http.delete(f"/api/documents/{documents[0]['id']}").json()
        assert reply == {"removed": ["tea.txt"], "purged": True}
        assert http.get("/api/status").json()["libraries"][0]["documents"] == 1
        assert http.delete("/api/documents/nothing").status_code == 404


def test_the_line_has_an_end(served: Served) -> None:
    """Who waits for a whole answer and leaves, leaves the line."""
    served.llm.pieces, served.llm.pause = LONG, LONG_PAUSE
    body = {"messages": [{"role": "user", "content": QUESTION}]}
    with served.client() as http:
        connections = [_asking(served, path) for path in ["chat/completions", "responses"] * 16]
        first = _asking(served, "chat/completions")
        expect_line(http, waiting=32)
        response = http.post("/v1/chat/completions", json=body)
        assert response.status_code == 429
        assert int(response.headers["retry-after"]) > 0
        for stream in (first, *connections):
            stream.close()
        expect_line(http, waiting=0)
        served.llm.pieces = ("It was opened in 1907 [1].",)
        answer = http.post("/v1/chat/completions", json=body).json()
        assert answer["choices"][0]["message"]["content"] == "It was opened in 1907 [1]."


def _asking(served: Served, path: str) -> HTTPConnection:
    """Somebody who waits for an answer, and to whom none has come yet."""
    body: dict[str, object] = {"messages": [{"role": "user", "content": QUESTION}]}
    connection = HTTPConnection("127.0.0.1", served.port)
    if path == "responses":
        body = {"input": QUESTION}
    headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
    connection.request("POST", f"/v1/{path}", json.dumps(body), headers)
    return connection
