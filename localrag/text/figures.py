"""Numbers, dates and times of a text, as values that can be compared.

Digits, Chinese numerals and English number words; units and orders of magnitude (万, million).
Rules, not a parser: what they do not know is no figure. Nothing is converted between units.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from localrag.languages import LANGUAGES, any_of, union_of
from localrag.languages.zh import HAN_DIGITS

Kind = Literal["number", "date", "time"]

_HAN_NUMERAL = "[〇零一二两三四五六七八九十百千万亿]"
_NUMERALS = (*HAN_DIGITS, "十")
_NOT_BEHIND_NUMERAL = f"(?<![{''.join(_NUMERALS)}])"
_DATES = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        *(
            date
            for language in LANGUAGES.values()
            if not language.space
            for date in language.numbers.dates
        ),
        r"(?<![\d.])(?P<year>[12]\d{3})([-/.])(?P<month>\d{1,2})\2(?P<day>\d{1,2})(?![\d.])",
        *(
            date
            for language in LANGUAGES.values()
            if language.space
            for date in language.numbers.dates
        ),
        # A year, and not 1250 plants; 1250 in a code or an amount is none either.
        r"(?<![\w.,$€£¥/-])(?P<year>1\d{3}|20\d{2})(?![\w%€$°]|[.,/]\d|\s+(?:[a-z]+s|people|men|km|kg)\b"
        r"|\s*[%€$°%\u4e00-\u9fff])",
    )
)
"""Signs of their own, as 年 in Chinese, make a date surer than numbers in order."""
_MONTHS = {
    name: number
    for language in LANGUAGES.values()
    for name, number in language.numbers.months.items()
}
_TIMES = (
    re.compile(
        r"(?<![\d.:])(?P<hour>\d{1,2})[:：](?P<minute>\d{2})(?!\d)(?:\s*(?P<half>[ap]\.?m\b))?"
    ),
    *(
        re.compile(time, re.IGNORECASE)
        for language in LANGUAGES.values()
        for time in language.numbers.times
    ),
)
_AFTERNOON = union_of(lambda language: language.numbers.afternoon)
_TEENS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_WORDS = {word: value for value, word in enumerate(_TEENS.split())}
_WORDS |= {word: 10 * value for value, word in enumerate(_TENS.split(), start=2)}
_SCALES = {"hundred": 1e2, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
_HAN_SCALES = {"十": 1e1, "百": 1e2, "千": 1e3, "万": 1e4, "亿": 1e8}
_WORD = "|".join(sorted({*_WORDS, *_SCALES}, key=len, reverse=True))
_NUMBERS = re.compile(
    r"(?P<digits>(?<![\w./])[-−]?\d++(?:,\d{3}(?!\d))*+(?:\.\d++)?+"
    r"|(?<![A-Za-z\d./])\d++(?:,\d{3}(?!\d))*+(?:\.\d++)?+)"
    rf"(?!s\b|/[A-Za-z])(?:st|nd|rd|th)?(?:\s*(?P<scale>{'|'.join(_SCALES)})\b|\s?(?P<han_scale>[百千万亿]+))?"
    rf"|(?P<han>{_HAN_NUMERAL}+(?:点[{HAN_DIGITS}]+)?)"
    rf"|\b(?P<words>(?:{_WORD})(?:(?:-|\s+|\s+and\s+)(?:{_WORD}))*)\b",
    re.IGNORECASE,
)
_MEASURES = (
    "年月日号天周元岁名位人次米吨克层座间台辆件条只头棵株场届倍度分秒时卷页篇字家种亩里寸尺岛"
)
_SAME_MEASURE = {"名": "人", "位": "人", "号": "日", "块": "元"}
_NOT_NUMERALS = frozenset({"万一", "一一", "千万", "一", "十", "百", "千", "万", "零", "两", "亿"})
"""Parts of words as a rule; those of one sign count before a measure."""
_CURRENCIES = {
    "$": "$", "€": "€", "£": "£", "¥": "¥", "￥": "¥", "dollar": "$", "euro": "€", "eur": "€",
    "pound": "£", "yuan": "¥", "rmb": "¥", "usd": "$", "cny": "¥", "元": "¥", "percent": "%",
    "％": "%", "pct": "%", "percentage": "%", "°c": "°", "℃": "°", "degree": "°", "km": "kilometre",
    "kilometer": "kilometre", "meter": "metre", "m": "metre", "公里": "千米",
}  # fmt: skip
_GRAMMAR = (
    "a an the and or but of on onto to in into at as for from with than by is are was were be been "
    "has had have it its that this which who when where while per each every"
)
_NO_UNIT = frozenset(_GRAMMAR.split())
_BEFORE_UNIT = frozenset({"new", "more", "other", "different"})
_LAST_CENTURY = 70
"""From here on a year of two digits is one of the last century."""
LARGE = 1000
"""From here on a number is hard to turn from one language's words into the other's."""
COUNTED = 10
"""A number word up to this may count what a text lists: "three reasons"."""
_LARGEST = 1e50
"""What has more digits is a code, and such values can be added up."""
_DIGITS = re.compile(r"\d+")
_NEAR = 0.02
"""Numbers of which one says it is about so many agree within this share."""
_ABOUT = re.compile(rf"(?:{any_of(lambda language: language.numbers.about)})\s*\W?$", re.IGNORECASE)
_HOW_MANY = re.compile(any_of(lambda language: language.numbers.how_many), re.IGNORECASE)
_FEW = re.compile(
    r"(?<![〇零一二三四五六七八九十百千万第每之])([二两三四五六七八九])(?=[个只支枚种项所家座公厘毫英平小]|\W*$)"
)
_MEASURED = frozenset(["$", "€", "£", "¥", "%", "°"]) | union_of(
    lambda language: language.numbers.measured
)
"""Units of what is measured and not counted."""
_UP_TO = re.compile(
    rf"(?:{any_of(lambda language: language.numbers.up_to)})\s*(?:the\s+)?$", re.IGNORECASE
)
_BEYOND = re.compile(
    rf"(?:{any_of(lambda language: language.numbers.beyond)})\s*(?:the\s+)?$", re.IGNORECASE
)
_UP_TO_BEHIND = re.compile(any_of(lambda language: language.numbers.up_to_behind))
_BEYOND_BEHIND = re.compile(any_of(lambda language: language.numbers.beyond_behind))


_BARE_MONTHS = tuple(
    re.compile(language.numbers.month) for language in LANGUAGES.values() if language.numbers.month
)
_BEFORE_OPEN = re.compile(
    rf"(?:{any_of(lambda language: language.numbers.before_open)})$", re.IGNORECASE
)
_BEHIND_OPEN = re.compile(any_of(lambda language: language.numbers.behind_open), re.IGNORECASE)
_OPENING = 48
"""Code points before a date in which what opens it is looked for."""
_NUMERIC_DAY = re.compile(
    r"(?<![\w./-])(\d{1,2})(?:/(\d{1,2})|([./-])(\d{1,2})\3(\d{4}|\d{2}))(?![\w./-])"
)
"""A day without a word: "5/21", "21.05.2026"; "8.2" may be a number.

