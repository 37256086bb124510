"""A server reads ahead while nobody asks, and lets go as soon as somebody does."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from library.library_fixtures import EMBEDDER, add, document, open_library
from test_reading_ahead import KeepingModel, model_of, no_examples, states

from localrag import factory
from localrag.ahead import IdleReader
from localrag.config.settings import Settings
from localrag.engine import Engine
from localrag.server import ahead
from localrag.server.ahead import IDLE, ReadingAhead
from localrag.server.libraries import Libraries
from localrag.server.queue import ModelQueue, Turns

__all__ = ["no_examples"]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    settings = Settings()
    library = open_library(
        tmp_path / "library",
        tokenize=factory.make_tokenizer(settings),
        embedding=factory.identity_of(EMBEDDER, settings),
    )
    for name in ("one", "two", "three"):
        add(library, document(f"The passage of {name}.", source=f"/a/{name}.txt"))
    with library:
        yield Engine(library, settings, embedder=EMBEDDER)


@pytest.fixture
def llm(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> KeepingModel:
    llm = KeepingModel(engine.library)
    monkeypatch.setattr(factory, "make_model", lambda *_: model_of(llm))
    return llm


class Server:
    """What reads ahead over one library, with a clock that is set."""

    def __init__(self, engine: Engine) -> None:
        libraries = Libraries([engine.library.directory], lambda _: engine)
        libraries.begin()
        self.now = 0.0
        self.queue = ModelQueue()
        reader = IdleReader(self.queue.came, battery=lambda: False)
        self.ahead = ReadingAhead(libraries, self.queue, reader, clock=lambda: self.now)

    def look(self, after: float) -> None:
        self.now += after
        self.ahead.look_around()

    def take(self, turns: Turns) -> None:
        """Somebody is served, and it looks meanwhile."""

        async def serve() -> None:
            async with turns.turn():
                self.look(10 * IDLE)

        anyio.run(serve)


@pytest.fixture
def server(engine: Engine) -> Server:
    engine.settings = Settings(ahead=engine.settings.ahead.__class__(share=1.0))
    return Server(engine)


@pytest.mark.parametrize("line", ["model", "processors"])
def test_it_waits_until_nobody_has_been_served_for_a_while(
    server: Server, llm: KeepingModel, line: str
) -> None:
    server.look(IDLE - 1)
    assert not llm.read
    server.take(server.queue if line == "model" else server.queue.processors)
    assert not llm.read, "somebody is served"
    server.look(1)
    server.look(IDLE - 2)
    assert not llm.read, "somebody was"
    server.look(2)
    assert len(llm.read) == 3


def test_who_comes_while_a_section_is_read_does_not_wait_for_it(
    server: Server, llm: KeepingModel, engine: Engine
) -> None:
    llm.let_go.clear()
    reading = threading.Thread(target=server.look, args=(IDLE,))
    reading.start()
    assert llm.reached.wait(20)

    async def come() -> None:
        async with server.queue.turn():
            await anyio.to_thread.run_sync(reading.join, 20)

    anyio.run(come)
    assert not reading.is_alive()
    assert (llm.read, states(engine)) == ([], [])
    llm.let_go.set()
    server.look(1)
    server.look(IDLE)
    assert len(llm.read) == len(states(engine)) == 3, "it goes on where it was"


def test_a_server_that_ends_does_not_wait_for_it(
    engine: Engine, llm: KeepingModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ahead, "LOOK", 0.01)
    monkeypatch.setattr(ahead, "IDLE", 0.0)
    llm.let_go.clear()
    server = Server(engine)
    with server.ahead:
        assert llm.reached.wait(20)
    assert not server.ahead._thread.is_alive()
    assert states(engine) == []


def test_only_libraries_in_use_are_read_ahead(tmp_path: Path) -> None:
    settings = Settings()
    engines: dict[Path, Engine] = {}

    def opened(place: Any) -> Engine:
        library = open_library(
            place,
            tokenize=factory.make_tokenizer(settings),
            embedding=factory.identity_of(EMBEDDER, settings),
        )
        return engines.setdefault(place, Engine(library, settings, embedder=EMBEDDER))

    libraries = Libraries([tmp_path / "default", tmp_path / "other"], opened)
    libraries.begin()
    assert libraries.in_use() == [engines[tmp_path / "default"]]
    other = engines[tmp_path / "other"]
    other._model = model_of(KeepingModel(other.library))
    assert libraries.in_use() == [other]
    libraries.close()
