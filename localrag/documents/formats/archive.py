"""Files that are ZIP archives of XML (Office, OpenDocument, EPUB): opened within bounds.

What unpacks to far more than its size explains is refused by the archive's directory alone,
before a byte is unpacked; a member never yields more than the directory says of it.
"""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from xml.etree import ElementTree

import defusedxml.ElementTree
from defusedxml.common import DefusedXmlException

from localrag.documents.formats.table import SourceFile, damaged, encrypted
from localrag.errors import CorruptFileError, UnsupportedFileError

MOST_MEMBERS = 50_000
LARGEST = 1 << 30
"""Bytes that all members may have unpacked."""
SUSPICIOUS = 64 << 20
"""Bytes of one kind of content from which its rate of compression is looked at."""
HIGHEST_RATE = 60
"""Honest sheets and texts in XML shrink to a tenth or a thirtieth; what is made to harm, to a
thousandth."""
LARGEST_PART = 256 << 20
"""Bytes of XML that are held in memory as one tree."""
MOST_TAGS = 6_000_000
"""Marks of a tag in such a part; a book of 1000 pages has a tenth."""
DEEPEST = 250
"""Levels of nesting; a table in a table in a text box takes 40."""
_STRICT = re.compile(rb"http://purl\.oclc\.org/ooxml/(\w+)/")
"""How the strict form of Office files begins the names that the usual one begins otherwise."""
_UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError, OSError)


_NO_XML = (ElementTree.ParseError, DefusedXmlException, ValueError, LookupError)
_MADE_TO_HARM = (
    "It may be designed to exhaust memory. If you trust it, save it as PDF and add that file."
)


class ZipArchive:
    """The members of such a file by name."""

    def __init__(self, file: SourceFile) -> None:
        """Raises UnsupportedFileError for a bomb, EncryptedFileError, CorruptFileError."""
        self.source = file.source
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(file.data))
        except _UNREADABLE as error:
            raise self.damaged(error) from error
        members = self._zip.infolist()
        unpacked = sum(member.file_size for member in members)
        # Members that overlap, or lie, do not make the file any larger.
        packed = min(sum(member.compress_size for member in members), len(file.data)) or 1
        if (
            len(members) > MOST_MEMBERS
            or unpacked > LARGEST
            or (unpacked > SUSPICIOUS and unpacked > HIGHEST_RATE * packed)
        ):
            raise UnsupportedFileError(
                "{source} would unpack to {size} MB, far more than its {packed} MB explain.",
                hint=_MADE_TO_HARM,
                source=file.source,
                size=unpacked >> 20,
                packed=-(-len(file.data) // 2**20),
            )
        if any(member.flag_bits & 1 for member in members):
            raise encrypted(file.source)

    def names(self) -> list[str]:
        """All members."""
        return self._zip.namelist()

    def __contains__(self, name: str) -> bool:
        return name in self._zip.NameToInfo

    def read(self, name: str) -> bytes | None:
        """A member's content, None where there is none."""
        try:
            return self._zip.read(name)
        except KeyError:
            return None
        except _UNREADABLE as error:
            raise self.damaged(error) from error

    def xml(self, name: str) -> ElementTree.Element | None:
        """A member's XML, None where there is none. Entities are never looked up elsewhere.

        Raises UnsupportedFileError for more than any document takes, or nests.
        """
        data = self.read(name)
        if data is None:
            return None
        if len(data) > LARGEST_PART or data.count(b"<") > MOST_TAGS:
            raise UnsupportedFileError(
                "{source} holds a part of {size} MB of XML, more than can be read.",
                hint=_MADE_TO_HARM,
                source=self.source,
                size=-(-len(data) // 2**20),
            )
        data = _STRICT.sub(rb"http://schemas.openxmlformats.org/\1/2006/", data)
        try:
            root: ElementTree.Element = defusedxml.ElementTree.fromstring(data)
        except _NO_XML as error:
            raise self.damaged(error) from error
        self._refuse_depth(root)
        return root

    def stream(self, name: str) -> Iterator[ElementTree.Element]:
        """The elements of a member's XML as they end; who does not clear them holds them all."""
        try:
            with self._zip.open(name) as part:
                for _, element in defusedxml.ElementTree.iterparse(part):
                    yield element
        except (KeyError, *_NO_XML, *_UNREADABLE) as error:
            raise self.damaged(error) from error

    def related(self, part: str) -> dict[str, tuple[str, str]]:
        """The parts that one refers to: by id, the last word of the kind, and the name.

        What lies outside the file, such as a template or a picture on a server, is not among them.
        """
        folder, name = posixpath.split(part)
        root = self.xml(posixpath.join(folder, "_rels", f"{name}.rels"))
        parts = {}
        for element in () if root is None else root:
            if element.get("TargetMode", "").lower() != "external":
                target = posixpath.normpath(posixpath.join("/", folder, element.get("Target", "")))
                kind = element.get("Type", "").rpartition("/")[2]
                parts[element.get("Id", "")] = (kind, target.lstrip("/"))
        return parts

    def _refuse_depth(self, root: ElementTree.Element) -> None:
        level = [root]
        for _ in range(DEEPEST):
            level = [child for parent in level for child in parent]
            if not level:
                return
        raise self.too_deep()

    def too_deep(self) -> UnsupportedFileError:
        """The error for what is nested in one another without end."""
        return UnsupportedFileError(
            "{source} nests its parts deeper than can be read.",
            hint=_MADE_TO_HARM,
            source=self.source,
        )

    def damaged(self, error: Exception) -> CorruptFileError:
        """The error for what cannot be read."""
        return damaged(self.source, error)


def packed(members: dict[str, bytes]) -> io.BytesIO:
    """An archive of such members."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    stream.seek(0)
    return stream


def part_of(parts: Mapping[str, tuple[str, str]], kind: str) -> str:
    """The name of the first part of a kind, of those that `related` gives; "" for none."""
    return next((part for known, part in parts.values() if known == kind), "")


def local(tag: str) -> str:
    """A tag without its namespace."""
    return tag.rpartition("}")[2]


def elements(root: ElementTree.Element | None, *tags: str) -> Iterator[ElementTree.Element]:
    """The element and all below it that have one of these tags, without its namespace."""
    for element in () if root is None else root.iter():
        if local(element.tag) in tags:
            yield element


def is_true(value: str | None) -> bool:
    """Whether an attribute of Office says yes."""
    return (value or "").lower() in ("1", "true", "on")


def core_title(archive: ZipArchive) -> str:
    """The title that an Office file says it has."""
    return next((e.text or "" for e in elements(archive.xml("docProps/core.xml"), "title")), "")
