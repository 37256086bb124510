"""Operations that are cut off or disturbed, and what must be true of a library afterwards.

For `kill_test.py` and `fault_test.py`. Each operation runs in a process of its own, which on
Linux is forked from one that has imported everything: a SIGKILL means the same for its files, and
it starts in milliseconds. What it says goes through shared memory, so that saying it calls
nothing of the system and outlives a kill. A small deterministic embedder stands in for a model.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy: a forked process has no threads

import hashlib
import multiprocessing
import random
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from importlib import metadata
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np

from localrag.documents.chunking import WindowChunker, passage_text
from localrag.documents.files import parse_file
from localrag.errors import LibraryDamagedError, LocalragError, ModelError
from localrag.factory import indexes_of
from localrag.indexing import indexer, rebuilding
from localrag.indexing.events import Committed, Embedded, IndexingEvent, Parsed, Removed, Synced
from localrag.indexing.indexer import Indexer
from localrag.library.check import check_library
from localrag.library.derived import Indexes
from localrag.library.folder import vaults
from localrag.library.indexes import segmented
from localrag.library.indexes.faiss import FaissVectors
from localrag.library.indexes.inverted import InvertedKeywords
from localrag.library.library import Library
from localrag.library.records import EmbeddingIdentity
from localrag.models.embeddings.base import Progress, Vectors
from localrag.models.registry import pip
from localrag.models.registry.pull import pull
from localrag.models.registry.spec import Catalogue, FolderSource, ModelFile, ModelSpec
from localrag.models.registry.store import ModelStore
from localrag.presentation.check import finding_text
from localrag.text.language import detect
from localrag.text.tokenize import Tokenizer

PASSPHRASE = "a passphrase of the tests"
WORDS = ("library", "harbour", "lantern", "检索", "文档", "season", "quiet", "城市", "河流")
CHUNKERS = {f"window {size} 20": WindowChunker(size, 20) for size in (120, 90)}
MODEL_BYTES = 4_000_000
OPERATIONS = ("add", "remove", "rebuild", "pull")
SEGMENT = 32
"""Passages of a full segment."""

STARTED, FINISHED, REFUSED, BROKE = "started", "finished", "refused", "broke"

CONTEXT: Any = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
JOURNAL_BYTES = 1 << 20


class Journal:
    """Lines that a process wrote, in memory that outlives it."""

    def __init__(self) -> None:
        self._bytes = CONTEXT.RawArray("c", JOURNAL_BYTES)
        self._end = CONTEXT.RawValue("Q", 0)

    def say(self, *cells: str) -> None:
        """Add a line of cells."""
        plain = (" ".join(cell.split()) for cell in cells)
        line = ("\t".join(plain) + "\n").encode("utf-8", "replace")
        start = self._end.value
        if start + len(line) <= JOURNAL_BYTES:
            self._bytes[start : start + len(line)] = line
            self._end.value = start + len(line)  # only now it counts

    def lines(self) -> list[list[str]]:
        """All that was said, a list of cells a line."""
        text: bytes = self._bytes[: self._end.value]
        return [line.split("\t") for line in text.decode("utf-8").splitlines()]


def fork(function: Callable[..., None], journal: Journal, *arguments: object) -> BaseProcess:
    """Start `function(journal, ...)` in a process of its own."""
    process: BaseProcess = CONTEXT.Process(target=_guarded, args=(function, journal, *arguments))
    process.start()
    return process


def _guarded(function: Callable[..., None], journal: Journal, *arguments: object) -> None:
    """Say how the function ended."""
    segmented._SMALL = SEGMENT // 4
    try:
        function(journal, *arguments)
        journal.say(FINISHED)
    except LocalragError as error:
        journal.say(REFUSED, type(error).__name__, str(error))
    except BaseException as error:
        journal.say(
            BROKE, type(error).__name__, str(error), *traceback.format_tb(error.__traceback__)
        )
        if not isinstance(error, Exception):
            raise


def asked(function: Callable[..., None], *arguments: object) -> list[list[str]]:
    """What a function says that runs in a process of its own, undisturbed."""
    journal = Journal()
    fork(function, journal, *arguments).join()
    return journal.lines()


def warm_up() -> None:
    """Load what a process would load, so that a forked one need not."""
    import faiss
    import filelock
    import httpx
    import platformdirs
    import psutil

    assert all((faiss, filelock, httpx, psutil))
    assert platformdirs.user_cache_path("localrag")  # imports what it takes here
    # Faults are to hit the library's disk, not that of Python's own files.
    metadata.version = cache(metadata.version)
    assert Tokenizer().fingerprint
    Tokenizer()("检索 harbour")
    detect("港口很古老。 The harbour is old.")
    SlowEmbedder(0).embed_queries(["x"])


# The library under test


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


def small_indexes() -> Indexes:
    """Indexes whose segments are so small that nearly every change merges some."""
    tokenizer = Tokenizer()
    return replace(
        indexes_of(tokenizer),
        vectors=partial(FaissVectors, capacity=SEGMENT),
        keywords=partial(InvertedKeywords, lambda: tokenizer.fingerprint, capacity=SEGMENT),
    )


def unlocked(directory: Path) -> Path:
    """The folder of a library, of which a vault is open in this process from now on."""
    if vaults.is_vault(directory):
        vaults.open_here(directory, PASSPHRASE)
    return directory


def make_vault(directory: Path) -> None:
    """A vault whose passphrase takes no time: each process opens it anew."""
    vaults._COST = {"memory_kib": 64, "iterations": 1, "lanes": 1}
    vaults.create(directory, PASSPHRASE)


def open_library(directory: Path) -> Library:
    """Open or create the library under test."""
    unlocked(directory)
    return Library.open(directory, create=True, embedding=EMBEDDING, indexes=small_indexes())


def make_indexer(library: Library, pause: float, chunking: str = "window 120 20") -> Indexer:
    """Make an indexer whose embedder pauses before each batch."""
    return Indexer(
        library,
        chunker=CHUNKERS[chunking],
        chunking=chunking,
        embedder=SlowEmbedder(pause),
        embedding=EMBEDDING,
        detect_language=detect,
        parse=parse_file,
    )


def chunking_of(library: Library) -> str:
    """How the library's documents are cut: all in one way, whenever a process ended."""
    (one,) = library.status().chunkings or ["window 120 20"]
    return one


