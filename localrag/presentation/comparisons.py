"""Comparisons in words: what a page, a terminal and JSON show of them.

The analysis of two modes is in the questions' language, and written from the measured facts and
nothing else: no model has a hand in it. All else is in the reader's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from localrag.evaluation.comparisons.base import Compared, Comparison, Outcome, Output, Ranked
from localrag.evaluation.comparisons.modes import (
    KINDS,
    SELF_RAG,
    Facts,
    Kind,
    better_way,
    gather,
)
from localrag.evaluation.comparisons.pairs import CRITERIA, Basis, Criterion, Verdict
from localrag.evaluation.comparisons.rerankers import Graded
from localrag.messages import SOURCE, InterfaceLanguage, Say, speaker, tr
from localrag.presentation import pages
from localrag.presentation.answers import is_unchecked, rendered
from localrag.presentation.records import picked, plain
from localrag.presentation.steps import decision, rating_text, step_line
from localrag.types import Answer, Rating

FEW = 10
"""Below this number of questions the analysis says that it shows a direction only."""
CLEAR = 0.1
"""A smaller difference between two grades is no difference."""
_CLASSES: dict[Rating, str] = {
    "fully supported": "full",
    "partially supported": "partial",
    "no support": "none",
}


_CRITERIA = {
    "relevance": "relevance",
    "accuracy": "factual accuracy",
    "completeness": "completeness",
    "concision": "concision",
}
_OUTCOMES = {
    "from documents": "with citations",
    "refused": "says that the documents do not contain the answer",
    "without documents": "not grounded in the documents",
}


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and its sentences."""

    heading: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Shown:
    """A comparison with what is said of the whole of it; `record` is its JSON."""

    comparison: Comparison[Any]
    heading: str
    kicker: str
    lead: str
    sections: tuple[Section, ...]
    language: InterfaceLanguage
    record: Callable[[], dict[str, Any]]


def render_page(shown: Shown) -> str:
    """The page as HTML, in the language of the interface."""
    words = sys.modules[__name__]
    return pages.render("comparison.html", shown=shown, words=words, step_line=step_line)


# -- two modes ---------------------------------------------------------------------------


def of_modes(comparison: Comparison[Verdict]) -> Shown:
    """A comparison of two modes, one of which is Self-RAG."""
    facts, language = gather(comparison), comparison.language
    sections = analysis(facts, comparison.variants.index(SELF_RAG), language)
    return Shown(
        comparison,
        heading=tr("Two ways to answer, side by side"),
        kicker=tr("judged by {name}", name=comparison.judge),
        lead=tr(
            "{done} of {asked} questions; each pair of answers is judged in both orders.",
            done=len(comparison.questions),
            asked=comparison.asked,
        ),
        sections=sections,
        language=language,
        record=lambda: {
            "modes": list(comparison.variants),
            "judge": comparison.judge,
            "asked": comparison.asked,
            "done": len(comparison.questions),
            "questions": [_question(question) for question in comparison.questions],
            "facts": plain(facts),
            "analysis_language": language,
            "analysis": plain(sections),
        },
    )


def _question(compared: Compared[Verdict]) -> dict[str, Any]:
    modes, better = [way.name for way in compared.ways], better_way(compared)
    return {
        "question": compared.asked.question,
        "language": compared.language,
        **picked(compared.asked, "reference", "answerable"),
        "answers": {
            way.name: plain(way.answer) | {"outcome": way.outcome} for way in compared.ways
        },
        "verdicts": [_verdict(verdict, modes) for verdict in compared.found],
        "better": "equal" if better is None else modes[better],
        "judge_seconds": round(compared.judge_seconds, 3),
    }


