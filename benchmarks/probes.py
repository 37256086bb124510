"""Fits what is read from the starter model's states, and measures it.

    python benchmarks/probes.py states WORK                     # hours on two cores; goes on
    python benchmarks/probes.py fit WORK [--out probes.npz] [--of tables listed]
    python benchmarks/probes.py measure WORK FOLDER... [--probes probes.npz]

`states` reads what lies in `probes/`: questions about one thing or all (`questions.jsonl`), that
ask for one thing or several (`several.jsonl`), and about documents or what stands in them
(`listed.jsonl`), folders, of each of which a library is made
and the first two sections that a search brings for a question are read with it, as `ask` reads them
(`folders.jsonl`; besides, the rows that a search brings for what is looked up in `tables.jsonl`, or
stands in none of its sheets), and sheets with questions that one of them answers, or none
(`tables.jsonl`). With `--of members` also documents and which of them questions are about
(`members.jsonl`). All were written for this by people who knew neither the code nor the folders
that it is measured on.
`fit` is a logistic regression with a ridge penalty; its figures are of ten parts, each read along
what the other nine gave (folders stay whole). Decisions that are not fitted stay as they stand in
`--out`, if that is for the same model and prompts. `measure` is on folders as `folders.py` has
them.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import sqlite3
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np
from folders import Question, read, tells
from numpy.typing import NDArray

from localrag import factory
from localrag.api import LocalRAG
from localrag.config.settings import AnswerSettings, LlamaCppSettings, Settings
from localrag.models.embeddings.folder import weights_sha256
from localrag.models.llms.llama_cpp.model import LlamaCppModel
from localrag.models.llms.probes import Direction, loaded, saved
from localrag.prompts import render, with_examples
from localrag.rag.calibration import PROBE_CURVE, STARTER_PROBES, probe_key
from localrag.tables import membership
from localrag.tables.plan import COMPARES, COMPUTES_OF, FITS, PROBED_ABOUT_ALL, fit_messages
from localrag.text.language import answer_language
from localrag.types import Message

CASES = Path(__file__).with_suffix("")
SHIPPED = Path(__file__).parents[1] / "localrag" / "rag" / STARTER_PROBES
LAYER = 17
"""Of the starter's 28, numbered from 0, behind which states are read."""
SECTIONS = 2
"""Sections of a question that are read."""
ALL = ("list", "count", "sum", "max")
"""Kinds of questions about all, in the folders that are measured."""
OPERATIONS = {
    "list": "LIST",
    "which-documents": "LIST",
    "between-dates": "LIST",
    "count": "COUNT",
    "sum": "SUM",
    "average": "SUM",
    "max": "MAX",
    "min": "MAX",
    "latest": "MAX",
}
"""Of questions about all, by their kind; of others none is fitted."""
BELONGS = "belongs"
"""Whether a document is one that a question is about. It is measured here alone: states do not tell
it well enough (`log/2026-11.md`)."""
PENALTY = {
    "about_all": 0.003,
    "compares": 0.01,
    "several": 0.01,
    **dict.fromkeys(COMPUTES_OF, 0.003),
    "relevance": 0.003,
    FITS: 0.01,
    membership.LISTS_DOCUMENTS: 0.01,
    BELONGS: 0.01,
}
"""Of the directions, for states of mean 0 and deviation 1: C of scikit-learn."""


ROW_IS_KNOWN_BY = 3
"""Cells that tell a row from others."""
EVERY = 3
"""Which question of a made-up folder of sheets is read; every second of these with
the sheet that answers it, the next with another. Which document of a collection, too."""
FEWEST = 20
"""Cases of either kind without which nothing is fitted."""


class Asked(msgspec.Struct):
    """A line of `questions.jsonl`."""

    question: str
    language: str
    scope: str
    kind: str
    style: str = ""


class Section(msgspec.Struct):
    """A section of a file of a made-up folder; `heading` is its path, joined by " > "."""

    id: str
    file: str
    heading: str
    text: str


class Need(msgspec.Struct):
    """A question, and the sections that answer it; `words` of the first say the answer."""

    q: str
    gold: list[str]
    answer: str = ""
    words: str = ""


