"""Work that is told as events: one stream for each client, and ended with it."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

import anyio
from sse_starlette import ServerSentEvent

from localrag.messages import InterfaceLanguage
from localrag.server.asker import until_barred
from localrag.server.queue import OnWait, Turns
from localrag.server.replies import error_body, event
from localrag.server.running import working

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
    """What long work in a thread has in hand; `stopped` is set once nobody listens any more."""

    tell: Callable[[ServerSentEvent], None]
    stopped: threading.Event
    give_way: Callable[[], None]
    """Lets those who wait for the language model go first; to be called between two steps."""

    def say(self, kind: str, /, **values: object) -> None:
        """Tell an event. Raises `StoppedError` once nobody listens."""
        self.tell(event(kind, values))


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

        async with working(run, stopped) as told:
            yield told


def worked(
    turns: Turns, work: Callable[[BackgroundJob], object], language: InterfaceLanguage
) -> AsyncIterator[ServerSentEvent]:
    """What work tells that takes turns with others, when it is its own. Event before: waiting."""

    async def produce(send: Send) -> None:
        async def wait(position: int, seconds: float) -> None:
            await send(event("waiting", {"position": position, "seconds": round(seconds)}))

        def run(
            tell: Callable[[ServerSentEvent], None],
            stopped: threading.Event,
            give_way: Callable[[], None],
        ) -> None:
            work(BackgroundJob(tell, stopped, give_way))

        async with taking_turns(turns, wait, run) as told:
            async for message in told:
                await send(message)

    return streamed(produce, as_event(language))
