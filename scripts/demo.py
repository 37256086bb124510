"""From a clean clone to two answered questions: set up, pull models, build a library, ask.

And a page as a scanner would bring it, lying on its side, is read by text recognition.

    python3 scripts/demo.py
    python3 scripts/demo.py --lean      # without text recognition and PyTorch: 1.2 GB less

Where llama.cpp compiled here is faster than the prebuilt one, that follows behind the answers.
A second run re-uses everything that is there.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time

from environment import ROOT, models_folder, ready, take_own_build

LIBRARY = ROOT / ".demo" / "library"
SCAN = ROOT / ".demo" / "scan.png"
DRAW = """
import pymupdf, sys
page = pymupdf.open(sys.argv[1])[2]
page.set_rotation(90)
page.get_pixmap(dpi=150).save(sys.argv[2])
"""
QUESTIONS = (
    "感知机是谁在哪一年提出的？",
    "What was ELIZA, and who wrote it?",
)


def main() -> None:
    """Run every step, printing its time."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--lean", action="store_true", help="no text recognition, no PyTorch")
    lean = parser.parse_args().lean
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
    python = ready(lean=lean)
    times.append(("Install", time.monotonic() - started))
    step("Pull models", "models", "pull", "starter")
    library = ("--library", str(LIBRARY.relative_to(ROOT)))
    step("Build a library", "add", "data", *library)
    for question in QUESTIONS:
        step(question, "ask", question, *library)
    if not lean:
        pdf = ROOT / "data" / "ai-overview.zh.pdf"
        subprocess.run([str(python), "-c", DRAW, str(pdf), str(SCAN)], cwd=ROOT, check=True)
        step("Read a scan", "show", str(SCAN.relative_to(ROOT)), *library)

    print("\n── Time")
    for title, seconds in times:
        print(f"{seconds:8.1f} s  {title}", flush=True)
    take_own_build(python)


if __name__ == "__main__":
    main()
