"""Numbers of spreadsheets as their format shows them, never with fewer digits than they have."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from decimal import Decimal
from functools import cache

GENERAL = "General"
BUILT_IN = {
    1: "0",
    2: "0.00",
    3: "#,##0",
    4: "#,##0.00",
    9: "0%",
    10: "0.00%",
    **dict.fromkeys((37, 38), "#,##0"),
    **dict.fromkeys((39, 40), "#,##0.00"),
    **dict.fromkeys((14, 15, 16, 17, *range(27, 32), 36, *range(50, 55), 57, 58), "yyyy-mm-dd"),
    **dict.fromkeys((18, 19, 20, 21, 32, 33, 34, 35, 45, 47, 55, 56), "hh:mm:ss"),
    22: "yyyy-mm-dd hh:mm",
    46: "[h]:mm:ss",
}
"""Formats that a file names by number alone (ECMA-376, part 1, 18.8.30); "General" otherwise."""

_LITERAL = re.compile(r'"([^"]*)"|\\(.)|\[\$([^\]-]*)[^\]]*\]|_.|\*.|\[[a-z]+\]', re.IGNORECASE)
_ELAPSED = re.compile(r"\[(?:h+|m+|s+)\]", re.IGNORECASE)
_CORE = re.compile(r"([#0?]+(?:,[#0?]+)*)(?:\.([#0?]+))?")
_DATE = re.compile(r"[ymdhs年月日時时分秒]", re.IGNORECASE)
_EPOCH, _EPOCH_1904 = (datetime.datetime.fromisoformat(day) for day in ("1899-12-30", "1904-01-01"))
_LEAP_DAY_OF_1900 = 60
"""The day that spreadsheets count and that never was."""
_LAST_DAY = 2_958_466


@dataclass(frozen=True, slots=True)
class _Format:
    before: str
    after: str
    whole: int
    decimals: int
    thousands: bool
    percent: bool


def plain(value: float) -> str:
    """All digits that the number has in a spreadsheet, which is 15."""
    if value != value or value in (float("inf"), float("-inf")):
        return str(value)
    if value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    exact = Decimal(f"{value:.15g}")
    return f"{exact:f}" if -7 <= exact.adjusted() < 21 else f"{value:.15g}"


def shown(value: float, code: str, since_1904: bool = False) -> str:
    """A number as the format shows it; plain where that is not simple. Dates are as in ISO 8601."""
    value = float(value)
    code = code.split(";")[0]
    if _ELAPSED.search(code) and 0 <= value < _LAST_DAY:
        seconds = round(value * 86400)
        return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    if _is_date(code):
        return _date(value, since_1904)
    layout = _format(code)
    if layout is None or abs(value) >= 1e15:
        return plain(value)
    number = Decimal(plain(value))
    if layout.percent:
        number = (number * 100).normalize()
    exponent = number.as_tuple().exponent
    decimals = max(layout.decimals, -exponent if isinstance(exponent, int) else 0)
    digits = f"{abs(number):{',' if layout.thousands else ''}.{decimals}f}"
    digits = digits.rjust(len(digits) + layout.whole - len(digits.partition(".")[0]), "0")
    return f"{'-' if number < 0 else ''}{layout.before}{digits}{layout.after}"


@cache
def _is_date(code: str) -> bool:
    return code.lower() != "general" and _DATE.search(_LITERAL.sub("", code)) is not None


def _date(value: float, since_1904: bool) -> str:
    if not 0 <= value < _LAST_DAY:
        return plain(value)
    if value < 1:
        return str(datetime.timedelta(seconds=round(value * 86400))).rjust(8, "0")
    early = value < _LEAP_DAY_OF_1900 and not since_1904
    start = _EPOCH_1904 if since_1904 else _EPOCH + datetime.timedelta(days=early)
    moment = start + datetime.timedelta(seconds=round(value * 86400))
    return moment.isoformat(" ") if moment.time() != datetime.time() else moment.date().isoformat()


@cache
def _format(code: str) -> _Format | None:
    """The parts of a simple format, such as "$"#,##0.00; None for fractions, powers and texts."""
    literals: list[str] = []

    def keep(match: re.Match[str]) -> str:
        literals.append(match[1] or match[2] or match[3] or "")
        return "\0"

    bare = _LITERAL.sub(keep, code)
    core = _CORE.search(bare)
    if core is None:
        return None
    ends = []
    for end in (bare[: core.start()], bare[core.end() :]):
        if re.search(r"[^\0%\s$€£¥￥+()-]", end):
            return None
        ends.append(
            "".join(literals.pop(0) if character == "\0" else character for character in end)
        )
    before, after = (end_part.strip("( )-+") for end_part in ends)
    whole = core[1].replace(",", "")
    return _Format(
        before,
        f" {after}" if ends[1][:1] == " " and after else after,
        0 if "," in core[1] else whole.count("0"),
        (core[2] or "").count("0"),
        "," in core[1],
        "%" in ends[0] + ends[1],
    )
