"""Do the sentences that are told in place of a verdict settle a question that wants yes or no?

    python benchmarks/whether.py [WORK] [--cases 20]

`whether/cases.jsonl`: passages with a question to which they say yes or no, written by people who
knew no rule of this project, and which of the sentences settle it by themselves or together
(`[[2], [3, 4]]`, from 1), by somebody who knew no way of choosing them. By language, the share that
is settled by the first so many sentences of `Attributor.nearest_sentences`, beside the share of
its words alone and what a draw would give. No language model is asked.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import defaultdict
from itertools import combinations
from pathlib import Path
from statistics import fmean

import msgspec
from folders import read
from probes import squeezed

from localrag import LocalRAG
from localrag.config.settings import Settings
from localrag.models.embeddings.joined import general
from localrag.rag.citations import Attributor
from localrag.text.language import answer_language
from localrag.text.sentences import split_sentences
from localrag.types import Place

CASES = Path(__file__).parent / "whether" / "cases.jsonl"
MOST = 3
"""Sentences that are looked at."""


class Case(msgspec.Struct):
    """A question about a passage, with the numbers of the sentences that settle it, from 1."""

    group: str
    heading: str
    text: str
    question: str
    answer: str
    settled_by: list[list[int]]


def settled(case: Case, quotes: list[str]) -> bool:
    """Whether one set of sentences that settle the question is among the quotes."""
    told = squeezed("\n".join(quotes))
    sentences = [squeezed(case.text[start:end]) for start, end in split_sentences(case.text)]
    return any(all(sentences[n - 1] in told for n in numbers) for numbers in case.settled_by)


def drawn(case: Case, count: int) -> float:
    """The share of all draws of so many sentences that settle the question."""
    numbers = range(1, len(list(split_sentences(case.text))) + 1)
    draws = list(combinations(numbers, min(count, len(numbers))))
    return fmean(any(set(own) <= set(draw) for own in case.settled_by) for draw in draws)


def measure(cases: list[Case], work: Path) -> None:
    """Print the shares by language."""
    files = {}
    for number, case in enumerate(cases):
        files[number] = work / "passages" / f"{number}.md"
        files[number].parent.mkdir(exist_ok=True)
        files[number].write_text(f"# {case.heading}\n\n{case.text}\n", encoding="utf-8")
    shares: dict[str, dict[tuple[str, int], list[float]]] = defaultdict(lambda: defaultdict(list))
    with LocalRAG.open(work / "library", settings=Settings()) as rag:
        rag.add([work / "passages"])
        engine = rag.engine
        for number, case in enumerate(cases):
            section = engine.sections_in(case.question, str(files[number]), 1, Settings())
            attributor = Attributor(
                section, engine.tokenizer, lambda *_: Place(0), general(engine.embedder)
            )
            by_language = shares[answer_language(case.question)]
            words = attributor.cite(1, case.question).quote
            by_language["words alone", 1].append(settled(case, [words]))
            for count in range(1, MOST + 1):
                nearest = attributor.nearest_sentences([1], case.question, count)
                quotes = [citation.quote for _, citation in nearest]
                by_language["nearest", count].append(settled(case, quotes))
                by_language["drawn", count].append(drawn(case, count))
    print("| language | cases | sentences | by | settled |\n|---|---|---|---|---|")
    for language, ways in shares.items():
        for (way, count), values in ways.items():
            print(f"| {language} | {len(values)} | {count} | {way} | {fmean(values):.3f} |")


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path, nargs="?")
    parser.add_argument("--cases", type=int, help="only so many of each language")
    arguments = parser.parse_args()
    cases = read(CASES, Case)
    if arguments.cases:
        half = len(cases) // 2
        cases = cases[: arguments.cases] + cases[half : half + arguments.cases]
    with tempfile.TemporaryDirectory() as scratch:
        work = arguments.work or Path(scratch)
        work.mkdir(parents=True, exist_ok=True)
        measure(cases, work)


if __name__ == "__main__":
    main()
