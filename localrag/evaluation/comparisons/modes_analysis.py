"""The analysis of a comparison, in the questions' language.

Written from the measured facts and nothing else: no model has a hand in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from localrag.evaluation.comparisons.modes import SELF_RAG, ModeComparison, Outcome
from localrag.evaluation.comparisons.modes_facts import (
    KINDS,
    Facts,
    Kind,
    Reason,
    Tally,
    WayFacts,
    gather,
)
from localrag.evaluation.comparisons.modes_judge import CRITERIA, Basis, Criterion, Verdict
from localrag.messages import InterfaceLanguage, tr, translate
from localrag.types import Answer

FEW = 10
"""Below this number of questions the analysis says that it shows a direction only."""


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and its sentences."""

    heading: str
    lines: tuple[str, ...]


def analysis(comparison: ModeComparison) -> tuple[Section, ...]:
    """When which way is better and why, what the decisions did, and what to use when.

    For a comparison with at least one question, one of whose ways is Self-RAG.
    """
    self_rag = comparison.modes.index(SELF_RAG)
    return _Analysis(gather(comparison, self_rag), self_rag, comparison.language).sections()


def mode_name(mode: str, language: InterfaceLanguage | None = None) -> str:
    """What a way is called in a text."""
    return "Self-RAG" if mode == SELF_RAG else translate("the standard way", language)


def capitalised(name: str) -> str:
    """A name at the beginning of a line."""
    return name[:1].upper() + name[1:]


def criterion_name(criterion: Criterion, language: InterfaceLanguage | None = None) -> str:
    """What a criterion is called in a text."""
    names: dict[Criterion, str] = {
        "relevance": translate("relevance", language),
        "accuracy": translate("factual accuracy", language),
        "completeness": translate("completeness", language),
        "concision": translate("concision", language),
    }
    return names[criterion]


def outcome_name(outcome: Outcome) -> str:
    """What an answer is, to the reader of a page."""
    names: dict[Outcome, str] = {
        "from documents": tr("with citations"),
        "refused": tr("says that the documents do not contain the answer"),
        "without documents": tr("not grounded in the documents"),
    }
    return names[outcome]


def basis_name(basis: Basis) -> str:
    """Where a verdict comes from, to the reader of a page."""
    names: dict[Basis, str] = {
        "judge": tr("the language model, in both orders"),
        "same answer": tr("both say the same"),
        "known": tr("the reference answer"),
        "too long": tr("too long for the model's context window"),
        "unreadable": tr("the model's reply could not be read"),
    }
    return names[basis]


def verdict_line(verdict: Verdict, modes: tuple[str, str]) -> str:
    """Who is better, and how sure that is."""
    if verdict.probability is None:
        return tr("not judged")
    if verdict.better is None:
        return tr("equal")
    name = mode_name(modes[verdict.better])
    if verdict.basis != "judge":
        return name
    sure = max(verdict.probability, 1 - verdict.probability)
    return tr("{name} ({share:.0%})", name=name, share=sure)


def decisions_line(answer: Answer, language: InterfaceLanguage | None = None) -> str:
    """What Self-RAG decided on one question; "" for an answer without its metrics."""
    metrics = answer.metrics
    if metrics is None:
        return ""
    if not metrics.retrieval_needed:
        return translate("documents not needed, none read", language)
    line = translate("documents needed; {relevant} of {found} passages relevant", language).format(
        relevant=metrics.relevant_documents, found=metrics.documents_retrieved
    )
    if metrics.response_support_ratings:
        line += translate("; answers graded: {count}, best score {score:.1f}", language).format(
            count=len(metrics.response_support_ratings), score=metrics.best_score
        )
    if not metrics.used_retrieval:
        line += translate("; none held, so not from the documents", language)
    elif answer.support:
        line += translate("; {full} of {all} sentences fully supported", language).format(
            full=sum(each.rating == "fully supported" for each in answer.support),
            all=len(answer.support),
        )
    return line


