"""The line before the language model, and what is foretold to those who wait."""

from __future__ import annotations

from functools import partial

import anyio
import pytest

from localrag.server.queue import ModelQueue


async def _hold(queue: ModelQueue, seconds: float) -> None:
    async with queue.turn():
        await anyio.sleep(seconds)


def test_the_wait_is_foretold_by_answers_and_not_by_those_given_up() -> None:
    async def work() -> None:
        queue = ModelQueue()
        async with anyio.create_task_group() as group:
            group.start_soon(_hold, queue, 60.0)
            await anyio.sleep(0.05)
            group.cancel_scope.cancel()
        assert not queue.is_busy
        await _hold(queue, 0.3)
        told: list[tuple[int, float]] = []

        async def hear(position: int, seconds: float) -> None:
            told.append((position, seconds))

        async def wait() -> None:
            async with queue.turn(hear):
                pass

        async with anyio.create_task_group() as group:
            for _ in range(2):
                group.start_soon(partial(_hold, queue, 0.3))
                await anyio.sleep(0.01)
            group.start_soon(wait)
        assert [position for position, _ in told] == [2, 1]
        assert [seconds for _, seconds in told] == pytest.approx([0.6, 0.3], abs=0.25)

    anyio.run(work)
