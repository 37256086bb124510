"""A page of a document with words of it marked: its text, and its image where there is one.

The text is what the library holds. The image is drawn from the original, as long as its bytes are
those that were read; where the words stand on it was kept then, and is never searched for again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Literal

from localrag.documents.formats.table import format_of
from localrag.documents.lines import is_cjk, squeeze
from localrag.documents.worker import ParsingProcess
from localrag.errors import ParsingError, UsageError
from localrag.indexing.originals import original
from localrag.indexing.reading import find, origin
from localrag.library.library import Library
from localrag.library.records import DocumentRecord, PageSpan
from localrag.system.memory import pattern_of_words
from localrag.text.normalize import clean
from localrag.types import Place

MOST_SPANS = 100
"""Places on a page that are marked: what stands more often is not what somebody looks for."""
AROUND = 20_000
"""Code points before and behind a span that are shown of a page without end, such as a sheet."""

WIDTH = 1400
"""Pixels of an image from side to side: a page of A4 at 170 dpi."""

_LETTER = "[0-9A-Za-z\u00c0-\u024f]"
"""What a word of a script with spaces is made of."""

Span = tuple[int, int]
"""The first code point, and the one behind the last."""
State = Literal["same", "changed", "gone", "failed"]


@dataclass(frozen=True, slots=True)
class PageView:
    """A page, or what stands around `spans` of it, counted in `text`.

    `text` begins at code point `start` of the document. `image` is a PNG, and `marked` says that
    all spans are marked on it: where one stands is not always known for sure. `top` is how far
    down it, from 0 to 1, the first mark begins. `state` says of `paths`, where the document was
    read, whether its file has "changed" since or is "gone"; or that drawing it has "failed", for
    the reason `fault`.
    """

    document_id: str
    paths: tuple[str, ...]
    place: Place
    pages: int
    text: str
    start: int
    spans: tuple[Span, ...]
    state: State = "same"
    image: bytes | None = None
    marked: bool = False
    top: float = 0.0
    fault: ParsingError | None = None

    @property
    def is_drawn(self) -> bool:
        """Whether its format has pages that can be drawn."""
        return any(is_drawn(path) for path in self.paths)


def view_words(library: Library, source: str, number: int, words: str | None = None) -> PageView:
    """A page of a file, and wherever these words stand on it, without its image.

    `source` is its path or the end of it. White space in `words` may differ, and so may capital
    letters. Raises UsageError for what is not there.
    """
    record = find(library, source)
    about = library.document_record(record.document_id) if record else None
    if record is None or about is None:
        raise UsageError(
            "{source} is not in the library.",
            hint="See what is in the library with `localrag status --documents`.",
            source=source,
        )
    page = library.page(about.id, number=number)
    if page is None:
        raise UsageError(
            "{source} has no such page; it has {count} pages.",
            hint="Pages count from 1.",
            source=source,
            count=about.pages,
        )
    text = library.text(about.id, page.start, page.end)
    spans = () if words is None else occurrences(text, words)
    paths = dict.fromkeys((record.state.path, *about.sources))
    return _view(library, about, page, page.start, text, spans, tuple(paths))


def view_span(library: Library, document_id: str, start: int, end: int) -> PageView | None:
    """The page on which code points `start:end` of a document begin, without its image.

    None where there is no such document.
    """
    about, page = library.document_record(document_id), library.page(document_id, offset=start)
    if about is None or page is None:
        return None
    start, end = (max(page.start, min(bound, page.end)) for bound in (start, end))
    begin, behind = max(page.start, start - AROUND), min(page.end, max(start, end) + AROUND)
    spans = ((start - begin, end - begin),) if start < end else ()
    text = library.text(document_id, begin, behind)
    return _view(library, about, page, begin, text, spans, about.sources)


def with_image(
    library: Library, view: PageView, drawing: ParsingProcess, width: int = WIDTH
) -> PageView:
    """The view with its image, `width` pixels wide, where its file still is what was read."""
    paths = [path for path in view.paths if is_drawn(path)]
    files = ((path, original(library, path, view.document_id, drawing)) for path in paths)
    path, data = next((file for file in files if file[1] is not None), ("", None))
    if data is None:  # `_view` may have gone by its size and time
        return replace(view, state="changed" if paths and view.state == "same" else view.state)
    start, number = view.start, view.place.number
    stands = [
        line
        for a, b in view.spans
        for line in library.rectangles(view.document_id, start + a, start + b)
        if line.rectangles
    ]
    boxes = [box for line in stands for box in line.rectangles]
    size = (stands[0].width, stands[0].height) if stands else (0.0, 0.0)
    try:
        drawn = drawing.draw(Path(path), data, number, width=width, boxes=boxes, size=size)
    except ParsingError as error:
        return replace(view, state="failed", fault=error)
    marked = drawn.marked and len(stands) == len(view.spans)
    top = stands[0].rectangles[0][1] / max(1.0, size[1]) if drawn.marked else 0.0
    return replace(view, state="same", image=drawn.png, marked=marked, top=top)


def occurrences(text: str, words: str) -> tuple[Span, ...]:
    """Where words stand in a text, whatever white space is between them.

    Raises UsageError for no words, and where they stand more than `MOST_SPANS` times.
    """
    sought = squeeze(clean(words))
    if not sought:
        raise UsageError("There are no words to mark.", hint="Give some, in quotes.")
    pattern, last = rf"(?<!{_LETTER})" if re.match(_LETTER, sought) else "", ""
    for part in sought.split(" "):
        for number, character in enumerate(part):
            if last and (is_cjk(last) or is_cjk(character)):  # written without spaces, or with
                pattern += r"\s*"
            elif last and number == 0:
                pattern += r"\s+"
            pattern += re.escape(character)
            last = character
    pattern += rf"(?!{_LETTER})" if re.match(_LETTER, last) else ""
    spans = tuple(match.span() for match in pattern_of_words(pattern).finditer(text))
    if len(spans) > MOST_SPANS:
        raise UsageError(
            "These words stand {count} times on the page: {words}.",
            hint="Give more of them.",
            count=len(spans),
            words=words,
        )
    return spans


def _view(
    library: Library,
    about: DocumentRecord,
    page: PageSpan,
    start: int,
    text: str,
    spans: tuple[Span, ...],
    paths: tuple[str, ...],
) -> PageView:
    first = start + spans[0][0] if spans else page.start
    place = library.place(about.id, first) or Place(first, number=page.number)
    return PageView(
        about.id, paths, place, about.pages, text, start, spans, state_of(library, paths)
    )


def state_of(library: Library, paths: Sequence[str]) -> State:
    """That of the file which is most like what was read."""
    records = (record for path in paths if (record := library.source(path)))
    states = [origin(library, record) for record in records]
    if "library" in states:
        return "same"
    return "changed" if "changed" in states else "gone"


def is_drawn(path: str) -> bool:
    """Whether the format of a file has pages that can be drawn."""
    known = format_of(PurePath(path))
    return known is not None and known.is_drawn
