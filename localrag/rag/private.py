"""What a language model on another machine is given to read: never a private passage."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

from localrag.documents.chunking import passage_text
from localrag.egress.consent import Excerpt
from localrag.egress.quotations import Quotations
from localrag.library.library import Library
from localrag.library.private import PrivateSources
from localrag.models.llms.openai.guard import Guard
from localrag.rerankers.base import Reranker, Tell, unheard
from localrag.types import Note, ScoredChunk


class LibrarySecrecy:
    """The texts of a library's private documents: a `Secrecy`. Several threads may use it."""

    def __init__(self, library: Library, private: PrivateSources) -> None:
        self._library = library
        self._private = private
        self._lock = threading.Lock()
        self._read: frozenset[str] = frozenset()
        self._texts = Quotations(())
        self._passages = 0

    def documents(self) -> frozenset[str]:
        """Ids of the private documents now: files come and go."""
        return self._private.documents(self._library)

    def quoted(self, text: str, apart_from: Iterable[str]) -> bool:
        """Whether a text quotes a private document, in words that the others do not hold too."""
        with self._lock:
            self._keep_up()
            return self._texts.quoted(text, apart_from)

    def passages(self) -> int:
        """How many passages are private."""
        with self._lock:
            self._keep_up()
            return self._passages

    def _keep_up(self) -> None:
        now = self.documents()
        if now == self._read:
            return
        documents = [self._library.document(document_id) for document_id in sorted(now)]
        self._texts = Quotations(document.text for document in documents if document is not None)
        self._passages = sum(len(self._library.document_chunks(document_id)) for document_id in now)
        self._read = now


class Outgoing:
    """Takes private passages out of what a hosted model is to read, and tells its guard the rest.

    `secrecy` None: nothing is private.
    """

    def __init__(self, guard: Guard, secrecy: LibrarySecrecy | None) -> None:
        self._guard = guard
        self._secrecy = secrecy

    def sendable(self, chunks: Sequence[ScoredChunk]) -> list[ScoredChunk]:
        """Those that may go, in their order."""
        private = self._secrecy.documents() if self._secrecy is not None else frozenset()
        hits = [hit for hit in chunks if hit.chunk.document_id not in private]
        self._guard.offer(
            {
                chunk.id: Excerpt(
                    hit.source, chunk.first_page, chunk.last_page, passage_text(chunk)
                )
                for hit in hits
                for chunk in [hit.chunk]
            }
        )
        return hits


class SendableReranker:
    """A reranker by a hosted model: what may not go there is left out, and `tell` hears so."""

    def __init__(self, reranker: Reranker, outgoing: Outgoing) -> None:
        self._reranker = reranker
        self._outgoing = outgoing

    def rerank(
        self, query: str, chunks: Sequence[ScoredChunk], k: int, tell: Tell = unheard
    ) -> list[ScoredChunk]:
        """At most k of the chunks that may go, best first."""
        hits = self._outgoing.sendable(chunks)
        if len(hits) < len(chunks):
            tell(Note("private left out", {"left_out": len(chunks) - len(hits)}))
        return self._reranker.rerank(query, hits, k, tell)
