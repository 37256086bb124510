"""An evaluation in the reader's language: sentences, plots, the page; and as JSON."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from localrag.documents.formats.table import shown_name
from localrag.evaluation import events
from localrag.evaluation.advice import Cause, Trial, bad_cases
from localrag.evaluation.dataset import Context
from localrag.evaluation.judging.calibration import MetricTrust, Trust
from localrag.evaluation.judging.judgements import Judged, Judgement
from localrag.evaluation.metric import Score
from localrag.evaluation.results import Difference, EvaluatedRun, Report, Summary, differences
from localrag.evaluation.scoring import METRICS, Scored
from localrag.messages import tr, translate
from localrag.presentation import pages
from localrag.presentation.durations import duration
from localrag.presentation.plots import COLOURS, ChartRow, Markup, chart
from localrag.presentation.records import picked, plain
from localrag.presentation.steps import note_text

_CAUSES = {
    "invented": "The documents do not contain the answer, yet one was given.",
    "retrieval missed": "The passages lack what the reference answer says: the search did not "
    "find it.",
    "retrieval noisy": "Useful passages rank below useless ones.",
    "refused": "The passages seem to contain the answer, yet none was given.",
    "unfaithful": "The passages were good, but the answer says things that they do not.",
    "irrelevant": "The answer does not address the question, or evades it.",
}
_REMEDIES = {
    "invented": "Raise answer.min_answerable, or use Self-RAG, which checks its answers.",
    "retrieval missed": "Try a larger answer.k, hybrid retrieval, a reranker, another chunk size, "
    "or an embedding model that is better in this language.",
    "retrieval noisy": "Try a reranker, or another fusion (retrieval.fusion).",
    "refused": "Lower answer.min_answerable, or try a larger language model.",
    "unfaithful": "Try another prompt (answer.prompts), Self-RAG, or a larger language model.",
    "irrelevant": "Try another prompt (answer.prompts), or a larger language model.",
}


def render_page(report: Report) -> str:
    """The page as HTML, in the language of the interface."""
    first = report.runs[0]
    return pages.render(
        "report.html",
        words=sys.modules[__name__],
        report=report,
        metrics=list(zip(*(run.summaries() for run in report.runs), strict=True)),
        untrusted=report.untrusted(),
        plots=list(_plots(report.runs)),
        cases=bad_cases(first, report.runs[1:]),
        colours=COLOURS,
    )


def _plots(runs: Sequence[EvaluatedRun]) -> Iterator[tuple[str, Markup]]:
    means = defaultdict[str, list[ChartRow]](list)
    scores = defaultdict[str, list[ChartRow]](list)
    for number, run in enumerate(runs):
        for summary in run.summaries():
            label = "–" if summary.mean is None else f"{summary.mean:.2f}  n={summary.scored}"
            means[metric_title(summary.name)].append(
                ChartRow(number, label, summary.mean, summary.interval)
            )
            dots = [
                (value, f"{scored.sample.question}: {value:.2f}")
                for scored in run.scored
                if (value := scored.scores[summary.name].value) is not None
            ]
            scores[metric_title(summary.name)].append(ChartRow(number, dots=dots))
    title = tr("Means with their 95% intervals")
    yield title, chart(title, means.items())
    title = tr("Every question's score")
    yield title, chart(title, scores.items())
    known = [
        sorted(
            answer.response.seconds for answer in run.scored if answer.response.seconds is not None
        )
        for run in runs
    ]
    if slowest := max((seconds[-1] for seconds in known if seconds), default=0.0):
        title = tr("Seconds to answer, with the median")
        times = []
        for number, (run, seconds) in enumerate(zip(runs, known, strict=True)):
            median = f"{seconds[len(seconds) // 2]:.1f} s" if seconds else ""
            dots = [(time_taken / slowest, f"{time_taken:.1f} s") for time_taken in seconds]
            times.append((run.name, [ChartRow(number, median, dots=dots)]))
        yield title, chart(title, times, ((0.0, "0 s"), (1.0, f"{slowest:.1f} s")))


def metric_title(name: str) -> str:
    """What a metric is called."""
    return translate(METRICS[name].title)


def reason(judgement: Judgement) -> str:
    """Why the judge found against something, or could not say; "" where it gave no reason."""
    match judgement.unread:
        case "reply":
            return tr("The judge's reply could not be read.")
        case "too long":
            return tr("Too long for the judge's context window.")
    return judgement.reason


def remarks(report: Report) -> list[str]:
    """How far to trust the numbers, and what the runs differ in."""
    lines: list[str] = []
    if report.judge:
        lines.append(tr("Judge: {name}", name=report.judge))
        if report.trust is None:
            lines.append(not_calibrated())
        if untrusted := report.untrusted():
            lines.append(_untrusted_text(untrusted))
        if report.own_work:
            lines.append(
                tr(
                    "The answers of {name} were written by the model that judges them; "
                    "models are lenient with their own work.",
                    name=tr(", ").join(report.own_work),
                )
            )
    comparisons = differences(report.runs)
    lines += [difference(comparison) for comparison in comparisons if comparison.ranked]
    undecided: dict[tuple[str, str], list[str]] = {}
    for comparison in comparisons:
        if not comparison.ranked:
            first, second = sorted((comparison.better, comparison.worse))
            undecided.setdefault((first, second), []).append(comparison.metric)
    alike: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    for pair, names in undecided.items():
        alike.setdefault(tuple(names), []).append(pair)
    for metrics, pairs in alike.items():
        lines.append(
            tr(
                "Not ranked by {metrics}, because the differences are within chance: {pairs}.",
                metrics=tr(", ").join(map(metric_title, metrics)),
                pairs=tr("; ").join(
                    tr("{first} and {second}", first=a, second=b) for a, b in pairs
                ),
            )
        )
    if len(report.runs) > 2 and comparisons:
        lines.append(
            tr(
                "With so many pairs, some would differ by chance: the intervals of the "
                "differences are widened accordingly (Bonferroni)."
            )
        )
    return lines


def trust_remarks(trust: Trust) -> list[str]:
    """What the table of a calibration does not say: the order of answers, and what not to trust."""
    lines = [
        tr(
            "{metric}: the right answer scores above the wrong or evasive one in {ordering:.0%} of "
            "the pairs [{low:.2f}, {high:.2f}].",
            metric=metric_title(metric.metric),
            ordering=metric.ordering,
            low=metric.ordering_interval[0],
            high=metric.ordering_interval[1],
        )
        for metric in trust.metrics
        if metric.ordering_interval is not None
    ]
    if untrusted := [metric.metric for metric in trust.metrics if not metric.trusted]:
        lines.append(_untrusted_text(untrusted))
    return lines


def _untrusted_text(metrics: Sequence[str]) -> str:
    return tr(
        "This judge does not clearly beat chance on {metrics}: do not rely on them.",
        metrics=tr(", ").join(map(metric_title, metrics)),
    )


def difference(comparison: Difference) -> str:
    """Which of two runs is better, by how much."""
    low, high = comparison.interval
    return tr(
        "{metric}: {better} is better than {worse} by {mean:.3f} [{low:.3f}, {high:.3f}].",
        low=low,
        high=high,
        **asdict(comparison) | {"metric": metric_title(comparison.metric)},
    )


def trial(shown: Trial) -> str:
    """What another run made of a bad case."""
    values = asdict(shown) | {"metric": metric_title(shown.metric)}
    return tr("Tried: {metric} is {after:.2f} with {run}, and was {before:.2f}.", **values)


def explain(cause: Cause) -> tuple[str, str]:
    """The cause in words, and what to try, in the reader's language."""
    return tr(_CAUSES[cause]), tr(_REMEDIES[cause])


