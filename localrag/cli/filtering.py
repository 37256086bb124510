"""The options that say where to search; `search` and `ask` share them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime
from functools import wraps
from typing import Any, TypeVar

import click

from localrag.documents.formats import table
from localrag.errors import UsageError
from localrag.languages import CODES
from localrag.library.catalogue.filters import Filter
from localrag.messages import tr

EXPANSIONS = ("none", "multi-query", "hyde")
"""The values of `retrieval.expansion`; repeated here because that module is heavier."""

Command = TypeVar("Command", bound=Callable[..., Any])


def filter_options(command: Command) -> Command:
    """Add `--source` and the rest; the command receives `filter: Filter`."""
    day: dict[str, Any] = {"metavar": tr("DATE"), "callback": _moment}
    options = {
        "sources": click.option(
            "--source",
            "sources",
            multiple=True,
            metavar=tr("FILE"),
            help=tr("Only in this file, by its name or path; may be repeated."),
        ),
        "types": types_option,
        "path": click.option(
            "--path",
            default="",
            metavar=tr("PATTERN"),
            help=tr("Only where the path matches, in quotes: 'contracts/*.pdf'."),
        ),
        "language": click.option(
            "--language",
            type=click.Choice(CODES),
            help=tr("Only in documents in this language."),
        ),
        "since": click.option(
            "--since", help=tr("Only what was added on this day or later: 2026-07-31."), **day
        ),
        "until": click.option(
            "--until", help=tr("Only what was added on this day or before."), **day
        ),
        "pages": pages_option,
    }

    @wraps(command)
    def with_filter(*arguments: Any, **values: Any) -> Any:
        values["filter"] = Filter(**{name: values.pop(name) for name in options})
        return command(*arguments, **values)

    for option in reversed(options.values()):
        option(with_filter)
    return with_filter  # type: ignore[return-value]


def types_option(command: Command) -> Command:
    """Add `--type`; the command receives `types: tuple[str, ...]`."""
    return click.option(
        "--type",
        "types",
        multiple=True,
        type=click.Choice(table.names()),
        help=tr("Only in files of this kind; may be repeated."),
    )(command)


def expand_option(command: Command) -> Command:
    """Add `--expand`; the command receives `expand: str | None`."""
    return click.option(
        "--expand",
        type=click.Choice(EXPANSIONS),
        help=tr("Let the language model reword the question (multi-query) or draft an answer."),
    )(command)


def _moment(_: click.Context, option: click.Parameter, value: str | None) -> date | None:
    if not value:
        return None
    try:
        return date.fromisoformat(value) if len(value) <= 10 else datetime.fromisoformat(value)
    except ValueError as error:
        raise UsageError(
            "{option} is not a date: {value}.",
            hint="Write it as 2026-07-31, or with the time as 2026-07-31T14:30.",
            option=option.opts[0],
            value=value,
        ) from error


def _pages(
    _: click.Context, __: click.Parameter, value: str | None
) -> tuple[int, int | None] | None:
    """`3-10`, `7` or `3-` as first and last page, None: to the end."""
    if not value:
        return None
    match = re.fullmatch(r"\s*(\d{1,9})\s*(?:([-–—~])\s*(\d{1,9})?\s*)?", value, re.ASCII)
    if match is None:
        raise UsageError(
            "--pages cannot be read: {value}.",
            hint="Write 3-10 for a range, 7 for one page, 3- for all from there on.",
            value=value,
        )
    first, dash, last = match.groups()
    return int(first), int(last or first) if last or not dash else None


def pages_option(command: Command) -> Command:
    """Add `--pages`; the command receives `pages: tuple[int, int | None] | None`."""
    return click.option(
        "--pages",
        metavar=tr("PAGES"),
        callback=_pages,
        help=tr("Only on these pages: 3-10, 7 or 3-."),
    )(command)
