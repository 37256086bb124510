"""How often a question to a library in PostgreSQL waits for the server, and what that costs.

    python benchmarks/waits.py [--searches 200] [--delay 1]

300 text files of six passages, found by both legs with the tests' embedder, which takes no time;
one user of a database with users, and the same library in a database without any. A relay on this
machine counts the answers that are waited for, and holds each back for `--delay` milliseconds. Of
an `ask`, what comes before the language model counts. PostgreSQL is that of the tests.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from unittest.mock import Mock, patch

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from fakes import HashEmbedder
from postgres_server import running
from relay import Relay, relayed

from localrag import factory
from localrag.config.settings import Settings
from localrag.documents.chunking import WindowChunker, passage_text
from localrag.egress.databases import Database, read_url
from localrag.engine import AskOptions, Engine
from localrag.library.acting import acting_as
from localrag.library.backends.postgres.catalogue import PostgresCatalogue
from localrag.library.backends.postgres.users import Users
from localrag.library.catalogue.filters import Filter
from localrag.library.library import Library
from localrag.library.records import FileState, NewDocument
from localrag.types import Document, Page

EMBEDDER = HashEmbedder()
WORDS = [f"{a}{b}{c}" for a in ("mo", "ka", "ri", "tu") for b in "aeiou" for c in ("n", "lt", "s")]


class Enough(Exception):  # noqa: N818 - nothing is wrong
    """The passages of an answer are there."""


def documents() -> Iterator[NewDocument]:
    random = Random(7)
    for number in range(300):
        lines = (f"{' '.join(random.choices(WORDS, k=12))} {number} {n}." for n in range(12))
        text = "\n".join(lines)
        name = f"{number}.txt"
        one = Document(hashlib.sha256(text.encode()).hexdigest(), name, name, (Page(1, text),))
        chunks = WindowChunker(len(text) // 6 + 1, 0).chunk(one)
        vectors = EMBEDDER.embed_documents([passage_text(chunk) for chunk in chunks])
        state = FileState(f"/srv/{name}", len(text), 1, 2)
        yield NewDocument(one, [state], len(text), "en", "window", chunks, vectors)


def opened(place: Database, **how: bool) -> Library:
    settings = Settings()
    return Library.open(
        place,
        embedding=factory.identity_of(EMBEDDER, settings),
        indexes=factory.make_indexes(settings),
        **how,  # type: ignore[arg-type]
    )


def questions(count: int) -> list[str]:
    random = Random(11)
    return [" ".join(random.choices(WORDS, k=6)) for _ in range(count)]


def searched(engine: Engine, question: str) -> None:
    engine.search(question)


def filtered(engine: Engine, question: str) -> None:
    engine.search(question, AskOptions(filter=Filter(types=("text",))))


def asked(engine: Engine, question: str) -> None:
    """An answer, up to its passages."""

    def stop(_: object) -> None:
        raise Enough

    with suppress(Enough):
        list(engine.stream(question, AskOptions(on_found=stop, tables=False)))
        raise AssertionError(question)


KINDS = {
    "search": searched,
    "search with a filter": filtered,
    "ask, up to the passages": asked,
}


def measure(what: str, engine: Engine, relay: Relay, count: int) -> None:
    """Waits of the fewest and the most, and milliseconds of half of them, of 95 in 100."""
    waits, seconds = [], []
    for question in questions(count + 5):
        before, began = relay.waits, time.perf_counter()
        KINDS[what](engine, question)
        seconds.append(time.perf_counter() - began)
        waits.append(relay.waits - before)
    p50, p95 = 1000 * np.percentile(seconds[5:], (50, 95))
    few, many = min(waits[5:]), max(waits[5:])
    print(f"{what:38} {few:3}-{many:<3} waits {p50:8.1f} ms p50 {p95:8.1f} ms p95", flush=True)


def run(url: str, searches: int, delay: float) -> None:
    place = read_url(f"{url}#library")
    administrator = PostgresCatalogue(place)
    with closing(administrator), administrator.session() as session:
        for name in ("plain", "peopled"):
            session.execute(f"CREATE DATABASE {name}")
    for name in ("plain", "peopled"):
        there = replace(place, name=name)
        with opened(there, create=True) as library:
            library.add(list(documents()))
            library.sync()
        if name == "peopled":
            with closing(Users(there)) as users:
                users.add("ann")
                users.grant("ann", "library", "reader")
        for held_back in (0.0, delay):
            serving = name == "peopled"
            print(f"{name}, {1000 * held_back:g} ms")
            with relayed(str(there).partition("#")[0], delay=held_back) as (far, relay):
                library = opened(read_url(f"{far}#library"), create=False, serving=serving)
                engine = Engine(library, Settings(), embedder=EMBEDDER)
                with closing(engine), acting_as("ann") if serving else nullcontext():
                    for what in KINDS:
                        measure(what, engine, relay, searches)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--searches", type=int, default=200)
    parser.add_argument("--delay", type=float, default=1.0, help="milliseconds")
    arguments = parser.parse_args()
    with ExitStack() as held, tempfile.TemporaryDirectory() as folder:
        model = factory.Model(Mock(), Mock(), lambda: None)
        held.enter_context(patch("localrag.factory.make_model", lambda *_: model))
        server = held.enter_context(running(Path(folder)))
        run(server, arguments.searches, arguments.delay / 1000)
