"""The line before the language model, and what is foretold to those who wait."""

from __future__ import annotations

from functools import partial

import anyio
import pytest

from localrag.server.queue import FullError, ModelQueue


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
        assert not queue.serving
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


def test_several_are_served_at_once_in_the_order_in_which_they_came() -> None:
    async def work() -> None:
        queue = ModelQueue(3, most_waiting=2)
        served: list[int] = []
        done = [anyio.Event() for _ in range(5)]
        heard: list[tuple[int, int]] = []

        async def ask(number: int) -> None:
            async def hear(position: int, _: float) -> None:
                heard.append((number, position))

            async with queue.turn(hear):
                served.append(number)
                await done[number].wait()

        async with anyio.create_task_group() as group:
            for number in range(5):
                group.start_soon(ask, number)
                await anyio.sleep(0.01)
            assert (served, queue.serving, queue.waiting) == ([0, 1, 2], 3, 2)
            with pytest.raises(FullError):
                queue.expect_room()
            for leaving in (1, 0, 2, 3, 4):
                done[leaving].set()
                await anyio.sleep(0.01)
        assert served == [0, 1, 2, 3, 4]
        assert heard == [(3, 1), (4, 2), (4, 1)]
        assert (queue.serving, queue.waiting) == (0, 0)

    anyio.run(work)


def test_the_wait_for_one_of_several_is_foretold() -> None:
    async def work() -> None:
        queue = ModelQueue(2)
        await _hold(queue, 0.4)  # what an answer takes
        async with anyio.create_task_group() as group:
            group.start_soon(_hold, queue, 0.4)
            await anyio.sleep(0.2)
            group.start_soon(_hold, queue, 0.4)
            await anyio.sleep(0.01)
            expected = [queue.expected(position) for position in range(5)]
        assert expected == pytest.approx([0, 0.2, 0.4, 0.6, 0.8], abs=0.15)

    anyio.run(work)


def test_long_work_gives_way_to_who_waits_for_one_of_several() -> None:
    async def work() -> None:
        queue = ModelQueue(2)
        served = anyio.Event()

        async def ask() -> None:
            async with queue.turn():
                served.set()

        async with queue.lease() as give_way, queue.lease(), anyio.create_task_group() as group:
            group.start_soon(ask)
            await anyio.sleep(0.01)
            assert (queue.serving, queue.waiting, served.is_set()) == (2, 1, False)
            await give_way()
            assert served.is_set()

    anyio.run(work)
