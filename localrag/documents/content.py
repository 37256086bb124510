"""Files whose suffix no format has: text is read as such, whatever it is called.

Source code, settings, subtitles, notes without a suffix. Left out is what is text for programs
alone; a file of a known suffix is not looked at here.
"""

from __future__ import annotations

import re
from pathlib import PurePath

from localrag.documents.decoding import looks_like_text
from localrag.documents.formats.table import TEXT, contradiction
from localrag.documents.lines import empty
from localrag.errors import ParsingError, ProgramTextError, UnsupportedFileError

SAMPLE = 16_384
"""Bytes from the start of a file that decide."""

LARGEST = 16 * 2**20
"""Bytes of such a file that is read: more are a dump, or the log of a machine."""

LONGEST_LINE = 10_000
"""Bytes; what has longer lines was written by a program for a program, but for JSON and XML."""

FEWEST_LETTERS = 0.1
"""Of the bytes that are no space; geometry and measurements have less."""

_FOR_PROGRAMS = re.compile(
    r".*\.(?:lock|map|svg)|.*\.min\.\w+|.*-lock\.(?:json|yaml)|npm-shrinkwrap\.json|go\.sum",
    re.IGNORECASE,
)
_ARCHIVES = frozenset((".zip", ".7z", ".rar", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".zst"))
_STRUCTURED = re.compile(rb"(?:\xef\xbb\xbf)?\s*[{\[<]")
_ARMOURED = re.compile(rb"(?:\xef\xbb\xbf)?\s*-----BEGIN ")
"""Keys, certificates and encrypted messages."""
_QUESTION = re.compile(rb'"(?:question|user_input)"\s*:')
_EXPECTED = re.compile(rb'"(?:ideal_answer|ground_truth|reference|has_answer)"\s*:')
"""A set for `localrag eval` beside its documents: its questions would find themselves."""
_LETTERS = re.compile(rb"[A-Za-z\x80-\xff]+")


def refusal(path: PurePath, start: bytes, size: int) -> ParsingError | None:
    """Why a file is not read as text by its first bytes, None where it is.

    An EmptyFileError, or an UnsupportedFileError.
    """
    if size <= SAMPLE and not start.strip():
        return empty(str(path))
    if not looks_like_text(start) or contradiction(start, TEXT):
        return unsupported(path)
    if not _is_for_people(path, start):
        return ProgramTextError(
            "{source} is text for programs (keys, minified code, a set of questions for eval ...) "
            "and was left out.",
            hint="If it is meant for people, name it .txt.",
            source=str(path),
        )
    if size > LARGEST:
        return UnsupportedFileError(
            "{source} is text of {size} MB; of a type that has no format here, up to {limit} MB "
            "are read.",
            hint="If it is meant for people, name it .txt or split it.",
            source=str(path),
            size=-(-size // 2**20),
            limit=LARGEST // 2**20,
        )
    return None


def _is_for_people(path: PurePath, start: bytes) -> bool:
    if _ARMOURED.match(start) or _FOR_PROGRAMS.fullmatch(path.name):
        return False
    structured = _STRUCTURED.match(start) is not None
    if structured and _QUESTION.search(start) and _EXPECTED.search(start):
        return False
    if not structured and max(map(len, start.splitlines())) > LONGEST_LINE:
        return False
    letters = sum(map(len, _LETTERS.findall(start)))
    return letters > FEWEST_LETTERS * len(b"".join(start.split()))


def unsupported(path: PurePath) -> UnsupportedFileError:
    """The error for a file of a kind that is not read."""
    return UnsupportedFileError(
        "{source} is not a type of file that can be read.",
        hint="Unpack it and add the folder."
        if path.suffix.lower() in _ARCHIVES
        else "Save it as PDF, Office file, text or picture and add that: `localrag doctor` lists "
        "all types.",
        source=str(path),
    )
