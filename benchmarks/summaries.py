"""Summaries of long documents: are the right places cited, and what does the model write of them?

    python benchmarks/summaries.py chosen QMSUM [--half even] [--sentences 30] [--passages 40] ...
    python benchmarks/summaries.py written FILE... [--about TOPIC] [--seconds 120]

QMSUM has `questions.jsonl` and `transcripts/` of meetings. `chosen` needs no language model. For
each question with spans of lines that its reference summary rests on, sentences are chosen about
the question, from the one meeting, and held against the spans: a span is found where a sentence is
from it (`spans`); long ones are also cut into pieces of ten lines (`pieces`); `within` is the share
of sentences that are from any span. Beside it five passages of the search, whole (`five passages`),
and the sentence of each that is closest to the question (`five sentences`), and as many sentences
as are chosen, spread evenly (`even`). Meetings are halved by their order, so that what is set on
one half is read off the other.

`written` lets the model write, and counts sentences: those whose words all stand in their quotation
(`quoted`, the document's own among them), those that it was asked about (`asked`), and those of the
model that had no support (`replaced`). Results are in log/2026-11.md.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import fmean
from typing import NamedTuple
from unittest.mock import patch

from localrag import LocalRAG
from localrag.library.catalogue.filters import Filter
from localrag.library.records import DocumentRecord
from localrag.rag.citations import Attributor
from localrag.summaries import choosing, documents
from localrag.summaries.records import SectionDone, Summary, SummaryBegun

PIECE = 10
"""Lines of a piece of a span."""
HALVES = ("even", "odd", "both")
Span = tuple[int, int]


class Question(NamedTuple):
    """A question to a meeting, and the code points of it that a good summary rests on."""

    text: str
    meeting: str
    spans: list[Span]
    pieces: list[Span]


class Score(NamedTuple):
    """What cited places come to; `places` and `length` in places and code points."""

    spans: float
    pieces: float
    within: float
    places: int
    length: int


def offsets(text: str, transcript: str) -> list[Span]:
    """Where each line of a transcript stands in the text that was read of it."""
    found, done = [], 0
    for line in transcript.split("\n"):
        at = text.find(line.strip(), done)
        start = done if at < 0 else at
        done = start + len(line.strip()) * (at >= 0)
        found.append((start, done))
    return found


def questions(folder: Path, half: str, texts: dict[str, str]) -> Iterator[Question]:
    """Those with spans about the meetings of a half."""
    rows = [json.loads(line) for line in (folder / "questions.jsonl").open(encoding="utf-8")]
    names = sorted({row["meeting"] for row in rows})
    chosen = names if half == "both" else names[half == "odd" :: 2]
    for row in rows:
        if not row["spans"] or row["meeting"] not in chosen:
            continue
        name = Path(row["meeting"]).name
        lines = offsets(texts[name], (folder / row["meeting"]).read_text("utf-8"))
        runs = [(first, min(last, len(lines) - 1)) for first, last in row["spans"]]
        pieces = [
            (at, min(at + PIECE - 1, last))
            for first, last in runs
            for at in range(first, last + 1, PIECE)
        ]
        spans, parts = (
            [(lines[first][0], lines[last][1]) for first, last in some] for some in (runs, pieces)
        )
        yield Question(row["question"], name, spans, parts)


def touched(wanted: Sequence[Span], places: Sequence[Span]) -> list[bool]:
    """Which of the wanted spans a place is in, at least in part."""
    return [any(a < end and start < b for a, b in places) for start, end in wanted]


def score(question: Question, places: Sequence[Span]) -> Score:
    """How the places answer to the spans of a question."""
    within = touched(places, question.spans)
    return Score(
        fmean(touched(question.spans, places)),
        fmean(touched(question.pieces, places)),
        fmean(within) if within else 0.0,
        len(places),
        sum(b - a for a, b in places),
    )


def cited(summary: Summary) -> list[Span]:
    """The code points that a summary cites."""
    return [
        (mark.citation.place.start, mark.citation.place.start + len(mark.citation.quote))
        for document in summary.documents
        for section in document.sections
        for statement in section.statements
        for mark in statement.citations
        if mark.citation.place
    ]


def ways(
    rag: LocalRAG, record: DocumentRecord, question: Question
) -> Iterator[tuple[str, list[Span]]]:
    """Each way to choose, and the places that it comes to."""
    begun = next(rag.engine.summarise([record.sources[0]], question.text))
    assert isinstance(begun, SummaryBegun)
    chosen = cited(begun.summary)
    yield "summary", chosen
    within = Filter(within=frozenset(record.sources))
    hits = rag.engine.retrieve(question.text, 5, within)
    yield "five passages", [(hit.chunk.start, hit.chunk.end) for hit in hits]
    attributor = Attributor(hits, rag.engine.tokenizer, rag.engine._place_of, rag.embedder)
    quotes = [attributor.cite(marker, question.text) for marker in range(1, len(hits) + 1)]
    yield (
        "five sentences",
        [
            (quote.place.start, quote.place.start + len(quote.quote))
            for quote in quotes
            if quote.place
        ],
    )
    mean = sum(b - a for a, b in chosen) // max(1, len(chosen))
    steps = [record.length * at // max(1, len(chosen)) for at in range(len(chosen))]
    yield "even", [(step, step + mean) for step in steps]


def choose(rag: LocalRAG, folder: Path, half: str) -> dict[str, list[Score]]:
    """The scores of each way, question by question."""
    rag.add([folder / "transcripts"])
    records = {Path(record.sources[0]).name: record for record in rag.library.documents()}
    texts = {name: rag.library.text(each.id, 0, each.length) for name, each in records.items()}
    scores = defaultdict(list)
    for question in questions(folder, half, texts):
        for way, places in ways(rag, records[question.meeting], question):
            scores[way].append(score(question, places))
    return scores


def write(rag: LocalRAG, files: Sequence[Path], about: str, seconds: float) -> None:
    """Let the model write about each file, and print what came of it."""
    rag.add(files)
    for file in files:
        started, processor = time.perf_counter(), time.process_time()
        first = 0.0

        def hear(event: object, started: float = started) -> None:
            nonlocal first
            if isinstance(event, SummaryBegun):
                first = time.perf_counter() - started
            elif isinstance(event, SectionDone):
                texts = (each.written for each in event.section.statements)
                print(f"  {event.section.state}: {''.join(texts).strip()}", flush=True)

        summary = rag.summarise([file.name], about=about, seconds=seconds, on_event=hear)
        sections = [each for document in summary.documents for each in document.sections]
        written = [each for each in sections if each.state == "written"]
        statements = [each for section in written for each in section.statements]
        replaced = sum(section.replaced for section in written)
        own = sum(each.quoted for each in statements)
        print(
            f"{file.name}: {len(written)} of {len(sections)} sections written, {len(statements)} "
            f"sentences: {own} quoted, {len(statements) - own} asked, {replaced} "
            f"replaced; with a citation {sum(bool(each.citations) for each in statements)}, "
            f"outline {first:.1f} s, all {time.perf_counter() - started:.1f} s, "
            f"processor {time.process_time() - processor:.1f} s"
        )


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--work", type=Path, help="where the library is kept")
    commands = parser.add_subparsers(dest="command", required=True)
    chosen = commands.add_parser("chosen")
    chosen.add_argument("folder", type=Path)
    chosen.add_argument("--half", choices=HALVES, default="both")
    chosen.add_argument("--sentences", type=int, default=choosing.MOST_SENTENCES)
    chosen.add_argument("--passages", type=int, default=documents.TOPIC_PASSAGES)
    chosen.add_argument("--alike", type=float, default=choosing.ALIKE)
    chosen.add_argument("--shared", type=float, default=choosing.SHARED)
    chosen.add_argument("--ranked", type=float, default=choosing.RANKED)
    chosen.add_argument("--beside", type=float, default=documents.BESIDE)
    chosen.add_argument("--about", type=float, default=choosing.ABOUT)
    written = commands.add_parser("written")
    written.add_argument("files", type=Path, nargs="+")
    written.add_argument("--about", default="")
    written.add_argument("--seconds", type=float, default=120.0)
    asked = parser.parse_args()
    with ExitStack() as stack:
        work = asked.work or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        rag = stack.enter_context(LocalRAG.open(work / "library"))
        if asked.command == "written":
            write(rag, asked.files, asked.about, asked.seconds)
            return
        changes = {
            name: getattr(asked, name.lower()) for name in ("ALIKE", "SHARED", "RANKED", "ABOUT")
        }
        stack.enter_context(patch.multiple(choosing, **changes))
        stack.enter_context(
            patch.multiple(
                documents,
                MOST_SENTENCES=asked.sentences,
                TOPIC_PASSAGES=asked.passages,
                BESIDE=asked.beside,
            )
        )
        for way, scores in choose(rag, asked.folder, asked.half).items():
            means = Score(*map(fmean, zip(*scores, strict=True)))  # type: ignore[arg-type]
            print(
                f"{way:15} spans {means.spans:.3f}  pieces {means.pieces:.3f}  within "
                f"{means.within:.3f}  places {means.places:.1f}  characters {means.length:.0f}  "
                f"questions {len(scores)}"
            )


if __name__ == "__main__":
    main()
