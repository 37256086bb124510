"""Evaluations and calibrations in a terminal."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from localrag.cli.output import ListItem, stdout_console, table
from localrag.evaluation.advice import bad_cases
from localrag.messages import tr
from localrag.presentation import reports as words
from localrag.printable import as_name

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from localrag.evaluation.judging.calibration import Trust
    from localrag.evaluation.results import EvaluatedRun, Report, Summary

WORST = 5
"""Bad cases shown in a terminal; the page has all."""


def print_report(report: Report) -> None:
    """The table of metrics, what the runs differ in, how far to trust it, the worst cases."""
    console = stdout_console()
    console.print(_metrics(report.runs))
    for text in words.remarks(report):
        console.print(as_name(text))
    _print_bad_cases(console, report.runs[0], report.runs[1:])


def print_trust(trust: Trust) -> None:
    """The judge's agreement with the labelled set."""
    console = stdout_console()
    console.print(as_name(trust.judge))
    heads, *rows = words.trust_table(trust)
    console.print(table(heads, rows, numbers=range(1, len(heads))))
    for text in words.trust_remarks(trust):
        console.print(as_name(text))


def _metrics(runs: tuple[EvaluatedRun, ...]) -> Table:
    names = [as_name(run.name) for run in runs]
    rows = [
        (
            words.metric_title(summaries[0].name),
            [_mean(summary) for summary in summaries],
            [str(summary.unreadable) for summary in summaries],
        )
        for summaries in zip(*(run.summaries() for run in runs), strict=True)
    ]
    if any(seconds := [_seconds(run) for run in runs]):
        rows.append((tr("seconds to answer"), seconds, [""] * len(runs)))
    # More than two do not stand side by side in a terminal of 80 columns.
    if len(runs) < 3:
        beside = [(title, *cells, "/".join(filter(None, last))) for title, cells, last in rows]
        heads = tr("Metric"), *names, tr("Unreadable")
        return table(heads, beside, numbers=range(1, len(heads)))
    below = [
        ("" if number else title, *row)
        for title, *columns in rows
        for number, row in enumerate(zip(names, *columns, strict=True))
    ]
    heads = tr("Metric"), tr("Configuration"), tr("Mean, 95% interval"), tr("Unreadable")
    return table(heads, below, numbers=(2, 3))


def _mean(summary: Summary) -> str:
    if summary.mean is None or summary.interval is None:
        return "-"
    low, high = summary.interval
    return f"{summary.mean:.3f} [{low:.2f}, {high:.2f}] n={summary.scored}"


def _seconds(run: EvaluatedRun) -> str:
    """The median over the answers that the pipeline wrote; "" where it wrote none."""
    known = [
        answer.response.seconds for answer in run.scored if answer.response.seconds is not None
    ]
    return tr("{seconds:.1f} s (median)", seconds=median(known)) if known else ""


def _print_bad_cases(
    console: Console, run: EvaluatedRun, other_runs: tuple[EvaluatedRun, ...]
) -> None:
    from rich.text import Text

    cases = bad_cases(run, other_runs)
    if not cases:
        return
    console.print()
    heading = tr("Worst first ({shown} of {count})", shown=min(WORST, len(cases)), count=len(cases))
    console.print(Text(heading, style="bold"))
    for case in cases[:WORST]:
        why, what = words.explain(case.cause)
        sample = case.scored.sample
        console.print(ListItem(Text(as_name(f"{sample.id}. {sample.question}"), style="bold cyan")))
        console.print(Text(f"   {why} {what}"))
        for trial in case.trials:
            console.print(Text(as_name(f"   {words.trial(trial)}"), style="dim"))
