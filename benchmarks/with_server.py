"""`search` and `ask` as commands of their own, and with `localrag serve` running: time and memory.

    python benchmarks/with_server.py LIBRARY [-n 9]

Each question is asked once before anything is measured, so that what was read for it is kept in
the library: then in turn, with the server and with --no-server. Linux and macOS.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

QUESTIONS = (
    "Who presented the perceptron, and when?",
    "By what score did Deep Blue defeat Garry Kasparov?",
    "图灵测试是谁提出的？",
)
UNIT = 1 if sys.platform == "darwin" else 1024
"""Bytes in a unit of `ru_maxrss`."""


def measured(*words: str) -> tuple[float, float, float]:
    """Seconds to the first byte of the result and to the end, and the most memory in megabytes."""
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "localrag", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    with process.stdout as out:
        assert out.read(1), words
        first = time.perf_counter() - started
        out.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, words
    return first, time.perf_counter() - started, used.ru_maxrss * UNIT / 1e6


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", type=Path)
    parser.add_argument("-n", type=int, default=9)
    parser.add_argument("--port", default="8931")
    given = parser.parse_args()
    at = ("--library", str(given.library))
    found: dict[tuple[str, str], list[tuple[float, float, float]]] = defaultdict(list)
    for question in QUESTIONS:
        measured(*at, "ask", question, "--no-server")
    server = subprocess.Popen(
        [sys.executable, "-m", "localrag", *at, "serve", "--port", given.port],
        stdout=subprocess.PIPE,
    )
    assert server.stdout is not None
    try:
        server.stdout.readline()
        for question in QUESTIONS:  # models are loaded, as in a server that somebody has used
            measured(*at, "ask", question)
        for command in ("search", "ask"):
            for number in range(given.n):
                question = QUESTIONS[number % len(QUESTIONS)]
                for way in ("--no-server", "with a server"):
                    words = (command, question, *([way] if way.startswith("--") else []))
                    found[command, way].append(measured(*at, *words))
    finally:
        server.terminate()
        server.wait()
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * UNIT / 1e6
    print("| command | first word, s | all, s | its memory, MB |\n|---|---|---|---|")
    for (command, way), runs in found.items():
        first, whole, memory = (statistics.median(each) for each in zip(*runs, strict=True))
        print(f"| `{command}` {way} | {first:.2f} | {whole:.2f} | {memory:.0f} |")
    print(f"\nThe largest process took {most:.0f} MB.")


if __name__ == "__main__":
    main()
