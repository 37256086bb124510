"""A comparison of two ways to answer as one page: no other file, no script, no address outside.

Everything that comes from documents, models or the command line is text here and never
markup; the page's own policy forbids scripts and requests besides.
"""

from __future__ import annotations

from pathlib import PurePath

from localrag.evaluation.comparisons.modes import Compared, ModeComparison
from localrag.evaluation.comparisons.modes_analysis import (
    Section,
    analysis,
    basis_name,
    capitalised,
    criterion_name,
    decisions_line,
    mode_name,
    outcome_name,
    verdict_line,
)
from localrag.evaluation.comparisons.rerankers_page import filled
from localrag.messages import interface_language, tr
from localrag.presentation.steps import step_line
from localrag.printable import as_html
from localrag.types import Answer, Citation, Rating

_CLASSES: dict[Rating, str] = {
    "fully supported": "full",
    "partially supported": "partial",
    "no support": "none",
}


def render_modes_page(comparison: ModeComparison) -> str:
    """The page as HTML, in the language of the interface; the analysis in the questions'."""
    return filled(
        "modes.html",
        language="zh-CN" if interface_language() == "zh" else "en",
        heading=as_html(tr("Two ways to answer, side by side")),
        judge=as_html(tr("judged by {name}", name=comparison.judge)),
        summary=as_html(
            tr(
                "{done} of {asked} questions; each pair of answers is judged in both orders.",
                done=len(comparison.questions),
                asked=comparison.asked,
            )
        ),
        analysis_language="zh-CN" if comparison.language == "zh" else "en",
        analysis="\n".join(_section(section) for section in analysis(comparison)),
        questions="\n".join(
            _question(number, comparison, one)
            for number, one in enumerate(comparison.questions, start=1)
        ),
    )


def _section(section: Section) -> str:
    lines = "\n".join(f"<p>{as_html(line)}</p>" for line in section.lines)
    return f"<h3>{as_html(section.heading)}</h3>\n{lines}"


def _question(number: int, comparison: ModeComparison, one: Compared) -> str:
    reference = ""
    if one.asked.reference:
        label = as_html(tr("Reference answer"))
        reference = f'<p class="reference"><b>{label}</b> {as_html(one.asked.reference)}</p>'
    ways = "\n".join(_way(way, comparison, one) for way in (0, 1))
    return f"""<section class="question">
<h2 lang="{one.language}">{number}. {as_html(one.asked.question)}</h2>
{reference}
<div class="ways">
{ways}
</div>
<div class="ranks judged">{_verdicts(comparison, one)}</div>
</section>"""


def _way(way: int, comparison: ModeComparison, one: Compared) -> str:
    answer = one.answers[way]
    citations = "\n".join(_citation(citation) for citation in answer.citations)
    steps = "\n".join(f"<li>{as_html(step_line(step))}</li>" for step in answer.trace)
    remark = as_html(decisions_line(answer))
    state = as_html(outcome_name(one.outcome(way)))
    return f"""<section class="way">
<h2>{as_html(capitalised(mode_name(comparison.modes[way])))}</h2>
<p class="times">{as_html(tr("{seconds:.1f} s", seconds=answer.seconds))}</p>
<div class="answer {"grounded" if answer.grounded else "ungrounded"}">{_marked(answer)}</div>
<p class="state">{state}</p>
<p class="remark">{remark}</p>
<ul class="citations">{citations}</ul>
<details><summary>{as_html(tr("Every step"))}</summary><ul class="trace">{steps}</ul></details>
</section>"""


def _marked(answer: Answer) -> str:
    """The answer; a line under each sentence that was checked, named for those who hover."""
    names: dict[Rating, str] = {
        "fully supported": tr("fully supported"),
        "partially supported": tr("partially supported"),
        "no support": tr("no support"),
    }
    html, end = "", 0
    for sentence in answer.support:
        html += as_html(answer.text[end : sentence.start])
        html += (
            f'<mark class="{_CLASSES[sentence.rating]}" title="{as_html(names[sentence.rating])}">'
        )
        html += f"{as_html(answer.text[sentence.start : sentence.end])}</mark>"
        end = sentence.end
    return html + as_html(answer.text[end:])


def _citation(citation: Citation) -> str:
    place = tr("{name}, p. {page}", name=PurePath(citation.source).name, page=citation.page)
    quote = " ".join(citation.quote.split())
    return (
        f'<li>[{citation.marker}] <span class="source">{as_html(place)}</span> '
        f"<span>{as_html(quote)}</span></li>"
    )


def _verdicts(comparison: ModeComparison, one: Compared) -> str:
    rows = "".join(
        f"<tr><td>{as_html(capitalised(criterion_name(verdict.criterion)))}</td>"
        f"<td>{as_html(verdict_line(verdict, comparison.modes))}</td>"
        f"<td>{as_html(basis_name(verdict.basis))}</td></tr>"
        for verdict in one.verdicts
    )
    heads = "".join(
        f"<th>{as_html(name)}</th>" for name in (tr("Criterion"), tr("Better"), tr("By"))
    )
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