def event_text(event: events.Event) -> str:
    """What an evaluation tells while it works."""
    match event:
        case events.Estimated(questions, configurations, seconds):
            return tr(
                "{count} question(s), {runs} configuration(s): about {time}; results of "
                "earlier runs are reused.",
                count=questions,
                runs=configurations,
                time=duration(seconds),
            )
        case events.Progressed("answers", name):
            return tr("Answers of {name}", name=name)
        case events.Progressed("scores", name):
            return tr("Scores of {name}", name=name)
        case events.Progressed("calibration"):
            return tr("Grading the labelled set")
        case events.Progressed():
            return tr("Drafting questions")
    return note_text(event)


def not_calibrated() -> str:
    """What to do where nobody has measured the judge."""
    return tr(
        "Not calibrated: `localrag eval calibrate` measures how far this judge can be trusted."
    )


def counts(summary: Summary) -> str:
    """Of how many questions a mean is."""
    return tr(
        "{scored} scored, {unreadable} unreadable, {undefined} not applicable", **asdict(summary)
    )


def value(score: Score) -> str:
    """A score that is defined."""
    return tr("unreadable") if score.value is None else f"{score.value:.2f}"


def grade(score: Score) -> str:
    """How good a score is, as a class of the page."""
    if score.value is None:
        return "unread"
    return "good" if score.value >= 0.75 else "middling" if score.value >= 0.5 else "bad"


def place(context: Context) -> str:
    """Where a passage stands; "" where that is not known."""
    name = shown_name(context.source)
    if not (name and context.first_page):
        return name
    return tr("{name}, {place}", name=name, place=tr("p. {page}", page=context.first_page))