class Folder(msgspec.Struct):
    """A line of `folders.jsonl`."""

    folder: str
    sections: list[Section]
    questions: list[Need]


class Sheet(msgspec.Struct):
    """A sheet of a made-up folder."""

    id: str
    file: str
    sheet: str
    columns: list[str]
    rows: list[list[str | float | None]]


class SheetQuestion(msgspec.Struct):
    """A question, and the sheet whose rows answer it; None: none does."""

    q: str
    table: str | None
    kind: str
    sql: str | None = None


class SheetFolder(msgspec.Struct):
    """A line of `tables.jsonl`."""

    folder: str
    tables: list[Sheet]
    questions: list[SheetQuestion]


class MemberDocument(msgspec.Struct):
    """A document of a made-up collection; its text has headings as Markdown."""

    file: str
    title: str
    text: str


class MemberQuestion(msgspec.Struct):
    """A question about all of a collection, and the files for which all that it asks is so."""

    q: str
    members: list[str]


class Members(msgspec.Struct):
    """A line of `members.jsonl`."""

    folder: str
    documents: list[MemberDocument]
    questions: list[MemberQuestion]


class SeveralQuestion(msgspec.Struct):
    """A line of `several.jsonl`: `asks` is "several" or "one"."""

    question: str
    language: str
    asks: str
    domain: str


class ListQuestion(msgspec.Struct):
    """A line of `listed.jsonl`: `lists` is "documents" or "contents", what is to be listed."""

    question: str
    lists: str
    folder: str


@dataclass(frozen=True)
class Case:
    """A prompt with what is to be read from the states of its task: labels by decision."""

    source: str
    question: str
    messages: Sequence[Message]
    keep: int
    labels: dict[str, bool]

    @property
    def key(self) -> str:
        """What the state is kept under."""
        texts = [message.content for message in self.messages]
        return hashlib.sha256(json.dumps(texts).encode()).hexdigest()


# -- cases --------------------------------------------------------------------------


def scope_case(source: str, question: str, kind: str, *, about_all: bool, compares: bool) -> Case:
    """A question as `tables.plan.scope` puts it."""
    messages = with_examples("scope", answer_language(question), question)
    labels = {"about_all": about_all, "compares": compares}
    if about_all and kind in OPERATIONS:
        labels |= {name: OPERATIONS[kind] == name for name in COMPUTES_OF}
    return Case(source, question, messages, len(messages) - 1, labels)


def written_cases(arguments: argparse.Namespace) -> Iterator[Case]:
    """Those that directions are fitted on."""
    for name in arguments.of:
        yield from MATERIAL[name](arguments)


def question_cases(arguments: argparse.Namespace) -> Iterator[Case]:
    """Of `questions.jsonl`."""
    for asked in read(CASES / "questions.jsonl", Asked)[: arguments.questions]:
        about_all, compares = asked.scope == "all", asked.kind == "compare-two"
        asks = {"about_all": about_all, "compares": compares}
        yield scope_case("questions", asked.question, asked.kind, **asks)


def several_cases(arguments: argparse.Namespace) -> Iterator[Case]:
    """Of `several.jsonl`."""
    for asked in read(CASES / "several.jsonl", SeveralQuestion)[: arguments.questions]:
        messages = with_examples("scope", answer_language(asked.question), asked.question)
        labels = {"several": asked.asks == "several"}
        yield Case(asked.domain, asked.question, messages, len(messages) - 1, labels)


def section_cases(arguments: argparse.Namespace) -> Iterator[Case]:
    """Of `folders.jsonl`, and of the rows of sheets that questions look up."""
    for number, folder in enumerate(read(CASES / "folders.jsonl", Folder)[: arguments.made_up]):
        documents = arguments.work / f"folder-{number}"
        write(folder, documents)
        texts = {section.id: squeezed(section.text) for section in folder.sections}
        files = {section.id: squeezed(Path(section.file).stem) for section in folder.sections}
        questions = [need.q for need in folder.questions]
        for need, messages in zip(
            folder.questions, first_sections(documents, questions), strict=True
        ):
            for prompt in messages[:SECTIONS]:
                shown = squeezed(prompt[0].content)
                holds = any(texts[gold] in shown for gold in need.gold)
                # Of a long section only a part is shown, and another document may say the same.
                if need.words and files[need.gold[0]] in shown:
                    holds |= squeezed(need.words) in shown
                yield Case(f"folder-{number}", need.q, prompt, 1, {"relevance": holds})
    yield from lookup_cases(arguments)


