"""What a document is: a card made of its title, its path and how it begins, without a model.

A passage of a real folder rarely says what it is about: "The total liability is limited" stands in
six contracts. The card is what the passages inherit when they are searched, and what a person is
shown of a document. It follows from what the catalogue holds, so that it goes with its document.
Rules that know documents, and nothing of questions: what they do not know is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import PurePath, PureWindowsPath
from typing import Literal

from localrag.languages import LANGUAGES, any_of
from localrag.text.figures import figures
from localrag.types import Card, CardKind

HEAD = 600
"""Code points of a document's beginning in which its dates, parties and numbers are looked for."""

MOST_FOLDERS = 3
"""Folders above a file whose names say something of it."""

_MOST = 6
"""Dates, parties or numbers that a card has of each."""

_WORD_BREAK = re.compile(r"(?<=[a-z])(?=[A-Z])|[_\-.\s]+")
"""OttwayLease_v2-final -> Ottway Lease v2 final."""

_NAME_DATE = re.compile(
    r"(?<!\d)(?P<year>(?:19|20)\d\d)(?P<sign>[-_.]?)(?P<month>0[1-9]|1[0-2])"
    r"(?:(?P=sign)(?P<day>0[1-9]|[12]\d|3[01]))?(?!\d)"
)
"""payroll_202411, stock 2025-04, 2026_03_17 minutes: as files are named, and no text is dated."""
_FIRST_OF_SIX_DIGITS = "2013"
"""201205 may be the 5th of December 2020; from this year on no day can be meant."""

_KIND_ORDER: tuple[CardKind, ...] = (
    *("amendment", "contract", "invoice", "quotation", "minutes"),
    *("policy", "report", "notice", "budget"),
)
"""In this order: a supplementary agreement is no contract of its own."""


def _kind_pattern(kind: CardKind) -> re.Pattern[str]:
    return re.compile(
        any_of(lambda language: language.documents.kinds.get(kind, "")), re.IGNORECASE
    )


_KINDS = tuple((kind, _kind_pattern(kind)) for kind in _KIND_ORDER)

_BY_SUFFIX: dict[str, CardKind] = {
    **dict.fromkeys((".eml", ".msg"), "mail"),
    **dict.fromkeys((".xlsx", ".xls", ".ods", ".csv", ".tsv"), "sheet"),
    **dict.fromkeys((".pptx", ".ppt", ".odp"), "slides"),
}

_DRAFT = re.compile(any_of(lambda language: language.documents.draft), re.IGNORECASE)
_WITHDRAWN = re.compile(any_of(lambda language: language.documents.withdrawn), re.IGNORECASE)
_COMPANIES = tuple(
    re.compile(pattern)
    for pattern in (language.documents.company for language in LANGUAGES.values())
    if pattern
)
_PARTY_LINE = re.compile(
    # Supplier: Ottway Electronics; 甲方（出租方）：滨江物业
    rf"^(?:{any_of(lambda language: language.documents.party)})"
    r"(?:\s?[（(][^）)\n]{1,20}[）)])?\s?[:：]\s*(?P<party>[^\n,，;；]{2,60})",
    re.IGNORECASE | re.MULTILINE,
)
_NUMBER_RUN = re.compile(r"[\w/-]++")
"""The signs of numbers, as many as stand together: "INV-2024-017" of "see INV-2024-017, p. 3"."""
_NUMBER = re.compile(r"(?<![\w-])[A-Z]{1,6}[-/]?\d[\dA-Z]*(?:[-/]\d[\dA-Z]*)*(?![\w-])")
"""INV-2024-017, HT2023-05."""


def card_of(title: str, source: str, head: str) -> Card:
    """The card of a document by its title, its path, and how it begins (`HEAD` code points)."""
    # A library may come from a machine with the other sign between folders.
    path = PureWindowsPath(source) if "\\" in source and "/" not in source else PurePath(source)
    name = _words(path.stem)
    folders = [_words(part) for part in path.parts[:-1] if part != path.anchor]
    named = f"{title}\n{path.stem}"
    own_dates = [*_named_dates(title, path.stem)]
    dates = _first((*own_dates, *_dates(head)))
    return Card(
        title=title,
        name=name,
        folders=tuple(folders[-MOST_FOLDERS:]),
        kind=_kind(f"{title}\n{name}", path.suffix.lower()),
        standing=_standing("\n".join((title, name, *folders[-1:]))),
        date=max(own_dates, default="") or next(iter(dates), ""),
        dates=dates,
        parties=_first(_parties(f"{title}\n{head}")),
        numbers=_first(_numbers(f"{named}\n{head}")),
    )


