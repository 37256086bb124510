"""How an add or a rebuild shows its progress: two bars in a terminal, few lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from localrag.cli.output import note, note_tr, start, stderr_console
from localrag.messages import tr
from localrag.presentation.durations import duration
from localrag.printable import as_name

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from localrag.indexing.events import IndexingEvent
    from localrag.library.folder.locking import Holder

PLAIN_EVERY = 10.0
"""Seconds between two progress lines where the output is not a terminal."""


def say_waiting(holder: Holder | None) -> None:
    """Say who is writing to the library now."""
    note_tr("Waiting: the library is in use by {holder}.", holder=holder or "?")


class ProgressBars:
    """Bars on standard error where that is a terminal; elsewhere a line now and then.

    `columns` are those of Rich, by name, between a bar and what is said beside it.
    """

    def __init__(self, *columns: str, transient: bool = True) -> None:
        self._columns, self._transient = columns, transient
        self._bars: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        self.last_shown = time.monotonic()

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich import progress

            self._bars = progress.Progress(
                progress.TextColumn("{task.description}", markup=False),
                progress.BarColumn(),
                *(getattr(progress, name)() for name in self._columns),
                progress.TextColumn("{task.fields[beside]}", markup=False),
                console=stderr_console(),
                transient=self._transient,
            )
            start(self._bars)
        return self

    def __exit__(self, *_: object) -> None:
        if self._bars is not None:
            self._bars.stop()

    def draw(
        self, name: str, done: int, total: int, *, title: str = "", beside: str | None = None
    ) -> bool:
        """Draw the bar of that name, `title` beside it; False where there is no terminal.

        A total of 0 is not known yet; `beside` None leaves what stood there.
        """
        if self._bars is None:
            return False
        if name not in self._tasks:
            self._tasks[name] = self._bars.add_task("", total=None, beside="")
        fields: dict[str, Any] = {} if beside is None else {"beside": as_name(beside)}
        self._bars.update(
            self._tasks[name],
            description=as_name(title or name),
            completed=done,
            total=total or None,
            **fields,
        )
        return True

    def sometimes(self, line: Callable[[], str]) -> None:
        """Say it, unless something was said a moment ago."""
        if time.monotonic() - self.last_shown > PLAIN_EVERY:
            self.last_shown = time.monotonic()
            note(line())


def _name(source: str) -> str:
    return source.replace("\\", "/").rpartition("/")[2][:40]


class Bars(ProgressBars):
    """Files that have their outcome, and passages that have their vector.

    The number of passages is known only for files that were read so far, so that bar
    counts towards what is known and says so by growing, never by jumping back.
    """

    def __init__(self) -> None:
        super().__init__("MofNCompleteColumn", "TimeElapsedColumn")
        self._titles = tr("Files"), tr("Passages")
        self._files = self._done = self._chunks = self._embedded = 0
        self._scan = ""
        self._scanned = (0, 0.0)
        """Pages of that file that were done when its first recognised page was, and when."""

    def tell(self, event: IndexingEvent) -> None:
        """Take note of one event."""
        from localrag.indexing import events

        current = None
        match event:
            case events.FilesFound(files):
                self._files += files
            case events.Parsed(source, _, chunks):
                self._chunks += chunks
                current = _name(source)
            case events.PageRecognised(source, page, pages):
                current = self._page(source, page, pages)
            case events.Embedded(chunks):
                self._embedded += chunks
            case events.Unchanged() | events.Linked() | events.Committed() | events.Failed():
                self._done += 1
            case events.ReadAgain() | events.Kept():
                self._done += 1
            case _:
                return
        # Thousands of unchanged files a second need no picture each.
        if isinstance(event, events.Unchanged) and self._done % 100:
            return
        if self.draw(self._titles[0], self._done, self._files, beside=current):
            self.draw(self._titles[1], self._embedded, self._chunks)
        elif isinstance(event, events.PageRecognised):
            self.sometimes(lambda: f"{self._line()}; {current}")
        else:
            self.sometimes(self._line)

    def _line(self) -> str:
        return tr(
            "{done} of {files} files, {embedded} passages embedded",
            done=self._done,
            files=self._files,
            embedded=self._embedded,
        )

    def _page(self, source: str, page: int, pages: int) -> str:
        """Where the recognition of a file stands."""
        if not pages:
            return tr("{name}: picture {number}", name=_name(source), number=page)
        now = time.monotonic()
        if source != self._scan:
            self._scan, self._scanned = source, (page, now)
        line = tr("{name}: page {page} of {pages}", name=_name(source), page=page, pages=pages)
        first, since = self._scanned
        if page > first:
            seconds_left = (now - since) / (page - first) * (pages - page)
            line += ", " + tr("{time} left", time=duration(seconds_left))
        return line


class TimedBar(ProgressBars):
    """One bar after the other in a terminal, a line now and then elsewhere; with the time left."""

    def __init__(self) -> None:
        super().__init__("MofNCompleteColumn")
        self._title = ""

    def show(self, title: str, done: int, total: int, seconds_left: float | None = None) -> None:
        """Show where the work of that name stands; `seconds_left` is None while not known."""
        remaining = "" if seconds_left is None else tr("{time} left", time=duration(seconds_left))
        if self.draw("", done, total, title=title, beside=remaining):
            return
        if title != self._title:
            self._title, self.last_shown = title, time.monotonic()
        self.sometimes(lambda: f"{title}: {done}/{total}" + (f", {remaining}" if remaining else ""))
