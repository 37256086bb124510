"""First come, first served: a language model, and a line of those who wait for it."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager

import anyio

MOST_WAITING = 32
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


class ModelQueue:
    """Turns at the language model. For one event loop; whoever is cancelled loses their place.

    The first `width` of the line are served at once.
    """

    def __init__(self, width: int = 1, most_waiting: int = MOST_WAITING) -> None:
        self.width = width
        self._most = most_waiting
        self._line: deque[anyio.Event] = deque()
        self._moved = anyio.Event()
        self._mean: float | None = None
        self._begun: dict[anyio.Event, float] = {}

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
        async with AsyncExitStack() as held:
            mine = await held.enter_async_context(self.turn(on_wait, counts=False))

            async def give_way() -> None:
                nonlocal mine
                self._begun[mine] = time.monotonic()
                if self.waiting:
                    await held.aclose()
                    mine = await held.enter_async_context(self.turn(on_wait, counts=False))

            yield give_way

    @asynccontextmanager
    async def turn(
        self, on_wait: OnWait = unheard, *, counts: bool = True
    ) -> AsyncIterator[anyio.Event]:
        """Wait for one's turn, and hold it; `on_wait` hears position and seconds as they change.

        What it took `counts` for the seconds that others are told. Raises `FullError` at once
        where too many wait already.
        """
        self.expect_room()
        mine = anyio.Event()
        self._line.append(mine)
        try:
            while (position := self._line.index(mine) - self.width + 1) > 0:
                moved = self._moved
                await on_wait(position, self.expected(position))
                await moved.wait()
            self._begun[mine] = time.monotonic()
            yield mine
            took = time.monotonic() - self._begun[mine]  # one that was given up says nothing
            if counts:
                mean = took if self._mean is None else self._mean
                self._mean = mean + _WEIGHT * (took - mean)
        finally:
            self._line.remove(mine)
            self._begun.pop(mine, None)
            self._moved.set()
            self._moved = anyio.Event()

    def expect_room(self) -> None:
        """Raises `FullError` where `turn` would."""
        if self.waiting >= self._most:
            raise FullError(math.ceil(self.expected(self.waiting + 1)))
