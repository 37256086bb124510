"""The same questions put to several variants, side by side: answers, findings, times.

Knows nothing about how variants are made, what a judge looks at, or how any of it is shown.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Literal, TypeVar

from localrag.errors import UsageError
from localrag.evaluation.dataset import read_dataset, read_text
from localrag.languages import CODES, LanguageCode
from localrag.rag.refusals import refuses
from localrag.text.language import answer_language
from localrag.types import Answer, ScoredChunk, Step

JUDGE = "judge"
_HINT = "Give a text file with one question per line, or JSON, JSONL or CSV."
Found = TypeVar("Found")
"""What a judge finds: a grade of one variant, or a verdict on two."""

Outcome = Literal["from documents", "refused", "without documents"]
"""What an answer is: borne out by passages, a statement that the documents lack it, or neither."""


@dataclass(frozen=True, slots=True)
class ComparedQuestion:
    """A question; `reference` "" where no right answer is known.

    `answerable` is whether the documents hold the answer, None where that is not known.
    """

    question: str
    reference: str = ""
    answerable: bool | None = None


@dataclass(frozen=True, slots=True)
class Ranked:
    """A passage as a variant ranked it: `before` is its rank in the search, from 1."""

    context: ScoredChunk
    before: int


@dataclass(frozen=True, slots=True)
class Output:
    """What one variant made of a question; `seconds` is what writing the answer took.

    `passages` and `rerank` are there where the variants reorder what one search found.
    `same_answer_as` names an earlier variant with the same passages in the same order: its
    answer is this one's, and no time was spent on it again.
    """

    name: str
    answer: Answer
    seconds: float
    passages: tuple[Ranked, ...] = ()
    rerank: Step | None = None
    same_answer_as: str | None = None

    @property
    def outcome(self) -> Outcome:
        """What the answer is."""
        if self.answer.refuses:
            return "refused"
        return "from documents" if self.answer.grounded else "without documents"


@dataclass(frozen=True, slots=True)
class Variant:
    """A way to answer, by name.

    `answer` gets the question, what the search found for all variants, and what the variants
    before it made of the question.
    """

    name: str
    answer: Callable[[str, Sequence[ScoredChunk], Sequence[Output]], Output]


@dataclass(frozen=True, slots=True)
class Compared(Generic[Found]):
    """A question with what each variant made of it and what the judge found."""

    asked: ComparedQuestion
    language: LanguageCode
    ways: tuple[Output, ...]
    found: tuple[Found, ...]
    judge_seconds: float
    candidates: tuple[ScoredChunk, ...] = ()
    search_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Comparison(Generic[Found]):
    """All questions that were done, at least one; `asked` counts those that were wanted."""

    variants: tuple[str, ...]
    judge: str
    asked: int
    questions: tuple[Compared[Found], ...]

    @property
    def language(self) -> LanguageCode:
        """The language of most questions."""
        counts = Counter(question.language for question in self.questions)
        return max(CODES, key=counts.__getitem__)


@dataclass(frozen=True, slots=True)
class Stage:
    """What begins: the question with that number, from 1, with a variant, or `JUDGE`."""

    number: int
    name: str


OnStage = Callable[[Stage], None]


def compare(
    questions: Sequence[ComparedQuestion],
    variants: Sequence[Variant],
    judge: Callable[[ComparedQuestion, LanguageCode, Sequence[Output]], tuple[Found, ...]],
    *,
    search: Callable[[str], Sequence[ScoredChunk]] = lambda _: (),
    on_stage: OnStage = lambda _: None,
) -> Generator[Compared[Found], None, None]:
    """Answer and judge one question after the other; each is yielded as soon as it is done.

    `search` runs once a question, so that all differences are the variants'.
    """
    for number, question in enumerate(questions, start=1):
        started = time.perf_counter()
        candidates = tuple(search(question.question))
        search_seconds = time.perf_counter() - started
        ways: list[Output] = []
        for variant in variants:
            on_stage(Stage(number, variant.name))
            ways.append(variant.answer(question.question, candidates, ways))
        on_stage(Stage(number, JUDGE))
        started = time.perf_counter()
        language = answer_language(question.question)
        findings = judge(question, language, ways)
        seconds = time.perf_counter() - started
        yield Compared(
            question, language, tuple(ways), findings, seconds, candidates, search_seconds
        )


def asked_with(question: str, reference: str, answerable: bool | None = None) -> ComparedQuestion:
    """A question; where it is not said, the reference answer tells whether there is an answer."""
    if answerable is None and reference:
        answerable = not refuses(reference)
    return ComparedQuestion(question.strip(), reference.strip(), answerable)


def read_questions(path: Path) -> list[ComparedQuestion]:
    """The questions of a file: JSON, JSONL or CSV as `read_dataset` takes it, else one a line.

    An `answer` beside a question is its reference answer where there is no other. Raises
    `UsageError` where the file cannot be read or holds no question.
    """
    if path.suffix.lower() in (".json", ".jsonl", ".csv"):
        return [
            asked_with(sample.question, sample.reference or sample.answer or "", sample.answerable)
            for sample in read_dataset(path)
        ]
    lines = read_text(path).split("\n")
    questions = [ComparedQuestion(line.strip()) for line in lines if line.strip()]
    if not questions:
        raise UsageError("There are no questions in {path}.", hint=_HINT, path=path)
    return questions
