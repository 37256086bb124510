"""The command line as a program of its own, as a person runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping


def run_program(
    *arguments: str,
    variables: Mapping[str, str],
    typed: str | None = None,
    python: tuple[str, ...] = (),
) -> subprocess.CompletedProcess[str]:
    """Run `localrag` to its end with these variables, `python` being options of the interpreter."""
    return subprocess.run(
        [sys.executable, *python, "-m", "localrag", *arguments],
        env=os.environ | dict(variables),
        input=typed,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=300,
    )
