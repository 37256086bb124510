"""An engine's blocking work for an event loop: in a thread, ended when nobody listens."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import anyio

from localrag.engine import AskOptions, Engine
from localrag.errors import StoppedError
from localrag.rag.base import Piece


@asynccontextmanager
async def asking(
    engine: Engine, question: str, options: AskOptions
) -> AsyncIterator[AsyncIterator[Piece]]:
    """The pieces of an answer as they come; leaving the block stops the model and waits for it.

    The iterator raises what `Engine.stream` raises.
    """
    loop, stopped = asyncio.get_running_loop(), threading.Event()
    send, receive = anyio.create_memory_object_stream[Piece](math.inf)

    def work() -> None:
        try:
            for piece in engine.stream(question, replace(options, stopped=stopped)):
                loop.call_soon_threadsafe(send.send_nowait, piece)
        except StoppedError:
            pass
        finally:
            loop.call_soon_threadsafe(send.close)

    working = loop.run_in_executor(None, work)

    async def pieces() -> AsyncIterator[Piece]:
        async for piece in receive:
            yield piece
        await working  # for what it raised

    try:
        yield pieces()
    finally:
        stopped.set()
        with anyio.CancelScope(shield=True):  # the model lets go within half a second
            await asyncio.wait([working])
        receive.close()