def _verdict(verdict: Verdict, modes: Sequence[str]) -> dict[str, Any]:
    first, better, chances = verdict.probability, None, None
    if first is not None:
        better = "equal" if verdict.better is None else modes[verdict.better]
        chances = {modes[0]: round(first, 3), modes[1]: round(1 - first, 3)}
    return {
        "criterion": verdict.criterion,
        "better": better,
        "probabilities": chances,
        "basis": verdict.basis,
    }


# -- rerankers ---------------------------------------------------------------------------


def of_rerankers(comparison: Comparison[Graded]) -> Shown:
    """A comparison of rerankers on one question."""
    (question,) = comparison.questions
    lines = graded(question.found, question.language) if question.found else ()
    care = tr("Graded by the language model: treat it with care.")
    section = Section(tr("Compared with the reference answer"), (*lines, care))
    return Shown(
        comparison,
        heading=tr("One question, several orders of passages"),
        kicker=tr("judged by {name}", name=comparison.judge) if lines else "",
        lead=tr(
            "{count} passages, searched once in {seconds:.2f} s; each reranker reorders the "
            "same ones.",
            count=len(question.candidates),
            seconds=question.search_seconds,
        ),
        sections=(section,) if lines else (),
        language=question.language,
        record=lambda: {
            "question": question.asked.question,
            "language": question.language,
            "reference": question.asked.reference,
            "search_seconds": round(question.search_seconds, 3),
            "candidates": plain(question.candidates),
            "ways": [_way_record(way) for way in question.ways],
            "grades": plain(question.found),
            "verdict": "\n".join(lines),
            "verdict_seconds": round(question.judge_seconds, 3),
        },
    )


def _way_record(way: Output) -> dict[str, Any]:
    return {
        "name": way.name,
        "passages": [
            {"rank": rank, "rank_before": placed.before} | plain(placed.context)
            for rank, placed in enumerate(way.passages, start=1)
        ],
        "answer": plain(way.answer),
        "rerank_seconds": round(way.rerank.seconds, 3) if way.rerank else 0.0,
        "answer_seconds": round(way.seconds, 3),
        "remark": decision(way.rerank, SOURCE) if way.rerank else "",
        "same_answer_as": way.same_answer_as,
    }


def graded(grades: Sequence[Graded], language: InterfaceLanguage) -> tuple[str, ...]:
    """The grades of all variants, a line for each point."""
    say = speaker(language)

    def by_variant(value: Callable[[Graded], str]) -> str:
        return comma.join(f"{variant.name} {value(variant)}" for variant in grades)

    def share(value: float | None) -> str:
        return "?" if value is None else f"{value:.0%}"

    comma = say(", ")
    nowhere = say("in no passage")
    best = max(variant.worth for variant in grades)
    leading = [variant.name for variant in grades if best - variant.worth < CLEAR]
    overall = say("no clear difference")
    if len(leading) < len(grades):
        overall = say("best: {names}", names=comma.join(leading))
    points = {
        say("Relevance of context, rank of the first passage with the answer"): by_variant(
            lambda variant: nowhere if variant.rank is None else f"{variant.rank}"
        ),
        say("Accuracy, agreement with the reference answer"): by_variant(
            lambda variant: share(variant.agrees)
        ),
        say("Completeness, all of the reference answer"): by_variant(
            lambda variant: share(variant.complete)
        ),
        say("Overlap with the reference answer (F1)"): by_variant(
            lambda variant: f"{variant.overlap:.2f}"
        ),
        say("Overall"): overall,
    }
    return tuple(say("{name}: {text}", name=name, text=text) for name, text in points.items())


# -- one question ------------------------------------------------------------------------


def name_of(variant: str, say: Say = tr) -> str:
    """What a variant is called in a text."""
    names = {SELF_RAG: "Self-RAG", "standard": say("the standard way")}
    return names.get(variant, variant)


def title(variant: str) -> str:
    """The heading of a variant: a reranker's name stays as it is written."""
    name = name_of(variant)
    return variant if name == variant else capitalised(name)


def capitalised(name: str) -> str:
    """A name at the beginning of a line."""
    return name[:1].upper() + name[1:]


