"""A library that a running server of the same user answers for, so that no model is loaded twice.

Used where version, settings, models and library are the same, so that the results are; where it
is not, or goes away, the command does the work itself. Nothing heavy is imported before that.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, Unpack

import click

from localrag.cli.output import note, note_tr, open_library
from localrag.config.settings import OpenAISettings, Settings, load_settings
from localrag.errors import BackendError, ConfigError
from localrag.messages import tr
from localrag.presentation.steps import NotesOnce
from localrag.server.endpoint import endpoints
from localrag.server.token import known_token, server_folder

if TYPE_CHECKING:
    from localrag.api import Asking, LocalRAG
    from localrag.library.location import Location
    from localrag.rag.base import OnStep
    from localrag.rag.conversation import Turn
    from localrag.server.calls import WaitingEvent, What
    from localrag.server.client import RunningServer
    from localrag.server.setups import Difference, Setup
    from localrag.types import Answer, ScoredChunk, Step

    Answering: TypeAlias = "LocalRAG | ServedLibrary"
    """What `search`, `ask` and `chat` need of a library."""
    Why = Difference | Literal["open", "unproven", "hosted"]


_REASONS = {
    "library": "it serves another library",
    "version": "it is of another version",
    "installation": "it is of another installation",
    "settings": "it was started with other settings",
    "models": "models have changed since it was started",
    "open": "others may use the folder {folder}",
    "unproven": "it does not prove that it has your token",
    "hosted": "the language model is on another machine",
}


def answering(folder: Location, settings: Settings | None = None, *, server: bool) -> Answering:
    """The library in `folder`: with `server`, behind one that runs and fits, if there is one."""
    settings = settings or load_settings()
    connection = None
    if server:
        connection, why = running(folder, settings)
        if why is not None and _is_debugging():
            note_tr("The running server is not used: {reason}.", reason=reason_text(why))
    if connection is None:
        return open_library(folder, settings)
    return ServedLibrary(folder, settings, *connection)


def running(
    folder: Location, settings: Settings
) -> tuple[tuple[RunningServer, Setup], None] | tuple[None, Why | None]:
    """A server of this user that answers for the library as this process would, or why none does.

    No reason where none is running.
    """
    if not isinstance(folder, Path):  # servers know folders only
        return None, None
    place = server_folder()
    try:
        entries = endpoints(place)
        token = known_token(place / "token") if entries else None
    except PermissionError:
        return None, "open"
    except ConfigError:  # of the token: `serve` says it
        return None, "unproven"
    if not entries or token is None:
        return None, None
    if isinstance(settings.llm, OpenAISettings):
        from localrag.hosted import is_hosted

        if is_hosted(settings):  # each run confirms what goes there
            return None, "hosted"
    from localrag.server.client import GoneError, RunningServer, UnprovenError
    from localrag.server.setups import setup_of

    setup = setup_of(settings, folder.expanduser())
    why: Why | None = None
    for entry in entries:
        server = RunningServer(entry, token)
        try:
            why = server.difference(setup)
        except UnprovenError:
            why = "unproven"
        except GoneError:
            continue
        if why is None:
            return (server, setup), None
    return None, why


def reason_text(why: Why) -> str:
    """Why a server is not used."""
    return tr(_REASONS[why], folder=server_folder())


class ServedLibrary:
    """Asks the server; once that has gone, this process does the work."""

    def __init__(
        self, folder: Location, settings: Settings, server: RunningServer, setup: Setup
    ) -> None:
        self.settings = settings
        self._folder = folder
        self._server: RunningServer | None = server
        self._setup = setup
        self._hearing = NotesOnce(note).hearing

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if "_here" in self.__dict__:
            self._here.close()

    @cached_property
    def _here(self) -> LocalRAG:
        return open_library(self._folder, self.settings)

    def search(self, question: str, *, on_step: OnStep, **asked: Any) -> list[ScoredChunk]:
        """As `LocalRAG.search`."""
        steps: list[Step] = []
        call = asked | {"retrieval": asked["mode"], "mode": None}
        hits = self._result("search", question, steps.append, **call)
        if hits is None:
            return self._here.search(question, on_step=on_step, **asked)
        for step in steps:
            self._hearing(on_step)(step)
        return hits  # type: ignore[no-any-return]

    def stream(
        self, question: str, *, on_step: OnStep, **asked: Unpack[Asking]
    ) -> Iterator[str | Answer]:
        """As `LocalRAG.stream`. Raises `BackendError` where the server goes in mid-answer."""
        from localrag.server.client import GoneError

        written = False
        try:
            with closing(self._events("ask", question, self._hearing(on_step), **asked)) as pieces:
                for piece in pieces:
                    written = True
                    yield piece
        except GoneError as error:
            if written:
                raise BackendError(
                    "The running server ended before the answer did.",
                    hint="Ask again: without a server the command answers by itself.",
                ) from error
            yield from self._here.stream(question, on_step=on_step, **asked)

    def ask(self, question: str, **asked: Unpack[Asking]) -> Answer:
        """As `LocalRAG.ask`."""
        answer = self._result("ask", question, self._hearing(_ignore_step), **asked)
        return self._here.ask(question, **asked) if answer is None else answer

    def standalone(self, question: str, history: Sequence[Turn]) -> str:
        """As `LocalRAG.standalone`."""
        searched = self._result("standalone", question, _ignore_step, history=history)
        return self._here.standalone(question, history) if searched is None else searched

    def _result(self, what: What, question: str, on_step: OnStep, **options: Any) -> Any:
        """What comes last of all that is told; None where the server gives none."""
        from localrag.server.client import GoneError

        with suppress(GoneError):
            *_, result = self._events(what, question, on_step, **options)
            return result
        return None

    def _events(self, what: What, question: str, on_step: OnStep, **options: Any) -> Generator[Any]:
        """Text as it is written, then the result. Raises `GoneError`, also ever after."""
        from localrag.server.calls import Call, CallResult, StepDone, TextEvent, WaitingEvent
        from localrag.server.client import GoneError

        if self._server is None:
            raise GoneError("gone")
        if (restriction := options.get("filter")) is not None:
            options["filter"] = restriction.anywhere()
        options["history"] = [(turn.question, turn.answer) for turn in options.get("history", ())]
        call = Call(what=what, setup=self._setup, question=question, **options)
        try:
            with closing(self._server.told(call)) as events:
                for event in events:
                    if isinstance(event, StepDone):
                        on_step(event.step)
                    elif isinstance(event, TextEvent):
                        yield event.text
                    elif isinstance(event, CallResult):
                        yield event.value
                    elif isinstance(event, WaitingEvent):
                        _note_waiting(event)
        except GoneError:
            self._server = None
            if _is_debugging():
                note_tr("The running server gave no result; the command does it by itself.")
            raise


def _ignore_step(_: Step) -> None:
    """Tell nobody."""


def _note_waiting(event: WaitingEvent) -> None:
    note_tr(
        "Waiting for the server: {position} before you, about {seconds} s.",
        position=event.position,
        seconds=round(event.seconds),
    )


def _is_debugging() -> bool:
    context = click.get_current_context(silent=True)
    return bool(context and context.find_root().params.get("debug"))
