"""The time of an answer in two versions of localrag, question by question in turn.

    python benchmarks/answer_time.py SET WORK BEFORE AFTER [--mode self-rag] [--questions 12]

SET is a retrieval set with answers (`corpus.jsonl`, `queries.jsonl`, `qrels.tsv`), BEFORE and AFTER
are the Pythons of two environments, each with its own version installed. Each version makes a
library of its own in WORK, once, and one process holds it open; `--skip` leaves out questions that
were used before. Prints medians, their ratio and its interval by bootstrap over the questions.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

WORKER = """
import json, sys, time
from pathlib import Path
from localrag import LocalRAG
files, library, mode = sys.argv[1:]
said = sys.stdout
sys.stdout = sys.stderr
with LocalRAG.open(library) as rag:
    if not rag.library.counts().documents:
        rag.add([files])
    rag.model, rag.embedder
    list(rag.search("warm"))
    print("{}", file=said, flush=True)
    for line in sys.stdin:
        began, first = time.perf_counter(), None
        for piece in rag.stream(json.loads(line), mode=mode):
            if isinstance(piece, str):
                if first is None and piece.strip():
                    first = time.perf_counter() - began
            else:
                answer = piece
        full = time.perf_counter() - began
        told = {"first": first or full, "full": full, "text": answer.text}
        print(json.dumps(told), file=said, flush=True)
"""


class Version:
    """A process that answers with one version of localrag."""

    def __init__(self, python: str, files: Path, library: Path, mode: str) -> None:
        self._process = subprocess.Popen(
            [python, "-c", WORKER, str(files), str(library), mode],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=library.parent,  # not a checkout: what is installed answers
            env=os.environ | {"PYTHONUTF8": "1"},
        )
        self._next()

    def ask(self, question: str) -> dict[str, Any]:
        """Seconds to the `first` piece and of the `full` answer, and its `text`."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return self._next()

    def _next(self) -> dict[str, Any]:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            sys.exit(f"A version ended with code {self._process.wait()}; see above.")
        return dict(json.loads(line))

    def end(self) -> None:
        """Let it close its library."""
        self._process.communicate()


def main() -> None:
    """Ask both, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("set", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("versions", nargs=2, metavar="PYTHON")
    parser.add_argument("--mode", default="standard", choices=("standard", "self-rag"))
    parser.add_argument("--questions", type=int, default=12)
    parser.add_argument("--skip", type=int, default=0)
    arguments = parser.parse_args()
    work: Path = arguments.work.resolve()
    files = work / "files"
    if not files.exists():
        files.mkdir(parents=True)
        for row in rows(arguments.set / "corpus.jsonl"):
            (files / f"{row['id']}.txt").write_text(row["text"], encoding="utf-8")
    asked = [row for row in rows(arguments.set / "queries.jsonl") if row.get("answers")]
    random.Random(16).shuffle(asked)
    asked = asked[arguments.skip : arguments.skip + arguments.questions]
    sides = [
        Version(python, files, work / f"library-{number}", arguments.mode)
        for number, python in enumerate(arguments.versions)
    ]
    pairs: list[list[dict[str, Any]]] = []
    for number, row in enumerate(asked):
        told: list[dict[str, Any]] = [{}, {}]
        for side in (0, 1) if number % 2 == 0 else (1, 0):
            told[side] = sides[side].ask(row["text"])
            told[side]["f1"] = f1_of(told[side]["text"], row["answers"])
        pairs.append(told)
        print(
            f"{number + 1}/{len(asked)}  first {told[0]['first']:.1f} -> {told[1]['first']:.1f} s, "
            f"full {told[0]['full']:.1f} -> {told[1]['full']:.1f} s",
            flush=True,
        )
    for side in sides:
        side.end()
    for what in ("first", "full"):
        print(what, *ratio([[one[what] for one in pair] for pair in pairs]))
    differences = [pair[1]["f1"] - pair[0]["f1"] for pair in pairs]
    low, high = interval(differences, statistics.fmean)
    print(f"F1 {statistics.fmean(differences):+.3f} [{low:.3f}, {high:.3f}]")


def rows(file: Path) -> list[dict[str, Any]]:
    """Of a file of JSON lines."""
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def f1_of(text: str, answers: Sequence[str]) -> float:
    """As SQuAD and CMRC 2018 have it, against the best reference."""
    from localrag.evaluation.answer_metrics import f1

    return max(f1(text, each) for each in answers)


def ratio(pairs: Sequence[Sequence[float]]) -> list[str]:
    """Medians of both, their ratio, its interval."""

    def of(some: Sequence[Sequence[float]]) -> float:
        return statistics.median(new for _, new in some) / statistics.median(old for old, _ in some)

    old, new = (statistics.median(column) for column in zip(*pairs, strict=True))
    low, high = interval(pairs, of)
    return [f"{old:.1f} -> {new:.1f} s,", f"ratio {of(pairs):.2f} [{low:.2f}, {high:.2f}]"]


def interval(values: Sequence[Any], statistic: Callable[[Sequence[Any]], float]) -> list[float]:
    """95%, by 10,000 resamples."""
    chance = random.Random(0)
    found = sorted(statistic(chance.choices(values, k=len(values))) for _ in range(10_000))
    return [found[250], found[9749]]


if __name__ == "__main__":
    main()
