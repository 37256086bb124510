"""What a vault costs: storing, searching and the first search of a process, beside a plain library.

    python benchmarks/vault.py --passages 100000 --folder DIR

Texts are random words of a Zipf distribution, vectors random and of 512 dimensions, so no model is
needed; embedding, which takes most of an `add`, is the same for both and left out. Searches in the
two libraries alternate. Needs the extra `vault`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from localrag.factory import indexes_of
from localrag.library.folder import vaults
from localrag.library.library import Library
from localrag.library.records import EmbeddingIdentity, FileState, NewDocument
from localrag.text.tokenize import Tokenizer
from localrag.types import Chunk, Document, Page

DIMENSION, A_DOCUMENT, BATCH = 512, 50, 20
PASSPHRASE = "a passphrase of a benchmark"
KINDS = ("plain", "vault")


def open_library(folder: Path, *, create: bool = False) -> Library:
    if vaults.is_vault(folder):
        vaults.open_here(folder, PASSPHRASE)
    identity = EmbeddingIdentity("random", "random", DIMENSION)
    indexes = indexes_of(Tokenizer(), "inverted-index")
    return Library.open(folder, create=create, embedding=identity, indexes=indexes)


def documents(passages: int) -> Iterator[NewDocument]:
    draw = np.random.default_rng(1)
    for number in range(passages // A_DOCUMENT):
        words = draw.zipf(1.3, (A_DOCUMENT, 60)) % 50_000
        texts = [" ".join(f"w{word}" for word in row) for row in words.tolist()]
        text = "\n".join(texts)
        digest = hashlib.sha256(f"{number} {text}".encode()).hexdigest()
        name, begin, chunks = f"{number}.txt", 0, []
        for position, part in enumerate(texts):
            end = begin + len(part)
            chunks.append(
                Chunk(
                    number * A_DOCUMENT + position + 1, digest, position, part, "", 1, 1, begin, end
                )
            )
            begin = end + 1
        vectors = draw.standard_normal((A_DOCUMENT, DIMENSION)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        yield NewDocument(
            document=Document(digest, name, name, (Page(1, text),)),
            states=[FileState(name, len(text), 1, 2)],
            size=len(text),
            language="en",
            chunking="lines",
            chunks=chunks,
            vectors=vectors,
        )


def stored(folder: Path, passages: int) -> float:
    """Seconds to store so many passages with both indexes."""
    spent, batch = 0.0, []
    with open_library(folder, create=True) as library:
        for document in documents(passages):
            batch.append(document)
            if len(batch) == BATCH:
                began = time.perf_counter()
                library.add(batch)
                spent += time.perf_counter() - began
                batch = []
        began = time.perf_counter()
        library.add(batch)
        library.sync()
    return spent + time.perf_counter() - began


def question(draw: np.random.Generator) -> tuple[np.ndarray, list[str]]:
    vector = draw.standard_normal(DIMENSION).astype(np.float32)
    return vector / np.linalg.norm(vector), [f"w{word % 50_000}" for word in draw.zipf(1.3, 8)]


def asked(library: Library, vector: np.ndarray, terms: list[str]) -> float:
    """Milliseconds of both legs, with the passages of the first ten."""
    began = time.perf_counter()
    hits = library.vectors.search(vector, 100)
    library.keywords.search(terms, 100)
    library.chunks([hit.chunk_id for hit in hits[:10]])
    return 1000 * (time.perf_counter() - began)


def cold(folder: Path) -> None:
    """Print the seconds from opening to the first answer; the key is there, as from the kernel."""
    if vaults.is_vault(folder):
        vaults.open_here(folder, PASSPHRASE)
    draw = np.random.default_rng(3)
    began = time.perf_counter()
    identity = EmbeddingIdentity("random", "random", DIMENSION)
    indexes = indexes_of(Tokenizer(), "inverted-index")
    with Library.open(folder, create=False, embedding=identity, indexes=indexes) as library:
        asked(library, *question(draw))
        print(time.perf_counter() - began)


def printed(command: list[str]) -> float:
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    """Build both, or use what is there, and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--searches", type=int, default=200)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--cold", type=Path)
    arguments = parser.parse_args()
    if arguments.cold:
        cold(arguments.cold)
        return
    told: dict[str, object] = {"passages": arguments.passages}
    places = {kind: arguments.folder / kind for kind in KINDS}
    for kind, place in places.items():
        if not place.exists():
            if kind == "vault":
                vaults.create(place, PASSPHRASE)
            told[f"store {kind}, s"] = round(stored(place, arguments.passages), 2)
    opened = {kind: open_library(place) for kind, place in places.items()}
    times: dict[str, list[float]] = {kind: [] for kind in KINDS}
    draw = np.random.default_rng(2)
    for number in range(arguments.searches + 20):
        vector, terms = question(draw)
        for kind in KINDS if number % 2 else reversed(KINDS):
            took = asked(opened[kind], vector, terms)
            if number >= 20:
                times[kind].append(took)
    for kind, library in opened.items():
        library.close()
        told[f"search {kind}, ms"] = {
            "median": round(statistics.median(times[kind]), 2),
            "p95": round(statistics.quantiles(times[kind], n=20)[-1], 2),
        }
    for kind, place in places.items():
        command = [sys.executable, __file__, "--folder", str(place), "--cold", str(place)]
        told[f"cold {kind}, s"] = round(statistics.median(printed(command) for _ in range(7)), 3)
        size = sum(file.stat().st_size for file in place.rglob("*") if file.is_file())
        told[f"on disk {kind}, MB"] = round(size / 1e6, 1)
    print(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
