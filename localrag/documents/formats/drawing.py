"""What Office files draw (DrawingML): the text of shapes and diagrams, and the data of charts."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree

from localrag.documents.formats.archive import elements, local
from localrag.documents.lines import squeeze
from localrag.text.normalize import clean

_MOST_POINTS = 100_000


def paragraphs(root: ElementTree.Element) -> Iterator[str]:
    """The paragraphs of text below an element, in the order of the file."""
    for node in elements(root, "p"):
        parts = (element.text or "" for element in elements(node, "t"))
        if text := squeeze(clean("".join(parts))):
            yield text


def chart_title(root: ElementTree.Element) -> str:
    """The title of a chart, "" where it has none of its own."""
    title = next(elements(root, "title"), None)
    return " ".join(paragraphs(title)) if title is not None else ""


def chart_rows(root: ElementTree.Element) -> list[list[str]]:
    """The data that a chart draws: a row names the series, then each category has one."""
    columns: list[tuple[str, dict[int, str]]] = []
    categories: dict[int, str] = {}
    for series in elements(root, "ser"):
        parts = {local(element.tag): element for element in series}
        name = " ".join(_points(parts["tx"]).values()) if "tx" in parts else ""
        for key in ("cat", "xVal"):
            if key in parts and not categories:
                categories = _points(parts[key])
        values = next((parts[key] for key in ("val", "yVal") if key in parts), None)
        if values is not None:
            columns.append((name, _points(values)))
    numbers = sorted({*categories, *(number for _, points in columns for number in points)})
    rows = [["", *(name for name, _ in columns)]] if columns else []
    return rows + [
        [categories.get(number, ""), *(points.get(number, "") for _, points in columns)]
        for number in numbers[:_MOST_POINTS]
    ]


def _points(node: ElementTree.Element) -> dict[int, str]:
    """The values by their number; of several levels of categories, one after another."""
    points: dict[int, str] = {}
    for element in elements(node, "pt"):
        number = element.get("idx", "")
        value = " ".join(v.text or "" for v in element if local(v.tag) == "v")
        if number.isdecimal():
            text = squeeze(clean(value))
            place = int(number[:9])
            points[place] = squeeze(f"{text} {points[place]}") if place in points else text
    if not points:
        direct = [element.text or "" for element in node if local(element.tag) == "v"]
        return {0: squeeze(clean(" ".join(direct)))} if direct else {}
    return points
