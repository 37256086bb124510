"""Evaluations and calibrations in a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING

from localrag.cli.output import Item, stdout_console, table
from localrag.messages import tr
from localrag.printable import as_name

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from localrag.evaluation.judging.calibration import Trust
    from localrag.evaluation.reports.report import Report
    from localrag.evaluation.runs import EvaluatedRun, Summary

WORST = 5
"""Bad cases shown in a terminal; the page has all."""


def print_report(report: Report) -> None:
    """The table of metrics, what the runs differ in, how far to trust it, the worst cases."""
    from localrag.presentation.reports import remarks

    console = stdout_console()
    console.print(_metrics(report.runs))
    for text in remarks(report):
        console.print(as_name(text))
    _print_bad_cases(console, report.runs[0], report.runs[1:])


def _metrics(runs: Sequence[EvaluatedRun]) -> Table:
    """A row a metric; more than two runs do not stand side by side in 80 columns."""
    rows = [
        (found[0].name, [_cell(one) for one in found], [str(one.unreadable) for one in found])
        for found in zip(*(run.summaries() for run in runs), strict=True)
    ]
    if any(seconds := [_seconds(run) for run in runs]):
        rows.append((tr("seconds to answer"), seconds, [""] * len(runs)))
    if len(runs) < 3:
        heads = tr("Metric"), *(as_name(run.name) for run in runs), tr("Unreadable")
        wide = [[name, *cells, "/".join(filter(None, counts))] for name, cells, counts in rows]
        return table(heads, wide, numbers=range(1, len(heads)))
    heads = tr("Metric"), tr("Configuration"), tr("Mean, 95% interval"), tr("Unreadable")
    long = [
        ["" if number else name, run.name, cells[number], counts[number]]
        for name, cells, counts in rows
        for number, run in enumerate(runs)
    ]
    return table(heads, long, numbers=(2, 3))


def _seconds(run: EvaluatedRun) -> str:
    """The median over the answers that the pipeline wrote; "" where it wrote none."""
    known = [one.response.seconds for one in run.scored if one.response.seconds is not None]
    if not known:
        return ""
    return tr("{seconds:.1f} s (median)", seconds=median(known))


def print_trust(trust: Trust) -> None:
    """The judge's agreement with the labelled set."""
    from localrag.presentation.reports import trust_remarks, trust_table

    console = stdout_console()
    console.print(as_name(trust.judge))
    heads, *rows = trust_table(trust)
    console.print(table(heads, rows, numbers=range(1, len(heads))))
    for text in trust_remarks(trust):
        console.print(as_name(text))


def _cell(summary: Summary) -> str:
    if summary.mean is None or summary.interval is None:
        return "-"
    low, high = summary.interval
    return f"{summary.mean:.3f} [{low:.2f}, {high:.2f}] n={summary.scored}"


def _print_bad_cases(console: Console, run: EvaluatedRun, others: tuple[EvaluatedRun, ...]) -> None:
    from rich.text import Text

    from localrag.evaluation.reports.advice import bad_cases
    from localrag.presentation.reports import explain, trial

    cases = bad_cases(run, others)
    if not cases:
        return
    console.print()
    heading = tr("Worst first ({shown} of {count})", shown=min(WORST, len(cases)), count=len(cases))
    console.print(Text(heading, style="bold"))
    for case in cases[:WORST]:
        why, what = explain(case.cause)
        sample = case.scored.sample
        console.print(Item(Text(as_name(f"{sample.id}. {sample.question}"), style="bold cyan")))
        console.print(Text(f"   {why} {what}"))
        for one in case.trials:
            console.print(Text(as_name(f"   {trial(one)}"), style="dim"))
