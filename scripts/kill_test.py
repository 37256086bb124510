"""Kill add, remove, rebuild and models pull at random moments, and check what is left.

    python scripts/kill_test.py --kills 20 --seed 7
    python scripts/kill_test.py --kills 100 --what remove --what rebuild

Each round starts one of them in a process of its own, kills it with SIGKILL (TerminateProcess on
Windows), and opens the library again. Every document that was reported as added must be there
whole and be found by both searches, nothing half-added may be visible, nothing of what was
reported as removed may be in any file, a rebuild must have left the old passages or the new ones,
`localrag check` must find no damage, and the same command run again must complete. A model that
is installed must have its bytes. A small deterministic embedder stands in for a model.
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
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from localrag.chunking import WindowChunker, passage_text
from localrag.embeddings.base import Progress, Vectors
from localrag.errors import ModelError
from localrag.indexing import Committed, Event, Indexer, Synced, indexer
from localrag.parsing import parse_file
from localrag.registry.pull import pull
from localrag.registry.spec import Catalogue, FolderSource, ModelFile, ModelSpec
from localrag.registry.store import ModelStore
from localrag.stores.checking import check_library
from localrag.stores.library import Library
from localrag.stores.records import EmbeddingIdentity
from localrag.text.language import detect
from localrag.text.tokenize import Tokenizer

WORDS = ("library", "harbour", "lantern", "检索", "文档", "season", "quiet", "城市", "河流")
CHUNKERS = {f"window {size} 20": WindowChunker(size, 20) for size in (120, 90)}
MODEL_BYTES = 40_000_000
NEW_FILES, CHANGED_FILES = 15, 15
OPERATIONS = ("add", "remove", "rebuild", "pull")

Outcome = tuple[dict[str, str], bool, list[str]]
"""What was reported, whether it finished before the kill, and what is wrong."""


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


def child(what: str, base: Path) -> None:
    """The process that gets killed: prints what it reports as done."""
    indexer.BATCH = 16
    indexer.SYNC_SECONDS, indexer.SYNC_SHARE = 0.05, 2  # so that kills also hit the indexes

    def tell(event: Event) -> None:
        if isinstance(event, Committed) and what == "add":
            print(event.source, event.document_id, sep="\t", flush=True)
        elif isinstance(event, Synced):
            print("synced", flush=True)

    if what == "pull":
        store = model_store(base)
        print("started", flush=True)
        pull(store, ["toy"])
        print("finished", flush=True)
        return
    print("started", flush=True)
    with open_library(base / "library") as library:
        now = chunking_of(library)
        if what == "add":
            make_indexer(library, 0.02, now).add([base / "files"], tell, timeout=60)
        elif what == "rebuild":
            (other,) = set(CHUNKERS) - {now}
            make_indexer(library, 0.02, other).rebuild(tell, timeout=60)
        else:
            for source in (base / "todo").read_text(encoding="utf-8").splitlines():
                library.remove(sources=[source], timeout=60)
                print(source, "removed", sep="\t", flush=True)
    print("finished", flush=True)


def run_and_kill(what: str, base: Path, delay: float) -> tuple[dict[str, str], bool]:
    """What the process reported, by source, and whether it had finished before the kill."""
    command = [sys.executable, __file__, "--child", what, str(base)]
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
        chunker = CHUNKERS[chunking_of(library)]
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
            if document is None or stored != chunker.chunk(document):
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
    inspection = check_library(directory, tokenize=Tokenizer(), passage_text=passage_text)
    return wrong + [finding.text for finding in inspection.findings if finding.damage]


def round_of_library(what: str, base: Path, draw: random.Random, delay: float) -> Outcome:
    """One kill of add, remove or rebuild, and the same again without one."""
    directory, files = base / "library", base / "files"
    chosen: list[Path] = []
    if what == "add":
        change_files(files, draw, draw.getrandbits(40))
    elif what == "remove":
        held = sorted(files.iterdir())
        chosen = draw.sample(held, min(25, len(held)))
        (base / "todo").write_text("\n".join(map(str, chosen)), encoding="utf-8")
    reported, finished = run_and_kill(what, base, delay)
    added = reported if what == "add" else {}
    wrong = check(directory, added, complete=files if finished and what == "add" else None)
    with open_library(directory) as library:
        here = {record.state.path for record in library.sources()}
        wrong += [
            f"{source} was removed and is here"
            for source in reported
            if what != "add" and source in here
        ]
        held_bytes = b"".join(p.read_bytes() for p in directory.rglob("*") if p.is_file())
        for path in chosen:
            term = path.read_text(encoding="utf-8").split()[0].encode()
            if str(path) not in here:
                if term in held_bytes or path.name.encode() in held_bytes:
                    wrong.append(f"{path.name} was removed and is still in a file")
                path.unlink()
        now = chunking_of(library)
        report = make_indexer(library, 0, now).add([files])
        if what == "rebuild":
            make_indexer(library, 0, now).rebuild()
    wrong += [str(failure) for failure in report.failed]
    wrong += check(directory, added, complete=files)
    return reported, finished, wrong


def round_of_pull(base: Path, delay: float) -> Outcome:
    """One kill of a pull: the model is not there or whole, and the next pull brings it."""
    store = model_store(base)
    reported, finished = run_and_kill("pull", base, delay)
    wrong: list[str] = []
    for last in (False, True):
        if last:
            pull(store, ["toy"])
        try:
            folder = store.path("toy")
        except ModelError as error:
            wrong += [str(error)] if finished or last else []
            continue
        for file in sorted((base / "stick").iterdir()):
            if (folder / file.name).read_bytes() != file.read_bytes():
                wrong.append(f"{file.name} is installed with other bytes")
    store.remove("toy")
    return reported, finished, wrong


def kill_test(kills: int, seed: int, operations: Sequence[str]) -> list[str]:
    """Run all rounds and return what went wrong."""
    draw = random.Random(seed)
    wrong: list[str] = []
    longest = {"add": 2.0, "remove": 2.0, "rebuild": 2.0, "pull": 0.5}
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="localrag-kill-", ignore_cleanup_errors=True) as name:
        base = Path(name)
        (base / "files").mkdir()
        with open_library(base / "library") as library:
            change_files(base / "files", draw, 0)
            make_indexer(library, 0).add([base / "files"])
        while counts.total() < kills and not wrong:
            what = draw.choice(list(operations))
            delay = draw.uniform(0, longest[what])
            if what == "pull":
                reported, finished, wrong = round_of_pull(base, delay)
            else:
                reported, finished, wrong = round_of_library(what, base, draw, delay)
            if finished:
                longest[what] = max(0.2, 0.8 * longest[what])  # too late: aim earlier
            counts[what] += not finished
            state = "finished" if finished else f"killed after {delay:.2f} s"
            print(
                f"{counts.total()}/{kills}: {what} {state}, {len(reported)} reported: "
                f"{wrong or 'all in order'}",
                flush=True,
            )
    print(f"kills: {dict(counts)}")
    return wrong


def main() -> None:
    """Parse the command line; exit with 1 if anything is wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--what", action="append", choices=OPERATIONS, help="default: all")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child[0], Path(arguments.child[1]))
        return
    print(f"seed {arguments.seed}")
    operations = arguments.what or OPERATIONS
    sys.exit(1 if kill_test(arguments.kills, arguments.seed, operations) else 0)


if __name__ == "__main__":
    main()
