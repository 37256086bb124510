"""One batch at a time through llama.cpp, in a thread of its own so that it can be stopped.

A batch takes a second on a laptop, and Ctrl-C is only heard between two of Python's own
instructions. So the caller waits for another thread, which the interrupt does not disturb,
and llama.cpp asks before each operation of a batch whether it should go on.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

STOPPED = 2
"""What llama.cpp returns for a batch that was given up."""


class StopSign:
    """Looked at by llama.cpp while it works on a CPU, and by us before each batch.

    Up where the caller's own event is set, from any thread, or the batch was interrupted.
    """

    def __init__(self, c: Any) -> None:
        self.interrupted = threading.Event()
        events = self._events = [self.interrupted]
        self.callback = c.ggml_abort_callback(lambda _: any(event.is_set() for event in events))

    def begin(self, stopped: threading.Event) -> None:
        """A new call, which ends once `stopped` is set."""
        self.interrupted.clear()
        self._events[1:] = [stopped]

    @property
    def is_up(self) -> bool:
        """Whether the call should end."""
        return any(event.is_set() for event in self._events)


class Decoder:
    """`llama_decode` for one context. Its owner frees the context after `close`."""

    def __init__(self, c: Any, context: Any, stop: StopSign) -> None:
        self.batch_size = int(c.llama_n_batch(context))
        self._c, self._context, self._stop = c, context, stop
        self._batch = c.llama_batch_init(self.batch_size, 0, 1)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="llama.cpp")
        # An interrupt while the thread starts would have the executor start another one beside it.
        self._thread.submit(int).result()
        self.close = weakref.finalize(self, _close, c, self._thread, self._batch)
        """Let the thread end and free the batch."""

    def decode(self, rows: Sequence[tuple[int, int, int, bool]]) -> int:
        """Read rows of (token, position, sequence, wants logits); llama.cpp's status.

        An exception in the waiting thread, such as KeyboardInterrupt, stops the batch and
        is raised once llama.cpp has let go of it.
        """
        if self._stop.is_up:
            return STOPPED
        batch = self._batch
        batch.n_tokens = len(rows)
        for i, (token, position, sequence, wanted) in enumerate(rows):
            batch.token[i] = token
            batch.pos[i] = position
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = sequence
            batch.logits[i] = wanted
        try:
            running: Future[int] = self._thread.submit(self._c.llama_decode, self._context, batch)
            return running.result()
        except BaseException:
            # Also where `submit` was interrupted: what comes behind the batch waits for it.
            self._stop.interrupted.set()
            behind = self._thread.submit(int)
            while not behind.done():
                with contextlib.suppress(KeyboardInterrupt):
                    wait([behind])
            raise

    def forget(self) -> None:
        """Overwrite the tokens of the last batch."""
        for i in range(self.batch_size):
            self._batch.token[i] = 0


def _close(c: Any, thread: ThreadPoolExecutor, batch: Any) -> None:
    thread.shutdown()
    c.llama_batch_free(batch)
