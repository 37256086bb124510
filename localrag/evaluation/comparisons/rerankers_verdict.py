"""What a reference answer says about several ways: graded by a language model, worded here.

A small model that is asked to write such a comparison mixes the ways up. It can say yes or no to
one passage or one answer at a time, and that is read from its probabilities where it has them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from localrag.errors import ContextOverflowError
from localrag.evaluation.answer_metrics import MARKER, f1
from localrag.messages import translate
from localrag.models.llms.base import LLM
from localrag.models.llms.choices import Chooser
from localrag.prompts import YES_NO, render
from localrag.rag.grading import Grader, Reading
from localrag.rag.refusals import refuses
from localrag.text.language import Language
from localrag.types import Message, ScoredChunk

REPLY_TOKENS = 24
CLEAR = 0.1
"""A smaller difference between two ways is no difference."""


@dataclass(frozen=True, slots=True)
class Graded:
    """One way. `rank` is that of its first passage that holds the answer, from 1, None without.

    `agrees` and `complete` are the probabilities that its answer agrees with the reference and
    has all of it, None where no reply could be read; `overlap` is their F1.
    """

    name: str
    rank: int | None
    agrees: float | None
    complete: float | None
    overlap: float

    @property
    def worth(self) -> float:
        """What ways are ranked by."""
        known = [share for share in (self.agrees, self.complete) if share is not None]
        return sum((*known, self.overlap)) / (len(known) + 1)


class ReferenceJudge:
    """Grades passages and answers."""

    def __init__(self, llm: LLM, chooser: Chooser) -> None:
        self._llm = llm
        self._chooser = chooser
        self._grader = Grader(chooser)

    def holds(self, question: str, passage: ScoredChunk, language: Language) -> bool:
        """Whether the answer can be had from that passage alone."""
        grade = self._grader.relevance(question, Reading(language, (passage,)))
        return not grade.unread and grade.value >= 0.5

    def agreement(
        self, question: str, reference: str, answer: str, language: Language
    ) -> tuple[float | None, float | None]:
        """Probabilities that an answer agrees with the reference, and that it has all of it.

        Raises `ContextOverflowError`.
        """
        refused = refuses(answer), refuses(reference)
        if any(refused):
            return (1.0, 1.0) if all(refused) else (0.0, 0.0)
        system = render(
            "compare_answer", language, question=question, reference=reference, answer=answer
        )
        agrees, complete = (
            self._yes(
                [Message("system", system), Message("user", render(task, language))], language
            )
            for task in ("compare_agrees", "compare_complete")
        )
        return agrees, complete

    def _yes(self, messages: Sequence[Message], language: Language) -> float | None:
        needed = self._llm.count_prompt_tokens(messages) + REPLY_TOKENS
        if needed > self._llm.context_window:
            raise ContextOverflowError(
                "The comparison does not fit into the context window of {model}, which holds "
                "{window} tokens.",
                hint="Use a shorter reference answer, or a larger context window.",
                model=self._llm.name,
                window=self._llm.context_window,
            )
        choice = self._chooser.choose(messages, YES_NO[language])
        return choice[0] if choice.read else None


def grade(
    question: str,
    language: Language,
    reference: str,
    ways: Sequence[tuple[str, Sequence[ScoredChunk], str]],
    judge: ReferenceJudge,
) -> list[Graded]:
    """Grade each way, given as name, passages and answer; nothing is graded twice."""
    held: dict[int, bool] = {}
    agreed: dict[str, tuple[float | None, float | None]] = {}
    grades: list[Graded] = []
    for name, passages, text in ways:
        # Each way's markers count its own passages.
        answer = MARKER.sub("", text).strip()
        rank = None
        for number, passage in enumerate(passages, start=1):
            if passage.chunk.id not in held:
                held[passage.chunk.id] = judge.holds(question, passage, language)
            if held[passage.chunk.id]:
                rank = number
                break
        if answer not in agreed:
            agreed[answer] = judge.agreement(question, reference, answer, language)
        grades.append(Graded(name, rank, *agreed[answer], f1(answer, reference)))
    return grades


def worded(grades: Sequence[Graded], language: Language) -> str:
    """The grades in words, a line for each point."""

    def each(value: Callable[[Graded], str]) -> str:
        return translate(", ", language).join(f"{one.name} {value(one)}" for one in grades)

    nowhere = translate("in no passage", language)
    best = max(one.worth for one in grades)
    leading = [one.name for one in grades if best - one.worth < CLEAR]
    overall = translate("no clear difference", language)
    if len(leading) < len(grades):
        overall = translate("best: {names}", language).format(
            names=translate(", ", language).join(leading)
        )
    return "\n".join(
        translate("{name}: {text}", language).format(name=name, text=text)
        for name, text in (
            (
                translate(
                    "Relevance of context, rank of the first passage with the answer", language
                ),
                each(lambda one: nowhere if one.rank is None else f"{one.rank}"),
            ),
            (
                translate("Accuracy, agreement with the reference answer", language),
                each(lambda one: _share(one.agrees)),
            ),
            (
                translate("Completeness, all of the reference answer", language),
                each(lambda one: _share(one.complete)),
            ),
            (
                translate("Overlap with the reference answer (F1)", language),
                each(lambda one: f"{one.overlap:.2f}"),
            ),
            (translate("Overall", language), overall),
        )
    )


def _share(value: float | None) -> str:
    return "?" if value is None else f"{value:.0%}"
