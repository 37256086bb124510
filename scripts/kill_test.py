"""Kill `add` at random moments and check that nothing that was reported is lost.

    python scripts/kill_test.py --kills 20 --seed 7

Each round changes some files, starts an add in a process of its own, kills it with SIGKILL
(TerminateProcess on Windows), and opens the library again: every document that the process
reported must be there whole and be found by both searches, nothing half-added may be visible,
and the next add must complete. A small deterministic embedder stands in for a model.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from localrag.chunking import WindowChunker, passage_text
from localrag.embeddings.base import Progress, Vectors
from localrag.indexing import Committed, Event, Indexer, Synced, indexer
from localrag.stores.library import Library
from localrag.stores.records import EmbeddingIdentity
from localrag.text.language import detect
from localrag.text.tokenize import Tokenizer

WORDS = ("library", "harbour", "lantern", "检索", "文档", "season", "quiet", "城市", "河流")
CHUNKER = WindowChunker(120, 20)
NEW_FILES, CHANGED_FILES = 40, 15


class SlowEmbedder:
    """Vectors from the SHA-256 of each text, with the pace of a model."""

    dimension = 32
    fingerprint = "kill test"
    max_tokens = 10_000

    def __init__(self, pause: float) -> None:
        self._pause = pause

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Words of each text."""
        return [len(text.split()) for text in texts]

    def embed_documents(self, texts: Sequence[str], progress: Progress | None = None) -> Vectors:
        """Vectors, after the pause."""
        time.sleep(self._pause)
        if progress is not None:
            progress(len(texts))
        return self.embed_queries(texts)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Vectors at once."""
        seeds = [int.from_bytes(hashlib.sha256(t.encode()).digest()[:8], "big") for t in texts]
        rows = [np.random.default_rng(seed).standard_normal(self.dimension) for seed in seeds]
        vectors = np.array(rows, dtype=np.float32).reshape(-1, self.dimension)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


EMBEDDING = EmbeddingIdentity(SlowEmbedder.fingerprint, "kill test", SlowEmbedder.dimension)


def open_library(directory: Path) -> Library:
    """Open or create the library under test."""
    return Library.open(
        directory,
        create=True,
        embedding=EMBEDDING,
        tokenize=Tokenizer(),
        passage_text=passage_text,
    )


def make_indexer(library: Library, pause: float) -> Indexer:
    """Make an indexer whose embedder pauses before each batch."""
    return Indexer(
        library,
        chunker=CHUNKER,
        chunking="window 120 20",
        embedder=SlowEmbedder(pause),
        embedding=EMBEDDING,
        detect_language=detect,
    )


def add_and_report(directory: Path, files: Path) -> None:
    """The process that gets killed: prints every document when it is reported."""
    indexer.BATCH = 16
    indexer.SYNC_SECONDS, indexer.SYNC_SHARE = 0.05, 2  # so that kills also hit the indexes

    def tell(event: Event) -> None:
        if isinstance(event, Committed):
            print(event.source, event.document_id, sep="\t", flush=True)
        elif isinstance(event, Synced):
            print("synced", flush=True)

    print("started", flush=True)
    with open_library(directory) as library:
        make_indexer(library, pause=0.02).add([files], tell, timeout=60)
    print("finished", flush=True)


def run_and_kill(directory: Path, files: Path, delay: float) -> tuple[dict[str, str], bool]:
    """What the process reported, by source, and whether it had finished before the kill."""
    command = [sys.executable, __file__, "--child", str(directory), str(files)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, encoding="utf-8")
    assert process.stdout is not None
    process.stdout.readline()
    timer = threading.Timer(delay, process.kill)
    timer.start()
    lines = process.stdout.read().splitlines(keepends=True)
    process.wait()
    timer.cancel()
    whole = [line.rstrip("\n").split("\t") for line in lines if line.endswith("\n")]
    reported = {line[0]: line[1] for line in whole if len(line) == 2}
    return reported, ["finished"] in whole


def change_files(files: Path, draw: random.Random, round_number: int) -> None:
    """New files, and new versions of old ones; each version has a term of its own."""
    names = [f"r{round_number}-{number}.txt" for number in range(NEW_FILES)]
    old = sorted(path.name for path in files.iterdir())
    names += draw.sample(old, min(CHANGED_FILES, len(old)))
    for name in names:
        term = f"term{draw.getrandbits(48):x}x"
        words = draw.choices(WORDS, k=draw.randint(20, 200))
        (files / name).write_text(f"{term} {' '.join(words)}\n", encoding="utf-8")


def check(directory: Path, reported: dict[str, str], *, complete: Path | None) -> list[str]:
    """What is wrong with the library; nothing, if all is well."""
    wrong: list[str] = []
    embedder = SlowEmbedder(0)
    with open_library(directory) as library:
        documents = {record.id: record for record in library.documents()}
        held = {record.state.path: record.document_id for record in library.sources()}
        for source, document_id in reported.items():
            if held.get(source) != document_id:
                wrong.append(f"{source} was reported as {document_id}, is {held.get(source)}")
        if set(held.values()) != set(documents):
            wrong.append("documents and sources disagree")
        chunks = library.counts().chunks
        sizes = (len(library.vectors.current()), len(library.keywords.current()))
        if sizes != (chunks, chunks):
            wrong.append(f"{chunks} chunks, vectors and keywords hold {sizes}")
        for document_id, record in documents.items():
            document = library.document(document_id)
            stored = library.document_chunks(document_id)
            if document is None or stored != CHUNKER.chunk(document):
                wrong.append(f"{record.title} is half there")
                continue
            term = document.text.split()[0]
            hits = library.keywords.search([term], 10)
            if not {hit.chunk_id for hit in hits} <= {chunk.id for chunk in stored} or not hits:
                wrong.append(f"{record.title}: keyword search finds {hits}")
            for chunk in stored[:2]:
                query = embedder.embed_queries([passage_text(chunk)])[0]
                if library.vectors.search(query, 1)[0].chunk_id != chunk.id:
                    wrong.append(f"{record.title}: vector search misses {chunk.position}")
        if complete is not None and len(documents) != len(list(complete.iterdir())):
            wrong.append(f"the add has not completed: {len(documents)} documents")
    return wrong


def kill_test(kills: int, seed: int) -> list[str]:
    """Run all rounds and return what went wrong."""
    draw = random.Random(seed)
    wrong: list[str] = []
    longest = 2.0
    with tempfile.TemporaryDirectory(prefix="localrag-kill-", ignore_cleanup_errors=True) as base:
        directory, files = Path(base, "library"), Path(base, "files")
        files.mkdir()
        killed = round_number = 0
        while killed < kills and not wrong:
            change_files(files, draw, round_number)
            round_number += 1
            delay = draw.uniform(0, longest)
            reported, finished = run_and_kill(directory, files, delay)
            if finished:
                longest = max(0.3, 0.8 * longest)  # too late to kill anything: aim earlier
            killed += not finished
            wrong = check(directory, reported, complete=files if finished else None)
            with open_library(directory) as library:
                report = make_indexer(library, pause=0).add([files])
            wrong += [str(failure) for failure in report.failed]
            wrong += check(directory, reported, complete=files)
            state = "finished" if finished else f"killed after {delay:.2f} s"
            print(
                f"{killed}/{kills}: {state}, {len(reported)} documents reported, "
                f"{len(report.committed)} left for the next add: {wrong or 'all there'}"
            )
    return wrong


def main() -> None:
    """Parse the command line; exit with 1 if anything is wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--child", nargs=2, type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        add_and_report(*arguments.child)
        return
    print(f"seed {arguments.seed}")
    sys.exit(1 if kill_test(arguments.kills, arguments.seed) else 0)


if __name__ == "__main__":
    main()