def table_cases(arguments: argparse.Namespace) -> Iterator[Case]:
    """Of `tables.jsonl`."""
    for number, sheets in enumerate(read(CASES / "tables.jsonl", SheetFolder)[: arguments.made_up]):
        yield from sheet_cases(sheets, arguments.work / f"tables-{number}")


def lookup_cases(arguments: argparse.Namespace) -> Iterator[Case]:
    """Of `tables.jsonl`: may what is looked up be read in these rows of a sheet, or in others?

    So is the first section for every second question that no sheet answers.
    """
    for number, folder in enumerate(read(CASES / "tables.jsonl", SheetFolder)[: arguments.made_up]):
        place = arguments.work / f"tables-{number}"
        write_sheets(folder, place)
        looked_up = [asked for asked in folder.questions if asked.kind == "lookup"]
        unanswered = [asked for asked in folder.questions if asked.table is None]
        questions = [*looked_up, *unanswered[::2]]
        sections = first_sections(place, [asked.q for asked in questions])
        for asked, prompts in zip(questions, sections, strict=True):
            row = looked_up_row(folder, asked)
            for prompt in prompts[: SECTIONS if row else 1]:
                lines = prompt[0].content.split("\n")
                holds = bool(row) and any(all(cell in line for cell in row) for line in lines)
                yield Case(folder.folder, asked.q, prompt, 1, {"relevance": holds})


def looked_up_row(folder: SheetFolder, asked: SheetQuestion) -> list[str]:
    """The first cells of the row that a question looks up, as a library shows them; else none."""
    if asked.table is None or asked.sql is None:
        return []
    table = next(table for table in folder.tables if table.id == asked.table)
    names = [f"c{number}" for number, _ in enumerate(table.columns, 1)]
    with closing(sqlite3.connect(":memory:")) as rows:
        rows.execute(f"CREATE TABLE data({','.join(names)})")
        rows.executemany(f"INSERT INTO data VALUES({','.join('?' * len(names))})", table.rows)
        condition = asked.sql.partition(" WHERE ")[2]
        (cells,) = rows.execute(f"SELECT * FROM data WHERE {condition}").fetchall()
    whole = [int(cell) if isinstance(cell, float) and cell.is_integer() else cell for cell in cells]
    return [str(cell) for cell in whole if cell is not None][:ROW_IS_KNOWN_BY]


def write_sheets(folder: SheetFolder, place: Path) -> dict[str, str]:
    """The sheets of a folder as files: which table each path has."""
    names: dict[str, str] = {}
    for table in folder.tables:
        file = place / table.file
        file = file.with_name(f"{file.stem} {table.sheet}.csv")
        names[str(file)] = table.id
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("w", encoding="utf-8", newline="") as out:
            csv.writer(out).writerows([table.columns, *table.rows])
    return names


def sheet_cases(folder: SheetFolder, place: Path) -> Iterator[Case]:
    """A sheet and a question: may its rows answer it?"""
    names = write_sheets(folder, place)
    with made(place) as rag:
        groups = rag.engine.sheets()
        chosen = folder.questions[::EVERY]
        for turn, asked in enumerate(chosen):
            fits = {
                number
                for number, rows in enumerate(groups)
                if asked.table in {names[source] for source in rows.sources}
            }
            wanted = sorted(fits if turn % 2 == 0 else set(range(len(groups))) - fits)
            if wanted:
                number = wanted[turn % len(wanted)]
                messages = fit_messages(asked.q, groups[number])
                yield Case(folder.folder, asked.q, messages, 1, {FITS: number in fits})


