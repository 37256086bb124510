"""What running commands of the same user are answered, on a way of their own.

`localrag.server.endpoint` says where that is; no browser and no other client comes there.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, replace
from typing import Any

import anyio
import msgspec
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from localrag import __version__
from localrag.config.settings import LLMReranking
from localrag.engine import AskOptions, Engine
from localrag.errors import LocalragError, UsageError
from localrag.rag.base import Piece
from localrag.rag.conversation import Turn
from localrag.server.access import UNKNOWN, Access, Gate, Refusal
from localrag.server.calls import (
    CALL,
    HELLO,
    PULSE,
    Alive,
    AnswerEvent,
    Call,
    CallEvent,
    FailedCall,
    Hello,
    SearchEvent,
    StepDone,
    TextEvent,
    Understood,
    WaitingEvent,
    framed,
)
from localrag.server.client import HOST
from localrag.server.endpoint import ServerEntry
from localrag.server.jobs import streamed
from localrag.server.libraries import Libraries
from localrag.server.queue import FullError, ModelQueue
from localrag.server.replies import ON_ERROR, reply
from localrag.server.requests import RequestLog
from localrag.server.running import asking, working
from localrag.types import Statement, Step

_log = logging.getLogger(__name__)

_NONCE = re.compile(r"[0-9a-f]{32}")

Tell = Callable[[CallEvent], Any]
"""Awaited with each event."""


def command_app(
    libraries: Libraries,
    queue: ModelQueue,
    endpoint: ServerEntry,
    token: str,
    tell: Callable[[str], object] = lambda _: None,
) -> ASGIApp:
    """The ASGI application that listens at `endpoint`, beside that of `make_app`.

    `tell` gets a line for each request.
    """
    commands = Commands(libraries, queue, endpoint, token)
    app = Starlette(
        routes=[Route(HELLO, commands.hello), Route(CALL, commands.call, methods=["POST"])],
        exception_handlers=ON_ERROR,
    )
    return RequestLog(Gate(app, CommandAccess(token, 0)), app.routes, tell)


class CommandAccess(Access):
    """Whoever brings the token, calling the server as commands do."""

    def refusal(self, scope: Scope, headers: Headers) -> Refusal | None:
        """Status and reason, None for a request that is to be answered."""
        if headers.getlist("host") != [HOST]:
            return 421, UsageError("Only commands are answered here.")
        if scope["path"] == HELLO or self._is_known(headers):
            return None
        return UNKNOWN


@dataclass(frozen=True, slots=True)
class Commands:
    """The two routes."""

    libraries: Libraries
    queue: ModelQueue
    endpoint: ServerEntry
    token: str

    async def hello(self, request: Request) -> Response:
        """The proof that this is the server which the caller is looking for."""
        nonce = request.query_params.get("nonce", "")
        if not _NONCE.fullmatch(nonce):
            return Response(status_code=400)
        return reply(Hello(__version__, self.endpoint.proof(self.token, nonce, __version__)))

    async def call(self, request: Request) -> Response:
        """What the call asks for, as a stream of events; 409 for a setup that is not served."""
        try:
            call = msgspec.msgpack.decode(await request.body(), type=Call)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise UsageError(
                "The request cannot be read: {reason}.",
                hint="See the documentation for its fields.",
                reason=error,
            ) from error
        served = await anyio.to_thread.run_sync(self.libraries.match, call.setup)
        if not isinstance(served, Engine):
            return reply(served, 409)
        if call.what == "compare":
            return Response()
        return _Stream(lambda tell: self._work(served, call, tell))

    async def _work(self, engine: Engine, call: Call, tell: Tell) -> None:
        stopped = threading.Event()
        self.queue.came.set()  # also for a search, which takes no place
        options = replace(_options(call), stopped=stopped)

        async def wait(position: int, seconds: float) -> None:
            await tell(WaitingEvent(position, seconds))

        def search(say: Callable[[CallEvent], None]) -> None:
            hits = engine.search(call.question, options, lambda step: say(StepDone(step)))
            say(SearchEvent(hits))

        def understand(say: Callable[[CallEvent], None]) -> None:
            history = options.history
            say(Understood(engine.standalone(call.question, history, options)))

        async with AsyncExitStack() as stack:
            if _needs_model(engine, call, options):
                await stack.enter_async_context(self.queue.turn(wait))
            if call.what == "ask":
                pieces = await stack.enter_async_context(asking(engine, call.question, options))
                async for piece in pieces:
                    await tell(_event(piece))
                return
            work = search if call.what == "search" else understand
            events = await stack.enter_async_context(working(work, stopped))
            async for event in events:
                await tell(event)


class _Stream(Response):
    """Sends what its work tells, and a sign of life in between; who leaves stops the work."""

    def __init__(self, work: Callable[[Tell], Any]) -> None:
        super().__init__(media_type="application/octet-stream")
        del self.headers["content-length"]
        self._work = work

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send it."""
        lock = anyio.Lock()

        async def tell(event: CallEvent) -> None:
            async with lock:
                body = {"type": "http.response.body", "body": framed(event), "more_body": True}
                await send(body)

        async def leave() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            group.cancel_scope.cancel()

        async def live() -> None:
            while True:
                await anyio.sleep(PULSE)
                await tell(Alive())

        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        async with anyio.create_task_group() as group:
            group.start_soon(leave)
            group.start_soon(live)
            async with aclosing(streamed(self._work, _failed)) as events:
                async for event in events:
                    await tell(event)
            group.cancel_scope.cancel()
        await send({"type": "http.response.body", "body": b""})


def _failed(error: Exception) -> list[CallEvent]:
    """The command finds out why, in its own words."""
    if not isinstance(error, LocalragError | FullError):
        _log.error("A command failed.", exc_info=error)
    return [FailedCall()]


def _options(call: Call) -> AskOptions:
    return AskOptions(
        k=call.k,
        mode=call.mode,
        strict=call.strict,
        budget=call.budget,
        rerank=call.rerank,
        expand=call.expand,
        retrieval=call.retrieval,
        filter=call.filter.filter if call.filter else None,
        history=[Turn(*turn) for turn in call.history],
        paths=True,
    )


def _needs_model(engine: Engine, call: Call, options: AskOptions) -> bool:
    """Whether the language model is asked, for which one waits in line."""
    if call.what != "search":
        return True
    expands = options.expand not in (None, "none")
    return expands or isinstance(engine.applied(options).reranker, LLMReranking)


def _event(piece: Piece) -> CallEvent:
    match piece:
        case Statement():
            return TextEvent(piece.written)
        case Step():
            return StepDone(piece)
        case _:
            return AnswerEvent(piece)