def criterion_name(criterion: Criterion, say: Say = tr) -> str:
    """What a criterion is called in a text."""
    return say(_CRITERIA[criterion])


def outcome(kind: Outcome) -> str:
    """What an answer is."""
    return tr(_OUTCOMES[kind])


def times(way: Output) -> str:
    """What it took."""
    seconds = way.rerank.seconds if way.rerank else 0.0
    if way.same_answer_as:
        return tr(
            "reranking {rerank:.1f} s; the same passages in the same order as “{other}”, "
            "hence the same answer",
            rerank=seconds,
            other=way.same_answer_as,
        )
    if way.passages:
        return tr(
            "reranking {rerank:.1f} s, answer {answer:.1f} s", rerank=seconds, answer=way.seconds
        )
    return tr("{seconds:.1f} s", seconds=way.seconds)


def remark(way: Output) -> str:
    """What the reranker did, or Self-RAG decided; "" where there is neither."""
    return decision(way.rerank) if way.rerank else decisions_line(way.answer)


def decisions_line(answer: Answer) -> str:
    """What Self-RAG decided on one question; "" for an answer without its metrics."""
    metrics = answer.metrics
    if metrics is None:
        return ""
    if not metrics.retrieval_needed:
        return tr("documents not needed, none read")
    counts = asdict(metrics) | {
        "count": len(metrics.response_support_ratings),
        "full": sum(sentence.rating == "fully supported" for sentence in answer.support),
        "all": len(answer.support),
    }
    line = tr(
        "documents needed; {relevant_documents} of {documents_retrieved} passages relevant",
        **counts,
    )
    if counts["count"]:
        line += tr("; answers graded: {count}, best score {best_score:.1f}", **counts)
    if not metrics.used_retrieval:
        line += tr("; none was supported, so not from the documents")
    elif answer.support:
        line += tr("; {full} of {all} sentences fully supported", **counts)
    return line


def verdicts(compared: Compared[Verdict]) -> Iterator[tuple[str, ...]]:
    """Who is better at what, how sure that is, and who says so; the heads of the columns first."""
    yield tr("Criterion"), tr("Better"), tr("By")
    bases: dict[Basis, str] = {
        "judge": tr("the language model, in both orders"),
        "same answer": tr("both say the same"),
        "known": tr("the reference answer"),
        "too long": tr("too long for the model's context window"),
        "unreadable": tr("the model's reply could not be read"),
    }
    for verdict in compared.found:
        result = tr("not judged") if verdict.probability is None else tr("equal")
        if verdict.probability is not None and verdict.better is not None:
            result = name_of(compared.ways[verdict.better].name)
            if verdict.basis == "judge":
                sure = max(verdict.probability, 1 - verdict.probability)
                result = tr("{name} ({share:.0%})", name=result, share=sure)
        yield capitalised(criterion_name(verdict.criterion)), result, bases[verdict.basis]


def rated(answer: Answer) -> Iterator[dict[str, str]]:
    """The answer in parts: `rating` and `kind` (its class) of each sentence."""
    rendering, done = rendered(answer), 0
    for start, end, sentence in rendering.sentences:
        if sentence.rating is not None:
            mark = {"rating": rating_text(sentence.rating), "kind": _CLASSES[sentence.rating]}
        elif answer.citations and is_unchecked(sentence):
            mark = {"rating": tr("not checked"), "kind": "unchecked"}
        else:
            continue
        yield {"text": rendering.text[done:start], "rating": ""}
        yield {"text": rendering.text[start:end], **mark}
        done = end
    yield {"text": rendering.text[done:], "rating": ""}


def moved(rank: int, placed: Ranked) -> dict[str, str]:
    """How far a passage went: colour, arrow and number say the same."""
    places = placed.before - rank
    if not places:
        return {"kind": "same", "sign": "="}
    kind, arrow = ("up", "▲") if places > 0 else ("down", "▼")
    return {"kind": kind, "sign": f"{arrow}{abs(places)}"}


