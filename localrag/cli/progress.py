"""How an add or a rebuild shows its progress: two bars in a terminal, few lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Self

from localrag.cli.output import note, start, stderr_console
from localrag.messages import tr
from localrag.presentation.durations import duration
from localrag.printable import as_name

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

    from localrag.indexing.events import Event
    from localrag.library.folder.locking import Holder

PLAIN_EVERY = 10.0
"""Seconds between two progress lines where the output is not a terminal."""


def say_waiting(holder: Holder | None) -> None:
    """Say who is writing to the library now."""
    note(tr("Waiting: the library is in use by {holder}.", holder=holder or "?"))


class Bars:
    """Files that have their outcome, and passages that have their vector.

    The number of passages is known only for files that were read so far, so that bar
    counts towards what is known and says so by growing, never by jumping back.
    """

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._files = self._done = self._chunks = self._embedded = 0
        self._said = time.monotonic()

    def __enter__(self) -> Self:
        if self._terminal:
            from rich.progress import TimeElapsedColumn

            self._bars = _started(TimeElapsedColumn(), beside="current")
            self._file_task = self._bars.add_task(tr("Files"), total=None, current="")
            self._chunk_task = self._bars.add_task(tr("Passages"), total=None, current="")
        return self

    def __exit__(self, *_: object) -> None:
        if self._terminal:
            self._bars.stop()

    def tell(self, event: Event) -> None:
        """Take note of one event."""
        from localrag.indexing import events

        current = ""
        match event:
            case events.Found(files):
                self._files = files
            case events.Parsed(source, _, chunks):
                self._chunks += chunks
                current = source
            case events.Embedded(chunks):
                self._embedded += chunks
            case events.Unchanged() | events.Linked() | events.Committed() | events.Failed():
                self._done += 1
            case _:
                return
        if self._terminal:
            self._draw(current)
        elif time.monotonic() - self._said > PLAIN_EVERY:
            self._said = time.monotonic()
            note(
                tr(
                    "{done} of {files} files, {embedded} passages embedded",
                    done=self._done,
                    files=self._files,
                    embedded=self._embedded,
                )
            )

    def _draw(self, current: str) -> None:
        self._bars.update(self._file_task, total=self._files, completed=self._done)
        self._bars.update(self._chunk_task, total=self._chunks or None, completed=self._embedded)
        if current:
            name = current.replace("\\", "/").rsplit("/", 1)[-1]
            self._bars.update(self._file_task, current=as_name(name[:40]))


class TimedBar:
    """One bar after the other in a terminal, a line now and then elsewhere; with the time left."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._title = ""
        self._said = time.monotonic()

    def __enter__(self) -> Self:
        if self._terminal:
            self._bar = _started(beside="left")
            self._task = self._bar.add_task("", visible=False, left="")
        return self

    def __exit__(self, *_: object) -> None:
        if self._terminal:
            self._bar.stop()

    def show(self, title: str, done: int, total: int, left: float | None = None) -> None:
        """Show where the work of that name stands; `left` in seconds, None while not known."""
        remaining = "" if left is None else tr("{time} left", time=duration(left))
        if self._terminal:
            self._bar.update(
                self._task,
                description=as_name(title),
                completed=done,
                total=total,
                left=remaining,
                visible=True,
            )
        elif title != self._title:
            self._title, self._said = title, time.monotonic()
        elif time.monotonic() - self._said > PLAIN_EVERY:
            self._said = time.monotonic()
            note(f"{title}: {done}/{total}" + (f", {remaining}" if remaining else ""))


def _started(*columns: ProgressColumn, beside: str) -> Progress:
    """Bars on standard error, with these columns and the field `beside` after them."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    bars = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        *columns,
        TextColumn(f"{{task.fields[{beside}]}}", markup=False),
        console=stderr_console(),
        transient=True,
    )
    start(bars)
    return bars
