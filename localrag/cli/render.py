"""How passages and answers look to a person, and as JSON."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from localrag.cli.output import Item
from localrag.messages import tr, translate
from localrag.printable import as_name, filled
from localrag.types import Answer, LeftOut, ScoredChunk, Step

if TYPE_CHECKING:
    from rich.console import Console

EXCERPT = 220
"""Characters of a passage shown in a list."""
MOST_LEFT_OUT = 3
"""Sentences told before an answer; `--json` has them all."""


def pages(context: ScoredChunk) -> str:
    """`3` or `3-4`."""
    first, last = context.chunk.first_page, context.chunk.last_page
    return str(first) if first == last else f"{first}-{last}"


def hit_json(context: ScoredChunk) -> dict[str, Any]:
    """One passage as JSON, with the rank that each leg gave."""
    chunk = context.chunk
    return {
        "source": context.source,
        "page": chunk.first_page,
        "last_page": chunk.last_page,
        "heading": chunk.heading,
        "score": context.score,
        "text": chunk.text,
        "ranks": {rank.leg: {"rank": rank.rank, "score": rank.score} for rank in context.ranks},
        "chunk_id": chunk.id,
    }


def step_json(step: Step) -> dict[str, Any]:
    """A step of a trace as JSON."""
    return {
        "name": step.name,
        "decision": step.decision,
        "score": step.score,
        "seconds": round(step.seconds, 3),
    }


def step_line(step: Step) -> str:
    """A step on a line of its own."""
    return tr("{part}: {text}", part=step_word(step), text=step_short(step))


def step_word(step: Step) -> str:
    """What a step is called."""
    return _step(step.name)


def step_short(step: Step) -> str:
    """The decision of a step and its score."""
    score = "" if step.score is None else f" {step.score:.2f}"
    return as_name(_decision(step.decision)) + score


def answer_json(answer: Answer) -> dict[str, Any]:
    """An answer as JSON."""
    return {
        "question": answer.question,
        "answer": answer.text,
        "language": answer.language,
        "grounded": answer.grounded,
        "citations": [
            {
                "marker": citation.marker,
                "source": citation.source,
                "page": citation.page,
                "quote": citation.quote,
            }
            for citation in answer.citations
        ],
        "contexts": [hit_json(context) for context in answer.contexts],
        "trace": [step_json(step) for step in answer.trace],
        "seconds": round(answer.seconds, 3),
        "support": [
            {
                "text": answer.text[sentence.start : sentence.end],
                "rating": sentence.rating,
                "share": round(sentence.share, 3),
            }
            for sentence in answer.support
        ],
        "metrics": asdict(answer.metrics) if answer.metrics else None,
        "left_out": [
            {"source": each.source, "page": each.page, "text": each.text}
            for each in answer.left_out
        ],
    }


_MARKS = {"fully supported": "✓", "partially supported": "~", "no support": "✗"}


def marked_text(answer: Answer) -> str:
    """The answer with a mark behind each sentence that was checked, and what the marks mean."""
    text, end = "", 0
    for sentence in answer.support:
        text += f"{answer.text[end : sentence.end]} {_MARKS[sentence.rating]}"
        end = sentence.end
    legend = "  ".join(
        f"{_MARKS[rating]} {_decision(rating)}"
        for rating in _MARKS
        if any(sentence.rating == rating for sentence in answer.support)
    )
    return f"{text}{answer.text[end:]}\n({legend})"


def print_hits(console: Console, hits: Sequence[ScoredChunk], *, explain: bool) -> None:
    """A numbered list: file, page, heading, the beginning of the passage."""
    from rich.text import Text

    for number, hit in enumerate(hits, start=1):
        title = Text(f"{number:>2}. ", style="bold")
        title.append(as_name(PurePath(hit.source).name), style="bold cyan")
        title.append(tr("  p. {page}", page=pages(hit)), style="cyan")
        title.append(f"  {hit.score:.3f}", style="dim")
        if hit.chunk.heading:
            title.append(f"  {as_name(hit.chunk.heading)}", style="dim")
        console.print(Item(title))
        console.print(Item(Text("    " + as_name(_excerpt(hit.chunk.text)))))
        if explain:
            legs = [
                tr("{leg} #{rank} ({score:.3f})", leg=_leg(r.leg), rank=r.rank, score=r.score)
                for r in hit.ranks
            ]
            console.print(Text("    " + tr(", ").join(legs), style="dim"))


def _excerpt(text: str) -> str:
    """The beginning of a text, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= EXCERPT else line[:EXCERPT] + "…"


