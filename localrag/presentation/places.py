"""Places in documents in words: the page of a PDF, the row of a sheet, a paragraph below a heading.

Where the format of a document has none of them, as in a mail of one line, nothing is said.
"""

from __future__ import annotations

from localrag.documents.formats.table import shown_name
from localrag.messages import InterfaceLanguage, speaker
from localrag.types import Citation, LeftOut, Place, ScoredChunk


def place_text(
    place: Place,
    last: int | None = None,
    *,
    heading: bool = True,
    language: InterfaceLanguage | None = None,
) -> str:
    """The place, "" where there is nothing to say; `last` is the number of the last page of it.

    Without `heading`, for where the heading is said beside it. `language` None is the reader's.
    """
    say = speaker(language)
    number = str(place.number)
    if last is not None and last > place.number:
        number = f"{number}-{last}"
    if place.unit == "page":
        return say("p. {page}", page=number)
    if place.unit == "slide":
        return say("slide {number}", number=number)
    if place.unit == "sheet":
        sheet = place.label or number
        if place.row is None:
            return say("sheet {sheet}", sheet=sheet)
        return say("sheet {sheet}, row {row}", sheet=sheet, row=place.row)
    if place.row is not None:
        return say("row {row}", row=place.row)
    above = (place.heading or place.label) if heading else ""
    if place.unit == "chapter" and heading and not above:
        above = say("section {number}", number=number)
    if place.paragraph is None:
        return above
    if above:
        return say("{heading}, para. {paragraph}", heading=above, paragraph=place.paragraph)
    return say("para. {paragraph}", paragraph=place.paragraph)


def passage_place(
    hit: ScoredChunk, language: InterfaceLanguage | None = None, *, heading: bool = True
) -> str:
    """Where a passage stands; its pages where nothing else is known of it."""
    place = hit.place or Place(hit.chunk.start, number=hit.chunk.first_page)
    return place_text(place, hit.chunk.last_page, heading=heading, language=language)


def cited_as(
    cited: Citation | LeftOut | ScoredChunk, language: InterfaceLanguage | None = None
) -> str:
    """The file and the place in it: `tea.pdf, p. 3`."""
    if isinstance(cited, ScoredChunk):
        place = passage_place(cited, language)
    else:
        place = place_text(cited.place or Place(0, number=cited.page), language=language)
    return in_file(cited.source, place, language)


def in_file(source: str, place: str, language: InterfaceLanguage | None = None) -> str:
    """The name of the file, and a place in it that is in words already."""
    name, say = shown_name(source), speaker(language)
    return say("{name}, {place}", name=name, place=place) if place else name
