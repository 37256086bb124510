"""What a request can have computed: bounded on every route, in turns, and ended with its client."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest
from documents.test_linear_time import assert_linear
from fakes import HashEmbedder
from library.library_fixtures import EMBEDDER
from server.conftest import Served, Writing
from server.sharing import Kept, shared
from server.test_mcp_http import connected, failure
from server.test_people import DOCUMENT, QUESTION, SENT, declared, folders
from waiting import until

from localrag import rag, retrieval, server, tables, text
from localrag.engine import Engine
from localrag.models.embeddings.base import Vectors
from localrag.server import embedding
from localrag.server.asker import own_name
from localrag.server.bounds import LONGEST_QUESTION, MOST_TOKENS
from localrag.server.queue import FullError, ModelQueue, Turns

LONG = "glass house " * (LONGEST_QUESTION // 12 + 1)
TURN = {"question": LONG, "answer": LONG * 30}
MESSAGES = [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": LONG * 30}]
TOO_MUCH: dict[tuple[str, str], list[dict[str, Any]]] = {
    ("POST", "/api/search"): [{"question": LONG}],
    ("POST", "/api/ask"): [{"question": LONG}, {"question": QUESTION, "history": [TURN]}],
    ("POST", "/api/compare"): [
        {"question": LONG, "vary": "modes"},
        {"question": QUESTION, "vary": "modes", "reference": LONG},
    ],
    ("POST", "/api/tables"): [
        {"columns": [{"question": LONG}]},
        {"columns": [{"question": "x" * 2000}]},
        {"columns": [{"question": QUESTION}], "words": LONG},
        {"columns": [{"question": QUESTION}] * 51},
        {"columns": []},
    ],
    ("POST", "/api/tables/documents"): [{"words": LONG}, {"patterns": ["x"] * 101}],
    ("POST", "/api/summaries"): [
        {"about": LONG},
        {"patterns": ["x"] * 101},
        {"first_page": -1},
    ],
    ("POST", "/v1/chat/completions"): [
        {"messages": [{"role": "user", "content": LONG}]},
        {"messages": [*MESSAGES, MESSAGES[0]]},
    ],
    ("POST", "/v1/responses"): [{"input": LONG}, {"input": [*MESSAGES, MESSAGES[0]]}],
    ("POST", "/v1/embeddings"): [
        {"input": ["tea"] * 2049},
        {"input": ["tea " * 200] * (MOST_TOKENS // 200 + 8)},
    ],
    ("POST", "/v1/rerank"): [
        {"query": LONG, "documents": ["tea"]},
        {"query": "tea", "documents": ["tea"] * 2049},
        {"query": "tea", "documents": ["tea " * 200] * (MOST_TOKENS // 200 + 8)},
    ],
    ("POST", "/v1/vector_stores/{name}/search"): [{"query": LONG}, {"query": ["tea"] * 4000}],
}
"""Of each route that computes, requests that would have too much computed."""
ELSEWHERE = {
    ("POST", "/mcp"),  # tools, of which below
    ("POST", "/api/evaluate"),  # an owner's, in the line and giving way at every step
    ("POST", "/api/documents"),  # a file, read as `localrag add` does, one at a time
}
QUIET = declared() - set(TOO_MUCH) - ELSEWHERE


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was computed: every call of what costs more than a look into the catalogue."""
    calls: list[str] = []

    def watched(kind: type, name: str) -> None:
        real = getattr(kind, name)

        def call(*arguments: Any, **more: Any) -> Any:
            calls.append(name)
            return real(*arguments, **more)

        monkeypatch.setattr(kind, name, call)

    for name in ("embed_queries", "embed_documents"):
        watched(HashEmbedder, name)
    for name in ("stream", "complete", "score_choices"):
        watched(Writing, name)
    for name in ("search", "retrieve", "stream"):
        watched(Engine, name)
    return calls


@pytest.mark.parametrize("key", TOO_MUCH, ids=" ".join)
def test_too_much_is_refused_before_anything_is_computed(
    served: Served, computed: list[str], key: tuple[str, str]
) -> None:
    method, path = key
    for body in TOO_MUCH[key]:
        with served.client() as http:
            reply = http.request(method, path.replace("{name}", "default"), json=body)
        assert reply.status_code == 400, reply.text
        assert computed == []


