"""Mail as Outlook saves it (msg, MS-OXMSG): an OLE file whose streams are the mail's properties.

Of python-oxmsg the tree of streams is taken; text is decoded here, as the code page that a mail
names is often not the one that it was written in.
"""

from __future__ import annotations

import hashlib
import io
import struct
from datetime import UTC, datetime, timedelta
from email.mime.application import MIMEApplication
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from email.parser import HeaderParser
from typing import TYPE_CHECKING

from localrag.documents.formats import rtf
from localrag.documents.formats.html import html_lines
from localrag.documents.formats.mail import mime
from localrag.documents.formats.mail.parts import HEADERS, Mail, decoded
from localrag.documents.formats.table import SourceFile
from localrag.documents.lines import Line, squeeze
from localrag.text.normalize import clean

if TYPE_CHECKING:
    from oxmsg.storage import Storage

_CLASS, _SUBJECT, _TRANSPORT_HEADERS, _SUBMITTED, _DELIVERED = 0x1A, 0x37, 0x7D, 0x39, 0xE06
_SENDER, _SENDER_ADDRESS, _SENDER_SMTP = 0xC1A, 0xC1F, 0x5D01
_NAME, _ADDRESS, _SMTP, _RECIPIENT_KIND = 0x3001, 0x3003, 0x39FE, 0xC15
_BODY, _HTML, _RTF, _CODE_PAGE, _BODY_CODE_PAGE = 0x1000, 0x1013, 0x1009, 0x3FFD, 0x3FDE
_FILE, _LONG_FILE, _DATA, _MEDIA_TYPE, _CONTENT_ID = 0x3704, 0x3707, 0x3701, 0x370E, 0x3712
_EMBEDDED = "__substg1.0_3701000D"

_RECIPIENTS = {1: "To", 2: "Cc"}
_OF_A_FILE, _OF_A_MAIL_WITHIN, _OF_OTHERS = 32, 24, 8
"""Bytes before the first property, by what the properties are of."""

_DEEPEST = 6
"""Mails within mails, of which a file is made for each: one more than is indexed."""

_EPOCH = datetime(1601, 1, 1, tzinfo=UTC)


def mail_of(data: bytes) -> Mail:
    """Read a mail; raises ValueError and what the OLE reader raises."""
    from olefile import STGTY_STREAM, OleFileIO  # which python-oxmsg is built on
    from oxmsg.storage import Storage

    with OleFileIO(io.BytesIO(data)) as ole:
        entries = (entry for entry in ole.direntries if entry and entry.entry_type == STGTY_STREAM)
        if sum(entry.size for entry in entries) > len(data):  # they share their bytes
            raise ValueError("its streams are larger than the file")
        return _mail(Storage.from_ole(ole), _OF_A_FILE)


