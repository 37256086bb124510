"""Addresses of one view of one document, which another client can open in a browser.

The fragment, which no server log and no Referer sees, holds a key that opens this view alone. Where
people sign in there are no keys: whoever opens the address must be one who may see the document.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import asdict, dataclass, fields
from urllib.parse import parse_qsl, urlencode

from localrag.server.replies import digits
from localrag.types import Answer, Citation


@dataclass(frozen=True, slots=True)
class View:
    """A document with code points `start:end` of its text marked."""

    library: str
    document: str
    start: int
    end: int


_NAMES = sorted((*(field.name for field in fields(View)), "key"))
VIEW_PATHS = ("/api/view", "/api/view.png")


class Views:
    """Makes and checks the keys of views; `base` is the server's own address.

    Without a token there are none.
    """

    def __init__(self, token: str, base: str) -> None:
        self._secret = token.encode()
        self._base = base

    def key(self, view: View) -> str:
        """What opens this view and no other."""
        message = "\n".join(("view", view.library, view.document, str(view.start), str(view.end)))
        return hmac.new(self._secret, message.encode(), hashlib.sha256).hexdigest()

    def opens(self, view: View, key: str) -> bool:
        """Whether a key is that of the view."""
        return hmac.compare_digest(self.key(view).encode(), key.encode("utf-8", "replace"))

    def opened(self, path: str, query: str) -> bool:
        """Whether a request for a view brings the key to it."""
        if not self._secret:
            return False
        # Read as the route reads it, and nothing twice: what is checked is what is opened.
        pairs = parse_qsl(query, keep_blank_values=True)
        values = dict(pairs)
        if path not in VIEW_PATHS or sorted(name for name, _ in pairs) != _NAMES:
            return False
        start, end = digits(values["start"]), digits(values["end"])
        if start is None or end is None:
            return False
        return self.opens(View(values["library"], values["document"], start, end), values["key"])

    def link(self, library: str, answer: Answer, number: int) -> str:
        """The address of what a citation of an answer quotes."""
        return self.address(quoted(library, answer, answer.citations[number]))

    def address(self, view: View) -> str:
        """The address of a view, with the key to it in the fragment."""
        key = {"key": self.key(view)} if self._secret else {}
        return f"{self._base}/view#{urlencode(asdict(view) | key)}"


def quoted(library: str, answer: Answer, citation: Citation) -> View:
    """Where the quotation of a citation stands."""
    passage = next(
        context for context in answer.contexts if context.chunk.id == citation.chunk_id
    ).chunk
    if (view := view_of(library, passage.document_id, citation)) is not None:
        return view
    start = passage.start + max(0, passage.text.find(citation.quote))
    return View(library, passage.document_id, start, start + len(citation.quote))


def view_of(library: str, document: str, citation: Citation) -> View | None:
    """Where a quotation of the document of that id stands; None where that is not known."""
    if citation.place is None:
        return None
    start = citation.place.start
    return View(library, document, start, start + len(citation.quote))
