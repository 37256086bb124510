"""SVG drawings, and one chart of them: marks in rows on a scale that all share.

Texts are escaped here. Colours are the page's own (classes run0, run1, ...); those that stand
beside them are for a picture that stands alone, with a size of its font.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from localrag.printable import as_html

_INKS = ["#1f5fa8", "#b5651d", "#2e7d5b", "#7a4aa0", "#a3264f", "#5f6b2d", "#0f7f8c", "#6b6f78"]
COLOURS = len(_INKS)
"""For as many runs; then they begin again."""
SHARES = tuple((share, f"{share:g}") for share in (0.0, 0.25, 0.5, 0.75, 1.0))
"""Ticks of a scale from 0 to 1."""
_LEFT, _SCALE, _ROW, _GAP, _RIGHT = 190, 420, 20, 14, 150
_SEEN = 6
"""Dots at one place that can be told apart; of more the number is written."""


@dataclass(frozen=True, slots=True)
class Markup:
    """What is drawn already: it stands in a page as it is."""

    text: str

    def __html__(self) -> str:
        """What Jinja asks for markup."""
        return self.text


@dataclass(frozen=True, slots=True)
class ChartRow:
    """A line of a chart: places from 0 to 1, what is said of each dot, and a value at the end."""

    colour: int
    value: str = ""
    mean: float | None = None
    interval: tuple[float, float] | None = None
    dots: Sequence[tuple[float, str]] = ()


def element(name: str, content: object = "", /, **attributes: object) -> Markup:
    """An element; `class_` and `text_anchor` are the attributes class and text-anchor."""
    attribute_text = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{as_html(_value(value))}"'
        for key, value in attributes.items()
    )
    inner = content.text if isinstance(content, Markup) else as_html(content)
    return Markup(f"<{name}{attribute_text}>{inner}</{name}>")


def text(x: float, y: float, content: object, anchor: str = "start", **more: object) -> Markup:
    """A line of text; `anchor` says what of it is at x: start, middle or end."""
    return element("text", content, x=x, y=y, text_anchor=anchor, **more)


def picture(
    title: str, width: float, height: float, parts: Iterable[Markup], font_size: int = 0
) -> Markup:
    """The parts as one picture: in a page, or, with a size, a white document of its own."""
    inner = "\n".join(part.text for part in parts)
    alone: dict[str, object] = {}
    if font_size:
        inner = element("rect", width=width, height=height, fill="white").text + "\n" + inner
        font = {"font_family": "sans-serif", "font_size": font_size}
        alone = {"width": width, "height": height, **font}
    return element(
        "svg",
        Markup(f"\n{inner}\n"),
        xmlns="http://www.w3.org/2000/svg",
        role="img",
        aria_label=title,
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        **alone,
    )


def chart(
    title: str,
    groups: Iterable[tuple[str, Sequence[ChartRow]]],
    ticks: Iterable[tuple[float, str]] = SHARES,
    font_size: int = 0,
) -> Markup:
    """Groups of rows by name, one below the other; a picture that stands alone has its title."""
    top = 46.0 if font_size else 16.0
    parts: list[Markup] = []
    y = top
    for name, rows in groups:
        parts.append(text(_LEFT - 12, y + _ROW * len(rows) / 2 + 4, name, "end", class_="name"))
        for row in rows:
            parts += _marks(row, y)
            y += _ROW
        y += _GAP
    behind = [text(20, 26, title)] if font_size else []
    for place, label in ticks:
        x = _x(place)
        behind.append(
            element("path", class_="grid", stroke="#ddd", d=f"M{x:.1f} {top - 8:.1f}V{y:.1f}")
        )
        behind.append(text(x, y + 12, label, "middle", class_="soft"))
    return picture(title, _LEFT + _SCALE + _RIGHT, y + 20, [*behind, *parts], font_size)


def _marks(row: ChartRow, y: float) -> Iterable[Markup]:
    number = row.colour % COLOURS
    colour, ink, middle = f"run{number}", _INKS[number], y + _ROW / 2
    if row.interval:
        line = f"M{_x(row.interval[0]):.1f} {middle:.1f}H{_x(row.interval[1]):.1f}"
        yield element("path", class_=f"{colour} line", stroke=ink, stroke_width=3, d=line)
    if row.mean is not None:
        yield element("circle", class_=colour, fill=ink, cx=_x(row.mean), cy=middle, r=5)
    stacked: dict[int, int] = {}
    for place, label in row.dots:
        step = round(60 * place)
        stacked[step] = stacked.get(step, 0) + 1
        # Dots that would cover each other move up a little, and then stay.
        up = 3 * min(stacked[step], _SEEN)
        kind, x, title = f"{colour} dot", _x(step / 60), element("title", label)
        yield element("circle", title, class_=kind, fill=ink, cx=x, cy=y + 19 - up, r=3.2)
    for step, count in stacked.items():
        if count > _SEEN:
            yield text(_x(step / 60) + 7, y + _ROW - 6, f"×{count}", class_="soft")
    yield text(_LEFT + _SCALE + 12, middle + 4, row.value, class_="soft")


def _x(place: float) -> float:
    """A cosine may be a little below 0."""
    return _LEFT + _SCALE * min(max(place, 0.0), 1.0)


def _value(value: object) -> object:
    return f"{value:.1f}" if isinstance(value, float) else value
