"""The same questions answered in two ways: answers, verdicts, times.

Knows nothing about how the ways are made, how verdicts are shown, or how pages look.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from localrag.errors import UsageError
from localrag.evaluation.comparisons.modes_judge import PairJudge, Verdict
from localrag.evaluation.dataset import read_dataset
from localrag.rag.refusals import refuses
from localrag.text.language import Language, answer_language
from localrag.types import Answer

SELF_RAG = "self-rag"
JUDGE = "judge"

Outcome = Literal["from documents", "refused", "without documents"]
"""What an answer is: borne out by passages, a statement that the documents lack it, or neither."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question; `reference` "" where no right answer is known.

    `answerable` is whether the documents hold the answer, None where that is not known.
    """

    question: str
    reference: str = ""
    answerable: bool | None = None


@dataclass(frozen=True, slots=True)
class Compared:
    """A question with the answers of both ways, in the order of `ModeComparison.modes`."""

    asked: Asked
    language: Language
    answers: tuple[Answer, Answer]
    verdicts: tuple[Verdict, ...]
    judge_seconds: float

    def outcome(self, way: int) -> Outcome:
        """What the answer of that way is."""
        answer = self.answers[way]
        if refuses(answer.text):
            return "refused"
        return "from documents" if answer.grounded else "without documents"


@dataclass(frozen=True, slots=True)
class ModeComparison:
    """All questions that were done; `asked` counts those that were wanted."""

    modes: tuple[str, str]
    judge: str
    asked: int
    questions: tuple[Compared, ...]

    @property
    def language(self) -> Language:
        """The language of most questions."""
        chinese = sum(one.language == "zh" for one in self.questions)
        return "zh" if 2 * chinese > len(self.questions) else "en"


Write = Callable[[str, str], Answer]
"""Mode and question -> the answer."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What begins: the question with that number, from 1, in a mode, or `JUDGE`."""

    number: int
    name: str


Tell = Callable[[Stage], None]


def compare_modes(
    questions: Sequence[Asked], modes: tuple[str, str], write: Write, judge: PairJudge, tell: Tell
) -> Iterator[Compared]:
    """Answer and judge one question after the other; each is yielded as soon as it is done."""
    for number, asked in enumerate(questions, start=1):
        tell(Stage(number, modes[0]))
        first = write(modes[0], asked.question)
        tell(Stage(number, modes[1]))
        second = write(modes[1], asked.question)
        tell(Stage(number, JUDGE))
        started = time.perf_counter()
        language = answer_language(asked.question)
        verdicts = judge.verdicts(
            asked.question, asked.reference, asked.answerable, (first.text, second.text), language
        )
        seconds = time.perf_counter() - started
        yield Compared(asked, language, (first, second), verdicts, seconds)


def asked_with(question: str, reference: str, answerable: bool | None = None) -> Asked:
    """A question; where it is not said, the reference answer tells whether there is an answer."""
    if answerable is None and reference:
        answerable = not refuses(reference)
    return Asked(question.strip(), reference.strip(), answerable)


def read_questions(path: Path) -> list[Asked]:
    """The questions of a file: JSON, JSONL or CSV as `read_dataset` takes it, else one a line.

    An `answer` beside a question is its reference answer where there is no other. Raises
    `UsageError` where the file cannot be read or holds no question.
    """
    if path.suffix.lower() not in (".json", ".jsonl", ".csv"):
        return _lines(path)
    return [
        asked_with(sample.question, sample.reference or sample.answer or "", sample.answerable)
        for sample in read_dataset(path)
    ]


def _lines(path: Path) -> list[Asked]:
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            "{path} cannot be read: {reason}.",
            hint="Give a text file with one question a line, or JSON, JSONL or CSV.",
            path=path,
            reason=error.strerror if isinstance(error, OSError) else error,
        ) from error
    questions = [Asked(line.strip()) for line in lines if line.strip()]
    if not questions:
        raise UsageError(
            "There is no question in {path}.",
            hint="Give a text file with one question a line, or JSON, JSONL or CSV.",
            path=path,
        )
    return questions
