"""Mail as it is sent (RFC 5322, MIME), read with the standard library's parser.

Of headers the raw text is taken and decoded here: programs split characters between encoded words,
name the wrong encoding, or write bytes that belong into none.
"""

from __future__ import annotations

import binascii
import email.policy
import re
from email.message import Message
from email.parser import BytesParser
from typing import TypeAlias

from localrag.documents.formats.html import html_lines
from localrag.documents.formats.mail.parts import HEADERS, Mail, decoded, event_lines
from localrag.documents.lines import Line, squeeze
from localrag.text.normalize import clean

_WORD = re.compile(r"=\?([^?\s]{1,60})\?([bq])\?([^?]*)\?=", re.IGNORECASE)
_BETWEEN_WORDS = re.compile(r"(\?=)\s+(?==\?)")
_NO_BASE64 = re.compile(r"[^A-Za-z0-9+/]")

_SIGNATURES = frozenset(
    ("application/pkcs7-signature", "application/x-pkcs7-signature", "application/pgp-signature")
)
_SMIME = frozenset(("application/pkcs7-mime", "application/x-pkcs7-mime"))

_LONGEST = 10_000
"""Characters of a header that says what a part is: taking one apart costs their square."""

_OTHER_FORMS = frozenset(("text/rtf", "text/x-amp-html", "text/watch-html"))
"""Of a text that stands beside them in a form that is read."""

STUB = 4
"""Plain text of so many times fewer characters than the HTML beside it only says that there is
HTML."""

_Part: TypeAlias = "Message[str, str]"


class _AsWritten(email.policy.Compat32):
    """Headers as they were written, also when a mail within a mail is written out again."""

    def header_fetch_parse(self, name: str, value: str) -> str:
        """The text of a header; its bytes beyond ASCII in whatever encoding they are."""
        if name.lower().startswith("content-"):
            value = value[:_LONGEST]
        if value.isascii():
            return value
        return decoded(value.encode("ascii", "surrogateescape"), "")

    def fold_binary(self, name: str, value: str) -> bytes:
        """The header's own bytes."""
        return f"{name}: {value}{self.linesep}".encode("ascii", "surrogateescape")


def mail_of(data: bytes) -> Mail:
    """Read a mail; raises what the parser raises, RecursionError for parts nested too deeply."""
    message = BytesParser(policy=_AsWritten()).parsebytes(data)
    mail = Mail({name: header(message, name) for name in HEADERS})
    _read(message, mail)
    return mail


def header(part: _Part, name: str) -> str:
    """A header in plain words, on one line; all of that name, "" for none."""
    values = part.get_all(name) or []
    return squeeze(clean(", ".join(without_words(str(value)) for value in values)))


def without_words(text: str) -> str:
    """A header's text, with its encoded words (RFC 2047) decoded; neighbours are one text."""
    text = _BETWEEN_WORDS.sub(r"\1", text)
    pieces: list[str] = []
    label, gathered, end = "", bytearray(), 0
    for word in _WORD.finditer(text):
        charset = word[1].partition("*")[0].lower()
        if gathered and (word.start() > end or charset != label):
            pieces.append(decoded(bytes(gathered), label))
            gathered = bytearray()
        pieces.append(text[end : word.start()])
        label, end = charset, word.end()
        gathered += _base64(word[3]) if word[2] in "bB" else _quoted(word[3])
    return "".join((*pieces, decoded(bytes(gathered), label) if gathered else "", text[end:]))


def _base64(text: str) -> bytes:
    characters = _NO_BASE64.sub("", text)
    characters = characters[: len(characters) - (len(characters) % 4 == 1)]
    return binascii.a2b_base64(characters + "=" * (-len(characters) % 4))


def _quoted(text: str) -> bytes:
    return binascii.a2b_qp(text.encode("utf-8", "replace"), header=True)


