"""Everything that localrag raises on purpose.

LocalragError
├── ConfigError            a setting is unknown, of the wrong type or out of bounds
├── NetworkBlockedError    something tried to leave the machine without permission
├── ModelError
│   ├── ModelNotFoundError    no such model, or not pulled yet
│   ├── ModelDownloadError    a model could not be fetched
│   │   └── SourceFailedError     one source of several cannot deliver
│   ├── ModelCorruptError     size or SHA-256 differs from the published one
│   └── ModelLicenceError     a licence needs an explicit yes
├── ParsingError
│   ├── UnsupportedFileError  no parser for this kind of file
│   │   └── OldFormatError        another program must be there to read it
│   ├── EncryptedFileError
│   ├── EmptyFileError
│   ├── CorruptFileError
│   ├── ImageOnlyFileError    pages without a text layer
│   ├── SlowFileError         reading it took too long
│   └── PassedOverError       a link that leads out, a pipe: not opened on purpose
├── LibraryError
│   ├── LibraryNotFoundError
│   ├── LibraryLockedError    another process is writing
│   ├── LibraryClosedError    a vault that nobody has opened
│   │   └── WrongKeyError         a passphrase or key that does not open it
│   ├── LibraryDamagedError
│   ├── LibraryMismatchError  built with another embedding model or schema
│   ├── LibraryUnreachableError  its database does not answer
│   ├── UsersBeganError       a server knows nobody, and somebody must ask by now
│   ├── ForbiddenError        who asks may not do this, though others may
│   └── RemovedError          what an answer had read was removed before it was done
├── GenerationError
│   ├── ContextOverflowError  the prompt does not fit the model's window
│   ├── BackendError          the model or its server failed
│   └── StoppedError          somebody asked the model to stop
├── BundleError            a bundle cannot be made, is damaged, or is for another machine
└── UsageError             a call or a command line that makes no sense

Each takes an English template and its values, so that the command line can
print it in the reader's language; `hint` says what to do next.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from typing import TypeVar

from localrag.printable import filled

_Kept = TypeVar("_Kept", bound="LocalragError")

_DIGITS = re.compile(r"\.[0-3]f")


class LocalragError(Exception):
    """Base of all errors that localrag raises on purpose.

    `message` and `hint` are `str.format` templates over `values`, which may be such
    errors: a reason within a message, said in the same language.
    """

    exit_code = 1

    def __init__(self, message: str, /, *, hint: str = "", **values: object) -> None:
        super().__init__(message, hint, values)
        self.message = message
        self.hint = hint
        self.values = values

    def __str__(self) -> str:
        text = filled(self.message, self.values)
        return f"{text} {filled(self.hint, self.values)}" if self.hint else text


class ConfigError(LocalragError):
    """A setting is unknown, of the wrong type or out of bounds."""

    exit_code = 2


class NetworkBlockedError(LocalragError, OSError):
    """Something tried to leave the machine without permission."""

    __str__ = LocalragError.__str__


class ModelError(LocalragError):
    """A model cannot be had or used."""


class ModelNotFoundError(ModelError):
    """No model of that name or path, or it has not been pulled yet."""


class ModelDownloadError(ModelError):
    """A model could not be fetched."""


class SourceFailedError(ModelDownloadError):
    """One source cannot deliver; another may."""


class ModelCorruptError(ModelError):
    """Size or SHA-256 differs from the published one."""


class ModelLicenceError(ModelError):
    """The model's licence needs an explicit yes."""


class ParsingError(LocalragError):
    """A file cannot be read as a document."""


def parsing_error(kind: str, message: str, hint: str, values: Mapping[str, object]) -> ParsingError:
    """A ParsingError as it was kept elsewhere, by the name of its class. Raises as `kept_error`."""
    known = globals().get(kind)
    if not (isinstance(known, type) and issubclass(known, ParsingError)):
        known = ParsingError
    return kept_error(known, message, hint, values)


def kept_error(kind: type[_Kept], message: str, hint: str, values: Mapping[str, object]) -> _Kept:
    """An error as it was kept elsewhere.

    Raises ValueError for a template that asks for more than its values as they are: a width of a
    thousand million characters, say.
    """
    for template in (message, hint):
        for _, name, spec, conversion in string.Formatter().parse(template):
            value = values.get(name) if name is not None else ""
            plain = value is not None and not conversion
            if spec:
                plain &= bool(_DIGITS.fullmatch(spec)) and isinstance(value, int | float)
            if not plain:
                raise ValueError(f"not a template of ours: {template[:100]!r}")
    error = kind(message, hint=hint)
    error.values = dict(values)
    return error


class UnsupportedFileError(ParsingError):
    """No parser for this kind of file."""


class ProgramTextError(UnsupportedFileError):
    """Text that is for programs, such as keys, minified code or a set of questions."""


class OldFormatError(UnsupportedFileError):
    """Only another program reads it; another attempt may do better once that is installed."""


class EncryptedFileError(ParsingError):
    """The file needs a password."""


class EmptyFileError(ParsingError):
    """The file holds no bytes, no pages or no text."""


class CorruptFileError(ParsingError):
    """The file is not what its name says, or is damaged."""


class ImageOnlyFileError(ParsingError):
    """The pages are pictures without a text layer."""


class SlowFileError(ParsingError):
    """Reading it was given up for the time it took."""


class PassedOverError(ParsingError):
    """Not opened, on purpose: a link that leads out of what is added, a pipe, a device."""


class LibraryError(LocalragError):
    """A library on disk cannot be used."""


class LibraryNotFoundError(LibraryError):
    """There is no library in that folder."""


class LibraryLockedError(LibraryError):
    """Another process is writing to the library."""


class LibraryClosedError(LibraryError):
    """The library is a vault, and nobody has opened it here."""


class WrongKeyError(LibraryClosedError):
    """A passphrase, or another key, does not open a vault."""


class LibraryDamagedError(LibraryError):
    """A file of the library is damaged."""


class LibraryMismatchError(LibraryError):
    """The library was built with another embedding model or schema."""


class RemovedError(LibraryError):
    """What an answer had read was removed from the library before it was done."""


class LibraryUnreachableError(LibraryError):
    """The database of the library does not answer; it may later."""


class UsersBeganError(LibraryError):
    """The database has users since a server of its libraries began, which knows none of them."""


class ForbiddenError(LibraryError):
    """Who asks may not do this, though others may."""


class GenerationError(LocalragError):
    """The language model could not answer."""


class ContextOverflowError(GenerationError):
    """The prompt does not fit the model's context window."""


class BackendError(GenerationError):
    """The model or its server failed."""


class StoppedError(GenerationError):
    """Somebody asked the model to stop, in another thread."""


class BundleError(LocalragError):
    """A bundle cannot be made, is damaged, or is for another machine."""


class UsageError(LocalragError):
    """A call or a command line that makes no sense."""

    exit_code = 2
