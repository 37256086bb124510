"""What a command asks a running server of the same user, and what it is told. Imports little."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Literal

import msgspec

from localrag.languages import LanguageCode
from localrag.library.catalogue.filters import Filter
from localrag.server.setups import Setup
from localrag.types import Answer, ScoredChunk, Step

HELLO, CALL = "/hello", "/call"
"""Paths of the two routes."""
PULSE = 5.0
"""Seconds after which a server that has nothing to tell says that it is still there."""
HEAD = 4
"""Bytes that say how long the event after them is."""
LARGEST_EVENT = 256 * 2**20


What = Literal["compare", "ask", "search", "standalone"]


class Hello(msgspec.Struct):
    """Who a server is: its version, and the proof that it knows the token (`endpoint.proof`)."""

    version: str
    proof: str


class Wanted(msgspec.Struct):
    """A `Filter` whose moments are no longer days; see `Filter.anywhere`."""

    sources: tuple[str, ...]
    types: tuple[str, ...]
    path: str
    language: LanguageCode | None
    since: datetime | None
    until: datetime | None
    pages: tuple[int, int | None] | None
    without: frozenset[str]
    within: frozenset[str] | None

    @property
    def filter(self) -> Filter:
        """As the engine takes it."""
        return Filter(**msgspec.structs.asdict(self))


def wanted(given: Filter | None) -> Wanted | None:
    """A filter on its way; none where it asks for nothing."""
    if given is None or given == Filter():
        return None
    filter_ = given.anywhere()
    return msgspec.convert(
        {name: getattr(filter_, name) for name in Wanted.__struct_fields__}, Wanted
    )


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
    filter: Wanted | None = None
    history: list[tuple[str, str]] = []
    """Question and answer of each turn before."""


class CallEvent(msgspec.Struct, tag=True):
    """Something that is told while a call is worked on; the last is the result."""


class Alive(CallEvent):
    """Nothing yet."""


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


class AnswerEvent(CallEvent, tag="Answered"):
    """The result of "ask"."""

    answer: Answer


class SearchEvent(CallEvent, tag="Found"):
    """The result of "search"."""

    hits: list[ScoredChunk]


class Understood(CallEvent):
    """The result of "standalone"."""

    question: str


class FailedCall(CallEvent, tag="Failed"):
    """There is no result; the caller finds out why by doing it."""


Told = (
    Alive
    | WaitingEvent
    | TextEvent
    | StepDone
    | AnswerEvent
    | SearchEvent
    | Understood
    | FailedCall
)

_decoder = msgspec.msgpack.Decoder(Told)


def framed(event: CallEvent) -> bytes:
    """An event with its length before it."""
    data = msgspec.msgpack.encode(event, enc_hook=_plain)
    return len(data).to_bytes(HEAD) + data


def next_event(read: Callable[[int], bytes]) -> Told:
    """The next event of a stream. Raises ValueError for what is none."""
    size = int.from_bytes(read(HEAD))
    if not 0 < size <= LARGEST_EVENT:
        raise ValueError(f"an event of {size} bytes")
    event: Told = _decoder.decode(read(size))
    return event


def _plain(value: object) -> object:
    """A number of NumPy's as Python's."""
    if isinstance(value, float):
        return float(value)
    raise TypeError(f"{type(value).__name__} cannot be sent")
