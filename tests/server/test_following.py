"""A server sees what other processes do to its libraries, and forgets what they remove."""

from __future__ import annotations

import errno
import json
import re
import shutil
import sqlite3
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest
from library.library_fixtures import (
    EMBEDDER,
    add,
    bytes_on_disk,
    document,
    found,
    open_library,
)
from server.conftest import LONG, LONG_PAUSE, TEA, Served
from server.live_server import Machine, Serving
from server.test_own import events
from waiting import until

from localrag import factory
from localrag.config.settings import Settings
from localrag.egress.databases import read_url
from localrag.engine import Engine
from localrag.library.library import Library
from localrag.server import following
from localrag.server.libraries import Libraries

QUESTION = "When was the glass house opened?"
MARKER = "Zyqxmarker"
SECRET = "\n\n".join(
    f"The {MARKER} glass house {number} was opened in {1900 + number}, by {MARKER} the {number}th."
    for number in range(20)
)


def of_another_process(served: Served) -> Library:
    """The same library, as another process opens it."""
    settings = Settings()
    return open_library(
        served.engine.library.directory,
        create=False,
        tokenize=factory.make_tokenizer(settings),
        embedding=factory.identity_of(EMBEDDER, settings),
    )


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "LOOK", 0.05)
    monkeypatch.setattr(following, "GRACE", 0.3)


def sources(served: Served, question: str) -> list[str]:
    with served.client() as http:
        reply = http.post("/api/search", json={"question": question}).json()
    return [passage["source"] for passage in reply["passages"]]


def test_the_next_search_finds_what_another_process_has_added(served: Served) -> None:
    assert "mill.txt" not in sources(served, "Who built the water mill?")
    with of_another_process(served) as other:
        add(other, document("The water mill was built by monks.", source="mill.txt"), size=200)
        assert sources(served, "Who built the water mill?")[0] == "mill.txt"
        other.remove(sources=["mill.txt"])
        assert "mill.txt" not in sources(served, "Who built the water mill?")


def test_an_answer_that_has_read_what_was_removed_is_ended(quick: None, served: Served) -> None:
    served.llm.pieces, served.llm.pause = LONG, LONG_PAUSE
    parts: list[tuple[str, dict[str, object]]] = []

    def ask() -> None:
        with served.client() as http:
            parts.extend(events(http))

    asking = threading.Thread(target=ask)
    asking.start()
    until(lambda: any(answer.chunks for answer in [*served.engine._reading]))
    with of_another_process(served) as other:
        other.remove(sources=["garden.txt"])
    asking.join()
    assert sum(kind == "text" for kind, _ in parts) < len(LONG) / 2
    kind, data = parts[-1]
    assert kind == "error"
    assert "removed meanwhile" in str(data["message"])
    assert not served.engine._reading


def test_an_answer_from_other_documents_goes_on(quick: None, served: Served) -> None:
    with of_another_process(served) as other:
        add(other, document("The water mill was built by monks.", source="mill.txt"), size=200)
        served.llm.pieces, served.llm.pause = ["It was opened ", *["."] * 30, " [1]."], 0.05
        with served.client() as http:
            parts = events(http, k=1)
            assert any(kind == "passages" for kind, _ in parts)
            other.remove(sources=["mill.txt"])
            assert [kind for kind, _ in parts][-1] == "answer"