def print_left_out(console: Console, left_out: Sequence[LeftOut]) -> None:
    """Before an answer: what of the documents it was written without."""
    from rich.text import Text

    for each in left_out[:MOST_LEFT_OUT]:
        told = tr(
            "{name}, p. {page}, told the model what to answer; this was left out: “{text}”",
            name=PurePath(each.source).name,
            page=each.page,
            text=_excerpt(each.text),
        )
        console.print(Item(Text(told, style="yellow")))
    if len(left_out) > MOST_LEFT_OUT:
        more = tr("and {count} more (see --json)", count=len(left_out) - MOST_LEFT_OUT)
        console.print(Text(more, style="yellow"))


def print_evidence(console: Console, answer: Answer) -> None:
    """Under an answer: its citations, or what there is instead."""
    from rich.text import Text

    console.print()
    if answer.citations:
        for citation in answer.citations:
            line = Text(f"[{citation.marker}] ", style="bold")
            line.append(as_name(PurePath(citation.source).name), style="cyan")
            line.append(tr(", p. {page}", page=citation.page), style="cyan")
            quote = " ".join(citation.quote.split())
            line.append(tr(": “{quote}”", quote=quote), style="dim")
            console.print(Item(line))
    elif _said(answer, "out_of_time"):
        console.print(Text(tr("Allow more time with --budget."), style="yellow"))
    elif answer.metrics and not _was_refused(answer):
        warning = tr("Written without your documents: nothing in them bears this out.")
        if answer.metrics.retrieval_needed:
            warning = tr(
                "Your documents do not seem to contain the answer; this was written without "
                "them, and nothing bears it out."
            )
        console.print(Text(warning, style="yellow"))
    elif answer.contexts:
        warning = tr("No passage bears this out; it is not grounded in your documents.")
        if not answer.grounded and _was_refused(answer):
            warning = tr("Not answered from your documents. The closest passages were:")
            console.print(Text(warning, style="yellow"))
            print_hits(console, answer.contexts[:3], explain=False)
        else:
            console.print(Text(warning, style="yellow"))
    elif all(step.name != "filter" for step in answer.trace):  # else the answer itself says it
        console.print(Text(tr("Nothing in the library matches the question."), style="yellow"))
    if answer.citations and not answer.grounded:
        warning = tr(
            "What was left out stands beside a quotation and is about the question: read it there."
        )
        console.print(Text(warning, style="yellow"))
    console.print(Text(tr("{seconds:.1f} s", seconds=answer.seconds), style="dim"))


def print_trace(console: Console, answer: Answer) -> None:
    """Every step with its decision, score and time."""
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in (tr("Step"), tr("Decision"), tr("Score"), tr("Seconds")):
        table.add_column(heading)
    for step in answer.trace:
        score = "" if step.score is None else f"{step.score:.3f}"
        decision = as_name(_decision(step.decision))
        table.add_row(_step(step.name), decision, score, f"{step.seconds:.2f}")
    console.print(table)


def _self_rag() -> dict[str, str]:
    """Decisions of Self-RAG, as patterns, and how they are said to a person."""
    return {
        r"documents are needed": translate("documents are needed"),
        r"documents are not needed": translate("documents are not needed"),
        r"strict: from the documents or not at all": translate(
            "strict: from the documents or not at all"
        ),
        r"(?P<count>\d+) passages are longer than the window": translate(
            "{count} passages are longer than the window"
        ),
        r"passage (?P<number>\d+) relevant": translate("passage {number} relevant"),
        r"passage (?P<number>\d+) irrelevant": translate("passage {number} irrelevant"),
        r"(?P<count>\d+) passages were not read": translate("{count} passages were not read"),
        r"(?P<count>\d+) more answers were not tried": translate(
            "{count} more answers were not tried"
        ),
        r"(?P<count>\d+) sentences were not checked": translate(
            "{count} sentences were not checked"
        ),
        r"usefulness was not graded": translate("usefulness was not graded"),
        r"no time was left to write an answer": translate("no time was left to write an answer"),
        r"from (?P<count>\d+) passages": translate("from {count} passages"),
        r"from (?P<count>\d+) passages, cut short": translate("from {count} passages, cut short"),
        r"without the documents": translate("without the documents"),
        r"without the documents, cut short": translate("without the documents, cut short"),
        r"fully supported": translate("fully supported"),
        r"partially supported": translate("partially supported"),
        r"no support": translate("no support"),
        r"useful, 1 to 5": translate("useful, 1 to 5"),
        r"answer (?P<number>\d+)": translate("answer {number}"),
        r"the reply could not be read, the documents are searched": translate(
            "the reply could not be read, the documents are searched"
        ),
        r"the reply could not be read, the similarity was taken": translate(
            "the reply could not be read, the similarity was taken"
        ),
        r"the reply could not be read, it counts as not supported": translate(
            "the reply could not be read, it counts as not supported"
        ),
        r"the reply could not be read, 3 was taken": translate(
            "the reply could not be read, 3 was taken"
        ),
    }