def model_store(base: Path) -> ModelStore:
    """A models folder that knows one model, which lies in a folder beside it."""
    source = base / "stick"
    if not source.is_dir():
        source.mkdir()
        for number in range(2):
            (source / f"{number}.bin").write_bytes(random.Random(number).randbytes(MODEL_BYTES))
    files = tuple(
        ModelFile(
            path=path.name,
            size=MODEL_BYTES,
            sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        )
        for path in sorted(source.iterdir())
    )
    toy = ModelSpec(
        id="toy",
        task="embedding",
        title="toy",
        languages=("en",),
        licence="MIT",
        licence_kind="commercial",
        files=files,
        sources=(FolderSource(path=str(source)),),
    )
    return ModelStore(base / "models", Catalogue(models=(toy,), presets={}))


def change_files(files: Path, draw: random.Random, new: int, changed: int) -> None:
    """New files, and new versions of old ones; each version has a term of its own."""
    label = draw.getrandbits(40)
    names = [f"r{label}-{number}.txt" for number in range(new)]
    old = sorted(path.name for path in files.iterdir())
    names += draw.sample(old, min(changed, len(old)))
    for name in names:
        term = f"term{draw.getrandbits(48):x}x"
        words = draw.choices(WORDS, k=draw.randint(20, 200))
        (files / name).write_text(f"{term} {' '.join(words)}\n", encoding="utf-8")


