"""A picture of runs: horizontal bars with their intervals, as an SVG that needs no library."""

from __future__ import annotations

from collections.abc import Sequence

from localrag.evaluation.retrieval.runs import Run
from localrag.printable import as_html

_LEFT, _WIDTH, _ROW, _TOP = 190, 460, 34, 64
_COLOURS = ("#2f6f9f", "#b5651d")


def bar_chart(title: str, runs: Sequence[Run], metric: str = "nDCG@10") -> str:
    """One bar a run from 0 to 1 with its 95% interval, its value and its p50; an SVG document."""
    height = _TOP + _ROW * len(runs) + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="840" height="{height}" '
        f'viewBox="0 0 840 {height}" font-family="sans-serif" font-size="14">',
        f'<rect width="840" height="{height}" fill="white"/>',
        f'<text x="20" y="30" font-size="17">{as_html(title)}: {as_html(metric)}</text>',
    ]
    bottom = _TOP + _ROW * len(runs)
    for tick in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0):
        x = _LEFT + tick * _WIDTH
        parts.append(f'<path d="M{x:.1f} {_TOP - 8}V{bottom}" stroke="#ddd"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 20}" text-anchor="middle">{tick:.1f}</text>')
    for row, run in enumerate(runs):
        middle = _TOP + _ROW * row + _ROW / 2 - 6
        mean, (low, high) = run.mean(metric), run.interval(metric)
        colour = _COLOURS[run.name == "default" or "+" in run.name]
        start, end = _LEFT + low * _WIDTH, _LEFT + high * _WIDTH
        parts += [
            f'<text x="{_LEFT - 10}" y="{middle + 5}" text-anchor="end">{as_html(run.name)}</text>',
            f'<rect x="{_LEFT}" y="{middle - 9}" width="{mean * _WIDTH:.1f}" height="18" '
            f'fill="{colour}"/>',
            f'<path d="M{start:.1f} {middle}H{end:.1f}M{start:.1f} {middle - 5}v10'
            f'M{end:.1f} {middle - 5}v10" stroke="black" fill="none"/>',
            f'<text x="{_LEFT + _WIDTH + 12}" y="{middle + 5}">{mean:.4f}   '
            f"{run.milliseconds(50):.1f} ms</text>",
        ]
    return "\n".join([*parts, "</svg>", ""])
