"""Who is asked before something goes to another machine, and what was answered.

One yes holds for one server and model. A call may bring its own consent, as where several people
ask one process; otherwise that of the process counts, whatever models are made in it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from localrag.errors import NetworkBlockedError

if TYPE_CHECKING:
    from localrag.types import Message


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A passage on its way out."""

    source: str
    first_page: int
    last_page: int
    text: str


@dataclass(frozen=True, slots=True)
class Preview:
    """What one call sends: `messages` are what goes, with redactions made.

    `withheld` counts passages that may not go and so are not among `passages`, None where
    nothing is labelled private; `encrypted` is False where others on the way can read along.
    """

    server: str
    model: str
    encrypted: bool
    passages: tuple[Excerpt, ...]
    messages: tuple[Message, ...]
    redactions: int
    withheld: int | None

    @property
    def characters(self) -> int:
        """Code points of all messages together."""
        return sum(len(message.content) for message in self.messages)


Ask = Callable[[Preview], bool]
Show = Callable[[Preview, bool], None]
"""Shows what goes; the flag is True at the first call to that model in this process."""


class Consent:
    """Who is asked and who is shown each call, what was answered, and what the audit log says.

    Without `ask` there is nobody to confirm anything. Several threads may use it.
    """

    def __init__(
        self, command: str = "python", *, ask: Ask | None = None, show: Show | None = None
    ) -> None:
        self.command = command
        self._ask = ask
        self._show = show
        self._lock = threading.Lock()
        self._answers: dict[tuple[str, str], bool] = {}

    def ensure(self, preview: Preview, *, confirm: bool) -> None:
        """Show the call, and at the first one have it confirmed where `confirm` says so.

        Raises `NetworkBlockedError` where the answer is no, or where there is nobody to ask.
        """
        key = (preview.server, preview.model)
        with self._lock:
            known = self._answers.get(key)
            if self._show is not None and known is not False:
                self._show(preview, known is None)
            if known is None:
                if confirm and self._ask is None:
                    raise NetworkBlockedError(
                        "Nothing was sent to {model} at {server}: there is nobody to confirm it.",
                        hint="Confirm it in a terminal, or beforehand with `localrag --yes ...` or "
                        "`localrag config set hosted.confirm false`.",
                        model=preview.model,
                        server=preview.server,
                    )
                known = self._ask is None or not confirm or self._ask(preview)
                self._answers[key] = known
        if not known:
            raise NetworkBlockedError(
                "Nothing was sent to {model} at {server}, as you decided.",
                hint="List what must never go there under `hosted.private`, or use a model "
                "on this machine.",
                model=preview.model,
                server=preview.server,
            )


_process = Consent()


def begin(command: str, *, ask: Ask | None, show: Show | None) -> None:
    """A new run of this process: who is asked where a call brings no consent of its own."""
    global _process
    _process = Consent(command, ask=ask, show=show)


def of_process() -> Consent:
    """The consent of this run."""
    return _process
