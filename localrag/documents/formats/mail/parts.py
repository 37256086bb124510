"""What a mail is, whatever its file: headers, lines of its body, attachments, and what is amiss."""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import PurePath

from localrag.documents.attachments import safe_name
from localrag.documents.decoding import decode, decode_declared
from localrag.documents.formats.plain import unwrap
from localrag.documents.formats.table import Attachment, SourceFile, format_of, suffixes
from localrag.documents.lines import Line, squeeze
from localrag.errors import ParsingError
from localrag.text.normalize import clean
from localrag.types import PageNote

HEADERS = ("From", "To", "Cc", "Date", "Subject")

SMALL_PICTURE = 30_000
"""Bytes: a logo in a signature is smaller, a photo or a page of text larger."""

_WESTERN = re.compile(r"|(?:us-)?ascii|ansi.*|iso-?8859-1|latin-?1|(?:windows-|cp)1252|unknown.*")
"""What programs say that do not know: then the bytes decide."""

_QUOTED = re.compile(r"(?:>[ \t]?)+")
_ARMOURED = re.compile(r"-----BEGIN PGP MESSAGE-----.*?(?:-----END PGP MESSAGE-----|\Z)", re.DOTALL)

_EVENT = ("SUMMARY", "DTSTART", "DTEND", "LOCATION", "ORGANIZER")


@dataclass(slots=True)
class Mail:
    """What was found; `body` is in the order of the mail."""

    headers: dict[str, str] = field(default_factory=dict)
    body: list[Line] = field(default_factory=list)
    attached: list[Attachment] = field(default_factory=list)
    small_pictures: int = 0
    encrypted: str = ""
    """How, where its text is."""

    def add_text(self, text: str, flowed: bool = False, delsp: bool = False) -> None:
        """Add plain text; of an armoured message the reader learns that it is there."""
        if "-----BEGIN PGP MESSAGE-----" in text:
            self.encrypted = "PGP"
            text = _ARMOURED.sub("", text)
        self.body += plain_lines(text, flowed, delsp)

    def add_file(self, name: str, data: bytes, kind: str, *, inline: bool = False) -> None:
        """Add an attachment of a media type; `inline` where the body shows it."""
        if inline and kind.startswith("image/") and len(data) < SMALL_PICTURE:
            self.small_pictures += 1
            return
        name = safe_name(name)
        if format_of(PurePath(name)) is None and "." not in name:
            known = (suffix for suffix in suffixes() if mimetypes.types_map.get(suffix) == kind)
            name += next(known, "")
        self.attached.append(Attachment(name, data))

    def length(self) -> int:
        """Characters of its body."""
        return sum(len(line.text) for line in self.body)

    def notes(self) -> Iterator[PageNote]:
        """What there is to say of how it was read."""
        if self.encrypted:
            yield PageNote("encrypted", {"how": self.encrypted})
        if self.small_pictures:
            yield PageNote("small pictures", {"count": self.small_pictures})


def decoded(data: bytes, label: str) -> str:
    """The text of bytes that are said to be in an encoding, which is often not the right one."""
    if not _WESTERN.fullmatch(label.lower()):
        text = decode_declared(data, label)
        if text is not None:
            return text
    try:
        return decode(SourceFile("", data))
    except ParsingError:  # no text, or none that anybody knows
        return data.decode("utf-8", errors="replace").strip("\0")


def plain_lines(text: str, flowed: bool = False, delsp: bool = False) -> list[Line]:
    """Lines of plain text: wrapped paragraphs are mended, quoted ones too; their marks stay.

    `flowed` and `delsp` as RFC 3676 has them.
    """
    mended_lines: list[Line] = []
    lines = clean(text).split("\n")
    for mark, group in groupby(map(_unquoted, lines), key=lambda line: line[0]):
        inner = [line for _, line in group]
        paragraphs = _flowed(inner, delsp) if flowed else unwrap(inner)
        before = f"{mark} " if mark else ""
        mended_lines += [
            Line(before + paragraph.strip()) for paragraph in paragraphs if paragraph.strip()
        ]
    return mended_lines


def _unquoted(line: str) -> tuple[str, str]:
    mark = _QUOTED.match(line)
    if mark is None:
        return "", line
    return ">" * mark.group().count(">"), line[mark.end() :]


def _flowed(lines: list[str], delsp: bool) -> Iterator[str]:
    paragraph = ""
    for line in lines:
        line = line.removeprefix(" ")
        if line.endswith(" ") and line != "-- ":
            paragraph += line[:-1] if delsp else line
        else:
            yield squeeze(paragraph + line)
            paragraph = ""
    yield squeeze(paragraph)


def event_lines(text: str, *, alone: bool) -> list[Line]:
    """An invitation (RFC 5545): what, when and where; if it is `alone`, its description too."""
    properties = (*_EVENT, "DESCRIPTION") if alone else _EVENT
    lines = []
    for line in re.sub(r"\r?\n[ \t]", "", text).splitlines():
        name, _, value = line.partition(":")
        if name.partition(";")[0].upper() in properties:
            value = re.sub(
                r"\\(.)", lambda match: {"n": " ", "N": " "}.get(match[1], match[1]), value
            )
            lines.append(Line(squeeze(clean(f"{name.partition(';')[0].upper()}: {value}"))))
    return lines
