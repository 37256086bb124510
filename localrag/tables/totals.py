"""What follows from the cells of a column, computed, with a statement of completeness."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from localrag.tables.records import Cell, Row, Total, Value, completeness


def totals(rows: Sequence[Row], columns: int) -> tuple[Total, ...]:
    """For each column: from the cells that were found, and from no others."""
    return tuple(
        total([(row.source, row.cells[column]) for row in rows]) for column in range(columns)
    )


def total(cells: Sequence[tuple[str, Cell]]) -> Total:
    """Of (source, cell): sums, extremes and counts. Units are kept apart, never converted."""
    values = [
        (cell.value, source) for source, cell in cells if cell.state == "found" and cell.value
    ]
    numbers: dict[str, list[tuple[Value, str]]] = {}
    for value, source in values:
        if value.kind in ("number", "money") and value.number is not None:
            numbers.setdefault(value.unit, []).append((value, source))
        elif value.kind == "date":
            numbers.setdefault("date", []).append((value, source))
    return Total(
        completeness([cell for _, cell in cells]),
        {
            unit: math.fsum(value.number or 0.0 for value, _ in pairs)
            for unit, pairs in numbers.items()
            if unit != "date"
        },
        {unit: min(pairs, key=lambda pair: _order(pair[0])) for unit, pairs in numbers.items()},
        {unit: max(pairs, key=lambda pair: _order(pair[0])) for unit, pairs in numbers.items()},
        dict(Counter(value.text for value, _ in values).most_common()),
    )


def _order(value: Value) -> tuple[float, str]:
    return (value.number or 0.0, value.text)
