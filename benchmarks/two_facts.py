"""Questions whose answer needs two facts from two passages: are both given?

    python benchmarks/two_facts.py run OUT.jsonl [--mode self-rag] [--strict] \\
        [--questions 0:64] [--kind bridge]
    python benchmarks/two_facts.py summary OUT.jsonl [OTHER.jsonl]
    python benchmarks/two_facts.py each OUT.jsonl

The questions and their passages are those of `two_facts.toml`. `run` puts every passage into one
library, each as a document, and asks; those with a variant are asked again without the passage
of their second fact. A question is a line of OUT as soon as it is done, and a run that was
stopped goes on where it was. `summary` judges without a model, by the spellings in the file; with
a second file, the paired differences, too. `each` prints every answer, to be read.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import tempfile
import time
import tomllib
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from localrag import Filter, LocalRAG
from localrag.evaluation.statistics import bootstrap_interval
from localrag.presentation.steps import decision

FILE = Path(__file__).with_suffix(".toml")
FOLLOWS = ("bridge", "condition")
"""Kinds of which the second fact is the answer, and the first one the way to it."""


@dataclass(frozen=True)
class Fact:
    """Where a fact stands, and how it may be written."""

    passage: str
    spellings: tuple[str, ...]


@dataclass(frozen=True)
class Question:
    """One to ask; `id` says whether its second passage is there."""

    id: str
    text: str
    kind: str
    facts: tuple[Fact, Fact]
    missing: bool
    conclusion: tuple[str, str, tuple[str, ...]] | None

    @property
    def language(self) -> str:
        """Of the question."""
        return "zh" if re.search("[一-龥]", self.text) else "en"


def topics() -> list[dict[str, Any]]:
    """The topics of the file."""
    read: list[dict[str, Any]] = tomllib.loads(FILE.read_text("utf-8"))["topic"]
    return read


def passages() -> dict[str, str]:
    """Every passage by its name, which is its file's, too."""
    return {
        f"{at:02}-{name}.txt": text
        for at, topic in enumerate(topics())
        for name, text in topic["passages"].items()
    }


def questions() -> Iterator[Question]:
    """Every question; one with a variant comes twice."""
    for at, topic in enumerate(topics()):
        for number, asked in enumerate(topic["questions"]):
            first, second = (Fact(f"{at:02}-{p}.txt", tuple(s)) for p, *s in asked["facts"])
            ends = "wins" in asked
            conclusion = (asked["wins"], asked["loses"], tuple(asked["words"])) if ends else None
            for missing in (False, True)[: 1 + asked.get("missing", False)]:
                name = f"{at:02}-{number}{'-missing' if missing else ''}"
                kind, text = asked["kind"], asked["ask"]
                yield Question(name, text, kind, (first, second), missing, conclusion)


# -- run ----------------------------------------------------------------------------


def run(out: Path, mode: str, wanted: str, kind: str | None, *, strict: bool) -> None:
    """Ask what OUT does not hold yet."""
    done = {row["id"] for row in rows(out)} if out.exists() else set()
    begin, end = (int(each) if each else None for each in wanted.split(":"))
    texts = passages()
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalRAG.open(Path(folder, "library")) as rag,
        out.open("a", encoding="utf-8") as file,
    ):
        files = Path(folder, "files")
        files.mkdir()
        for name, text in texts.items():
            (files / name).write_bytes(text.encode())
        report = rag.add([files])
        assert not report.failed, report.failed
        for question in list(questions())[begin:end]:
            if question.id in done or kind not in (None, question.kind):
                continue
            left_out = texts[question.facts[1].passage] if question.missing else None
            started = time.perf_counter()
            answer = rag.ask(
                question.text,
                mode=mode,
                strict=strict,
                filter=None if left_out is None else Filter(without=frozenset({sha256(left_out)})),
            )
            row = {
                "id": question.id,
                "question": question.text,
                "text": answer.text,
                "grounded": answer.grounded,
                "seconds": round(time.perf_counter() - started, 1),
                "read": [PurePath(found.source).name for found in answer.contexts],
                "cited": [PurePath(citation.source).name for citation in answer.citations],
                "steps": [
                    {"kind": step.kind, "decision": decision(step, "en"), "score": step.score}
                    for step in answer.trace
                ],
            }
            print(json.dumps(row, ensure_ascii=False), file=file, flush=True)


def sha256(text: str) -> str:
    """The id of the document that holds nothing but this text."""
    return hashlib.sha256(text.encode()).hexdigest()


# -- summary ------------------------------------------------------------------------