def _leg(name: str) -> str:
    """A leg of the search in the reader's language; one that is not known here as it is."""
    if found := re.fullmatch(r"rewriting (\d+)", name):
        return tr("rewriting {number}", number=found[1])
    return {"dense": tr("dense"), "keyword": tr("keyword")}.get(name, name)


def _step(name: str) -> str:
    """A step in the reader's language; one that is not known here as it is."""
    words = {
        "retrieve": tr("retrieve"),
        "rerank": tr("rerank"),
        "expand": tr("expand"),
        "filter": tr("filter"),
        "private": tr("private documents"),
        "answerable": tr("answerable"),
        "write": tr("write"),
        "check citations": tr("check citations"),
        "retrieval decision": tr("retrieval decision"),
        "relevance": tr("relevance"),
        "support of a sentence": tr("support of a sentence"),
        "support": tr("support"),
        "utility": tr("utility"),
        "choose": tr("choose"),
        "budget": tr("time budget"),
        "instructions": tr("instructions in documents"),
    }
    return words.get(name, name)


_NOTE = re.compile(r"(.+) \((the reply could not be read, .+)\)")


def _decision(decision: str) -> str:
    """A decision in the reader's language; one that is not known here as it is."""
    if found := _NOTE.fullmatch(decision):
        return tr("{text} ({note})", text=_decision(found[1]), note=_decision(found[2]))
    templates = {
        r"yes": translate("yes"),
        r"no": translate("no"),
        r"done": translate("done"),
        r"(?P<count>\d+) passages": translate("{count} passages"),
        r"(?P<left>\d+) of (?P<total>\d+) passages": translate("{left} of {total} passages"),
        r"(?P<count>\d+) passages left out": translate("{count} passages left out"),
        r"(?P<count>\d+) sentences left out": translate("{count} sentences left out"),
        r"(?P<cited>\d+) cited, (?P<removed>\d+) markers removed, (?P<added>\d+) added": translate(
            "{cited} cited, {removed} markers removed, {added} added"
        ),
        r"(?P<name>.+): (?P<kept>\d+) of (?P<read>\d+) passages": translate(
            "{name}: {kept} of {read} passages"
        ),
        r"(?P<name>.+): (?P<kept>\d+) of (?P<read>\d+) passages\. (?P<notes>.+)": translate(
            "{name}: {kept} of {read} passages. {notes}"
        ),
        **_self_rag(),
        r"no usable rewriting: the question alone is searched": translate(
            "no usable rewriting: the question alone is searched"
        ),
        r"no passage was written: the question alone is searched": translate(
            "no passage was written: the question alone is searched"
        ),
        r"the model failed, the question alone is searched: (?P<reason>.+)": translate(
            "the model failed, the question alone is searched: {reason}"
        ),
    }
    for pattern, template in templates.items():
        if found := re.fullmatch(pattern, decision, re.DOTALL):
            return filled(template, found.groupdict())
    return decision


def _was_refused(answer: Answer) -> bool:
    return _said(answer, "refusal")


def _said(answer: Answer, prompt: str) -> bool:
    """Whether the answer is one of localrag's own sentences."""
    from localrag.prompts import render

    own = render(prompt, "zh" if answer.language == "zh" else "en")
    return answer.text.startswith(own.rstrip("。."))
