"""The sentence of a passage that answers a question, by where the model looks as it reads it.

Some attention heads of a model pay to what it will copy (retrieval heads: Wu et al. 2024, arXiv
2404.15574), and those of a small model know it better than what it writes. Of 133 questions of
others about a section that answers, the sentence that is paid most says the answer for .88, that
which is closest by words and embedding for .64. Where it has .8 of the probability, as for .75 of
them, it does for .97; of the others for .61, the closest for .39
(`benchmarks/log/2026-11.md`, 2026-11-29, "where the model looks").
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from localrag.languages import LanguageCode
from localrag.models.llms.probes import Pointer
from localrag.rag.citations import (
    LIST_MARK,
    Attributor,
    PassageSentence,
    may_be_told,
    without_markers,
)
from localrag.rag.disagreement import DENIAL
from localrag.rag.grading import likelihoods
from localrag.rag.months import is_of_another, of_file
from localrag.rag.refusals import refuses
from localrag.rag.verdicts import LONGEST, SENTENCES, Echo, without_guess
from localrag.text.figures import month_asked
from localrag.text.instructions import may_steer
from localrag.text.sentences import split_sentences
from localrag.types import Citation, ScoredChunk, Step

SURE, SURE_ROW = 0.9, 0.8
"""The probability from which on a sentence, or a row, says the answer, whatever the model writes:
what rests on two sentences is looked for in both."""
LEAST_LEFT = 0.5
"""What is paid to rows of the month that is asked for from which on nothing else counts."""
FEWEST, FEWEST_ROWS = 3, 2
"""Sentences of a passage of which one is pointed to, as of those that it was fitted on; two rows
may fill a passage. Of 76 pairs of rows of others the one that answers is paid more in 72, and in
all 66 that are sure (`benchmarks/log/2026-11.md`, 2026-11-30)."""

States = Callable[[str, str], bool]
"""Whether a text says what a statement does."""


@dataclass(frozen=True, slots=True)
class PointedSentence:
    """The sentence of a passage that answers, as it is told."""

    text: str
    citation: Citation
    probability: float
    is_row: bool = False

    @property
    def is_sure(self) -> bool:
        """Whether it says the answer; else it is likelier than any other."""
        return self.probability >= (SURE_ROW if self.is_row else SURE)

    @property
    def answer(self) -> str:
        """With its marker."""
        return f"{self.text} [{self.citation.marker}]"


def pointed(
    question: str,
    number: int,
    passage: ScoredChunk,
    attributor: Attributor,
    pointer: Pointer,
    language: LanguageCode,
) -> tuple[PointedSentence, ...]:
    """The likeliest sentence of a passage, by its number from 1 for the attributor, and the next.

    Nothing where nobody knows, or where the first cannot be told, and no row of another month than
    the one that is asked for.
    """
    sentences, month = attributor.sentences(number), month_asked(question)
    if month and any(map(month.may_be, of_file(passage.chunk.title, passage.source))):
        month = None  # of all the rows of May's minutes
    others = [row.is_row and is_of_another(month, row.told) for row in sentences]
    can_be_told = [
        _can_be_told(sentence, question) and not other
        for sentence, other in zip(sentences, others, strict=True)
    ]
    # What steers a model may steer where it looks.
    fewest = FEWEST_ROWS if all(sentence.is_row for sentence in sentences) else FEWEST
    if len(sentences) < fewest or not any(can_be_told) or may_steer(passage.chunk.text):
        return ()
    texts = [sentence.standing for sentence in sentences]
    shares = likelihoods(pointer, passage, language, texts)
    if not shares:
        return ()
    if any(others):
        left = [share for share, other in zip(shares, others, strict=True) if not other]
        # A single one that is left would be sure of itself.
        whole = sum(left) if len(left) > 1 and sum(left) >= LEAST_LEFT else 1.0
        shares = [
            0.0 if other else share / whole for share, other in zip(shares, others, strict=True)
        ]
    likeliest = sorted(range(len(shares)), key=lambda place: -shares[place])[:SENTENCES]
    if not can_be_told[likeliest[0]]:
        return ()
    return tuple(
        PointedSentence(
            sentences[place].told, sentences[place].citation, shares[place], sentences[place].is_row
        )
        for place in likeliest
        if can_be_told[place]
    )


def step_of(number: int, pointed: Sequence[PointedSentence], seconds: float) -> Step:
    """What is told of it, by the number of its passage: nothing is read for it."""
    first = pointed[0]
    return Step("point", {"passage": number, "sure": first.is_sure}, first.probability, seconds)


def _can_be_told(sentence: PassageSentence, question: str) -> bool:
    """Whether it is a sentence that may stand for an answer, and not what leads to a list."""
    told = sentence.told
    is_whole = sentence.is_whole and not told.endswith((":", "："))
    return (
        is_whole
        and len(told) <= LONGEST
        and may_be_told(told, question)
        and not refuses(told)  # it would be taken for a refusal
    )


def in_place_of_verdict(pointed: Sequence[PointedSentence]) -> str:
    """What is told for a yes or no: the first sentence, and the next if that is not likely enough.

    Of 120 questions of others it settles 112, where the two closest sentences settle 107
    (`benchmarks/pointing.py whether`).
    """
    told = pointed[:1] if pointed[0].probability >= SURE else pointed
    return "\n".join(sentence.answer for sentence in told)


def told_at_once(pointed: Sequence[PointedSentence]) -> str:
    """The sentence that is surely looked at, which answers before anything is written; else "".

    A row of a sheet says more than is asked.
    """
    is_told = pointed and pointed[0].is_sure and not pointed[0].is_row
    return pointed[0].answer if is_told else ""


def corrected(
    written: Iterator[str],
    pointed: Sequence[PointedSentence],
    closest: Callable[[], str],
    question: str,
    echo: Echo | None,
    states: States,
    *,
    at_once: bool = False,
) -> Iterator[str]:
    """What is written, as it comes, but the document's sentences for a guess of the model.

    Those that it looked at, else the `closest`, for a bare yes or no; the one that it surely looked
    at for another that this does not state. Where that was told `at_once`, what stands behind it.
    `echo` is as `without_guess` has it.
    """
    sentences = partial(in_place_of_verdict, pointed) if pointed else closest
    pieces = without_guess(written, sentences, echo)
    if not pointed or not pointed[0].is_sure:
        return pieces
    if at_once:
        return behind_pointed(pieces, pointed[0], question, states)
    return as_pointed(pieces, pointed[0], question, states)


def as_pointed(
    pieces: Iterator[str], pointed: PointedSentence, question: str, states: States
) -> Iterator[str]:
    """What is written, as it comes; the sentence for another that it does not state.

    What the question says, an answer may repeat. One of several sentences stays, and so does one
    that denies what the question does not, as refusals do. Of 59 answers to questions of others
    about a section that answers three wrong ones become right so, and no right one wrong; end to
    end on two folders that nobody had looked at, one and one.
    """
    written = ""
    for piece in pieces:
        written += piece
        # A marker behind the stop is no sentence, nor is what may become one.
        if len(split_sentences(without_markers(written).partition("[")[0])) > 1:
            break
    else:
        statement = without_markers(written).strip()
        known, is_one = f"{pointed.text}\n{question}", len(split_sentences(statement)) == 1
        # "It is not stated": that it is not, no sentence can state.
        denies = DENIAL.search(statement) and not DENIAL.search(question)
        if is_one and not denies and not states(known, statement):
            written = pointed.answer
    if written:
        yield written
    yield from pieces


def behind_pointed(
    pieces: Iterator[str], pointed: PointedSentence, question: str, states: States
) -> Iterator[str]:
    """What is written behind the sentence: nothing but where it is several sentences.

    The first of these are left out as far as the sentence states them. Of 30 answers to questions
    about two folders of others where the model was sure all were one sentence, and one was right
    where what it was sure of, a row, was wrong (`benchmarks/log/2026-11.md`, 2026-11-30).
    """
    is_stated = partial(states, f"{pointed.text}\n{question}")
    written, is_several = "", False
    for piece in pieces:
        written += piece
        text, bracket, rest = without_markers(written).partition("[")
        while len(spans := split_sentences(text)) > 1:
            first, is_several = text[: spans[1].start], True
            if LIST_MARK.match(first) or not is_stated(first.strip()):
                yield f"\n\n{written.lstrip()}"
                yield from pieces
                return
            text = text[spans[1].start :]
            written = f"{text}{bracket}{rest}"
    last = without_markers(written).strip()
    if is_several and last and not is_stated(last):
        yield f"\n\n{last}"