def begin(_: Journal, base: Path, documents: int, vault: bool = False) -> None:
    """A library of so many files."""
    (base / "files").mkdir(parents=True)
    if vault:
        make_vault(base / "library")
    change_files(base / "files", random.Random(1), documents, 0)
    with open_library(base / "library") as library:
        make_indexer(library, 0).add([base / "files"])


# The operations


def operate(journal: Journal, what: str, base: Path, pause: float, hold: bool) -> None:
    """Run one operation, telling the journal what is done and, at times, how far it is.

    With `hold`, stop first until somebody lets the process go on.
    """
    indexer.BATCH = rebuilding.BATCH = 8
    indexer.SYNC_SECONDS, indexer.SYNC_SHARE = 0.05, 2  # so that the indexes follow often

    def tell(event: IndexingEvent) -> None:
        if isinstance(event, Committed):
            journal.say("committed", event.source, event.document_id)
        elif isinstance(event, Parsed | Embedded | Synced | Removed):
            journal.say(type(event).__name__.lower())

    if what == "pull":
        pip.settings = pip.PipSettings  # asking pip takes longer than all the rest
        store = model_store(base)
    todo: list[str] = []
    if what == "remove":
        todo = (base / "todo").read_text(encoding="utf-8").splitlines()
    if hold:
        os.kill(os.getpid(), signal.SIGSTOP)
    journal.say(STARTED)
    if what == "pull":
        pull(store, ["toy"], observer=lambda event: journal.say(event.kind))
        return
    with open_library(base / "library") as library:
        now = chunking_of(library)
        if what == "add":
            make_indexer(library, pause, now).add([base / "files"], tell, timeout=60)
        elif what == "rebuild":
            (other,) = set(CHUNKERS) - {now}
            make_indexer(library, pause, other).rebuild(tell, timeout=60)
        else:
            for source in todo:
                library.remove(sources=[source], timeout=60)
                journal.say("removed", source)


def reported(lines: Sequence[Sequence[str]], what: str) -> dict[str, str]:
    """What an operation said was done: ids by source for an add, else the sources."""
    if what == "add":
        return {cells[1]: cells[2] for cells in lines if cells[0] == "committed"}
    return {cells[1]: "" for cells in lines if cells[0] == "removed" and len(cells) > 1}


# What must be true afterwards. Each fault begins with its kind.


def check(directory: Path, added: dict[str, str], *, complete: Path | None) -> list[str]:
    """What is wrong with the library; nothing, if all is well."""
    wrong: list[str] = []
    embedder = SlowEmbedder(0)
    try:
        library = open_library(directory)
    except LocalragError as error:
        return [f"unopenable: {error}"]
    with library:
        chunker = CHUNKERS[chunking_of(library)]
        documents = {record.id: record for record in library.documents()}
        held = {record.state.path: record.document_id for record in library.sources()}
        for source, document_id in added.items():
            if held.get(source) != document_id:
                wrong.append(f"lost: {source} was reported as {document_id}")
        if set(held.values()) != set(documents):
            wrong.append("ghost: documents and sources disagree")
        chunks = library.counts().chunks
        sizes = tuple(one.current().chunk_set().size for one in (library.vectors, library.keywords))
        if sizes != (chunks, chunks):
            wrong.append(f"ghost: {chunks} chunks, vectors and keywords hold {sizes}")
        for document_id, record in documents.items():
            document = library.document(document_id)
            stored = library.document_chunks(document_id)
            if document is None or stored != chunker.chunk(document):
                wrong.append(f"lost: {record.title} is half there")
                continue
            term = document.text.split()[0]
            hits = library.keywords.search([term], 10)
            if not hits:
                wrong.append(f"lost: keyword search misses {record.title}")
            if not {hit.chunk_id for hit in hits} <= {chunk.id for chunk in stored}:
                wrong.append(f"ghost: {record.title}: keyword search finds {hits}")
            for chunk in stored[:1]:
                query = embedder.embed_queries([passage_text(chunk)])[0]
                if library.vectors.search(query, 1)[0].chunk_id != chunk.id:
                    wrong.append(f"lost: vector search misses {record.title}")
        if complete is not None and len(documents) != len(list(complete.iterdir())):
            wrong.append(f"lost: the add has not completed: {len(documents)} documents")
    return wrong


