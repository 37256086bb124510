"""A library in PostgreSQL beside one in a folder: made-up passages, seconds and processor time.

    python benchmarks/postgres.py 5000 'postgresql:///docs?host=/run/postgresql'

The processor time is that of this process, without the server's.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import numpy as np

from localrag.documents.chunking import WindowChunker
from localrag.factory import indexes_of
from localrag.library.derived import Indexes
from localrag.library.library import Library
from localrag.library.location import Location, location_of
from localrag.library.records import EmbeddingIdentity, FileState, NewDocument
from localrag.text.tokenize import Tokenizer
from localrag.types import Document, Page

IDENTITY = EmbeddingIdentity("made up", "made up", 512)
T = TypeVar("T")


def indexes() -> Indexes:
    return indexes_of(Tokenizer())


def documents(count: int, first: int = 0) -> Iterator[NewDocument]:
    """Five passages of 95 words by Zipf's law each."""
    random = np.random.default_rng(first)
    share = 1 / np.arange(1, 30_001)
    for number in range(first, first + count):
        text = " ".join(f"word{n}" for n in random.choice(30_000, 475, p=share / share.sum()))
        digest = hashlib.sha256(text.encode()).hexdigest()
        one = Document(digest, f"{number}.txt", str(number), (Page(1, text),))
        chunks = WindowChunker(len(text) // 5 + 1, 0).chunk(one)
        vectors = random.standard_normal((len(chunks), 512)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        state = FileState(f"/{number}.txt", len(text), 1, 2)
        yield NewDocument(one, [state], len(text), "en", "made up", chunks, vectors)


def timed(what: str, action: Callable[[], T]) -> T:
    wall, processor = time.perf_counter(), time.process_time()
    done = action()
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    print(f"{what:40}{wall:9.3f} s {processor:9.3f} s of processor", flush=True)
    return done


def measure(place: Location, prepared: list[NewDocument], more: NewDocument) -> None:
    def fill() -> None:
        for start in range(0, len(prepared), 100):
            library.add(prepared[start : start + 100])

    def search() -> int:
        dense = library.vectors.search(prepared[3].vectors[0], 10)
        words = library.keywords.search(["word100", "word2000", "word29000"], 10)
        return len(library.chunks([hit.chunk_id for hit in dense + words]))

    with Library.open(place, create=True, embedding=IDENTITY, indexes=indexes()) as library:
        timed("add", fill)
        timed("both indexes", library.sync)
        timed("search, 30 times", lambda: [search() for _ in range(30)])
        timed("add one document", lambda: (library.add([more]), library.sync()))
        timed("remove it", lambda: library.remove(documents=[more.document.id]))
        print(f"{library.status().size_on_disk / 1e6:.1f} MB")
    with Library.open(place, create=False, embedding=IDENTITY, indexes=indexes()) as library:
        timed("first search after opening", search)


if __name__ == "__main__":
    passages, url = int(sys.argv[1]), sys.argv[2]
    prepared, (more,) = list(documents(passages // 5)), documents(1, passages)
    with tempfile.TemporaryDirectory() as folder:
        for place in (Path(folder) / "library", location_of(f"{url}#benchmark {time.time():.0f}")):
            print("folder" if isinstance(place, Path) else "PostgreSQL")
            measure(place, prepared, more)
