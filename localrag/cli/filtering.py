"""The options that say where to search; `search` and `ask` share them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime
from functools import wraps
from typing import Any, TypeVar, get_args

import click

from localrag.errors import UsageError
from localrag.library.catalogue.filters import SUFFIXES, FileType, Filter, FilterLanguage
from localrag.messages import tr

EXPANSIONS = ("none", "multi-query", "hyde")
"""The values of `retrieval.expansion`; repeated here because that module is heavier."""

Command = TypeVar("Command", bound=Callable[..., Any])


def filter_options(command: Command) -> Command:
    """Add `--source` and the rest; the command receives `wanted: Filter`."""

    @wraps(command)
    def with_filter(
        *arguments: Any,
        source: tuple[str, ...],
        file_type: tuple[FileType, ...],
        path: str | None,
        language: FilterLanguage | None,
        since: str | None,
        until: str | None,
        pages: str | None,
        **others: Any,
    ) -> Any:
        wanted = Filter(
            sources=source,
            types=file_type,
            path=path or "",
            language=language,
            since=_moment("--since", since) if since else None,
            until=_moment("--until", until) if until else None,
            pages=_pages(pages) if pages else None,
        )
        return command(*arguments, wanted=wanted, **others)

    for option in reversed(
        (
            click.option(
                "--source",
                multiple=True,
                metavar=tr("FILE"),
                help=tr("Only in this file, by its name or path; may be repeated."),
            ),
            click.option(
                "--type",
                "file_type",
                multiple=True,
                type=click.Choice(list(SUFFIXES)),
                help=tr("Only in files of this kind; may be repeated."),
            ),
            click.option(
                "--path",
                metavar=tr("PATTERN"),
                help=tr("Only where the path matches, in quotes: 'contracts/*.pdf'."),
            ),
            click.option(
                "--language",
                type=click.Choice(list(get_args(FilterLanguage))),
                help=tr("Only in documents in this language."),
            ),
            click.option(
                "--since",
                metavar=tr("DATE"),
                help=tr("Only what was added on this day or later: 2026-07-31."),
            ),
            click.option(
                "--until",
                metavar=tr("DATE"),
                help=tr("Only what was added on this day or before."),
            ),
            click.option(
                "--pages", metavar=tr("PAGES"), help=tr("Only on these pages: 3-10, 7 or 3-.")
            ),
        )
    ):
        option(with_filter)
    return with_filter  # type: ignore[return-value]


def expand_option(command: Command) -> Command:
    """Add `--expand`; the command receives `expand: str | None`."""
    return click.option(
        "--expand",
        type=click.Choice(EXPANSIONS),
        help=tr("Let the language model reword the question (multi-query) or draft an answer."),
    )(command)


def _moment(option: str, given: str) -> date:
    try:
        return date.fromisoformat(given) if len(given) <= 10 else datetime.fromisoformat(given)
    except ValueError as error:
        raise UsageError(
            "{option} is no date: {given}.",
            hint="Write it as 2026-07-31, or with the time as 2026-07-31T14:30.",
            option=option,
            given=given,
        ) from error


def _pages(given: str) -> tuple[int, int | None]:
    found = re.fullmatch(r"\s*(\d{1,9})\s*(?:([-–—~])\s*(\d{1,9})?\s*)?", given, re.ASCII)
    if found is None:
        raise UsageError(
            "--pages cannot be read: {given}.",
            hint="Write 3-10 for a range, 7 for one page, 3- for all from there on.",
            given=given,
        )
    first, dash, last = found.groups()
    if last is not None:
        return int(first), int(last)
    return int(first), None if dash else int(first)
