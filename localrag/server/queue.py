"""First come, first served: one language model, and a line of those who wait for it."""

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
    """Turns at the language model. For one event loop; whoever is cancelled loses their place."""

    def __init__(self, most_waiting: int = MOST_WAITING) -> None:
        self._most = most_waiting
        self._line: deque[anyio.Event] = deque()
        self._moved = anyio.Event()
        self._mean: float | None = None
        self._begun = 0.0

    @property
    def is_busy(self) -> bool:
        """Whether somebody is served."""
        return bool(self._line)

    @property
    def waiting(self) -> int:
        """How many wait, besides the one that is served."""
        return max(0, len(self._line) - 1)

    def expected(self, position: int) -> float:
        """Seconds until the one at this position is served, 0 being served now."""
        if position <= 0:
            return 0.0
        mean = _FIRST_GUESS if self._mean is None else self._mean
        left = max(0.0, mean - (time.monotonic() - self._begun))
        return left + (position - 1) * mean

    @asynccontextmanager
    async def lease(
        self, on_wait: OnWait = unheard
    ) -> AsyncIterator[Callable[[], Coroutine[None, None, None]]]:
        """A turn for long work, which calls what this gives wherever it can let others go first."""
        async with AsyncExitStack() as held:
            await held.enter_async_context(self.turn(on_wait, counts=False))

            async def give_way() -> None:
                self._begun = time.monotonic()
                if self.waiting:
                    await held.aclose()
                    await held.enter_async_context(self.turn(on_wait, counts=False))

            yield give_way

    @asynccontextmanager
    async def turn(self, on_wait: OnWait = unheard, *, counts: bool = True) -> AsyncIterator[None]:
        """Wait for one's turn, and hold it; `on_wait` hears position and seconds as they change.

        What it took `counts` for the seconds that others are told. Raises `FullError` at once
        where too many wait already.
        """
        self.expect_room()
        mine = anyio.Event()
        self._line.append(mine)
        try:
            while self._line[0] is not mine:
                moved = self._moved
                position = self._line.index(mine)
                await on_wait(position, self.expected(position))
                await moved.wait()
            self._begun = time.monotonic()
            yield
            took = time.monotonic() - self._begun  # an answer that was given up says nothing
            if counts:
                mean = took if self._mean is None else self._mean
                self._mean = mean + _WEIGHT * (took - mean)
        finally:
            self._line.remove(mine)
            self._moved.set()
            self._moved = anyio.Event()

    def expect_room(self) -> None:
        """Raises `FullError` where `turn` would."""
        if len(self._line) > self._most:
            raise FullError(math.ceil(self.expected(len(self._line))))
