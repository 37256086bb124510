"""Passphrases as a person gives them: at the terminal, or through a descriptor that they name."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from localrag.errors import UsageError
from localrag.messages import tr

CONTEXT_DESCRIPTOR = "passphrase_fd"
_LONGEST = 1 << 12
"""Bytes of a line."""


def ask(folder: Path) -> str | None:
    """The passphrase of the vault in a folder; None where nobody can be asked."""
    if (line := _from_descriptor()) is not None:
        return line
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    question = tr("Passphrase of the vault {folder}", folder=str(folder))
    return str(click.prompt(question, hide_input=True, err=True))


def existing(question: str) -> str:
    """One that there is already, or a recovery key. Raises UsageError."""
    return _read(question)


def new(question: str) -> str:
    """One that is chosen now, typed twice at the terminal. Raises UsageError."""
    return _read(question, confirmation_prompt=True)


def _read(question: str, *, confirmation_prompt: bool = False) -> str:
    if (line := _from_descriptor()) is not None:
        return line
    if not sys.stdin.isatty():
        raise UsageError(
            "There is no terminal to type a passphrase at.",
            hint="Name a file descriptor to read it from: localrag --passphrase-fd 3 ... 3<FILE",
        )
    return str(
        click.prompt(question, hide_input=True, confirmation_prompt=confirmation_prompt, err=True)
    )


def _from_descriptor() -> str | None:
    """The next line of the descriptor that was named, read byte by byte: the rest is for others."""
    context = click.get_current_context(silent=True)
    number = context.find_root().obj.get(CONTEXT_DESCRIPTOR) if context else None
    if number is None:
        return None
    line = bytearray()
    try:
        while len(line) < _LONGEST and (byte := os.read(number, 1)) not in (b"", b"\n"):
            line += byte
    except OSError as error:
        raise UsageError(
            "The passphrase cannot be read from the descriptor {number}: {reason}.",
            hint="Name one that the shell has opened for reading, such as 3 with 3<FILE.",
            number=number,
            reason=error.strerror,
        ) from error
    return line.decode("utf-8", "surrogateescape").rstrip("\r")
