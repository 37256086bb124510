"""A call can be stopped and interrupted at any time, and the model stays usable."""

from __future__ import annotations

import gc
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from localrag.errors import StoppedError
from localrag.models.llms.base import Options
from localrag.models.llms.llama_cpp.decoding import STOPPED, Decoder, StopSign
from localrag.models.llms.llama_cpp.model import LlamaCppModel
from localrag.types import Message

# -- without a model ----------------------------------------------------------------


class FakeLibrary:
    """llama.cpp's part: a batch that takes its time and asks whether to go on."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.working = threading.Event()
        self.seen: list[tuple[int, int, int, bool]] = []
        self.freed = 0
        self.ggml_abort_callback = lambda function: function
        self.stop = StopSign(self)

    def llama_n_batch(self, _: object) -> int:
        return 4

    def llama_batch_init(self, size: int, _: int, __: int) -> Any:
        rows = [[0] * size for _ in range(4)]
        seq_id = [[0] for _ in range(size)]
        return SimpleNamespace(
            n_tokens=0,
            token=rows[0],
            pos=rows[1],
            n_seq_id=rows[2],
            seq_id=seq_id,
            logits=rows[3],
        )

    def llama_batch_free(self, _: object) -> None:
        self.freed += 1

    def llama_decode(self, _: object, batch: Any) -> int:
        self.working.set()
        try:
            self.seen = [
                (batch.token[i], batch.pos[i], batch.seq_id[i][0], batch.logits[i])
                for i in range(batch.n_tokens)
            ]
            end = time.monotonic() + self.seconds
            while time.monotonic() < end:
                if self.stop.callback(None):
                    time.sleep(0.05)  # letting go takes a moment
                    return STOPPED
                time.sleep(0.001)
            return 0
        finally:
            self.working.clear()


def decoder(library: FakeLibrary) -> Decoder:
    return Decoder(library, object(), library.stop)


ROWS = [(7, 0, 0, False), (8, 1, 0, True)]


def test_rows_reach_the_library_and_its_status_comes_back() -> None:
    library = FakeLibrary()
    reader = decoder(library)
    assert reader.batch_size == 4
    assert reader.decode(ROWS) == 0
    assert library.seen == ROWS
    reader.close()
    reader.close()
    assert library.freed == 1


def test_a_stop_from_another_thread_ends_the_batch() -> None:
    library = FakeLibrary(seconds=60)
    reader = decoder(library)
    stopping = once_it_works(library, library.stop.interrupted.set)
    assert reader.decode(ROWS) == STOPPED
    stopping.join()
    reader.close()


def once_it_works(library: FakeLibrary, act: Callable[[], object]) -> threading.Thread:
    """A thread that acts amid the next batch."""

    def work() -> None:
        assert library.working.wait(60)
        act()

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def interrupt() -> None:
    """Ctrl-C. Just before the caller begins to wait, it is heard only when the batch has ended."""
    time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGINT)


class Looked(threading.Event):
    """A stop sign at which llama.cpp looks before each operation: it `acts` at one of the looks."""

    def __init__(self, due: float = math.inf, act: Callable[[], object] = lambda: None) -> None:
        super().__init__()
        self.looks, self._due, self._act = 0, due, act

    def is_set(self) -> bool:
        """Whether the call should end."""
        self.looks += 1
        if self.looks == self._due:
            self._act()
        return super().is_set()


@pytest.fixture(autouse=True)
def heard() -> Iterator[None]:
    """What a shell starts in the background ignores Ctrl-C; these tests are about it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


only_posix = pytest.mark.skipif(sys.platform == "win32", reason="only on POSIX")


@only_posix
def test_an_interrupt_ends_the_batch_before_it_is_raised() -> None:
    library = FakeLibrary(seconds=60)
    reader = decoder(library)
    interrupting = once_it_works(library, interrupt)
    with pytest.raises(KeyboardInterrupt):
        reader.decode(ROWS)
    interrupting.join()
    assert not library.working.is_set()
    library.stop.interrupted.clear()
    library.seconds = 0.0
    assert reader.decode(ROWS) == 0
    reader.close()


def test_an_interrupt_just_after_the_batch_was_handed_over() -> None:
    library = FakeLibrary(seconds=60)
    reader = decoder(library)
    submit = reader._thread.submit

    def interrupted(*arguments: Any) -> Future[int]:
        running = submit(*arguments)
        if arguments[0] == library.llama_decode:
            library.working.wait(60)
            raise KeyboardInterrupt
        return running

    reader._thread.submit = interrupted  # type: ignore[method-assign,assignment]
    with pytest.raises(KeyboardInterrupt):
        reader.decode(ROWS)
    assert not library.working.is_set(), "nobody may touch the context while it is in use"
    reader.close()