class _Analysis:
    """Composes the sections in one language."""

    def __init__(self, facts: Facts, self_rag: int, language: InterfaceLanguage) -> None:
        self._facts = facts
        self._self_rag = self_rag
        self._language = language

    def sections(self) -> tuple[Section, ...]:
        standard = 1 - self._self_rag
        language = self._language
        return (
            Section(translate("Result", language), tuple(self._result())),
            Section(
                translate("Where Self-RAG is better, and why", language),
                tuple(self._better(self._self_rag)),
            ),
            Section(
                translate("Where the standard way is better, and why", language),
                tuple(self._better(standard)),
            ),
            Section(
                translate("What the decisions of Self-RAG contributed", language),
                tuple(self._contributed()),
            ),
            Section(translate("What to use when", language), tuple(self._advice())),
        )

    # -- result ----------------------------------------------------------------------

    def _result(self) -> Iterable[str]:
        facts, language = self._facts, self._language
        yield self._counted(translate("better answer, by question", language), facts.overall)
        for criterion in CRITERIA:
            if facts.criteria[criterion].count:
                yield self._counted(criterion_name(criterion, language), facts.criteria[criterion])
        if facts.unread:
            yield translate(
                "Verdicts that could not be read, or did not fit: {count}.", language
            ).format(count=facts.unread)
        own, other = self._ways()
        yield translate(
            "Seconds a question: Self-RAG {own:.1f}, the standard way {other:.1f}; Self-RAG took "
            "{ratio:.1f} times as long.",
            language,
        ).format(own=own.seconds, other=other.seconds, ratio=self._ratio())
        if own.f1 is not None and other.f1 is not None:
            yield translate(
                "Overlap with the reference answers (F1): Self-RAG {own:.2f}, the standard way "
                "{other:.2f}.",
                language,
            ).format(own=own.f1, other=other.f1)
        if unanswerable := sum(own.unanswerable.values()):
            yield translate(
                "Questions that the documents do not answer: {count}. Said so: Self-RAG {own}, "
                "the standard way {other}. Answered, marked as not from the documents: Self-RAG "
                "{own_marked}, the standard way {other_marked}.",
                language,
            ).format(
                count=unanswerable,
                own=own.unanswerable["refused"],
                other=other.unanswerable["refused"],
                own_marked=own.unanswerable["without documents"],
                other_marked=other.unanswerable["without documents"],
            )
        if answerable := sum(own.answerable.values()):
            yield translate(
                "Questions that the documents answer: {count}. Refused all the same: Self-RAG "
                "{own}, the standard way {other}. Answered, but not from the documents: Self-RAG "
                "{own_marked}, the standard way {other_marked}.",
                language,
            ).format(
                count=answerable,
                own=own.answerable["refused"],
                other=other.answerable["refused"],
                own_marked=own.answerable["without documents"],
                other_marked=other.answerable["without documents"],
            )
        if facts.overall.count < FEW:
            yield translate("So few questions show a direction, no more.", language)

    def _counted(self, name: str, tally: Tally) -> str:
        return translate(
            "{name}: Self-RAG {own}, the standard way {other}, equal {equal}.", self._language
        ).format(
            name=capitalised(name),
            own=tally.wins[self._self_rag],
            other=tally.wins[1 - self._self_rag],
            equal=tally.equal,
        )

    # -- why -------------------------------------------------------------------------

    def _better(self, way: int) -> Iterable[str]:
        language = self._language
        numbers = self._facts.better[way]
        if not numbers:
            yield translate("At none of these questions.", language)
            return
        listed = translate(", ", language).join(map(str, numbers))
        yield translate("At {count} of {all} questions (number {numbers}).", language).format(
            count=len(numbers), all=self._facts.overall.count, numbers=listed
        )
        yield from self._reasons(self._facts.reasons[way])

    def _reasons(self, reasons: dict[Reason, int]) -> Iterable[str]:
        language = self._language
        if reasons["honest"]:
            yield translate(
                "By saying that the documents lack the answer, or that it is not from them, where "
                "the other did not: {count}.",
                language,
            ).format(count=reasons["honest"])
        if reasons["found"]:
            yield translate(
                "By answering from the documents, where the other did not: {count}.", language
            ).format(count=reasons["found"])
        judged = [
            translate("{name} ({count})", language).format(
                name=criterion_name(criterion, language), count=reasons[criterion]
            )
            for criterion in CRITERIA
            if reasons[criterion]
        ]
        if judged:
            yield translate("By the judge's verdicts on {points}.", language).format(
                points=translate(", ", language).join(judged)
            )

    # -- decisions -------------------------------------------------------------------

    def _contributed(self) -> Iterable[str]:
        language, decisions = self._language, self._facts.decisions
        total = self._facts.overall.count
        yield translate(
            "Retrieval decision: documents not needed for {count} of {all} questions.", language
        ).format(count=decisions.not_needed, all=total)
        if decisions.not_needed_wrongly:
            yield translate(
                "That was wrong for {count}: the documents hold the answer.", language
            ).format(count=decisions.not_needed_wrongly)
        if decisions.passages:
            yield translate(
                "Relevance: {relevant} of {found} passages were kept; the answers were written "
                "without the rest.",
                language,
            ).format(relevant=decisions.relevant, found=decisions.passages)
        if decisions.none_relevant:
            line = translate("Questions without a relevant passage: {count}.", language)
            yield line.format(count=decisions.none_relevant)
        if decisions.none_relevant_rightly or decisions.none_relevant_wrongly:
            yield translate(
                "Rightly so, as the documents lack the answer: {right}. Wrongly: {wrong}.",
                language,
            ).format(right=decisions.none_relevant_rightly, wrong=decisions.none_relevant_wrongly)
        if decisions.candidates:
            yield translate(
                "Support: answers from the documents that were graded: {count}; questions at which "
                "none of them held: {rejected}.",
                language,
            ).format(count=decisions.candidates, rejected=decisions.rejected)
        if decisions.sentences:
            yield translate(
                "Sentences of the final answers that were checked: {count}; marked as not "
                "supported: {unsupported}.",
                language,
            ).format(count=decisions.sentences, unsupported=decisions.unsupported)
        yield translate("Deciding and checking took {share:.0%} of its time.", language).format(
            share=decisions.check_share
        )

    # -- advice ----------------------------------------------------------------------

    def _advice(self) -> Iterable[str]:
        language = self._language
        names: dict[Kind, str] = {
            "factual": translate("factual questions", language),
            "no answer": translate("questions that the documents do not answer", language),
            "creative": translate("creative requests and opinions", language),
        }
        for kind in KINDS:
            yield translate("{name}: {text}", language).format(
                name=capitalised(names[kind]), text=self._advised(self._facts.kinds[kind])
            )

    def _advised(self, tally: Tally) -> str:
        language = self._language
        own, other = tally.wins[self._self_rag], tally.wins[1 - self._self_rag]
        if not tally.count:
            return translate("none was asked, so nothing was measured.", language)
        if own > other:
            text = translate("Self-RAG (better at {own} of {all}, worse at {other}).", language)
        elif other > own:
            text = translate(
                "the standard way (better at {other} of {all}, worse at {own}).", language
            )
        elif self._ratio() > 1:
            text = translate(
                "the standard way: no difference over {all} (better {other}, worse {own}), and "
                "it is faster.",
                language,
            )
        else:
            text = translate(
                "Self-RAG: no difference over {all} (better {own}, worse {other}), and it is "
                "faster.",
                language,
            )
        return text.format(own=own, other=other, all=tally.count)

    # -- helpers ---------------------------------------------------------------------

    def _ways(self) -> Sequence[WayFacts]:
        """Self-RAG's facts, then those of the other way."""
        ways = self._facts.ways
        return ways[self._self_rag], ways[1 - self._self_rag]

    def _ratio(self) -> float:
        own, other = self._ways()
        return own.seconds / other.seconds if other.seconds else 1.0