def listed_cases(arguments: argparse.Namespace) -> Iterator[Case]:
    """Of `listed.jsonl`."""
    for asked in read(CASES / "listed.jsonl", ListQuestion)[: arguments.questions]:
        messages = with_examples("listed", answer_language(asked.question), asked.question)
        labels = {membership.LISTS_DOCUMENTS: asked.lists == "documents"}
        yield Case(asked.folder, asked.question, messages, len(messages) - 1, labels)


def member_cases(arguments: argparse.Namespace) -> Iterator[Case]:
    """Of `members.jsonl`: a document and a question, does it belong to what is asked?"""
    collections = read(CASES / "members.jsonl", Members)[: arguments.made_up]
    for number, collection in enumerate(collections):
        place = arguments.work / f"members-{number}"
        files = {
            document.file: (place / document.file).with_suffix(".md")
            for document in collection.documents
        }
        for document in collection.documents:
            file = files[document.file]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"# {document.title}\n\n{document.text}\n", "utf-8")
        with made(place) as rag:
            for turn, asked in enumerate(collection.questions):
                for at, (name, file) in enumerate(files.items()):
                    if (at + turn) % EVERY:
                        continue
                    sections = rag.engine.sections_in(
                        asked.q, str(file), membership.SECTIONS, rag.engine.settings
                    )
                    messages = membership.belonging_messages(asked.q, sections)
                    belongs = name in asked.members
                    yield Case(collection.folder, asked.q, messages, 1, {BELONGS: belongs})


@contextmanager
def made(place: Path) -> Iterator[LocalRAG]:
    """A library of the files below a folder."""
    with LocalRAG.open(place.parent / f"{place.name}.library", settings=Settings()) as rag:
        if not rag.library.counts().documents:
            rag.add([place])
        yield rag


MATERIAL: dict[str, Callable[[argparse.Namespace], Iterator[Case]]] = {
    "questions": question_cases,
    "several": several_cases,
    "folders": section_cases,
    "tables": table_cases,
    "listed": listed_cases,
    "members": member_cases,
}
"""The files of cases by name."""
FITTED = [name for name in MATERIAL if name != "members"]
"""Those that directions are fitted on which are shipped."""


def measured_cases(folder: Path) -> Iterator[Case]:
    """Of a folder with known truth; of follow-ups and summaries none."""
    questions = [
        question
        for question in read(folder / "questions.jsonl", Question)
        if not question.history and question.kind != "summary"
    ]
    for question in questions:
        about_all, compares = question.kind in ALL, question.kind == "compare"
        asks = {"about_all": about_all, "compares": compares}
        yield scope_case(folder.name, question.question, question.kind, **asks)
    alone = [question for question in questions if question.kind not in (*ALL, "compare")]
    found = first_sections(folder / "docs", [question.question for question in alone])
    for question, prompts in zip(alone, found, strict=True):
        for prompt in prompts[:SECTIONS]:
            text = prompt[0].content
            of_file = any(file in text for file in question.files)
            holds = of_file and all(tells(text, forms) for forms in question.must)
            yield Case(folder.name, question.question, prompt, 1, {"relevance": holds})


def write(folder: Folder, place: Path) -> None:
    """The files of a made-up folder: text, and Markdown for all others."""
    above: dict[Path, list[str]] = {}
    lines: dict[Path, list[str]] = {}
    for section in folder.sections:
        file = place / section.file
        file = file if file.suffix == ".txt" else file.with_suffix(".md")
        path = section.heading.split(" > ")
        for depth, heading in enumerate(path, 1):
            if above.get(file, [])[:depth] != path[:depth]:
                lines.setdefault(file, []).append(f"{'#' * min(depth, 6)} {heading}\n")
        above[file] = path
        lines[file].append(f"{section.text}\n")
    for file, texts in lines.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(texts), "utf-8")


def squeezed(text: str) -> str:
    """A text without white space."""
    return "".join(text.split())


class Enough(BaseException):
    """Ends an answer when its first sections are known."""


