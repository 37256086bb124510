"""Parse, cut, embed and store: files into a library.

A document is reported when its transaction has committed and not before. The vector and the
keyword index follow from time to time; a process that is killed in between loses nothing, as the
next one that opens the library catches up.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import KW_ONLY, dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from localrag.documents.attachments import named
from localrag.documents.chunking import Chunker, passage_text
from localrag.documents.content import SAMPLE, refusal
from localrag.documents.files import (
    SIZE_LIMIT,
    read_bytes,
    storable_name,
    storable_path,
    unreadable,
    walk,
    whereabouts,
)
from localrag.documents.formats.table import (
    Attach,
    Attachment,
    PageDone,
    attaches,
    format_of,
    leave_out,
    nothing,
)
from localrag.documents.worker import storable
from localrag.errors import ParsingError
from localrag.indexing import unread
from localrag.indexing.ahead import Ahead, Task
from localrag.indexing.events import (
    AddReport,
    Committed,
    Embedded,
    Event,
    Failed,
    Found,
    Kept,
    Linked,
    PageRead,
    Parsed,
    Progress,
    ReadAgain,
    Removed,
    Synced,
    Unchanged,
    Vanished,
)
from localrag.library.folder.locking import PATIENCE, OnWait
from localrag.library.folder.uploads import free_place, safe_name
from localrag.library.library import Library
from localrag.library.records import (
    EmbeddingIdentity,
    FileState,
    NewDocument,
    SourceRecord,
    UnreadFile,
)
from localrag.models.embeddings.base import Embedder
from localrag.system.files import make_folder, new_file
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

WINDOW, WINDOW_BYTES = 512, 64 * 2**20
"""Files, and their bytes, that are read before it is their turn: what is parsed while a batch is
embedded."""

_LINKS = 64
"""Paths that a chain of links is followed over; the system itself gives up at forty."""

MOST_ATTACHED = 1000
"""Files inside one, and inside those: as many are read as a person attaches, and a bomb is not."""

DEEPEST = 5
"""Mails within mails."""

Read = Callable[[Path], bytes]


class Parse(Protocol):
    """`documents.files.parse_file`, here or in another process."""

    def __call__(
        self,
        path: Path,
        data: bytes,
        *,
        page_done: PageDone = nothing,
        attach: Attach = leave_out,
    ) -> Document:
        """The document that these bytes make; `attach` gets the files inside.

        `page_done` is called as pages are done.
        """


def _ignore(_: Event) -> None:
    """Tell nobody."""


@dataclass(slots=True)
class _Room:
    """What one file may still hold inside it, at whatever depth."""

    again: bool = False
    """Whether what could not be read of it is tried again, though the file is as it was."""
    files: int = MOST_ATTACHED
    bytes: int = SIZE_LIMIT

    def admit(self, one: Attachment) -> bool:
        """Whether it is within the bounds; then it counts."""
        if not self.files or len(one.data) > self.bytes:
            return False
        self.files -= 1
        self.bytes -= len(one.data)
        return True


_Given = tuple[Path, bytes, PageDone]
_Parsed = tuple[Document, list[Attachment], float]
"""A document, what is inside its file, and the seconds that it took."""


def _size(parsed: _Parsed) -> int:
    document, attached, _ = parsed
    text = sum(len(page.text) + len(page.layout) for page in document.pages)
    return text + sum(len(one.data) for one in attached)


@dataclass(slots=True)
class _Met:
    """A file as it was met: one that is kept, one that failed, or its bytes."""

    path: Path
    state: FileState
    data: bytes = b""
    digest: str = ""
    parsing: Task[_Parsed] | None = None
    again: bool = False
    kept: SourceRecord | None = None
    failed: UnreadFile | None = None


@dataclass(slots=True)
class _Run:
    """One add or rebuild under way."""

    progress: Progress
    failures: unread.Failures
    hold: Callable[[], AbstractContextManager[None]] = nullcontext
    """Holds the library for writing, where the run does not hold it all the time."""
    told: dict[type[Event], list[Any]] = field(default_factory=lambda: defaultdict(list))
    skipped: list[ParsingError] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    pending: dict[str, NewDocument] = field(default_factory=dict)
    """Documents that wait for their vectors, by id."""
    coming: Counter[str] = field(default_factory=Counter)
    """Documents that are being parsed, by id."""
    known: Mapping[str, SourceRecord] = field(default_factory=dict)
    """What the library held of these files when the run began, by path, sorted."""
    paths: Sequence[str] = ()
    """Those paths."""
    touched: list[tuple[FileState, str]] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    """Paths inside files that no longer hold them."""
    read_ahead: SimpleQueue[PageRead] = field(default_factory=SimpleQueue)
    folders: dict[str, bool] = field(default_factory=dict)
    """Whether no link leads to a folder, for those that were met."""
    synced_at: float = field(default_factory=time.monotonic)
    sync_took: float = 0.0

    def tell(self, event: Event) -> None:
        """Keep the outcome and pass it on."""
        self.told[type(event)].append(event)
        self.progress(event)

    def fail(self, file: UnreadFile, *, tried: bool = True) -> None:
        """Keep that a file could not be read, and pass it on."""
        self.failures.add(file)
        self.tell(Failed(file.state.path, file.error, tried))

    def inside(self, source: str) -> Iterator[SourceRecord]:
        """What the library held of the files inside a file when the run began."""
        folder = source + os.sep
        for place in range(bisect_left(self.paths, folder), len(self.paths)):
            if not self.paths[place].startswith(folder):
                break
            yield self.known[self.paths[place]]

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
            return (storable_name(absolute),)
        return origins(path)

    def page_done(self, source: str, *, ahead: bool = False) -> PageDone:
        """What tells of the pages of a file that take long; in another thread, for later."""
        hear = self.read_ahead.put if ahead else self.progress

        def tell(number: int = 0, pages: int = 0, *, recognised: bool = False) -> None:
            if recognised:
                hear(PageRead(source, number, pages))

        return tell

    def tell_pages(self) -> None:
        """Tell of pages that were read in other threads."""
        while not self.read_ahead.empty():
            self.progress(self.read_ahead.get())

    def waiting(self) -> int:
        """Chunks that wait for their vectors."""
        return sum(len(one.chunks) for one in self.pending.values())

    def sources(self, kind: type[Unchanged | Vanished | Removed | Kept]) -> tuple[str, ...]:
        """The paths of one outcome."""
        return tuple(event.source for event in self.told[kind])

    def report(self) -> AddReport:
        return AddReport(
            committed=tuple(self.told[Committed]),
            read_again=tuple(self.told[ReadAgain]),
            kept=self.sources(Kept),
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
    parsers: int = 1
    """How many files `parse` may be asked for at once, each from a thread of its own."""
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
        library = self.library
        with library.writing(timeout, on_wait):
            library.expect(self.embedding)
            run = _Run(progress, unread.Failures(library.unread(), map(storable_path, paths)))
            run.known = {record.state.path: record for record in library.sources()}
            run.paths = sorted(run.known)
            found = walk(paths, run.skipped, library=library.directory, known=run.known)
            files = list(found)
            run.tell(Found(len(files)))
            self._take_all(files, run)
            for source in gone_from(paths, run.known.keys() - map(storable_path, files)):
                if library.file_of(source) == Path(source):  # uploads moved with the library
                    run.tell(Vanished(source))
            run.failures.skip(run.skipped)
            self._remember(run, forgotten=run.failures.obsolete(run.told, paths))
            self._sync(run)
            if prune and (vanished := run.sources(Vanished)):
                library.remove(sources=vanished)
                for source in vanished:
                    run.tell(Removed(source))
            else:
                library.purge_if_due()
        return run.report()

    def upload(
        self, file: Path, name: str, progress: Progress = _ignore, *, timeout: float = PATIENCE
    ) -> AddReport:
        """Keep a copy of `file` in the library under that name, and add it.

        Nothing is kept of bytes that the library has already, nor of a file that cannot be read.
        Another file of that name gets a number. Raises what `add` raises.
        """
        library, name = self.library, safe_name(name)
        with library.writing(timeout):
            library.expect(self.embedding)
            run = _Run(progress, unread.Failures())
            run.tell(Found(1))
            digest = _digest(file)
            if library.has_document(digest):
                run.tell(Unchanged(name))
                return run.report()
            library.sweep_uploads()
            place = free_place(library.directory, name)
            make_folder(place.parent)
            try:
                with file.open("rb") as stream:
                    new_file(place, lambda new: shutil.copyfileobj(stream, new, 1 << 20))
                self._take_all([place], run)
                if any(one.source == storable_path(place) for one in run.told[Failed]):
                    # The file goes: there is nothing to try again.
                    library.set_unread((), forgotten=[storable_path(place)])
                self._sync(run)
            finally:
                library.sweep_uploads()
        return run.report()

    def update(self, files: Iterable[Path], progress: Progress, on_wait: OnWait) -> None:
        """Bring the library up to some files, without bringing the indexes up at the end.

        For whoever goes on for days: unlike `add` it holds the library only while it stores a
        batch, waits as long as another process holds it, and tries again what could not be read.
        """
        library, files = self.library, list(files)
        library.expect(self.embedding)
        run = _Run(
            progress,
            unread.Failures(library.unread(), map(storable_path, files)),
            hold=lambda: library.writing(-1, on_wait),
        )
        run.known = {record.state.path: record for record in library.sources()}
        run.paths = sorted(run.known)
        self._take_all(files, run)
        run.failures.skip(run.skipped)
        self._remember(run, forgotten=run.failures.obsolete(run.told, files))

    def rebuild(
        self,
        progress: Progress = _ignore,
        *,
        timeout: float = PATIENCE,
        on_wait: OnWait | None = None,
    ) -> AddReport:
        """Make the library what adding all its documents now, with these settings, would make it.

        Where embedding model or chunking differ, or where passages or vectors are not what was
        stored (damage on disk), every document is cut and embedded anew from the stored text, so
        the files need not be there; the old answers stand until all is done, and a rebuild that
        was cut off goes on where it stopped. Documents that an older version has read are read
        again where one of their files is still there with the same bytes, and what changed of
        them is embedded; the others stay as they are. The vector and the keyword index are
        written anew. The library may have been opened with `embedding` None.
        """
        library, run = self.library, _Run(progress, unread.Failures())
        with library.writing(timeout, on_wait):
            library.mend()
            status = library.status()
            same_model = status.embedding.fingerprint == self.embedding.fingerprint
            same = same_model and set(status.chunkings) <= {self.chunking}
            cut = not (same and library.passages_are_sound())
            if cut:
                self._cut_anew(run)
            self._read_again(run)
            with run.timed("index"):
                if cut:
                    library.purge_if_due()
                else:
                    library.rebuild_indexes()
        return run.report()

    def _cut_anew(self, run: _Run) -> None:
        """Cut and embed the stored text of all documents."""
        library = self.library
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

    def _read_again(self, run: _Run) -> None:
        """Read what an older version has read, document by document: each is in as it is done."""
        todo = self.library.outdated()
        run.tell(Found(len(todo)))
        for place, document_id in enumerate(todo, start=1):
            if new := self._other_reading(document_id, run):
                run.pending[document_id] = new
            if place == len(todo) or run.waiting() >= BATCH:
                self._replace(run)

    def _other_reading(self, document_id: str, run: _Run) -> NewDocument | None:
        """A document as it is read now, None where that cannot be."""
        record = self.library.document_record(document_id)
        assert record is not None  # noqa: S101 - nobody else may write meanwhile
        source = record.sources[0] if record.sources else document_id
        try:
            for path in map(self.library.file_of, record.sources):
                with run.timed("read"):
                    data = self._bytes(path, document_id)
                if data is not None:
                    with run.timed("parse"):
                        document = replace(storable(self.parse(path, data)), source=source)
                    return self._cut(document, [], len(data), run)
        except ParsingError as error:
            run.tell(Failed(source, error))
        else:
            run.tell(Kept(source))
        return None

    def _bytes(self, path: Path, digest: str) -> bytes | None:
        """The bytes of a file, if they still have this digest.

        No share on another machine is asked: a library may come from somebody else, and Windows
        would tell the machine that it names who is asking.
        """
        if path.drive.startswith("\\\\"):
            return None
        try:
            data = self.read(path)
        except (OSError, ParsingError):  # the document is told as kept
            return None
        return data if hashlib.sha256(data).hexdigest() == digest else None

    def _replace(self, run: _Run) -> None:
        """Embed what says something new of the pending documents, and commit them."""
        pending = list(run.pending.values())
        run.pending.clear()
        vectors: list[dict[str, NDArray[np.float32]]] = []
        for one in pending:
            by_id = self.library.document_vectors(one.document.id)
            chunks = self.library.document_chunks(one.document.id)
            vectors.append({passage_text(each): by_id[each.id] for each in chunks})
        changed = [
            [each for each in one.chunks if passage_text(each) not in known]
            for one, known in zip(pending, vectors, strict=True)
        ]
        with run.timed("embed"):
            embedded = self._embed(changed, run)
        for known, chunks, rows in zip(vectors, changed, embedded, strict=True):
            known |= zip(map(passage_text, chunks), rows, strict=True)
        with run.timed("store"):
            self.library.replace(
                replace(
                    one,
                    vectors=np.array(
                        [known[passage_text(each)] for each in one.chunks], dtype=np.float32
                    ).reshape(-1, self.embedding.dimension),
                )
                for one, known in zip(pending, vectors, strict=True)
            )
        for one, chunks in zip(pending, changed, strict=True):
            count = len(one.chunks)
            run.tell(Embedded(count - len(chunks)))
            run.tell(ReadAgain(one.document.source, one.document.id, count, len(chunks)))

    def _take_all(self, files: Iterable[Path], run: _Run) -> None:
        """Take file by file, in this order, while those that follow are being parsed."""
        with Ahead(self._parsed, self.parsers, size=_size) as ahead:
            met: deque[_Met] = deque()
            waiting = 0
            for path in files:
                met.append(self._meet(path, run, ahead))
                waiting += len(met[-1].data)
                while len(met) > WINDOW or waiting > WINDOW_BYTES:
                    waiting -= len(met[0].data)
                    self._take(met.popleft(), run)
            while met:
                self._take(met.popleft(), run)
        self._flush(run)

    def _meet(self, path: Path, run: _Run, ahead: Ahead[_Given, _Parsed]) -> _Met:
        """Find out whether a file is to be read; read it, and have it parsed."""
        source = storable_path(path)
        met = _Met(path, FileState(source, 0, 0, 0))
        try:
            before, known = path.stat(), run.known.get(source)
            version = before.st_size, storable_ns(before)
            met.state = FileState(source, *version, 0)
            met.again = attaches(source) and run.failures.tries_inside(source)
            if known and is_as_read(known.state, *version) and not met.again:
                met.kept = known
                met.state = replace(known.state, origins=run.origins(path))
                return met
            failed = run.failures.known(source)
            if failed and is_as_read(failed.state, *version):
                met.failed = failed
                return met
            led, checked = origins(path), time.time_ns()
            with run.timed("read"):
                met.data = self.read(path)
            # Links may have changed before the bytes were there.
            led = tuple(sorted({*led, *origins(path)}))
            met.state = FileState(source, *version, checked, led)
            met.digest = digest = hashlib.sha256(met.data).hexdigest()
            if (met.again or known is None or known.document_id != digest) and (
                attaches(path) or not self._is_here(digest, run)
            ):
                run.coming[digest] += 1
                met.parsing = ahead.submit((path, met.data, run.page_done(source, ahead=True)))
        except ParsingError as error:
            met.failed = UnreadFile(met.state, error)
        except OSError as error:
            met.failed = UnreadFile(met.state, unreadable(path, error))
        return met

    def _is_here(self, digest: str, run: _Run) -> bool:
        """Whether a document is in the library, or on its way into it."""
        return (
            bool(run.coming[digest]) or digest in run.pending or self.library.has_document(digest)
        )

    def _parsed(self, given: _Given) -> _Parsed:
        attached: list[Attachment] = []
        began = time.perf_counter()
        path, data, page_done = given
        document = self.parse(path, data, page_done=page_done, attach=attached.append)
        return document, attached, time.perf_counter() - began

    def _take(self, met: _Met, run: _Run) -> None:
        """Do what is to be done with a file, all but embedding and storing it."""
        if met.failed:
            run.fail(met.failed, tried=met.failed is not run.failures.known(met.state.path))
        elif met.kept:
            self._keep(met.kept, met.state, run)
        else:
            if met.parsing:
                run.coming[met.digest] -= 1
            try:
                self._hold(met, run, _Room(met.again))
            except ParsingError as error:
                run.fail(unread.failed(met.state, error))
        if run.waiting() >= BATCH or len(run.touched) >= BATCH:
            self._flush(run)
            self._sync_if_due(run)

    def _keep(self, known: SourceRecord, state: FileState, run: _Run) -> None:
        """Let what the library holds of a file stand, and what is inside it: it is as it was."""
        inside = list(run.inside(state.path)) if attaches(state.path) else []
        if inside:
            run.tell(Found(len(inside)))
        for record in (known, *inside):
            name = record.state.path[len(state.path) :]
            now = _inside(state, name, record.state.size) if name else state
            new = not set(now.origins) <= set(record.state.origins)
            if new or now.checked_ns != record.state.checked_ns:
                run.touched.append((now, record.document_id))
            run.tell(Unchanged(record.state.path))
        if attaches(state.path):
            for file in run.failures.inside(state.path):
                if "count" in file.error.values:  # files of other types
                    run.failures.add(file)
                else:
                    run.tell(Found(1))
                    run.fail(file, tried=False)

    def _hold(self, met: _Met, run: _Run, room: _Room, depth: int = 0) -> None:
        """Link the bytes of a file, or parse and cut them; first what it holds inside.

        So a file is never in the library, and from then on unchanged, without what it holds.
        """
        library, path, state, digest = self.library, met.path, met.state, met.digest
        source, known = state.path, run.known.get(state.path)
        same = known is not None and known.document_id == digest
        if known and same and not (room.again and attaches(path)):
            self._keep(known, state, run)
            return
        document, attached = None, list[Attachment]()
        here = library.has_document(digest) or digest in run.pending
        if met.parsing or not here or attaches(path):
            if met.parsing:
                parsed = met.parsing.result(run.tell_pages)
            else:
                parsed = self._parsed((path, met.data, run.page_done(source)))
            document, attached, seconds = parsed
            run.seconds["parse"] += seconds
        if attaches(path):
            self._hold_inside(path, attached, state, run, room, depth)
        if document is not None and not here:
            document = replace(storable(document), source=source)
            run.pending[digest] = self._cut(document, [state], len(met.data), run)
        elif digest in run.pending:
            waiting = run.pending[digest]
            run.pending[digest] = replace(waiting, states=[*waiting.states, state])
        else:
            if attached or run.gone:
                self._flush(run)
            with run.hold():
                library.set_sources([(state, digest)])
            run.tell(Unchanged(source) if same else Linked(source, digest))

    def _hold_inside(
        self,
        path: Path,
        attached: Sequence[Attachment],
        state: FileState,
        run: _Run,
        room: _Room,
        depth: int,
    ) -> None:
        """Hold each file inside a file as if it lay in a folder of that name."""
        held = [one for one in attached if depth < DEEPEST and room.admit(one)]
        if len(held) < len(attached):
            run.skipped.append(_too_many(path, len(attached) - len(held)))
        inside = {os.sep + name: one for name, one in named(held)}
        for record in run.inside(state.path):
            name = record.state.path[len(state.path) :]
            if os.sep + name[1:].partition(os.sep)[0] not in inside:
                run.gone.append(record.state.path)
        for name, one in inside.items():
            place = Path(f"{path}{name}")
            if not format_of(place) and (error := refusal(place, one.data[:SAMPLE], len(one.data))):
                run.skipped.append(error)
                continue
            run.tell(Found(1))
            child = _inside(state, name, len(one.data))
            try:
                digest = hashlib.sha256(one.data).hexdigest()
                self._hold(_Met(place, child, one.data, digest), run, room, depth + 1)
            except ParsingError as failed:
                run.fail(unread.failed(child, failed))

    def _cut(
        self, document: Document, states: Sequence[FileState], size: int, run: _Run
    ) -> NewDocument:
        """A document that was read, with its chunks; their vectors come later."""
        with run.timed("chunk"):
            chunks = self.chunker.chunk(document)
        run.tell(Parsed(document.source, len(document.pages), len(chunks)))
        return NewDocument(
            document=document,
            states=states,
            size=size,
            language=self.detect_language(document.text[:LANGUAGE_SAMPLE]),
            chunking=self.chunking,
            chunks=chunks,
            vectors=self._none,
        )

    @property
    def _none(self) -> NDArray[np.float32]:
        return np.empty((0, self.embedding.dimension), dtype=np.float32)

    def _flush(self, run: _Run) -> None:
        """Embed what is pending, commit it, and only then report it."""
        library, pending = self.library, list(run.pending.values())
        if not pending and not run.touched and not run.gone:
            self._remember(run)
            return
        run.pending.clear()
        with run.timed("embed"):
            vectors = self._embed([one.chunks for one in pending], run)
        replaced = [one.states[0].path in run.known for one in pending]
        with run.timed("store"), run.hold():
            # One transaction for the batch: each commit waits for the disk.
            new = [replace(one, vectors=rows) for one, rows in zip(pending, vectors, strict=True)]
            library.add(new, run.gone)
            if run.touched:
                library.set_sources(run.touched)
                run.touched.clear()
        for one, again in zip(pending, replaced, strict=True):
            first, *others = one.states
            run.tell(Committed(first.path, one.document.id, len(one.chunks), again))
            for state in others:
                run.tell(Linked(state.path, one.document.id))
        for source in run.gone:
            run.tell(Removed(source))
        run.gone.clear()
        self._remember(run)

    def _remember(self, run: _Run, forgotten: Sequence[str] = ()) -> None:
        """Keep which files could not be read."""
        new = run.failures.new()
        if new or forgotten:
            with run.hold():
                self.library.set_unread(new, forgotten=forgotten)

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


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def gone_from(paths: Sequence[Path], missing: Iterable[str]) -> list[str]:
    """Those of the `missing` sources below added folders that are surely no longer there."""
    folders = {storable_path(path) for path in paths if path.is_dir()}
    return sorted(
        source
        for source in missing
        if not folders.isdisjoint(map(str, Path(source).parents))
        and whereabouts(Path(source)) is None
    )


def _inside(state: FileState, name: str, size: int) -> FileState:
    """The state of a file inside another; `name` begins with the separator of paths."""
    return replace(
        state,
        path=state.path + name,
        size=size,
        origins=tuple(origin + name for origin in state.origins),
    )


def _too_many(path: Path, count: int) -> ParsingError:
    return ParsingError(
        "{source} holds {count} files that were left out: localrag reads up to {files} of them, "
        "{size} MB in all, and mails within mails up to {depth} deep.",
        hint="Save them to a folder, and add that folder.",
        source=str(path),
        count=count,
        files=MOST_ATTACHED,
        size=SIZE_LIMIT // 2**20,
        depth=DEEPEST,
    )


def storable_ns(state: os.stat_result) -> int:
    """The modification time, in what SQLite can hold: a wrong clock may say the year 2400."""
    return max(-(2**63), min(state.st_mtime_ns, 2**63 - 1))


def is_as_read(state: FileState, size: int, mtime_ns: int) -> bool:
    """Whether a file is surely what it was when its bytes were last hashed."""
    same = (state.size, state.mtime_ns) == (size, mtime_ns)
    return same and mtime_ns + RACY_NS < state.checked_ns


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