# -- with a model -------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(models_dir: Callable[[str], Path]) -> Iterator[LlamaCppModel]:
    path = next(models_dir("smollm2-135m-instruct-q4").glob("*.gguf"))
    with LlamaCppModel(path, context_window=4096, threads=1, kept_bytes=8 * 2**20) as model:
        yield model


def chat(question: str, passage: str = "The lamp is lit at dusk.") -> list[Message]:
    return [Message("system", f"You judge passages.\n\n{passage}"), Message("user", question)]


LONG = chat("What is it?", "every word counts here " * 900)
SHORT = chat("Is the lamp lit? Reply only Yes or No.")
OPTIONS = Options(max_tokens=6, keep=1)
AMID = 1000
"""Looks after which a long prompt is being read."""


def outcome(model: LlamaCppModel) -> tuple[list[float], str]:
    scores = model.score_choices(SHORT, ("Yes", "No", "Not at all"), keep=1).tolist()
    return scores, model.complete(SHORT, OPTIONS).text


CALLS: list[Callable[[LlamaCppModel], object]] = [
    lambda model: model.score_choices(LONG, ("Yes", "No"), keep=1),
    lambda model: model.complete(LONG, OPTIONS),
]


@pytest.mark.models("smollm2-135m-instruct-q4")
@pytest.mark.parametrize("call", CALLS, ids=["score", "complete"])
def test_a_stop_ends_the_reading_of_a_long_prompt_amid_a_batch(
    model: LlamaCppModel, call: Callable[[LlamaCppModel], object]
) -> None:
    before = outcome(model)
    stop = Looked(AMID, lambda: stop.set())
    with pytest.raises(StoppedError, match="stopped"):
        call(model.for_call(stop))
    assert stop.looks < AMID + 100
    assert outcome(model) == before


@pytest.mark.models("smollm2-135m-instruct-q4")
def test_a_stop_ends_a_reply_that_is_being_written(model: LlamaCppModel) -> None:
    before = outcome(model)
    stop = threading.Event()
    stream = model.for_call(stop).stream(chat("Count for ever."), Options(max_tokens=2000))
    assert next(stream)
    stop.set()
    with pytest.raises(StoppedError):
        list(stream)
    assert outcome(model) == before


@pytest.mark.models("smollm2-135m-instruct-q4")
def test_a_stop_ends_the_wait_for_another_call_and_not_that_call(model: LlamaCppModel) -> None:
    stop = threading.Event()
    stream = model.stream(SHORT, OPTIONS)
    first = next(stream)
    threading.Timer(0.2, stop.set).start()
    with pytest.raises(StoppedError):
        model.for_call(stop).complete(SHORT, OPTIONS)
    assert first + "".join(stream) == model.complete(SHORT, OPTIONS).text


@pytest.mark.models("smollm2-135m-instruct-q4")
@only_posix
def test_ctrl_c_while_a_long_prompt_is_read(model: LlamaCppModel) -> None:
    before = outcome(model)
    whole = Looked()
    model.for_call(whole).complete(LONG, OPTIONS)
    model.forget()
    for due in (AMID, AMID + 200):
        looked = Looked(due, interrupt)
        with pytest.raises(KeyboardInterrupt):
            model.for_call(looked).complete(LONG, OPTIONS)
        assert due <= looked.looks < whole.looks
        assert outcome(model) == before


@pytest.mark.models("smollm2-135m-instruct-q4")
@pytest.mark.slow
def test_a_hundred_rounds_do_not_grow_memory(model: LlamaCppModel) -> None:
    import psutil

    process = psutil.Process()
    options = Options(max_tokens=1, keep=1)

    def rounds(numbers: range) -> int:
        for number in numbers:
            passage = f"Lamp {number} is lit."
            model.score_choices(chat("Lit?", passage), ("Yes", "No"), keep=1)
            model.complete(chat("When?", passage), options)
        gc.collect()  # what other tests left may else come and go
        return int(process.memory_info().rss)

    before = rounds(range(15))  # until no more states are kept than may be
    assert model._context._states.size > 6 * 2**20
    assert rounds(range(15, 115)) - before < 8 * 2**20
    assert model._context._states.size <= 8 * 2**20
