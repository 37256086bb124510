"""What is read before an answer is written: the best passage first, the next only if needed.

Reading is nearly all of an answer's time on a CPU, and the first or second passage of the search
holds the answer of most questions. A passage read alone is also graded best: among others that
are about the same subject, a small model takes what is said of another year or person for the
answer (`benchmarks/log/2026-11.md`, 2026-11-22, "one passage at a time").
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from localrag.languages import LANGUAGES, LanguageCode
from localrag.models.llms.probes import Pointer
from localrag.prompts import render
from localrag.prompts.own import Wording
from localrag.rag.base import Toolkit, timed
from localrag.rag.grading import Grade, Grader, Reading, as_read, log_odds, shifted
from localrag.rag.relevance import graded, is_tied
from localrag.rag.verdicts import asks_whether
from localrag.rag.versions import newer
from localrag.types import Message, ScoredChunk, Step

MOST_ALONE = 3
"""Passages that are read each by itself: the first two sections that a search brings hold the
answer of nearly all questions (`benchmarks/log/2026-11.md`, 2026-11-23)."""

MOST_NEWER = 2
"""Passages of newer documents that are read besides, where one was enough."""

PLACES = (0.07, -0.11, -0.21)
"""What a place in the search is worth beside a grade that is read from the model's state, in log
odds of the grade (3.4 times as much of probability: `PROBE_CURVE`): the first passage holds the
answer several times as often as the second and the third.

Chosen on 400 questions of made-up folders, each read along what the others gave: .76 are answered
from the right one of the first two passages and .07 from another. Of 82 spoken ones about two
folders that it was not chosen on 52 and 7: `benchmarks/log/2026-11.md`, 2026-11-28, "a middle
layer" and "rows of sheets".
"""

UNPROBED_PLACES = (0.0, -0.15, -0.3)
"""The same beside a model's own grade; two languages that say the same differ by less."""

