"""Running pip and the compilers as programs: every line heard, and all of them ended with us."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Mapping
from importlib.util import find_spec

from localrag.egress import proxies
from localrag.errors import BundleError
from localrag.system import processes

_KEPT = 400


def run(
    command: list[str],
    *,
    variables: Mapping[str, str] | None = None,
    hear: Callable[[str], None] = lambda _: None,
) -> tuple[int, list[str]]:
    """Run a program; returns its exit code and the last lines that it printed.

    `hear` gets every line. Whatever ends us, Ctrl-C as well, ends the program and all
    that it started: a compiler must not go on in the background.
    """
    process = processes.start(
        command,
        processes.COMPILING,
        # For pip, and for the programs that it starts in its turn.
        variables=proxies.named() | {"PYTHONIOENCODING": "utf-8"} | dict(variables or {}),
        stdout=processes.PIPE,
        stderr=processes.OUTPUT,
    )
    last: deque[str] = deque(maxlen=_KEPT)
    with process:
        try:
            for line in process.stdout or ():
                last.append(line.decode("utf-8", "replace").rstrip("\r\n"))
                hear(last[-1])
            return process.wait(), list(last)
        except BaseException:
            processes.end(process)
            raise


def run_pip(
    *arguments: str,
    variables: Mapping[str, str] | None = None,
    hear: Callable[[str], None] = lambda _: None,
) -> tuple[int, list[str]]:
    """Run pip as the user has configured it. Raises `BundleError` where there is none."""
    if find_spec("pip") is None:
        raise BundleError(
            "pip is not installed for {python}, and creating bundles needs it.",
            hint="Install it with: {python} -m ensurepip",
            python=sys.executable,
        )
    # Notices of a newer pip and questions on the terminal would only be in the way.
    quiet = ("--disable-pip-version-check", "--no-input")
    command = processes.module("pip", *quiet, *arguments)
    return run(command, variables=variables, hear=hear)


def build_options(*modules: str) -> list[str]:
    """The option with which pip builds with these as they are installed, where all are.

    Left to itself, pip fetches what builds anew, in versions and files that nobody looked at.
    """
    return ["--no-build-isolation"] if all(find_spec(name) for name in modules) else []
