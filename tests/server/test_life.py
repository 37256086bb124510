"""How a server ends, and what is there when it starts again: with real processes."""

from __future__ import annotations

import hashlib
import json
import random
import signal
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest
from httpx_sse import connect_sse
from server.live_server import Machine, Serving
from waiting import until

from localrag.library.folder.gate import UPLOADS

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="only on POSIX: signals")

GARDEN = "The glass house was opened in 1907. It has two hundred orchids."


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    folder = tmp_path_factory.mktemp("machine")
    file = folder / "garden.txt"
    file.write_text(GARDEN, encoding="utf-8")
    new_machine = Machine(folder)
    new_machine.run("add", str(file))
    return new_machine


def answered(server: Serving, words: int, events: list[str]) -> threading.Thread:
    """Somebody to whom an answer of so many words is being written, ten a second."""
    writes = threading.Event()
    body = {"question": f"When was the glass house opened? words: {words} "}

    def ask() -> None:
        try:
            with server.client() as http, connect_sse(http, "POST", "/api/ask", json=body) as sse:
                for event in sse.iter_sse():
                    events.append(event.event)
                    if event.event == "text":
                        writes.set()
        except httpx.TransportError:
            events.append("cut off")
        writes.set()

    asking = threading.Thread(target=ask)
    asking.start()
    assert writes.wait(60)
    return asking


@pytest.mark.parametrize(("words", "last"), [(20, "answer"), (1000, "cut off")])
def test_what_is_told_to_end_lets_short_answers_be_finished(
    machine: Machine, words: int, last: str
) -> None:
    events: list[str] = []
    with machine.serving() as server:
        asking = answered(server, words, events)
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(60)  # of the 100 that a thousand words take
        asking.join()
    assert events[-1] == last
    assert events.count("text") > 10


def sending(server: Serving, number: int, reported: dict[str, str], ended: threading.Event) -> None:
    """Send files until the server is gone, and note those that are said to be added."""
    with server.client() as http:
        for count in range(1000):
            data = f"The number of this file is {number} and {count}. {random.random()}".encode()
            name = f"{server.port} {number} {count}.txt"
            try:
                response = http.post(
                    "/api/documents",
                    params={"name": name},
                    content=data * (1 if count % 3 else 30),
                    headers={"content-type": "application/octet-stream"},
                )
            except httpx.TransportError:
                break
            events = [line[6:] for line in response.text.splitlines() if line.startswith("data: {")]
            if events and json.loads(events[-1]).get("failed") is False:
                reported[name] = hashlib.sha256(data * (1 if count % 3 else 30)).hexdigest()
            if ended.is_set():
                break


def test_an_end_amid_uploads_loses_nothing_that_was_reported(machine: Machine) -> None:
    hashes: dict[str, str] = {}
    for how in (signal.SIGTERM, signal.SIGKILL):
        with machine.serving() as server:
            end = threading.Event()
            senders = [
                threading.Thread(target=sending, args=(server, number, hashes, end))
                for number in range(3)
            ]
            for sender in senders:
                sender.start()
            before = len(hashes)
            until(lambda: len(hashes) >= before + 3)  # noqa: B023
            time.sleep(random.uniform(0.0, 0.3))
            server.process.send_signal(how)
            server.process.wait(60)
            end.set()
            for sender in senders:
                sender.join()
    with machine.serving() as server, server.client() as http:
        listing = http.get("/api/documents").json()["documents"]
        last = http.post(
            "/api/documents",
            params={"name": "last.txt"},
            content=b"The last of all.",
            headers={"content-type": "application/octet-stream"},
        )
        assert '"failed": false' in last.text
        record = http.post("/api/search", json={"question": "The number of this file"}).json()
    ids = {
        Path(source).name: document["id"] for document in listing for source in document["sources"]
    }
    assert hashes.items() <= ids.items()
    assert record["passages"]
    files = {path.name for path in (machine.library / UPLOADS).iterdir()}
    assert files - {"last.txt"} == ids.keys() - {"garden.txt"}, "what was half sent is swept"
