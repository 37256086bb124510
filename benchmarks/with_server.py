"""`search` and `ask` as commands of their own, and with `localrag serve` running: time and memory.

    python benchmarks/with_server.py LIBRARY [--searches 9] [--asks 5]

In turn with --no-server and with a server whose models are loaded; a question is asked once in each
way, so that neither has read its passages before. Linux and macOS.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

WARM_UP = "What is a language model?"
QUESTIONS = (
    "Who presented the perceptron, and when?",
    "图灵测试是谁提出的？",
    "By what score did Deep Blue defeat Garry Kasparov?",
    "什么是反向传播？",
    "What did AlphaGo do in 2016?",
)
UNIT = 1 if sys.platform == "darwin" else 1024
"""Bytes in a unit of `ru_maxrss`."""


def measured(*words: str) -> tuple[float, ...]:
    """Seconds to the first byte of the result, to the end, of its processor; most memory in MB."""
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
    whole = time.perf_counter() - started
    return first, whole, used.ru_utime + used.ru_stime, used.ru_maxrss * UNIT / 1e6


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", type=Path)
    parser.add_argument("--searches", type=int, default=9)
    parser.add_argument("--asks", type=int, default=len(QUESTIONS))
    parser.add_argument("--port", default="8931")
    given = parser.parse_args()
    at = ("--library", str(given.library))
    found: dict[tuple[str, str], list[tuple[float, ...]]] = defaultdict(list)
    server = subprocess.Popen(
        [sys.executable, "-m", "localrag", *at, "serve", "--port", given.port],
        stdout=subprocess.PIPE,
    )
    assert server.stdout is not None
    try:
        server.stdout.readline()
        measured(*at, "ask", WARM_UP)
        for command, times in (("search", given.searches), ("ask", given.asks)):
            for number in range(times):
                question = QUESTIONS[number % len(QUESTIONS)]
                for way in ("--no-server", "with a server"):
                    words = (command, question, *([way] if way.startswith("--") else []))
                    found[command, way].append(measured(*at, *words))
    finally:
        server.terminate()
        server.stdout.close()
        _, status, used = os.wait4(server.pid, 0)
        server.returncode = os.waitstatus_to_exitcode(status)
    print("| command | first word, s | all, s | its processor, s | its memory, MB |")
    print("|---|---|---|---|---|")
    for (command, way), runs in found.items():
        first, whole, own, memory = (statistics.median(each) for each in zip(*runs, strict=True))
        print(f"| `{command}` {way} | {first:.2f} | {whole:.2f} | {own:.2f} | {memory:.0f} |")
    print(f"\nThe server took {used.ru_maxrss * UNIT / 1e6:.0f} MB.")


if __name__ == "__main__":
    main()
