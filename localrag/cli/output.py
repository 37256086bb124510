"""What commands share: options, JSON, consoles, and text made safe for a terminal."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from localrag.messages import tr

if TYPE_CHECKING:
    from rich.console import Console

CONTEXT_LIBRARY = "library"
MODES = ("standard", "self-rag")
RERANKERS = ("none", "keyword", "cross-encoder", "llm")
"""Those of `config`; repeated here because that module is heavier."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")

Command = TypeVar("Command", bound=Callable[..., Any])


def printable(text: str) -> str:
    """Text from outside without control characters: a file's name must not drive the terminal."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def question_argument(command: Command) -> Command:
    """Add QUESTION; an empty one is refused before anything is loaded."""
    return click.argument("question", metavar=tr("QUESTION"), callback=_asked)(command)


def _asked(_: click.Context, __: click.Parameter, value: str) -> str:
    from localrag.errors import UsageError

    if not value.strip():
        raise UsageError("The question is empty.", hint="Ask something, in quotes.")
    return value


def library_option(command: Command) -> Command:
    """Add `--library DIR`; the command receives the folder as `library: Path`."""
    return click.option(
        "--library",
        metavar=tr("DIR"),
        callback=_library_path,
        help=tr("Folder of the library (or LOCALRAG_LIBRARY)."),
    )(command)


def json_option(command: Command) -> Command:
    """Add `--json`; the command receives `as_json: bool`."""
    return click.option(
        "--json", "as_json", is_flag=True, help=tr("Print one JSON object instead of text.")
    )(command)


def no_empty_path(_: click.Context, __: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """The paths as they are: an empty one would mean the current folder, and all that is in it."""
    from localrag.errors import UsageError

    if not all(path.strip() for path in value):
        raise UsageError(
            "One of the paths is empty.",
            hint="Perhaps a variable of the shell is not set. The current folder is written as a "
            "dot.",
        )
    return value


def _library_path(context: click.Context, _: click.Parameter, value: str | None) -> Path:
    if value is not None:
        no_empty_path(context, _, (value,))
    chosen = value or (context.obj or {}).get(CONTEXT_LIBRARY)
    chosen = chosen or os.environ.get("LOCALRAG_LIBRARY")
    if chosen:
        return Path(chosen).expanduser()
    from platformdirs import user_data_path

    return user_data_path("localrag", appauthor=False) / "library"


def emit_json(value: object) -> None:
    """Print one JSON object to standard output, Chinese as it is."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=2))


def stdout_console() -> Console:
    """A console for results; no colours and no line breaks where the output is not a terminal."""
    from rich.console import Console

    piped = not sys.stdout.isatty()
    return Console(file=sys.stdout, highlight=False, markup=False, width=10_000 if piped else None)


def stderr_console() -> Console:
    """A console for progress and notes, which never mix with results."""
    from rich.console import Console

    return Console(file=sys.stderr, highlight=False, markup=False)


def note(text: str) -> None:
    """Say something beside the result, on standard error."""
    click.echo(printable(text), err=True)
