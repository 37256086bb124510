"""Clients that do not read: they hold up nobody else, and not for ever what waits for them."""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import httpx
import pytest
from mcp.server.session import ServerSession
from server.conftest import GREETING, TOKEN, Served
from waiting import until

from localrag.server import listening
from localrag.server.access import Access
from localrag.server.app import make_app
from localrag.server.jobs import streamed
from localrag.server.libraries import Libraries
from localrag.server.listening import bind, in_thread

QUESTION = "When was the glass house opened?"
MANY = ["a "] * 3000
"""Their events are more than a small socket takes, with all that is buffered on the way."""


@pytest.fixture
def narrow(served: Served, tmp_path: Path) -> Iterator[int]:
    """The port of a server whose connections take little that is not read."""
    listener = bind("127.0.0.1", 0)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    port = listener.getsockname()[1]
    libraries = Libraries([tmp_path / "garden"], lambda _: served.engine)
    with in_thread(make_app(libraries, Access(TOKEN, port)), listener):
        yield port


@contextmanager
def unread(port: int, path: str, **fields: object) -> Iterator[socket.socket]:
    """A request whose answer nobody reads."""
    body = json.dumps(fields)
    with socket.socket() as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        raw.settimeout(60)
        raw.connect(("127.0.0.1", port))
        raw.sendall(
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {TOKEN}\r\n"
            "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
        )
        yield raw


def answered(port: int) -> str:
    """The events of somebody who reads, in a time in which nobody else's answer is waited for."""
    http = httpx.Client(headers={"authorization": f"Bearer {TOKEN}"}, timeout=60, trust_env=False)
    url, before, events = f"http://127.0.0.1:{port}/api/ask", time.monotonic() + 60, ""
    with http, http.stream("POST", url, json={"question": QUESTION}) as response:
        for piece in response.iter_text():
            events += piece
            assert time.monotonic() < before, events
    return events


def test_work_does_not_wait_for_who_does_not_read() -> None:
    async def check() -> list[int]:
        signal = anyio.Event()

        async def produce(send: Callable[[int], object]) -> None:
            for number in range(10_000):
                await send(number)  # type: ignore[misc]
            signal.set()

        events = streamed(produce, lambda _: ())
        first = await anext(events)
        with anyio.fail_after(60):
            await signal.wait()
        return [first, *[event async for event in events]]

    assert anyio.run(check) == list(range(10_000))


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/api/ask", {"question": QUESTION}),
        (
            "/v1/chat/completions",
            {"model": "localrag", "stream": True, "messages": [{"role": "user", "content": "x"}]},
        ),
        ("/v1/responses", {"model": "localrag", "stream": True, "input": "x"}),
    ],
)
def test_an_answer_that_nobody_reads_frees_the_model(
    served: Served,
    narrow: int,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    asked: dict[str, object],
) -> None:
    monkeypatch.setattr(listening, "SLOWEST_HEAD", 600.0)  # which would free it, too
    served.llm.pieces, served.llm.pause = MANY, 0
    writes = served.llm.writes = threading.Event()
    with unread(narrow, path, **asked):
        assert writes.wait(60)
        served.llm.pieces = ("It was opened in 1907 [1].",)
        assert "event: answer" in answered(narrow)


def test_a_tool_whose_progress_nobody_reads_frees_the_model(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = []

    async def never_sent(*_: object, **__: object) -> None:
        stuck.append(True)
        await anyio.sleep_forever()

    monkeypatch.setattr(ServerSession, "report_progress", never_sent)
    params = {
        "name": "ask",
        "arguments": {"question": QUESTION},
        "_meta": {"progressToken": 1},
    }
    with served.client(accept="application/json, text/event-stream") as http:
        greeting = http.post(
            "/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": GREETING}
        )
        http.headers["mcp-session-id"] = greeting.headers["mcp-session-id"]
        http.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"})
        body = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
        with http.stream("POST", "/mcp", json=body):
            until(lambda: stuck)
            assert "event: answer" in answered(served.port)


def test_who_reads_nothing_of_an_answer_is_cut_off(
    served: Served, narrow: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "SLOWEST_HEAD", 0.5)
    cut, lost = threading.Event(), listening._Protocol.connection_lost

    def hear(protocol: listening._Protocol, error: Exception | None) -> None:
        lost(protocol, error)
        cut.set()

    monkeypatch.setattr(listening._Protocol, "connection_lost", hear)
    served.llm.pieces, served.llm.pause = MANY, 0
    with unread(narrow, "/api/ask", question=QUESTION) as raw:
        assert cut.wait(60)
        data = b""
        try:
            while piece := raw.recv(1 << 16):
                data += piece
        except ConnectionResetError:
            pass
        assert b"event: answer" not in data


def test_who_reads_slowly_is_not_cut_off(
    served: Served, narrow: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reader and server take turns, so that no pause of this machine counts as one of theirs."""
    give_up, looks, sizes = listening._Protocol._give_up, list[bool](), list[int]()
    protocols: list[listening._Protocol] = []

    def look(protocol: listening._Protocol) -> None:
        size = protocol.transport.get_write_buffer_size()
        less = 0 < size < min(sizes, default=sys.maxsize)
        if less:
            sizes.append(size)
            give_up(protocol)
        else:  # what was read lay elsewhere on the way
            protocol._wait()
        protocols.append(protocol)
        looks.append(less)

    monkeypatch.setattr(listening, "SLOWEST_HEAD", 0.02)
    monkeypatch.setattr(listening._Protocol, "_give_up", look)
    served.llm.pieces, served.llm.pause = MANY, 0
    with unread(narrow, "/api/ask", question=QUESTION) as raw:
        until(lambda: looks)
        data = b""
        while b"event: answer" not in data:
            before = len(looks)
            data += (piece := raw.recv(4096))
            assert piece, "it was cut off"
            until(lambda: len(looks) > before or not protocols[-1].flow.write_paused)  # noqa: B023
    assert looks.count(True) > 2


def test_what_an_answer_may_read_has_a_bound(served: Served) -> None:
    with served.client(**{"accept-language": "zh"}) as http:
        for k in (0, 101, 10**30):
            response = http.post("/api/ask", json={"question": QUESTION, "k": k})
            assert response.status_code == 400
            assert "$.k" in response.json()["error"]["message"]
        assert "event: answer" in http.post("/api/ask", json={"question": "?x", "k": 100}).text
