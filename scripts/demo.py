"""From a clean clone to two answered questions: set up, pull models, build a library, ask.

    python3 scripts/demo.py

A second run re-uses everything that is there.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

from environment import ROOT, models_folder, ready

LIBRARY = ROOT / ".demo" / "library"
QUESTIONS = (
    "感知机是谁在哪一年提出的？",
    "What was ELIZA, and who wrote it?",
)


def main() -> None:
    """Run every step, printing its time."""
    times: list[tuple[str, float]] = []

    def step(title: str, *arguments: str) -> None:
        print(f"\n── {title}\n$ localrag {' '.join(arguments)}", flush=True)
        started = time.monotonic()
        command = [str(python), "-m", "localrag", *arguments]
        environment = os.environ | {"LOCALRAG_MODELS": str(models_folder())}
        done = subprocess.run(command, env=environment, cwd=ROOT, check=False)
        times.append((title, time.monotonic() - started))
        if done.returncode:
            sys.exit(done.returncode)

    started = time.monotonic()
    python = ready()
    times.append(("Install", time.monotonic() - started))
    step("Pull models", "models", "pull", "starter")
    step("Build a library", "add", "data", "--library", str(LIBRARY.relative_to(ROOT)))
    for question in QUESTIONS:
        step(question, "ask", question, "--library", str(LIBRARY.relative_to(ROOT)))

    print("\n── Time")
    for title, seconds in times:
        print(f"{seconds:8.1f} s  {title}")


if __name__ == "__main__":
    main()
