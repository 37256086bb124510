"""How pages and files were read, and what to do where that failed, in a reader's language."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, Any

from localrag.errors import ProgramTextError
from localrag.library.records import PageReading, Problem
from localrag.messages import InterfaceLanguage, phrase, speaker, tr, translate
from localrag.presentation.records import picked, plain
from localrag.types import PAGE_BREAK, Card, Chunk, Document, How, Page, PageNote, Unit

if TYPE_CHECKING:
    from localrag.indexing.reading import DocumentReading

LONGEST = 300
"""Characters of a reason that are shown: it may be a library's, or of a hostile catalogue."""

_NOTES = {
    "blank": "it is blank",
    "no text": "no text was found: it may be blank, or a photograph or a drawing",
    "damaged": "it is damaged and was left out",
    "not recognised": "the text in its pictures was not read",
    "garbled": "it was read by OCR, because its text layer is garbled",
    "untrusted": "its text layer is garbled, and OCR could not read it either",
    "doubtful": "OCR is not sure of what it read",
    "turned": "it was turned before it was read",
    "hidden text": "text that readers do not see was left out",
    "cut short": "only its beginning was read: it is too long",
    "left out": "not all that it shows was read",
    "tables": "it has tables",
    "encrypted": "its text is encrypted: only its receiver can read it",
    "small pictures": "small pictures, such as logos, were left out",
    "misnamed": "the file was read as what it is, in spite of its name",
}
_KINDS = {
    "amendment": "amendment",
    "budget": "budget plan",
    "contract": "contract",
    "invoice": "invoice",
    "mail": "mail",
    "minutes": "minutes",
    "notice": "notice",
    "policy": "policy",
    "quotation": "quotation",
    "report": "report",
    "sheet": "spreadsheet",
    "slides": "slides",
}
_ADVICE = {
    "no text": "Look at it. If it shows text, scan it again more clearly.",
    "damaged": "Open the file in the program it was made with, save it again and add that.",
    "not recognised": "Look at it. Text that matters can be added as a file of its own.",
    "garbled": "Compare it with the page: `localrag show FILE --pages N`.",
    "untrusted": "Save the document as PDF again in the program it was made with, or scan it.",
    "encrypted": "Save the mail without encryption in your mail program and add that.",
    "doubtful": "Compare it with the page: `localrag show FILE --pages N`. Scan it again more "
    "clearly if that is wrong.",
    "hidden text": "To take it as well: `localrag config set parsing.hidden_text true`, then "
    "remove the file and add it again.",
    "cut short": "Split the file into parts.",
    "left out": "Look there yourself; questions about it cannot be answered.",
    "formulas": "Open it in Excel or LibreOffice and save it, so that the results are in the "
    "file; then add it again.",
}
_REASONS = {
    "off": "text recognition is off",
    "unmapped": "its fonts do not say which characters they show",
    "picture": "the page shows something else",
    "signs": "its characters make no words",
    "letters": "its characters make no words",
    "accents": "its characters make no words",
    "scripts": "its characters make no words",
    "characters": "its characters make no words",
    "words": "its characters make no words",
}
"""Reasons that readers give by name; others are a library's words, and shown as they are."""
_WORDS = {
    "chart": "charts",
    "charts": "charts",
    "column": "columns",
    "columns": "columns",
    "formulas": "results of formulas",
    "page": "pages",
    "pages": "pages",
    "picture": "pictures",
    "pictures": "pictures",
    "row": "rows",
    "rows": "rows",
    "sheet": "sheets",
    "sheets": "sheets",
    "slide": "slides",
    "slides": "slides",
    "text": "text",
}
"""What notes name as left out; another word is shown as it is."""


def note_text(note: PageNote, language: InterfaceLanguage | None = None) -> str:
    """What there is to say of a page, without its number; `language` None is the reader's."""
    say, values = speaker(language), note.values
    details = []
    if reason := str(values.get("reason", "")):
        details.append(say(_REASONS[reason]) if reason in _REASONS else reason[:LONGEST])
    if how := str(values.get("how", "")):
        details.append(how[:LONGEST])
    what, count = str(values.get("what", ""))[:LONGEST], values.get("count")
    if what:
        what = say(_WORDS[what]) if what in _WORDS else what
    if what and isinstance(count, int):
        details.append(say("{what}: {count}", what=what, count=count))
    elif what or isinstance(count, int):
        details.append(what or str(count))
    if content := str(values.get("content", "")):
        details.append(f"{values.get('suffix', '')}: {content}"[:LONGEST])
    if isinstance(sure := values.get("confidence"), int | float):
        details.append(say("{percent}% sure on average", percent=_percent(sure)))
    if isinstance(degrees := values.get("degrees"), int | float):
        details.append(f"{degrees}°")
    if isinstance(limit := values.get("limit"), int | float):
        details.append(say("the limit is {limit}", limit=limit))
    kind = "blank" if note.kind == "no text" and values.get("blank") else note.kind
    text = say(_NOTES[kind])
    if not details:
        return text
    return say("{text} ({note})", text=text, note=say(", ").join(details))


def how_text(page: Page, unit: Unit, language: InterfaceLanguage | None = None) -> str:
    """How a page was read."""
    say = speaker(language)
    ways: dict[How, str] = {
        "text": say("text layer") if unit == "page" else say("text"),
        "ocr": say("OCR"),
        "mixed": say("text layer and OCR") if unit == "page" else say("text and OCR"),
    }
    parts = [ways[page.how]]
    if page.confidence is not None:
        parts.append(say("{percent}% sure on average", percent=_percent(page.confidence)))
    return say(", ").join(parts)


