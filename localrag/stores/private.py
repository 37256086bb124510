"""Which documents are private: of these nothing goes to a language model on another machine."""

from __future__ import annotations

import os
import posixpath
import re
import unicodedata
from collections.abc import Sequence
from fnmatch import translate

from localrag.stores.library import Library


class PrivateSources:
    """Patterns for paths, with `*`, `?` and `[...]`; `*` stands for folders too.

    A pattern counts from the start of any name in a path and to the end of any: "contracts",
    "./contracts", "contracts/*" and "/home/ada/contracts" all mean everything below that folder.
    Small and capital letters are one, brackets also stand for themselves, links count as what
    they lead to as well, and a document that has several paths is private if one of them is: in
    doubt, nothing is sent.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        found = [form for pattern in patterns if pattern.strip() for form in _forms(pattern)]
        self._matches = re.compile("|".join(found)).match if found else None

    def __bool__(self) -> bool:
        return self._matches is not None

    def holds(self, path: str) -> bool:
        """Whether the document at a path is private."""
        if self._matches is None:
            return False
        if self._matches("/" + _plain(path)):
            return True
        # A document that was added over a link.
        return self._matches("/" + _plain(os.path.realpath(path))) is not None

    def documents(self, library: Library) -> frozenset[str]:
        """Ids of the private documents of a library."""
        if self._matches is None:
            return frozenset()
        return frozenset(
            record.document_id for record in library.sources() if self.holds(record.state.path)
        )


def _forms(pattern: str) -> list[str]:
    """The pattern as regular expressions over whole paths with "/" in front."""
    given = os.path.expanduser(pattern.strip())  # noqa: PTH111 - * is no path
    names = {given}
    if given.startswith((".", "/", "\\")) or os.path.isabs(given):  # noqa: PTH117
        # A path that leads over a link, or from here, is also the one that it leads to.
        names |= {os.path.abspath(given), os.path.realpath(given)}  # noqa: PTH100
    forms = []
    for name in names:
        plain = _plain(name).strip("/")
        if plain in ("", ".", ".."):
            continue
        forms += [translate(f"*/{plain}"), translate(f"*/{plain}/*")]
        forms.append(f"(?s:.*/{re.escape(plain)}(?:/.*)?)\\Z")
    return forms


def _plain(path: str) -> str:
    """One way of writing a path: no doubled separators, no `.` for here."""
    return posixpath.normpath(unicodedata.normalize("NFC", path).replace("\\", "/").casefold())