def _read(part: _Part, mail: Mail) -> None:
    """Take a part, and what is in it, into the mail."""
    kind = part.get_content_type()
    match kind:
        case "multipart/alternative":
            _read_best(part, mail)
        case "multipart/signed" if _parts(part):
            _read(_parts(part)[0], mail)
        case "multipart/encrypted":
            mail.encrypted = "PGP"
        case "message/rfc822" if _parts(part):
            inner = _parts(part)[0]
            name = _file_name(part) or (header(inner, "Subject") or "mail") + ".eml"
            mail.add_file(name, inner.as_bytes(), kind)
        case "message/delivery-status":
            for block in _parts(part):
                mail.body += (Line(squeeze(clean(f"{k}: {v}"))) for k, v in block.items())
        case _ if part.is_multipart():
            for child in _parts(part):
                _read(child, mail)
        case _ if kind in _SMIME:
            mail.encrypted = "S/MIME"
        case _ if kind in _SIGNATURES:
            pass
        case _ if _is_body(part):
            _read_text(part, mail)
        case _:
            inline = part.get_content_disposition() == "inline" or "Content-ID" in part
            mail.add_file(_file_name(part), _bytes(part), kind, inline=inline)


def _read_best(part: _Part, mail: Mail) -> None:
    """Of the forms of one text take the plain one, or HTML where that says more."""
    forms = [form for form in _parts(part) if form.get_content_type() not in _OTHER_FORMS]
    plain = next((form for form in forms if _is_body(form, "plain")), None)
    events = [form for form in forms if _is_body(form, "calendar")]
    first, other = Mail(), Mail()
    if plain is not None:
        _read_text(plain, first)
    for form in forms:
        if form is not plain and form not in events:
            _read(form, other)
    chosen = fuller(first, other)
    mail.body += chosen.body
    mail.attached += other.attached
    mail.small_pictures += other.small_pictures
    mail.encrypted = mail.encrypted or first.encrypted or other.encrypted
    for event in events:
        mail.body += event_lines(_text(event), alone=not chosen.body)


def fuller(plain: Mail, rich: Mail) -> Mail:
    """The plain text, or what was beside it where the plain text is none or a stub."""
    return rich if STUB * plain.length() < rich.length() else plain


def _read_text(part: _Part, mail: Mail) -> None:
    text = _text(part)
    match part.get_content_subtype():
        case "html":
            mail.body += html_lines(clean(text))
        case "calendar":
            mail.body += event_lines(text, alone=not mail.body)
        case _:
            flowed = _parameter(part, "format").lower() == "flowed"
            mail.add_text(text, flowed, _parameter(part, "delsp").lower() == "yes")


def _is_body(part: _Part, *kinds: str) -> bool:
    """Whether a part is text that a mail shows, of one of these kinds."""
    is_text = part.get_content_maintype() == "text" and not part.is_multipart()
    attached = part.get_content_disposition() == "attachment" or _file_name(part)
    return is_text and not attached and (not kinds or part.get_content_subtype() in kinds)


def _parts(part: _Part) -> list[_Part]:
    payload = part.get_payload()
    return [child for child in payload if isinstance(child, Message)] if part.is_multipart() else []


def _bytes(part: _Part) -> bytes:
    data = part.get_payload(decode=True)
    return data if isinstance(data, bytes) else b""


def _text(part: _Part) -> str:
    return decoded(_bytes(part), _parameter(part, "charset"))


def _file_name(part: _Part) -> str:
    return _parameter(part, "filename", "Content-Disposition") or _parameter(part, "name")


def _parameter(part: _Part, name: str, header: str = "Content-Type") -> str:
    """A parameter of a header, whichever way its characters are encoded (RFC 2231, RFC 2047)."""
    value = part.get_param(name, "", header)
    if isinstance(value, tuple):
        label, _, text = value
        return decoded(text.encode("latin-1", "replace"), label or "")
    return without_words(str(value))