def damage(directory: Path) -> list[str]:
    """What `localrag check` calls damaged."""
    inspection = check_library(directory, small_indexes())
    return [finding_text(finding) for finding in inspection.findings if finding.damage]


def afterwards(
    journal: Journal, what: str, base: Path, said: dict[str, str], finished: bool
) -> None:
    """Say what is wrong after an operation, then do it again undisturbed and look again."""
    for fault in (
        _after_pull(base, finished) if what == "pull" else _after(what, base, said, finished)
    ):
        journal.say("wrong", fault)


def _after(what: str, base: Path, said: dict[str, str], finished: bool) -> list[str]:
    directory, files = unlocked(base / "library"), base / "files"
    added = said if what == "add" else {}
    found = damage(directory)
    if found:  # repair, as check says; whatever is still wrong then is
        with open_library(directory) as library:
            make_indexer(library, 0, chunking_of(library)).rebuild()
        wrong = [f"damaged: {text}" for text in damage(directory)]
        wrong += [f"mended: {text}" for text in found]
    else:
        wrong = []
    wrong += check(directory, added, complete=files if finished and what == "add" else None)
    if any(fault.startswith("unopenable") for fault in wrong):
        return wrong
    with open_library(directory) as library:
        here = {record.state.path for record in library.sources()}
        wrong += [
            f"ghost: {source} was removed and is here"
            for source in said
            if what == "remove" and source in here
        ]
        if what == "remove":
            held = b"".join(p.read_bytes() for p in directory.rglob("*") if p.is_file())
            for path in map(Path, (base / "todo").read_text(encoding="utf-8").splitlines()):
                term = path.read_text(encoding="utf-8").split()[0].encode()
                if str(path) not in here:
                    if term in held or path.name.encode() in held:
                        wrong.append(f"ghost: {path.name} was removed and is in a file")
                    path.unlink()
        now = chunking_of(library)
        report = make_indexer(library, 0, now).add([files])
        wrong += [f"lost: {failure}" for failure in report.failed]
        if what == "rebuild":
            make_indexer(library, 0, now).rebuild()
    wrong += check(directory, added, complete=files)
    return wrong + [f"damaged: {text}" for text in damage(directory)]


def _after_pull(base: Path, finished: bool) -> list[str]:
    """The model is not there or whole, and the next pull brings it."""
    pip.settings = pip.PipSettings
    store = model_store(base)
    wrong: list[str] = []
    for last in (False, True):
        if last:
            pull(store, ["toy"])
        try:
            folder = store.path("toy")
        except LibraryDamagedError as error:
            wrong.append(f"unopenable: {error}")
            continue
        except ModelError as error:
            wrong += [f"lost: {error}"] if finished or last else []
            continue
        wrong += [
            f"damaged: {file.name}"
            for file in sorted((base / "stick").iterdir())
            if (folder / file.name).read_bytes() != file.read_bytes()
        ]
    store.remove("toy")
    return wrong


def prepare(_: Journal, what: str, base: Path, seed: int, size: int) -> None:
    """Make work for an operation: files to add, or a list of what to remove."""
    draw, files = random.Random(seed), base / "files"
    if what == "add":
        change_files(files, draw, size, size)
    elif what == "remove":
        held = sorted(files.iterdir())
        chosen = draw.sample(held, min(size + 1, max(0, len(held) - 4)))
        (base / "todo").write_text("\n".join(map(str, chosen)), encoding="utf-8")


def fresh_copy(template: Path, base: Path) -> None:
    """The library under test as it was at first."""
    shutil.rmtree(base, ignore_errors=True)
    shutil.copytree(template, base)
