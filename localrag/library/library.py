"""A library on disk: the catalogue, and the two indexes that follow it.

Reading takes no lock. Writing takes one, and a change counts when its SQLite transaction has
committed: the indexes catch up, here or in whatever process opens the library next.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from localrag.errors import (
    LibraryDamagedError,
    LibraryError,
    LibraryMismatchError,
    UsageError,
)
from localrag.library.acting import acting_as_server
from localrag.library.backends.base import Backend, Left
from localrag.library.backends.opening import open_backend
from localrag.library.catalogue import cells, history, saved_tables
from localrag.library.catalogue.integrity import passages_are_sound
from localrag.library.catalogue.places import (
    page_of,
    place_of,
    places_of,
    rectangles_of,
    tables_within,
)
from localrag.library.catalogue.reads import HISTORY, PURGE_DUE, Snapshot
from localrag.library.catalogue.sweeping import SweepMark
from localrag.library.computed import clear_computed
from localrag.library.derived import (
    DerivedKeywords,
    Indexes,
    Note,
)
from localrag.library.folder.filesystem import (
    in_our_words,
    without_modes,
)
from localrag.library.folder.gate import (
    SWEPT,
    clear_states,
    folder_size,
    no_library,
    other_catalogue,
    states,
    sweep_parts,
    uploads,
)
from localrag.library.folder.locking import PATIENCE, OnWait
from localrag.library.folder.places import Places
from localrag.library.folder.sharing import close_to_others
from localrag.library.folder.uploads import file_of
from localrag.library.indexes.base import Legs
from localrag.library.location import Location
from localrag.library.problems import problems
from localrag.library.records import (
    Counts,
    EmbeddingIdentity,
    FileState,
    LibraryStatus,
    NewDocument,
    Removal,
    Removals,
    Stamp,
    UnreadFile,
)
from localrag.system.seals import Seal
from localrag.types import Chunk

if TYPE_CHECKING:
    from localrag.library.backends.postgres.queue import Jobs
    from localrag.library.catalogue.writes import Transaction

_P = ParamSpec("_P")
_R = TypeVar("_R")


def _snapshot_query(
    question: Callable[Concatenate[Snapshot, _P], _R],
) -> Callable[Concatenate[Library, _P], _R]:
    """The same question, to the library as it stands at that moment."""

    @wraps(question)
    def ask(library: Library, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        with library._catalogue.read() as snapshot:
            return question(snapshot, *args, **kwargs)

    return ask


def _ignore(_: Path) -> None:
    """Take no note."""


class Library:
    """Documents, their passages, and what is needed to find them, in a folder or a database.

    `location` is what a person calls it, `directory` the folder with the indexes that follow it.

    May be used from several threads. Close it, or use it in a `with` block.
    """

    def __init__(
        self, backend: Backend, indexes: Indexes, expected: EmbeddingIdentity | None, note: Note
    ) -> None:
        """Callers use `Library.open`."""
        self.location = backend.location
        self.directory = backend.folder
        self.backend = backend
        self.uploads = backend.uploads
        self.jobs: Jobs | None = backend.jobs
        """Work for the nodes of a library in a database; None for one in a folder."""
        self._catalogue = catalogue = backend.catalogue
        self._identity = catalogue.identity()
        self._lock = backend.lock
        self._writing = 0
        self.removed_before: Removals | None = None
        """How far removals were when it was opened: what came later it may have read."""
        self._expected = expected
        self._places = Places(backend.folder, backend.files, read_only=backend.read_only)
        self.seal: Seal = self._places.seal
        """What seals all that is derived from this library."""
        if self._places.kept_in_library:
            catalogue.keep(SweepMark(backend.folder / SWEPT, self._places.seal))
        vectors, keywords = indexes.legs
        common = catalogue, self._places, self._check, note
        self.vectors = backend.vectors(vectors, *common, indexes.placement)
        self.keywords = DerivedKeywords(keywords, *common)
        self._derived = (self.vectors, self.keywords)

    @classmethod
    def open(
        cls,
        location: Location,
        *,
        create: bool,
        embedding: EmbeddingIdentity | None,
        indexes: Indexes,
        note: Note = _ignore,
        serving: bool = False,
    ) -> Library:
        """Open the library at `location`, or create it if `create` and there is none.

        `embedding` None opens it without comparing models: for status, removal and rebuild. A
        library that is created needs one. Opens no index of `indexes`; the first search does.
        `serving`: for others, who are told apart where it is in a database with users (`acting`).
        Raises LibraryNotFoundError, LibraryMismatchError for another embedding model or a newer
        schema, LibraryDamagedError, or LibraryError for a folder that holds other files.
        """
        library = cls(open_backend(location, create=create), indexes, embedding, note)
        try:
            with acting_as_server():
                library._bring_up_to_date()
                if serving:
                    library._catalogue.serve()
                with library._catalogue.read() as snapshot:
                    library._check(snapshot)
                    due = snapshot.meta(PURGE_DUE)
                    with suppress(LibraryDamagedError):  # `rebuild` opens it, and mends that
                        library.removed_before = snapshot.removals()
                if due or library._catalogue.has_log:
                    library.purge_if_possible()
            library._follow_removals(library.removed_before)
            library._finish_conversion()
        except BaseException:
            library.close()
            raise
        return library

    def _finish_conversion(self) -> None:
        """Delete what is left of the other form of this library, where its maker was killed."""
        if not self.backend.read_only and other_catalogue(self.directory):
            with self._lock.try_hold() as mine:
                if mine:
                    with in_our_words(self.directory):
                        self.uploads.sweep()
                        sweep_parts(self.directory)

    def _bring_up_to_date(self) -> None:
        """Give the catalogue the tables of this version, and a new one its embedding model."""
        catalogue = self._catalogue
        if catalogue.needs_migration() and not self.backend.upgrade_elsewhere():
            with self._lock.hold(PATIENCE), self._changing():
                catalogue.migrate()
        with catalogue.read() as snapshot:
            unbound = snapshot.meta("embedding") is None
        if unbound:
            if self._expected is None:  # a process was killed while it created the library
                raise no_library(self.location)
            with (
                self._lock.hold(PATIENCE),
                self._changing(),
                catalogue.write() as transaction,
            ):
                if transaction.meta("embedding") is None:
                    transaction.set_embedding(self._expected)

    @property
    def is_of_others(self) -> bool:
        """Whether its folder can be written and is somebody else's all the same, as for root."""
        return self._places.of_others

    def close(self) -> None:
        """Close the catalogue. What is in memory of the indexes goes with the object."""
        self.backend.close()

    def __enter__(self) -> Library:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def forget(self) -> None:
        """Keep nothing in memory; the next question opens the files again."""
        removals = None
        with acting_as_server(), suppress(LibraryError):  # a database that is away, say
            removals = self.removals()
        for index in self._derived:
            index.forget()
        self._catalogue.close()
        self._follow_removals(removals)

    @property
    def tells_apart(self) -> bool:
        """Whether a server of it is to say who asks, as far as is known by now: see `acting`."""
        return self._catalogue.tells_apart

    @property
    def is_there(self) -> bool:
        """Whether it is still the library that was opened, and not another or none."""
        return self._identity is None or self._identity == self._catalogue.identity()

    # Reading

    embedding = property(_snapshot_query(Snapshot.embedding))
    stamp = _snapshot_query(Snapshot.stamp)
    removals = _snapshot_query(Snapshot.removals)
    counts = _snapshot_query(Snapshot.counts)
    chunk_set = _snapshot_query(Snapshot.chunk_set)
    is_empty = _snapshot_query(Snapshot.is_empty)
    has_rows = _snapshot_query(Snapshot.has_rows)
    documents = _snapshot_query(Snapshot.documents)
    listed = _snapshot_query(Snapshot.listed)
    has_document = _snapshot_query(Snapshot.has_document)
    document_record = _snapshot_query(Snapshot.document_record)
    document = _snapshot_query(Snapshot.document)
    text = _snapshot_query(Snapshot.text)
    page_spans = _snapshot_query(Snapshot.page_spans)
    place = _snapshot_query(place_of)
    places = _snapshot_query(places_of)
    page = _snapshot_query(page_of)
    rectangles = _snapshot_query(rectangles_of)
    tables_within = _snapshot_query(tables_within)
    sources = _snapshot_query(Snapshot.sources)
    source = _snapshot_query(Snapshot.source)
    paths = _snapshot_query(Snapshot.paths)
    chunks = _snapshot_query(Snapshot.chunks_by_id)
    chunk_ids = _snapshot_query(Snapshot.chunk_ids)
    chunk_ids_of = _snapshot_query(Snapshot.chunk_ids_of)
    chunks_between = _snapshot_query(Snapshot.chunks_between)
    outline = _snapshot_query(Snapshot.outline)
    with_tables = _snapshot_query(Snapshot.with_tables)
    spread_chunks = _snapshot_query(Snapshot.spread_chunks)
    document_chunks = _snapshot_query(Snapshot.document_chunks)
    document_vectors = _snapshot_query(Snapshot.document_vectors)
    outdated = _snapshot_query(Snapshot.outdated)
    sources_of = _snapshot_query(Snapshot.sources_of)
    passages_are_sound = _snapshot_query(passages_are_sound)
    readings = _snapshot_query(Snapshot.readings)
    unread = _snapshot_query(Snapshot.unread)
    problems = _snapshot_query(problems)
    keeps_history = property(_snapshot_query(history.keeps_history))
    conversations = _snapshot_query(history.conversations)
    kept_answers = _snapshot_query(history.kept_answers)
    kept_cells = _snapshot_query(cells.kept_cells)
    saved_tables = _snapshot_query(saved_tables.saved_tables)

    @contextmanager
    def one_state(self) -> Iterator[None]:
        """Have all questions of this thread meanwhile answered from the same state."""
        with self._catalogue.read():
            yield

    def legs_at_hand(self) -> Legs | None:
        """Both indexes, for searches within `one_state`, by other threads too.

        None where one has to be brought up to that state first, which may take minutes.
        """
        with self._catalogue.read() as snapshot:
            self._check(snapshot)
            vectors, keywords = self.vectors.at_hand(snapshot), self.keywords.at_hand(snapshot)
        return None if vectors is None or keywords is None else Legs(vectors, keywords)

    def file_of(self, source: str) -> Path:
        """Where the file of a source lies now: what was uploaded moves with the library."""
        return file_of(self.directory, source, self.source)

    def status(self) -> LibraryStatus:
        """What there is and in which state; opens no index and needs no model."""
        with self._catalogue.read() as snapshot:
            stamp = snapshot.stamp()
            holder = self._lock.current_holder()
            return LibraryStatus(
                location=str(self.location),
                counts=snapshot.counts(),
                embedding=snapshot.embedding(),
                chunkings=snapshot.chunkings(),
                outdated=len(snapshot.outdated()),
                generation=stamp[1],
                schema=snapshot.schema(),
                size_on_disk=folder_size(self.directory) + self._catalogue.size(),
                derived=tuple(index.status(stamp) for index in self._derived),
                writer=str(holder) if holder else "",
                shared=self._places.shared,
                without_modes=without_modes(self.directory),
            )

    # Writing

    @contextmanager
    def writing(self, timeout: float = PATIENCE, on_wait: OnWait | None = None) -> Iterator[None]:
        """Be the one who writes, waiting up to `timeout` seconds (-1: as long as it takes).

        `on_wait` is told once who writes now. Raises LibraryLockedError that names them.
        Re-entrant within a thread.
        """
        with self._lock.hold(timeout, on_wait):
            if not self._writing:
                self.backend.expect_there(self._identity)
            with in_our_words(self.directory):
                if not self._writing:
                    close_to_others(self.directory)
                    sweep_parts(self.directory)
            with self._changing():
                yield

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """See to what SQLite leaves behind in the catalogue; the caller holds the lock."""
        if not self._writing:
            self._catalogue.begin()
        self._writing += 1
        try:
            yield
        finally:
            self._writing -= 1
        if not self._writing:
            with suppress(LibraryError):  # what was changed stands: the next one tries again
                self._catalogue.settle()

    def add(self, documents: Iterable[NewDocument], gone: Iterable[str] = ()) -> None:
        """Add documents under their paths, and forget the paths `gone`, all in one transaction.

        A path that held another version shows the new one from then on, and the old version is
        gone unless another path holds it. The indexes are not touched: `sync` brings them up.
        """
        with self.writing(), self._catalogue.write() as transaction:
            self._check(transaction)
            for document in documents:
                transaction.add_document(document)
                for state in document.states:
                    self.uploads.keep(transaction, state.path, document.document.id)
            gone = list(gone)
            for path in gone:
                transaction.remove_source(path)
            if gone:
                self._forget_files(transaction, gone)

    def _forget_files(self, transaction: Transaction, gone: Collection[str]) -> None:
        """Take what names these paths beside the documents out, in that transaction."""
        saved_tables.forget_files(transaction.sql, transaction, gone)
        if self.jobs is not None:
            self.jobs.forget(transaction, gone)

    def replace(self, documents: Iterable[NewDocument]) -> None:
        """Put other readings of the same bytes in the place of documents, in one transaction."""
        with self.writing(), self._catalogue.write() as transaction:
            self._check(transaction)
            for document in documents:
                transaction.replace_document(document)

    def set_sources(self, sources: Iterable[tuple[FileState, str]]) -> bool:
        """Say that files hold documents, by id, that are in the library already.

        False where one of these is not; of its file nothing is said then.
        """
        with self.writing(), self._catalogue.write() as transaction:
            results = [transaction.set_source(state, document) for state, document in sources]
        return all(results)

    def set_unread(self, files: Iterable[UnreadFile], *, forgotten: Iterable[str] = ()) -> None:
        """Remember files that could not be read, and forget others, by path."""
        files, forgotten = list(files), list(forgotten)
        if files or forgotten:
            with self.writing(), self._catalogue.write() as transaction:
                transaction.forget_unread(forgotten)
                transaction.set_unread(files)

    def remove(
        self,
        *,
        sources: Iterable[str] = (),
        documents: Iterable[str] = (),
        unread: Iterable[str] = (),
        timeout: float = PATIENCE,
        on_wait: OnWait | None = None,
    ) -> Removal:
        """Forget paths and documents, in one transaction, and leave nothing of them on disk.

        So too of `unread`, paths of files that could not be read. A document goes when its last
        path goes. Unknown names raise UsageError and nothing is removed. The catalogue and both
        indexes are written anew without what was removed, and the write-ahead log is emptied;
        where that fails, `Removal.fault` says why, and whatever opens the library next does it.
        """
        with self.writing(timeout, on_wait):
            before = self.chunk_set().size
            gone_sources: list[str] = []
            gone_documents: list[str] = []
            gone_unread = tuple(unread)
            with self._catalogue.write() as transaction:
                for path in sources:
                    record = transaction.source(path)
                    if record is None:
                        raise _not_here(path)
                    gone_sources.append(path)
                    if transaction.remove_source(path):
                        gone_documents.append(record.document_id)
                for document_id in documents:
                    document = transaction.document_record(document_id)
                    if document is None:
                        raise _not_here(document_id)
                    transaction.remove_document(document_id)
                    gone_sources.extend(document.sources)
                    gone_documents.append(document_id)
                transaction.forget_unread((*gone_unread, *gone_sources))
                self._forget_files(transaction, (*gone_unread, *gone_sources))
            # What was committed is removed, whatever becomes of the rest: it stays due.
            purged, fault = False, None
            try:
                purged = self.purge()
            except LibraryError as error:
                fault = error
        chunks = before - self.chunk_set().size
        return Removal(
            tuple(gone_sources), tuple(gone_documents), chunks, purged, gone_unread, fault
        )

    def fill_from(self, source: Snapshot) -> None:
        """Copy every row of another catalogue into this library, which holds no documents."""
        with self.writing(), self._catalogue.write() as transaction:
            transaction.copy_from(source)

    def keep_history(self, *, on: bool) -> None:
        """Say whether answers are to be kept from now on; what is kept stays."""
        with self.writing(), self._catalogue.write() as transaction:
            if on:
                transaction.set_meta(HISTORY, 1)
            else:
                transaction.forget_meta(HISTORY)

    def keep_answer(
        self,
        conversation: str,
        question: str,
        record: str,
        documents: Collection[str],
        *,
        after: int,
        timeout: float = PATIENCE,
    ) -> bool:
        """Add an answer, written from these documents, to a conversation of `after` answers.

        False where nothing is to be kept, or one of the documents or of the answers before has
        gone meanwhile.
        """
        with self.writing(timeout), self._catalogue.write(own=True) as transaction:
            return history.keeps_history(transaction) and history.keep_answer(
                transaction.sql, conversation, question, record, documents, after=after
            )

    def keep_cells(self, records: Mapping[tuple[str, str], str], timeout: float = PATIENCE) -> None:
        """Keep what documents, by id, answer to questions, by key, until they change or go.

        Raises LibraryLockedError when another process keeps writing for `timeout` seconds.
        """
        if records:
            with self.writing(timeout), self._catalogue.write() as transaction:
                cells.keep_cells(transaction.sql, records)

    def save_table(self, name: str, patterns: Iterable[str], record: str) -> None:
        """Keep under a name what a table asks, in place of an older one."""
        with self.writing(), self._catalogue.write() as transaction:
            saved_tables.save_table(transaction.sql, name, patterns, record)

    def forget_table(self, name: str) -> bool:
        """Forget the table of that name, and leave nothing of it on disk; whether there was one."""
        with self.writing():
            with self._catalogue.write() as transaction:
                gone = saved_tables.forget_table(transaction.sql, name)
                if gone and self.backend.erases:
                    transaction.set_meta(PURGE_DUE, 1)
            if gone and self.backend.erases:
                self.purge()
            return gone

    def forget_conversations(self, key: str | None = None) -> bool:
        """Forget a kept conversation, or all, and leave nothing of them on disk.

        Whether it is gone from every file; else whatever opens the library next sees to it.
        """
        with self.writing():
            with self._catalogue.write(own=True) as transaction:
                gone = history.forget_conversations(transaction.sql, key)
                if gone and self.backend.erases:
                    transaction.set_meta(PURGE_DUE, 1)
            return self.purge() if self.backend.erases else True

    def expect(self, embedding: EmbeddingIdentity) -> None:
        """Raise LibraryMismatchError, now and later, unless the vectors are of this model."""
        self._expected = embedding
        with self._catalogue.read() as snapshot:
            self._check(snapshot)

    def sync(self) -> None:
        """Bring both indexes up to the catalogue, on disk or in its database."""
        with self.writing():
            self.vectors.build()
            for index in self._derived:
                index.current(keep=True)

    def take_over(self, origin: Library) -> Counts:
        """Copy all that another library holds into this one, which must hold nothing.

        Raises UsageError where both are the same, under whatever names.
        """
        if origin._catalogue.identity() == self._catalogue.identity():
            raise UsageError(
                "The library {directory} cannot be moved onto itself.",
                hint="Name a library that is not there yet.",
                directory=str(self.location),
            )
        with (
            self.writing(),
            origin._catalogue.read() as snapshot,
            self._catalogue.write() as transaction,
        ):
            if not transaction.holds_nothing():
                raise LibraryError(
                    "The library {directory} is not empty; a move would mix two libraries.",
                    hint="Name a library that is not there yet.",
                    directory=str(self.location),
                )
            transaction.copy_from(snapshot, whole=True)
            self.uploads.take_over(transaction, origin.uploads.all(snapshot.sources()))
            return transaction.counts()

    def purge(self) -> bool:
        """Leave nothing removed in any file; False when a reader keeps the log busy.

        Where it is cut off or False, whatever opens the library next tries again.
        """
        with self.writing(), in_our_words(self.directory):
            self.sweep_uploads()
            if not self._places.kept_in_library:  # nobody here brings them up
                self._erase_indexes()
            # A state says as much as the passage that it stands for.
            if not clear_states(self.directory) or not clear_computed(self.removals()):  # in use
                return False
            if not self._catalogue.swept:
                with self._catalogue.write() as transaction:
                    transaction.drop_left_over()
            self.sync()
            with self._catalogue.read() as snapshot:
                stamp = snapshot.stamp()
            if not self._erase_indexes(but=stamp):
                return False
            with self._catalogue.write() as transaction:
                transaction.forget_removals(keep=self._catalogue.follow)
            if not self._catalogue.purge():
                return False
            with self._catalogue.write() as transaction:
                transaction.forget_meta(PURGE_DUE)
            return True

    def sweep_uploads(self) -> None:
        """Delete the files in `uploads` that are no document's any more, or are not yet."""
        with self.writing():
            self.uploads.sweep()

    def purge_if_due(self) -> None:
        """Purge, if something was removed since the last time."""
        with self._catalogue.read() as snapshot:
            due = snapshot.meta(PURGE_DUE)
        if due:
            self.purge()

    def purge_if_possible(self) -> None:
        """Do what a removal that was cut off has left to do; reading goes on where it cannot."""
        with self._lock.try_hold() as mine:
            if mine:
                with suppress(LibraryError), self._changing():  # a full disk, say: it stays due
                    self.purge_if_due()

    def _follow_removals(self, removals: Removals | None) -> None:
        """Leave nothing on this machine of what others have removed."""
        if removals is not None:
            clear_computed(removals, keep=True)
        if not (self.backend.has_nodes and self.is_there):
            return
        if uploads(self.directory):  # of an upload that was killed, or is under way
            with self.backend.files.try_hold() as mine, suppress(OSError):  # it stays to be done
                if mine:
                    self.uploads.sweep()
        with acting_as_server(), self._catalogue.read() as snapshot:
            stamp, removed = snapshot.stamp(), snapshot.removals().generation
            legs = [index.status(stamp) for index in self._derived if index.persistent]
        if not any(leg.present for leg in legs) and not states(self.directory):
            return
        if all(leg.present and stamp[1] - leg.behind >= removed for leg in legs):
            return
        with self._places.library.if_free() as mine:
            if mine:
                with suppress(LibraryError):  # it stays to be done
                    clear_states(self.directory)
                    with acting_as_server():
                        for derived in self._derived:
                            derived.current(keep=True)
                    self._erase_indexes(but=stamp)

    def clear_states(self) -> None:
        """Delete what language models made of passages; it is made again."""
        clear_states(self.directory)

    def mend(self) -> None:
        """Write the catalogue's own indexes anew; rows that belong to nothing go."""
        with self.writing(), self._catalogue.write() as transaction:
            transaction.mend()

    def rebuild_indexes(self) -> None:
        """Write both indexes anew from the catalogue, whatever state they are in."""
        with self.writing():
            with in_our_words(self.directory):
                self._erase_indexes()
            self.vectors.drop()
            for index in self._derived:
                index.forget()
            self.purge()

    def _erase_indexes(self, but: Stamp | None = None) -> bool:
        gone = [index.erase(but) for index in self._derived]
        return all(gone)

    # Cutting and embedding everything anew: the old answers stand until `finish_rebuild`

    def begin_rebuild(self, plan: str) -> list[str]:
        """Start a rebuild, or go on with one of the same plan that was cut off.

        Returns the ids of the documents that are still to be staged.
        """
        with self.writing(), self._catalogue.write() as transaction:
            transaction.begin_staging(plan)
            return transaction.unstaged()

    def stage(self, documents: Iterable[tuple[str, Sequence[Chunk], NDArray[np.float32]]]) -> None:
        """Keep the ids of documents with their new chunks and vectors, shape (n, dimension)."""
        with self.writing(), self._catalogue.write() as transaction:
            for document_id, chunks, vectors in documents:
                transaction.stage(document_id, chunks, vectors)

    def finish_rebuild(self, embedding: EmbeddingIdentity, chunking: str) -> None:
        """Put everything staged in the place of the old chunks at once, then both indexes."""
        with self.writing():
            self.vectors.drop()
            clear_computed(self.removals())  # which is known by the epoch that ends here
            with self._catalogue.write() as transaction:
                if transaction.unstaged():
                    raise ValueError("documents are left that have not been staged")
                transaction.swap_staged(embedding, chunking)
            self._expected = embedding
            self.purge()

    def _check(self, snapshot: Snapshot) -> None:
        """Raise LibraryMismatchError when the library's vectors are not ours to compare with."""
        identity = snapshot.embedding()
        expected = self._expected
        if expected is not None and expected.fingerprint != identity.fingerprint:
            raise LibraryMismatchError(
                "The library {directory} was built with the embedding model {found}, but the "
                "settings say {expected}; vectors of different models cannot be compared.",
                hint="Run `localrag rebuild` to embed everything with {expected}. To keep {found}, "
                "do not set embedding.model (`localrag config unset embedding.model`).",
                directory=str(self.location),
                found=_model_name(identity, expected),
                expected=_model_name(expected, identity),
            )


def delete_library(
    location: Location, *, timeout: float = PATIENCE, on_wait: OnWait | None = None
) -> Left:
    """Delete a library with all that it holds, waiting up to `timeout` seconds for the right to.

    Raises LibraryNotFoundError, LibraryLockedError that names who writes, and LibraryError where
    it is in use otherwise.
    """
    with closing(open_backend(location)) as backend, backend.lock.hold(timeout, on_wait):
        with suppress(LibraryError), acting_as_server(), backend.catalogue.read() as snapshot:
            clear_computed(snapshot.removals())
        backend.delete()
    return backend.left()


def _model_name(identity: EmbeddingIdentity, other: EmbeddingIdentity) -> str:
    """The model's name, with its fingerprint where the names alone would not differ."""
    return (
        identity.name
        if identity.name != other.name
        else f"{identity.name} [{identity.fingerprint[:12]}]"
    )


def _not_here(name: str) -> UsageError:
    return UsageError(
        "{name} is not in the library.",
        hint="See what is there with `localrag status --documents`.",
        name=name,
    )
