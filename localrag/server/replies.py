"""Requests decoded against their records, replies as JSON, errors in the protocol's own form."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from sse_starlette import ServerSentEvent
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from localrag.errors import (
    ConfigError,
    ContextOverflowError,
    LibraryLockedError,
    LibraryNotFoundError,
    LocalragError,
    ModelError,
    NetworkBlockedError,
    UsageError,
)
from localrag.messages import InterfaceLanguage, spoken
from localrag.server.access import TooMuchError
from localrag.server.naming import without_paths
from localrag.server.queue import FullError

T = TypeVar("T")

_log = logging.getLogger(__name__)

_STATUS: tuple[tuple[type[LocalragError], int], ...] = (
    (LibraryNotFoundError, 404),
    (LibraryLockedError, 409),
    (UsageError, 400),
    (ContextOverflowError, 400),
    (NetworkBlockedError, 403),
    (ModelError, 503),
    (ConfigError, 503),
)


PING = 10
"""Seconds between signs of life in a stream of events."""


def event(name: str, data: Mapping[str, Any]) -> ServerSentEvent:
    """One event of a stream."""
    return ServerSentEvent(json.dumps(data, ensure_ascii=False), event=name)


def reply(data: object, status: int = 200) -> Response:
    """JSON."""
    return Response(msgspec.json.encode(data), status, media_type="application/json")


async def decoded(request: Request, kind: type[T]) -> T:
    """The body as that record. Raises `UsageError` for anything else."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != "application/json":  # what a form of a foreign page cannot send
        raise UsageError(
            "The body is {media}, not JSON.",
            hint="Send it with Content-Type: application/json.",
            media=media or "?",
        )
    try:
        return msgspec.json.decode(await request.body(), type=kind)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise UsageError(
            "The request cannot be read: {reason}.",
            hint="See the documentation for its fields.",
            reason=error,
        ) from error


def number(asked: Mapping[str, str], name: str) -> int:
    """A number of the query, such as an offset. Raises `UsageError` for anything else."""
    given = asked.get(name, "")
    if not (given.isascii() and given.isdigit() and len(given) < 16):
        raise UsageError("{name} is not a number.", hint="Leave it out.", name=name)
    return int(given)


def error_body(
    error: Exception, language: InterfaceLanguage = "en"
) -> tuple[int, dict[str, Any], dict[str, str]]:
    """Status, body and headers for an error; what is no error of ours keeps its text to itself."""
    headers = {}
    if isinstance(error, FullError):
        status, text, kind = 429, "Too many are waiting for the language model.", "rate_limit_error"
        headers["retry-after"] = str(error.retry_after)
    elif isinstance(error, TooMuchError):
        status, text, kind = error.status, error.reason, "invalid_request_error"
    elif isinstance(error, LocalragError):
        status = next((code for kind_, code in _STATUS if isinstance(error, kind_)), 500)
        text, kind = spoken(without_paths(error), language), type(error).__name__
    else:
        _log.error("A request failed.", exc_info=error)
        status, text, kind = 500, "An internal error; the log has more.", "internal_error"
    return status, {"error": {"message": text, "type": kind, "code": status}}, headers


def preferred(request: Request) -> InterfaceLanguage:
    """The language that a client asks for; English where it says nothing."""
    asked = request.headers.get("accept-language", "").lower()
    chinese, english = asked.find("zh"), asked.find("en")
    return "zh" if chinese >= 0 and (english < 0 or chinese < english) else "en"


async def on_error(request: Request, error: Exception) -> Response:
    """The reply to a request that failed."""
    status, body, headers = error_body(error, preferred(request))
    response = reply(body, status)
    response.headers.update(headers)
    return response


async def _on_departure(_: Request, __: Exception) -> Response:
    """For a client that left before it had sent all; nobody reads it."""
    return Response(status_code=400)


ON_ERROR: Mapping[Any, Any] = {
    **dict.fromkeys((LocalragError, FullError, TooMuchError), on_error),
    ClientDisconnect: _on_departure,
}
"""What an application answers to what its routes raise."""
