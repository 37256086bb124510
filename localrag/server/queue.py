"""A language model, the processors, and the lines of those who wait for them.

First come, first served, but for those who share a server: their turns alternate, and nobody has
more of a line than a share of it. So who asks for much waits for themselves.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import anyio

from localrag.server.asker import own_name

MOST_WAITING = 32
MOST_SEARCHES = 256
"""Which are short."""
SHARES = 4
"""A user's part of a line is no more than one of so many."""
_FIRST_GUESS = 15.0
"""Seconds of an answer, before there was one."""
_WEIGHT = 0.3
"""How much the newest answer counts in the mean."""

OnWait = Callable[[int, float], Awaitable[object]]
"""Hears how many are before one, and the seconds that they are expected to take."""


async def unheard(_: int, __: float) -> None:
    """Tell nobody."""


class FullError(Exception):
    """The line is as long as it may be; `retry_after` in seconds."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(retry_after)
        self.retry_after = retry_after


@dataclass(eq=False, slots=True)
class QueuePlace:
    """A place in a line, of some user; those with a lower `tag` are served before."""

    user: str
    tag: int


class Turns:
    """Turns at something. For one event loop; whoever is cancelled loses their place.

    The first `width` of the line are served at once. Turns of several users alternate as in
    start-time fair queueing (Goyal, Vin and Cheng 1997), each turn counting the same.
    """

    def __init__(self, width: int = 1, most_waiting: int = MOST_WAITING) -> None:
        self.width = width
        self.most_waiting = most_waiting
        self.came = threading.Event()
        """Set, also for other threads, as soon as somebody takes a place."""
        self._line: list[QueuePlace] = []
        self._moved = anyio.Event()
        self._mean: float | None = None
        self._begun: dict[QueuePlace, float] = {}
        self._now = 0
        self._last: dict[str, int] = {}
        """The tag of each user's last place, while it says more than `_now`."""

    @property
    def serving(self) -> int:
        """How many are served."""
        return min(len(self._line), self.width)

    @property
    def waiting(self) -> int:
        """How many wait, besides those who are served."""
        return len(self._line) - self.serving

    def expected(self, position: int) -> float:
        """Seconds until the one at this position is served, 0 being served now."""
        if position <= 0:
            return 0.0
        mean = _FIRST_GUESS if self._mean is None else self._mean
        now = time.monotonic()
        left = sorted(max(0.0, mean - (now - begun)) for begun in self._begun.values())
        rounds, place = divmod(position - 1, self.width)
        return (left[place] if place < len(left) else 0.0) + rounds * mean

    @asynccontextmanager
    async def lease(
        self, on_wait: OnWait = unheard
    ) -> AsyncIterator[Callable[[], Coroutine[None, None, None]]]:
        """A turn for long work, which calls what this gives wherever it can let others go first."""
        async with AsyncExitStack() as stack:
            mine = await stack.enter_async_context(self.turn(on_wait, counts=False))

            async def give_way() -> None:
                nonlocal mine
                self._begun[mine] = time.monotonic()
                if self.waiting:
                    await stack.aclose()
                    mine = await stack.enter_async_context(self.turn(on_wait, counts=False))

            yield give_way

    @asynccontextmanager
    async def turn(
        self, on_wait: OnWait = unheard, *, counts: bool = True
    ) -> AsyncIterator[QueuePlace]:
        """Wait for one's turn, and hold it; `on_wait` hears position and seconds as they change.

        What it took `counts` for the seconds that others are told. Raises `FullError` at once
        where too many wait already, of all users or of this one.
        """
        self.expect_room()
        mine = self._take_place(own_name())
        try:
            while (position := self._line.index(mine) - self.width + 1) > 0:
                moved = self._moved
                await on_wait(position, self.expected(position))
                await moved.wait()
            self._begun[mine] = time.monotonic()
            self._now = max(self._now, mine.tag)
            yield mine
            took = time.monotonic() - self._begun[mine]  # one that was given up says nothing
            if counts:
                mean = took if self._mean is None else self._mean
                self._mean = mean + _WEIGHT * (took - mean)
        finally:
            self._line.remove(mine)
            self._begun.pop(mine, None)
            self._move()

    def expect_room(self) -> None:
        """Raises `FullError` where `turn` would."""
        user = own_name()
        own = sum(place.user == user for place in self._line[self.width :]) if user else 0
        if self.waiting >= self.most_waiting or own >= max(1, self.most_waiting // SHARES):
            raise FullError(math.ceil(self.expected(self.waiting + 1)))

    def _take_place(self, user: str) -> QueuePlace:
        tag = max(self._now, self._last.get(user, self._now - 1) + 1)
        self._last = {name: last for name, last in self._last.items() if last >= self._now}
        self._last[user] = tag
        mine = QueuePlace(user, tag)
        behind = (at for at, place in enumerate(self._line) if at >= self.width and place.tag > tag)
        at = next(behind, len(self._line))
        self._line.insert(at, mine)
        self.came.set()
        if at < len(self._line) - 1:
            self._move()
        return mine

    def _move(self) -> None:
        self._moved.set()
        self._moved = anyio.Event()


class ModelQueue(Turns):
    """Turns at the language model; and beside it, at the processors for what needs no model."""

    def __init__(self, width: int = 1, most_waiting: int = MOST_WAITING) -> None:
        super().__init__(width, most_waiting)
        self.processors = Turns(os.cpu_count() or 1, MOST_SEARCHES)
        """For searches and embedding, which keep a processor busy each."""
        self.processors.came = self.came

    @property
    def is_idle(self) -> bool:
        """Whether nobody is served, nor waits, here or at the processors."""
        return not (self.serving or self.processors.serving)
