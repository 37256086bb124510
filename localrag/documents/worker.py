"""Reading files in a process of its own: a file made to harm ends that process, not this one.

One process reads many files and is started anew after it crashed or was ended. On Linux it has no
right but to read what it is sent and what is installed (`system/confinement.py`). What it sends
back is data, never code: MessagePack, checked against the records.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO

import msgspec

from localrag import errors
from localrag.egress import network
from localrag.errors import ParsingError
from localrag.system import processes
from localrag.system.confinement import confine, limit_memory
from localrag.types import Document

SILENCE = 60.0
"""Seconds without a page done, after which a file is given up, and in addition one for each
`SLOWEST` bytes of it: the slowest honest page seen, with thousands of table cells, takes two."""

SLOWEST = 250_000
"""Bytes a second: a quarter of the speed at which Markdown, all of it one page, is read."""

LONGEST = 1800.0
"""Seconds in all: a book of 5000 pages takes 50 on a small laptop."""

MEMORY = 2 * 2**30
"""Bytes that reading may take, and in addition four times the file's own size. Honest files stay
below a quarter of it."""

LARGEST_REPLY = 2**29
"""Bytes of text, as sent, that one file may give."""

PROGRAM = "from localrag.documents.worker import main; main()"

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_POLL = 0.2


class _Task(msgspec.Struct, array_like=True):
    """What the process is asked: the file's name, as the system's bytes, and how much to take."""

    name: bytes
    size: int
    memory: int
    hidden_text: bool


class _Refused(msgspec.Struct, array_like=True):
    """An error from `localrag.errors`, by the name of its class."""

    kind: str
    message: str
    hint: str
    values: dict[str, str]


class _Reply(msgspec.Struct, array_like=True):
    """A document, or a refusal, or what went wrong; and what tried to leave the machine."""

    document: Document | None = None
    refused: _Refused | None = None
    fault: str = ""
    attempts: list[network.Attempt] = []


class ParsingProcess:
    """`parse_file` in another process; may be called from several threads, one runs at a time."""

    def __init__(
        self,
        *,
        hidden_text: bool = False,
        silence: float = SILENCE,
        longest: float = LONGEST,
        memory: int = MEMORY,
        program: str = PROGRAM,
    ) -> None:
        """Start nothing yet.

        `hidden_text` takes what no reader of a PDF sees too; `silence` and `longest` are
        seconds, `memory` bytes.
        """
        self._hidden_text = hidden_text
        self._silence = silence
        self._longest = longest
        self._memory = memory
        self._program = program
        self._lock = threading.Lock()
        self._running: _Running | None = None

    def __call__(self, path: Path, data: bytes) -> Document:
        """The document that the bytes of a file make; raises ParsingError as `parse_file` does.

        Also where the file takes more time or memory than allowed, or ends the process.
        """
        with self._lock:
            try:
                reply = self._ask(path, data)
            except _GivenUpError as given_up:
                self._end()
                raise given_up.error(path) from given_up
        network.report(reply.attempts)
        if reply.refused is not None:
            raise _raised(reply.refused)
        if reply.document is None:
            raise ParsingError(
                "{source} cannot be read: {reason}.",
                hint="Open it in its own program, save it anew, and add that file.",
                source=str(path),
                reason=reply.fault,
            )
        return replace(reply.document, source=str(path))

    def close(self) -> None:
        """End the process; the next call starts another."""
        with self._lock:
            self._end()

    def _ask(self, path: Path, data: bytes) -> _Reply:
        running = self._running
        if running is None or running.process.poll() is not None:
            self._end()
            running = self._running = _Running(self._program)
            # Whoever forgets to close leaves no process behind.
            weakref.finalize(self, running.end)
        memory = self._memory + 4 * len(data)
        running.send(_Task(os.fsencode(path), len(data), memory, self._hidden_text), data)
        silence = self._silence + len(data) / SLOWEST
        started = heard = time.monotonic()
        while True:
            message = running.receive(_POLL)
            now = time.monotonic()
            if message:
                return _decoded(message)
            if message is not None:  # a page is done
                heard = now
            if now - heard > silence or now - started > self._longest:
                raise _GivenUpError("time", int(min(now - heard, self._longest)))
            if running.memory() > memory:
                raise _GivenUpError("memory", memory // 2**20)

    def _end(self) -> None:
        if self._running is not None:
            self._running.end()
            self._running = None


class _GivenUpError(Exception):
    """The process must be ended; `why` is time, memory or crash."""

    def __init__(self, why: str, amount: int) -> None:
        super().__init__(why, amount)
        self.why = why
        self.amount = amount

    def error(self, path: Path) -> ParsingError:
        if self.why == "time":
            return ParsingError(
                "{source} was given up: nothing came of reading it for {seconds} s.",
                hint="It may be damaged, or made to hang programs. Open it in its own program, "
                "save it anew, and add that file.",
                source=str(path),
                seconds=self.amount,
            )
        if self.why == "memory":
            return ParsingError(
                "{source} was given up: reading it takes more than {limit} MB of memory.",
                hint="It may be made to fill the memory. Split it into parts, or leave it out.",
                source=str(path),
                limit=self.amount,
            )
        return ParsingError(
            "{source} was given up: the process that reads it crashed (exit code {code}).",
            hint="It may be damaged, or made to crash programs. Open it in its own program, "
            "save it anew, and add that file.",
            source=str(path),
            code=self.amount,
        )


class _Running:
    """The process, and a thread that gathers what it says: pipes have no timeout on Windows."""

    def __init__(self, program: str) -> None:
        self.process = processes.start(
            processes.python(program),
            (*processes.PLAIN, network.WATCHED),
            stdin=processes.PIPE,
            stdout=processes.PIPE,
        )
        self._messages: SimpleQueue[bytes | None] = SimpleQueue()
        threading.Thread(target=self._gather, name="parsing", daemon=True).start()

    def send(self, task: _Task, data: bytes) -> None:
        pipe = self.process.stdin
        assert pipe is not None  # noqa: S101 - asked for above
        try:
            _write(pipe, msgspec.msgpack.encode(task))
            pipe.write(data)
            pipe.flush()
        except OSError as error:
            raise self._crashed() from error

    def receive(self, timeout: float) -> bytes | None:
        """A message, b"" for a sign of life, or None where there is none yet."""
        try:
            message = self._messages.get(timeout=timeout)
        except Empty:
            return None
        if message is None:
            raise self._crashed()
        return message

    def memory(self) -> int:
        """Bytes that the process holds now."""
        import psutil

        try:
            return int(psutil.Process(self.process.pid).memory_info().rss)
        except psutil.Error:
            return 0

    def end(self) -> None:
        processes.end(self.process, patience=0)

    def _crashed(self) -> _GivenUpError:
        self.process.kill()
        return _GivenUpError("crash", self.process.wait())

    def _gather(self) -> None:
        pipe = self.process.stdout
        assert pipe is not None  # noqa: S101 - asked for above
        try:
            while (message := _read(pipe)) is not None:
                self._messages.put(message)
        except (OSError, ValueError):
            pass  # closed from this side
        self._messages.put(None)


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


def _decoded(message: bytes) -> _Reply:
    try:
        return msgspec.msgpack.decode(message, type=_Reply)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _GivenUpError("crash", 0) from error


def _raised(refused: _Refused) -> ParsingError:
    kind = getattr(errors, refused.kind, ParsingError)
    if not (isinstance(kind, type) and issubclass(kind, ParsingError)):
        kind = ParsingError
    error: ParsingError = kind(refused.message, hint=refused.hint, **refused.values)
    return error


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
        task = msgspec.msgpack.decode(message, type=_Task)
        data = source.read(task.size)
        limit_memory(task.memory)
        before = len(network.attempts())
        reply = _answer(task, data, lambda: _write(sink, b""))
        reply.attempts = list(network.attempts()[before:])
        encoded = msgspec.msgpack.encode(reply)
        if len(encoded) > LARGEST_REPLY:
            encoded = msgspec.msgpack.encode(_Reply(fault="too much text"))
        _write(sink, encoded)


def _answer(task: _Task, data: bytes, tick: Callable[[], None]) -> _Reply:
    from localrag.documents.files import parse_file

    try:
        path = Path(os.fsdecode(task.name))
        document = parse_file(path, data, tick=tick, hidden_text=task.hidden_text)
    except ParsingError as error:
        values = {name: _sendable(str(value)) for name, value in error.values.items()}
        refused = _Refused(type(error).__name__, error.message, error.hint, values)
        return _Reply(refused=refused)
    except MemoryError:
        return _Reply(fault="MemoryError")
    except Exception as error:
        return _Reply(fault=_sendable(f"{type(error).__name__}: {error}")[:500])
    return _Reply(document=_sendable_document(document))


def _sendable_document(document: Document) -> Document:
    return replace(
        document,
        source="",
        title=_sendable(document.title),
        pages=tuple(replace(page, text=_sendable(page.text)) for page in document.pages),
        headings=tuple(replace(each, text=_sendable(each.text)) for each in document.headings),
        metadata=_sendable_values(document.metadata),
    )


def _sendable_values(values: Mapping[str, str]) -> dict[str, str]:
    return {_sendable(name): _sendable(value) for name, value in values.items()}


def _sendable(text: str) -> str:
    """The text with U+FFFD for lone surrogates, which UTF-8 cannot hold."""
    return _LONE_SURROGATE.sub("\ufffd", text)
