"""An evaluation as one page: no other file, no script, no address outside.

Everything that comes from documents, models or the command line is text here and never markup;
the page's own policy forbids scripts and requests besides.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import PurePath
from string import Template

from localrag.evaluation.judging.judge import Finding, Judged
from localrag.evaluation.reports.advice import BadCase, bad_cases, explain
from localrag.evaluation.reports.plots import COLOURS, distribution_plot, interval_plot, time_plot
from localrag.evaluation.reports.report import Report
from localrag.evaluation.reports.wording import remarks, trial, trust_remarks
from localrag.evaluation.runs import EvaluatedRun, Summary
from localrag.evaluation.scoring import Scored
from localrag.messages import interface_language, tr
from localrag.printable import as_html


def render_page(report: Report) -> str:
    """The page as HTML, in the language of the interface."""
    template = files("localrag.evaluation.reports").joinpath("report.html").read_text("utf-8")
    title = tr("Evaluation of {name}", name=report.dataset)
    first = report.runs[0]
    cases = bad_cases(first, report.runs[1:])
    return Template(template).substitute(
        language="zh-CN" if interface_language() == "zh" else "en",
        title=as_html(title),
        lead=as_html(
            tr(
                "{count} question(s), {runs} configuration(s)",
                count=len(first.scored),
                runs=len(report.runs),
            )
        ),
        legend=_legend(report),
        remarks="".join(f"<li>{as_html(text)}</li>" for text in remarks(report)),
        metrics=_metrics(report),
        plots=_plots(report),
        trust=_trust(report),
        bad_heading=as_html(tr("Bad cases first")),
        bad="\n".join(_case(case) for case in cases) or f"<p>{as_html(tr('No bad case.'))}</p>",
        questions_heading=as_html(tr("All questions")),
        questions="\n".join(_run(run) for run in report.runs),
    )


def _legend(report: Report) -> str:
    return "".join(
        f'<span class="key"><i class="run{number % COLOURS}"></i>{as_html(run.name)}</span>'
        for number, run in enumerate(report.runs)
    )


def _metrics(report: Report) -> str:
    head = "".join(f"<th>{as_html(run.name)}</th>" for run in report.runs)
    found = [{one.name: one for one in run.summaries()} for run in report.runs]
    untrusted = set(report.untrusted())
    rows = []
    for one in report.runs[0].summaries():
        cells = "".join(f"<td>{_mean(summaries[one.name])}</td>" for summaries in found)
        mark = f' <span class="warn">{as_html(tr("not reliable"))}</span>'
        name = as_html(one.name) + (mark if one.name in untrusted else "")
        rows.append(f"<tr><th>{name}</th>{cells}</tr>")
    return (
        f"<table><thead><tr><th>{as_html(tr('Metric'))}</th>{head}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def _mean(one: Summary) -> str:
    counts = tr(
        "{scored} scored, {unreadable} unreadable, {undefined} not defined",
        scored=one.scored,
        unreadable=one.unreadable,
        undefined=one.undefined,
    )
    shown = "–"
    if one.mean is not None and one.interval is not None:
        low, high = one.interval
        shown = f"<b>{one.mean:.3f}</b> [{low:.2f}, {high:.2f}]"
    return f'{shown}<br><span class="soft">{as_html(counts)}</span>'


def _plots(report: Report) -> str:
    titles = (
        tr("Means with their 95% intervals"),
        tr("Every question's score"),
        tr("Seconds to answer, with the median"),
    )
    drawn = (
        interval_plot(report.runs, titles[0]),
        distribution_plot(report.runs, titles[1]),
        time_plot(report.runs, titles[2]),
    )
    return "\n".join(
        f"<figure><figcaption>{as_html(title)}</figcaption>{plot}</figure>"
        for title, plot in zip(titles, drawn, strict=True)
        if plot
    )


def _trust(report: Report) -> str:
    if not report.judge:
        return ""
    heading = f"<h2>{as_html(tr('How far to trust the judge'))}</h2>"
    if report.trust is None:
        text = tr(
            "Not calibrated: `localrag eval calibrate` measures how far this judge can be trusted."
        )
        return f'<section class="card">{heading}<p class="warn">{as_html(text)}</p></section>'
    head = "".join(
        f"<th>{as_html(name)}</th>"
        for name in (
            tr("Metric"),
            tr("Items"),
            tr("Accuracy"),
            "Cohen κ",
            "ECE",
            tr("Unreadable"),
            tr("Trust"),
        )
    )
    rows = []
    for one in report.trust.metrics:
        low, high = one.kappa_interval
        error = "–" if one.calibration_error is None else f"{one.calibration_error:.2f}"
        cells = (
            one.metric,
            str(one.items),
            f"{one.accuracy:.2f}",
            f"{one.kappa:.2f} [{low:.2f}, {high:.2f}]",
            error,
            str(one.unreadable),
            tr("yes") if one.trusted else tr("no"),
        )
        rows.append("<tr>" + "".join(f"<td>{as_html(cell)}</td>" for cell in cells) + "</tr>")
    notes = "".join(f"<li>{as_html(text)}</li>" for text in trust_remarks(report.trust))
    return (
        f'<section class="card">{heading}<table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table><ul>{notes}</ul></section>"
    )


def _case(case: BadCase) -> str:
    why, what = explain(case.cause)
    tried = "".join(f"<li>{as_html(trial(one))}</li>" for one in case.trials)
    advice = f'<p class="cause">{as_html(why)}</p><p class="try">{as_html(what)}</p>' + (
        f"<ul>{tried}</ul>" if tried else ""
    )
    return _question(case.scored, advice)


def _run(run: EvaluatedRun) -> str:
    questions = "\n".join(_question(scored) for scored in run.scored)
    return f"<h3>{as_html(run.name)}</h3>\n{questions}"


def _question(scored: Scored, advice: str = "") -> str:
    sample, response, evidence = scored.sample, scored.response, scored.evidence
    chips = "".join(
        f'<span class="chip {_grade(score.value)}">{as_html(name)} '
        f"{_shown(score.value, score.state)}</span>"
        for name, score in scored.scores.items()
        if score.state != "undefined"
    )
    body = [_labelled(tr("Answer"), response.answer)]
    if sample.reference:
        body.append(_labelled(tr("Reference answer"), " / ".join(sample.references)))
    body.append(_findings(tr("Statements of the answer"), evidence.statements))
    body.append(_findings(tr("Statements of the reference answer"), evidence.reference))
    body.append(_findings(tr("Citations"), evidence.citations))
    if evidence.asked:
        asked = "".join(f"<li>{cosine:.2f} {as_html(text)}</li>" for text, cosine in evidence.asked)
        body.append(
            f"<h4>{as_html(tr('Questions that the answer would answer'))}</h4><ul>{asked}</ul>"
        )
    body.append(_contexts(scored))
    return (
        f'<details class="card question"><summary><b>{as_html(sample.id)}. '
        f"{as_html(sample.question)}</b><div>{chips}</div>{advice}</summary>{''.join(body)}</details>"
    )


def _contexts(scored: Scored) -> str:
    contexts = scored.response.contexts or ()
    useful = [judged.finding for judged in scored.evidence.contexts]
    items = []
    for place, context in enumerate(contexts):
        where = ""
        if context.source:
            where = PurePath(context.source).name
            if context.first_page:
                where = tr("{name}, p. {page}", name=where, page=context.first_page)
        verdict = _verdict(useful[place], tr("useful"), tr("not useful")) if useful else ""
        items.append(
            f'<li>{verdict} <span class="soft">{as_html(where)}</span>'
            f'<div class="text">{as_html(context.text)}</div></li>'
        )
    if not items:
        return ""
    return f"<h4>{as_html(tr('Passages'))}</h4><ol>{''.join(items)}</ol>"


def _findings(title: str, judged: tuple[Judged, ...]) -> str:
    if not judged:
        return ""
    items = "".join(
        f"<li>{_verdict(one.finding, tr('supported'), tr('not supported'))} {as_html(one.text)}"
        + (f'<div class="soft">{as_html(one.finding.reason)}</div>' if one.finding.reason else "")
        + "</li>"
        for one in judged
    )
    return f"<h4>{as_html(title)}</h4><ul>{items}</ul>"


def _verdict(finding: Finding, yes: str, no: str) -> str:
    if finding.verdict is None:
        return f'<span class="chip unread">{as_html(tr("unreadable"))}</span>'
    probability = "" if finding.probability is None else f" {finding.probability:.2f}"
    kind, text = ("good", yes) if finding.verdict else ("bad", no)
    return f'<span class="chip {kind}">{as_html(text)}{probability}</span>'


def _labelled(label: str, text: str) -> str:
    return f'<h4>{as_html(label)}</h4><p class="text">{as_html(text)}</p>'


def _grade(value: float | None) -> str:
    if value is None:
        return "unread"
    return "good" if value >= 0.75 else "middling" if value >= 0.5 else "bad"


def _shown(value: float | None, state: str) -> str:
    return (
        f"{value:.2f}"
        if value is not None
        else as_html(tr("unreadable") if state == "unreadable" else "–")
    )
