"""Blocking work for an event loop: in a thread, ended when nobody listens."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from contextvars import copy_context
from dataclasses import replace
from typing import Any, TypeVar

import anyio
from starlette.requests import Request

from localrag.engine import AskOptions, Engine
from localrag.errors import StoppedError
from localrag.rag.base import Piece
from localrag.server.naming import told

T = TypeVar("T")


@asynccontextmanager
async def working(
    work: Callable[[Callable[[T], None]], object], stopped: threading.Event | None = None
) -> AsyncIterator[AsyncIterator[T]]:
    """What `work` tells in a thread of its own; leaving the block stops it and waits for it.

    Then `stopped` is set, and telling raises `StoppedError`. The iterator raises what `work` does.
    """
    loop, left = asyncio.get_running_loop(), threading.Event()
    send, receive = anyio.create_memory_object_stream[T](math.inf)

    def tell(piece: T) -> None:
        if left.is_set():
            raise StoppedError("Nobody listens any more.")
        loop.call_soon_threadsafe(send.send_nowait, piece)

    def run() -> None:
        try:
            work(tell)
        except StoppedError:
            if not left.is_set():
                raise
        finally:
            loop.call_soon_threadsafe(send.close)

    # Who asks goes along: a thread does not know by itself.
    running = loop.run_in_executor(None, copy_context().run, run)

    async def told() -> AsyncIterator[T]:
        async for piece in receive:
            yield piece
        await running  # for what it raised

    try:
        yield told()
    finally:
        left.set()
        if stopped is not None:
            stopped.set()
        try:
            with anyio.CancelScope(shield=True):
                await asyncio.wait([running])
        finally:  # also where the loop ends
            send.close()
            receive.close()


@asynccontextmanager
async def asking(
    engine: Engine, question: str, options: AskOptions
) -> AsyncIterator[AsyncIterator[Piece]]:
    """The pieces of an answer as they come; left, the model lets go within half a second.

    The iterator raises what `Engine.stream` raises.
    """
    stopped = threading.Event()

    def ask(tell: Callable[[Piece], None]) -> None:
        for piece in engine.stream(question, replace(options, stopped=stopped)):
            tell(told(piece))

    async with working(ask, stopped) as pieces:
        yield pieces


async def while_heard(request: Request, work: Coroutine[Any, Any, T]) -> T | None:
    """What `work` returns, or None where the client has left, which cancels it.

    The body of the request must have been read. Raises what `work` does.
    """
    task, left = asyncio.ensure_future(work), asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait((task, left), return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        task.cancel()
        left.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait((task, left))


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
