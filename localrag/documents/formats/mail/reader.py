"""A mail as a document: its headers, its body and the names of its attachments, a line each."""

from __future__ import annotations

from localrag.documents.attachments import named
from localrag.documents.formats.mail.parts import HEADERS, Mail
from localrag.documents.formats.recognise import OLE
from localrag.documents.formats.table import SourceFile, damaged
from localrag.documents.lines import Line, PageLines, build
from localrag.types import Document


def read(file: SourceFile) -> Document:
    """Raises CorruptFileError, EmptyFileError if neither headers nor body have text."""
    mail = _mail(file)
    subject = mail.headers["Subject"]
    lines = [Line(subject, 1)] if subject else []
    lines += [
        Line(f"{name}: {mail.headers[name]}")
        for name in HEADERS
        if name != "Subject" and mail.headers[name]
    ]
    if mail.attached:
        names = ", ".join(name for name, _ in named(mail.attached))
        lines.append(Line(f"Attachments: {names}"))
    for attachment in mail.attached:
        file.attach(attachment)
    page = PageLines([*lines, *mail.body], notes=tuple(mail.notes()))
    return build(file, [page], subject, unit="text")


def _mail(file: SourceFile) -> Mail:
    from localrag.documents.formats.mail import mime, outlook

    try:
        if file.data.startswith(OLE):
            return outlook.mail_of(file.data)
        return mime.mail_of(file.data)
    except Exception as error:  # whatever a damaged mail leads the readers to
        too_deep = isinstance(error, RecursionError)
        reason = "parts nested too deeply" if too_deep else error
        raise damaged(file.source, reason) from error
