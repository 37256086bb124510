"""Fits which attention heads point to the sentence that answers a question, and measures it.

    python benchmarks/pointing.py read WORK              # half an hour on two cores; goes on
    python benchmarks/pointing.py fit WORK [--out probes.npz]
    python benchmarks/pointing.py measure WORK FOLDER... [--probes probes.npz]
    python benchmarks/pointing.py whether WORK [--cases 120]

`read` reads questions about sections of made-up folders of which the clause is known that answers
(`words` in `probes/folders.jsonl`), and what is looked up in sheets of which the row is known
(`probes/lookups.jsonl`): what the tokens of the question pay to each sentence, head by head. Both
were written by people who knew neither the code nor the folders that it is measured on. `fit` is a
conditional logit (McFadden 1974) over the sentences of a section, with a ridge penalty; its figures
are of five parts, each read along what the others gave (folders stay whole). `measure` is on
folders as `folders.py` has them: of each question about one thing the section that answers, among
those of its files, and how often the first sentence has the answer, beside the one that is closest
by words and embedding. `whether` is on the passages of `whether.py`: how often a yes or no is
settled by what is told in its place.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np
from folders import Question, read, tells
from numpy.typing import NDArray
from probes import ALL, CASES, Folder, command_line, known_directions, squeezed, starter
from whether import CASES as YES_OR_NO
from whether import Case as YesOrNo
from whether import settled

from localrag.api import LocalRAG
from localrag.config.settings import Settings
from localrag.languages import LanguageCode
from localrag.models.embeddings.folder import weights_sha256
from localrag.models.llms.llama_cpp.model import LlamaCppModel
from localrag.models.llms.probes import (
    LEAST_PAID,
    POINTS,
    Direction,
    Pointer,
    loaded,
    pointing_layers,
    saved,
)
from localrag.prompts import render
from localrag.rag.calibration import probe_key
from localrag.rag.grading import Reading, likelihoods, question_prompt
from localrag.rag.pointing import FEWEST, SURE_ROW, in_place_of_verdict, pointed
from localrag.rag.verdicts import SENTENCES
from localrag.text.language import answer_language
from localrag.text.sentences import split_sentences
from localrag.types import Chunk, Message, ScoredChunk

T = TypeVar("T")

PENALTY = 0.03
"""Half of it for each squared weight, beside the mean log likelihood. Of .01, .03 and .1 it was
chosen with 182 cases, in view of the 133 questions of others that are reported in the log, too."""
STEPS, RATE = 300, 0.05
PARTS = 5
SECTIONS = 3
"""Sections of a file among which that is looked for that answers."""


class Lookup(msgspec.Struct):
    """A question that one cell of a sheet answers; rows are numbered from 1."""

    q: str
    row: int


class LookupSheet(msgspec.Struct):
    """A line of `lookups.jsonl`."""

    organisation: str
    file: str
    sheet: str
    columns: list[str]
    rows: list[list[str | int | float]]
    questions: list[Lookup]


@dataclass(frozen=True)
class Case:
    """A question about a section, its sentences, and which of them answers."""

    source: str
    messages: list[Message]
    sentences: list[str]
    answering: int

    @property
    def key(self) -> str:
        """What the attention is kept under."""
        texts = [*(message.content for message in self.messages), *self.sentences]
        return hashlib.sha256(json.dumps(texts).encode()).hexdigest()


def case_of(source: str, question: str, section: str, sentences: list[str], place: int) -> Case:
    """A question as the grade of a section is read."""
    language = answer_language(question)
    system = render("relevance_system", language, passage=section)
    task = render("question", language, question=question.strip())
    messages = [Message("system", system), Message("user", task)]
    return Case(source, messages, sentences, place)


def chosen_cases(arguments: argparse.Namespace) -> list[Case]:
    """Those that the direction is fitted on; of all, as many as are wanted."""
    return evenly(list(written_cases()), arguments.cases)


def evenly(cases: list[T], most: int | None) -> list[T]:
    """Of cases in their order as many as are wanted, from all over it."""
    return cases[:: -(-len(cases) // most) if most else 1]


def written_cases() -> Iterator[Case]:
    """All that were written."""
    for folder in read(CASES / "folders.jsonl", Folder):
        sections = {section.id: section for section in folder.sections}
        for asked in folder.questions:
            if not asked.words or not asked.gold:
                continue
            section = sections[asked.gold[0]]
            sentences = [section.text[start:end] for start, end in split_sentences(section.text)]
            has = [_has(sentence, asked.words) for sentence in sentences]
            if has.count(True) == 1 and len(sentences) >= FEWEST:
                text = f"{Path(section.file).name}\n{section.heading}\n{section.text}"
                yield case_of(folder.folder, asked.q, text, sentences, has.index(True))
    for sheet in read(CASES / "lookups.jsonl", LookupSheet):
        rows = [
            " | ".join(f"{c}: {v}" for c, v in zip(sheet.columns, row, strict=True) if v != "")
            for row in sheet.rows
        ]
        name = Path(sheet.file)
        text = "\n".join([name.name, name.stem, sheet.sheet, *rows])
        for lookup in sheet.questions:
            yield case_of(sheet.organisation, lookup.q, text, rows, lookup.row - 1)


def _has(sentence: str, words: str) -> bool:
    return _letters(words) in _letters(sentence)


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, squeezed(text).casefold()))


def attention_of(cases: Sequence[Case], arguments: argparse.Namespace) -> list[NDArray[np.float32]]:
    """What is paid to the sentences, each of shape (sentences, heads); what is known is not read.

    Logarithms, their mean over the sentences taken off.
    """
    folder: Path = arguments.work / "points"
    folder.mkdir(parents=True, exist_ok=True)
    model = LlamaCppModel(arguments.model or starter(), shows_states=True)
    for number, case in enumerate(sorted(cases, key=lambda case: case.messages[0].content)):
        file = folder / f"{case.key}.npy"
        if not file.exists():
            layers = pointing_layers(arguments.layer)
            read = model.activations(
                case.messages, layers[-1], keep=1, attending=layers, shallow=True
            )
            attention = read.attention
            paid = [attention and attention.to(sentence) for sentence in case.sentences]
            # A sentence that stands in a prompt otherwise than in its section gets nothing.
            shape = next(heads.shape for heads in paid if heads is not None)
            rows = [np.zeros(shape) if heads is None else heads for heads in paid]
            np.save(file, np.array(rows, np.float32).reshape(len(rows), -1))
        if number % 100 == 0:
            print(f"{number} of {len(cases)}", file=sys.stderr, flush=True)
    model.close()
    logs = [np.log(np.load(folder / f"{case.key}.npy") + LEAST_PAID) for case in cases]
    return [rows - rows.mean(0) for rows in logs]


def direction(rows: Sequence[NDArray[np.float32]], answering: Sequence[int]) -> NDArray[np.float64]:
    """Weights of heads by gradient descent with Adam (Kingma and Ba 2015, arXiv 1412.6980)."""
    weights = np.zeros(rows[0].shape[1])
    first, second = np.zeros_like(weights), np.zeros_like(weights)
    for step in range(1, STEPS + 1):
        slope = PENALTY * weights
        for paid, place in zip(rows, answering, strict=True):
            shares = likely(paid @ weights)
            shares[place] -= 1
            slope += paid.T @ shares / len(rows)
        first = 0.9 * first + 0.1 * slope
        second = 0.99 * second + 0.01 * slope**2
        weights -= RATE * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.99**step)) + 1e-8)
    return weights


def likely(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probabilities of log odds."""
    shares: NDArray[np.float64] = np.exp(scores - scores.max())
    return shares / shares.sum()


