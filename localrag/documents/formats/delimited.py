"""Tables in text files (csv, tsv): encoding and delimiter are found, a row is a line."""

from __future__ import annotations

import csv
from collections import Counter
from itertools import count

from localrag.documents.decoding import decode
from localrag.documents.formats.table import SourceFile
from localrag.documents.lines import build, squeeze, table_lines
from localrag.text.normalize import clean
from localrag.types import Document

_SAMPLE = 200
"""Rows that decide on the delimiter."""
_DELIMITERS = "\t;|,"


def read(file: SourceFile) -> Document:
    """Raises what `decode` raises, EmptyFileError if no cell has a value."""
    text = clean(decode(file))
    csv.field_size_limit(1 << 30)
    rows = csv.reader(text.splitlines(keepends=True), delimiter=_delimiter(text))
    lines = table_lines(([squeeze(cell) for cell in row] for row in rows), numbers=count())
    return build(file, [lines], unit="text")


def _delimiter(text: str) -> str:
    """The one by which most rows get the same number of cells, more than one."""
    sample = text.splitlines(keepends=True)[:_SAMPLE]

    def agreement(delimiter: str) -> tuple[int, int]:
        try:
            widths = Counter(len(row) for row in csv.reader(sample, delimiter=delimiter) if row)
        except csv.Error:
            return (0, 0)
        width, rows = max(widths.items(), key=lambda item: item[1], default=(1, 0))
        return (rows if width > 1 else 0, width)

    return max(_DELIMITERS, key=agreement)