Of 421 rows of others 62 are known by it to be of another month, 34 without.
"""


@dataclass(frozen=True, slots=True)
class Figure:
    """`text[start:end]`: a number and its units, a date (year, month, day) or a time.

    `value` has None for what a date or a time leaves open.
    """

    start: int
    end: int
    kind: Kind
    value: tuple[float | None, ...]
    units: frozenset[str] = frozenset()
    about: bool = False

    def agrees(self, other: Figure) -> bool:
        """Whether both may mean the same value, whatever their units."""
        if self.kind != other.kind:
            return False
        if self.kind == "number":
            tolerance = _NEAR if self.about or other.about else 1e-9
            return math.isclose(self._number, other._number, rel_tol=tolerance)
        return all(
            a == b for a, b in zip(self.value, other.value, strict=True) if None not in (a, b)
        ) and any(None not in pair for pair in zip(self.value, other.value, strict=True))

    def comparable(self, other: Figure) -> bool:
        """Whether both measure the same: numbers of one unit, dates that say the same parts."""
        if self.kind != other.kind:
            return False
        if self.kind == "number":
            return bool(self.units & other.units) or not (self.units or other.units)
        return any(None not in pair for pair in zip(self.value, other.value, strict=True))

    @property
    def _number(self) -> float:
        return self.value[0] or 0.0


def figures(text: str) -> list[Figure]:
    """The figures of a text, in their order."""
    entries: list[Figure] = []
    in_figure = [False] * (len(text) + 1)

    def take(figure: Figure | None) -> None:
        if figure and not any(in_figure[figure.start : figure.end]):
            in_figure[figure.start : figure.end] = [True] * (figure.end - figure.start)
            entries.append(figure)

    for pattern in _DATES:
        for match in pattern.finditer(text):
            take(_date(match))
    for pattern in _TIMES:
        for match in pattern.finditer(text):
            take(_time(match))
    for match in _NUMBERS.finditer(text):
        take(_number_of(match, text))
    return sorted(entries, key=lambda figure: figure.start)


class Month(NamedTuple):
    """A month that a text names, with its year if that is given.

    Several `numbers`, 1 to 12, where it is not known which number is the month.
    """

    numbers: frozenset[int]
    year: int | None = None

    def may_be(self, other: Month) -> bool:
        """Whether both may be the same."""
        same_year = None in (self.year, other.year) or self.year == other.year
        return same_year and not self.numbers.isdisjoint(other.numbers)


def months(text: str) -> list[Month]:
    """The months that a text names, by themselves or in dates.

    >>> [(sorted(month.numbers), month.year) for month in months("due 4/11/25, paid in May")]
    [([4, 11], 2025), ([5], None)]
    """
    return [month for _, _, month in _months(text)]


def _months(text: str) -> list[tuple[int, int, Month]]:
    """Where they stand, and which they are, in their order."""
    dates = [figure for figure in figures(text) if figure.kind == "date"]
    rest = blanked(text, dates)
    bare = (match for pattern in _BARE_MONTHS for match in pattern.finditer(rest))
    dates += filter(None, map(_date, bare))
    named = [
        (figure.start, figure.end, Month(frozenset((int(month),)), int(year) if year else None))
        for figure in dates
        for year, month, _ in (figure.value,)
        if month
    ]
    for match in _NUMERIC_DAY.finditer(rest):
        numbers = (int(match[1]), int(match[2] or match[4]))
        year = int(match[5][-2:]) + 2000 if match[5] else None
        month = Month(frozenset(number for number in numbers if 1 <= number <= 12), year)
        named.append((*match.span(), month))
    return sorted((entry for entry in named if entry[2].numbers), key=lambda entry: entry[0])


def month_asked(question: str) -> Month | None:
    """The month that a question is about; None for none or several, and "since March".

    24/7 has no year.
    """
    named = _months(question)
    numbers = frozenset[int]().union(*(month.numbers for _, _, month in named))
    is_named = any(month.year or "/" not in question[start:end] for start, end, month in named)
    if len(numbers) != 1 or not is_named or any_is_open(question):
        return None
    dates = (figure.value[0] for figure in figures(question) if figure.kind == "date")
    years = {int(year) for year in dates if year}
    return Month(numbers, next(iter(years)) if len(years) == 1 else None)


def any_is_open(text: str) -> bool:
    """Whether other months are meant, too, by one that a text names: "from May"."""
    return any(
        _BEFORE_OPEN.search(text, max(0, start - _OPENING), start) or _BEHIND_OPEN.match(text, end)
        for start, end, _ in _months(text)
    )


def blanked(text: str, some: Iterable[Figure]) -> str:
    """The text with blanks for some of its figures; their units stay."""
    rest = list(text)
    for figure in some:
        rest[figure.start : figure.end] = " " * (figure.end - figure.start)
    return "".join(rest)


def with_digits(text: str) -> str:
    """The text with large numbers in digits, too, behind those that words or 万 and 亿 write.

    A small model turns 一百八十万 into 180 million; of 一百八十万 (1,800,000) it copies the digits.

    >>> with_digits("共一百八十万元")
    '共一百八十万 (1,800,000)元'
    """
    parts: list[str] = []
    done = 0
    for figure in figures(text):
        value = figure.value[0] if figure.kind == "number" else None
        written = text[figure.start : figure.end]
        if value is None or value < LARGE or value % 1 or not any(map(str.isalpha, written)):
            continue
        parts += text[done : figure.end], f" ({value:,.0f})"
        done = figure.end
    return "".join([*parts, text[done:]])


def figures_not_in(text: str, others: Sequence[str], counted: str | None = None) -> list[Figure]:
    """The figures of a text that stand in none of the others: neither its value nor its digits.

    Where something was `counted` (see `counts_asked`), a small number in words is looked for, too,
    and neither a day of the month nor an amount of money, time or length is such a number.
    """
    if counted is not None:
        return _counts_not_in(text, others, counted)
    candidates = [f for f in figures(text) if not _counts(f, text[f.start : f.end])]
    if not candidates:
        return []
    there = [figure for other in others for figure in figures(other)]
    digits = _digits(others)
    return [
        f
        for f in candidates
        if not any(f.agrees(other) for other in there)
        and not _spelled(text[f.start : f.end], digits)
    ]


def counts_asked(question: str) -> str | None:
    """What a question asks the number of: "" where it does not say, None where it asks for none."""
    match = _HOW_MANY.search(question)
    return match and next(filter(None, match.groups()), "").strip()


def _counts_not_in(text: str, others: Sequence[str], counted: str) -> list[Figure]:
    there = [figure for other in others for figure in _with_small(other)]
    digits, of_counts = _digits(others), _digits(map(_without_measures, others))
    measured = counted == "" or any(map(_is_measure, _units(counted, 0, 0)))
    counts = []
    for figure in _with_small(text):
        measure = figure.kind != "number" or _measures(figure)
        same = (
            other
            for other in there
            if figure.agrees(other)
            and (measured or measure or figure.units & other.units or not _measures(other))
        )
        spelled = _spelled(text[figure.start : figure.end], digits if measure else of_counts)
        if not spelled and not any(same):
            counts.append(figure)
    return counts


def _without_measures(text: str) -> str:
    """The text with blanks for days, times and numbers of what is measured; a year may be both."""
    dated = (figure for figure in figures(text) if figure.kind == "date")
    days = [figure for figure in dated if figure.value[1:] != (None, None)]
    return blanked(text, [*days, *filter(_measures, figures(text))])


def _digits(texts: Iterable[str]) -> set[str]:
    return {d.lstrip("0") for text in texts for d in _DIGITS.findall(text.replace(",", ""))}


def _with_small(text: str) -> list[Figure]:
    """The figures of a text with the Chinese numerals of one sign before 个 and its like."""
    entries = figures(text)
    for match in _FEW.finditer(text):
        if not any(figure.start <= match.start() < figure.end for figure in entries):
            value = han_value(match[1])
            entries.append(Figure(match.start(1), match.end(1), "number", (value,)))
    return entries


def _measures(figure: Figure) -> bool:
    """Whether a number is one of money, time, length or the like, and counts no things."""
    return figure.kind == "time" or any(map(_is_measure, figure.units))


def _is_measure(unit: str) -> bool:
    return unit in _MEASURED or unit.removesuffix("s") in _MEASURED


def beyond(text: str, figure: Figure) -> bool | None:
    """Whether a text speaks of what is beyond a number of it, or of what is up to it (False)."""
    before, behind = text[max(0, figure.start - 16) : figure.start], text[figure.end :]
    if _UP_TO.search(before) or _UP_TO_BEHIND.match(behind):
        return False
    return True if _BEYOND.search(before) or _BEYOND_BEHIND.match(behind) else None


def _counts(figure: Figure, text: str) -> bool:
    few = figure.kind == "number" and (figure.value[0] or 0.0) <= COUNTED
    return few and not _DIGITS.search(text)


def _spelled(text: str, digits: set[str]) -> bool:
    """Whether all digits of a figure are among these, in whatever kind of figure."""
    own = [digit.lstrip("0") for digit in _DIGITS.findall(text.replace(",", ""))]
    return bool(own) and all(digit in digits for digit in own)


def _date(match: re.Match[str]) -> Figure | None:
    parts = match.groupdict()
    month = parts.get("month")
    if name := parts.get("month_name"):
        number: float | None = float(_MONTHS[name[:3].lower()])
    else:
        number = _whole(month)
    year = _whole(parts.get("year"))
    year = None if year is None else float(full_year(int(year)))
    value = (year, number, _whole(parts.get("day")))
    if not (1 <= (value[1] or 1) <= 12 and 1 <= (value[2] or 1) <= 31):
        return None
    return Figure(match.start(), match.end(), "date", value)


def full_year(year: int) -> int:
    """A year of four digits, also for one that is written with two.

    >>> full_year(25), full_year(98), full_year(1998)
    (2025, 1998, 1998)
    """
    return year if year > 99 else year + (2000 if year < _LAST_CENTURY else 1900)


def _time(match: re.Match[str]) -> Figure | None:
    half = (match["half"] or "").lower()
    hour, minute = _whole(match["hour"]), match["minute"]
    if hour is None or hour > 24:
        return None
    if hour < 12 and half in _AFTERNOON:
        hour += 12
    minutes = 30.0 if minute == "半" else _whole(minute) or 0.0
    return Figure(match.start(), match.end(), "time", (hour, minutes))


def _number_of(match: re.Match[str], text: str) -> Figure | None:
    start, end = match.span()
    if digits := match["digits"]:
        value = float(digits.replace(",", "").replace("−", "-"))
        value *= _SCALES.get((match["scale"] or "").lower(), 1.0)
        value *= math.prod(_HAN_SCALES[sign] for sign in match["han_scale"] or "")
        if digits[0] in "-−" and start and text[start - 1].isalnum():
            value = abs(value)
    elif han := match["han"]:
        following = text[end : end + 1]
        measured = following != "" and following in _MEASURES and f"{han}{following}" != "十分"
        percent = text[max(0, start - 3) : start] == "百分之"
        if text.startswith("百分之", end - 1):
            return None
        if (len(han) == 1 and not (measured or percent)) or han == "一":
            return None
        if han in _NOT_NUMERALS and not (measured or percent):
            return None
        value = han_value(han)
    else:
        words = match["words"].lower()
        if words in ("one", "hundred", "thousand", "million", "billion", "trillion"):
            return None  # "one of them", "a million": a word, or said elsewhere
        value = _words_value(words)
    if not math.isfinite(value) or abs(value) > _LARGEST:
        return None
    units = _units(text, start, end)
    about = bool(_ABOUT.search(text[max(0, start - 14) : start])) or text[end : end + 1] in (
        *"多余",
    )
    return Figure(start, end, "number", (value,), units, about)


def _units(text: str, start: int, end: int) -> frozenset[str]:
    before = text[max(0, start - 3) : start].rstrip()
    if before[-1:] in _CURRENCIES:
        return frozenset({_CURRENCIES[before[-1]]})
    if before.endswith("百分之"):
        return frozenset({"%"})
    after = text[end : end + 48].lstrip(" -")
    after = after[1:] if after[:1] in ("多", "余", "来") else after
    if after[:1] and "\u4e00" <= after[0] <= "\u9fff":
        after = after[1:] if after[0] == "个" and len(after) > 1 else after
        if after[:2] in _CURRENCIES or after[:1] in _CURRENCIES:
            return frozenset({_CURRENCIES.get(after[:2]) or _CURRENCIES[after[0]]})
        if after[0] in _MEASURES or after[0] in _SAME_MEASURE:
            return frozenset({_SAME_MEASURE.get(after[0], after[0])})
        thing = re.match("[\u4e00-\u9fff]{1,2}", after)  # of "10,000个7月30日送到" none, not 月
        return frozenset({thing[0]} if thing else ())
    units: set[str] = set()
    for word in re.findall(r"\A[%％℃°]C?|[^\W\d_]+|[^\w\s]", after)[:3]:
        lower = word.lower()
        if lower in _BEFORE_UNIT:
            continue
        if lower in _NO_UNIT or not (lower[0].isalpha() or lower[0] in "%％℃°"):
            break
        single = lower[:-1] if len(lower) > 3 and lower.endswith("s") else lower
        units.add(_CURRENCIES.get(single, single))
    return frozenset(units)


def _whole(text: str | None) -> float | None:
    if not text:
        return None
    return float(text) if text.isdecimal() else han_value(text)


def han_value(numeral: str) -> float:
    """The value of a Chinese numeral: 三百二十 is 320, 一九九八 is 1998, 二点五 is 2.5."""
    whole, _, fraction = numeral.partition("点")
    digits = {sign: value for value, sign in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
    if len(whole) > 1 and not any(sign in _HAN_SCALES for sign in whole):
        value = float("".join(str(digits[sign]) for sign in whole))
    else:
        value = section = current = 0.0
        for sign in whole:
            scale = _HAN_SCALES.get(sign)
            if scale is None:
                current = float(digits[sign])
            elif scale < 1e4:
                section += (current or 1.0) * scale
                current = 0.0
            else:
                below = section + current
                if scale > 1e4:  # 亿 counts what stands before 万, too
                    below, value = value + below, 0.0
                value += (below or 1.0) * scale
                section = current = 0.0
        value += section + current
    if fraction:
        value += float("0." + "".join(str(digits[sign]) for sign in fraction))
    return value


def _words_value(words: str) -> float:
    value = section = 0.0
    for word in re.split(r"[\s-]+", words):
        if word == "hundred":
            section = (section or 1.0) * 100
        elif word in _SCALES:
            value += (section or 1.0) * _SCALES[word]
            section = 0.0
        else:
            section += _WORDS.get(word, 0)
    return value + section


def has_han(word: str, text: str) -> bool:
    """Whether a Chinese word stands in a text; 一月 does not stand in 十一月."""
    behind = _NOT_BEHIND_NUMERAL if word.startswith(_NUMERALS) else ""
    return re.search(behind + re.escape(word), text) is not None