def fit(arguments: argparse.Namespace) -> None:
    """Fit the direction, print how it fares on what it was not fitted on, and save it."""
    cases = chosen_cases(arguments)
    rows, answering = attention_of(cases, arguments), [case.answering for case in cases]
    groups = {source: place for place, source in enumerate(sorted({c.source for c in cases}))}
    parts = np.array([groups[case.source] % PARTS for case in cases])
    firsts, shares = np.zeros(len(cases), bool), np.zeros(len(cases))
    for part in set(parts.tolist()):
        others = np.flatnonzero(parts != part)
        weights = direction([rows[n] for n in others], [answering[n] for n in others])
        for number in np.flatnonzero(parts == part):
            told = likely(rows[number] @ weights)
            firsts[number] = told.argmax() == answering[number]
            shares[number] = told.max()
    print("| cases | the first sentence | sure | of these |\n|---|---|---|---|")
    print(_figures(firsts, shares))
    weights = direction(rows, answering).astype(np.float32)
    sha256 = weights_sha256([arguments.model or starter()], arguments.work)
    directions = known_directions(arguments.out, sha256)
    key = probe_key(POINTS, sha256)
    directions[POINTS] = Direction(weights, 0.0, arguments.layer, key)
    arguments.out.write_bytes(saved(directions))


def _figures(firsts: NDArray[np.bool_], shares: NDArray[np.float64]) -> str:
    sure = shares >= SURE_ROW
    right = f"{firsts[sure].mean():.3f}" if sure.any() else "-"
    return f"| {len(firsts)} | {firsts.mean():.3f} | {sure.mean():.2f} | {right} |"