def test_a_model_forgets_once_something_is_removed(
    quick: None, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources(served, QUESTION)
    forgotten: list[bool] = []
    monkeypatch.setattr(served.engine, "forget", lambda: forgotten.append(True))
    with of_another_process(served) as other:
        add(other, document("The water mill was built by monks.", source="mill.txt"), size=200)
        time.sleep(0.5)
        assert not forgotten, "nothing was removed"
        other.remove(sources=["garden.txt"])
        until(lambda: forgotten)


def test_what_was_removed_before_the_first_look_is_forgotten(
    postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def on_node(name: str) -> None:
        monkeypatch.setattr("platformdirs.user_cache_path", lambda *_, **__: tmp_path / name)

    place = read_url(f"{postgres}#{tmp_path.name}")
    on_node("one")
    with open_library(place) as writer:
        add(writer, document("The glass house was opened.", source="garden.txt"))
        add(writer, document(f"The {MARKER} house was opened.", source="secret.txt"))
        on_node("two")
        reader = open_library(place, create=False)
        found(reader, "house")
        assert MARKER.lower().encode() in bytes_on_disk(reader.directory).lower()
        libraries = Libraries([place], lambda _: Engine(reader, Settings(), embedder=EMBEDDER))
        libraries.begin()
        on_node("one")
        writer.remove(sources=["secret.txt"])
    on_node("two")
    following.Follower(libraries).look_around()
    assert MARKER.lower().encode() not in bytes_on_disk(reader.directory).lower()
    libraries.close()


def test_a_look_that_fails_is_not_the_last(
    quick: None, served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Another process may write to the folder of the states while they are deleted, say."""
    sources(served, QUESTION)
    failure, forgotten, forget = threading.Event(), threading.Event(), served.engine.library.forget

    def failing() -> None:
        if not failure.is_set():
            failure.set()
            raise OSError(errno.ENOTEMPTY, "Directory not empty", "kv")
        forget()

    monkeypatch.setattr(served.engine.library, "forget", failing)
    monkeypatch.setattr(served.engine, "forget", forgotten.set)
    with of_another_process(served) as other:
        other.remove(sources=["garden.txt"])
    assert failure.wait(60)
    assert forgotten.wait(60)
    assert "Directory not empty" in caplog.text


def test_a_library_that_cannot_be_looked_at_keeps_no_other_waiting() -> None:
    class Broken:
        @property
        def is_there(self) -> bool:
            raise OSError("no such device")

    class Two:
        dropped: ClassVar[list[str]] = []

        def opened(self) -> dict[str, object]:
            backend = SimpleNamespace(leave_cache=lambda: True)
            dead_engine = SimpleNamespace(is_there=False, backend=backend)
            return {
                "broken": SimpleNamespace(library=Broken()),
                "gone": SimpleNamespace(library=dead_engine),
            }

        def forget(self, name: str) -> None:
            pass

        def drop(self, name: str) -> None:
            self.dropped.append(name)

    following.Follower(Two()).look_around()  # type: ignore[arg-type]
    assert Two.dropped == ["gone"]


def test_a_purge_that_was_cut_off_is_finished(
    quick: None, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "PATIENCE", 0.2)
    sources(served, QUESTION)
    with of_another_process(served) as other:
        monkeypatch.setattr(other, "purge", lambda: False)
        assert not other.remove(sources=["garden.txt"]).purged
    until(lambda: not served.engine.library.removals().due)


@pytest.mark.skipif(sys.platform == "win32", reason="only on POSIX: nobody deletes an open file")
def test_a_library_that_is_deleted_is_let_go(quick: None, served: Served) -> None:
    directory = served.engine.library.directory
    assert sources(served, QUESTION)[0] == "garden.txt"
    shutil.rmtree(directory)
    until(lambda: not served.engine.library._catalogue._idle)


def holds(process: int, *secrets: bytes) -> bool:
    """Whether one stands in the memory of a process, or in the files that it has mapped."""
    with (
        Path(f"/proc/{process}/maps").open(encoding="utf-8") as maps,
        Path(f"/proc/{process}/mem").open("rb", buffering=0) as memory,
    ):
        for line in maps:
            span, mode, _, _, _, *name = line.split(maxsplit=5)
            relevance = not name or not name[0].startswith("/") or "library" in name[0]
            if "r" not in mode or not relevance or name[:1] == ["[vvar]\n"]:
                continue
            start, end = (int(number, 16) for number in span.split("-"))
            try:
                memory.seek(start)
                content = memory.read(end - start)
            except (OSError, ValueError):  # of the kernel, or gone meanwhile
                continue
            if any(secret in content or secret.lower() in content for secret in secrets):
                return True
    return False


def on_disk(library: Path) -> list[str]:
    return [
        str(path.relative_to(library))
        for path in library.rglob("*")
        if path.is_file() and MARKER.lower().encode() in path.read_bytes().lower()
    ]


def use(server: Serving) -> None:
    """Ask all that brings text of documents into the server."""
    with server.client() as http:
        for question in (QUESTION, f"Who is {MARKER}?", "tea"):
            http.post("/api/search", json={"question": question}).raise_for_status()
        for mode in ("standard", "self-rag"):
            reply = http.post("/api/ask", json={"question": QUESTION, "mode": mode})
            assert MARKER in reply.text
            views = re.findall(r'"views": (\{.*?\}\})', reply.text)
            for view in (json.loads(views[-1]) if views else {}).values():
                assert MARKER in http.get("/api/view", params=view).text
        chat = {"messages": [{"role": "user", "content": QUESTION}]}
        assert MARKER in http.post("/v1/chat/completions", json=chat).text
        http.get("/api/documents").raise_for_status()


@pytest.mark.skipif(sys.platform != "linux", reason="only on Linux: memory of another process")
def test_what_is_removed_is_gone_from_files_and_memory(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    documents = tmp_path / "documents"
    documents.mkdir()
    (documents / "secret.md").write_text(SECRET, encoding="utf-8")
    (documents / "tea.md").write_text(TEA, encoding="utf-8")
    machine.run("add", str(documents))
    assert on_disk(machine.library)
    with closing(sqlite3.connect(machine.library / "catalogue.sqlite")) as catalogue:
        ((vector,),) = catalogue.execute(
            "SELECT vector FROM embeddings JOIN chunks ON chunk = number JOIN sources "
            "USING (document) WHERE path LIKE '%secret.md' ORDER BY chunk LIMIT 1"
        )
    with machine.serving() as server:
        use(server)
        assert holds(server.process.pid, MARKER.encode())
        assert holds(server.process.pid, vector), "those of a small library are kept"
        removal = json.loads(machine.run("remove", str(documents / "secret.md"), "--json"))
        assert removal["purged"]
        assert not on_disk(machine.library)
        until(lambda: not holds(server.process.pid, MARKER.encode(), vector))
        with server.client() as http:
            passages = http.post("/api/search", json={"question": "茶园"}).json()["passages"]
        assert {Path(passage["source"]).name for passage in passages} == {"tea.md"}