def ranks(compared: Compared[Graded]) -> Iterator[dict[str, Any]]:
    """Of each passage that any variant chose, its rank in the search and with each of them."""
    places = [
        {placed.before: rank for rank, placed in enumerate(way.passages, start=1)}
        for way in compared.ways
    ]
    for before, context in enumerate(compared.candidates, start=1):
        way_ranks = [ranked.get(before) for ranked in places]
        if any(way_ranks):
            yield {"before": before, "ranks": way_ranks, "context": context}


def one_line(text: str) -> str:
    """A text without its line breaks."""
    return " ".join(text.split())


def excerpt(text: str, length: int = 160) -> str:
    """The beginning of a text, on one line."""
    line = one_line(text)
    return line if len(line) <= length else line[:length] + "…"


# -- the analysis of two modes -----------------------------------------------------------


def analysis(facts: Facts, own: int, language: InterfaceLanguage) -> tuple[Section, ...]:
    """When which way is better and why, what the decisions did, and what to use when.

    `own` is the place of Self-RAG.
    """
    say = speaker(language)
    return (
        Section(say("Result"), tuple(_result_lines(facts, own, say))),
        Section(say("Where Self-RAG is better, and why"), tuple(_wins(facts, own, say))),
        Section(
            say("Where the standard way is better, and why"), tuple(_wins(facts, 1 - own, say))
        ),
        Section(say("What the decisions of Self-RAG contributed"), tuple(_decisions(facts, say))),
        Section(say("What to use when"), tuple(_advice_lines(facts, own, say))),
    )


def _result_lines(facts: Facts, own: int, say: Say) -> Iterator[str]:
    counted = {say("better answer, by question"): facts.overall}
    counted |= {criterion_name(name, say): facts.criteria[name] for name in CRITERIA}
    for name, tally in counted.items():
        if tally.count:
            yield say(
                "{name}: Self-RAG {own}, the standard way {other}, equal {equal}.",
                name=capitalised(name),
                own=tally.wins[own],
                other=tally.wins[1 - own],
                equal=tally.equal,
            )
    if facts.unread:
        yield say("Verdicts that could not be read, or did not fit: {count}.", count=facts.unread)
    mine, other = facts.ways[own], facts.ways[1 - own]
    yield say(
        "Seconds a question: Self-RAG {own:.1f}, the standard way {other:.1f}; Self-RAG took "
        "{ratio:.1f} times as long.",
        own=mine.seconds,
        other=other.seconds,
        ratio=_ratio(facts, own),
    )
    if mine.f1 is not None and other.f1 is not None:
        yield say(
            "Overlap with the reference answers (F1): Self-RAG {own:.2f}, the standard way "
            "{other:.2f}.",
            own=mine.f1,
            other=other.f1,
        )
    if any(mine.unanswerable.values()):
        yield say(
            "Questions that the documents do not answer: {count}. Said so: Self-RAG {own}, "
            "the standard way {other}. Answered, marked as not from the documents: Self-RAG "
            "{own_marked}, the standard way {other_marked}.",
            **_outcomes(mine.unanswerable, other.unanswerable),
        )
    if any(mine.answerable.values()):
        yield say(
            "Questions that the documents answer: {count}. Refused nevertheless: Self-RAG "
            "{own}, the standard way {other}. Answered, but not from the documents: Self-RAG "
            "{own_marked}, the standard way {other_marked}.",
            **_outcomes(mine.answerable, other.answerable),
        )
    if facts.overall.count < FEW:
        yield say("With so few questions, this shows no more than a tendency.")


