"""Running pip and the compilers as programs: every line heard, and all of them ended with us."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping
from importlib.util import find_spec

from localrag.errors import BundleError

_KEPT = 400
_SECONDS_TO_END = 5.0


def python(
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    hear: Callable[[str], None] = lambda _: None,
) -> tuple[int, list[str]]:
    """Run this Python with arguments; returns its exit code and the last lines that it printed.

    `hear` gets every line. Whatever ends us, Ctrl-C as well, ends the program and all
    that it started: a compiler must not go on in the background.
    """
    settings = os.environ | {"PYTHONIOENCODING": "utf-8"} | dict(environment or {})
    process = subprocess.Popen(  # noqa: S603 - no shell; callers pass lists of their own
        [sys.executable, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
        env=settings,
        start_new_session=os.name == "posix",
    )
    last: deque[str] = deque(maxlen=_KEPT)
    try:
        for line in process.stdout or ():
            last.append(line.rstrip("\n"))
            hear(last[-1])
        return process.wait(), list(last)
    except BaseException:
        _end(process)
        raise
    finally:
        if process.stdout:
            process.stdout.close()


def pip(*arguments: str, hear: Callable[[str], None] = lambda _: None) -> tuple[int, list[str]]:
    """Run pip as the user has configured it. Raises `BundleError` where there is none."""
    if find_spec("pip") is None:
        raise BundleError(
            "pip is not installed for {python}, and bundles are made with it.",
            hint="Install it with: {python} -m ensurepip",
            python=sys.executable,
        )
    # Notices of a newer pip and questions on the terminal would only be in the way.
    quiet = ("--disable-pip-version-check", "--no-input")
    return python("-m", "pip", *quiet, *arguments, hear=hear)


def reason(lines: list[str]) -> str:
    """What pip gave as the cause of a failure, shortened."""
    telling = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR:")]
    return " / ".join(dict.fromkeys(telling or lines[-3:]))[-600:].rstrip(".")


def _end(process: subprocess.Popen[str]) -> None:
    if os.name == "posix":
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(process.pid, number)
            except ProcessLookupError:
                return
            try:
                process.wait(_SECONDS_TO_END)
            except subprocess.TimeoutExpired:
                continue
    else:
        process.kill()
        process.wait()
