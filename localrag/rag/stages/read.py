"""Read passages until they hold the answer, or the parts of it that there are."""

from __future__ import annotations

from dataclasses import dataclass

from localrag.rag import parts
from localrag.rag.pipeline import AnswerRun, Pieces
from localrag.rag.reading import Bounds, PassageReader, passage_of
from localrag.rag.second_look import look_again


@dataclass(frozen=True, slots=True)
class EvidenceReader:
    """Finds the evidence that an answer is written from, and what is missing of it."""

    bounds: Bounds

    def __call__(self, run: AnswerRun) -> Pieces:
        """Raises `GenerationError` from the model."""
        question, language, tools = run.question, run.language, run.tools
        run.reader = reader = PassageReader(tools, run.grader, self.bounds)
        room = tools.room(question)
        chunks = tools.fitting(run.passages, room, passage_of)
        others = (passage for passage in run.passages if passage not in chunks)
        if too_long := sum(not tools.fitting([other], room, passage_of) for other in others):
            yield run.step("retrieve", too_long=too_long)
        run.passages = chunks
        run.evidence = yield from reader.read(question, chunks, language)
        if run.evidence is not None or not chunks or not run.grader.reads_logits:
            return
        doubtful = reader.doubtful
        reading = parts.read(question, chunks, language, tools, reader)
        run.evidence, run.passages, run.missing = yield from reading
        if run.evidence is not None or run.unsupported == "remove unchecked":  # strictly: no guess
            return
        run.evidence = yield from parts.read_without_story(
            question, chunks, language, tools, reader
        )
        if run.evidence is None:
            looking = look_again(question, doubtful, chunks, tools, run.grader, reader)
            run.evidence, run.passages = yield from looking
