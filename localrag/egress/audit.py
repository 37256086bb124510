"""The log of what went to models and databases on other machines: never a text or a key.

A line is on disk before anything is sent, and a second one says what came back. One JSON object
a line; `call` ties the two together.
"""

from __future__ import annotations

import os
import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import TypedDict, Unpack

from localrag.errors import BackendError
from localrag.printable import as_json
from localrag.system import files

LIMIT = 5_000_000
"""Bytes, from which a new file is begun."""

KEPT = 9
"""Older files that are kept, with .1 the newest."""

_WAIT = 10.0
"""Seconds that another process may hold the log."""


class Sent(TypedDict):
    """What is written of a call; `command` is what was running."""

    host: str
    model: str
    command: str
    bytes_out: int
    passages: int
    redactions: int


class AuditLog:
    """Appends to one file. Several threads and processes may write to the same."""

    def __init__(self, path: Path, *, limit: int = LIMIT, kept: int = KEPT) -> None:
        self.path = path
        self._limit = limit
        self._kept = kept

    def sending(self, **sent: Unpack[Sent]) -> str:
        """Record what is about to be sent; returns the id of the call.

        Raises `BackendError` where that cannot be written: then nothing may be sent.
        """
        call = secrets.token_hex(8)
        self._append({"event": "sent", "call": call} | sent)
        return call

    def received(self, call: str, *, bytes_in: int, status: int | None) -> None:
        """Record what came back; `status` is that of HTTP, None where there was no answer."""
        self._append({"event": "received", "call": call, "bytes_in": bytes_in, "status": status})

    def connecting(self, host: str, library: str) -> None:
        """Record that a library's database on another machine is about to be reached.

        Raises `BackendError` where that cannot be written: then it is not reached.
        """
        self._append({"event": "database", "host": host, "library": library})

    def check(self) -> None:
        """Make sure that it can be written. Raises `BackendError`."""
        try:
            files.make_folder(self.path.parent)
            files.touch_file(self.path)
        except OSError as error:
            raise self._unwritable(error) from error

    def _append(self, record: dict[str, object]) -> None:
        from filelock import Timeout

        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = (as_json({"time": now} | record) + "\n").encode()
        try:
            files.make_folder(self.path.parent)
            with files.lock(self.path.with_name(f"{self.path.name}.lock"), _WAIT):
                self._rotate()
                self._write(line)
        except (OSError, Timeout) as error:
            raise self._unwritable(error) from error

    def _write(self, line: bytes) -> None:
        """The whole line or nothing of it."""
        with files.append_file(self.path) as file:
            handle = file.fileno()
            before = os.fstat(handle).st_size
            try:
                if os.write(handle, line) != len(line):
                    raise OSError("the disk is full")  # noqa: TRY301 - one way out for both
                os.fsync(handle)
            except OSError:
                os.ftruncate(handle, before)
                raise

    def _rotate(self) -> None:
        if not self.path.exists() or self.path.stat().st_size < self._limit:
            return
        for number in range(self._kept, 0, -1):
            older = self._numbered(number)
            newer = self._numbered(number - 1) if number > 1 else self.path
            if newer.exists():
                newer.replace(older)

    def _numbered(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")

    def _unwritable(self, error: Exception) -> BackendError:
        return BackendError(
            "The log of calls to hosted models cannot be written at {path}: {reason}. Without it "
            "nothing is sent.",
            hint="Free space on that disk, or let localrag write to that folder.",
            path=self.path,
            reason=error,
        )
