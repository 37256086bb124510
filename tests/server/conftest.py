"""A server on a free port, over an engine with a scripted language model."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from httpx_sse import connect_sse
from library.library_fixtures import EMBEDDER, add, document, open_library
from numpy.typing import NDArray
from scripted_llm import ScriptedLLM, asks_for_parts, asks_for_wordings
from server.in_browser import TOKEN, browser, opened
from waiting import until

from localrag import factory
from localrag.config.settings import Settings
from localrag.engine import Engine
from localrag.errors import StoppedError
from localrag.models.llms.base import Completion, Options
from localrag.server.access import Access
from localrag.server.app import make_app
from localrag.server.libraries import Libraries
from localrag.server.listening import bind, in_thread
from localrag.server.requests import Tell
from localrag.types import Message

__all__ = ["TOKEN", "browser", "opened"]
GARDEN = "The glass house was opened in 1907. It has two hundred orchids."
GREETING = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "t", "version": "1"},
}
"""With which clients of an older Model Context Protocol begin a session."""
TEA = "云溪茶园在三月采摘春茶。茶园有四个山坡。"


class Writing(ScriptedLLM):
    """Says yes to whatever it is asked to choose, and writes slowly while it is let.

    No to a question that has the word `denied` in it, and no support for an answer that has
    the word `unsupported`. It proposes `parts` for whatever question. With `held`, nothing is
    written before that is set. Sets `writes` once it writes.
    """

    pieces: Sequence[str] = ("It was opened ", "in 1907 [1].")
    pause = 0.001
    denied = ""
    unsupported = ""
    parts: Sequence[str] = ()
    held: threading.Event | None = None
    writes: threading.Event | None = None
    stopped: threading.Event | None = None

    def for_call(self, stopped: threading.Event | None) -> Writing:
        """The same one, which ends once `stopped` is set."""
        clone = copy(self)
        clone.stopped = stopped
        return clone

    def score_choices(
        self, messages: Sequence[Message], choices: Sequence[str], *, keep: int = 0
    ) -> NDArray[np.float64]:
        weights = np.full(len(choices), 0.01)
        prompt = messages[-1].content
        denies = self.denied and self.denied in prompt and len(choices) == 2
        denies = denies or (self.unsupported and self.unsupported in prompt and len(choices) == 3)
        weights[-1 if choices[0] == "1" or denies else 0] = 1.0
        return weights / weights.sum()

    def complete(self, messages: Sequence[Message], options: Options) -> Completion:
        if asks_for_parts(messages):
            return Completion(json.dumps({"questions": [*self.parts]}), 0, 0, "stop")
        if asks_for_wordings(messages):
            return Completion("{}", 0, 0, "stop")
        return super().complete(messages, options)

    def stream(self, messages: Sequence[Message], options: Options) -> Iterator[str]:
        if self.held and not self.held.wait(60):
            raise TimeoutError("What is held was never let go.")
        for piece in self.pieces:
            if self.writes:
                self.writes.set()
            time.sleep(self.pause)
            if self.stopped and self.stopped.is_set():
                raise StoppedError("Nobody listens any more.")
            yield piece


LONG: Sequence[str] = [f"word{number} " for number in range(4000)]
"""With a `LONG_PAUSE` before each, longer than any test waits."""
LONG_PAUSE = 0.05


def expect_line(http: httpx.Client, *, waiting: int, answering: int | None = None) -> None:
    """Wait until so many wait for the language model, and are answered by it."""
    lines = {f"localrag_waiting {waiting}.0"}
    if answering is not None:
        lines.add(f"localrag_answering {answering}.0")
    until(lambda: lines <= set(http.get("/metrics").text.splitlines()))


def streamed_events(http: httpx.Client, path: str, **request: Any) -> Iterator[tuple[str, Any]]:
    """Name and data of each event with which a POST is answered, as they come."""
    with connect_sse(http, "POST", path, **request) as source:
        if source.response.is_error:
            source.response.read()
        source.response.raise_for_status()
        for event in source.iter_sse():
            yield event.event, json.loads(event.data)


@dataclass
class Served:
    """A running server, and what it works with."""

    port: int
    engine: Engine
    llm: Writing

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def client(self, **headers: str) -> httpx.Client:
        """A client that brings the token."""
        fields = {"authorization": f"Bearer {TOKEN}", **headers}
        return httpx.Client(base_url=self.url, headers=fields, timeout=60, trust_env=False)


def _for_call(llm: Writing, stopped: threading.Event | None) -> factory.Model:
    view = llm.for_call(stopped)
    return factory.Model(view, view, lambda: None)


@contextmanager
def running(libraries: Libraries, tell: Tell = lambda _: None) -> Iterator[int]:
    """A server over these libraries; its port. `tell` gets a line a request."""
    listening = bind("127.0.0.1", 0)
    port = listening.getsockname()[1]
    with in_thread(make_app(libraries, Access(TOKEN, port), tell=tell), listening):
        yield port


@contextmanager
def serving(folder: Path, llm: Writing, tell: Tell = lambda _: None) -> Iterator[Served]:
    """A server of a library of two documents, with that model wherever one is asked for."""
    make_model = factory.make_model
    model = factory.Model(llm, llm, lambda: None, None, lambda stopped, _: _for_call(llm, stopped))
    factory.make_model = lambda *_: model
    try:
        settings = Settings()
        identity = factory.identity_of(EMBEDDER, settings)
        library = open_library(
            folder, tokenize=factory.make_tokenizer(settings), embedding=identity
        )
        add(library, document(GARDEN, source="garden.txt"), size=200)
        add(library, document(TEA, source="tea.txt"), size=200, language="zh")
        engine = Engine(library, settings, embedder=EMBEDDER)
        with running(Libraries([folder], lambda _: engine), tell) as port:
            yield Served(port, engine, llm)
    finally:
        factory.make_model = make_model


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path / "garden", Writing()) as server:
        yield server
