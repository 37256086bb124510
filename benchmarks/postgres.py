"""A library in PostgreSQL beside one in a folder, and pgvector beside the index of a node.

    python benchmarks/postgres.py library 5000 'postgresql:///docs?host=/run/postgresql'
    python benchmarks/postgres.py vectors 20000 'postgresql:///docs?host=/run/postgresql' \\
        --set DATA/scifact

`library` adds, searches, changes and opens libraries of made-up passages. `vectors` compares the
dense leg: its vectors are those of `scale.py`, of the passages of the sets, repeated with jitter,
and times are those of a whole search of this process. Processor time is that of this process,
without the server's.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np
from scale import base_vectors, passages_of, queries_of

from localrag.documents.chunking import WindowChunker
from localrag.factory import indexes_of
from localrag.library.derived import Indexes, VectorPlacement
from localrag.library.indexes.comparison import WithVectors
from localrag.library.indexes.faiss import FaissVectors
from localrag.library.library import Library
from localrag.library.location import Location, location_of
from localrag.library.records import EmbeddingIdentity, FileState, NewDocument
from localrag.text.tokenize import Tokenizer
from localrag.types import Chunk, Document, Hit, Page

IDENTITY = EmbeddingIdentity("made up", "made up", 512)
T = TypeVar("T")


def indexes() -> Indexes:
    return indexes_of(Tokenizer())


# -- library -------------------------------------------------------------------------


def made_up(count: int, first: int = 0) -> Iterator[NewDocument]:
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


def measure_library(place: Location, prepared: list[NewDocument], more: NewDocument) -> None:
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


# -- vectors -------------------------------------------------------------------------

PER_DOCUMENT, AT_ONCE = 500, 4
ROOMS = {
    where: replace(indexes(), placement=VectorPlacement(where)) for where in ("node", "pgvector")
}
Search = Callable[[np.ndarray, int], list[Hit]]


def documents(folder: Path, first: int, count: int, per: int = PER_DOCUMENT) -> list[NewDocument]:
    found = []
    for start in range(first, first + count, per):
        vectors = passages_of(folder, start, min(per, first + count - start))
        text = "\n".join(f"passage {start + each}" for each in range(len(vectors)))
        one = Document(f"{start:064x}", f"{start}.txt", str(start), (Page(1, text),))
        ids = np.random.default_rng(start).integers(0, 1 << 62, len(vectors)).tolist()
        chunks = [
            Chunk(each, one.id, place, text[place : place + 1], "", 1, 1, place, place + 1)
            for place, each in enumerate(ids)
        ]
        states = [FileState(f"/{start}.txt", len(text), 1, 2)]
        found.append(NewDocument(one, states, len(text), "en", "made", chunks, vectors))
    return found


def fill(place: Location, folder: Path, passages: int, room: str) -> Library:
    identity = EmbeddingIdentity("made up", "made up", passages_of(folder, 0, 1).shape[1])
    library = Library.open(place, create=True, embedding=identity, indexes=ROOMS[room])
    for first in range(0, passages, AT_ONCE * PER_DOCUMENT):
        library.add(documents(folder, first, min(AT_ONCE * PER_DOCUMENT, passages - first)))
    return library


def report(name: str, search: Search, truth: Search, asked: np.ndarray) -> None:
    """Seconds of a search for the 100 that a fusion looks at, and recall of the first ten."""
    for query in asked[:5]:
        search(query, 100)
    seconds, right, differing = [], 0, 0
    for query in asked:
        began = time.perf_counter()
        found = search(query, 100)
        seconds.append(time.perf_counter() - began)
        wanted = truth(query, 10)
        right += len({hit.chunk_id for hit in wanted} & {hit.chunk_id for hit in found[:10]})
        scores = {hit.chunk_id: hit.score for hit in found}
        differing += sum(scores.get(hit.chunk_id, hit.score) != hit.score for hit in wanted)
    p50, p95 = np.percentile(seconds, (50, 95)) * 1000
    print(
        f"{name:34} recall@10 {right / 10 / len(asked):.4f}  p50 {p50:6.2f}  p95 {p95:6.2f} ms"
        f"  other scores {differing}",
        flush=True,
    )


def measure_vectors(place: Location, folder: Path, passages: int) -> None:
    asked = queries_of(folder, passages)
    with fill(place, folder, passages, "pgvector") as library:
        before = library.status().size_on_disk
        timed("five passages more, without it", lambda: library.add(five(folder, passages)))
        timed("building it in the database", library.vectors.build)
        print(f"its size: {(library.status().size_on_disk - before) / 1e6:.1f} MB", flush=True)
        timed("five passages more, with it", lambda: library.add(five(folder, passages + 5)))
        timed("all five hundred more", lambda: library.add(documents(folder, passages + 10, 500)))
        with library._catalogue.read() as snapshot:
            entries = sorted(snapshot.embeddings_since(-1), key=lambda one: one[0])
        ids = np.array([number for number, _ in entries])
        held = np.array([vector for _, vector in entries], dtype=np.float16)
        exact = WithVectors(FaissVectors(0), lambda some: held[np.searchsorted(ids, some)])
        exact.index.apply((), entries, ("exact", 1))
        here = Library.open(place, create=False, embedding=None, indexes=ROOMS["node"])
        with here:
            timed("making that of a node", here.vectors.current)
            compare(library, here, exact, asked)
            part = next(one for one in here.status().derived if one.name == "vectors")
            print(f"that of a node on disk: {part.size / 1e6:.1f} MB", flush=True)


def compare(library: Library, here: Library, exact: WithVectors, asked: np.ndarray) -> None:
    report("pgvector", library.vectors.search, exact.search, asked)
    report("node", here.vectors.search, exact.search, asked)
    with library._catalogue.read() as snapshot:
        ids = np.sort(np.array(snapshot.added_ids_since(-1), dtype=np.int64))
    for share in (0.5, 0.1, 0.01):
        draw = np.random.default_rng(3)
        allowed = ids[draw.random(len(ids)) < share]

        def truth(query: np.ndarray, k: int, allowed: np.ndarray = allowed) -> list[Hit]:
            return exact.search(query, k, allowed)

        for name, one in (("pgvector", library), ("node", here)):
            label = f"{name}, {len(allowed)} allowed"
            report(label, one.vectors.within(allowed).search, truth, asked[:60])


def five(folder: Path, first: int) -> Sequence[NewDocument]:
    return documents(folder, first, 5, 5)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=("library", "vectors"))
    parser.add_argument("passages", type=int)
    parser.add_argument("url")
    parser.add_argument("--set", dest="sets", type=Path, action="append", default=[])
    parser.add_argument("--libraries", type=int, default=1, help="so many of that size beside it")
    chosen = parser.parse_args()
    print(f"{chosen.passages} passages, load {os.getloadavg()[0]:.1f}", flush=True)
    name = f"{chosen.url}#benchmark {time.time():.0f}"
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        if chosen.what == "library":
            prepared = list(made_up(chosen.passages // 5))
            (more,) = made_up(1, chosen.passages)
            for title, at in (("folder", folder / "library"), ("PostgreSQL", location_of(name))):
                print(title)
                measure_library(at, prepared, more)
            return
        np.save(folder / "base.npy", base_vectors(chosen.sets))
        for number in range(1, chosen.libraries):
            with fill(location_of(f"{name} {number}"), folder, chosen.passages, "pgvector") as made:
                made.vectors.build()
        measure_vectors(location_of(name), folder, chosen.passages)


if __name__ == "__main__":
    main()
