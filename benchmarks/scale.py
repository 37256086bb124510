"""What a library costs as it grows: building, opening, searching, one change, memory, disk.

    python benchmarks/scale.py --passages 100000 [--set DATA/cmrc2018 ...] [--against CHECKOUT]
    python benchmarks/scale.py --passages 100000 --alone     the vector index without a library

Vectors are those of the passages of the retrieval sets (embedded once, then kept in localrag's
cache), each repeated with jitter until there are enough; without sets they are random. Texts are
words drawn by Zipf's law, 95 a passage, five passages a file. Each step runs in a process of its
own. With --against, the code of another checkout does the same on the same data in turn. What it
printed is in LOG.md.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

ALONE = "alone"
"""In the name of a folder that holds an index only."""

DIMENSION, PER_FILE, WORDS, QUERIES = 512, 5, 95, 200
JITTER = 0.35
"""Length of the noise on a vector of length 1; what it yields is as like as two passages of one
article."""


def passages_of(folder: Path, start: int, count: int) -> np.ndarray:
    """Vectors `start` to `start + count`, the same in every process."""
    base = np.load(folder / "base.npy", mmap_mode="r")
    places = np.arange(start, start + count)
    noise = np.random.default_rng(start).standard_normal((count, base.shape[1]))
    vectors = base[places % len(base)] + JITTER * noise / np.sqrt(base.shape[1])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors.astype(np.float16).astype(np.float32)


def queries_of(folder: Path, passages: int) -> np.ndarray:
    """Questions near a passage each: the same jitter again."""
    draw = np.random.default_rng(7)
    near = [passages_of(folder, int(one), 1)[0] for one in draw.integers(0, passages, QUERIES)]
    vectors = np.array(near) + JITTER * draw.standard_normal((QUERIES, len(near[0]))) / np.sqrt(
        len(near[0])
    )
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def words(draw: np.random.Generator, count: int) -> str:
    return " ".join(f"w{rank}" for rank in np.minimum(draw.zipf(1.1, count), 200_000))


def documents(folder: Path, start: int, passages: int) -> Iterator:
    """Files of five passages each, as they are added."""
    from localrag.library.records import FileState, NewDocument
    from localrag.types import Chunk, Document, Page

    for first in range(start, start + passages, PER_FILE):
        draw = np.random.default_rng(first)
        texts = [words(draw, WORDS) for _ in range(PER_FILE)]
        text = "\n".join(texts)
        name = hashlib.sha256(text.encode()).hexdigest()
        chunks, end = [], 0
        for position, one in enumerate(texts):
            chunks.append(Chunk(hash_of(one), name, position, one, "", 1, 1, end, end + len(one)))
            end += len(one) + 1
        yield NewDocument(
            document=Document(name, f"/files/{first}.txt", f"{first}", (Page(1, text),)),
            states=[FileState(f"/files/{first}.txt", len(text), 1, 2)],
            size=len(text),
            language="en",
            chunking="scale",
            chunks=chunks,
            vectors=passages_of(folder, first, PER_FILE),
        )


class Alone:
    """A vector index in its folder, without a library around it."""

    def __init__(self, folder: Path, rescored: int | None) -> None:
        from localrag.library.folder.gate import VECTORS
        from localrag.library.indexes.base import Storage
        from localrag.library.indexes.faiss import FaissVectors
        from localrag.system.seals import own_seal

        (folder / "library").mkdir(exist_ok=True)
        self.index = FaissVectors() if rescored is None else FaissVectors(rescored)
        self.at = Storage(folder / "library" / VECTORS, own_seal())
        self.search, self.vectors = self.index.search, self

    def __enter__(self) -> Alone:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def current(self) -> None:
        self.index.open(self.at)

    def changed(self, removed: Sequence[int], added: Iterator) -> None:
        self.index.apply(removed, added, ("scale", self.index.stamp[1] + 1), self.at)


def numbered(folder: Path, start: int, count: int) -> Iterator[tuple[int, np.ndarray]]:
    """Ids, as good as random, and vectors."""
    for first in range(start, start + count, PER_FILE):
        for place, vector in enumerate(passages_of(folder, first, PER_FILE), first):
            yield hash_of(f"{place}"), vector


def hash_of(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def opened(folder: Path, rescored: int | None = None):
    if ALONE in folder.parts[-1]:
        return Alone(folder, rescored)
    from localrag import factory
    from localrag.config.settings import Settings
    from localrag.library.derived import Indexes
    from localrag.library.library import Library
    from localrag.library.records import EmbeddingIdentity

    made = factory.make_indexes(Settings())
    if rescored is not None:
        from localrag.library.indexes.faiss import FaissVectors

        vectors = partial(FaissVectors, rescored)
        made = Indexes(vectors, made.keywords, made.tokenize, made.passage_text)
    dimension = np.load(folder / "base.npy", mmap_mode="r").shape[1]
    embedding = EmbeddingIdentity("scale", "scale", dimension)
    return Library.open(folder / "library", create=True, embedding=embedding, indexes=made)


def build(folder: Path, passages: int) -> dict[str, float]:
    if ALONE in folder.parts[-1]:
        started, used = time.perf_counter(), time.process_time()
        opened(folder).changed((), numbered(folder, 0, passages))
        return {
            "build: vectors s": time.perf_counter() - started,
            "build: vectors CPU s": time.process_time() - used,
            "disk: vectors MB": size_of(folder),
        }
    started, used = time.perf_counter(), time.process_time()
    with opened(folder) as library:
        for start in range(0, passages, 1000):
            library.add(documents(folder, start, min(1000, passages - start)))
        added, added_used = time.perf_counter(), time.process_time()
        library.vectors.current(keep=True)
        vectors, vectors_used = time.perf_counter(), time.process_time() - added_used
        library.sync()
    done = time.perf_counter()
    from localrag.library.folder.gate import folder_size

    return {
        "build: catalogue s": added - started,
        "build: catalogue CPU s": added_used - used,
        "build: vectors s": vectors - added,
        "build: vectors CPU s": vectors_used,
        "build: keywords s": done - vectors,
        "disk: vectors MB": size_of(folder),
        "disk: all MB": folder_size(folder / "library") / 1e6,
    }


def size_of(folder: Path) -> float:
    from localrag.library.folder.gate import VECTORS, folder_size

    place = folder / "library" / VECTORS
    return (folder_size(place) if place.is_dir() else place.stat().st_size) / 1e6


def cold(folder: Path, passages: int) -> dict[str, float]:
    query = queries_of(folder, passages)[0]
    import faiss  # noqa: F401 - takes the same time everywhere

    started, used = time.perf_counter(), time.process_time()
    with opened(folder) as library:
        library.vectors.current()
        current, current_used = time.perf_counter(), time.process_time()
        library.vectors.search(query, 100)
        searched, searched_used = time.perf_counter(), time.process_time()
    return {
        "cold: open ms": (current - started) * 1e3,
        "cold: open, CPU ms": (current_used - used) * 1e3,
        "cold: first search ms": (searched - current) * 1e3,
        "cold: first search, CPU ms": (searched_used - current_used) * 1e3,
    }


def warm(folder: Path, passages: int) -> dict[str, float]:
    queries, seconds = queries_of(folder, passages), []
    with opened(folder) as library:
        library.vectors.current()
        library.vectors.search(queries[0], 100)
        for query in queries:
            started = time.perf_counter()
            library.vectors.search(query, 100)
            seconds.append(time.perf_counter() - started)
    return {
        f"warm: p{percentile} ms": float(np.percentile(seconds, percentile)) * 1e3
        for percentile in (50, 95, 99)
    }


def recall(folder: Path, passages: int) -> dict[str, float]:
    """Of the 10 and the 100 that are nearest of all, how many are found."""
    found: dict[str, float] = {}
    queries = queries_of(folder, passages)

    def nearest(rescored: int) -> list[list[int]]:
        with opened(folder, rescored) as library:
            library.vectors.current()
            return [[hit.chunk_id for hit in library.vectors.search(one, 100)] for one in queries]

    wanted = nearest(0)
    for rescored in (100, 200, 300, 500, 1000):
        pairs = list(zip(nearest(rescored), wanted, strict=True))
        for k in (10, 100):
            shares = [len({*one[:k]} & {*other[:k]}) / k for one, other in pairs]
            found[f"recall@{k} of {rescored} rescored"] = float(np.mean(shares))
    return found


def change(folder: Path, passages: int) -> dict[str, float]:
    """One file more, then another version of it, then without it."""
    times: dict[str, list[float]] = {}

    def timed(name: str, call) -> None:
        started, used = time.perf_counter(), time.process_time()
        call()
        times.setdefault(f"{name} ms", []).append((time.perf_counter() - started) * 1e3)
        times.setdefault(f"{name} CPU ms", []).append((time.process_time() - used) * 1e3)

    with opened(folder) as library:
        library.vectors.current()
        if ALONE in folder.parts[-1]:
            for turn in range(5):
                new = numbered(folder, passages + turn * PER_FILE, PER_FILE)
                old = [number for number, _ in numbered(folder, turn * PER_FILE, PER_FILE)]
                timed("change: vectors, add", partial(library.changed, (), new))
                timed("change: vectors, remove", partial(library.changed, old, ()))
                erase = partial(library.index.erase, library.at, library.index.stamp)
                timed("change: vectors, purge", erase)
            return {name: float(np.median(values)) for name, values in times.items()}
        for turn in range(5):
            place = f"/files/{turn * PER_FILE}.txt"
            (new,) = documents(folder, passages + turn * PER_FILE, PER_FILE)
            library.add([new])
            timed("change: vectors, add", lambda: library.vectors.current(keep=True))
            with library._catalogue.write() as transaction:
                transaction.remove_source(place)
                stamp = transaction.stamp()
            timed("change: vectors, remove", lambda: library.vectors.current(keep=True))
            timed("change: vectors, purge", partial(library.vectors.erase, stamp))
    return {name: float(np.median(values)) for name, values in times.items()}


STEPS = (build, cold, warm, change, recall)


def measured(checkout: Path, step: str, folder: Path, passages: int) -> dict[str, float]:
    """A step in a process of its own, with the code of a checkout."""
    command = [sys.executable, __file__, "--passages", str(passages), "--step", step]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    done = subprocess.run(
        [*command, "--folder", str(folder)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def peak_memory() -> float:
    """MB of this process; files that are mapped count as far as they were looked at."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    # The other counter goes on from that of the process which started this one.
    (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def base_vectors(sets: Sequence[Path]) -> np.ndarray:
    if not sets:
        return np.random.default_rng(0).standard_normal((20_000, DIMENSION)).astype(np.float32)
    from localrag import factory
    from localrag.config.settings import Settings
    from localrag.evaluation.retrieval.beir import read_retrieval_set
    from localrag.evaluation.retrieval.benchmark import document_vectors

    embedder = factory.make_embedder(Settings(), factory.make_models())
    cached = factory.cache_folder() / "bench"
    texts = [list(read_retrieval_set(one).corpus.values()) for one in sets]
    return np.concatenate([document_vectors(embedder, one, cached) for one in texts])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--passages", type=int, required=True)
    parser.add_argument("--set", dest="sets", type=Path, action="append", default=[])
    parser.add_argument("--alone", action="store_true", help="the vector index without a library")
    parser.add_argument("--against", type=Path, help="another checkout of localrag")
    parser.add_argument("--step", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.step:
        step = next(one for one in STEPS if one.__name__ == chosen.step)
        found = step(chosen.folder, chosen.passages)
        print(json.dumps(found | {f"memory: {chosen.step} MB": peak_memory()}))
        return
    checkouts = {"here": Path(__file__).resolve().parents[1]}
    if chosen.against:
        checkouts["against"] = chosen.against.resolve()
    print(f"{chosen.passages} passages, load {os.getloadavg()[0]:.1f}", flush=True)
    base = base_vectors(chosen.sets)
    with tempfile.TemporaryDirectory() as place:
        folders = {
            name: Path(place, f"{name}-{ALONE}" if chosen.alone else name) for name in checkouts
        }
        for folder in folders.values():
            folder.mkdir()
            np.save(folder / "base.npy", base)
        for step in STEPS:
            results = {
                name: measured(checkout, step.__name__, folders[name], chosen.passages)
                for name, checkout in checkouts.items()
                if step is not recall or name == "here"
            }
            for row in results["here"]:
                cells = [f"{found[row]:10.3f}" for found in results.values() if row in found]
                print(f"| {row} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
