"""Files that are ZIP archives of XML (Office, OpenDocument, EPUB): opened within bounds.

What unpacks to far more than its size explains is refused by the archive's directory alone,
before a byte is unpacked; a member never yields more than the directory says of it.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from xml.etree import ElementTree

import defusedxml.ElementTree
from defusedxml.common import DefusedXmlException

from localrag.documents.formats.table import SourceFile
from localrag.errors import CorruptFileError, EncryptedFileError, UnsupportedFileError

MOST_MEMBERS = 50_000
LARGEST = 1 << 30
"""Bytes that all members may have unpacked."""
SUSPICIOUS = 64 << 20
"""Bytes of one kind of content from which its rate of compression is looked at."""
HIGHEST_RATE = 60
"""Honest sheets and texts in XML shrink to a tenth or a thirtieth; what is made to harm, to a
thousandth."""
_UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError, OSError)


class Archive:
    """The members of such a file by name."""

    def __init__(self, file: SourceFile) -> None:
        """Raises UnsupportedFileError for a bomb, EncryptedFileError, CorruptFileError."""
        self.source = file.source
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(file.data))
        except _UNREADABLE as error:
            raise self.damaged(error) from error
        members = self._zip.infolist()
        unpacked = sum(each.file_size for each in members)
        packed = sum(each.compress_size for each in members) or 1
        if (
            len(members) > MOST_MEMBERS
            or unpacked > LARGEST
            or (unpacked > SUSPICIOUS and unpacked > HIGHEST_RATE * packed)
        ):
            raise UnsupportedFileError(
                "{source} would unpack to {size} MB, far more than its {packed} MB explain.",
                hint="It may be designed to exhaust memory. If you trust it, save it as PDF and "
                "add that file.",
                source=file.source,
                size=unpacked >> 20,
                packed=-(-len(file.data) // 2**20),
            )
        if any(each.flag_bits & 1 for each in members):
            raise EncryptedFileError(
                "{source} is password-protected, so its text cannot be read.",
                hint="Open it in its own program, remove the password and add the new file.",
                source=file.source,
            )

    def names(self) -> list[str]:
        """All members."""
        return self._zip.namelist()

    def read(self, name: str) -> bytes | None:
        """A member's content, None where there is none."""
        try:
            return self._zip.read(name)
        except KeyError:
            return None
        except _UNREADABLE as error:
            raise self.damaged(error) from error

    def xml(self, name: str) -> ElementTree.Element | None:
        """A member's XML, None where there is none. Entities are never looked up elsewhere."""
        data = self.read(name)
        if data is None:
            return None
        try:
            root: ElementTree.Element = defusedxml.ElementTree.fromstring(data)
        except (ElementTree.ParseError, DefusedXmlException, ValueError, LookupError) as error:
            raise self.damaged(error) from error
        return root

    def replaced(self, members: dict[str, bytes]) -> io.BytesIO:
        """The archive again, with other content for some members."""
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as copy:
            for name in dict.fromkeys(self._zip.namelist()):
                copy.writestr(name, members[name] if name in members else self.read(name) or b"")
        stream.seek(0)
        return stream

    def damaged(self, error: Exception) -> CorruptFileError:
        """The error for what cannot be read."""
        return CorruptFileError(
            "{source} is damaged ({reason}).",
            hint="Copy or download it again, or open it in its own program and save a new copy.",
            source=self.source,
            reason=f"{type(error).__name__}: {error}",
        )


def local(tag: str) -> str:
    """A tag without its namespace."""
    return tag.rpartition("}")[2]


def core_title(archive: Archive) -> str:
    """The title that an Office file says it has."""
    root = archive.xml("docProps/core.xml")
    if root is None:
        return ""
    return next((each.text or "" for each in root if local(each.tag) == "title"), "")
