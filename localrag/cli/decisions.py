"""The decisions of Self-RAG as they are made: one compact view, or plain lines."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Self

from localrag.cli.output import note, start, stderr_console
from localrag.presentation.steps import scored, step_line, step_name
from localrag.printable import as_name

if TYPE_CHECKING:
    from rich.text import Text

    from localrag.types import Step


class Decisions:
    """Hears the steps of a run and shows them on standard error.

    In a terminal the view disappears when the answer comes; `--explain` shows it all again.
    """

    def __init__(self) -> None:
        self._rows: list[tuple[str, list[str]]] = []
        self._over = False

    def __enter__(self) -> Self:
        self._live = None
        if sys.stderr.isatty():
            from rich.live import Live

            self._live = Live(console=stderr_console(), transient=True, auto_refresh=False)
            start(self._live)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Take the view away: from now on the answer is on the screen."""
        self._over = True
        if self._live is not None:
            self._live.stop()
            self._live = None

    def heard(self, step: Step) -> None:
        """Show a step; those of one kind in a row share a line."""
        if self._over:
            return
        if self._live is None:
            note(step_line(step))
            return
        word, short = step_name(step.kind), as_name(scored(step))
        if self._rows and self._rows[-1][0] == word:
            self._rows[-1][1].append(short)
        else:
            self._rows.append((word, [short]))
        self._live.update(self._view(), refresh=True)

    def _view(self) -> Text:
        from rich.text import Text

        view = Text(overflow="ellipsis", no_wrap=True)
        for word, shorts in self._rows[-8:]:
            view.append(f"{word}: ", style="bold").append(" · ".join(shorts) + "\n", style="dim")
        return view
