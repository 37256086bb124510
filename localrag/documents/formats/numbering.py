"""The numbers that a program writes before list items and headings, which files do not hold."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from xml.etree import ElementTree

from localrag.documents.formats.archive import elements, is_true

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_CHINESE = "〇一二三四五六七八九"
_STEMS = "甲乙丙丁戊己庚辛壬癸"
_BRANCHES = "子丑寅卯辰巳午未申酉戌亥"
_ROMAN = (
    *((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc")),
    *((50, "l"), (40, "xl"), (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i")),
)
_KINDS = {
    "1": "decimal",
    "a": "lowerLetter",
    "A": "upperLetter",
    "i": "lowerRoman",
    "I": "upperRoman",
    "一, 二, 三, ...": "chineseCounting",
    "甲, 乙, 丙, ...": "ideographTraditional",
    "子, 丑, 寅, ...": "ideographZodiac",
    "①, ②, ③, ...": "decimalEnclosedCircle",
    "01, 02, 03, ...": "decimalZero",
}
"""What OpenDocument calls the kinds of Word."""
_MOST = 32_767


def counted(number: int, kind: str) -> str:
    """A number as lists of the kind write it; in digits where the kind is not known."""
    kind = _KINDS.get(kind, kind)
    if not 0 < number <= _MOST:
        return str(number)
    if kind in ("lowerLetter", "upperLetter"):
        times, letter = divmod(number - 1, 26)
        text = chr(97 + letter) * min(times + 1, 30)
        return text.upper() if kind == "upperLetter" else text
    if kind in ("lowerRoman", "upperRoman"):
        text = ""
        for value, letters in _ROMAN:
            times, number = divmod(number, value)
            text += letters * times
        return text.upper() if kind == "upperRoman" else text
    if kind in ("ideographTraditional", "ideographZodiac"):
        names = _STEMS if kind == "ideographTraditional" else _BRANCHES
        return names[number - 1] if number <= len(names) else str(number)
    if kind.startswith("decimalEnclosedCircle") and number <= 20:
        return chr(0x2460 + number - 1)
    if kind == "decimalZero":
        return f"{number:02}"
    if kind == "decimalFullWidth":
        return "".join(chr(0xFF10 + int(digit)) for digit in str(number))
    if kind.startswith(("chinese", "taiwanese", "japaneseCounting", "ideographDigital")):
        return _chinese(number)
    return str(number)


def _chinese(number: int) -> str:
    """As people count: 十二, 二十, 一百零三."""
    text = ""
    for value, name in ((10_000, "万"), (1000, "千"), (100, "百"), (10, "十")):
        times, number = divmod(number, value)
        if times:
            text += f"{_chinese(times)}{name}"
            if 0 < number < value // 10:
                text += "零"
    text += _CHINESE[number] if number else ""
    return text[1:] if text.startswith("一十") else text


@dataclass(slots=True)
class _Level:
    kind: str = "decimal"
    text: str = ""
    start: int = 1
    restarts_after: int | None = None
    legal: bool = False


@dataclass(slots=True)
class _List:
    """A definition (abstractNum) and how far its levels have been counted."""

    levels: dict[int, _Level] = field(default_factory=dict)
    link: str = ""
    counts: dict[int, int] = field(default_factory=dict)


class WordNumbering:
    """Counts the items of a Word document in their order (ECMA-376, part 1, 17.9)."""

    def __init__(
        self, numbering: ElementTree.Element | None, styles: ElementTree.Element | None
    ) -> None:
        """What the parts "numbering" and "styles" say."""
        self._lists: dict[str, _List] = {}
        self._numbers: dict[str, tuple[str, dict[int, int]]] = {}
        """The definition of each list by its number, and where its levels start anew."""
        self._begun: set[tuple[str, int]] = set()
        self._styles: dict[str, tuple[str, int]] = {}
        linked: dict[str, str] = {}
        for element in () if numbering is None else numbering:
            if element.tag == f"{_W}abstractNum":
                id_ = element.get(f"{_W}abstractNumId", "")
                self._lists[id_] = _List(
                    {_level_of(level): _read_level(level) for level in element.findall(f"{_W}lvl")},
                    value_of(element, "numStyleLink"),
                )
                if name := value_of(element, "styleLink"):
                    linked[name] = id_
            elif element.tag == f"{_W}num":
                starts = {}
                for override in element.findall(f"{_W}lvlOverride"):
                    start = value_of(override, "startOverride")
                    if start.isdecimal() and len(start) < 6:
                        starts[_level_of(override)] = int(start)
                number = element.get(f"{_W}numId", "")
                self._numbers[number] = value_of(element, "abstractNumId"), starts
        for number, (id_, starts) in self._numbers.items():
            link = self._lists[id_].link if id_ in self._lists else ""
            self._numbers[number] = linked.get(link, id_), starts
        self._read_styles(styles)

    def _read_styles(self, styles: ElementTree.Element | None) -> None:
        parents: dict[str, str] = {}
        for style in () if styles is None else styles.findall(f"{_W}style"):
            id_ = style.get(f"{_W}styleId", "")
            parents[id_] = value_of(style, "basedOn")
            properties = style.find(f"{_W}pPr/{_W}numPr")
            if properties is not None:
                self._styles[id_] = (
                    value_of(properties, "numId"),
                    _int(value_of(properties, "ilvl")),
                )
        for id_ in parents:
            chain = [id_]
            while chain[-1] not in self._styles and len(chain) < 20 and parents.get(chain[-1]):
                chain.append(parents[chain[-1]])
            if chain[-1] in self._styles:
                self._styles.setdefault(id_, self._styles[chain[-1]])

    def number(self, properties: ElementTree.Element | None) -> str:
        """What stands before the paragraph with such properties, "-" for a bullet.

        To be asked once for each paragraph, in the order of the document.
        """
        if properties is None:
            return ""
        number, level = self._styles.get(value_of(properties, "pStyle"), ("", 0))
        own = properties.find(f"{_W}numPr")
        if own is not None:
            number = value_of(own, "numId") or number
            level = _int(value_of(own, "ilvl")) if own.find(f"{_W}ilvl") is not None else level
        id_, starts = self._numbers.get(number, ("", {}))
        known = self._lists.get(id_)
        if known is None or level not in known.levels:
            return ""
        form = known.levels[level]
        counts = known.counts
        if level in starts and (number, level) not in self._begun:
            self._begun.add((number, level))
            counts[level] = starts[level]
        else:
            counts[level] = counts[level] + 1 if level in counts else form.start
        for deeper in [level_below for level_below in counts if level_below > level]:
            after = known.levels[deeper].restarts_after if deeper in known.levels else None
            if after is None or (after and level < after):
                del counts[deeper]
        if form.kind == "bullet":
            return "-"

        def write(match: re.Match[str]) -> str:
            place = int(match[1]) - 1
            of = known.levels.get(place, _Level())
            kind = "decimal" if form.legal else of.kind
            return counted(counts.get(place, of.start), kind)

        return re.sub(r"%([1-9])", write, form.text)


def _read_level(node: ElementTree.Element) -> _Level:
    legal = node.find(f"{_W}isLgl")
    after = value_of(node, "lvlRestart")
    return _Level(
        _kind(node),
        value_of(node, "lvlText")[:100],
        _int(value_of(node, "start") or "1"),
        int(after) if after.isdecimal() and len(after) < 3 else None,
        legal is not None and is_true(legal.get(f"{_W}val", "1")),
    )


def _kind(node: ElementTree.Element) -> str:
    # Newer kinds stand in an alternative: the first of both is the better one.
    number_format = next(elements(node, "numFmt"), None)
    return "decimal" if number_format is None else number_format.get(f"{_W}val", "decimal")


def _level_of(node: ElementTree.Element) -> int:
    return _int(node.get(f"{_W}ilvl", "0"))


def _int(value: str) -> int:
    return int(value) if value.isdecimal() and len(value) < 6 else 0


def value_of(node: ElementTree.Element, tag: str) -> str:
    """What the child with that tag of Word's says; "" where there is none."""
    child = node.find(f"{_W}{tag}")
    return "" if child is None else child.get(f"{_W}val", "")
