"""Typed values, from a sentence or from the cell of a sheet, in English and Chinese.

Rules, not a model: what they cannot read is text. Nothing is converted between currencies; units of
time are normalised by name, and compared by their usual length.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date
from typing import Literal

from localrag.languages import LANGUAGES
from localrag.tables.records import ColumnKind, Value
from localrag.text.figures import Figure, figures, full_year

_CURRENCIES = {
    "£": "GBP", "gbp": "GBP", "€": "EUR", "eur": "EUR", "us$": "USD", "$": "USD", "usd": "USD",
    "¥": "CNY", "￥": "CNY", "rmb": "CNY", "cny": "CNY", "jpy": "JPY",
    "chf": "CHF", "hkd": "HKD", "hk$": "HKD",
    "aud": "AUD", "cad": "CAD", "sgd": "SGD", "twd": "TWD", "nt$": "TWD", "krw": "KRW",
    "inr": "INR", "₹": "INR", "sek": "SEK", "nok": "NOK", "dkk": "DKK", "pln": "PLN",
}  # fmt: skip
for _language in LANGUAGES.values():
    _CURRENCIES |= _language.numbers.currencies
_SIGNS = "|".join(sorted(map(re.escape, _CURRENCIES), key=len, reverse=True))
_MONEY_BEFORE = re.compile(rf"(?<![a-z])({_SIGNS})\s*$", re.IGNORECASE)
"""A currency before its amount: "GBP " in "GBP 240"."""
_MONEY_BEHIND = re.compile(
    rf"\s*+(?:million|billion|thousand|[百千万亿]+)?\s*+({_SIGNS})(?![a-z])", re.IGNORECASE
)
"""A currency behind its amount: " euros" in "690 euros", "万元" in "5万元"."""
_UNIT_OF_NAME = re.compile(rf"(?<![a-z])({_SIGNS})(?![a-z])", re.IGNORECASE)
"""A currency in the name of a column: "Cost GBP", "材料费（元）"."""

_TIMES = {
    name: unit
    for language in LANGUAGES.values()
    for name, unit in language.numbers.time_units.items()
}
_DAYS = {
    "minute": 1 / 1440, "hour": 1 / 24, "day": 1.0, "week": 7.0, "month": 30.4, "year": 365.25,
}  # fmt: skip

_YES = re.compile(
    r"\s*(?:yes\b|true\b|是的?[，,。.！!]|是$|有的?[，,。]|会[，,。的]|可以|能[，,。])",
    re.IGNORECASE,
)
_NO = re.compile(
    r"\s*(?:no\b(?!\.\s*\d)|false\b|否|不是|不会|不能|不可以|没有|并不|并未|不[，,。]|不$)",
    re.IGNORECASE,
)

_SEPARATED = re.compile(r"[+-]?\d{1,3}(?:(?P<group>[,. '’\u00a0\u202f，])\d{3})+(?:[.,]\d+)?")
"""An amount with separators of thousands: "1,234.50", "1.234,50", "1 234"."""
_NUMERIC = re.compile(
    rf"\s*+(?P<open>[(（])?\s*+(?P<sign>[-+−–])?\s*+(?P<before>{_SIGNS})?\s*+(?P<inner>[-−])?"
    r"(?P<digits>\d[\d.,'’ \u00a0\u202f，]*+|[.,]\d+)"
    rf"\s*+(?P<scale>[万亿千]|million|billion|[km](?![a-z]))?\s*+(?P<behind>{_SIGNS}|[%％‰])?"
    r"\s*+(?P<close>[)）])?\s*+",
    re.IGNORECASE,
)
"""The whole of a cell that holds a number: "(1,234.50)", "£12", "3.5%", "12 万元"."""
_LONGEST_NUMBER = 64
"""Characters of a cell; what is longer is text, and of hundreds of digits no float can be made."""
_PLAIN = re.compile(r"([£$€¥])?(-?(?:\d+|\d{1,3}(?:,\d{3})+)(?:\.\d+)?)")
"""What most numbers look like: "-1,234.5", "£12"."""
_DIGIT = re.compile(r"\d")
_SCALES = {"k": 1e3, "m": 1e6}
for _language in LANGUAGES.values():
    _SCALES |= _language.numbers.scales
_EMPTY = re.compile(r"[\s\-—–/\\*.…?？]*|n/?a\.?|null|none|无|暂无|未知|tbd|unknown", re.IGNORECASE)
"""The cell that holds nothing: "-", "n/a", "无"."""
_NUMERIC_DATE = re.compile(r"(\d{1,2})[./-](\d{1,2})[./-](\d{4}|\d{2})")
"""A date without its order: "03/04/2025"."""
_ISO_DATE = re.compile(r"(\d{4})\s*[-/.年]\s*(\d{1,2})(?:\s*[-/.月]\s*(\d{1,2})\s*[日号]?|\s*月)?")
"""A date with the year first: "2026-06-01", "2026/1/6", "2026年1月"."""

_TIME_BEHIND = re.compile(r"(?<=\d)[ T]+\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?$")
"""The time behind a date: " 14:05" in "01/03/2025 14:05"."""

DateOrder = Literal["day first", "month first"]


def value_in(text: str, kind: ColumnKind, question: str = "") -> Value | None:
    """The value of a kind that a sentence states; None for none, or for several that differ.

    What the question names itself, such as the year it asks about, is not its answer.
    """
    if kind in ("text", "one of"):
        return Value(kind, text)
    if kind == "yes/no":
        return _yes_no(text)
    own = figures(question)
    stated = figures(text)
    fresh = [figure for figure in stated if not any(map(figure.agrees, own))] or stated
    typed = (_typed(figure, text, kind) for figure in fresh)
    values = list(dict.fromkeys(value for value in typed if value is not None))
    if kind == "date" and not values:  # "17/02/2025", where the day shows the order
        written = [match[0] for match in _NUMERIC_DATE.finditer(text)]
        order = date_order(written)
        days = (date_in(day, order) for day in written if order)
        values = [Value("date", day) for day in dict.fromkeys(days) if day]
    if kind == "date" and len(values) > 1:  # "1 June 2025" is more than "June 2025"
        longest = max(len(value.text) for value in values)
        values = [value for value in values if len(value.text) == longest]
    return values[0] if len(values) == 1 else None


def kind_of(texts: Sequence[tuple[str, str]]) -> ColumnKind:
    """The kind that most of these (reply, question) have; text where none has."""
    order: tuple[ColumnKind, ...] = ("yes/no", "date", "money", "number")
    counts = Counter(
        kind
        for text, question in texts
        if (kind := next((k for k in order if value_in(text, k, question) is not None), None))
    )
    best, count = counts.most_common(1)[0] if counts else ("text", 0)
    return best if 2 * count > len(texts) else "text"


def _yes_no(text: str) -> Value | None:
    if _NO.match(text):
        return Value("yes/no", "no", 0.0)
    return Value("yes/no", "yes", 1.0) if _YES.match(text) else None


def _typed(figure: Figure, text: str, kind: ColumnKind) -> Value | None:
    if kind == "date":
        return _date_of(figure) if figure.kind == "date" else None
    if figure.kind == "date" and kind == "number" and figure.value[:2] == (None, None):
        days = figure.value[2] or 0.0  # "30日" may be a day of the month, and a length of time
        return Value("number", plain_number(days), days, "day")
    if figure.kind != "number" or (amount := figure.value[0]) is None:
        return None
    currency = _currency_at(text, figure)
    if kind == "money":
        return Value("money", plain_number(amount), amount, currency) if currency else None
    if currency:
        return None
    behind = text[figure.end : figure.end + 2].lstrip()[:1]
    percent = "%" if "%" in figure.units or behind in tuple("%％") else ""
    units = sorted(_TIMES[unit] for unit in figure.units if unit in _TIMES)
    return Value("number", plain_number(amount), amount, percent or next(iter(units), ""))


def _currency_at(text: str, figure: Figure) -> str:
    before = _MONEY_BEFORE.search(text[max(0, figure.start - 12) : figure.start])
    # "$" and its like may be within the figure, before its digits.
    within = _UNIT_OF_NAME.search(text[figure.start : figure.end])
    behind = _MONEY_BEHIND.match(text, figure.end)
    sign = before or within or behind
    return _CURRENCIES[sign[1].lower()] if sign else ""


def separated(number: float) -> str:
    """A number with separators of thousands: 1,730.50, 8, 0.0125."""
    if not number % 1:
        return f"{number:,.0f}"
    return f"{number:,.10g}" if abs(number * 100) % 1 > 1e-6 else f"{number:,.2f}"


def date_text(figure: Figure) -> str:
    """A date as cells have it, as far as it is given: 2026-06-01, 2026-06, 2026; "" for no year."""
    value = _date_of(figure)
    return value.text if value else ""


def _date_of(figure: Figure) -> Value | None:
    year, month, day = (*figure.value, None, None)[:3]
    if year is None:
        return None
    return Value("date", "-".join(_parts(int(year), month and int(month), day and int(day))))


def _parts(year: int, month: float | None, day: float | None) -> Iterable[str]:
    yield f"{year:04}"
    if month:
        yield f"{int(month):02}"
        if day:
            yield f"{int(day):02}"


def plain_number(number: float) -> str:
    """A number as a reader writes it, without a point where it is whole."""
    if abs(number) < 1e15 and number == int(number):
        return str(int(number))
    return f"{number:.10g}"


def in_days(value: Value) -> float | None:
    """About how many days a length of time has; None for other units."""
    days = _DAYS.get(value.unit)
    return None if days is None or value.number is None else days * value.number


def currency_named(name: str) -> str:
    """The currency that the name of a column gives, or ""."""
    named = [_CURRENCIES[sign.lower()] for sign in _UNIT_OF_NAME.findall(name)]
    return named[0] if len(set(named)) == 1 else ""


# Cells of sheets: the whole cell is the value


def is_empty(cell: str) -> bool:
    """Whether a cell holds nothing, or a sign for it."""
    return _EMPTY.fullmatch(cell) is not None


def amount_in(cell: str, *, comma: bool = False) -> tuple[float, str] | None:
    """The number that a cell holds whole, and its currency or "%"; None where it holds other text.

    `comma` says that in this column a comma stands before the decimals.
    """
    if len(cell) > _LONGEST_NUMBER:
        return None
    if not comma and (plain := _PLAIN.fullmatch(cell)):
        number = float(plain[2].replace(",", ""))
        return number, _CURRENCIES[plain[1]] if plain[1] else ""
    if not _DIGIT.search(cell):
        return None
    match = _NUMERIC.fullmatch(cell)
    if match is None or bool(match["open"]) != bool(match["close"]):
        return None
    amount = _amount(match["digits"], comma=comma)
    if amount is None or (match["before"] and match["behind"] in ("%", "％")):
        return None
    negative = bool(match["open"]) != (match["sign"] in tuple("-−–") or bool(match["inner"]))
    number = amount * _SCALES.get((match["scale"] or "").lower(), 1.0)
    number = -number if negative else number
    sign = (match["before"] or match["behind"] or "").lower()
    if sign in ("%", "％", "‰"):
        return number, "%" if sign != "‰" else "‰"
    return number, _CURRENCIES[sign] if sign else ""


def _amount(digits: str, *, comma: bool) -> float | None:
    digits = digits.strip().replace("，", ",")
    decimal = "," if comma else "."
    whole, point, rest = digits.rpartition(decimal) if decimal in digits else (digits, "", "")
    if not point:
        whole = digits
    group = "." if comma else ","
    grouped = _SEPARATED.fullmatch(whole)
    if not re.fullmatch(r"\d*", whole):
        if grouped is None or (grouped["group"] in ".," and grouped["group"] != group):
            return None
        if len(set(re.findall(r"\D", whole))) > 1:
            return None
        whole = re.sub(r"\D", "", whole)
    if not re.fullmatch(r"\d*", rest) or not (whole or rest):
        return None
    return float(f"{whole or 0}.{rest or 0}")


_NO_AMOUNT = re.compile(r"[^\d.,]")
_COMMA = re.compile(r"\d+(?:\.\d{3})*,(?:\d{1,2}|\d{4,})")
"""Digits with a comma before the decimals: "1.234,50"."""
_POINT = re.compile(r"\d+(?:,\d{3})*\.(?:\d{1,2}|\d{4,})")
"""Digits with a point before the decimals: "1,234.50"."""


def decimal_comma(cells: Iterable[str]) -> bool:
    """Whether the numbers of a column have a comma before their decimals.

    "1,5" and "1.234,50" say so; "1,234" may be either and says nothing.
    """
    votes = 0
    for cell in cells:
        digits = _NO_AMOUNT.sub("", cell)
        if _COMMA.fullmatch(digits):
            votes += 1
        elif _POINT.fullmatch(digits):
            votes -= 1
    return votes > 0


def date_in(cell: str, order: DateOrder | None = None) -> str | None:
    """The date that a cell holds whole, as 2026-06-01 or 2026-06; None where it holds other text.

    `order` says how "03/04/2025" is meant in this column; without it such a cell is no date.
    """
    cell = _TIME_BEHIND.sub("", cell.strip())
    if match := _ISO_DATE.fullmatch(cell):
        year, month, day = int(match[1]), int(match[2]), int(match[3] or 0)
        return _checked_date(year, month, day)
    if match := _NUMERIC_DATE.fullmatch(cell):
        first, second, year = int(match[1]), int(match[2]), full_year(int(match[3]))
        if order is None:
            return None
        day, month = (first, second) if order == "day first" else (second, first)
        return _checked_date(year, month, day)
    if not any(map(str.isalpha, cell)) or not any(map(str.isdigit, cell)) or len(cell) > 40:
        return None
    stated = [figure for figure in figures(cell) if figure.kind == "date"]
    if len(stated) != 1 or cell[: stated[0].start].strip(" ,") or cell[stated[0].end :].strip(" ,"):
        return None
    value = _date_of(stated[0])
    year, month, day = (int(part or 0) for part in stated[0].value)
    return _checked_date(year, month, day) if value and month else None


def date_order(cells: Iterable[str]) -> DateOrder | None:
    """The order of day and month in a column, where a day beyond the twelfth shows it."""
    orders = set[DateOrder]()
    for cell in cells:
        if match := _NUMERIC_DATE.fullmatch(_TIME_BEHIND.sub("", cell.strip())):
            if int(match[1]) > 12:
                orders.add("day first")
            elif int(match[2]) > 12:
                orders.add("month first")
    return orders.pop() if len(orders) == 1 else None


def _checked_date(year: int, month: int, day: int) -> str | None:
    try:
        checked = date(year, month, day or 1)
    except ValueError:
        return None
    return checked.isoformat() if day else f"{year:04}-{month:02}"
