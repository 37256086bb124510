"""A comparison as one page: no other file, no script, no address outside.

Everything that comes from documents, models or the command line is text here and never
markup; the page's own policy forbids scripts and requests besides.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import PurePath
from string import Template

from localrag.evaluation.comparisons.rerankers import Comparison, Placed, Way
from localrag.messages import interface_language, tr
from localrag.presentation.steps import decision
from localrag.printable import as_html


def filled(name: str, **values: str) -> str:
    """The page `name` with its style and these values, which are HTML already."""
    folder = files("localrag.evaluation.comparisons")
    style = folder.joinpath("comparisons.css").read_text("utf-8")
    template = folder.joinpath(name).read_text("utf-8")
    return Template(template).substitute(style=style, **values)


def render_page(comparison: Comparison) -> str:
    """The page as HTML, in the language of the interface."""
    return filled(
        "rerankers.html",
        language="zh-CN" if interface_language() == "zh" else "en",
        title=as_html(comparison.question),
        heading=as_html(tr("One question, several orders of passages")),
        question=as_html(comparison.question),
        question_language=comparison.language,
        reference=_reference(comparison),
        summary=_summary(comparison),
        ways="\n".join(_way(way) for way in comparison.ways),
        ranks=_ranks(comparison),
        verdict=_verdict(comparison),
    )


def _reference(comparison: Comparison) -> str:
    if not comparison.reference:
        return ""
    label = as_html(tr("Reference answer"))
    return f'<p class="reference"><b>{label}</b> {as_html(comparison.reference)}</p>'


def _summary(comparison: Comparison) -> str:
    return as_html(
        tr(
            "{count} passages found once, in {seconds:.2f} s; each way reorders the same ones.",
            count=len(comparison.candidates),
            seconds=comparison.search_seconds,
        )
    )


def _way(way: Way) -> str:
    passages = "\n".join(_passage(rank, placed) for rank, placed in enumerate(way.passages, 1))
    grounded = way.answer.grounded
    state = tr("with citations") if grounded else tr("not grounded in the documents")
    times = tr(
        "reranking {rerank:.1f} s, answer {answer:.1f} s",
        rerank=way.rerank_seconds,
        answer=way.answer_seconds,
    )
    if way.same_answer_as:
        times = tr(
            "reranking {rerank:.1f} s; same passages in the same order as “{other}”, so the "
            "same answer",
            rerank=way.rerank_seconds,
            other=way.same_answer_as,
        )
    said = as_html(decision(way.rerank)) if way.rerank else ""
    remark = f'<p class="remark">{said}</p>' if said else ""
    return f"""<section class="way">
<h2>{as_html(way.name)}</h2>
<p class="times">{as_html(times)}</p>
<div class="answer {"grounded" if grounded else "ungrounded"}">{as_html(way.answer.text)}</div>
<p class="state">{as_html(state)}</p>
{remark}
<ol class="passages">
{passages}
</ol>
</section>"""


def _passage(rank: int, placed: Placed) -> str:
    context = placed.context
    name = PurePath(context.source).name
    place = as_html(tr("{name}, p. {page}", name=name, page=context.chunk.first_page))
    return f"""<li><details>
<summary><span class="line"><span class="rank">{rank}</span>{_move(rank, placed.before)}
<span class="source">{place}</span><span class="score">{context.score:.3f}</span></span>
<span class="excerpt">{as_html(_line(context.chunk.text))}</span></summary>
<p class="text">{as_html(context.chunk.text)}</p>
</details></li>"""


def _move(rank: int, before: int) -> str:
    """How far a passage went: colour, arrow and number say the same."""
    came = as_html(tr("rank {rank} in the search", rank=before))
    moved = before - rank
    kind, sign = ("same", "=") if not moved else ("up", "▲") if moved > 0 else ("down", "▼")
    number = str(abs(moved)) if moved else ""
    return f'<span class="move {kind}" title="{came}">{sign}{number}</span>'


def _ranks(comparison: Comparison) -> str:
    """The table of ranks: a row a passage that any way chose, a column a way."""
    heads = "".join(f"<th>{as_html(way.name)}</th>" for way in comparison.ways)
    rows = []
    for before, candidate in enumerate(comparison.candidates, start=1):
        cells = []
        for way in comparison.ways:
            ids = [placed.context.chunk.id for placed in way.passages]
            rank = ids.index(candidate.chunk.id) + 1 if candidate.chunk.id in ids else None
            cells.append(f'<td class="r{min(rank, 3)}">{rank}</td>' if rank else "<td>·</td>")
        if any("·" not in cell for cell in cells):
            source = as_html(PurePath(candidate.source).name)
            excerpt = as_html(_line(candidate.chunk.text))
            rows.append(
                f"<tr><td>{before}</td>{''.join(cells)}"
                f'<td class="cut"><b>{source}</b> {excerpt}</td></tr>'
            )
    search, passage = as_html(tr("search")), as_html(tr("passage"))
    return (
        f"<table><thead><tr><th>{search}</th>{heads}<th>{passage}</th></tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def _verdict(comparison: Comparison) -> str:
    if not comparison.verdict:
        return ""
    label = as_html(tr("Compared with the reference answer"))
    care = as_html(tr("Graded by the language model: read it with care."))
    return (
        f'<section class="verdict"><h2>{label}</h2>'
        f'<div class="text">{as_html(comparison.verdict)}</div>'
        f'<p class="state">{care}</p></section>'
    )


def _line(text: str, length: int = 160) -> str:
    line = " ".join(text.split())
    return line if len(line) <= length else line[:length] + "…"
