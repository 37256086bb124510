"""The table of files that were not read and pages that were not read well."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from localrag.cli.output import ListItem, table
from localrag.errors import LocalragError
from localrag.library.records import Problem
from localrag.messages import tr
from localrag.presentation.reading import advice_text, page_ranges, reason_text
from localrag.printable import as_name

if TYPE_CHECKING:
    from rich.console import Console


def print_problems(console: Console, problems: Sequence[Problem], most: int | None = None) -> int:
    """Print a table of them, of at most so many rows; how many are left. Nothing for none."""
    from rich.text import Text

    rows = sorted(_merge_by_suffix(problems), key=_order)
    top_rows = rows[:most]
    if not top_rows:
        return 0
    folder = _common_folder([problem.source for problem in top_rows])
    console.print()
    title = tr("Not read, or not read well:")
    if folder:
        title = tr("Not read, or not read well, in {folder}:", folder=folder)
    console.print(ListItem(Text(title)))
    before = ""
    cells = []
    for problem in top_rows:
        advice = advice_text(problem)
        texts = (
            os.path.relpath(problem.source, folder) if folder else problem.source,
            page_ranges(problem.pages),
            reason_text(problem, beside_name=True),
            "″" if advice and advice == before else advice,
        )
        before = advice
        cells.append([ListItem(Text(as_name(text))) for text in texts])
    heads = tr("File"), tr("Page"), tr("Reason"), tr("What to do")
    grid = table(heads, cells, overflow="fold")
    # Rich takes from every column alike; names and numbers are hard to read when broken.
    for column, share in zip(grid.columns, (3, 6), strict=False):
        longest = max(console.measure(cell).maximum for cell in (column.header, *column.cells))
        column.width = max(1, min(longest, console.width // share))
    console.print(grid)
    return len(rows) - len(top_rows)


def _merge_by_suffix(problems: Sequence[Problem]) -> Iterator[Problem]:
    """The same, but files of a type that is not read once for each suffix."""
    counted: dict[str, list[Problem]] = {}
    for problem in problems:
        if problem.error is not None and "count" in problem.error.values:
            counted.setdefault(os.path.basename(problem.source), []).append(problem)  # noqa: PTH119
        else:
            yield problem
    for name, several in counted.items():
        errors = [problem.error for problem in several if problem.error is not None]
        total = sum(count for error in errors if isinstance(count := error.values["count"], int))
        folder = _common_folder([problem.source for problem in several])
        first = errors[0]
        values = first.values | {"count": total}
        merged = type(first)(first.message, hint=first.hint, **values)
        yield Problem(os.path.join(folder, name), error=merged)  # noqa: PTH118


def _order(problem: Problem) -> tuple[object, ...]:
    """Files that were not read first, then pages; those with the same to do beside each other."""
    error: LocalragError | None = problem.error
    counted = error is not None and "count" in error.values
    kind = error.hint if error else problem.note.kind if problem.note else ""
    return counted, error is None, kind, problem.source, problem.pages


def _common_folder(sources: Sequence[str]) -> str:
    """The folder that all lie in; "" where that is none, or not more than the disk."""
    try:
        common = os.path.commonpath([os.path.dirname(source) for source in sources])  # noqa: PTH120
    except ValueError:
        return ""
    return "" if common == os.path.dirname(common) else common  # noqa: PTH120
