"""What commands share: options, and the one way to print.

Nothing else in this folder writes to a stream (`tests/cli/test_printing.py` sees to that). What
reaches standard output or error in another way, from a library or a warning, goes through
`CleanStream`.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar, cast

import click

from localrag.messages import name_library, tr
from localrag.presentation.steps import note_text
from localrag.printable import as_json, as_name, as_text
from localrag.types import Note

if TYPE_CHECKING:
    import threading

    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.live import Live
    from rich.measure import Measurement
    from rich.progress import Progress
    from rich.table import Table
    from rich.text import Text

    from localrag.api import LocalRAG
    from localrag.config.settings import Settings
    from localrag.library.location import Location

CONTEXT_LIBRARY = "library"
SERVERS = ("serve", "mcp")
UNREAD = 3
"""The exit code where all was done but for files that could not be read."""
MODES = ("standard", "self-rag")
RERANKERS = ("none", "keyword", "learned", "cross-encoder", "llm")
"""Those of `config`; repeated here because that module is heavier."""
INDENT = 4
"""Columns before the further lines of an item."""

Command = TypeVar("Command", bound=Callable[..., Any])


def question_argument(command: Command) -> Command:
    """Add QUESTION; an empty one is refused before anything is loaded."""
    # All that stands there is taken, to say what is wrong with a question without quotes.
    return click.argument(
        "question", metavar=tr("QUESTION"), nargs=-1, required=True, callback=_read_question
    )(command)


def _read_question(_: click.Context, __: click.Parameter, value: tuple[str, ...]) -> str:
    from localrag.errors import UsageError

    if not "".join(value).strip():
        raise UsageError("The question is empty.", hint="Ask something, in quotes.")
    if len(value) > 1:
        raise UsageError(
            "The question came as {count} words, and not as one.",
            hint="Put it in quotes: {question}",
            count=len(value),
            question=_quote(" ".join(value)),
        )
    return value[0]


def _quote(text: str) -> str:
    """A text as one word of a command line."""
    return f'"{text}"' if os.name == "nt" else shlex.quote(text)


def library_option(command: Command) -> Command:
    """Add `--library DIR`; the command receives the folder as `library: Path`."""
    text = tr("Folder of the library (or LOCALRAG_LIBRARY).")
    return _library_option(_library_path, text)(command)


def any_library_option(command: Command, chosen: Callable[..., Location] | None = None) -> Command:
    """Add `--library DIR`; the command receives a folder or a database, `library: Location`.

    `chosen` is what makes that of the option, where it is not the usual.
    """
    text = tr("Folder of the library, or postgresql://HOST/DATABASE#NAME (or LOCALRAG_LIBRARY).")
    return _library_option(chosen or library_location, text)(command)


def _library_option(chosen: Callable[..., Location], text: str) -> Callable[[Command], Command]:
    return click.option("--library", metavar=tr("DIR"), callback=chosen, help=text)


def json_option(command: Command) -> Command:
    """Add `--json`; the command receives `as_json: bool`."""
    return click.option(
        "--json", "as_json", is_flag=True, help=tr("Print one JSON object instead of text.")
    )(command)


def common_options(command: Command) -> Command:
    """Add `--library` and `--json`, as `any_library_option` and `json_option` do."""
    return any_library_option(json_option(command))


def k_option(most: int, text: str = "") -> Callable[[Command], Command]:
    """Add `-k NUMBER`, at most so many; the command receives `k: int | None`."""
    return click.option(
        "-k",
        metavar=tr("NUMBER"),
        type=click.IntRange(1, most),
        help=text or tr("How many passages the model reads."),
    )


def rerank_option(command: Command) -> Command:
    """Add `--rerank`; the command receives `rerank: str | None`."""
    return click.option(
        "--rerank", type=click.Choice(RERANKERS), help=tr("How to reorder the search results.")
    )(command)


def server_option(command: Command) -> Command:
    """Add `--no-server`; the command receives `server: bool`."""
    return click.option(
        "--no-server",
        "server",
        is_flag=True,
        flag_value=False,
        default=True,
        help=tr("Do the work here, even if `localrag serve` is running for the library."),
    )(command)


def file_option(*names: str, text: str) -> Callable[[Command], Command]:
    """Add an option that names a file; the command receives a `Path | None`."""
    path = click.Path(dir_okay=False, path_type=Path)
    return click.option(*names, metavar=tr("FILE"), type=path, help=text)


def page_option(command: Command) -> Command:
    """Add `--html FILE`; the command receives `page: Path | None`."""
    text = tr("Save a page to view in a browser.")
    return file_option("--html", "page", text=text)(command)


def table_option(command: Command) -> Command:
    """Add `--output FILE` for a table; the command receives `output: Path | None`."""
    text = tr("Save the table with its citations, as .xlsx, .csv, .html or .md.")
    return file_option("-o", "--output", text=text)(command)


def no_empty_path(_: click.Context, __: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """The paths as they are: an empty one would mean the current folder, and all that is in it.

    Nor are they addresses, which the system takes for folders.
    """
    from localrag.errors import UsageError

    if web := [path for path in value if path.lower().startswith(("http://", "https://"))]:
        raise UsageError(
            "{address} is an address on the network, and localrag fetches nothing.",
            hint="Download it yourself, then name the file.",
            address=web[0],
        )

    if not all(path.strip() for path in value):
        raise UsageError(
            "One of the paths is empty.",
            hint="Perhaps a shell variable is not set. For the current folder, give a dot.",
        )
    return value


def paths_argument(command: Command) -> Command:
    """Add PATH...; the command receives `paths: tuple[str, ...]`, none of them empty."""
    return click.argument(
        "paths",
        nargs=-1,
        required=True,
        metavar=tr("PATH..."),
        type=click.Path(readable=False),  # one that cannot be read is said beside the others
        callback=no_empty_path,
    )(command)


def _library_path(context: click.Context, option: click.Parameter, value: str | None) -> Path:
    from localrag.errors import UsageError

    location = library_location(context, option, value)
    if not isinstance(location, Path):
        raise UsageError(
            "This command needs a library in a folder, and {library} is in a database.",
            hint="Name a folder with --library.",
            library=str(location),
        )
    return location


def library_location(
    context: click.Context, option: click.Parameter, value: str | None
) -> Location:
    """The folder or database that an option, the whole command or the environment names.

    Commands that are printed then name it, too; not those of a server, which others read.
    """
    if value is not None:
        no_empty_path(context, option, (value,))
    chosen = value or (context.obj or {}).get(CONTEXT_LIBRARY)
    name = _quote(str(chosen))
    named = chosen and context.info_name not in SERVERS
    name_library(f"--library {name}" if named else "")
    if chosen is not None and not isinstance(chosen, str):  # as the group has read it
        return cast("Location", chosen)
    chosen = chosen or os.environ.get("LOCALRAG_LIBRARY")
    if chosen and ":" in chosen[2:]:
        from localrag.egress.databases import is_database, read_url

        if is_database(chosen):
            return read_url(chosen)
    if chosen:
        return Path(chosen).expanduser()
    from platformdirs import user_data_path

    return user_data_path("localrag", appauthor=False) / "library"


class CleanStream:
    """A text stream through which nothing passes that drives a terminal, whoever writes to it.

    It has no `buffer`: there is no way around it. `inner` is for consoles, which write colours.
    """

    def __init__(self, inner: TextIO) -> None:
        self.inner = inner

    def write(self, text: str) -> int:
        """Write a text of any number of lines."""
        if not isinstance(text, str):  # click asks in this way what kind of stream it is
            raise TypeError("this stream takes text")
        self.inner.write(as_text(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write each text."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        if name in ("buffer", "detach"):
            raise AttributeError(name)
        return getattr(self.inner, name)


def guard_streams() -> None:
    """Let standard output and error pass through `CleanStream`, unless they do."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if not isinstance(stream, CleanStream):
            setattr(sys, name, cast(TextIO, CleanStream(stream)))


