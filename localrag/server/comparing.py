"""One question in several ways, side by side, for the page: `localrag compare` as events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from localrag.api import LocalRAG
from localrag.errors import UsageError
from localrag.evaluation.comparisons.base import Compared, Output, Stage, asked_with
from localrag.messages import InterfaceLanguage, spoken_to
from localrag.presentation import comparisons as words
from localrag.server.answers import passages, told
from localrag.server.asker import preferred, recorded
from localrag.server.bounds import Question
from localrag.server.jobs import BackgroundJob, worked
from localrag.server.libraries import Libraries
from localrag.server.queue import ModelQueue
from localrag.server.replies import EventStream, decoded

MODES = ("standard", "self-rag")


class ToCompare(msgspec.Struct, forbid_unknown_fields=True):
    """A question and what to vary; `reference` is the right answer, where it is known."""

    question: Question
    vary: Literal["rerankers", "modes"]
    library: str = ""
    reference: Question = ""
    k: Annotated[int, msgspec.Meta(ge=1, le=50)] | None = None


@dataclass(frozen=True, slots=True)
class Comparing:
    """The route that compares. Events: waiting, progress, compared, error."""

    libraries: Libraries
    queue: ModelQueue

    def routes(self) -> list[Route]:
        """All of them."""
        return [Route("/api/compare", self.compare, methods=["POST"])]

    async def compare(self, request: Request) -> Response:
        """Ask in each way, and tell which one is under way."""
        asked, language = await decoded(request, ToCompare), preferred(request)
        if not asked.question.strip():
            raise UsageError("The question is empty.", hint="Ask something, in quotes.")
        library = self.libraries.named(asked.library)
        engine = self.libraries.engine(library)
        self.queue.expect_room()
        await recorded(library, "ask", asked.question)

        def work(job: BackgroundJob) -> None:
            notes: list[str] = []
            with spoken_to(language):
                question = _compared(LocalRAG(engine, notes.append), asked, job)
                count = engine.model.llm.count_tokens
                job.say(
                    "compared",
                    question=question.asked.question,
                    reference=question.asked.reference,
                    notes=notes,
                    ways=[_way(library, way, count, language) for way in question.ways],
                    ranks=_ranks(question, language),
                    **_found(question, asked.vary, language),
                )

        return EventStream(worked(self.queue, work, language))


def _compared(rag: LocalRAG, asked: ToCompare, job: BackgroundJob) -> Compared[Any]:
    def begin(name: str) -> None:
        job.give_way()
        job.say("progress", name=name)

    def stage(begun: Stage) -> None:
        begin(begun.name)

    common: dict[str, Any] = {"k": asked.k, "stopped": job.stopped}
    reference = asked.reference.strip()
    if asked.vary == "rerankers":
        comparison = rag.compare(asked.question, reference=reference, progress=begin, **common)
        return comparison.questions[0]
    (question,) = rag.compare_modes([asked_with(asked.question, reference)], MODES, stage, **common)
    return question


def _way(
    library: str, way: Output, count: Callable[[str], int], language: InterfaceLanguage
) -> dict[str, Any]:
    """One way: its answer as the page draws answers, and what it took."""
    return {
        "name": way.name,
        "times": words.times(way) if way.passages else "",
        "outcome": words.outcome(way.outcome),
        "remark": words.remark(way),
        "seconds": round(way.seconds + (way.rerank.seconds if way.rerank else 0.0), 3),
        "tokens": count(way.answer.text),
        "steps": len(way.answer.trace),
        "answer": told(library, way.answer, language),
        "before": [placed.before for placed in way.passages],
    }


def _ranks(question: Compared[Any], language: InterfaceLanguage) -> list[dict[str, Any]]:
    """Each passage that any reranker chose: its rank before, and its rank with each of them."""
    rows = list(words.ranks(question))
    shown = passages([row["context"] for row in rows], language)
    return [
        {"before": row["before"], "ranks": row["ranks"], "passage": passage}
        for row, passage in zip(rows, shown, strict=True)
    ]


def _found(question: Compared[Any], vary: str, language: InterfaceLanguage) -> dict[str, Any]:
    """What the judge found: lines on rerankers, a table on modes."""
    if vary == "rerankers":
        return {"lines": words.graded(question.found, language) if question.found else ()}
    return {"verdicts": list(words.verdicts(question))}
