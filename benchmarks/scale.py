"""What a library costs as it grows: building, opening, searching, one change, memory, disk.

    python benchmarks/scale.py --passages 100000 [--set DATA/cmrc2018 ...] [--against CHECKOUT]
    python benchmarks/scale.py --passages 100000 --alone     both indexes without a library
    python benchmarks/scale.py --passages 10000 --steps build,traces [--without-keywords]
        [--changes 1000]
    python benchmarks/scale.py --plot scale.svg OUT...       what it printed for several sizes

Vectors are those of the passages of the retrieval sets (embedded once, then kept in localrag's
cache), each repeated with jitter until there are enough; without sets they are random. Texts are
words drawn by Zipf's law, 95 a passage, five passages a file. Each step runs in a process of its
own. With --against, the code of another checkout does the same on the same data in turn. `traces`
makes random additions, changes and removals, and looks for every removed document in the
bytes of every file; `unchanged` adds a folder of as many files as the library has, again. What it
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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

ALONE = "alone"
"""In the name of a folder that holds an index only."""

WITHOUT_KEYWORDS = "without-keywords"
"""A file that says that the keyword index is left out."""

DIMENSION, PER_FILE, WORDS, QUERIES = 512, 5, 95, 200
COMMON = 28
CHANGES = 1000
"""Of a library, by `traces`."""
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
        token = token_of(first)
        texts = [f"{token} {words(draw, WORDS)}" for _ in range(PER_FILE)]
        text = "\n".join(texts)
        name = hashlib.sha256(text.encode()).hexdigest()
        chunks, end = [], 0
        for position, one in enumerate(texts):
            chunks.append(Chunk(hash_of(one), name, position, one, "", 1, 1, end, end + len(one)))
            end += len(one) + 1
        yield NewDocument(
            document=Document(name, path_of(first), token, (Page(1, text),)),
            states=[FileState(path_of(first), len(text), 1, 2)],
            size=len(text),
            language="en",
            chunking="scale",
            chunks=chunks,
            vectors=passages_of(folder, first, PER_FILE),
        )


def token_of(first: int) -> str:
    """What stands in the text, the title and the path of one file, and nowhere else."""
    return hashlib.sha256(f"file {first}".encode()).hexdigest()[:16]


def path_of(first: int) -> str:
    return f"/files/{token_of(first)}.txt"


class NoKeywords:
    """In the place of the keyword index: what the rest costs."""

    persistent = False

    def __init__(self) -> None:
        self.stamp = ("", 0)
        self._ids: set[int] = set()

    def saved(self, _) -> None:
        return None

    def open(self, _) -> None:
        pass

    def apply(self, removed, added, stamp, _=None) -> None:
        self._ids -= set(removed)
        self._ids |= {number for number, _ in added}
        self.stamp = stamp

    def chunk_set(self):
        from localrag.library.records import ID_SUMS, ChunkSet

        return ChunkSet(len(self._ids), sum(self._ids) % ID_SUMS)

    def erase(self, at, _=None) -> bool:
        from localrag.library.folder.gate import clear_index

        return clear_index(at.path)


class Leg:
    """An index in its folder, without a library around it."""

    def __init__(self, place: Path, index, numbered) -> None:
        from localrag.library.indexes.base import Storage
        from localrag.system.seals import own_seal

        self.index, self.numbered = index, numbered
        self.at = Storage(place, own_seal())
        self.search = getattr(index, "search", None) or index.candidates

    def current(self) -> None:
        self.index.open(self.at)

    def changed(self, removed: Sequence[int], added: Iterator) -> None:
        self.index.apply(removed, added, ("scale", self.index.stamp[1] + 1), self.at)


class Alone:
    """Both indexes."""

    def __init__(self, folder: Path, made) -> None:
        library = folder / "library"
        library.mkdir(exist_ok=True)
        self.vectors = Leg(library / "vectors", made.vectors(), partial(numbered, folder))
        self.keywords = Leg(library / "keywords", made.keywords(), numbered_terms)

    def __enter__(self) -> Alone:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def numbered(folder: Path, start: int, count: int) -> Iterator[tuple[int, np.ndarray]]:
    """Ids, as good as random, and vectors."""
    for first in range(start, start + count, PER_FILE):
        for place, vector in enumerate(passages_of(folder, first, PER_FILE), first):
            yield hash_of(f"{place}"), vector


def numbered_terms(start: int, count: int) -> Iterator[tuple[int, list[str]]]:
    """The same ids, and words."""
    for first in range(start, start + count, PER_FILE):
        draw = np.random.default_rng(first)
        for place in range(first, first + PER_FILE):
            yield hash_of(f"{place}"), words(draw, WORDS).split()


def questions_of(passages: int) -> dict[str, list[list[str]]]:
    """Words of a passage each: three rarer ones, the same with five common ones, and twenty."""
    draw = np.random.default_rng(8)
    found: dict[str, list[list[str]]] = {"3 rarer": [], "3 rarer, 5 common": [], "20 words": []}
    while len(found["20 words"]) < QUERIES:
        first = int(draw.integers(0, passages)) // PER_FILE * PER_FILE
        held = list(dict.fromkeys(words(np.random.default_rng(first), WORDS).split()))
        # Of the words drawn so, the first 28 stand in more than a fifth of all passages.
        common = [one for one in held if int(one[1:]) <= COMMON]
        rare = [one for one in held if int(one[1:]) > COMMON]
        if len(common) < 5 or len(rare) < 15:
            continue
        found["3 rarer"].append(rare[:3])
        found["3 rarer, 5 common"].append([*rare[:3], *common[:5]])
        found["20 words"].append([*common[:5], *rare[:15]])
    return found


def hash_of(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def opened(folder: Path, rescored: int | None = None):
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
    if (folder / WITHOUT_KEYWORDS).exists():
        made = Indexes(made.vectors, NoKeywords, made.tokenize, lambda _: "")
    if ALONE in folder.parts[-1]:
        return Alone(folder, made)
    # That of the model, so that the commands take the library; its vectors are made up.
    embedding = EmbeddingIdentity(**json.loads((folder / "embedding.json").read_text("utf-8")))
    return Library.open(folder / "library", create=True, embedding=embedding, indexes=made)


def build(folder: Path, passages: int) -> dict[str, float]:
    if ALONE in folder.parts[-1]:
        found: dict[str, float] = {}
        for name in LEGS:
            leg = getattr(opened(folder), name)
            # Making the data up is no part of it.
            used = time.process_time()
            sum(1 for _ in leg.numbered(0, passages))
            made = time.process_time() - used
            started, used = time.perf_counter(), time.process_time()
            leg.changed((), leg.numbered(0, passages))
            found |= {
                f"build: {name} s, with making the data": time.perf_counter() - started,
                f"build: {name} CPU s": time.process_time() - used - made,
                f"disk: {name} MB": size_of(folder, name),
            }
        return found
    found = {}
    tenths: list[dict[str, float]] = []

    def timed(name: str, call) -> None:
        began, used = time.perf_counter(), time.process_time()
        call()
        spent = {"s": time.perf_counter() - began, "CPU s": time.process_time() - used}
        for unit, seconds in spent.items():
            of = f"{name} {unit}"
            tenths[-1][of] = tenths[-1].get(of, 0.0) + seconds

    # As `add` does it: one writer from beginning to end, batches, and indexes that follow.
    with opened(folder) as library, library.writing():
        for start in range(0, passages, 1000):
            if len(tenths) <= 10 * start // passages:
                tenths.append({})
            batch = list(documents(folder, start, min(1000, passages - start)))
            timed("catalogue", partial(library.add, batch))
            if 10 * (start + 1000) // passages >= len(tenths):
                for name in LEGS:
                    timed(name, partial(getattr(library, name).current, keep=True))
    from localrag.library.folder.gate import folder_size

    for name in tenths[0]:
        found[f"build: {name}"] = sum(one[name] for one in tenths)
    for name, one in (("first", tenths[0]), ("last", tenths[-1])):
        found |= {f"build: {name} tenth, {of}": spent for of, spent in one.items()}
        for unit in (" s", " CPU s"):
            spent = sum(one[of + unit] for of in ("catalogue", *LEGS))
            found[f"build: {name} tenth, all{unit}"] = spent
    return found | {
        **{
            f"disk: {name} MB": size_of(folder, name)
            for name in LEGS
            if (folder / "library" / name).exists()
        },
        "disk: all MB": folder_size(folder / "library") / 1e6,
    }


def size_of(folder: Path, name: str) -> float:
    from localrag.library.folder.gate import folder_size

    place = folder / "library" / name
    return (folder_size(place) if place.is_dir() else place.stat().st_size) / 1e6


def asked(folder: Path, passages: int) -> dict[str, list]:
    """What each leg is asked."""
    return {"vectors": list(queries_of(folder, passages))} | {
        f"keywords, {name}": some for name, some in questions_of(passages).items()
    }


def cold(folder: Path, passages: int) -> dict[str, float]:
    found: dict[str, float] = {}
    import faiss  # noqa: F401 - takes the same time everywhere

    for name, queries in list(asked(folder, passages).items())[:2]:
        started, used = time.perf_counter(), time.process_time()
        with opened(folder) as library:
            leg = getattr(library, name.split(",")[0])
            leg.current()
            current, current_used = time.perf_counter(), time.process_time()
            leg.search(queries[0], 100)
            searched, searched_used = time.perf_counter(), time.process_time()
        found |= {
            f"cold: {name}: open ms": (current - started) * 1e3,
            f"cold: {name}: open, CPU ms": (current_used - used) * 1e3,
            f"cold: {name}: first search ms": (searched - current) * 1e3,
            f"cold: {name}: first search, CPU ms": (searched_used - current_used) * 1e3,
        }
    return found


def warm(folder: Path, passages: int) -> dict[str, float]:
    found: dict[str, float] = {}
    with opened(folder) as library:
        for name, queries in asked(folder, passages).items():
            leg = getattr(library, name.split(",")[0])
            leg.current()
            leg.search(queries[0], 100)
            taken = [_seconds(partial(leg.search, query, 100)) for query in queries]
            for percentile in (50, 95, 99):
                milliseconds = float(np.percentile(taken, percentile)) * 1e3
                found[f"warm: {name}: p{percentile} ms"] = milliseconds
    return found


def both(folder: Path, passages: int) -> dict[str, float]:
    """The legs of a search in turn, and side by side as `HybridRetriever` asks them."""
    questions = asked(folder, passages)
    taken: dict[str, list[float]] = {"in turn": [], "side by side": []}
    with opened(folder) as library:
        library.vectors.current()
        library.keywords.current()
        pairs = zip(questions["vectors"], questions["keywords, 3 rarer, 5 common"], strict=True)
        for vector, terms in pairs:
            calls = (
                partial(library.vectors.search, vector, 100),
                partial(library.keywords.search, terms, 100),
            )

            def at_once(calls=calls) -> None:
                with ThreadPoolExecutor(1) as pool:
                    running = pool.submit(calls[1])
                    calls[0]()
                    running.result()

            taken["in turn"].append(_seconds(lambda calls=calls: [call() for call in calls]))
            taken["side by side"].append(_seconds(at_once))
    return {
        f"both legs: {name}, p50 ms": float(np.median(one)) * 1e3 for name, one in taken.items()
    }


def callers(folder: Path, passages: int) -> dict[str, float]:
    """Searches of both legs, the same ones from 1, 4 and 16 threads."""
    questions = asked(folder, passages)
    pairs = list(zip(questions["vectors"], questions["keywords, 3 rarer, 5 common"], strict=True))
    found: dict[str, float] = {}
    with opened(folder) as library:
        library.vectors.current()
        library.keywords.current()

        def search(pair) -> float:
            started = time.perf_counter()
            library.vectors.search(pair[0], 100)
            library.keywords.search(pair[1], 100)
            return time.perf_counter() - started

        for pair in pairs[:5]:
            search(pair)
        for count in (1, 4, 16):
            started = time.perf_counter()
            with ThreadPoolExecutor(count) as pool:
                taken = list(pool.map(search, pairs * 2))
            rate = len(taken) / (time.perf_counter() - started)
            found[f"{count} callers: searches a second"] = rate
            for percentile in (50, 95, 99):
                milliseconds = float(np.percentile(taken, percentile)) * 1e3
                found[f"{count} callers: p{percentile} ms"] = milliseconds
    return found


def _seconds(call) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def recall(folder: Path, passages: int) -> dict[str, float]:
    """Of the 10 and the 100 that are nearest of all, how many are found."""
    found: dict[str, float] = {}
    queries = queries_of(folder, passages)

    def nearest(rescored: int) -> list[list[int]]:
        with opened(folder, rescored) as library:
            library.vectors.current()
            rows = [library.vectors.search(query, 100) for query in queries]
            # Without a library these are ids, to be compared by the vectors of the catalogue.
            return [[getattr(hit, "chunk_id", hit) for hit in row] for row in rows]

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
        for name in LEGS:
            leg = getattr(library, name)
            leg.current()
            for turn in range(5):
                if ALONE in folder.parts[-1]:
                    old = [number for number, _ in leg.numbered(turn * PER_FILE, PER_FILE)]
                    new = list(leg.numbered(passages + turn * PER_FILE, PER_FILE))
                    timed(f"change: {name}, add", partial(leg.changed, (), new))
                    timed(f"change: {name}, remove", partial(leg.changed, old, ()))
                    erase = partial(leg.index.erase, leg.at, leg.index.stamp)
                    timed(f"change: {name}, purge", erase)
                    continue
                start = passages + (turn + LEGS.index(name) * 5) * PER_FILE
                library.add(list(documents(folder, start, PER_FILE)))
                timed(f"change: {name}, add", lambda leg=leg: leg.current(keep=True))
                with library._catalogue.write() as transaction:
                    transaction.remove_source(path_of(start - passages))
                    stamp = transaction.stamp()
                timed(f"change: {name}, remove", lambda leg=leg: leg.current(keep=True))
                timed(f"change: {name}, purge", partial(leg.erase, stamp))
    return {name: float(np.median(values)) for name, values in times.items()}


def commands(folder: Path, _: int) -> dict[str, float]:
    """Whole processes, from the command line to its end: the median of three."""
    times: dict[str, list[float]] = {}
    file = folder / "one.txt"

    def run(name: str, *arguments: str) -> None:
        command = [sys.executable, "-m", "localrag", *arguments]
        started = time.perf_counter()
        done = subprocess.run(
            [*command, "--library", str(folder / "library")], capture_output=True, check=False
        )
        times.setdefault(f"command: {name} s", []).append(time.perf_counter() - started)
        if done.returncode:
            raise SystemExit(done.stderr.decode())

    for turn in range(3):
        run("search", "search", f"w10 w2000 w{77777 + turn}")
        file.write_text(f"one file {turn}", "utf-8")
        run("add", "add", str(file))
        file.write_text(f"another version {turn}", "utf-8")
        run("change", "add", str(file))
        run("remove", "remove", str(file))
    return {name: float(np.median(values)) for name, values in times.items()}


def unchanged(folder: Path, passages: int) -> dict[str, float]:
    """`add` of a folder in which nothing has changed, by the indexer alone."""
    from localrag.documents.files import parse_file
    from localrag.indexing.indexer import Indexer
    from localrag.library.records import FileState, NewDocument
    from localrag.types import Chunk, Document, Page

    files, before = folder / "files", time.time() - 86_400
    inner = folder / "unchanged"
    inner.mkdir()
    for name in ("base.npy", "embedding.json"):
        (inner / name).symlink_to(folder / name)
    (inner / WITHOUT_KEYWORDS).touch()
    with opened(inner) as library:
        batch = []
        for number in range(passages // PER_FILE):
            path, text = files / str(number // 1000) / f"{number}.txt", f"file {number}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
            os.utime(path, (before, before))
            state = path.stat()
            name = hashlib.sha256(text.encode()).hexdigest()
            state = FileState(
                str(path), state.st_size, state.st_mtime_ns, time.time_ns(), (str(path),)
            )
            chunk = Chunk(hash_of(text), name, 0, text, "", 1, 1, 0, len(text))
            parsed = Document(name, str(path), text, (Page(1, text),))
            vectors = passages_of(folder, number, 1)
            batch.append(NewDocument(parsed, [state], len(text), "en", "scale", [chunk], vectors))
            if len(batch) == 1000:
                library.add(batch)
                batch.clear()
        library.add(batch)
        library.sync()
        indexer = Indexer(
            library,
            chunker=None,
            chunking="scale",
            embedder=None,
            embedding=library.embedding,
            detect_language=lambda _: "en",
            parse=parse_file,
        )
        started = time.perf_counter()
        report = indexer.add([files])
        seconds = time.perf_counter() - started
    if len(report.unchanged) != passages // PER_FILE:
        raise SystemExit(f"{len(report.unchanged)} unchanged, {report.failed[:1]}")
    return {"unchanged: files": passages // PER_FILE, "unchanged: add s": seconds}


def traces(folder: Path, passages: int) -> dict[str, float]:
    """Random additions, changes and removals; nothing of what went is in any file."""
    from localrag.library.indexes.faiss import Rows
    from localrag.library.indexes.rabitq import one_bit_codes

    draw = np.random.default_rng(11)
    alive = list(range(0, passages, PER_FILE))
    held = {first: first for first in alive}
    """By the file that gave the path, the file whose content lies there."""
    gone: list[int] = []
    seconds: list[float] = []
    following = passages
    with opened(folder) as library:
        for _ in range(CHANGES):
            what = draw.choice(["add", "change", "remove"])
            place = int(draw.choice(list(held)[-2000:] if draw.random() < 0.5 else list(held)))
            began = time.perf_counter()
            if what == "remove":
                library.remove(sources=[path_of(place)])
                gone.append(held.pop(place))
            else:
                (new,) = documents(folder, following, PER_FILE)
                if what == "change":
                    gone.append(held[place])
                    new = replace(new, states=[replace(new.states[0], path=path_of(place))])
                    held[place] = following
                else:
                    held[following] = following
                library.add([new])
                library.sync()
                library.purge_if_due()
                following += PER_FILE
            seconds.append(time.perf_counter() - began)
        left = {path_of(place) for place in held} | {path_of(one) for one in held.values()}
        needles: dict[bytes, str] = {}
        for first in gone:
            (old,) = documents(folder, first, PER_FILE)
            if path_of(first) not in left:
                needles[token_of(first).encode()] = f"words of {first}"
            needles[old.document.id.encode()] = f"id of {first}"
            for chunk, vector in zip(old.chunks, old.vectors, strict=True):
                rounded = vector.astype("<f2")
                code = one_bit_codes(len(vector)).encode(rounded.astype(np.float32)[None])
                needles[chunk.id.to_bytes(8, "big")] = f"id of a passage of {first}"
                needles[chunk.id.to_bytes(8, "little")] = f"id of a passage of {first}"
                needles[varint(chunk.id)] = f"id of a passage of {first}, as a row's"
                needles[rounded.tobytes()[:32]] = f"vector of {first}"
                needles[rounded.astype(np.float32).tobytes()[:32]] = f"vector of {first}"
                needles[code.tobytes()] = f"code of {first}"
                (levels,) = Rows.of(np.array([0]), vector[None]).levels
                needles[levels.tobytes()[:32]] = f"levels of {first}"
        found = [
            (path.name, what)
            for path in sorted((folder / "library").rglob("*"))
            if path.is_file()
            for what in within(path, needles)
        ]
    if found:
        raise SystemExit(f"{len(found)} traces: {found[:10]}")
    return {
        "traces: removed documents": len(gone),
        "traces: looked for": len(needles),
        "traces: found": len(found),
        "traces: one change, median s": float(np.median(seconds)),
        "traces: one change, p95 s": float(np.percentile(seconds, 95)),
    }


def varint(number: int) -> bytes:
    """A positive number of more than 56 bits as SQLite stores the key of a row."""
    high, low = divmod(number, 256)
    return bytes([*(high >> 7 * place & 127 | 128 for place in range(7, -1, -1)), low])


def within(path: Path, needles: dict[bytes, str]) -> Iterator[str]:
    """What of all of it is in a file: looked up by eight bytes at every place."""
    content = path.read_bytes()
    starts: dict[int, list[bytes]] = {}
    for needle in needles:
        starts.setdefault(int.from_bytes(needle[:8], "little"), []).append(needle)
    sought = np.sort(np.array(list(starts), dtype=np.uint64))
    for shift in range(8):
        length = (len(content) - shift) // 8 if len(content) >= shift else 0
        for begin in range(0, length, 1 << 20):
            count = min(1 << 20, length - begin)
            words_ = np.frombuffer(content, "<u8", count, shift + 8 * begin)
            places = np.minimum(np.searchsorted(sought, words_), len(sought) - 1)
            for place in np.flatnonzero(sought[places] == words_):
                start = shift + 8 * (begin + int(place))
                for needle in starts[int(words_[place])]:
                    if content.startswith(needle, start):
                        yield needles[needle]


STEPS = (build, cold, warm, both, callers, change, recall)
LEGS = ("vectors", "keywords")
MORE = (commands, unchanged, traces)


def measured(
    checkout: Path, step: str, folder: Path, passages: int, changes: int
) -> dict[str, float]:
    """A step in a process of its own, with the code of a checkout."""
    command = [sys.executable, __file__, "--passages", str(passages), "--step", step]
    command += ["--changes", str(changes)]
    path = [str(checkout), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
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


def identity() -> dict[str, object]:
    """That of the model in the settings; one of our own where there is none here."""
    from dataclasses import asdict

    from localrag import factory
    from localrag.config.settings import Settings
    from localrag.errors import LocalragError

    try:
        embedder = factory.make_embedder(Settings(), factory.make_models())
        return asdict(factory.identity_of(embedder, Settings()))
    except LocalragError:
        return {"fingerprint": "scale", "name": "scale", "dimension": DIMENSION}


PANELS = (
    ("One search (ms)", ("1 callers: p50 ms", "1 callers: p95 ms", "16 callers: p50 ms")),
    ("Whole commands (s)", ("command: search s", "command: add s", "command: remove s")),
    ("Building (s)", ("build: catalogue s", "build: vectors s", "build: keywords s")),
    ("Memory and disk (MB)", ("memory: callers MB", "memory: build MB", "disk: all MB")),
)
COLOURS = ("#1b6ca8", "#d1495b", "#3f8f4f")


def plotted(results: Sequence[dict[str, float]]) -> str:
    """Cost against size as an SVG, both by their logarithms; each has its "passages"."""
    sizes = [one["passages"] for one in results]
    width, height, parts = 300, 220, []

    def scaled(value: float, low: float, high: float, length: int) -> float:
        return length * (np.log10(value) - np.log10(low)) / (np.log10(high) - np.log10(low))

    for number, (title, rows) in enumerate(PANELS):
        left, top = 70 + number % 2 * (width + 110), 50 + number // 2 * (height + 110)
        values = [one[row] for one in results for row in rows]
        low, high = (10.0 ** round_(np.log10(each(values))) for round_, each in ENDS)
        parts.append(f'<text x="{left}" y="{top - 14}" font-size="15">{title}</text>')
        power = low
        while power <= high * 1.001:
            y = top + height - scaled(power, low, high, height)
            parts.append(f'<path d="M{left} {y:.1f}h{width}" stroke="#ddd"/>')
            parts.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{power:g}</text>')
            power *= 10
        for size in sizes:
            x = left + scaled(size, min(sizes), max(sizes), width)
            label = f'<text x="{x:.1f}" y="{top + height + 18}" text-anchor="middle">'
            parts.append(f"{label}{size / 1000:g}k</text>")
        for place, (row, colour) in enumerate(zip(rows, COLOURS, strict=True)):
            points = [
                f"{left + scaled(one['passages'], min(sizes), max(sizes), width):.1f},"
                f"{top + height - scaled(one[row], low, high, height):.1f}"
                for one in results
            ]
            line = f'fill="none" stroke="{colour}" stroke-width="2"'
            parts.append(f'<polyline points="{" ".join(points)}" {line}/>')
            y = top + height + 36 + 15 * place
            parts.append(f'<text x="{left}" y="{y}" fill="{colour}">{row}</text>')
    whole = f"{2 * width + 220} {2 * height + 240}"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {whole}" '
    ground = '<rect width="100%" height="100%" fill="white"/>'
    return "\n".join(
        [f'{head}font-family="sans-serif" font-size="12">', ground, *parts, "</svg>\n"]
    )


ENDS = ((np.floor, min), (np.ceil, max))


def printed(path: Path) -> dict[str, float]:
    """What a run has printed."""
    first, *rows = path.read_text("utf-8").splitlines()
    cells = [row.strip("| ").rpartition("|") for row in rows]
    return {"passages": float(first.split()[0])} | {
        name.strip(): float(value) for name, _, value in cells
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--passages", type=int)
    parser.add_argument("--plot", type=Path, nargs="+", metavar="FILE", help="SVG, results")
    parser.add_argument("--set", dest="sets", type=Path, action="append", default=[])
    parser.add_argument("--alone", action="store_true", help="both indexes without a library")
    parser.add_argument("--against", type=Path, help="another checkout of localrag")
    parser.add_argument("--steps", help="of build, cold, warm, both, callers, change, recall, ...")
    parser.add_argument("--without-keywords", action="store_true")
    parser.add_argument("--step", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--changes", type=int, default=CHANGES, help="that `traces` makes")
    chosen = parser.parse_args()
    if chosen.plot:
        results = sorted(map(printed, chosen.plot[1:]), key=lambda one: one["passages"])
        chosen.plot[0].write_text(plotted(results), "utf-8")
        return
    if chosen.passages is None:
        parser.error("--passages or --plot is needed")
    if chosen.step:
        step = next(one for one in (*STEPS, *MORE) if one.__name__ == chosen.step)
        globals()["CHANGES"] = chosen.changes
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
            (folder / "embedding.json").write_text(json.dumps(identity()), "utf-8")
            if chosen.without_keywords:
                (folder / WITHOUT_KEYWORDS).touch()
        names = chosen.steps.split(",") if chosen.steps else [one.__name__ for one in STEPS]
        for step in (one for one in (*STEPS, *MORE) if one.__name__ in names):
            results = {
                name: measured(
                    checkout, step.__name__, folders[name], chosen.passages, chosen.changes
                )
                for name, checkout in checkouts.items()
                if step is not recall or name == "here"
            }
            for row in results["here"]:
                cells = [f"{found[row]:10.3f}" for found in results.values() if row in found]
                print(f"| {row} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
