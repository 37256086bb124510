"""Tables in text files (csv, tsv): encoding and delimiter are found, a row is a line."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator
from itertools import count, takewhile

from localrag.documents.decoding import decode
from localrag.documents.formats.table import SourceFile
from localrag.documents.lines import Line, build, squeeze, table_lines
from localrag.text.normalize import clean
from localrag.types import Document

_SAMPLE = 200
"""Rows that decide on the delimiter."""
_DELIMITERS = "\t;|,"
_NOWHERE = "\x1f"
"""In no cleaned text: of one column, a row is a cell."""
_DECIMAL = re.compile(r"\s*-?[\d.]*,\d+\s*")
_TALLEST = 1000
"""Lines in one cell."""


def read(file: SourceFile) -> Document:
    """Raises what `decode` raises, EmptyFileError if no cell has a value."""
    text = clean(decode(file))
    remarks = [Line(squeeze(line)) for line in _remarks(text)]
    rows = ([squeeze(cell) for cell in row] for row in _rows(text, len(remarks)))
    # It holds for all of the process: whoever else reads CSV keeps a limit of its own.
    before = csv.field_size_limit(len(text) + 1)
    try:
        lines = [*remarks, *table_lines(rows, numbers=count(), named=True)]
    finally:
        csv.field_size_limit(before)
    return build(file, [lines], unit="text")


def _remarks(text: str) -> list[str]:
    """Lines above the table that are none of its rows."""
    return list(takewhile(lambda line: line.startswith("#"), text.split("\n")[:_SAMPLE]))


def _rows(text: str, remarks: int) -> Iterator[list[str]]:
    """The rows as the file numbers them: what is none is empty."""
    lines = text.splitlines(keepends=True)
    # What Excel writes, and reads, where a system has another list separator.
    match = re.fullmatch(r"sep=(.)\s*", lines[remarks], re.IGNORECASE) if lines[remarks:] else None
    start = remarks + (match is not None)
    yield from ([] for _ in range(start))
    delimiter = match[1] if match else _delimiter(lines[start : start + _SAMPLE])
    rows = csv.reader(lines[start:], delimiter=delimiter)
    for number, row in enumerate(rows, start):
        if rows.line_num > number - start + 1 and any(cell.count("\n") > _TALLEST for cell in row):
            break  # a quotation mark that has no other: then none means anything
        yield row
    else:
        return
    yield from csv.reader(lines[number:], delimiter=delimiter, quoting=csv.QUOTE_NONE)


def _delimiter(sample: list[str]) -> str:
    """The one by which most rows get the same number of cells, more than one."""

    def agreement(delimiter: str) -> tuple[int, int]:
        try:
            rows = [row for row in csv.reader(sample, delimiter=delimiter) if row]
        except csv.Error:
            return (0, 0)
        widths = Counter(map(len, rows))
        width, count = max(widths.items(), key=lambda item: item[1], default=(1, 0))
        top, *rest = sample or [""]
        if delimiter == "," and "," not in top and all(_DECIMAL.fullmatch(line) for line in rest):
            return (0, 0)
        return (count if width > 1 and 2 * count >= len(rows) else 0, width)

    best = max(_DELIMITERS, key=agreement)
    return best if agreement(best)[0] else _NOWHERE
