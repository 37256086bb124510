"""What a parser or a file system may hand over and a database cannot hold."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

from localrag.types import Document, Heading, Page

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def storable(document: Document, source: str) -> Document:
    """The document with U+FFFD for lone surrogates, which are no text; offsets stay."""
    return replace(
        document,
        source=source,
        title=_clean(document.title),
        pages=tuple(Page(page.number, _clean(page.text)) for page in document.pages),
        headings=tuple(
            Heading(heading.start, heading.level, _clean(heading.text))
            for heading in document.headings
        ),
        metadata={_clean(name): _clean(value) for name, value in document.metadata.items()},
    )


def storable_path(path: Path) -> str:
    """The absolute path; bytes of a name that are no UTF-8 are written as hexadecimal escapes."""
    absolute = os.path.abspath(path)  # noqa: PTH100 - Path.absolute leaves ".." in
    return os.fsencode(absolute).decode("utf-8", "backslashreplace")


def _clean(text: str) -> str:
    return _LONE_SURROGATE.sub("\ufffd", text)