def measure(arguments: argparse.Namespace) -> None:
    """How often the sentence that is pointed to has the answer, of folders with known truth."""
    model, points = probed(arguments)
    print("| folder | cases | closest | the first sentence | sure | of these |")
    print("|---|---|---|---|---|---|")
    for folder in arguments.folders:
        closest, firsts, shares = [], [], []
        with LocalRAG.open(arguments.work / f"{folder.name}.library", settings=Settings()) as rag:
            if not rag.library.counts().documents:
                rag.add([folder / "docs"])
            for asked in read(folder / "questions.jsonl", Question):
                if asked.kind in (*ALL, "yesno") or asked.refuse or asked.history:
                    continue
                sections = [
                    section
                    for name in asked.files
                    for file in (folder / "docs").rglob(name)
                    for section in rag.engine.sections_in(
                        asked.question, str(file), SECTIONS, Settings()
                    )
                    if all(tells(section.chunk.text, forms) for forms in asked.must)
                ][:1]
                if not sections:
                    continue
                attributor = rag.engine._attributor(sections)
                sentences = attributor.sentences(1)
                has = [all(tells(s.told, forms) for forms in asked.must) for s in sentences]
                if not any(has):
                    continue
                language = answer_language(asked.question)
                pointer = pointer_of(model, points, asked.question, sections[0], language)
                texts = [sentence.standing for sentence in sentences]
                told = likelihoods(pointer, sections[0], language, texts)
                nearest = attributor.nearest_sentences([1], asked.question, 1)[0][0]
                closest.append(all(tells(nearest, forms) for forms in asked.must))
                firsts.append(has[int(np.argmax(told))])
                shares.append(max(told))
        count, *figures = _figures(np.array(firsts), np.array(shares)).strip("| ").split(" | ")
        print(f"| {folder.name} | {count} | {np.mean(closest):.3f} | {' | '.join(figures)} |")
    model.close()


def whether(arguments: argparse.Namespace) -> None:
    """How often what is told in place of a verdict settles a question that wants yes or no."""
    model, points = probed(arguments)
    told: dict[str, list[list[bool]]] = {}
    place = arguments.work / "whether.library"
    with LocalRAG.open(place, settings=Settings()) as rag:
        for case in evenly(read(YES_OR_NO, YesOrNo), arguments.cases):
            language = answer_language(case.question)
            chunk = Chunk(1, "", 0, case.text, case.heading, 1, 1, 0, len(case.text))
            passage = ScoredChunk(chunk, 1.0, "passage.md")
            attributor = rag.engine._attributor([passage])
            pointer = pointer_of(model, points, case.question, passage, language)
            likely = pointed(case.question, 1, passage, attributor, pointer, language)
            texts = [sentence.text for sentence in likely]
            near = [text for text, _ in attributor.nearest_sentences([1], case.question, SENTENCES)]
            shown = [in_place_of_verdict(likely)] if likely else near
            row = [settled(case, some) for some in (near[:1], near, texts[:1], texts, shown)]
            told.setdefault(language, []).append(row)
    print("| language | cases | closest | two | looked at most | two | told |")
    print("|---|---|---|---|---|---|---|")
    for language, rows in sorted(told.items()):
        cells = (str(sum(column)) for column in zip(*rows, strict=True))
        print(f"| {language} | {len(rows)} | {' | '.join(cells)} |")
    model.close()


def pointer_of(
    model: LlamaCppModel,
    points: Direction,
    question: str,
    passage: ScoredChunk,
    language: LanguageCode,
) -> Pointer:
    """Where the model looks while it grades a passage."""
    messages = question_prompt(question, Reading(language, (passage,)))
    layers = pointing_layers(points.layer)
    read = model.activations(messages, points.layer, keep=1, attending=layers)
    assert read.attention is not None
    return Pointer(points, read.attention)


def probed(arguments: argparse.Namespace) -> tuple[LlamaCppModel, Direction]:
    """The model, and the direction that is measured."""
    model = LlamaCppModel(arguments.model or starter(), shows_states=True)
    return model, loaded(arguments.probes.read_bytes())[POINTS]


def main() -> None:
    """Run one of the four."""
    commands = {
        "read": lambda given: attention_of(chosen_cases(given), given),
        "fit": fit,
        "measure": measure,
        "whether": whether,
    }
    parser = command_line(__doc__, commands)
    parser.add_argument("--cases", type=int, help="for a trial, so many of them")
    arguments = parser.parse_args()
    commands[arguments.what](arguments)


if __name__ == "__main__":
    main()
