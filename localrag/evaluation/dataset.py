"""Questions to evaluate on: JSON, JSONL or CSV, with the column names of several tools.

`question, answer, contexts, ground_truth` (ragas until 0.1), `user_input, response,
retrieved_contexts, reference` (ragas since 0.2) and `question, ideal_answer, has_answer, source,
page` (localrag's own) are understood. Only the question must be there.
"""

from __future__ import annotations

import ast
import csv
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from localrag.errors import UsageError

S = TypeVar("S")

HINT = (
    "A data set is a JSON, JSONL or CSV file with one question per row, optionally with "
    "answer, contexts (a list), reference, has_answer, source and page."
)
_QUESTION = ("question", "user_input", "query")
_ANSWER = ("answer", "response")
_CONTEXTS = ("contexts", "retrieved_contexts")
_REFERENCE = ("ideal_answer", "ground_truth", "ground_truths", "reference", "references")
_ANSWERABLE = ("has_answer", "answerable")
_FALSE = ("false", "0", "no", "否")


@dataclass(frozen=True, slots=True)
class Context:
    """A passage that was given to the model; `source` "" where it is not known."""

    text: str
    source: str = ""
    first_page: int = 0
    last_page: int = 0


@dataclass(frozen=True, slots=True)
class Sample:
    """One question of a data set.

    `answer` and `contexts` None: the pipeline under test produces them. `references` are answers
    of which each is right; none where that is not known. `answerable` None: not known. `source`
    and `page` (from 1) say where the answer stands, "" and None where that is not known.
    """

    id: str
    question: str
    answer: str | None = None
    contexts: tuple[Context, ...] | None = None
    references: tuple[str, ...] = ()
    answerable: bool | None = None
    source: str = ""
    page: int | None = None

    @property
    def reference(self) -> str:
        """The first reference answer, which a judge compares with; "" where there is none."""
        return self.references[0] if self.references else ""


def read_dataset(path: Path) -> list[Sample]:
    """Read all rows; ids are row numbers from 1 where the file gives none.

    Raises `UsageError` naming the file and the row where something is missing or malformed.
    """
    samples: list[Sample] = []
    seen: set[str] = set()
    for number, row in enumerate(_rows(path), start=1):
        sample = _sample(path, number, row)
        if sample.id in seen:
            raise UsageError(
                'Row {number} of {path} repeats the id "{id}".',
                hint="Each id may appear only once.",
                number=number,
                path=path,
                id=sample.id,
            )
        seen.add(sample.id)
        samples.append(sample)
    if not samples:
        raise UsageError("{path} contains no questions.", hint=HINT, path=path)
    return samples


def evenly(samples: list[S], count: int | None) -> list[S]:
    """So many of the samples, taken evenly from first to last; None for all."""
    if count is None or count >= len(samples):
        return samples
    return [samples[place * len(samples) // count] for place in range(count)]


def read_text(path: Path) -> str:
    """What stands in a file. Raises `UsageError` where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            "{path} cannot be read: {reason}.",
            hint=HINT,
            path=path,
            reason=error.strerror if isinstance(error, OSError) else error,
        ) from error


def _rows(path: Path) -> Iterator[Mapping[str, Any]]:
    text = read_text(path)
    if path.suffix.lower() == ".csv":
        try:
            # Not splitlines(): U+2028 and the like may stand inside a cell.
            yield from list(csv.DictReader(io.StringIO(text, newline="")))
        except csv.Error as error:
            raise UsageError(
                "{path} is not valid CSV: {reason}.", hint=HINT, path=path, reason=error
            ) from error
        return
    try:
        if text.lstrip().startswith("["):
            rows = json.loads(text)
        else:
            # Not splitlines(): U+2028 and the like may stand inside a JSON string.
            rows = [json.loads(line) for line in text.split("\n") if line.strip()]
    except (ValueError, RecursionError) as error:  # brackets, thousands deep
        raise UsageError(
            "{path} is not valid JSON or JSONL: {reason}.", hint=HINT, path=path, reason=error
        ) from error
    for number, row in enumerate(rows, start=1):
        try:
            json.dumps(row, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError as error:  # half of a surrogate pair, as "\\ud83d" by itself
            raise UsageError(
                "Row {number} of {path} is not valid Unicode.", hint=HINT, number=number, path=path
            ) from error
        yield row if isinstance(row, dict) else {}


def _sample(path: Path, number: int, row: Mapping[str, Any]) -> Sample:
    question = _first(row, _QUESTION)
    if not isinstance(question, str) or not question.strip():
        raise UsageError(
            "Row {number} of {path} has no question.", hint=HINT, number=number, path=path
        )
    contexts = _first(row, _CONTEXTS)
    # localrag's own files name the chapter in "reference" and the answer in "ideal_answer".
    answer = _first(row, _ANSWER)
    identifier = row.get("id")
    return Sample(
        id=str(number if identifier in (None, "") else identifier),
        question=question.strip(),
        answer=str(answer) if answer is not None else None,
        contexts=_contexts(path, number, contexts) if contexts is not None else None,
        references=_references(_first(row, _REFERENCE)),
        answerable=_truth(_first(row, _ANSWERABLE)),
        source=str(row.get("source") or ""),
        page=_page(row.get("page")),
    )


def _first(row: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((row[name] for name in names if not _missing(row.get(name))), None)


def _missing(value: Any) -> bool:
    """Nothing, or NaN, as pandas writes what is not there."""
    return value is None or value == "" or value != value


def _page(value: Any) -> int | None:
    """A page number; pandas writes "3.0" where other rows have none."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return int(number) if number.is_integer() and number > 0 else None


def _references(value: Any) -> tuple[str, ...]:
    """One answer, or a list of them; a list in a CSV cell is written as JSON or as Python does."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        value = _listed(value)
    listed = value if isinstance(value, list | tuple) else [value or ""]
    return tuple(dict.fromkeys(text for entry in listed if (text := str(entry).strip())))


def _contexts(path: Path, number: int, value: Any) -> tuple[Context, ...]:
    if isinstance(value, str):
        value = _listed(value)
    if not isinstance(value, list | tuple):
        raise UsageError(
            "The contexts in row {number} of {path} are not a list.",
            hint=HINT,
            number=number,
            path=path,
        )
    return tuple(_context(item) for item in value)


def _listed(text: str) -> list[Any]:
    """A list in a CSV cell, as JSON or as Python writes it; any other text is one passage."""
    for read in (json.loads, ast.literal_eval):
        try:
            value = read(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
        if isinstance(value, list):
            return value
    return [text]


def _context(item: Any) -> Context:
    if isinstance(item, Mapping):
        first = _page(item.get("first_page")) or _page(item.get("page")) or 0
        return Context(
            text=str(item.get("text") or ""),
            source=str(item.get("source") or ""),
            first_page=first,
            last_page=_page(item.get("last_page")) or first,
        )
    return Context(str(item))


def _truth(value: Any) -> bool | None:
    if _missing(value):
        return None
    return str(value).strip().lower() not in _FALSE