def rows(path: Path) -> list[dict[str, Any]]:
    """What a run has written so far."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


_MARKER = re.compile(r"\s*\[\d+\]")
_SAY = "(?:say|contain|mention|state|specify|provide|give|include)"
_ABSENT = re.compile(
    rf"\b(?:do|does|did) not {_SAY}|\b(?:don't|doesn't) {_SAY}"
    r"|\bno (?:information|mention|data)\b"
    r"|\bnot (?:mentioned|stated|given|provided|specified|known)"
    r"|未(?:提及|说明|提到|给出|注明|记载|提供)"
    r"|没有(?:提及|说明|提到|给出|说到|说|记载|提供|找到|关于|相关|写)"
    r"|无法(?:确定|得知|判断)|不(?:清楚|详|明确)|(?:查|找)不到"
)


def plain(text: str) -> str:
    """Text as it is compared: full-width as half-width, no case, no blanks beside Chinese."""
    folded = unicodedata.normalize("NFKC", _MARKER.sub("", text)).casefold()
    return re.sub(r"(?<=[^\x00-\x7f])\s+|\s+(?=[^\x00-\x7f])", "", folded)


def says(text: str, spelling: str) -> bool:
    """Whether the text has this spelling; a number is no part of a longer one."""
    wanted = re.escape(plain(spelling))
    before = r"(?<![\d.,])" if spelling[0].isdigit() else ""
    after = r"(?![.,]?\d)" if spelling[-1].isdigit() else ""
    return bool(re.search(before + wanted + after, plain(text)))


def holds(text: str, fact: Fact) -> bool:
    """Whether the text says a fact in one of its spellings."""
    return any(says(text, spelling) for spelling in fact.spellings)


def concludes(text: str, conclusion: tuple[str, str, tuple[str, ...]]) -> bool:
    """Whether a comparison comes out right: whose name is nearest before the word, or alone."""
    wins, loses, words = (plain(one) if isinstance(one, str) else one for one in conclusion)
    said = re.sub(r"比[^,。;]*?(?=更|要|" + "|".join(words) + ")", "", plain(text))
    said = re.split(r"\bthan\b", said)[0] if "than" in said else said
    names = [(found.start(), found[0]) for found in re.finditer(f"{wins}|{loses}", said)]
    places = [found.start() for word in words for found in re.finditer(word, said)]
    if len({name for _, name in names}) < 2 or not places:
        return bool(names) and names[0][1] == wins
    last = max(places)
    before = [name for place, name in names if place < last]
    after = [name for place, name in names if place > last]
    return (before[-1] if before else after[0]) == wins


def judged(question: Question, row: dict[str, Any]) -> str:
    """Which of the facts an answer gives: "both", "one", "none", or that it is "refused"."""
    text = row["text"]
    first, second = (holds(text, fact) for fact in question.facts)
    if not row["grounded"]:
        return "refused"
    if question.kind in FOLLOWS:
        return "both" if second else "one" if first else "none"
    if question.conclusion:
        right = concludes(text, question.conclusion)
        return "both" if right else "one" if first or second else "none"
    return "both" if first and second else "one" if first or second else "none"


def judged_missing(question: Question, row: dict[str, Any]) -> str:
    """Of an answer without the second passage: "said", "silent" (one fact, no more), ..."""
    if not row["grounded"]:
        return "refused"
    first = holds(row["text"], question.facts[0])
    if _ABSENT.search(row["text"]):
        return "said" if first else "only said"
    return "silent" if first else "neither"


OUTCOMES = {False: ("both", "one", "none", "refused"), True: (
    "said", "silent", "only said", "neither", "refused",
)}  # fmt: skip


def outcome(question: Question, row: dict[str, Any]) -> str:
    """How an answer fares."""
    return (judged_missing if question.missing else judged)(question, row)


def shares(values: Sequence[str], names: Sequence[str]) -> str:
    """The share of each outcome with its 95% interval."""
    said = []
    for name in names:
        hit = np.array([value == name for value in values], dtype=float)
        low, high = bootstrap_interval(hit)
        said.append(f"{name} {hit.mean():.2f} [{low:.2f}, {high:.2f}]")
    return "  ".join(said)


def summarise(path: Path, other: Path | None) -> None:
    """Shares of outcomes: all, by language, by kind; and against another run."""
    asked = {question.id: question for question in questions()}
    found = {row["id"]: row for row in rows(path)}
    for missing, names in OUTCOMES.items():
        some = [asked[name] for name in found if asked[name].missing == missing]
        print("without the second passage" if missing else "both passages there")
        for label, part in parts_of(some):
            values = [outcome(each, found[each.id]) for each in part]
            print(f"  {label:10} {len(part):3}  {shares(values, names)}")
        if some and not missing:
            read = [all(f.passage in found[q.id]["read"] for f in q.facts) for q in some]
            print(f"  both passages read: {np.mean(read):.2f}")
        if some:
            times = [found[each.id]["seconds"] for each in some]
            print(f"  seconds, median: {np.median(times):.1f}")
        if other and some:
            compare(some, found, {row["id"]: row for row in rows(other)}, names[0])


def parts_of(some: Sequence[Question]) -> Iterator[tuple[str, list[Question]]]:
    """All of the questions, then those of a language, and those of a kind."""
    if some:
        yield "all", list(some)
    for language in dict.fromkeys(each.language for each in some):
        yield language, [each for each in some if each.language == language]
    for kind in dict.fromkeys(each.kind for each in some):
        yield kind, [each for each in some if each.kind == kind]


def compare(
    some: Sequence[Question], found: dict[str, Any], before: dict[str, Any], wanted: str
) -> None:
    """How much more often the wanted outcome comes than in another run, question by question."""
    both = [each for each in some if each.id in before]
    if not both:
        return
    gained = [
        float(outcome(each, found[each.id]) == wanted)
        - float(outcome(each, before[each.id]) == wanted)
        for each in both
    ]
    low, high = bootstrap_interval(np.array(gained))
    more = f"{np.mean(gained):+.2f} [{low:+.2f}, {high:+.2f}]"
    print(f"  {wanted} against the other run, {len(both)} questions: {more}")


def main() -> None:
    """Run or summarise."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=["run", "summary", "each"])
    parser.add_argument("out", type=Path)
    parser.add_argument("other", type=Path, nargs="?")
    parser.add_argument("--mode", choices=["standard", "self-rag"], default="standard")
    parser.add_argument("--kind")
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--questions", default=":")
    arguments = parser.parse_args()
    if arguments.what == "run":
        kind, strict = arguments.kind, arguments.strict
        run(arguments.out, arguments.mode, arguments.questions, kind, strict=strict)
    if arguments.what == "each":
        asked = {question.id: question for question in questions()}
        for row in rows(arguments.out):
            print(f"{outcome(asked[row['id']], row):9} {row['id']:13} {row['question']}")
            print(f"{'':24}{row['text']}")
        return
    summarise(arguments.out, arguments.other)


if __name__ == "__main__":
    main()
