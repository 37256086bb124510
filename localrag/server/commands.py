"""What running commands of the same user are answered, on a way of their own.

`localrag.server.endpoint` says where that is; no browser and no other client comes there.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable
from dataclasses import astuple, dataclass, replace
from functools import partial

import anyio
import msgspec
from sse_starlette import ServerSentEvent
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Scope

from localrag import __version__
from localrag.engine import AskOptions, Engine
from localrag.errors import LocalragError, UsageError
from localrag.library.catalogue.filters import Filter
from localrag.rag.base import Piece
from localrag.rag.conversation import Turn
from localrag.server.access import UNKNOWN, Access, Gate, Refusal
from localrag.server.calls import (
    CALL,
    HELLO,
    Call,
    CallEvent,
    CallResult,
    FailedCall,
    Hello,
    StepDone,
    TextEvent,
    WaitingEvent,
)
from localrag.server.client import HOST
from localrag.server.endpoint import ServerEntry
from localrag.server.jobs import Send, streamed
from localrag.server.libraries import Libraries
from localrag.server.queue import FullError, ModelQueue
from localrag.server.replies import ON_ERROR, EventStream, decoded, reply
from localrag.server.requests import RequestLog
from localrag.server.running import asking, working
from localrag.server.searching import search_in_turn
from localrag.types import Statement, Step

_log = logging.getLogger(__name__)

_NONCE = re.compile(r"[0-9a-f]{32}")


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
        call = await decoded(request, Call)
        served = await anyio.to_thread.run_sync(self.libraries.match, call.setup)
        if not isinstance(served, Engine):
            return reply(served, 409)
        if call.what == "compare":
            return Response()
        return EventStream(streamed(partial(self._work, served, call), _error_events))

    async def _work(self, engine: Engine, call: Call, send: Send) -> None:
        async def tell(event: CallEvent) -> None:
            await send(_encode_event(event))

        async def wait(position: int, seconds: float) -> None:
            await tell(WaitingEvent(position, seconds))

        def understand(say: Callable[[str], None]) -> None:
            say(engine.standalone(call.question, options.history, options))

        stopped = threading.Event()
        options = replace(_options(call), stopped=stopped)
        if call.what == "search":
            hits, steps = await search_in_turn(self.queue, engine, call.question, options, wait)
            for step in steps:
                await tell(StepDone(step))
            await tell(CallResult(hits))
            return
        async with self.queue.turn(wait):
            if call.what == "ask":
                async with asking(engine, call.question, options) as pieces:
                    async for piece in pieces:
                        await tell(_event(piece))
                return
            async with working(understand, stopped) as understood:
                async for question in understood:
                    await tell(CallResult(question))


def _error_events(error: Exception) -> list[ServerSentEvent]:
    """The command finds out why, in its own words."""
    if not isinstance(error, LocalragError | FullError):
        _log.error("A command failed.", exc_info=error)
    return [_encode_event(FailedCall())]


def _encode_event(event: CallEvent) -> ServerSentEvent:
    return ServerSentEvent(msgspec.json.encode(event, enc_hook=_encode_number).decode())


def _encode_number(value: object) -> object:
    """A number of NumPy's as Python's."""
    if isinstance(value, float):
        return float(value)
    raise TypeError(f"{type(value).__name__} cannot be sent")


def _options(call: Call) -> AskOptions:
    values = {name: getattr(call, name) for name in call.__struct_fields__}
    del values["what"], values["setup"], values["question"]
    values["history"] = [Turn(*turn) for turn in call.history]
    values["filter"] = call.filter and Filter(*astuple(call.filter))  # which equal others
    return AskOptions(**values, paths=True)


def _event(piece: Piece) -> CallEvent:
    if isinstance(piece, Statement):
        return TextEvent(piece.written)
    return StepDone(piece) if isinstance(piece, Step) else CallResult(piece)
