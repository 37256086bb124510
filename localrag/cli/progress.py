"""How an add or a rebuild shows its progress: two bars in a terminal, few lines elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from localrag.cli.output import note, start, stderr_console
from localrag.messages import tr
from localrag.printable import as_name

if TYPE_CHECKING:
    from localrag.indexing.events import Event
    from localrag.library.locking import Holder

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
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                Progress,
                TextColumn,
                TimeElapsedColumn,
            )

            self._bars = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.fields[current]}", markup=False),
                console=stderr_console(),
                transient=True,
            )
            start(self._bars)
            self._file_task = self._bars.add_task(tr("Files"), total=None, current="")
            self._chunk_task = self._bars.add_task(tr("Passages"), total=None, current="")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