@pytest.mark.parametrize("key", sorted(QUIET), ids=" ".join)
def test_no_other_route_computes(served: Served, computed: list[str], key: tuple[str, str]) -> None:
    """So that a route which comes to compute is found, and gets its bound above."""
    method, path = key
    request: dict[str, Any] = {"url": path, **SENT.get(key, lambda _: {})("garden")}
    if key == ("GET", "/mcp"):
        return  # waits for what a server says by itself
    for name in ("{conversation}", "{document}", "{name}", "{number}", "{name:path}"):
        request["url"] = request["url"].replace(name, "0" * 16)
    with served.client() as http, http.stream(method, **request) as reply:
        assert reply.status_code < 500
    assert computed == []


def test_tools_refuse_too_much_too(served: Served, computed: list[str]) -> None:
    calls: dict[str, list[dict[str, object]]] = {
        "search": [{"query": LONG}],
        "ask": [{"question": LONG}],
        "table": [
            {"columns": [LONG]},
            {"columns": [QUESTION], "words": LONG},
            {"columns": [QUESTION], "documents": [LONG]},
            {"columns": []},
        ],
        "summarise": [
            {"documents": [DOCUMENT], "about": LONG},
            {"documents": [LONG]},
            {"documents": []},
        ],
        "compute": [{"question": LONG}, {"question": QUESTION, "documents": [LONG]}],
        "get_page": [
            {"document": LONG},
            {"document": DOCUMENT, "question": LONG},
            {"document": DOCUMENT, "mark": LONG},
        ],
        "list_documents": [{"containing": LONG}],
        "status": [],
    }

    async def work() -> None:
        async with connected(served) as (client, _):
            assert {tool.name for tool in (await client.list_tools()).tools} == set(calls)
            for name, requests in calls.items():
                for arguments in requests:
                    message = await failure(client, name, **arguments)
                    assert "cannot be read" in message

    anyio.run(work)
    assert computed == []


SIGNS = (
    *" \t\n\u3000aA1,.-–([|“”#!，。一万年的",
    *("\n\n", " \n", "1,", "1 ", "1-", "[1", "[1, ", "a ", "a.", "A. ", "- ", "a@", "<a ", "http:"),
    *("of ", "one ", "hundred and ", "yes ", "what is ", "Mr. ", " /a", "postgres://"),
)


def compiled(value: object) -> Iterator[re.Pattern[str]]:
    """The patterns of a variable: itself, or those it holds."""
    if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
        yield value
    elif isinstance(value, tuple | list | dict):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from compiled(inner)


def searches() -> Iterator[Callable[[str], object]]:
    """What looks through texts of clients and answers: each pattern as its module uses it."""
    for room in (rag, retrieval, server, tables, text):
        for place in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
            module = importlib.import_module(place.name)
            source = inspect.getsource(module)
            for name, value in vars(module).items():
                methods = set(re.findall(rf"\b{name}\.(\w+)\(", source))
                for pattern in compiled(value):
                    if methods and methods <= {"match", "fullmatch"}:
                        yield from (getattr(pattern, method) for method in methods)
                    else:
                        yield partial(pattern.sub, "")


def test_no_pattern_takes_longer_than_a_text_is_long() -> None:
    """What holds up one request holds up all: Python does nothing else beside a match."""

    def work(search: Callable[[str], object], sign: str, length: int) -> Callable[[], object]:
        query = f"a{sign * (length // len(sign))}\0"
        return lambda: search(query)

    for search in set(searches()):
        for sign in SIGNS:
            start = time.thread_time()
            work(search, sign, 1500)()
            if time.thread_time() - start > 0.005:
                assert_linear(partial(work, search, sign), 6000)


class Slow(HashEmbedder):
    """Takes a moment for each text."""

    done = 0

    def embed_documents(self, texts: Sequence[str], progress: object = None) -> Vectors:
        for _ in texts:
            time.sleep(0.02)
            self.done += 1
        return np.ones((len(texts), self.dimension), np.float32)