def say(line: object, *, err: bool = False) -> None:
    """Print one line, whatever stands in it."""
    click.echo(as_name(line), err=err)


def note(line: object) -> None:
    """Say something beside the result, on standard error."""
    say(line, err=True)


def say_tr(*template: str, **values: object) -> None:
    """Print one line in the reader's language: `say_tr("{count} files", count=3)`."""
    say(tr(*template, **values))


def note_tr(*template: str, **values: object) -> None:
    """The same beside the result, on standard error."""
    note(tr(*template, **values))


def note_list(heading: str, lines: Sequence[object]) -> None:
    """Say lines below their heading; nothing where there are none."""
    for line in (heading, *(f"  {line}" for line in lines)) if lines else ():
        note(line)


def say_text(text: object = "", *, nl: bool = True, err: bool = False) -> None:
    """Print a text that may have several lines, such as an answer."""
    click.echo(as_text(text), nl=nl, err=err)


def emit_json(value: object) -> None:
    """Print one JSON object to standard output, Chinese as it is."""
    click.echo(as_json(value, indent=2))


def emit_json_line(value: object) -> None:
    """Print one JSON object on one line of standard output, at once."""
    click.echo(as_json(value))


def read_seconds(_: click.Context, __: click.Parameter, value: str | None) -> float | None:
    """`30s`, `2m` or a number of seconds."""
    if value is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|)", value.strip().lower())
    if not match or not float(match[1]):
        raise click.BadParameter(tr("a time looks like 30s or 2m, not {value}", value=value))
    return float(match[1]) * (60 if match[2] == "m" else 1)


@contextmanager
def interruptible() -> Iterator[threading.Event]:
    """What the first Ctrl-C sets, so that what there is is shown; the second ends all."""
    import signal
    import threading

    stopped = threading.Event()

    def stop(*_: object) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt
        stopped.set()
        note(tr("Stopping; what was read is kept. Press Ctrl-C again to end at once."))

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield stopped
    finally:
        signal.signal(signal.SIGINT, before)


