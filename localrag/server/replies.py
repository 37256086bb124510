"""Requests decoded against their records, replies as JSON, errors in the protocol's own form."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any, TypeVar

import msgspec
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from localrag.errors import (
    ConfigError,
    ContextOverflowError,
    ForbiddenError,
    LibraryClosedError,
    LibraryLockedError,
    LibraryNotFoundError,
    LibraryUnreachableError,
    LocalragError,
    ModelError,
    NetworkBlockedError,
    RemovedError,
    UsageError,
    UsersBeganError,
)
from localrag.messages import SOURCE, InterfaceLanguage, phrase, spoken
from localrag.server.access import TooMuchError
from localrag.server.asker import preferred
from localrag.server.calls import PING
from localrag.server.listening import GRACE
from localrag.server.naming import without_paths
from localrag.server.queue import FullError

T = TypeVar("T")

_log = logging.getLogger(__name__)

_STATUS: tuple[tuple[type[LocalragError], int, str], ...] = (
    (LibraryNotFoundError, 404, "model_not_found"),
    (ForbiddenError, 403, "not_allowed"),
    (LibraryUnreachableError, 503, "library_unavailable"),
    (UsersBeganError, 503, "library_unavailable"),
    (LibraryClosedError, 423, "vault_closed"),
    (LibraryLockedError, 409, "locked"),
    (RemovedError, 409, "removed"),
    (UsageError, 400, "invalid_request"),
    (ContextOverflowError, 400, "context_length_exceeded"),
    (NetworkBlockedError, 403, "network_blocked"),
    (ModelError, 503, "model_unavailable"),
    (ConfigError, 503, "model_unavailable"),
)
"""Status and code of an error; codes are those of OpenAI's interface, where it has one."""


class EventStream(EventSourceResponse):
    """Events as they come; what is under way when the server ends may go on for `GRACE`."""

    def __init__(self, events: AsyncIterator[ServerSentEvent], sep: str | None = None) -> None:
        super().__init__(events, ping=PING, sep=sep, shutdown_grace_period=GRACE - 1)


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
        raise unreadable(error) from error


def unreadable(reason: Exception) -> UsageError:
    """The error for a request that is not as its record says."""
    return UsageError(
        "The request cannot be read: {reason}.",
        hint="See the documentation for its fields.",
        reason=reason,
    )


def digits(given: str) -> int | None:
    """The number that a text is; None for anything else, and for one of more than 15 digits."""
    return int(given) if given.isascii() and given.isdigit() and len(given) < 16 else None


def number(asked: Mapping[str, str], name: str) -> int:
    """A number of the query, such as an offset. Raises `UsageError` for anything else."""
    value = digits(asked.get(name, ""))
    if value is None:
        raise UsageError("{name} is not a number.", hint="Leave it out.", name=name)
    return value


def no_library(name: str) -> LibraryNotFoundError:
    """What is said of a library that is not served, or of which who asks is not to know."""
    return LibraryNotFoundError("There is no library {name}.", hint="See /v1/models.", name=name)


def error_body(
    error: Exception, language: InterfaceLanguage = SOURCE
) -> tuple[int, dict[str, Any], dict[str, str]]:
    """Status, body and headers for an error; what is no error of ours keeps its text to itself."""
    headers = {}
    if isinstance(error, LibraryNotFoundError) and "database" in error.values:
        error = no_library(str(error.values["name"]))  # a right that has just been taken away
    if isinstance(error, FullError):
        status, code = 429, "rate_limit_exceeded"
        text = phrase("Too many requests are waiting. Try again soon.", language)
        headers["retry-after"] = str(error.retry_after)
    elif isinstance(error, TooMuchError):
        status, text, code = error.status, spoken(error.reason, language), "too_large"
    elif isinstance(error, HTTPException):
        status, code = error.status_code, "unknown_url"
        if status == 404:
            text = phrase("There is nothing at this address.", language)
        elif status == 405:
            text = phrase("This address does not take this method.", language)
        else:
            text = f"{error.detail}."
        headers.update(error.headers or {})
    elif isinstance(error, LocalragError):
        known = ((status, code) for kind, status, code in _STATUS if isinstance(error, kind))
        status, code = next(known, (500, "server_error"))
        public_error = without_paths(error)
        if public_error.message != error.message:
            _log.warning("A request failed: %s", error)
        text = spoken(public_error, language)
    else:
        _log.error("A request failed.", exc_info=error)
        text = phrase("An internal error; the log has more.", language)
        status, code = 500, "server_error"
    kind = "rate_limit_error" if status == 429 else "invalid_request_error"
    kind = kind if status < 500 else "server_error"
    details = {"message": text, "type": kind, "param": None, "code": code}
    return status, {"error": details}, headers


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
    **dict.fromkeys((LocalragError, FullError, TooMuchError, HTTPException, Exception), on_error),
    ClientDisconnect: _on_departure,
}
"""What an application answers to what its routes raise."""