class Listener:
    """A model that notes which sections it is to grade and finds none of them enough."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.prompts: list[list[Message]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def score_choices(
        self, messages: Sequence[Message], choices: Sequence[str], *, keep: int = 0
    ) -> NDArray[np.float64]:
        """No, to a section; then the end."""
        if len(self.prompts) == SECTIONS or len(messages) != 2 or keep != 1:
            raise Enough
        self.prompts.append(list(messages))
        return np.array([0.3, *[0.7 / (len(choices) - 1)] * (len(choices) - 1)])

    def complete(self, *_: Any) -> Any:
        """The end: nothing is to be written."""
        raise Enough

    stream = complete


def first_sections(documents: Path, questions: Sequence[str]) -> Iterator[list[list[Message]]]:
    """Of each question the prompts at whose end the grades of the first sections are read."""
    settings = Settings()
    settings = msgspec.structs.replace(
        settings, answer=msgspec.structs.replace(settings.answer, tables=False)
    )
    make, heard = factory.make_model, []

    def listening(*given: Any) -> factory.Model:
        model = make(*given)
        listener = Listener(model.llm)
        heard.append(listener)
        return replace(model, llm=listener, scorer=listener, view=None, probes=None)

    place = documents.parent / f"{documents.name}.sections"
    with (
        patch.object(factory, "make_model", listening),
        LocalRAG.open(place, settings=settings) as rag,
    ):
        if not rag.library.counts().documents:
            rag.add([documents])
        for question in questions:
            for listener in heard:
                listener.prompts.clear()
            with suppress(Enough):
                rag.ask(question)
            asked = render("question", answer_language(question), question=question.strip())
            yield [
                [sections, Message("user", asked)]
                for listener in heard
                for sections, _ in listener.prompts
            ]


# -- states -------------------------------------------------------------------------


def states_of(cases: Sequence[Case], arguments: argparse.Namespace) -> NDArray[np.float32]:
    """The mean states of the tasks, shape (cases, width); those known already are not read."""
    model = LlamaCppModel(arguments.model or starter(), shows_states=True)
    folder: Path = arguments.work / f"states-{arguments.layer}"
    folder.mkdir(parents=True, exist_ok=True)
    order = sorted(cases, key=lambda case: [m.content for m in case.messages[: case.keep]])
    for number, case in enumerate(order):
        file = folder / f"{case.key}.npy"
        if not file.exists():
            activations = model.activations(
                case.messages, arguments.layer, keep=case.keep, shallow=True
            )
            np.save(file, activations.state)
        if number % 100 == 0:
            print(f"{number} of {len(order)}", file=sys.stderr, flush=True)
    model.close()
    return np.array([np.load(folder / f"{case.key}.npy") for case in cases])


def starter() -> Path:
    """The starter's file."""
    local = Settings().llm
    assert isinstance(local, LlamaCppSettings)
    return factory.model_file(local.model, factory.make_models())


def states(arguments: argparse.Namespace) -> None:
    """Read all that is fitted on."""
    states_of(list(written_cases(arguments)), arguments)


def fit(arguments: argparse.Namespace) -> None:
    """Fit the directions, print how they fare on what each was not fitted on, and save them."""
    from sklearn.metrics import roc_auc_score

    cases = list(written_cases(arguments))
    read_states = states_of(cases, arguments)
    weights = weights_sha256([arguments.model or starter()], arguments.work)
    directions = known_directions(arguments.out, weights)
    print("| decision | cases | yes | accuracy | area under the curve |\n|---|---|---|---|---|")
    for decision, strength in PENALTY.items():
        chosen = [number for number, case in enumerate(cases) if decision in case.labels]
        labels = np.array([cases[number].labels[decision] for number in chosen], bool)
        if min(labels.sum(), (~labels).sum()) < FEWEST:
            continue
        rows = read_states[chosen]
        groups = {source: place for place, source in enumerate(sorted({c.source for c in cases}))}
        parts = np.array(
            [
                place % 10
                if cases[number].source == "questions"
                else groups[cases[number].source] % 10
                for place, number in enumerate(chosen)
            ]
        )
        shares = np.zeros(len(chosen))

        for part in set(parts.tolist()):
            others = parts != part
            fitted = direction(rows[others], labels[others], strength)
            for place in np.flatnonzero(parts == part):
                shares[place] = fitted.probability(rows[place])
        accuracy, area = np.mean((shares > 0.5) == labels), roc_auc_score(labels, shares)
        print(f"| {decision} | {len(chosen)} | {labels.sum()} | {accuracy:.3f} | {area:.3f} |")
        if decision != BELONGS:
            fitted = direction(rows, labels, strength)
            key = probe_key(decision, weights)
            directions[decision] = replace(fitted, layer=arguments.layer, key=key)
    arguments.out.write_bytes(saved(directions))


