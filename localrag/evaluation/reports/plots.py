"""Plots of an evaluation as SVG elements that stand in the page; colours are the page's own."""

from __future__ import annotations

from collections.abc import Sequence

from localrag.evaluation.runs import EvaluatedRun
from localrag.printable import as_html

_LEFT, _SCALE, _ROW, _GAP, _RIGHT = 170, 420, 20, 14, 130
COLOURS = 8
"""Of the page, for as many runs; then they begin again."""
_SEEN = 6
"""Dots at one place that can be told apart; of more the number is written."""
_TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)


def interval_plot(runs: Sequence[EvaluatedRun], title: str) -> str:
    """Each metric's mean and 95% interval, one row a run, from 0 to 1."""
    names = [summary.name for summary in runs[0].summaries()]
    found = [{summary.name: summary for summary in run.summaries()} for run in runs]
    parts: list[str] = []
    y = 16.0
    for name in names:
        parts.append(_text(_LEFT - 12, y + _ROW * len(runs) / 2 + 4, name, "end"))
        for number, summaries in enumerate(found):
            middle = y + _ROW / 2
            one = summaries[name]
            if one.mean is None or one.interval is None:
                parts.append(_text(_LEFT + 6, middle + 4, "–", "start", "soft"))
            else:
                low, high = (_LEFT + _SCALE * _inside(end) for end in one.interval)
                at = _LEFT + _SCALE * _inside(one.mean)
                colour = f"run{number % COLOURS}"
                parts.append(
                    f'<path class="{colour} line" d="M{low:.1f} {middle:.1f}H{high:.1f}"/>'
                )
                parts.append(f'<circle class="{colour}" cx="{at:.1f}" cy="{middle:.1f}" r="5"/>')
                value = f"{one.mean:.2f}  n={one.scored}"
                parts.append(_text(_LEFT + _SCALE + 12, middle + 4, value, "start", "soft"))
            y += _ROW
        y += _GAP
    return _svg(title, y + 14, [*_grid(y), *parts])


def distribution_plot(runs: Sequence[EvaluatedRun], title: str) -> str:
    """Every question as a dot at its score, one row for each metric and run."""
    names = [summary.name for summary in runs[0].summaries()]
    parts: list[str] = []
    y = 16.0
    for name in names:
        parts.append(_text(_LEFT - 12, y + _ROW * len(runs) / 2 + 4, name, "end"))
        for number, run in enumerate(runs):
            stacked: dict[int, int] = {}
            for scored in run.scored:
                value = scored.scores[name].value
                if value is None:
                    continue
                place = round(_inside(value) * 60)
                height = stacked[place] = stacked.get(place, 0) + 1
                # Dots that would cover each other move up a little, and then stay.
                middle = y + _ROW - 4 - min(height, _SEEN) * 3 + 3
                x = _LEFT + place * _SCALE / 60
                parts.append(
                    f'<circle class="run{number % COLOURS} dot" cx="{x:.1f}" cy="{middle:.1f}" '
                    f'r="3.2"><title>{as_html(scored.sample.question)}: {value:.2f}'
                    "</title></circle>"
                )
            for place, count in stacked.items():
                if count > _SEEN:
                    x = _LEFT + place * _SCALE / 60 + 7
                    parts.append(_text(x, y + _ROW - 6, f"×{count}", "start", "soft"))
            y += _ROW
        y += _GAP
    return _svg(title, y + 14, [*_grid(y), *parts])


def time_plot(runs: Sequence[EvaluatedRun], title: str) -> str:
    """Seconds that each question took to answer, as dots from 0 to the slowest."""
    known = [
        [scored.response.seconds for scored in run.scored if scored.response.seconds is not None]
        for run in runs
    ]
    slowest = max((second for seconds in known for second in seconds), default=0.0)
    if not slowest:
        return ""
    parts: list[str] = []
    y = 16.0
    for number, (run, seconds) in enumerate(zip(runs, known, strict=True)):
        parts.append(_text(_LEFT - 12, y + _ROW / 2 + 4, run.name, "end"))
        for second in seconds:
            x = _LEFT + _SCALE * second / slowest
            parts.append(
                f'<circle class="run{number % COLOURS} dot" cx="{x:.1f}" '
                f'cy="{y + _ROW / 2:.1f}" r="4">'
                f"<title>{second:.1f} s</title></circle>"
            )
        if seconds:
            middle = sorted(seconds)[len(seconds) // 2]
            parts.append(
                _text(_LEFT + _SCALE + 12, y + _ROW / 2 + 4, f"{middle:.1f} s", "start", "soft")
            )
        y += _ROW + _GAP
    ends = [
        _text(_LEFT, y + 10, "0 s", "middle", "soft"),
        _text(_LEFT + _SCALE, y + 10, f"{slowest:.1f} s", "middle", "soft"),
    ]
    return _svg(title, y + 20, [*parts, *ends])


def _grid(bottom: float) -> list[str]:
    parts = []
    for tick in _TICKS:
        x = _LEFT + tick * _SCALE
        parts.append(f'<path class="grid" d="M{x:.1f} 8V{bottom:.1f}"/>')
        parts.append(_text(x, bottom + 12, f"{tick:g}", "middle", "soft"))
    return parts


def _svg(title: str, height: float, parts: Sequence[str]) -> str:
    width = _LEFT + _SCALE + _RIGHT
    body = "\n".join(parts)
    return (
        f'<svg role="img" aria-label="{as_html(title)}" viewBox="0 0 {width} {height:.0f}" '
        f'xmlns="http://www.w3.org/2000/svg">\n{body}\n</svg>'
    )


def _text(x: float, y: float, text: str, anchor: str, kind: str = "name") -> str:
    return (
        f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">'
        f"{as_html(text)}</text>"
    )


def _inside(value: float) -> float:
    """A cosine may be a little below 0."""
    return min(max(value, 0.0), 1.0)