ABOUT_AS_SURE = 0.15
"""How much less sure a passage of a newer document may be of holding the answer than the best."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """From where on grades decide; see `AnswerSettings` for what each means to a person."""

    enough: float
    min_answerable: float


@dataclass(frozen=True, slots=True)
class Evidence:
    """The passages that an answer is written from, by their numbers from 1, and the prompt."""

    numbers: tuple[int, ...]
    messages: list[Message]
    keep: int = 0
    """Messages whose state is kept for other questions."""
    draft: str = ""
    """What is written from them, where that had to be known before."""
    pointer: Pointer | None = None
    """Where the model looked in the one passage that answers by itself."""


class PassageReader:
    """Reads passages, best first, until they hold the answer to a question."""

    def __init__(self, tools: Toolkit, grader: Grader, bounds: Bounds) -> None:
        self._grader = grader
        self._wording = tools.wording
        self._asked = tools.asked
        self._card_of = tools.card_of
        self._bounds = bounds
        self.doubtful: dict[int, float] = {}
        """Grades of the passages of the last reading that speak of what is asked, by number."""
        self._pointers: dict[tuple[str, int], tuple[float, Pointer]] = {}
        """By question and id of the chunk, grade and where the model looked as it graded it."""
        self.seen: set[int] = set()
        """Ids of the chunks that the model was given to read."""

    def read(
        self,
        question: str,
        chunks: Sequence[ScoredChunk],
        language: LanguageCode,
    ) -> Generator[Step, None, Evidence | None]:
        """The passages that hold the answer, or None."""
        if not chunks:
            return None
        # To a server each question is a request of its own, with all of the passage.
        if not self._grader.reads_logits:
            return (yield from self._together(question, chunks, language))
        grades: dict[int, float] = {}
        self.doubtful = {}
        least = self._bounds.min_answerable
        for number in range(1, min(len(chunks), MOST_ALONE) + 1):
            grades[number] = yield from self.grade(question, chunks, language, number)
            has_answer = self.is_enough(grades[number]) and grades[number] >= self._least(number)
            if has_answer and not is_tied(chunks, number):
                break
        best, *others = sorted(grades, key=lambda n: -log_odds(grades[n]) - self._worth(n))
        if self._answers(grades, best):
            best = yield from self.in_force(question, best, grades, chunks, language)
            return self.alone(question, best, chunks, language)
        if asks_whether(question):
            number = yield from self._deciding(question, chunks[: len(grades)], language)
            if number:
                return self.alone(question, number, chunks, language)
        # Of 33 questions of others that the starter was left with here it answered five from two
        # passages, three of them wrongly; without that one is right and one wrong.
        if not others or self._grader.is_probed:
            yield Step("answerable", {"answer": False}, grades[best], 0.0)
            return None
        # What is asked of two documents, no passage holds by itself.
        numbers = tuple(sorted((best, others[0])))
        both = [chunks[number - 1] for number in numbers]
        grade, seconds = timed(partial(self._graded, question, both, language, least))
        has_answer = not grade.unread and grade.value >= least
        yield Step("answerable", {"answer": has_answer, **grade.told()}, grade.value, seconds)
        return self.several(question, numbers, chunks, language) if has_answer else None

    def _deciding(
        self, question: str, chunks: Sequence[ScoredChunk], language: LanguageCode
    ) -> Generator[Step, None, int]:
        """The first passage, from 1, that says yes or no to what is asked; 0 for none.

        A passage that denies what is asked is no answer to a model that grades it: "batteries may
        not be taken home" came to .05. So it is asked what the passage says. One of a newer
        document that says yes or no, too, goes before it.
        """

        def decides(number: int) -> Generator[Step, None, bool]:
            reading = Reading(language, (chunks[number - 1],))
            self.seen.add(chunks[number - 1].chunk.id)
            share, seconds = timed(partial(self._grader.decides, question, reading))
            is_decisive = share >= LANGUAGES[language].decides_from
            yield Step("decides", {"passage": number, "decides": is_decisive}, share, seconds)
            return is_decisive

        for number in range(1, len(chunks) + 1):
            if (yield from decides(number)):
                later = newer(chunks, number, self._asked(question), self._card_of)
                for other in later[:MOST_NEWER]:
                    if (yield from decides(other)):
                        return other
                return number
        return 0

    def in_force(
        self,
        question: str,
        best: int,
        grades: dict[int, float],
        chunks: Sequence[ScoredChunk],
        language: LanguageCode,
    ) -> Generator[Step, None, int]:
        """The passage of the newest document that holds the answer about as surely as the best."""
        later = newer(chunks, best, self._asked(question), self._card_of)[:MOST_NEWER]
        least = max(self._bounds.min_answerable, grades[best] - ABOUT_AS_SURE)
        for number in later:
            if number not in grades:
                grades[number] = yield from self.grade(question, chunks, language, number)
            if grades[number] >= least:
                return number
        return best

    def grade(
        self,
        question: str,
        chunks: Sequence[ScoredChunk],
        language: LanguageCode,
        number: int,
    ) -> Generator[Step, None, float]:
        """How far a passage, by its number from 1, alone holds the answer."""
        least = self._least(number)
        checked_from = min(least, self._bounds.min_answerable)
        ask = partial(self._graded, question, [chunks[number - 1]], language, checked_from)
        grade, seconds = timed(ask)
        if grade.pointer:
            seen = grade.value, grade.pointer
            self._pointers[question, chunks[number - 1].chunk.id] = seen
        is_relevant = grade.value >= least
        values = {"passage": number, "relevant": is_relevant, **grade.told()}
        yield Step("relevance", values, grade.value, seconds)
        if not grade.of_else:
            self.doubtful[number] = grade.value
        return grade.value

    def _graded(
        self,
        question: str,
        passages: Sequence[ScoredChunk],
        language: LanguageCode,
        least: float,
    ) -> Grade:
        self.seen.update(passage.chunk.id for passage in passages)
        asked = self._asked(question)
        # A question for a yes or no may ask all of them what they say.
        shallow = not asks_whether(question)
        return graded(self._grader, asked, language, passages, least, shallow=shallow)

    def likeliest(self, question: str, chunks: Sequence[ScoredChunk]) -> tuple[int, Pointer] | None:
        """The passage of the best grade, by its number from 1, and where the model looked in it."""
        seen = {
            number: self._pointers[question, chunk.chunk.id]
            for number, chunk in enumerate(chunks, 1)
            if (question, chunk.chunk.id) in self._pointers
        }
        if not seen:
            return None
        best = max(seen, key=lambda number: seen[number][0])
        return best, seen[best][1]

    def _worth(self, number: int) -> float:
        """What the place of a passage, by its number from 1, is worth, in log odds.

        Nothing behind those that are read alone: what is read there was found by something else.
        """
        places = PLACES if self._grader.is_probed else UNPROBED_PLACES
        return places[number - 1] if number <= len(places) else 0.0

    def _answers(self, grades: Mapping[int, float], best: int) -> bool:
        """Whether the best of the first passages is answered from."""
        if self._grader.is_probed:
            return grades[best] >= self._least(best)
        return max(grades.values()) >= self._bounds.min_answerable

    def _least(self, number: int) -> float:
        """The grade from which on a passage, by its number from 1, holds the answer."""
        least = self._bounds.min_answerable
        return shifted(least, -self._worth(number)) if self._grader.is_probed else least

    def holds(self, grade: float) -> bool:
        """Whether a passage of that grade holds the answer, wherever it was found."""
        return grade >= self._bounds.min_answerable

    def is_enough(self, grade: float) -> bool:
        """Whether no other passage needs to be read for a better one."""
        return grade > max(self._bounds.enough, self._bounds.min_answerable)

    def several(
        self,
        question: str,
        numbers: Sequence[int],
        chunks: Sequence[ScoredChunk],
        language: LanguageCode,
    ) -> Evidence:
        """What answers a question from several passages together, by their numbers from 1."""
        wording = self._wording
        if {("system", language), ("answer", language)} & wording.own.keys():
            task = self._task(language)
            messages = numbered_prompt(wording, question, chunks, language, task)
            self.seen.update(passage.chunk.id for passage in chunks)
            return Evidence(tuple(range(1, len(chunks) + 1)), messages)
        task = wording.render("write_from_passages", language, question=question.strip())
        reading = Reading(language, tuple(chunks[number - 1] for number in numbers))
        self.seen.update(passage.chunk.id for passage in reading.chunks)
        return Evidence(tuple(numbers), reading.messages(task), keep=1)

    def _task(self, language: LanguageCode) -> str:
        # A small model that is told how to refuse does so when it need not, and copies whatever
        # example of a marker it is shown; where the logits have decided, neither is asked of it.
        if self._grader.reads_logits:
            return self._wording.render("answer", language)
        refusal = render("refusal", language)
        return self._wording.render("answer_or_refuse", language, refusal=refusal)

    def alone(
        self,
        question: str,
        number: int,
        chunks: Sequence[ScoredChunk],
        language: LanguageCode,
    ) -> Evidence:
        """What answers a question from one passage, by its number from 1."""
        wording, reading = self._wording, Reading(language, (chunks[number - 1],))
        self.seen.add(chunks[number - 1].chunk.id)
        if {("system", language), ("answer", language)} & wording.own.keys():
            task = wording.render("answer", language)
            messages = numbered_prompt(
                wording, question, reading.chunks, language, task, first=number
            )
            return Evidence((number,), messages)
        task = wording.render("write_from_passages", language, question=question.strip())
        _, pointer = self._pointers.get((question, chunks[number - 1].chunk.id), (0.0, None))
        return Evidence((number,), reading.messages(task), keep=1, pointer=pointer)

    def _together(
        self, question: str, chunks: Sequence[ScoredChunk], language: LanguageCode
    ) -> Generator[Step, None, Evidence | None]:
        wording = self._wording
        self.seen.update(passage.chunk.id for passage in chunks)
        messages = gate_prompt(wording, question, chunks, language)
        grade, seconds = timed(partial(self._grader.answerable, messages, language))
        has_answer = grade.value >= self._bounds.min_answerable
        score = None if grade.unread else grade.value
        yield Step("answerable", {"answer": has_answer, **grade.told()}, score, seconds)
        if not has_answer:
            return None
        messages = numbered_prompt(wording, question, chunks, language, self._task(language))
        return Evidence(tuple(range(1, len(chunks) + 1)), messages)


def not_read(number: int) -> Step:
    """What is told of a passage that is passed over."""
    return Step("relevance", {"passage": number, "relevant": False, "fewer_words": True}, None, 0.0)


def gate_prompt(
    wording: Wording, question: str, chunks: Sequence[ScoredChunk], language: LanguageCode
) -> list[Message]:
    """The prompt that asks whether the passages hold the answer."""
    return numbered_prompt(wording, question, chunks, language, render("answerable", language))


def numbered_prompt(
    wording: Wording,
    question: str,
    chunks: Sequence[ScoredChunk],
    language: LanguageCode,
    task: str,
    *,
    first: int = 1,
) -> list[Message]:
    """All passages with their numbers, and a task behind them."""
    passages = "\n\n".join(
        f"[{number}] {as_read(hit, language)}" for number, hit in enumerate(chunks, first)
    )
    # Passages first and the task last: all tasks share what was read before them.
    body = render("passages", language, passages=passages, question=question.strip())
    system = wording.render("system", language)
    return [Message("system", system), Message("user", f"{body}\n\n{task}")]


def passage_of(number: int, found: ScoredChunk) -> str:
    """A passage as a prompt with several of them shows it."""
    return f"[{number}] {as_read(found)}"
