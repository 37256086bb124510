"""Addresses of one view of one document, which another client can open in a browser.

The fragment, which no server log and no Referer sees, holds a key that opens this view alone.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from urllib.parse import urlencode

from localrag.types import Answer


@dataclass(frozen=True, slots=True)
class View:
    """A document with code points `start:end` of its text marked."""

    library: str
    document: str
    start: int
    end: int


class Views:
    """Makes and checks the keys of views; `base` is the server's own address."""

    def __init__(self, token: str, base: str) -> None:
        self._secret = token.encode()
        self._base = base

    def key(self, view: View) -> str:
        """What opens this view and no other."""
        said = "\n".join(("view", view.library, view.document, str(view.start), str(view.end)))
        return hmac.new(self._secret, said.encode(), hashlib.sha256).hexdigest()

    def opens(self, view: View, key: str) -> bool:
        """Whether a key is that of the view."""
        return hmac.compare_digest(self.key(view).encode(), key.encode("utf-8", "replace"))

    def link(self, library: str, answer: Answer, number: int) -> str:
        """The address of what a citation of an answer quotes."""
        citation = answer.citations[number]
        passage = next(one for one in answer.contexts if one.chunk.id == citation.chunk_id).chunk
        at = max(0, passage.text.find(citation.quote))
        start = passage.start + at
        view = View(library, passage.document_id, start, start + len(citation.quote))
        fields = {
            "library": view.library,
            "document": view.document,
            "start": view.start,
            "end": view.end,
            "key": self.key(view),
        }
        return f"{self._base}/view#{urlencode(fields)}"