def test_who_leaves_holds_up_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    users, slow, queue, leaving = Kept(), Slow(), ModelQueue(), 20
    monkeypatch.setattr("localrag.server.app.ModelQueue", lambda: queue)
    ada, eve = users.add("ada", garden="reader"), users.add("eve", tea="reader", garden="reader")
    body = json.dumps({"query": "tea", "documents": ["tea"] * 500, "model": "localrag/tea"})
    headers = {"authorization": f"Bearer {eve}", "content-type": "application/json"}
    with shared(folders(tmp_path), users) as node, node.client(ada) as http:
        assert http.post("/api/search", json={"question": QUESTION}).status_code == 200
        for engine in node.engines.values():
            engine._embedder = slow
        clients = [HTTPConnection("127.0.0.1", node.port) for _ in range(leaving)]
        for client in clients:
            client.request("POST", "/v1/rerank", body, headers)
        line = queue.processors
        until(lambda: line.serving + line.waiting == leaving and slow.done)
        garden = {"library": "garden"}
        assert http.get("/api/documents", params=garden).status_code == 200
        assert http.post("/api/search", json={"question": QUESTION}).status_code == 200
        assert slow.done < leaving * 500 / 2, "it waited for all of them"
        for client in clients:
            client.close()
        until(lambda: not line.serving)
        assert slow.done < leaving * 500, "nobody listens any more"


def test_turns_of_users_alternate_and_none_has_the_line_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = "eve"
    monkeypatch.setattr("localrag.server.queue.own_name", lambda: name)
    served: list[str] = []

    async def ask(turns: Turns, user: str, go: anyio.Event) -> None:
        async with turns.turn():
            served.append(user)
            await go.wait()

    async def work() -> None:
        nonlocal name
        turns, go = Turns(1, most_waiting=16), anyio.Event()
        async with anyio.create_task_group() as group:
            for name in ("eve", "eve", "eve", "eve", "ada", "ada", "ben"):
                group.start_soon(ask, turns, name, go)
                await anyio.wait_all_tasks_blocked()
            assert turns.waiting == 6
            go.set()
        assert served == ["eve", "ada", "ben", "eve", "ada", "eve", "eve"]
        async with anyio.create_task_group() as group:
            name, go = "eve", anyio.Event()
            for _ in range(5):
                group.start_soon(ask, turns, name, go)
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(FullError):
                turns.expect_room()
            name = "ada"
            turns.expect_room()
            go.set()

    anyio.run(work)


def test_in_a_server_of_one_user_the_line_is_theirs() -> None:
    async def work() -> None:
        turns = Turns(1, most_waiting=4)
        assert own_name() == ""

        go = anyio.Event()

        async def hold() -> None:
            async with turns.turn():
                await go.wait()

        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(hold)
            await anyio.wait_all_tasks_blocked()
            assert turns.waiting == 4
            with pytest.raises(FullError):
                turns.expect_room()
            go.set()

    anyio.run(work)


def test_texts_come_back_whole_whatever_the_batches(served: Served) -> None:
    texts = [f"tea {number}" for number in range(3 * embedding.BATCH + 1)]
    with served.client() as http:
        data = http.post("/v1/embeddings", json={"input": texts}).json()["data"]
        ranking = http.post("/v1/rerank", json={"query": "tea 7", "documents": texts}).json()
    vectors = np.array([item["embedding"] for item in data], np.float32)
    assert np.allclose(vectors, EMBEDDER.embed_queries(texts))
    assert len(ranking["results"]) == len(texts)
    assert ranking["results"][0]["document"]["text"] == "tea 7"


def test_long_work_that_gives_way_keeps_no_thread_from_others(served: Served) -> None:
    """More comparisons at once than there are threads for searches."""
    replies = []

    def compare() -> None:
        with served.client() as http:
            body = {"question": QUESTION, "vary": "modes"}
            replies.append(http.post("/api/compare", json=body, timeout=60).text)

    threads = [threading.Thread(target=compare) for _ in range(16)]
    for thread in threads:
        thread.start()
    with served.client() as http:
        assert http.post("/api/search", json={"question": QUESTION}).status_code == 200
    for thread in threads:
        thread.join()
    assert all("event: compared" in reply for reply in replies)