def _wins(facts: Facts, way: int, say: Say) -> Iterator[str]:
    numbers, reasons = facts.better[way], facts.reasons[way]
    if not numbers:
        yield say("On none of these questions.")
        return
    comma = say(", ")
    yield say(
        "On {count} of {all} questions (number {numbers}).",
        count=len(numbers),
        all=facts.overall.count,
        numbers=comma.join(map(str, numbers)),
    )
    if reasons["honest"]:
        yield say(
            "It said that the documents lack the answer, or that its answer is not from "
            "them, and the other did not: {honest}.",
            **reasons,
        )
    if reasons["found"]:
        yield say("It answered from the documents, and the other did not: {found}.", **reasons)
    judged = [
        say("{name} ({count})", name=criterion_name(criterion, say), count=reasons[criterion])
        for criterion in CRITERIA
        if reasons[criterion]
    ]
    if judged:
        points = comma.join(judged)
        yield say("The judge found it better in {points}.", points=points)


def _decisions(facts: Facts, say: Say) -> Iterator[str]:
    counts = asdict(facts.decisions) | {"all": facts.overall.count}
    yield say(
        "Retrieval decision: documents not needed for {not_needed} of {all} questions.", **counts
    )
    if counts["not_needed_wrongly"]:
        yield say(
            "That was wrong for {not_needed_wrongly}: the documents contain the answer.", **counts
        )
    if counts["passages"]:
        yield say(
            "Relevance: {relevant} of {passages} passages were kept; the answers were written "
            "without the rest.",
            **counts,
        )
    if counts["none_relevant"]:
        yield say("Questions without a relevant passage: {none_relevant}.", **counts)
    if counts["none_relevant_rightly"] or counts["none_relevant_wrongly"]:
        yield say(
            "Rightly so, as the documents lack the answer: {none_relevant_rightly}. Wrongly: "
            "{none_relevant_wrongly}.",
            **counts,
        )
    if counts["candidates"]:
        yield say(
            "Support: answers from the documents that were graded: {candidates}; questions at "
            "which none of them held: {rejected}.",
            **counts,
        )
    if counts["sentences"]:
        yield say(
            "Sentences of the final answers that were checked: {sentences}; marked as not "
            "supported: {unsupported}.",
            **counts,
        )
    yield say("Deciding and checking took {check_share:.0%} of its time.", **counts)


def _advice_lines(facts: Facts, own: int, say: Say) -> Iterator[str]:
    names: dict[Kind, str] = {
        "factual": say("factual questions"),
        "no answer": say("questions that the documents do not answer"),
        "creative": say("creative requests and opinions"),
    }
    for kind in KINDS:
        text = _advice_for(facts, kind, own, say)
        yield say("{name}: {text}", name=capitalised(names[kind]), text=text)


def _advice_for(facts: Facts, kind: Kind, own: int, say: Say) -> str:
    tally = facts.kinds[kind]
    if not tally.count:
        return say("none was asked, so nothing was measured.")
    differ = tally.wins[own] != tally.wins[1 - own]
    best = own if _ratio(facts, own) <= 1 else 1 - own
    if differ:
        best = 0 if tally.wins[0] > tally.wins[1] else 1
    values = {"better": tally.wins[best], "worse": tally.wins[1 - best], "all": tally.count}
    name = name_of(SELF_RAG if best == own else "standard", say)
    return say(
        "{name} (better at {better} of {all}, worse at {worse})."
        if differ
        else "{name}: no difference over {all} (better {better}, worse {worse}), and it is faster.",
        name=name,
        **values,
    )


def _outcomes(own: dict[Outcome, int], other: dict[Outcome, int]) -> dict[str, int]:
    return {
        "count": sum(own.values()),
        "own": own["refused"],
        "other": other["refused"],
        "own_marked": own["without documents"],
        "other_marked": other["without documents"],
    }


def _ratio(facts: Facts, own: int) -> float:
    """How many times as long Self-RAG took."""
    other = facts.ways[1 - own].seconds
    return facts.ways[own].seconds / other if other else 1.0
