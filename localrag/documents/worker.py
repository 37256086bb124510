"""Reading and drawing files in a process of its own: one made to harm ends that, not this one.

One process reads many files and is started anew after it crashed or was ended. On Linux it has no
right but to read what it is sent and what is installed (`system/confinement.py`). What it sends
back is data, never code: MessagePack, checked against the records.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import threading
import time
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from queue import Empty, Full, LifoQueue, Queue
from typing import IO, Any, TypeVar

import msgspec

from localrag.documents import legacy
from localrag.documents.formats.table import (
    DEFAULTS,
    Attach,
    Attachment,
    Limits,
    PageDone,
    ParseOptions,
    format_of,
    leave_out,
    nothing,
)
from localrag.documents.positions import Box
from localrag.egress import network
from localrag.errors import ParsingError, SlowFileError, parsing_error
from localrag.system import processes
from localrag.system.confinement import confine, limit_memory
from localrag.types import Document

SLOWEST = 250_000
"""Bytes a second: a quarter of the speed at which Markdown, all of it one page, is read."""

LARGEST_REPLY = 2**29
"""Bytes of text and of attachments, as sent, that one file may give."""

PROCESS_MEMORY, OWN_MEMORY, LEAST_MEMORY = 1300 * 2**20, 2**30, 4 * 2**30
"""Bytes that a process takes which recognises text in pictures, that the one takes which embeds,
and that all together may take on a machine with twice as much; on larger ones, half of it."""

PROGRAM = "from localrag.documents.worker import main; main()"

DRAWING = 60.0
"""Seconds that drawing a page may take; the slowest honest scans take two."""

PATIENCE = 10
"""Times as long as `Limits` say that reading may take by the clock: they are processor time, which
a machine that is busy with other things gives out slowly. A process that sleeps takes none."""

T = TypeVar("T", Document, "Drawn")

_POLL = 0.2
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class _Wanted(msgspec.Struct, array_like=True):
    """An image of a page, with what `drawing.draw` takes."""

    page: int
    width: int
    boxes: Sequence[Box]
    size: tuple[float, float]


class _Request(msgspec.Struct, array_like=True):
    """What the process is asked: the file's name, as the system's bytes, and bytes it may take.

    `image` where an image of a page is wanted, and not what is read of the file.
    """

    name: bytes
    size: int
    memory: int
    options: ParseOptions
    image: _Wanted | None = None


class _Refused(msgspec.Struct, array_like=True, tag=True):
    """An error from `localrag.errors`, by the name of its class."""

    kind: str
    message: str
    hint: str
    values: dict[str, str | int | float]


class Drawn(msgspec.Struct, array_like=True, tag=True):
    """A page as a PNG, and whether all that was to be marked on it is."""

    png: bytes
    marked: bool


class _PageDone(msgspec.Struct, array_like=True, tag=True):
    """A sign of life, as `table.PageDone` has it."""

    number: int
    pages: int
    recognised: bool


class _Reply(msgspec.Struct, array_like=True, tag=True):
    """What came of a file, and what tried to leave the machine meanwhile."""

    outcome: Document | Drawn | _Refused
    attempts: list[network.Attempt] = []
    attached: list[Attachment] = []


class ParsingProcess:
    """`parse_file` in another process; may be called from several threads, one runs at a time."""

    def __init__(
        self,
        options: ParseOptions = DEFAULTS,
        limits: Limits | None = None,
        program: str = PROGRAM,
    ) -> None:
        """Start nothing yet; `limits` go before those of a file's format."""
        self._options = options
        self._limits = limits
        self._program = program
        self._lock = threading.Lock()
        self._running: _Running | None = None

    def __call__(
        self,
        path: Path,
        data: bytes,
        *,
        page_done: PageDone = nothing,
        attach: Attach = leave_out,
    ) -> Document:
        """The document that the bytes of a file make; raises ParsingError as `parse_file` does.

        Also where the file takes more memory than allowed, or ends the process, and SlowFileError
        where it takes more time.
        `page_done` is called as pages are done, `attach` with each file inside that is a document
        of its own.
        """
        conversion = legacy.modern(path, data)
        reply, document = self._exchange(
            path, data if conversion is None else conversion, Document, page_done
        )
        for attachment in reply.attached:
            attach(attachment)
        id_ = document.id if conversion is None else hashlib.sha256(data).hexdigest()
        return replace(document, id=id_, source=str(path))

    def draw(
        self,
        path: Path,
        data: bytes,
        page: int,
        *,
        width: int,
        boxes: Sequence[Box] = (),
        size: tuple[float, float] = (0.0, 0.0),
    ) -> Drawn:
        """A page of these bytes as an image `width` pixels wide, with `boxes` marked on it.

        `boxes` are as `positions.rectangles` gives them, on a page of `size`: on one of another
        size nothing is marked. Raises a ParsingError for what cannot be drawn within bounds.
        """
        _, drawn = self._exchange(path, data, Drawn, image=_Wanted(page, width, boxes, size))
        return drawn

    def close(self) -> None:
        """End the process; the next call starts another."""
        with self._lock:
            self._end()

    def _exchange(
        self,
        path: Path,
        data: bytes,
        kind: type[T],
        page_done: PageDone = nothing,
        image: _Wanted | None = None,
    ) -> tuple[_Reply, T]:
        with self._lock:
            try:
                reply = self._ask(path, data, page_done, image)
                outcome = reply.outcome
                if not isinstance(outcome, kind | _Refused):
                    raise _crash(0)
            except ParsingError as given_up:
                self._end()
                given_up.values["source"] = str(path)
                raise
        network.report(reply.attempts)
        if isinstance(outcome, _Refused):
            raise _error_of(outcome)
        return reply, outcome

    def _ask(self, path: Path, data: bytes, page_done: PageDone, image: _Wanted | None) -> _Reply:
        running = self._running
        if running is None or running.process.poll() is not None:
            self._end()
            running = self._running = _Running(self._program)
            # Whoever forgets to close leaves no process behind.
            weakref.finalize(self, running.end)
        known = format_of(path)
        limits = self._limits or (known.limits if known else Limits())
        if image is not None:
            limits = replace(limits, longest=min(limits.longest, DRAWING))
        memory = limits.memory + 4 * len(data)
        request = _Request(os.fsencode(path), len(data), memory, self._options, image)
        running.send(request, data)
        silence = limits.silence + len(data) / SLOWEST
        longest = limits.longest
        began = heard = running.spent(), time.monotonic()
        while True:
            message = running.receive(_POLL)
            now = running.spent(), time.monotonic()
            if message is not None:
                reply = _decoded(message)
                if isinstance(reply, _Reply):
                    return reply
                heard = now
                longest += limits.silence * reply.recognised
                page_done(reply.number, reply.pages, recognised=reply.recognised)
            for since, most in ((heard, silence), (began, longest)):
                worked, waited = now[0] - since[0], now[1] - since[1]
                if worked > most or waited > PATIENCE * most:
                    raise SlowFileError(
                        "Gave up on {source}: reading it made no progress for {seconds} s.",
                        hint="It may be damaged, or made to hang programs. Open it in the program "
                        "it was made with, save it again, and add that file.",
                        seconds=int(worked if worked > most else waited),
                    )
            if running.memory() > memory:
                raise ParsingError(
                    "Gave up on {source}: reading it takes more than {limit} MB of memory.",
                    hint=(
                        "It may be designed to exhaust memory. Split it into parts, or "
                        "leave it out."
                    ),
                    limit=memory // 2**20,
                )

    def _end(self) -> None:
        if self._running is not None:
            self._running.end()
            self._running = None