def stdout_console() -> Console:
    """A console for results.

    Where the output is not a terminal, there are no colours, and lines are only broken at the
    width that COLUMNS says.
    """
    free = not sys.stdout.isatty() and not os.environ.get("COLUMNS", "").isdecimal()
    return _console_class()(file=_inner(sys.stdout), width=10_000 if free else None, **_PLAIN)


def stderr_console() -> Console:
    """A console for progress and notes, which never mix with results."""
    return _console_class()(file=_inner(sys.stderr), **_PLAIN)


def confirm_licence(model: str) -> None:
    """Ask about a licence that forbids commercial use; no ends the command."""
    question = tr("{model} may not be used commercially. Do you accept its licence?", model=model)
    click.confirm(question, abort=True, err=True)


def write_report(path: Path, content: str | bytes) -> None:
    """Write a file that the user named, or say why that cannot be."""
    from localrag.system.files import write_output

    with named_output(path):
        write_output(path, content)


@contextmanager
def named_output(path: Path) -> Iterator[None]:
    """Check or write a file that the user named: where that fails, say why and what to do."""
    from localrag.errors import UsageError

    try:
        yield
    except OSError as error:
        raise UsageError(
            "{path} cannot be written: {reason}.",
            hint="Give the path of a file in a folder that exists.",
            path=path,
            reason=error.strerror,
        ) from error


def open_library(folder: Location, settings: Settings | None = None) -> LocalRAG:
    """A library that is there; what it has to tell goes to standard error."""
    from localrag.api import LocalRAG

    return LocalRAG.open(
        folder, settings=settings, create=False, on_note=note, on_damage=note_rebuilding
    )


_ORIGINS = {
    "file": "{source} is not in the library; it was read now.",
    "changed": "{source} has changed since it was added; this is what the library holds. "
    "`localrag add` reads it again.",
    "gone": "{source} is gone; this is what the library holds.",
}


def say_origin(source: str, origin: str) -> None:
    """Note that a file is not in the library, or no longer what the library holds."""
    if origin in _ORIGINS:
        note(tr(_ORIGINS[origin], source=source))


def note_rebuilding(path: Path) -> None:
    """Say that an index is not used as it is, on standard error."""
    note(rebuilding(path))


def rebuilding(path: Path) -> str:
    """That an index is not used as it is."""
    return note_text(Note("index damaged", {"name": path.name}))


def start(view: Live | Progress) -> None:
    """Draw a view. What is written beside it appears above it, as clean as elsewhere."""
    view.start()
    guard_streams()  # rich has put its own streams there, which take escape sequences for styles


def table(
    heads: Iterable[str],
    rows: Iterable[Iterable[RenderableType]],
    numbers: Container[int] = (),
    **column: Any,
) -> Table:
    """A table without lines; the columns `numbers` are set to the right and never broken.

    `column` is what Rich is told of the others.
    """
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, header_style="bold", pad_edge=False)
    for place, head in enumerate(heads):
        if place in numbers:
            grid.add_column(head, justify="right", no_wrap=True)
        else:
            grid.add_column(head, **column)
    for cells in rows:
        grid.add_row(*(Text(as_name(c)) if isinstance(c, str) else c for c in cells))
    return grid


class ListItem:
    """One item of a list or a table.

    The lines that it is broken into are indented: whatever stands in it, none looks like an item.
    """

    def __init__(self, text: Text) -> None:
        self._text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        if self._text.cell_len <= options.max_width and "\n" not in self._text.plain:
            yield self._text
            return
        width = max(1, options.max_width - INDENT)
        for number, line in enumerate(self._text.wrap(console, width, overflow="fold")):
            if number:
                line.pad_left(INDENT)
            yield line

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        from rich.measure import Measurement

        least, most = Measurement.get(console, options, self._text)
        return Measurement(min(least + INDENT, most), most)


# Square brackets and colons of names and texts are no markup.
_PLAIN: dict[str, Any] = {"highlight": False, "markup": False, "emoji": False}


@cache
def _console_class() -> type[Console]:
    from rich.console import Console
    from rich.segment import Segment

    class CleanConsole(Console):
        """Writes its own styles, and of the texts what `as_text` leaves.

        What only fills a line up to its end is written to terminals alone.
        """

        def render(
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> Iterable[Segment]:
            line: list[Segment] = []
            for segment in super().render(renderable, options):
                if segment.control:
                    yield segment
                    continue
                clean = Segment(as_text(segment.text), segment.style)
                if self.is_terminal:
                    yield clean
                    continue
                if clean.text.startswith("\n"):
                    while line and not line[-1].text.strip(" "):
                        line.pop()
                    if line:
                        line[-1] = Segment(line[-1].text.rstrip(" "), line[-1].style)
                    yield from (*line, clean)
                    line.clear()
                else:
                    line.append(clean)
            yield from line

    return CleanConsole


def _inner(stream: TextIO) -> TextIO:
    return stream.inner if isinstance(stream, CleanStream) else stream
