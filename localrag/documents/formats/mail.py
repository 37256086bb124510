"""Mail (eml, msg): its headers and its body. Attachments are named."""

from __future__ import annotations

import email.policy
import io
from collections.abc import Iterator
from email.message import EmailMessage
from email.parser import BytesParser

from localrag.documents.formats.html import html_lines
from localrag.documents.formats.table import SourceFile
from localrag.documents.lines import Line, build, empty, squeeze
from localrag.errors import CorruptFileError
from localrag.text.normalize import clean
from localrag.types import Document

_HEADERS = ("From", "To", "Cc", "Date", "Subject")


def read(file: SourceFile) -> Document:
    """Raises CorruptFileError, EmptyFileError if neither headers nor body have text."""
    try:
        headers, body = (_msg if file.data.startswith(b"\xd0\xcf\x11\xe0") else _eml)(file)
    except Exception as error:  # whatever a damaged mail leads the readers to
        raise CorruptFileError(
            "{source} is damaged ({reason}).",
            hint="Copy or download it again, or open it in its own program and save a new copy.",
            source=file.source,
            reason=f"{type(error).__name__}: {error}",
        ) from error
    subject = squeeze(clean(headers.get("Subject", "")))
    lines = [Line(subject, 1)] if subject else []
    lines += [
        Line(squeeze(clean(f"{name}: {headers[name]}").replace("\n", " ")))
        for name in _HEADERS
        if headers.get(name) and name != "Subject"
    ]
    lines += body
    if not lines:
        raise empty(file.source)
    return build(file, [lines], subject)


def _eml(file: SourceFile) -> tuple[dict[str, str], list[Line]]:
    mail = BytesParser(policy=email.policy.default).parsebytes(file.data)
    assert isinstance(mail, EmailMessage)  # noqa: S101 - what that policy makes
    headers = {name: str(mail[name] or "") for name in _HEADERS}
    part = mail.get_body(("plain", "html"))
    if part is None:
        return headers, []
    text = str(part.get_content())
    if part.get_content_subtype() == "html":
        return headers, html_lines(clean(text))
    return headers, list(_plain(text))


def _msg(file: SourceFile) -> tuple[dict[str, str], list[Line]]:
    from oxmsg import Message

    mail = Message.load(io.BytesIO(file.data))
    headers = {name: mail.message_headers.get(name, "") for name in _HEADERS}
    headers["Subject"] = mail.subject or headers["Subject"]
    headers["From"] = mail.sender or headers["From"]
    if not headers["Date"] and mail.sent_date is not None:
        headers["Date"] = mail.sent_date.isoformat(" ")
    if not headers["To"]:
        headers["To"] = ", ".join(f"{each.name} <{each.email_address}>" for each in mail.recipients)
    if mail.body:
        return headers, list(_plain(mail.body))
    return headers, html_lines(clean(mail.html_body or ""))


def _plain(text: str) -> Iterator[Line]:
    for line in clean(text).split("\n"):
        if squeezed := squeeze(line):
            yield Line(squeezed)
