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
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path

from localrag.documents.attachments import named
from localrag.documents.chunking import Chunker
from localrag.documents.content import SAMPLE, refusal
from localrag.documents.files import (
    Parse,
    is_in,
    read_bytes,
    unreadable,
    walk_names,
)
from localrag.documents.formats.table import (
    Attachment,
    PageDone,
    attaches,
    format_of,
)
from localrag.documents.worker import storable
from localrag.errors import ParsingError, SlowFileError
from localrag.indexing import unread
from localrag.indexing.ahead import Ahead, Task
from localrag.indexing.events import (
    AddReport,
    Committed,
    Failed,
    FilesFound,
    IndexingEvent,
    Linked,
    Progress,
    Removed,
    Synced,
    Unchanged,
    Vanished,
)
from localrag.indexing.inside import DEEPEST, NestedFileBudget, inside_of, too_many, too_slow
from localrag.indexing.passages import BATCH, Passages
from localrag.indexing.paths import (
    gone_from,
    is_as_read,
    lay_in_empty,
    origins,
    state_of,
    storable_ns,
)
from localrag.indexing.rebuilding import Rebuilding
from localrag.indexing.run import Hold, Run
from localrag.library.backends.uploads import Upload
from localrag.library.folder.locking import PATIENCE, OnWait
from localrag.library.folder.uploads import safe_name
from localrag.library.library import Library
from localrag.library.records import (
    EmbeddingIdentity,
    FileState,
    SourceRecord,
    UnreadFile,
)
from localrag.models.embeddings.base import Embedder
from localrag.system.files import make_folder, new_file, storable_name, storable_path
from localrag.types import Document

SYNC_SECONDS = 20.0
"""How often the indexes follow during a long add, at least."""

SYNC_SHARE = 10
"""An add spends at most one part in so many on letting the indexes follow."""

SLOW = 1.0
"""Seconds that a file may be read before what came before it is embedded and committed."""

FEW = 500
"""Paths up to which each is looked up, and not all read."""

WINDOW, WINDOW_BYTES = 512, 64 * 2**20
"""Files, and their bytes, that are read before it is their turn: what is parsed while a batch is
embedded."""


def _ignore(_: IndexingEvent) -> None:
    """Tell nobody."""


_Given = tuple[Path, bytes, PageDone]
_Parsed = tuple[Document, list[Attachment], float]
"""A document, what is inside its file, and the seconds that it took."""


def _size(parsed: _Parsed) -> int:
    document, attached, _ = parsed
    text = sum(len(page.text) + len(page.layout) for page in document.pages)
    return text + sum(len(attachment.data) for attachment in attached)


@dataclass(slots=True)
class _ReadFile:
    """A file as it was met: one that is kept, one that failed, or its bytes."""

    path: Path
    state: FileState
    data: bytes = b""
    digest: str = ""
    parsing: Task[_Parsed] | None = None
    again: bool = False
    kept: SourceRecord | None = None
    failed: UnreadFile | None = None


