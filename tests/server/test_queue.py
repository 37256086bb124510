"""The line before the language model, and what is foretold to those who wait."""

from __future__ import annotations

import anyio
import pytest

from localrag.server.queue import FullError, ModelQueue


class Clock:
    """Stands in for the queue's: an hour takes no time."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    new_clock = Clock()
    monkeypatch.setattr("localrag.server.queue.time", new_clock)
    return new_clock


async def _hold(queue: ModelQueue, event: anyio.Event) -> None:
    async with queue.turn():
        await event.wait()


async def _answer(queue: ModelQueue, clock: Clock, seconds: float) -> None:
    async with queue.turn():
        clock.now += seconds


def test_the_wait_is_foretold_by_answers_and_not_by_those_given_up(clock: Clock) -> None:
    async def work() -> None:
        queue = ModelQueue()
        async with anyio.create_task_group() as group:
            group.start_soon(_hold, queue, anyio.Event())
            await anyio.wait_all_tasks_blocked()
            clock.now += 60
            group.cancel_scope.cancel()
        assert not queue.serving
        await _answer(queue, clock, 0.3)
        positions: list[tuple[int, float]] = []

        async def hear(position: int, seconds: float) -> None:
            positions.append((position, seconds))

        async def wait() -> None:
            async with queue.turn(hear):
                pass

        async with anyio.create_task_group() as group:
            events = [anyio.Event(), anyio.Event()]
            for event in events:
                group.start_soon(_hold, queue, event)
                await anyio.wait_all_tasks_blocked()
            group.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            for event in events:
                clock.now += 0.3
                event.set()
                await anyio.wait_all_tasks_blocked()
        assert [position for position, _ in positions] == [2, 1]
        assert [seconds for _, seconds in positions] == pytest.approx([0.6, 0.3])

    anyio.run(work)


def test_several_are_served_at_once_in_the_order_in_which_they_came() -> None:
    async def work() -> None:
        queue = ModelQueue(3, most_waiting=2)
        served: list[int] = []
        events = [anyio.Event() for _ in range(5)]
        positions: list[tuple[int, int]] = []

        async def ask(number: int) -> None:
            async def hear(position: int, _: float) -> None:
                positions.append((number, position))

            async with queue.turn(hear):
                served.append(number)
                await events[number].wait()

        async with anyio.create_task_group() as group:
            for number in range(5):
                group.start_soon(ask, number)
                await anyio.wait_all_tasks_blocked()
            assert (served, queue.serving, queue.waiting) == ([0, 1, 2], 3, 2)
            with pytest.raises(FullError):
                queue.expect_room()
            for leaving in (1, 0, 2, 3, 4):
                events[leaving].set()
                await anyio.wait_all_tasks_blocked()
        assert served == [0, 1, 2, 3, 4]
        assert positions == [(3, 1), (4, 2), (4, 1)]
        assert (queue.serving, queue.waiting) == (0, 0)

    anyio.run(work)


def test_the_wait_for_one_of_several_is_foretold(clock: Clock) -> None:
    async def work() -> None:
        queue, event = ModelQueue(2), anyio.Event()
        await _answer(queue, clock, 0.4)
        async with anyio.create_task_group() as group:
            group.start_soon(_hold, queue, event)
            await anyio.wait_all_tasks_blocked()
            clock.now += 0.2
            group.start_soon(_hold, queue, event)
            await anyio.wait_all_tasks_blocked()
            expected = [queue.expected(position) for position in range(5)]
            event.set()
        assert expected == pytest.approx([0, 0.2, 0.4, 0.6, 0.8])

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
            await anyio.wait_all_tasks_blocked()
            assert (queue.serving, queue.waiting, served.is_set()) == (2, 1, False)
            await give_way()
            assert served.is_set()

    anyio.run(work)
