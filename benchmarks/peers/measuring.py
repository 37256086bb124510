"""A worker process seen from outside: when its lines came, and how much memory it took."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

INTERVAL = 0.05
"""Seconds between two looks at the memory."""
LIMIT = 3600.0
"""Seconds after which a process is taken to hang, and killed."""


class WorkerFailedError(Exception):
    """What a worker said before it ended."""


class Worker:
    """A worker program from its start on; `seconds` of an event are from there."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], errors: Path
    ) -> None:
        self._errors = errors
        self.network: list[str] = []
        """Hosts that it tried to reach."""
        self.peak_mb = 0.0
        """Resident set of the process and its children together; pages that they share count in
        each, and pages of the model file count while they are mapped."""
        self._ended = threading.Event()
        with errors.open("wb") as stderr:
            self.started = time.perf_counter()
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env={**os.environ, **environment},
                text=True,
                encoding="utf-8",
            )
        self._alarm = threading.Timer(LIMIT, self._process.kill)
        self._alarm.daemon = True
        self._alarm.start()
        self._watch = threading.Thread(target=self._look, daemon=True)
        self._watch.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self._process.kill()
        code = self._finish()
        if kind is None and code:
            raise WorkerFailedError(self._said() or f"exit code {code}")

    def ask(self, **asked: Any) -> float:
        """Send a line; when that was."""
        assert self._process.stdin is not None
        now = time.perf_counter()
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return now

    def next(self) -> tuple[dict[str, Any], float]:
        """The next event but those of the network, and when it came.

        Raises WorkerFailedError where the worker ends without one.
        """
        assert self._process.stdout is not None
        for line in self._process.stdout:
            now = time.perf_counter()
            event = json.loads(line)
            if event["event"] != "network":
                return event, now
            self.network.append(event["address"])
        self._process.wait()
        raise WorkerFailedError(self._said() or f"exit code {self._process.returncode}")

    def _said(self) -> str:
        return self._errors.read_text("utf-8", "replace").strip()[-2000:]

    def _finish(self) -> int:
        """Wait for its end; the exit code."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        for line in self._process.stdout:
            event = json.loads(line)
            if event["event"] == "network":
                self.network.append(event["address"])
        code = self._process.wait()
        self._process.stdout.close()
        self._ended.set()
        self._alarm.cancel()
        self._watch.join()
        return code

    def _look(self) -> None:
        try:
            process = psutil.Process(self._process.pid)
            while True:
                self.peak_mb = max(self.peak_mb, _resident(process) / 1e6)
                if self._ended.wait(INTERVAL):
                    return
        except psutil.NoSuchProcess:
            return


def _resident(process: psutil.Process) -> int:
    total = process.memory_info().rss
    for child in process.children(recursive=True):
        try:
            total += child.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total