def _size_of(met: _ReadFile | Unchanged) -> int:
    """Bytes that wait with a file."""
    return 0 if isinstance(met, Unchanged) else len(met.data)


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
    read: Callable[..., bytes] = read_bytes
    below: Sequence[str] | None = None
    """Real paths of folders, where only what lies in them may be opened."""

    def add(
        self,
        paths: Sequence[Path],
        progress: Progress = _ignore,
        *,
        prune: bool = False,
        spare_empty: bool = False,
        timeout: float = PATIENCE,
        on_wait: OnWait | None = None,
        hold: Hold | None = None,
    ) -> AddReport:
        """Bring the library up to the files at and below `paths`.

        The SHA-256 of the bytes decides what has changed. A file whose size and modification
        time are those of its last reading is not read again, unless it was changed less than two
        seconds before that reading. Files that cannot be read are reported and do not stop the
        rest. Files of an added folder that are gone are reported, and with `prune` removed; with
        `spare_empty` not those whose folder is there and empty: its drive may not be mounted.
        The library is held for writing all the time; with `hold`, which does that, only while
        something is stored, so that others may write in between.

        Raises LibraryMismatchError for a library of another embedding model, LibraryLockedError
        when another process writes for longer than `timeout` seconds (-1: waits), UsageError for
        a path that does not exist. Whatever is raised, all that was reported as committed stays.
        """
        library = self.library
        with nullcontext() if hold else library.writing(timeout, on_wait):
            library.expect(self.embedding)
            failures = unread.Failures(library.unread(), map(storable_path, paths))
            run = Run(progress, failures, hold or nullcontext, roots=self._roots(paths))
            self._look_up(paths, run)
            passed: list[ParsingError] = []
            entries = walk_names(
                paths, passed, library=library.directory, known=run.known, below=run.roots
            )
            files = list(entries)
            closed = [file for file in map(unread.refused, passed) if file]
            run.skipped += [error for error in passed if not unread.refused(error)]
            run.tell(FilesFound(len(files) + len(closed)))
            for file in closed:
                run.fail(file)
            self._take_all(files, run)
            for source in gone_from(paths, run.known.keys() - run.met):
                if library.file_of(source) == Path(source):  # uploads moved with the library
                    run.tell(Vanished(source))
            run.failures.skip(run.skipped)
            self._remember(run, forgotten=run.failures.obsolete(run.told, paths))
            self._sync(run)
            with run.hold():
                gone = self._still_gone(paths, run, spare_empty=spare_empty) if prune else []
                if gone:
                    library.remove(sources=gone)
                else:
                    library.purge_if_due()
            for source in gone:
                run.tell(Removed(source))
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
            run = Run(progress, unread.Failures())
            run.tell(FilesFound(1))
            digest = _digest(file)
            if library.has_document(digest):
                run.tell(Unchanged(name))
                return run.report()
            library.sweep_uploads()
            place = library.uploads.place(name)
            try:
                if library.uploads.in_memory:
                    self._take_upload(place, file.read_bytes(), digest, run)
                else:
                    make_folder(place.parent)
                    with file.open("rb") as stream:
                        new_file(place, lambda new: shutil.copyfileobj(stream, new, 1 << 20))
                    run.roots = self._roots([place])
                    self._take_all([str(place)], run)
                if any(failure.source == storable_path(place) for failure in run.told[Failed]):
                    # The file goes: there is nothing to try again.
                    library.set_unread((), forgotten=[storable_path(place)])
                self._sync(run)
            finally:
                library.sweep_uploads()
        return run.report()

    def _take_upload(self, place: Path, data: bytes, digest: str, run: Run) -> None:
        """Keep a file, encrypted, and take its bytes as if they lay at `place`."""
        source = storable_path(place)
        self.library.uploads.put(Upload(source, place.name, data))
        state = FileState(source, len(data), now := time.time_ns(), now)
        self._take(_ReadFile(place, state, data, digest), run)
        self._flush(run)

    def update(
        self, files: Iterable[Path], progress: Progress, on_wait: OnWait, *, roots: Sequence[Path]
    ) -> None:
        """Bring the library up to some files, without bringing the indexes up at the end.

        They were found at and below `roots`; what leads elsewhere by now is not read.

        For whoever goes on for days: unlike `add` it holds the library only while it stores a
        batch, waits as long as another process holds it, and tries again what could not be read.
        """
        library, files = self.library, list(files)
        library.expect(self.embedding)
        run = Run(
            progress,
            unread.Failures(library.unread(), map(storable_path, files)),
            hold=lambda: library.writing(-1, on_wait),
            roots=self._roots(roots),
        )
        self._look_up(files, run)
        self._take_all(map(str, files), run)
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
        library, run = self.library, Run(progress, unread.Failures())
        with library.writing(timeout, on_wait):
            library.mend()
            status = library.status()
            same_model = status.embedding.fingerprint == self.embedding.fingerprint
            same = same_model and set(status.chunkings) <= {self.chunking}
            cut = not (same and library.passages_are_sound())
            rebuilding = Rebuilding(library, self._passages, run, self.parse, self._original)
            if cut:
                rebuilding.cut_anew()
            rebuilding.read_again()
            with run.timed("index"):
                if cut:
                    library.purge_if_due()
                else:
                    library.rebuild_indexes()
        return run.report()

    @property
    def _passages(self) -> Passages:
        return Passages(
            self.chunker, self.chunking, self.embedder, self.embedding, self.detect_language
        )

    def _still_gone(self, paths: Sequence[Path], run: Run, *, spare_empty: bool) -> list[str]:
        """What is to be removed: others may have removed it meanwhile, or brought it back."""
        with self.library.one_state():
            sources = [*filter(self.library.source, run.sources(Vanished))]
        gone = gone_from(paths, sources)
        return [path for path in gone if not (spare_empty and lay_in_empty(path))]

    def _look_up(self, paths: Sequence[Path], run: Run) -> None:
        """What the library holds at and below some paths; all of it where these are many."""
        below = map(storable_path, paths) if len(paths) <= FEW else None
        known = self.library.sources(below)
        run.known = {record.state.path: record for record in known}
        run.paths = list(run.known)

    def _take_all(self, files: Iterable[str], run: Run) -> None:
        """Take file by file, in this order, while those that follow are being parsed."""
        with Ahead(self._parse_timed, self.parsers, size=_size) as ahead:
            met: deque[_ReadFile | Unchanged] = deque()
            waiting = 0
            for name in files:
                state_seen = self._meet(name, run, ahead)
                if not met and isinstance(state_seen, Unchanged):
                    run.tell(state_seen)
                    continue
                met.append(state_seen)
                waiting += _size_of(state_seen)
                while len(met) > WINDOW or waiting > WINDOW_BYTES:
                    waiting -= _size_of(met[0])
                    self._take(met.popleft(), run)
            while met:
                self._take(met.popleft(), run)
        self._flush(run)

    def _meet(self, name: str, run: Run, ahead: Ahead[_Given, _Parsed]) -> _ReadFile | Unchanged:
        """Find out whether a file is to be read; read it, and have it parsed."""
        absolute = os.path.abspath(name)  # noqa: PTH100 - Path.absolute leaves ".." in
        source = storable_name(absolute)
        run.met.add(source)
        known, holds = run.known.get(source), attaches(source)
        again = holds and run.failures.tries_inside(source)
        try:
            now, link = state_of(name)
        except OSError as error:
            state = FileState(source, 0, 0, 0)
            return _ReadFile(
                Path(name), state, failed=UnreadFile(state, unreadable(Path(name), error))
            )
        version = now.st_size, storable_ns(now)
        if known and is_as_read(known.state, *version) and not again:
            led = run.origins(absolute, link=link)
            same = led == known.state.origins
            if same and not holds:
                return Unchanged(source)  # as most files of most folders
            state = known.state if same else replace(known.state, origins=led)
            return _ReadFile(Path(name), state, kept=known)
        met = _ReadFile(Path(name), FileState(source, *version, 0), again=again)
        failed = run.failures.known(source)
        if failed and is_as_read(failed.state, *version):
            met.failed = failed
            return met
        try:
            self._read(met, known, run, ahead)
        except ParsingError as error:
            met.failed = UnreadFile(met.state, error)
        except OSError as error:
            met.failed = UnreadFile(met.state, unreadable(met.path, error))
        return met

    def _read(
        self, met: _ReadFile, known: SourceRecord | None, run: Run, ahead: Ahead[_Given, _Parsed]
    ) -> None:
        """Read a file, and have it parsed if that is needed."""
        path, state = met.path, met.state
        led, checked = origins(path), time.time_ns()
        with run.timed("read"):
            met.data = self.read(path, below=run.roots)
        # Links may have changed before the bytes were there.
        led = tuple(sorted({*led, *origins(path)}))
        met.state = replace(state, checked_ns=checked, origins=led)
        met.digest = digest = hashlib.sha256(met.data).hexdigest()
        if (met.again or known is None or known.document_id != digest) and (
            attaches(path) or not self._is_here(digest, run)
        ):
            run.coming[digest] += 1
            page_done = run.page_done(state.path, ahead=True)
            met.parsing = ahead.submit((path, met.data, page_done))

    def _original(self, path: Path) -> bytes:
        """A file of the library, wherever it leads: only the bytes that it had count."""
        return self.read(path, below=self._roots([path]))

    def _roots(self, paths: Sequence[Path]) -> list[str]:
        """Where what is named really lies, so far as that may be opened."""
        real = (os.path.realpath(path) for path in paths)
        below = self.below
        return [
            path for path in real if below is None or any(is_in(path, folder) for folder in below)
        ]

    def _is_here(self, digest: str, run: Run) -> bool:
        """Whether a document is in the library, or on its way into it."""
        return (
            bool(run.coming[digest]) or digest in run.pending or self.library.has_document(digest)
        )

    def _parse_timed(self, arguments: _Given) -> _Parsed:
        attached: list[Attachment] = []
        began = time.perf_counter()
        path, data, page_done = arguments
        document = self.parse(path, data, page_done=page_done, attach=attached.append)
        return document, attached, time.perf_counter() - began

    def _document(self, met: _ReadFile, run: Run) -> tuple[Document, list[Attachment]]:
        """What a file is, and what is inside it: as soon as it is parsed, if that has begun."""
        if met.parsing:
            parsed = met.parsing.result(self._meanwhile(run))
        else:
            parsed = self._parse_timed((met.path, met.data, run.page_done(met.state.path)))
        document, attached, seconds = parsed
        run.seconds["parse"] += seconds
        return document, attached

    def _meanwhile(self, run: Run) -> Callable[[], None]:
        """What is done while a file is read: what came before it does not wait for a long one."""
        since = time.monotonic()

        def now_and_then() -> None:
            run.tell_pages()
            if run.pending and time.monotonic() - since > SLOW:
                self._flush(run)

        return now_and_then

    def _take(self, met: _ReadFile | Unchanged, run: Run) -> None:
        """Do what is to be done with a file, all but embedding and storing it."""
        if isinstance(met, Unchanged):
            run.tell(met)
            return
        if met.failed:
            run.fail(met.failed, tried=met.failed is not run.failures.known(met.state.path))
        elif met.kept:
            self._keep(met.kept, met.state, run)
        else:
            if met.parsing:
                run.coming[met.digest] -= 1
            try:
                self._hold(met, run, NestedFileBudget(met.again))
            except ParsingError as error:
                run.fail(unread.failed(met.state, error))
        if run.waiting() >= BATCH or len(run.touched) >= BATCH:
            self._flush(run)
            self._sync_if_due(run)

    def _keep(self, known: SourceRecord, state: FileState, run: Run) -> None:
        """Let what the library holds of a file stand, and what is inside it: it is as it was."""
        inside = list(run.inside(state.path)) if attaches(state.path) else []
        if inside:
            run.tell(FilesFound(len(inside)))
        for record in (known, *inside):
            name = record.state.path[len(state.path) :]
            now = inside_of(state, name, record.state.size) if name else state
            new = not set(now.origins) <= set(record.state.origins)
            if new or now.checked_ns != record.state.checked_ns:
                run.touched.append((now, record.document_id))
            run.tell(Unchanged(record.state.path))
        if attaches(state.path):
            for file in run.failures.inside(state.path):
                if "count" in file.error.values:  # files of other types
                    run.failures.add(file)
                else:
                    run.tell(FilesFound(1))
                    run.fail(file, tried=False)

    def _hold(self, met: _ReadFile, run: Run, room: NestedFileBudget, depth: int = 0) -> None:
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
            document, attached = self._document(met, run)
        if attaches(path):
            self._hold_inside(path, attached, state, run, room, depth)
        if here and digest not in run.pending:
            if attached or run.gone:
                self._flush(run)
            with run.hold():
                linked = library.set_sources([(state, digest)])
            if linked:
                run.tell(Unchanged(source) if same else Linked(source, digest))
                return
            # Somebody else has removed it meanwhile.
        if digest in run.pending:
            waiting = run.pending[digest]
            run.pending[digest] = replace(waiting, states=[*waiting.states, state])
        else:
            document = document or self._document(met, run)[0]
            document = replace(storable(document), source=source)
            run.pending[digest] = self._passages.cut(document, [state], len(met.data), run)

    def _hold_inside(
        self,
        path: Path,
        attached: Sequence[Attachment],
        state: FileState,
        run: Run,
        room: NestedFileBudget,
        depth: int,
    ) -> None:
        """Hold each file inside a file as if it lay in a folder of that name."""
        attachments = [
            attachment for attachment in attached if depth < DEEPEST and room.admit(attachment)
        ]
        if len(attachments) < len(attached):
            run.skipped.append(too_many(path, len(attached) - len(attachments)))
        inside = {os.sep + name: attachment for name, attachment in named(attachments)}
        for record in run.inside(state.path):
            name = record.state.path[len(state.path) :]
            if os.sep + name[1:].partition(os.sep)[0] not in inside:
                run.gone.append(record.state.path)
        for number, (name, attachment) in enumerate(inside.items()):
            if not room.slow:
                run.skipped.append(too_slow(path, len(inside) - number))
                break
            place = Path(f"{path}{name}")
            if not format_of(place) and (
                error := refusal(place, attachment.data[:SAMPLE], len(attachment.data))
            ):
                run.skipped.append(error)
                continue
            run.tell(FilesFound(1))
            child = inside_of(state, name, len(attachment.data))
            try:
                digest = hashlib.sha256(attachment.data).hexdigest()
                self._hold(_ReadFile(place, child, attachment.data, digest), run, room, depth + 1)
            except ParsingError as failed:
                room.slow -= isinstance(failed, SlowFileError)
                run.fail(unread.failed(child, failed))

    def _flush(self, run: Run) -> None:
        """Embed what is pending, commit it, and only then report it."""
        library, pending = self.library, list(run.pending.values())
        if not pending and not run.touched and not run.gone:
            self._remember(run)
            return
        run.pending.clear()
        with run.timed("embed"):
            vectors = self._passages.embed([document.chunks for document in pending], run)
        replaced = [document.states[0].path in run.known for document in pending]
        with run.timed("store"), run.hold():
            # One transaction for the batch: each commit waits for the disk.
            new = [
                replace(document, vectors=rows)
                for document, rows in zip(pending, vectors, strict=True)
            ]
            library.add(new, run.gone)
            if run.touched:
                library.set_sources(run.touched)
                run.touched.clear()
        for document, again in zip(pending, replaced, strict=True):
            first, *others = document.states
            run.tell(Committed(first.path, document.document.id, len(document.chunks), again))
            for state in others:
                run.tell(Linked(state.path, document.document.id))
        for source in run.gone:
            run.tell(Removed(source))
        run.gone.clear()
        self._remember(run)

    def _remember(self, run: Run, forgotten: Sequence[str] = ()) -> None:
        """Keep which files could not be read."""
        new = run.failures.new()
        if new or forgotten:
            with run.hold():
                self.library.set_unread(new, forgotten=forgotten)

    def _sync_if_due(self, run: Run) -> None:
        elapsed = time.monotonic() - run.synced_at
        if elapsed > max(SYNC_SECONDS, SYNC_SHARE * run.sync_took):
            self._sync(run)

    def _sync(self, run: Run) -> None:
        started = time.monotonic()
        with run.timed("index"), run.hold():
            self.library.sync()
        run.synced_at = time.monotonic()
        run.sync_took = run.synced_at - started
        run.tell(Synced(run.sync_took))


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
