"""A second look where no passage surely holds the answer: other words, then a draft to check.

People ask in words that the document does not have, and the grade of the right passage is below
what a first look asks then: .45 to .65 in spoken Chinese, where .68 is asked. So the search is
tried once more in the model's words, and from the likeliest passage an answer is drafted. Whether
the passage says that, or nothing of what is asked, parts right passages from wrong ones better than
whether it holds "the exact answer". In English it does not, so there is no draft there, and other
words are tried only where the model's state tells what a passage is worth: of six made-up questions
whose section the search had missed it comes up for four, over the bound for three, and of nine
without an answer nothing does
(`benchmarks/log/2026-11.md`, 2026-11-26, "a second look", and 2026-11-28, "other words").
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from localrag.languages import LANGUAGES
from localrag.rag.base import Toolkit, timed
from localrag.rag.grading import Grader, Reading, as_known
from localrag.rag.reading import MOST_ALONE, Evidence, PassageReader, passage_of
from localrag.rag.refusals import refuses
from localrag.rag.relevance import MENTIONED, mentioned
from localrag.text.language import answer_language
from localrag.types import ScoredChunk, Step

DOUBTFUL = 0.45
"""Grade from which on a draft is worth its seconds."""
MOST_NEW = 3
"""Passages that are read of those that a first look did not."""
_DEEP = 60
"""How little a first rank counts before a second one, as in the fusion of searches."""


def look_again(
    question: str,
    doubtful: Mapping[int, float],
    chunks: Sequence[ScoredChunk],
    tools: Toolkit,
    grader: Grader,
    reader: PassageReader,
) -> Generator[Step, None, tuple[Evidence | None, Sequence[ScoredChunk]]]:
    """What answers a question all the same, or None; and the passages, new ones at the end.

    `doubtful` are the grades of passages that a first look left open, by their numbers from 1.
    Raises `GenerationError` from the model.
    """
    language = answer_language(question)
    drafts = LANGUAGES[language].said_from < 1
    if not (drafts or grader.is_probed):
        return None, chunks
    likely = yield from _unread(question, chunks, tools)
    room = tools.room(question)
    likely = [passage for passage in likely if tools.fitting([passage], room, passage_of)]
    places = list(map(_place, chunks))
    passages = [*chunks, *(passage for passage in likely if _place(passage) not in places)]
    places, reader.doubtful = list(map(_place, passages)), dict(doubtful)
    numbers = [places.index(_place(passage)) + 1 for passage in likely]
    for number in numbers:
        yield from reader.grade(question, passages, language, number)
    grades = reader.doubtful
    # Of the others a first look has decided.
    later = (number for number in grades if number in numbers)
    best = max(later, key=grades.__getitem__, default=0)
    if best and reader.holds(grades[best]):
        best = yield from reader.in_force(question, best, dict(grades), passages, language)
        return reader.alone(question, best, passages, language), passages
    best = max(grades, key=grades.__getitem__, default=0)
    if not drafts or grades.get(best, 0.0) < DOUBTFUL:
        return None, passages
    evidence = reader.alone(question, best, passages, language)
    draft = yield from _draft(question, best, evidence, passages, tools, grader)
    return (replace(evidence, draft=draft) if draft else None), passages


def _unread(
    question: str, chunks: Sequence[ScoredChunk], tools: Toolkit
) -> Generator[Step, None, list[ScoredChunk]]:
    """The likeliest passages that a first look did not read, by the question and its wordings.

    None where there are no wordings: there is no time for a second look then.
    """
    scores: dict[tuple[str, int], float] = {}
    passages: dict[tuple[str, int], ScoredChunk] = {}
    wordings = yield from tools.reworded(question)
    if not wordings:
        return []
    for ranked in (chunks, *(tools.retrieve(wording, tools.k) for wording in wordings)):
        for rank, passage in enumerate(ranked, start=1):
            place = _place(passage)
            passages.setdefault(place, passage)
            scores[place] = scores.get(place, 0.0) + 1 / (_DEEP + rank)
    unread = scores.keys() - set(map(_place, chunks[:MOST_ALONE]))
    likeliest = sorted(unread, key=lambda place: (-scores[place], place))[:MOST_NEW]
    return [passages[place] for place in likeliest]


def _place(passage: ScoredChunk) -> tuple[str, int]:
    return passage.chunk.document_id, passage.chunk.start


def _draft(
    question: str,
    number: int,
    evidence: Evidence,
    chunks: Sequence[ScoredChunk],
    tools: Toolkit,
    grader: Grader,
) -> Generator[Step, None, str]:
    """What the model answers from a passage, "" where the passage does not say that."""
    passage, options = chunks[number - 1], replace(tools.generation, keep=evidence.keep)
    write = partial(tools.llm.complete, evidence.messages, options)
    written, seconds = timed(write)
    yield Step("draft", {"passage": number}, None, seconds)
    text = " ".join(written.text.split())
    if not text or refuses(text):
        return ""
    reading = Reading(answer_language(question), (passage,))
    share, seconds = timed(partial(grader.says, question, text, reading))
    says = share >= LANGUAGES[reading.language].said_from
    if says:
        lacks, _ = tools.asked(question).missing(as_known(passage))
        says = mentioned(grader, lacks, reading) >= MENTIONED
    yield Step("says", {"passage": number, "says": says}, share, seconds)
    return written.text if says else ""
