"""What a command asks a running server of the same user, and what it is told. Imports little."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import msgspec

from localrag.library.catalogue.filters import Filter
from localrag.server.setups import Setup
from localrag.types import Answer, ScoredChunk, Step

HELLO, CALL = "/hello", "/call"
"""Paths of the two routes."""
PING = 10
"""Seconds between signs of life in a stream of events."""


What = Literal["compare", "ask", "search", "standalone"]


class Hello(msgspec.Struct):
    """Who a server is: its version, and the proof that it knows the token (`endpoint.proof`)."""

    version: str
    proof: str


@dataclass(frozen=True, slots=True)
class SentFilter(Filter):
    """A `Filter` whose days have become moments; see `Filter.anywhere`."""

    since: datetime | None = None
    until: datetime | None = None


class Call(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A question with all that comes with it (`AskOptions`); `what`: only the setup is compared."""

    what: What
    setup: Setup
    question: str = ""
    k: int | None = None
    mode: str | None = None
    strict: bool | None = None
    budget: float | None = None
    rerank: str | None = None
    expand: str | None = None
    retrieval: str | None = None
    filter: SentFilter | None = None
    history: list[tuple[str, str]] = []
    """Question and answer of each turn before."""


class CallEvent(msgspec.Struct, tag=True):
    """Something that is told while a call is worked on; the last is the result."""


class WaitingEvent(CallEvent, tag="Waiting"):
    """So many are before this one, for about so many seconds."""

    position: int
    seconds: float


class TextEvent(CallEvent, tag="Text"):
    """Of the answer, as it is written."""

    text: str


class StepDone(CallEvent):
    """A step as it is done."""

    step: Step


class CallResult(CallEvent):
    """An answer, what a search found, or a question as it is understood."""

    value: Answer | list[ScoredChunk] | str


class FailedCall(CallEvent, tag="Failed"):
    """There is no result; the caller finds out why by doing it."""


Told = WaitingEvent | TextEvent | StepDone | CallResult | FailedCall
