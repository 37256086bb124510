"""Character accuracy, seconds and peak memory of text recognition, beside tesseract and ocrmypdf.

    python benchmarks/ocr.py PDF... [--pages 3,5] [--turns 0,90,180,270] [--others]

Pages of PDFs with text are drawn at 200 dpi, turned, and read again as scans, each a file of its
own, by the reading process of localrag. With `--others` also by `tesseract` (with `--psm 1`, which
finds the rotation) and by `ocrmypdf --rotate-pages`, with the languages chi_sim+eng, one thread
each. Seconds are the processor's. Accuracy is one less the edits (of single characters) by length
of the page's own text; both without spaces, and folded: width, case and traditional forms do not
count.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil
import pymupdf

from localrag.documents.files import parse_file
from localrag.documents.worker import ParsingProcess
from localrag.text.normalize import clean, fold

LANGUAGES = "chi_sim+eng"
ONE_THREAD = {**os.environ, "OMP_THREAD_LIMIT": "1"}


def plain(text: str) -> str:
    return "".join(fold(clean(text)).split())


def edits(one: str, other: str) -> int:
    """Levenshtein's distance, a row at a time."""
    codes = np.array([ord(c) for c in other])
    steps = np.arange(len(other) + 1)
    row = steps
    for number, character in enumerate(one, 1):
        best = np.minimum(row[:-1] + (codes != ord(character)), row[1:] + 1)
        row = np.minimum.accumulate(np.concatenate([[number], best]) - steps) + steps
    return int(row[-1])


Outcome = tuple[str, float, float]
"""Text, seconds of processor time, most memory in MiB."""


def localrag(process: ParsingProcess) -> Callable[[Path, Path], Outcome]:
    """Reads in the process, which is watched ten times a second."""

    def read(scan: Path, _: Path) -> Outcome:
        peak, done = 0, threading.Event()

        def watch() -> None:
            nonlocal peak
            while not done.wait(0.1):
                for child in psutil.Process().children():
                    with suppress(psutil.Error):
                        peak = max(peak, child.memory_info().rss)

        before = spent()
        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            text = process(scan, scan.read_bytes()).text
        finally:
            done.set()
            watcher.join()
        return text, spent() - before, peak / 2**20

    return read


def spent() -> float:
    return sum(sum(child.cpu_times()[:2]) for child in psutil.Process().children())


def run(*command: str) -> Outcome:
    program = (
        "import resource, subprocess, sys\n"
        "done = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)\n"
        "sys.stdout.buffer.write(done.stdout)\n"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "print(used.ru_utime + used.ru_stime, used.ru_maxrss, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *command], capture_output=True, env=ONE_THREAD, check=True
    )
    seconds, kilobytes = map(float, done.stderr.split()[-2:])
    return done.stdout.decode("utf-8", "replace"), seconds, kilobytes / 1024


def tesseract(_: Path, picture: Path) -> Outcome:
    return run("tesseract", str(picture), "-", "-l", LANGUAGES, "--psm", "1")


def ocrmypdf(scan: Path, _: Path) -> Outcome:
    out = scan.with_suffix(".out.pdf")
    options = ("-l", LANGUAGES, "--rotate-pages", "--jobs", "1", "--output-type", "pdf", "--quiet")
    _said, seconds, peak = run("ocrmypdf", *options, str(scan), str(out))
    if not out.exists():
        return "", seconds, peak
    with pymupdf.open(out) as document:
        return "".join(page.get_text() for page in document), seconds, peak


def scanned(page: pymupdf.Page, turn: int, folder: Path) -> tuple[Path, Path]:
    """The page turned clockwise, as a picture and as a PDF of it."""
    matrix = pymupdf.Matrix(200 / 72, 200 / 72).prerotate(turn)
    pixmap = page.get_pixmap(matrix=matrix, alpha=False)
    pixmap.set_dpi(200, 200)
    picture, scan = folder / "page.png", folder / "page.pdf"
    pixmap.save(picture)
    with pymupdf.open() as document:
        sheet = document.new_page(width=pixmap.width * 0.36, height=pixmap.height * 0.36)
        sheet.insert_image(sheet.rect, filename=picture)
        document.save(scan)
    return scan, picture


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pdf", nargs="+", type=Path)
    parser.add_argument("--pages", default="3,5")
    parser.add_argument("--turns", default="0,90,180,270")
    parser.add_argument("--others", action="store_true")
    arguments = parser.parse_args()
    process = ParsingProcess()
    readers: dict[str, Callable[[Path, Path], Outcome]] = {"localrag": localrag(process)}
    if arguments.others:
        readers |= {"tesseract": tesseract, "ocrmypdf": ocrmypdf}
    print("| file | page | turn | reader | characters | accuracy | s | MB |")
    print("|---|---|---|---|---|---|---|---|")
    for path in arguments.pdf:
        truths = parse_file(path).pages
        document = pymupdf.open(path)
        for number in map(int, arguments.pages.split(",")):
            truth = plain(truths[number - 1].text)
            for turn in map(int, arguments.turns.split(",")):
                with tempfile.TemporaryDirectory() as folder:
                    scan, picture = scanned(document[number - 1], turn, Path(folder))
                    for name, read in readers.items():
                        text, took, peak = read(scan, picture)
                        share = 1 - edits(truth, plain(text)) / len(truth)
                        row = (path.stem, number, turn, name, len(truth), f"{share:.4f}")
                        cells = map(str, (*row, f"{took:.1f}", f"{peak:.0f}"))
                        print(f"| {' | '.join(cells)} |", flush=True)
    process.close()


if __name__ == "__main__":
    main()