def trust_table(trust: Trust) -> Iterator[tuple[str, ...]]:
    """A calibration, a row a metric; the heads of the columns first."""
    kinds = tr("Right"), tr("Subtly wrong"), tr("Unsupported")
    heads = tr("Metric"), tr("Items"), tr("Accuracy"), "Cohen κ", "ECE"
    yield (*heads, *kinds, tr("Unreadable"), tr("Trust"))
    for metric in trust.metrics:
        low, high = metric.kappa_interval
        yield (
            metric_title(metric.metric),
            str(metric.items),
            f"{metric.accuracy:.2f}",
            f"{metric.kappa:.2f} [{low:.2f}, {high:.2f}]",
            "–" if metric.calibration_error is None else f"{metric.calibration_error:.2f}",
            *(f"{metric.by_kind[kind]:.2f}" for kind in ("right", "subtly wrong", "unsupported")),
            str(metric.unreadable),
            tr("yes") if metric.trusted else tr("no"),
        )


# -- JSON --------------------------------------------------------------------------------


def report_json(report: Report) -> dict[str, Any]:
    """The report as plain data; `metrics` are those of the first run.

    A metric that was renamed stands there under its former name, too, until the next release.
    """
    first = report.runs[0]
    calibration = None
    if report.trust is not None:
        calibration = trust_json(report.trust) | {"untrustworthy": list(report.untrusted())}
    table: dict[str, Any] = {
        "dataset": report.dataset,
        "questions": len(first.scored),
        "judge": report.judge or None,
        "judge_seconds": round(report.judge_seconds, 1),
        "calibration": calibration,
        "metrics": plain(first.summaries()),
        "runs": [
            {
                "name": run.name,
                "metrics": plain(run.summaries()),
                "bad_cases": [
                    {"id": case.scored.sample.id, "cause": case.cause, "tried": plain(case.trials)}
                    for case in bad_cases(run, [other for other in report.runs if other is not run])
                ],
                "questions": [_scored_record(scored) for scored in run.scored],
            }
            for run in report.runs
        ],
        "differences": [
            plain(comparison) | {"ranked": comparison.ranked}
            for comparison in differences(report.runs)
        ],
        "wrote_the_answers_itself": list(report.own_work),
    }
    return dict(with_old_names(table))


def with_old_names(value: Any) -> Any:
    """What stands under the name of a renamed metric, under its former one as well."""
    old = {name: metric.formerly for name, metric in METRICS.items() if metric.formerly}
    if isinstance(value, dict):
        table = {name: with_old_names(item) for name, item in value.items()}
        return table | {old[name]: table[name] for name in old if name in table}
    if not isinstance(value, list):
        return value
    items = [with_old_names(item) for item in value]
    for key in ("name", "metric"):
        renamed = [row for row in items if isinstance(row, dict) and row.get(key) in old]
        items += [row | {key: old[row[key]]} for row in renamed]
    return items


def trust_json(trust: Trust) -> dict[str, Any]:
    """A calibration as plain data."""
    return {"judge": trust.judge, "metrics": [_metric_trust(metric) for metric in trust.metrics]}


def _metric_trust(metric: MetricTrust) -> dict[str, Any]:
    table: dict[str, Any] = plain(metric)
    ordering = {key: table.pop(key) for key in ("ordering", "ordering_interval")}
    table = {"name": table.pop("metric")} | table
    table |= {"accuracy_by_kind": table.pop("by_kind"), "trusted": metric.trusted}
    return table if metric.ordering is None else table | ordering


def _scored_record(scored: Scored) -> dict[str, Any]:
    sample, response, evidence = scored.sample, scored.response, scored.evidence
    return {
        **picked(sample, "id", "question", "references", "answerable"),
        "answer": response.answer,
        "refused": scored.refused,
        "seconds": response.seconds,
        "scores": plain(scored.scores),
        "contexts": plain(response.contexts or ()),
        "statements": [_judged_record(statement) for statement in evidence.statements],
        "reference_statements": [_judged_record(statement) for statement in evidence.reference],
        "useful_contexts": [plain(context.judgement) for context in evidence.contexts],
        "citations": [_judged_record(citation) for citation in evidence.citations],
        "asked": [{"question": text, "cosine": cosine} for text, cosine in evidence.asked],
        "evasive": evidence.evasive.verdict if evidence.evasive else None,
    }


def _judged_record(judged: Judged) -> dict[str, Any]:
    judgement: dict[str, Any] = plain(judged.judgement)
    return {"text": judged.text} | judgement


@plain.register
def _(judgement: Judgement) -> dict[str, Any]:
    return picked(judgement, "verdict", "probability") | {"reason": reason(judgement)}
