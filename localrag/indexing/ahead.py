"""Work on what comes next, in other threads, while what came before is finished in this one."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Generic, Self, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

HELD = 256 * 2**20
"""What results may take that nobody has asked for yet, in all; then nothing new is begun."""


_NOW_AND_THEN = 0.2
"""Seconds."""


class Task(Generic[Result]):
    """Something that is being done."""

    def __init__(self, release: Callable[[int], None]) -> None:
        self._done = threading.Event()
        self._release = release
        self._result: Result | None = None
        self._error: BaseException | None = None
        self._size = 0

    def result(self, meanwhile: Callable[[], None] = lambda: None) -> Result:
        """What came of it, once; waits for it, and raises what it raised.

        `meanwhile` is called now and then.
        """
        while not self._done.wait(_NOW_AND_THEN):
            meanwhile()
        result, error, self._result, self._error = self._result, self._error, None, None
        self._release(self._size)
        if error is not None:
            raise error
        return result  # type: ignore[return-value] # nothing was raised

    def finish(self, result: Result | None, error: BaseException | None, size: int) -> None:
        """Say what came of it."""
        self._result, self._error, self._size = result, error, size
        self._done.set()


class Ahead(Generic[Item, Result]):
    """Does `work` on items in the order in which they come, several at once.

    The results are asked for in that order, too: then the oldest is never kept from being begun
    by results that wait. `size` is what a result takes. To be used in a `with` block, at the end
    of which nothing new is begun. The threads keep no program from ending.
    """

    def __init__(
        self, work: Callable[[Item], Result], threads: int, *, size: Callable[[Result], int]
    ) -> None:
        self._work, self._threads, self._size = work, threads, size
        self._tasks: deque[tuple[Item, Task[Result]]] = deque()
        self._changed = threading.Condition()
        self._waiting_size = self._started = 0
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        with self._changed:
            self._closed = True
            self._tasks.clear()
            self._changed.notify_all()

    def submit(self, item: Item) -> Task[Result]:
        """Have it done."""
        task = Task[Result](self._release)
        with self._changed:
            self._tasks.append((item, task))
            self._changed.notify()
            if self._started < self._threads:
                self._started += 1
                threading.Thread(target=self._run, name="ahead", daemon=True).start()
        return task

    def _release(self, size: int) -> None:
        with self._changed:
            self._waiting_size -= size
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._closed and not (self._tasks and self._waiting_size < HELD):
                    self._changed.wait()
                if self._closed:
                    return
                item, task = self._tasks.popleft()
            result, error, size = None, None, 0
            try:
                result = self._work(item)
                size = self._size(result)
            except BaseException as raised:  # also what ends a program: it is raised again
                error = raised
            del item
            with self._changed:
                self._waiting_size += size
            task.finish(result, error, size)
            del result, error, task
