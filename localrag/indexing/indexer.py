"""Parse, cut, embed and store: files into a library.

A document is reported when its transaction has committed and not before. The vector and the
keyword index follow from time to time; a process that is killed in between loses nothing, as the
next one that opens the library catches up.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import KW_ONLY, dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localrag.documents.chunking import Chunker, passage_text
from localrag.documents.files import read_bytes, unreadable, walk
from localrag.documents.worker import storable
from localrag.errors import ParsingError
from localrag.indexing.events import (
    AddReport,
    Committed,
    Embedded,
    Event,
    Failed,
    Found,
    Linked,
    Parsed,
    Progress,
    Removed,
    Synced,
    Unchanged,
    Vanished,
)
from localrag.library.folder.locking import PATIENCE, OnWait
from localrag.library.library import Library
from localrag.library.records import EmbeddingIdentity, FileState, NewDocument, SourceRecord
from localrag.models.embeddings.base import Embedder
from localrag.types import Chunk, Document

BATCH = 128
"""Chunks that are embedded together: small documents share a batch, a large one fills several."""

SYNC_SECONDS = 20.0
"""How often the indexes follow during a long add, at least."""

SYNC_SHARE = 10
"""An add spends at most one part in so many on letting the indexes follow."""

RACY_NS = 2_000_000_000
"""The coarsest clock of a file system in use (FAT): a younger file may still change unnoticed."""

LANGUAGE_SAMPLE = 20_000
"""Code points that the language of a document is judged by."""

_LINKS = 64
"""Paths that a chain of links is followed over; the system itself gives up at forty."""

Parse = Callable[[Path, bytes], Document]
Read = Callable[[Path], bytes]


def _ignore(_: Event) -> None:
    """Tell nobody."""


@dataclass(slots=True)
class _Run:
    """One add or rebuild under way."""

    progress: Progress
    hold: Callable[[], AbstractContextManager[None]] = nullcontext
    """Holds the library for writing, where the run does not hold it all the time."""
    told: dict[type[Event], list[Any]] = field(default_factory=lambda: defaultdict(list))
    skipped: list[ParsingError] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    pending: dict[str, NewDocument] = field(default_factory=dict)
    """Documents that wait for their vectors, by id."""
    known: dict[str, SourceRecord] = field(default_factory=dict)
    """What the library held of these files before, by path."""
    touched: list[tuple[FileState, str]] = field(default_factory=list)
    folders: dict[str, bool] = field(default_factory=dict)
    """Whether no link leads to a folder, for those that were met."""
    synced_at: float = field(default_factory=time.monotonic)
    sync_took: float = 0.0

    def tell(self, event: Event) -> None:
        """Keep the outcome and pass it on."""
        self.told[type(event)].append(event)
        self.progress(event)

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Add the time of a block to a phase."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[phase] += time.perf_counter() - started

    def origins(self, path: Path) -> tuple[str, ...]:
        """`origins`, of many files in few folders and as it was when the folder was first met."""
        absolute = os.path.abspath(path)  # noqa: PTH100 - Path.absolute leaves ".." in
        folder = os.path.dirname(absolute)  # noqa: PTH120 - of many
        if folder not in self.folders:
            self.folders[folder] = os.path.realpath(folder) == folder
        if self.folders[folder] and not os.path.islink(absolute):  # noqa: PTH114 - of many
            return (_storable(absolute),)
        return origins(path)

    def waiting(self) -> int:
        """Chunks that wait for their vectors."""
        return sum(len(one.chunks) for one in self.pending.values())

    def sources(self, kind: type[Unchanged | Vanished | Removed]) -> tuple[str, ...]:
        """The paths of one outcome."""
        return tuple(event.source for event in self.told[kind])

    def report(self) -> AddReport:
        return AddReport(
            committed=tuple(self.told[Committed]),
            linked=tuple(self.told[Linked]),
            unchanged=self.sources(Unchanged),
            failed=tuple(self.told[Failed]),
            skipped=tuple(self.skipped),
            vanished=self.sources(Vanished),
            removed=self.sources(Removed),
            seconds=dict(self.seconds),
        )


@dataclass(slots=True)
class Indexer:
    """Adds files to one library with one way of cutting and one embedding model.

    `chunking` identifies the chunker and its settings, `embedding` the embedder.
    """

    library: Library
    _: KW_ONLY
    chunker: Chunker
    chunking: str
    embedder: Embedder
    embedding: EmbeddingIdentity
    detect_language: Callable[[str], str]
    parse: Parse
    read: Read = read_bytes

    def add(
        self,
        paths: Sequence[Path],
        progress: Progress = _ignore,
        *,
        prune: bool = False,
        timeout: float = PATIENCE,
        on_wait: OnWait | None = None,
    ) -> AddReport:
        """Bring the library up to the files at and below `paths`.

        The SHA-256 of the bytes decides what has changed. A file whose size and modification
        time are those of its last reading is not read again, unless it was changed less than two
        seconds before that reading. Files that cannot be read are reported and do not stop the
        rest. Files of an added folder that are gone are reported, and with `prune` removed.

        Raises LibraryMismatchError for a library of another embedding model, LibraryLockedError
        when another process writes for longer than `timeout` seconds (-1: waits), UsageError for
        a path that does not exist. Whatever is raised, all that was reported as committed stays.
        """
        library, run = self.library, _Run(progress)
        with library.writing(timeout, on_wait):
            library.expect(self.embedding)
            files = list(walk(paths, run.skipped, library=library.directory))
            run.tell(Found(len(files)))
            run.known = {record.state.path: record for record in library.sources()}
            self._take_all(files, run)
            for source in gone_from(paths, run.known.keys() - map(storable_path, files)):
                run.tell(Vanished(source))
            self._sync(run)
            if prune and (vanished := run.sources(Vanished)):
                library.remove(sources=vanished)
                for source in vanished:
                    run.tell(Removed(source))
            else:
                library.purge_if_due()
        return run.report()

    def update(self, files: Iterable[Path], progress: Progress, on_wait: OnWait) -> None:
        """Bring the library up to some files, without bringing the indexes up at the end.

        For whoever goes on for days: unlike `add` it holds the library only while it stores a
        batch, and waits as long as another process holds it.
        """
        library = self.library
        run = _Run(progress, hold=lambda: library.writing(-1, on_wait))

        def known() -> Iterator[Path]:
            for path in files:
                if record := library.source(storable_path(path)):
                    run.known[record.state.path] = record
                yield path

        library.expect(self.embedding)
        self._take_all(known(), run)

    def rebuild(
        self,
        progress: Progress = _ignore,
        *,
        timeout: float = PATIENCE,
        on_wait: OnWait | None = None,
    ) -> AddReport:
        """Make the library what adding all its documents now, with these settings, would make it.

        Works from the stored text, so the files need not be there. Where embedding model or
        chunking differ, or where passages or vectors are not what was stored (damage on disk),
        every document is cut and embedded anew; the old answers stand until
        all is done, and a rebuild that was cut off goes on where it stopped. Otherwise only the
        vector and the keyword index are written anew. The library may have been opened with
        `embedding` None.
        """
        library, run = self.library, _Run(progress)
        with library.writing(timeout, on_wait):
            library.mend()
            status = library.status()
            same_model = status.embedding.fingerprint == self.embedding.fingerprint
            same = same_model and set(status.chunkings) <= {self.chunking}
            if same and library.passages_are_sound():
                with run.timed("index"):
                    library.rebuild_indexes()
                return run.report()
            todo = library.begin_rebuild(f"{self.embedding.fingerprint}\n{self.chunking}")
            run.tell(Found(len(todo)))
            batch: list[tuple[Document, list[Chunk]]] = []
            for place, document_id in enumerate(todo, start=1):
                document = library.document(document_id)
                assert document is not None  # noqa: S101 - nobody else may write meanwhile
                with run.timed("chunk"):
                    chunks = self.chunker.chunk(document)
                run.tell(Parsed(document.source, len(document.pages), len(chunks)))
                batch.append((document, chunks))
                if place == len(todo) or sum(len(chunks) for _, chunks in batch) >= BATCH:
                    self._stage(batch, run)
                    batch = []
            with run.timed("index"):
                library.finish_rebuild(self.embedding, self.chunking)
        return run.report()

    def _take_all(self, files: Iterable[Path], run: _Run) -> None:
        for path in files:
            self._take(path, run)
            if run.waiting() >= BATCH or len(run.touched) >= BATCH:
                self._flush(run)
                self._sync_if_due(run)
        self._flush(run)

    def _take(self, path: Path, run: _Run) -> None:
        """Find out what to do with a file, and do all but embedding and storing it."""
        library, source = self.library, storable_path(path)
        try:
            before, known = path.stat(), run.known.get(source)
            if known and is_as_read(known.state, before.st_size, storable_ns(before)):
                led = run.origins(path)
                if not set(led) <= set(known.state.origins):
                    run.touched.append((replace(known.state, origins=led), known.document_id))
                run.tell(Unchanged(source))
                return
            led, checked = origins(path), time.time_ns()
            with run.timed("read"):
                data = self.read(path)
                digest = hashlib.sha256(data).hexdigest()
            # Links may have changed before the bytes were there.
            led = tuple(sorted({*led, *origins(path)}))
            state = FileState(source, before.st_size, storable_ns(before), checked, led)
            if known and known.document_id == digest:
                run.touched.append((state, digest))
                run.tell(Unchanged(source))
            elif library.has_document(digest):
                with run.hold():
                    library.set_sources([(state, digest)])
                run.tell(Linked(source, digest))
            elif digest in run.pending:
                waiting = run.pending[digest]
                run.pending[digest] = replace(waiting, states=[*waiting.states, state])
            else:
                with run.timed("parse"):
                    document = replace(storable(self.parse(path, data)), source=source)
                with run.timed("chunk"):
                    chunks = self.chunker.chunk(document)
                run.pending[digest] = NewDocument(
                    document=document,
                    states=[state],
                    size=len(data),
                    language=self.detect_language(document.text[:LANGUAGE_SAMPLE]),
                    chunking=self.chunking,
                    chunks=chunks,
                    vectors=self._none,  # until the next `_flush`
                )
                run.tell(Parsed(source, len(document.pages), len(chunks)))
        except ParsingError as error:
            run.tell(Failed(source, error))
        except OSError as error:
            run.tell(Failed(source, unreadable(path, error)))

    @property
    def _none(self) -> NDArray[np.float32]:
        return np.empty((0, self.embedding.dimension), dtype=np.float32)

    def _flush(self, run: _Run) -> None:
        """Embed what is pending, commit it, and only then report it."""
        if not run.pending and not run.touched:
            return
        library, pending = self.library, list(run.pending.values())
        run.pending.clear()
        with run.timed("embed"):
            vectors = self._embed([one.chunks for one in pending], run)
        replaced = [one.states[0].path in run.known for one in pending]
        with run.timed("store"), run.hold():
            # One transaction for the batch: each commit waits for the disk.
            library.add(
                replace(one, vectors=rows) for one, rows in zip(pending, vectors, strict=True)
            )
            if run.touched:
                library.set_sources(run.touched)
                run.touched.clear()
        for one, again in zip(pending, replaced, strict=True):
            first, *others = one.states
            run.tell(Committed(first.path, one.document.id, len(one.chunks), again))
            for state in others:
                run.tell(Linked(state.path, one.document.id))

    def _stage(self, batch: list[tuple[Document, list[Chunk]]], run: _Run) -> None:
        with run.timed("embed"):
            vectors = self._embed([chunks for _, chunks in batch], run)
        with run.timed("store"):
            self.library.stage(
                (document.id, chunks, rows)
                for (document, chunks), rows in zip(batch, vectors, strict=True)
            )
        for document, chunks in batch:
            run.tell(Committed(document.source, document.id, len(chunks), replaced=True))

    def _embed(self, groups: Sequence[Sequence[Chunk]], run: _Run) -> list[NDArray[np.float32]]:
        """Vectors, shape (n, dimension) float32, for each group of chunks; one call for all."""
        texts = [passage_text(chunk) for chunks in groups for chunk in chunks]
        vectors = self._none
        if texts:
            vectors = self.embedder.embed_documents(texts, lambda count: run.tell(Embedded(count)))
        ends = list(accumulate(len(chunks) for chunks in groups))
        return np.split(vectors, ends[:-1]) if groups else []

    def _sync_if_due(self, run: _Run) -> None:
        elapsed = time.monotonic() - run.synced_at
        if elapsed > max(SYNC_SECONDS, SYNC_SHARE * run.sync_took):
            self._sync(run)

    def _sync(self, run: _Run) -> None:
        started = time.monotonic()
        with run.timed("index"), run.hold():
            self.library.sync()
        run.synced_at = time.monotonic()
        run.sync_took = run.synced_at - started
        run.tell(Synced(run.sync_took))


def gone_from(paths: Sequence[Path], missing: Iterable[str]) -> list[str]:
    """Those of the `missing` sources below added folders that are surely no longer there."""
    folders = {storable_path(path) for path in paths if path.is_dir()}
    return sorted(
        source
        for source in missing
        if not folders.isdisjoint(map(str, Path(source).parents)) and _is_gone(source)
    )


def _is_gone(source: str) -> bool:
    """Whether there is nothing of that name; a folder or a drive that fails says nothing."""
    try:
        os.lstat(source)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):
        return False
    return False


def storable_ns(state: os.stat_result) -> int:
    """The modification time, in what SQLite can hold: a wrong clock may say the year 2400."""
    return max(-(2**63), min(state.st_mtime_ns, 2**63 - 1))


def is_as_read(state: FileState, size: int, mtime_ns: int) -> bool:
    """Whether a file is surely what it was when its bytes were last hashed."""
    same = (state.size, state.mtime_ns) == (size, mtime_ns)
    return same and mtime_ns + RACY_NS < state.checked_ns


def storable_path(path: Path) -> str:
    """The absolute path; bytes of a name that are no UTF-8 are written as hexadecimal escapes."""
    return _storable(os.path.abspath(path))  # noqa: PTH100 - Path.absolute leaves ".." in


def _storable(absolute: str) -> str:
    if absolute.isascii():
        return absolute
    return os.fsencode(absolute).decode("utf-8", "backslashreplace")


def origins(path: Path) -> tuple[str, ...]:
    """Where a file lies now, and each path that the links on the way there lead over."""
    start, real = os.path.abspath(path), os.path.realpath(path)  # noqa: PTH100
    found = {real}
    todo = [start] if real != start else []
    while todo and len(found) < _LINKS:
        one = Path(todo.pop())
        for place in (one, *one.parents):
            try:
                target = os.readlink(place)  # noqa: PTH115 - as it is written
            except (OSError, ValueError):
                continue  # no link
            led = os.path.abspath(place.parent / target / one.relative_to(place))  # noqa: PTH100
            if led not in found:
                found.add(led)
                todo.append(led)
    return tuple(sorted(storable_path(Path(one)) for one in found))