def own_date(title: str, source: str) -> str:
    """The newest date that a document's title and its file's name give, "" for none."""
    stem = source.replace("\\", "/").rpartition("/")[2].rpartition(".")[0]
    return max(_named_dates(title, stem), default="")


def card_text(card: Card) -> str:
    """The words by which a document is found: what all its passages inherit."""
    return "\n".join((card.title, card.name, *card.folders, *card.parties, *card.numbers))


def date_words(date: str) -> str:
    """A date as questions have it, in all languages: 2024-11 -> 2024 november nov 11月份 十一月份.

    Searched as words of the card, it brings nothing (`benchmarks/log/2026-11.md`, 2026-11-29).
    """
    year, *rest = date.split("-")
    months = [
        language.numbers.month_words[int(month) - 1]
        for month in rest[:1]
        for language in LANGUAGES.values()
        if language.numbers.month_words
    ]
    return " ".join((year, *months, *(day.lstrip("0") for day in rest[1:])))


def _words(name: str) -> str:
    return " ".join(filter(None, _WORD_BREAK.split(name)))


def _kind(named: str, suffix: str) -> CardKind:
    """By the title and the file's name, which say it surely only where they say one thing."""
    kinds = [kind for kind, pattern in _KINDS if pattern.search(named)]
    if kinds[:1] == ["amendment"]:
        return "amendment"
    if len(kinds) == 1:
        return kinds[0]
    return "" if kinds else _BY_SUFFIX.get(suffix, "")


def _standing(named: str) -> Literal["", "draft", "withdrawn"]:
    """By title, name and the folder that a document lies in."""
    if _DRAFT.search(named):
        return "draft"
    return "withdrawn" if _WITHDRAWN.search(named) else ""


def _named_dates(title: str, stem: str) -> Iterator[str]:
    """Of a document's title and its file's name; INV-2024-03 is the third invoice of a year."""
    yield from _dates(title)
    for number in _first(_numbers(stem)):
        stem = stem.replace(number, " ")
    for match in _NAME_DATE.finditer(stem):
        if match["sign"] or match["day"] or match["year"] >= _FIRST_OF_SIX_DIGITS:
            yield "-".join(filter(None, match.group("year", "month", "day")))
    yield from _dates(_NAME_DATE.sub(" ", stem).replace("_", " "))


def _dates(text: str) -> Iterator[str]:
    """As year-month-day, year-month or year."""
    for figure in figures(text):
        year, *rest = figure.value
        if figure.kind == "date" and year is not None:
            parts = [f"{int(year):04}"]
            for part in rest:
                if not part:  # nor is there a month 0
                    break
                parts.append(f"{int(part):02}")
            yield "-".join(parts)


def _parties(text: str) -> Iterator[str]:
    for match in _PARTY_LINE.finditer(text):
        yield " ".join(match["party"].split())
    end = 0
    for match in sorted(_companies(text), key=re.Match.start):
        if match.start() >= end:  # 公司 may stand in a name with Ltd
            end = match.end()
            yield " ".join(match[0].split())


def _companies(text: str) -> Iterator[re.Match[str]]:
    for pattern in _COMPANIES:
        yield from (match for match in pattern.finditer(text) if match["company"])


def _numbers(text: str) -> Iterator[str]:
    """Two digits stand in it, or behind it in the same run.

    Looked for once a run: a lookahead would do so at each place of it.
    """
    for run in _NUMBER_RUN.findall(text):
        last = max(
            (n for n, pair in enumerate(pairwise(run)) if "".join(pair).isdecimal()), default=-1
        )
        for match in _NUMBER.finditer(run):
            if match.start() <= last:
                yield match[0]


def _first(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))[:_MOST]
