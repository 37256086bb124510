"""Retrieval sets in the layout of BEIR: corpus.jsonl, queries.jsonl, qrels.tsv.

`qrels.tsv` has a line for each judgement: query, passage, grade, separated by tabs, with or
without a header. Ids may stand under "id" or "_id". BEIR's own `qrels/test.tsv` is read where
there is no `qrels.tsv`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from localrag.errors import UsageError
from localrag.evaluation.dataset import evenly

V = TypeVar("V")

LAYOUT_HINT = (
    "A retrieval set is a folder with corpus.jsonl (id, title, text), queries.jsonl (id, text) "
    "and qrels.tsv (query id, passage id, grade, separated by tabs)."
)


@dataclass(frozen=True, slots=True)
class RetrievalSet:
    """Passages and questions by id, in file order, and the judgements.

    A passage is its title and its text, with a line break between. `qrels` holds only
    questions that have a relevant passage: the others cannot be scored. `parts` are the sets
    that it was put together from, whose questions and passages follow each other in it.
    """

    name: str
    corpus: dict[str, str]
    queries: dict[str, str]
    qrels: dict[str, dict[str, int]]
    parts: tuple[RetrievalSet, ...] = ()

    def sample(self, count: int) -> RetrievalSet:
        """The same set with `count` of its questions, taken evenly from first to last."""
        chosen = evenly(list(self.qrels), count)
        return replace(self, qrels={query: self.qrels[query] for query in chosen})


def read_retrieval_set(folder: Path, queries_from: Path | None = None) -> RetrievalSet:
    """Read a set; with `queries_from`, its questions are those of another folder by the same ids.

    Raises UsageError naming the file and the line where something is missing or malformed.
    """
    corpus = {
        key: f"{row.get('title') or ''}\n{row['text']}".strip()
        for key, row in _rows(folder / "corpus.jsonl")
    }
    source = queries_from or folder
    queries = {key: row["text"] for key, row in _rows(source / "queries.jsonl")}
    path = folder / "qrels.tsv"
    if not path.is_file() and (folder / "qrels" / "test.tsv").is_file():
        path = folder / "qrels" / "test.tsv"
    qrels: dict[str, dict[str, int]] = {query: {} for query in queries}
    for query, passage, grade in _judgements(path):
        if query in qrels:
            qrels[query][passage] = grade
    judged = {
        query: grades
        for query, grades in qrels.items()
        if any(grade > 0 and passage in corpus for passage, grade in grades.items())
    }
    if not judged:
        raise UsageError(
            "No question of {queries} has a relevant passage of {corpus} in {qrels}.",
            hint="The ids of the three files must agree; with --queries-from, those of both "
            "folders' questions.",
            queries=source / "queries.jsonl",
            corpus=folder / "corpus.jsonl",
            qrels=path,
        )
    name = folder.resolve().name
    if queries_from is not None:
        name = f"{queries_from.resolve().name} over {name}"
    return RetrievalSet(name, corpus, queries, judged)


def together(sets: Sequence[RetrievalSet]) -> RetrievalSet:
    """Sets as one: each question is asked of the passages of all.

    An id begins with the place of its set. What answers a question in another set is not judged.
    """

    def renamed(of: Callable[[RetrievalSet], Mapping[str, V]]) -> dict[str, V]:
        return {
            f"{at} {key}": text
            for at, dataset in enumerate(sets)
            for key, text in of(dataset).items()
        }

    qrels = {
        f"{at} {query}": {f"{at} {passage}": grade for passage, grade in grades.items()}
        for at, dataset in enumerate(sets)
        for query, grades in dataset.qrels.items()
    }
    return RetrievalSet(
        " + ".join(dataset.name for dataset in sets),
        renamed(lambda dataset: dataset.corpus),
        renamed(lambda dataset: dataset.queries),
        qrels,
        tuple(sets),
    )


def _rows(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Id and row of each line of a JSONL file; blank lines are skipped."""
    seen: set[str] = set()
    for number, line in enumerate(_lines(path), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):  # brackets, thousands deep
            row = None
        key = row.get("id", row.get("_id")) if isinstance(row, dict) else None
        if not isinstance(key, str | int) or not isinstance(row.get("text"), str):
            raise UsageError(
                'Line {number} of {path} is not a JSON object with "id" and "text".',
                hint=LAYOUT_HINT,
                number=number,
                path=path,
            )
        if str(key) in seen:
            raise UsageError(
                'Line {number} of {path} repeats the id "{key}".',
                hint="Each id may appear only once.",
                number=number,
                path=path,
                key=key,
            )
        seen.add(str(key))
        yield str(key), row


def _judgements(path: Path) -> Iterator[tuple[str, str, int]]:
    for number, line in enumerate(_lines(path), start=1):
        columns = line.split("\t")
        if len(columns) >= 3 and columns[-1].strip().lstrip("-").isdigit():
            # TREC's own files have an unused column after the query.
            yield columns[0], columns[-2], int(columns[-1])
        elif line.strip() and number > 1:
            raise UsageError(
                "Line {number} of {path} is not query id, passage id and grade, separated by tabs.",
                hint=LAYOUT_HINT,
                number=number,
                path=path,
            )


def _lines(path: Path) -> Iterator[str]:
    try:
        # Not splitlines(): U+2028 and the like may stand inside a JSON string.
        yield from path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            "{path} cannot be read: {reason}.",
            hint=LAYOUT_HINT,
            path=path,
            reason=error.strerror if isinstance(error, OSError) else error,
        ) from error