class _Properties:
    """The properties of a mail, a recipient or an attachment."""

    def __init__(self, storage: Storage, before: int, code_page: int = 0) -> None:
        self._streams = {stream.name: stream.bytes_ for stream in storage.streams}
        packed = self._streams.get("__properties_version1.0", b"")[before:]
        rows = struct.iter_unpack("<HHI8s", packed[: len(packed) // 16 * 16])
        self._fixed = {number: value for _, number, _, value in rows}
        self.code_page = self.number(_CODE_PAGE) or code_page

    def number(self, name: int) -> int:
        """A whole number, 0 where there is none."""
        return int.from_bytes(self._fixed.get(name, b"")[:4], "little")

    def moment(self, name: int) -> str:
        """A time in words, "" where there is none or an impossible one."""
        ticks = int.from_bytes(self._fixed.get(name, b""), "little")
        try:
            when = _EPOCH + timedelta(microseconds=ticks // 10)
        except OverflowError:
            return ""
        return when.isoformat(" ", "seconds") if ticks else ""

    def data(self, name: int) -> bytes:
        """Bytes, b"" where there are none."""
        return self._streams.get(f"__substg1.0_{name:04X}0102", b"")

    def text(self, name: int, code_page: int = 0) -> str:
        """A text in Unicode, or in the mail's code page."""
        wide = self._streams.get(f"__substg1.0_{name:04X}001F")
        if wide is not None:
            return wide.decode("utf-16-le", errors="replace").rstrip("\0")
        narrow = self._streams.get(f"__substg1.0_{name:04X}001E", b"").rstrip(b"\0")
        return decoded(narrow, _label(code_page or self.code_page)) if narrow else ""

    def line(self, name: int) -> str:
        """A text on one line, as it is shown."""
        return squeeze(clean(self.text(name)))


def _label(code_page: int) -> str:
    """The name of a Windows code page's encoding, "" where it has none."""
    from oxmsg.domain.encodings import encoding_from_codepage
    from oxmsg.domain.model import UnrecognizedCodePageError, UnsupportedEncodingError

    try:
        return encoding_from_codepage(code_page)
    except (UnrecognizedCodePageError, UnsupportedEncodingError):
        return ""


def _mail(storage: Storage, before: int, code_page: int = 0, depth: int = 0) -> Mail:
    properties = _Properties(storage, before, code_page)
    mail = Mail(_headers(storage, properties), _body(properties))
    kind = properties.text(_CLASS).upper()
    for attachment in storage.iter_attachment_storages():
        _attach(attachment, mail, properties.code_page, depth)
    if kind.startswith("IPM.NOTE.SMIME") and mail.attached:
        inner = mail.attached.pop()
        if not kind.endswith("MULTIPARTSIGNED"):
            mail.encrypted = "S/MIME"
        else:
            signed = mime.mail_of(inner.data)
            mail.body, mail.attached = signed.body, signed.attached
    return mail


def _headers(storage: Storage, properties: _Properties) -> dict[str, str]:
    sent = HeaderParser().parsestr(properties.text(_TRANSPORT_HEADERS))
    headers = {name: mime.header(sent, name) for name in HEADERS}
    sender = properties.line(_SENDER_SMTP) or properties.line(_SENDER_ADDRESS)
    headers["Subject"] = properties.line(_SUBJECT) or headers["Subject"]
    headers["From"] = headers["From"] or _person(properties.line(_SENDER), sender)
    headers["Date"] = (
        headers["Date"] or properties.moment(_SUBMITTED) or properties.moment(_DELIVERED)
    )
    people: dict[str, list[str]] = {}
    for recipient in storage.iter_recipient_storages():
        person = _Properties(recipient, _OF_OTHERS, properties.code_page)
        header = _RECIPIENTS.get(person.number(_RECIPIENT_KIND))
        if header and not headers[header]:
            address = person.line(_SMTP) or person.line(_ADDRESS)
            people.setdefault(header, []).append(_person(person.line(_NAME), address))
    return headers | {header: ", ".join(filter(None, names)) for header, names in people.items()}


def _person(name: str, address: str) -> str:
    return f"{name} <{address}>" if name and address and name != address else name or address


def _body(properties: _Properties) -> list[Line]:
    """Its plain text, or HTML where that says more, or else RTF."""
    code_page = properties.number(_BODY_CODE_PAGE)
    plain, rich = Mail(), Mail()
    plain.add_text(properties.text(_BODY, code_page))
    html = decoded(properties.data(_HTML), _label(code_page)) or properties.text(_HTML, code_page)
    if html:
        rich.body = html_lines(clean(html))
    elif not plain.body and (packed := properties.data(_RTF)):
        read = rtf.read(SourceFile("", _unpacked(packed)))
        rich.body = [Line(paragraph) for paragraph in read.text.split("\n")]
    return mime.fuller(plain, rich).body


def _attach(storage: Storage, mail: Mail, code_page: int, depth: int) -> None:
    properties = _Properties(storage, _OF_OTHERS, code_page)
    name = properties.line(_LONG_FILE) or properties.line(_FILE) or properties.line(_NAME)
    within = next((child for child in storage.storages if child.name == _EMBEDDED), None)
    if within is not None:
        inner = (
            Mail() if depth >= _DEEPEST else _mail(within, _OF_A_MAIL_WITHIN, code_page, depth + 1)
        )
        title = inner.headers.get("Subject") or name or "mail"
        mail.add_file(f"{title}.eml", _as_sent(inner), "message/rfc822")
    else:
        kind = properties.text(_MEDIA_TYPE).lower()
        mail.add_file(name, properties.data(_DATA), kind, inline=bool(properties.text(_CONTENT_ID)))


def _as_sent(mail: Mail) -> bytes:
    """A mail within another as a file of its own; the same one gives the same bytes."""
    body = MIMEText("\n".join(line.text for line in mail.body), "plain", "utf-8")
    contents = repr([mail.headers, *mail.body, *mail.attached]).encode("utf-8", "replace")
    message = MIMEMultipart(boundary=hashlib.sha256(contents).hexdigest())
    for name, value in mail.headers.items():
        message[name] = value
    message.attach(body)
    for attachment in mail.attached:
        part = MIMEApplication(attachment.data)
        part.add_header(
            "Content-Disposition", "attachment", filename=("utf-8", "", attachment.name)
        )
        message.attach(part)
    return message.as_bytes()


_FIRST = (
    b"{\\rtf1\\ansi\\mac\\deff0\\deftab720{\\fonttbl;}{\\f0\\fnil \\froman \\fswiss \\fmodern "
    b"\\fscript \\fdecor MS Sans SerifSymbolArialTimes New RomanCourier{\\colortbl\\red0\\green0"
    b"\\blue0\r\n\\par \\pard\\plain\\f0\\fs20\\b\\i\\u\\tab\\tx"
)
"""What every text may refer back to before it has said anything."""


def _unpacked(data: bytes) -> bytes:
    """RTF as Outlook packs it (MS-OXRTFCP): pieces of what went before, from a ring of 4096 bytes.

    Raises ValueError where it is not packed that way.
    """
    head = struct.Struct("<II4sI")
    if len(data) < head.size:
        raise ValueError("its text is cut off")
    _, size, kind, _ = head.unpack_from(data)
    if kind == b"MELA":
        return data[head.size : head.size + size]
    if kind != b"LZFu":
        raise ValueError("its text is packed in an unknown way")
    ring, at = bytearray(_FIRST.ljust(4096, b"\0")), len(_FIRST)
    unpacked, place = bytearray(), head.size
    while place < len(data) and len(unpacked) < size:
        flags, place = data[place], place + 1
        for bit in range(8):
            piece = data[place : place + 1]
            if flags >> bit & 1:
                word = int.from_bytes(data[place : place + 2], "big")
                start, place = word >> 4, place + 2
                if start == at or place > len(data):
                    return bytes(unpacked)
                for step in range((word & 15) + 2):
                    ring[at] = ring[(start + step) % 4096]
                    unpacked.append(ring[at])
                    at = (at + 1) % 4096
            elif piece:
                ring[at], place = piece[0], place + 1
                unpacked += piece
                at = (at + 1) % 4096
    return bytes(unpacked)
