"""Work that is told as events: one stream for each client, and ended with it."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import anyio
from sse_starlette import ServerSentEvent
from starlette.requests import Request

from localrag.engine import Engine
from localrag.library.acting import Action
from localrag.messages import InterfaceLanguage, spoken_to
from localrag.presentation.places import cited_as
from localrag.presentation.records import plain
from localrag.server.asker import preferred, recorded, until_barred
from localrag.server.libraries import Libraries
from localrag.server.naming import Naming
from localrag.server.queue import ModelQueue, OnWait, Turns
from localrag.server.replies import EventStream, error_body, event
from localrag.server.routing import Routes
from localrag.server.running import working
from localrag.server.views import view_of
from localrag.types import Citation

T = TypeVar("T")

Send = Callable[[ServerSentEvent], Awaitable[object]]


async def streamed(
    produce: Callable[[Callable[[T], Awaitable[object]]], Awaitable[None]],
    fail: Callable[[Exception], Iterable[T]],
) -> AsyncGenerator[T, None]:
    """What `produce` sends; where it fails, what `fail` makes of the error comes last.

    So it does where who asks loses a right meanwhile, and nothing more is produced. `produce`
    waits for nobody: it may hold the language model, for which others wait, while its client does
    not read. What piles up is no more than one piece of work has to tell.
    """
    send, receive = anyio.create_memory_object_stream[T](math.inf)

    async def work() -> None:
        async with send:
            try:
                await until_barred(produce(send.send))
            except Exception as error:  # told in the stream: its status has been sent
                for message in fail(error):
                    await send.send(message)

    async with receive, anyio.create_task_group() as group:
        group.start_soon(work)
        try:
            async for part in receive:
                yield part
        except GeneratorExit:  # who asked is gone, and it ends once the work has
            group.cancel_scope.cancel()


def as_event(language: InterfaceLanguage) -> Callable[[Exception], list[ServerSentEvent]]:
    """An error as the page is told it."""
    return lambda error: [event("error", error_body(error, language)[1]["error"])]


@dataclass(frozen=True, slots=True)
class BackgroundJob:
    """What long work in a thread has in hand, and how it tells of a library: files by their names.

    `stopped` is set once nobody listens any more, and from the beginning for work that is to show
    only what is kept.
    """

    engine: Engine
    library: str
    naming: Naming
    language: InterfaceLanguage
    tell: Callable[[ServerSentEvent], None]
    stopped: threading.Event
    give_way: Callable[[], None]
    """Lets those who wait for the language model go first; to be called between two steps."""
    notes: list[str] = field(default_factory=list)

    def say(self, kind: str, /, **values: object) -> None:
        """Tell an event. Raises `StoppedError` once nobody listens."""
        self.tell(event(kind, values))

    def say_loading(self) -> None:
        """Tell that models are read first, if they are and the work needs them."""
        if not (self.stopped.is_set() or self.engine.is_ready):
            self.say("loading")

    def note(self, text: str) -> None:
        """Tell a note, the first alone: what follows it says the same."""
        if not self.notes:
            self.notes.append(text)
            self.say("note", text=text)

    def citation(self, citation: Citation, document: str, source: str) -> dict[str, Any]:
        """A quotation of the document of that id, whose path is `source`."""
        named = replace(citation, source=self.naming.of(source))
        return {
            "cited": cited_as(named, self.language),
            "quote": citation.quote,
            "view": plain(view_of(self.library, document, citation)),
        }


@asynccontextmanager
async def taking_turns(
    turns: Turns,
    wait: OnWait,
    work: Callable[[Callable[[T], None], threading.Event, Callable[[], None]], object],
) -> AsyncIterator[AsyncIterator[T]]:
    """What `work` tells in a thread of its own, once it is its turn; leaving the block stops it.

    It gets what it tells with, what is set once nobody listens any more, and what lets others go
    first, to be called between two steps.
    """
    loop, stopped = asyncio.get_running_loop(), threading.Event()
    async with turns.lease(wait) as give_way:

        def between() -> None:
            asyncio.run_coroutine_threadsafe(give_way(), loop).result()

        def run(tell: Callable[[T], None]) -> None:
            work(tell, stopped, between)

        async with working(run, stopped) as pieces:
            yield pieces


@dataclass(frozen=True, slots=True)
class WorkRoutes(Routes):
    """Routes of long work on libraries that takes turns with others."""

    libraries: Libraries
    queue: ModelQueue

    async def stream(
        self,
        request: Request,
        library: str,
        action: Action,
        words: str,
        work: Callable[[BackgroundJob], object],
        *,
        kept_only: bool = False,
    ) -> EventStream:
        """What work on a library tells, when it is its turn. Event before: waiting.

        It is recorded with the words that it is about. With `kept_only` it needs no language model.
        """
        library, language = self.libraries.named(library), preferred(request)
        engine, naming = self.libraries.engine(library), self.libraries.naming(library)
        turns = self.queue.processors if kept_only else self.queue
        turns.expect_room()
        await recorded(library, action, words)

        async def produce(send: Send) -> None:
            async def wait(position: int, seconds: float) -> None:
                await send(event("waiting", {"position": position, "seconds": round(seconds)}))

            def run(
                tell: Callable[[ServerSentEvent], None],
                stopped: threading.Event,
                give_way: Callable[[], None],
            ) -> None:
                if kept_only:
                    stopped = threading.Event()
                    stopped.set()
                with spoken_to(language):
                    work(BackgroundJob(engine, library, naming, language, tell, stopped, give_way))

            async with taking_turns(turns, wait, run) as messages:
                async for message in messages:
                    await send(message)

        return EventStream(streamed(produce, as_event(language)))
