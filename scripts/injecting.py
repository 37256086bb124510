"""Faults at system calls of a running process, by strace: an error, or the end of the process.

strace counts the calls of each thread and of each name by itself: what shall happen at every call
is asked of one name after another.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

DATA = "write,pwrite64,writev,pwritev,copy_file_range,sendfile,ftruncate,fallocate"
SYNC = "fsync,fdatasync"
NAMES = "rename,renameat,renameat2,unlink,unlinkat,rmdir,mkdir,mkdirat,link,linkat"
WRITES = f"{DATA},{SYNC},{NAMES}"
"""System calls with which a process changes what is on disk."""

NEVER = 65_535
"""The number of a call that none of ours reaches, and the highest that strace takes."""

PATIENCE = 60.0
"""Seconds for strace to get hold of a process."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens at a process's calls: `error` once, or from then on, or the end."""

    name: str
    calls: str
    what: str
    lasting: bool = False

    def each(self) -> list[Fault]:
        """The same at the calls of one name each; what lasts is a fault of all together."""
        if self.lasting:
            return [self]
        return [replace(self, calls=call) for call in self.calls.split(",")]

    def expression(self, number: int) -> str:
        """What strace takes: the fault at the `number`th of these calls."""
        return f"inject={self.calls}:{self.what}:when={number}{'+' if self.lasting else ''}"


FAULTS = (
    Fault("full disk", f"{DATA},{SYNC},mkdir,mkdirat", "error=ENOSPC", lasting=True),
    Fault("failing disk", WRITES, "error=EIO"),
    Fault("read-only", f"{WRITES},openat", "error=EROFS", lasting=True),
    Fault("kill", WRITES, "signal=KILL"),
)


def reason_not() -> str:
    """Why faults cannot be injected here; "" where they can."""
    if sys.platform != "linux":
        return "only on Linux: strace"
    if shutil.which("strace") is None:
        return "only where strace is installed"
    done = subprocess.run(
        ["strace", "-o", os.devnull, "-e", "trace=none", "true"], capture_output=True, check=False
    )
    return "" if done.returncode == 0 else "only where a process may be traced"


@dataclass(frozen=True, slots=True)
class Injected:
    """What strace saw: calls that the fault hit, which was the first, and how many of each name."""

    count: int
    first: str
    calls: Counter[str]


class Injection:
    """strace on a process that has stopped itself."""

    def __init__(self, pid: int, fault: Fault, number: int) -> None:
        """Let the process go on, with the fault at the `number`th call."""
        handle, name = tempfile.mkstemp(prefix="localrag-strace-")
        os.close(handle)
        self._log = Path(name)
        _wait_until(lambda: _state(pid) in "TZ")
        self._strace = subprocess.Popen(
            [
                *("strace", "-f", "-q", "-p", str(pid), "-o", name),
                *("-e", f"trace={fault.calls}", "-e", fault.expression(number)),
            ],
            stderr=subprocess.DEVNULL,
        )
        _wait_until(lambda: _traced(pid) or self._strace.poll() is not None)
        os.kill(pid, signal.SIGCONT)

    def finish(self) -> Injected:
        """What happened, once the process has ended."""
        self._strace.wait()
        text = self._log.read_text(encoding="utf-8", errors="replace")
        self._log.unlink()
        hit = [line for line in text.splitlines() if "(INJECTED)" in line]
        killed = re.search(r"^.*\n(?=.*\+\+\+ killed by SIGKILL)", text, re.MULTILINE)
        if not hit and killed:
            hit = [killed[0]]
        found = re.search(r"\b([a-z0-9_]+)\((.*)", hit[0]) if hit else None
        calls = Counter(re.findall(r"^\d+ +([a-z0-9_]+)\(", text, re.MULTILINE))
        return Injected(len(hit), f"{found[1]}({found[2]}"[:160] if found else "", calls)


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def _traced(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return True
    return re.search(r"^TracerPid:\t[1-9]", status, re.MULTILINE) is not None


def _wait_until(condition) -> None:  # type: ignore[no-untyped-def]
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("strace did not get hold of the process")
        time.sleep(0.002)