def known_directions(file: Path, weights: str) -> dict[str, Direction]:
    """Those in a file, if there is one, that are for these weights and the prompts as they are."""
    there = loaded(file.read_bytes()) if file.exists() else {}
    return {name: held for name, held in there.items() if held.key == probe_key(name, weights)}


def direction(states: NDArray[np.float32], labels: NDArray[np.bool_], strength: float) -> Direction:
    """What a logistic regression gives for states of shape (cases, width)."""
    from sklearn.linear_model import LogisticRegression

    mean, deviation = states.mean(0), states.std(0) + 1e-6
    regression = LogisticRegression(C=strength, max_iter=5000)
    regression.fit((states - mean) / deviation, labels)
    weights = regression.coef_[0] / deviation
    bias = float(regression.intercept_[0] - weights @ mean)
    return Direction(weights.astype(np.float32), bias)


# -- measure ------------------------------------------------------------------------


def measure(arguments: argparse.Namespace) -> None:
    """How often the decisions are right on folders with known truth."""
    from sklearn.metrics import roc_auc_score

    directions = loaded(arguments.probes.read_bytes())
    answerable = round(PROBE_CURVE.probability(AnswerSettings().min_answerable), 2)
    bounds = {"about_all": PROBED_ABOUT_ALL, "compares": COMPARES, "relevance": answerable}
    bounds |= dict.fromkeys(COMPUTES_OF, 0.5)
    fitted = {name for name, direction in directions.items() if direction.layer == arguments.layer}
    print("| folder | decision | area under the curve | bound | yes, of those | of others |")
    print("|---|---|---|---|---|---|")
    for folder in arguments.folders:
        cases = [case for case in measured_cases(folder) if fitted & case.labels.keys()]
        read_states = states_of(cases, arguments)
        for decision in sorted(bounds.keys() & fitted):
            bound = bounds[decision]
            rows = [
                (directions[decision].probability(state), case.labels[decision])
                for case, state in zip(cases, read_states, strict=True)
                if decision in case.labels
            ]
            right = [share for share, label in rows if label]
            wrong = [share for share, label in rows if not label]
            shares, labels = zip(*rows, strict=True)
            area = roc_auc_score(labels, shares) if right and wrong else 0.0
            yes, no = (sum(share >= bound for share in some) for some in (right, wrong))
            told = f"{yes} of {len(right)} | {no} of {len(wrong)}"
            print(f"| {folder.name} | {decision} | {area:.3f} | {bound} | {told} |")


def command_line(description: str | None, commands: Collection[str]) -> argparse.ArgumentParser:
    """What is given to read, fit and measure what is seen of a model."""
    parser = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    parser.add_argument("what", choices=commands)
    parser.add_argument("work", type=Path, help="where what was read, and libraries, are kept")
    parser.add_argument("folders", type=Path, nargs="*", metavar="FOLDER")
    parser.add_argument("--model", type=Path, help="a GGUF file, default: the starter's")
    parser.add_argument("--layer", type=int, default=LAYER, help="up to which it is read")
    parser.add_argument("--out", type=Path, default=SHIPPED, help="fit: where directions go")
    parser.add_argument("--probes", type=Path, default=SHIPPED, help="measure: what is measured")
    return parser


def main() -> None:
    """Run one of the three."""
    commands = {"states": states, "fit": fit, "measure": measure}
    parser = command_line(__doc__, commands)
    parser.add_argument("--questions", type=int, help="for a trial, the first of them")
    parser.add_argument("--made-up", type=int, help="for a trial, the first made-up folders")
    parser.add_argument(
        "--of",
        nargs="+",
        choices=MATERIAL,
        default=FITTED,
        help="which files of cases",
    )
    arguments = parser.parse_args()
    commands[arguments.what](arguments)


if __name__ == "__main__":
    main()
