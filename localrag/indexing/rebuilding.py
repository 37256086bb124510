"""Make what a library holds what adding it all now would make it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from localrag.documents.chunking import passage_text
from localrag.documents.files import Parse, Read
from localrag.documents.worker import storable
from localrag.errors import ParsingError
from localrag.indexing.events import (
    Committed,
    Embedded,
    Failed,
    FilesFound,
    Kept,
    Parsed,
    ReadAgain,
)
from localrag.indexing.originals import original
from localrag.indexing.passages import BATCH, Passages
from localrag.indexing.run import Run
from localrag.library.library import Library
from localrag.library.records import NewDocument
from localrag.types import Chunk, Document


@dataclass(frozen=True, slots=True)
class Rebuilding:
    """A rebuild of a library that is held for writing."""

    library: Library
    passages: Passages
    run: Run
    parse: Parse
    read: Read

    def cut_anew(self) -> None:
        """Cut and embed the stored text of all documents."""
        library, passages = self.library, self.passages
        todo = library.begin_rebuild(f"{passages.embedding.fingerprint}\n{passages.chunking}")
        self.run.tell(FilesFound(len(todo)))
        batch: list[tuple[Document, list[Chunk]]] = []
        for place, document_id in enumerate(todo, start=1):
            document = library.document(document_id)
            assert document is not None  # noqa: S101 - nobody else may write meanwhile
            with self.run.timed("chunk"):
                chunks = passages.chunker.chunk(document)
            self.run.tell(Parsed(document.source, len(document.pages), len(chunks)))
            batch.append((document, chunks))
            if place == len(todo) or sum(len(chunks) for _, chunks in batch) >= BATCH:
                self._stage(batch)
                batch = []
        with self.run.timed("index"):
            library.finish_rebuild(passages.embedding, passages.chunking)

    def read_again(self) -> None:
        """Read what an older version has read, document by document: each is in as it is done."""
        todo = self.library.outdated()
        self.run.tell(FilesFound(len(todo)))
        for place, document_id in enumerate(todo, start=1):
            if new := self._other_reading(document_id):
                self.run.pending[document_id] = new
            if place == len(todo) or self.run.waiting() >= BATCH:
                self._replace()

    def _other_reading(self, document_id: str) -> NewDocument | None:
        """A document as it is read now, None where that cannot be."""
        record = self.library.document_record(document_id)
        assert record is not None  # noqa: S101 - nobody else may write meanwhile
        source = record.sources[0] if record.sources else document_id
        try:
            for place in record.sources:
                with self.run.timed("read"):
                    data = original(self.library, place, document_id, self.parse, self.read)
                if data is not None:
                    with self.run.timed("parse"):
                        read = storable(self.parse(self.library.file_of(place), data))
                    document = replace(read, source=source)
                    return self.passages.cut(document, [], len(data), self.run)
        except ParsingError as error:
            self.run.tell(Failed(source, error))
        else:
            self.run.tell(Kept(source))
        return None

    def _replace(self) -> None:
        """Embed what says something new of the pending documents, and commit them."""
        pending = list(self.run.pending.values())
        self.run.pending.clear()
        vectors: list[dict[str, NDArray[np.float32]]] = []
        for document in pending:
            by_id = self.library.document_vectors(document.document.id)
            chunks = self.library.document_chunks(document.document.id)
            vectors.append({passage_text(chunk): by_id[chunk.id] for chunk in chunks})
        changed = [
            [document for document in chunk.chunks if passage_text(document) not in known]
            for chunk, known in zip(pending, vectors, strict=True)
        ]
        with self.run.timed("embed"):
            embedded = self.passages.embed(changed, self.run)
        for known, chunks, rows in zip(vectors, changed, embedded, strict=True):
            known |= zip(map(passage_text, chunks), rows, strict=True)
        with self.run.timed("store"):
            self.library.replace(
                replace(
                    document,
                    vectors=np.array(
                        [known[passage_text(chunk)] for chunk in document.chunks], dtype=np.float32
                    ).reshape(-1, self.passages.embedding.dimension),
                )
                for document, known in zip(pending, vectors, strict=True)
            )
        for document, chunks in zip(pending, changed, strict=True):
            count = len(document.chunks)
            self.run.tell(Embedded(count - len(chunks)))
            self.run.tell(
                ReadAgain(document.document.source, document.document.id, count, len(chunks))
            )

    def _stage(self, batch: list[tuple[Document, list[Chunk]]]) -> None:
        with self.run.timed("embed"):
            vectors = self.passages.embed([chunks for _, chunks in batch], self.run)
        with self.run.timed("store"):
            self.library.stage(
                (document.id, chunks, rows)
                for (document, chunks), rows in zip(batch, vectors, strict=True)
            )
        for document, chunks in batch:
            self.run.tell(Committed(document.source, document.id, len(chunks), replaced=True))