class ParsingProcesses:
    """Several such processes: may be called from as many threads, and each has one."""

    def __init__(self, processes: Iterable[ParsingProcess]) -> None:
        self._idle: LifoQueue[ParsingProcess] = LifoQueue()
        for process in processes:
            self._idle.put(process)

    def __call__(
        self,
        path: Path,
        data: bytes,
        *,
        page_done: PageDone = nothing,
        attach: Attach = leave_out,
    ) -> Document:
        """As `ParsingProcess`; waits where all are busy."""
        process = self._idle.get()
        try:
            return process(path, data, page_done=page_done, attach=attach)
        finally:
            self._idle.put(process)


def processes_at_once() -> int:
    """How many processes this machine has the cores and the memory for."""
    import psutil

    memory = max(LEAST_MEMORY, psutil.virtual_memory().total // 2)
    return max(1, min((os.cpu_count() or 1) - 1, (memory - OWN_MEMORY) // PROCESS_MEMORY))


class _Running:
    """The process, and a thread that gathers what it says: pipes have no timeout on Windows."""

    def __init__(self, program: str) -> None:
        self.process = processes.start(
            processes.python(program),
            (*processes.PLAIN, network.WATCHED),
            stdin=processes.PIPE,
            stdout=processes.PIPE,
        )
        # One at a time: what the process says must not pile up here.
        self._messages: Queue[bytes | None] = Queue(1)
        self._ended = threading.Event()
        threading.Thread(target=self._gather, name="parsing", daemon=True).start()

    def send(self, request: _Request, data: bytes) -> None:
        pipe = self.process.stdin
        assert pipe is not None  # noqa: S101 - asked for above
        try:
            _write(pipe, msgspec.msgpack.encode(request))
            pipe.write(data)
            pipe.flush()
        except OSError as error:
            raise self._crashed() from error

    def receive(self, timeout: float) -> bytes | None:
        """A message, or None where there is none yet."""
        try:
            message = self._messages.get(timeout=timeout)
        except Empty:
            return None
        if message is None:
            raise self._crashed()
        return message

    def spent(self) -> float:
        """Seconds of processor time that the process has taken so far."""
        import psutil

        try:
            times = psutil.Process(self.process.pid).cpu_times()
        except psutil.Error:
            return 0.0
        return float(times.user + times.system)

    def memory(self) -> int:
        """Bytes that the process holds now."""
        import psutil

        try:
            return int(psutil.Process(self.process.pid).memory_info().rss)
        except psutil.Error:
            return 0

    def end(self) -> None:
        self._ended.set()
        processes.end(self.process, patience=0)

    def _crashed(self) -> ParsingError:
        self.process.kill()
        return _crash(self.process.wait())

    def _gather(self) -> None:
        pipe = self.process.stdout
        assert pipe is not None  # noqa: S101 - asked for above
        try:
            while (message := _read(pipe)) is not None:
                self._put(message)
        except (OSError, ValueError):
            pass  # closed from this side
        self._put(None)

    def _put(self, message: bytes | None) -> None:
        while not self._ended.is_set():
            try:
                return self._messages.put(message, timeout=_POLL)
            except Full:
                continue
        return None


def _write(pipe: IO[bytes], message: bytes) -> None:
    pipe.write(len(message).to_bytes(8, "little") + message)
    pipe.flush()


def _read(pipe: IO[bytes]) -> bytes | None:
    """The next message; None at the end, and for more than a reply may be."""
    head = pipe.read(8)
    size = int.from_bytes(head, "little")
    if len(head) < 8 or size > LARGEST_REPLY:
        return None
    message = pipe.read(size)
    return message if len(message) == size else None


def _decoded(message: bytes) -> _Reply | _PageDone:
    try:
        reply = msgspec.msgpack.decode(message, type=_Reply | _PageDone)
        match reply:
            case _Reply(outcome=_Refused() as refused):
                _error_of(refused)
            case _Reply(outcome=Drawn(png=png)) if not png.startswith(b"\x89PNG\r\n\x1a\n"):
                raise _crash(0)
    except (msgspec.MsgspecError, ValueError) as error:  # also no UTF-8
        raise _crash(0) from error
    return reply


def _crash(code: int) -> ParsingError:
    return ParsingError(
        "Gave up on {source}: the process that was reading it crashed (exit code {code}).",
        hint="It may be damaged, or made to crash programs. Open it in the program it was made "
        "with, save it again, and add that file.",
        code=code,
    )


def _refusal(error: ParsingError) -> _Refused:
    values = {
        name: value if isinstance(value, int | float) else str(value)
        for name, value in error.values.items()
    }
    return _Refused(type(error).__name__, error.message, error.hint, values)


def _error_of(refused: _Refused) -> ParsingError:
    return parsing_error(refused.kind, refused.message, refused.hint, refused.values)


# In the other process


def main() -> None:
    """Read files until the input ends."""
    import signal

    network.close_doors()
    confine()  # before there is a second thread, or anything of a file
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's affair
    processes.end_with_parent()
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # whatever a library prints must not mix with replies
    while (message := _read(source)) is not None:
        request = msgspec.msgpack.decode(message, type=_Request)
        data = source.read(request.size)
        limit_memory(request.memory)
        before = len(network.attempts())
        attached: list[Attachment] = []

        def page_done(number: int = 0, pages: int = 0, *, recognised: bool = False) -> None:
            _write(sink, msgspec.msgpack.encode(_PageDone(number, pages, recognised)))

        outcome = _outcome(request, data, page_done, attached.append)
        encoded = _encoded(_Reply(outcome, list(network.attempts()[before:]), attached))
        if len(encoded) > LARGEST_REPLY:
            encoded = _encoded(_Reply(_unreadable(request, "too much text")))
        _write(sink, encoded)


def _outcome(
    request: _Request, data: bytes, page_done: PageDone, attach: Attach
) -> Document | Drawn | _Refused:
    from localrag.documents.files import parse_file

    path, image = Path(os.fsdecode(request.name)), request.image
    try:
        if image is not None:
            from localrag.documents.drawing import draw

            return Drawn(*draw(path, data, image.page, image.width, image.boxes, image.size))
        return parse_file(path, data, request.options, page_done, attach=attach)
    except ParsingError as error:
        return _refusal(error)
    except Exception as error:
        return _unreadable(request, f"{type(error).__name__}: {error}".rstrip(": ")[:500])


def _unreadable(request: _Request, reason: str) -> _Refused:
    return _refusal(
        ParsingError(
            "{source} cannot be read: {reason}.",
            hint="Open it in the program it was made with, save it again, and add that file.",
            source=os.fsdecode(request.name),
            reason=reason,
        )
    )


def _encoded(reply: _Reply) -> bytes:
    return msgspec.msgpack.encode(_storable(msgspec.to_builtins(reply, builtin_types=(bytes,))))


def storable(document: Document) -> Document:
    """The document with U+FFFD for lone surrogates, which UTF-8 cannot hold; offsets stay."""
    return msgspec.convert(
        _storable(msgspec.to_builtins(document, builtin_types=(bytes,))), Document
    )


def _storable(value: Any) -> Any:
    match value:
        case str():
            return _LONE_SURROGATE.sub("\ufffd", value)
        case list() | tuple():
            return [_storable(element) for element in value]
        case dict():
            return {_storable(name): _storable(element) for name, element in value.items()}
    return value
