"""What a report says in sentences, in the reader's language."""

from __future__ import annotations

from collections.abc import Sequence

from localrag.evaluation.judging.calibration import Trust
from localrag.evaluation.reports.advice import Trial
from localrag.evaluation.reports.report import Report
from localrag.evaluation.runs import Difference, differences
from localrag.messages import tr


def remarks(report: Report) -> list[str]:
    """How far to trust the numbers, and what the runs differ in."""
    said: list[str] = []
    if report.judge:
        said.append(tr("Judge: {name}", name=report.judge))
        if report.trust is None:
            said.append(
                tr(
                    "Not calibrated: `localrag eval calibrate` measures how far this judge can be "
                    "trusted."
                )
            )
        if untrusted := report.untrusted():
            said.append(_untrusted(untrusted))
        if report.own_work:
            said.append(
                tr(
                    "The answers of {name} were written by the model that judges them; "
                    "models are lenient with their own work.",
                    name=tr(", ").join(report.own_work),
                )
            )
    found = differences(report.runs)
    said += [difference(one) for one in found if one.ranked]
    undecided: dict[tuple[str, str], list[str]] = {}
    for one in found:
        if not one.ranked:
            pair = min(one.better, one.worse), max(one.better, one.worse)
            undecided.setdefault(pair, []).append(one.metric)
    alike: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    for pair, names in undecided.items():
        alike.setdefault(tuple(names), []).append(pair)
    for metrics, pairs in alike.items():
        said.append(
            tr(
                "Not ranked by {metrics}, for the difference there is within chance: {pairs}.",
                metrics=tr(", ").join(metrics),
                pairs=tr("; ").join(tr("{one} and {other}", one=a, other=b) for a, b in pairs),
            )
        )
    if len(report.runs) > 2 and found:
        said.append(
            tr(
                "With so many pairs some would differ by chance: the intervals of differences are "
                "widened for that (Bonferroni)."
            )
        )
    return said


def trust_remarks(trust: Trust) -> list[str]:
    """What the table of a calibration does not say: the order of answers, and what not to trust."""
    said: list[str] = []
    for one in trust.metrics:
        if one.ordering is not None and one.ordering_interval is not None:
            low, high = one.ordering_interval
            said.append(
                tr(
                    "{metric}: the right answer scores above the wrong or evasive one in "
                    "{share:.0%} of the pairs [{low:.2f}, {high:.2f}].",
                    metric=one.metric,
                    share=one.ordering,
                    low=low,
                    high=high,
                )
            )
    if untrusted := [one.metric for one in trust.metrics if not one.trusted]:
        said.append(_untrusted(untrusted))
    return said


def _untrusted(metrics: Sequence[str]) -> str:
    return tr(
        "This judge does not clearly beat chance on {metrics}: do not rely on them.",
        metrics=tr(", ").join(metrics),
    )


def difference(one: Difference) -> str:
    """Which of two runs is better, by how much."""
    low, high = one.interval
    return tr(
        "{metric}: {better} is better than {worse} by {mean:.3f} [{low:.3f}, {high:.3f}].",
        metric=one.metric,
        better=one.better,
        worse=one.worse,
        mean=one.mean,
        low=low,
        high=high,
    )


def trial(one: Trial) -> str:
    """What another run made of a bad case."""
    return tr(
        "Tried: {metric} is {after:.2f} with {run}, and was {before:.2f}.",
        metric=one.metric,
        after=one.after,
        before=one.before,
        run=one.run,
    )
