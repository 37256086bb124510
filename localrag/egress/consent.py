"""Who is asked before something goes to another machine, and what was answered.

It holds for the whole process, whatever models are made in it: one yes for one server and model.
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
    """A passage on its way out; `characters` are code points."""

    source: str
    first_page: int
    last_page: int
    characters: int


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


class _Run:
    """What is known of this process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.command = "python"
        self.ask: Ask | None = None
        self.show: Show | None = None
        self.answers: dict[tuple[str, str], bool] = {}


_run = _Run()


def begin(command: str, *, ask: Ask | None, show: Show | None) -> None:
    """A new run: who is asked, who is shown each call, and what the audit log calls it."""
    with _run.lock:
        _run.command, _run.ask, _run.show = command, ask, show
        _run.answers.clear()


def command() -> str:
    """What is running, for the audit log."""
    return _run.command


def ensure(preview: Preview, *, confirm: bool) -> None:
    """Show the call, and at the first one have it confirmed where `confirm` says so.

    Raises `NetworkBlockedError` where the answer is no, or where there is nobody to ask.
    """
    key = (preview.server, preview.model)
    with _run.lock:
        known = _run.answers.get(key)
        if _run.show is not None and known is not False:
            _run.show(preview, known is None)
        if known is None:
            known = not confirm or (_run.ask is not None and _run.ask(preview))
            if confirm and _run.ask is None:
                raise NetworkBlockedError(
                    "Nothing was sent to {model} at {server}: nobody is here to confirm it.",
                    hint="Confirm it in a terminal, or beforehand with `localrag --yes ...` or "
                    "`localrag config set hosted.confirm false`.",
                    model=preview.model,
                    server=preview.server,
                )
            _run.answers[key] = known
    if not known:
        raise NetworkBlockedError(
            "Nothing was sent to {model} at {server}, as you wished.",
            hint="Label what must never go there with `hosted.private`, or use a model on this "
            "machine.",
            model=preview.model,
            server=preview.server,
        )
