"""Read passages until they hold the answer, or the parts of it that there are."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile

from localrag.rag import parts
from localrag.rag.pipeline import AnswerRun, Pieces
from localrag.rag.reading import Bounds, PassageReader, passage_of
from localrag.rag.second_look import look_again
from localrag.text.sentences import split_sentences


def without_story(question: str) -> str:
    """The sentences that ask at the end of a question that tells something before; "" for another.

    "The head teacher has rung. What does a school pay?" The passages are those of the whole, for
    it names what is meant.
    """
    text = " ".join(question.split())
    sentences = [text[span.start : span.end].strip() for span in split_sentences(text)]
    asking = list(takewhile(_asks, reversed(sentences)))[::-1]
    told = sentences[: len(sentences) - len(asking)]
    return " ".join(asking) if told and not any(map(_asks, told)) else ""


def _asks(sentence: str) -> bool:
    return sentence.rstrip("!！\"”’'」』").endswith(("?", "？"))


@dataclass(frozen=True, slots=True)
class EvidenceReader:
    """Finds the evidence that an answer is written from, and what is missing of it."""

    bounds: Bounds

    def __call__(self, run: AnswerRun) -> Pieces:
        """Raises `GenerationError` from the model."""
        question, language, tools = run.question, run.language, run.tools
        run.reader = reader = PassageReader(tools, run.grader, self.bounds)
        chunks = tools.fitting(run.passages, tools.room(question), passage_of)
        run.passages = chunks
        run.evidence = yield from reader.read(question, chunks, language)
        if run.evidence is not None or not chunks or not run.grader.reads_logits:
            return
        doubtful = reader.doubtful
        reading = parts.read(question, chunks, language, tools, reader)
        run.evidence, run.passages, run.missing = yield from reading
        if run.evidence is None and not tools.parts.get(question):
            bare = without_story(question)
            if len(set(tools.tokenize(bare))) >= parts.FEWEST:
                run.evidence = yield from reader.read(bare, chunks, language)
        if run.evidence is None and run.unsupported != "remove unchecked":  # strictly: no draft
            looking = look_again(question, doubtful, chunks, tools, run.grader, reader)
            run.evidence, run.passages = yield from looking