def with_starts(document: Document) -> list[tuple[Page, int]]:
    """Each page, and where it begins in the document's text."""
    ends = accumulate(len(page.text) + len(PAGE_BREAK) for page in document.pages)
    return list(zip(document.pages, (0, *ends), strict=False))


def card_texts(card: Card) -> list[str]:
    """What a card says of a document besides its title, for a line each."""
    lines = [tr("kind: {kind}", kind=tr(_KINDS[card.kind]))] if card.kind else []
    if card.dates:
        lines.append(tr("dates: {names}", names=tr(", ").join(card.dates)))
    if card.parties:
        lines.append(tr("parties: {names}", names=tr(", ").join(card.parties)))
    if card.numbers:
        lines.append(tr("numbers: {names}", names=tr(", ").join(card.numbers)))
    return lines


def page_ranges(pages: Iterable[int]) -> str:
    """`3-7, 12`."""
    runs = groupby(enumerate(sorted(pages)), lambda pair: pair[1] - pair[0])
    ends = [(run[0][1], run[-1][1]) for run in (list(group) for _, group in runs)]
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ends)


def recognised_text(
    readings: Sequence[PageReading], language: InterfaceLanguage | None = None
) -> str:
    """How many of these pages were read by OCR, and how well; "" for none."""
    say, counts = speaker(language), pages_read(0, readings)
    parts = []
    if counts["ocr"]:
        parts.append(say("pages read by OCR: {count}", count=counts["ocr"]))
    if counts["mixed"]:
        parts.append(say("pages read in part by OCR: {count}", count=counts["mixed"]))
    if counts["confidence"] is not None:
        parts.append(say("{percent}% sure on average", percent=_percent(counts["confidence"])))
    return say("; ").join(parts)


def pages_read(pages: int, readings: Sequence[PageReading]) -> dict[str, Any]:
    """Pages by how they were read, of so many; `confidence` is the mean of those with OCR."""
    ocr, mixed = (sum(reading.how == how for reading in readings) for how in ("ocr", "mixed"))
    sure = [reading.confidence for reading in readings if reading.confidence is not None]
    mean = round(sum(sure) / len(sure), 3) if sure else None
    return {"text": pages - ocr - mixed, "ocr": ocr, "mixed": mixed, "confidence": mean}


def reason_text(
    problem: Problem, language: InterfaceLanguage | None = None, *, beside_name: bool = False
) -> str:
    """What is wrong; `beside_name` leaves out the file's name where the text begins with it."""
    if problem.error is None:
        assert problem.note is not None  # noqa: S101 - one of both is there
        return note_text(problem.note, language)
    if (count := problem.error.values.get("count")) is not None:
        if isinstance(problem.error, ProgramTextError):
            return phrase("text for programs, left out: {count}", language, count=count)
        return phrase("files of a type that is not read: {count}", language, count=count)
    error, name = problem.error, problem.source.replace("\\", "/").split("/")[-1]
    if beside_name and translate(error.message, language).startswith("{source} "):
        name = ""
    text = phrase(error.message, language, **error.values | {"source": name})
    return text.strip()[: 3 * LONGEST].rstrip(".。")


def advice_text(problem: Problem, language: InterfaceLanguage | None = None) -> str:
    """What to do about it; "" for nothing."""
    if (error := problem.error) is not None:
        return phrase(error.hint, language, **error.values)[: 3 * LONGEST]
    assert problem.note is not None  # noqa: S101 - one of both is there
    kind: str = problem.note.kind
    if kind == "left out" and problem.note.values.get("what") == "formulas":
        kind = "formulas"
    return speaker(language)(_ADVICE[kind]) if kind in _ADVICE else ""


def problems_json(problems: Iterable[Problem]) -> list[dict[str, Any]]:
    """What was not read, or not read well, as plain data."""
    return [plain(problem) for problem in problems]


@plain.register
def _(problem: Problem) -> dict[str, Any]:
    note, error = problem.note, problem.error
    count = error.values.get("count") if error else None
    return {
        **picked(problem, "source", "pages"),
        "kind": note.kind if note else type(error).__name__,
        "values": plain(note.values) if note else {},
        "reason": reason_text(problem),
        "advice": advice_text(problem),
        "count": int(count) if count and isinstance(count, int) else 1,
    }


def reading_json(
    reading: DocumentReading, pages: Iterable[tuple[Page, int]], chunks: Iterable[Chunk]
) -> dict[str, Any]:
    """Some pages of a document, with where they start, and the passages on them."""
    document = reading.document
    return {
        **picked(document, "source", "title"),
        "language": reading.language,
        "unit": document.unit,
        **picked(reading, "origin", "card"),
        "pages": [
            picked(page, "number", "text", "how", "confidence")
            | {
                "notes": [note_text(note) for note in page.notes],
                "kinds": [note.kind for note in page.notes],
                "label": page.label,
                "start": start,
            }
            for page, start in pages
        ],
        "chunks": [
            picked(chunk, "id", "start", "end")
            | {"page": chunk.first_page, "last_page": chunk.last_page}
            | picked(chunk, "heading", "columns")
            for chunk in chunks
        ],
    }


def _percent(share: float) -> int:
    return round(100 * share) if 0 <= share <= 1 else 0
