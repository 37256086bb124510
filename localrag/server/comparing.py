"""One question in several ways, side by side, for the page: `localrag compare` as events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from localrag.api import LocalRAG
from localrag.errors import UsageError
from localrag.evaluation.comparisons.base import Compared, Output, asked_with
from localrag.messages import InterfaceLanguage
from localrag.presentation import comparisons as words
from localrag.server.answers import passages, told
from localrag.server.bounds import Question
from localrag.server.jobs import BackgroundJob, WorkRoutes
from localrag.server.replies import decoded
from localrag.server.routing import route

MODES = ("standard", "self-rag")


class ToCompare(msgspec.Struct, forbid_unknown_fields=True):
    """A question and what to vary; `reference` is the right answer, where it is known."""

    question: Question
    vary: Literal["rerankers", "modes"]
    library: str = ""
    reference: Question = ""
    k: Annotated[int, msgspec.Meta(ge=1, le=50)] | None = None


@dataclass(frozen=True, slots=True)
class Comparing(WorkRoutes):
    """The route that compares. Events: waiting, progress, compared, error."""

    @route("/api/compare", "POST")
    async def compare(self, request: Request) -> Response:
        """Ask in each way, and tell which one is under way."""
        body = await decoded(request, ToCompare)
        if not body.question.strip():
            raise UsageError("The question is empty.", hint="Ask something, in quotes.")

        def work(job: BackgroundJob) -> None:
            notes: list[str] = []
            question = _compare(LocalRAG(job.engine, notes.append), body, job)
            job.say(
                "compared",
                question=question.asked.question,
                reference=question.asked.reference,
                notes=notes,
                ways=[_way(way, job) for way in question.ways],
                ranks=_ranks(question, job.language),
                **_judgement(question, body.vary, job.language),
            )

        return await self.stream(request, body.library, "ask", body.question, work)


def _compare(rag: LocalRAG, body: ToCompare, job: BackgroundJob) -> Compared[Any]:
    def begin(name: str) -> None:
        job.give_way()
        job.say("progress", name=name)

    common: dict[str, Any] = {"k": body.k, "stopped": job.stopped}
    reference = body.reference.strip()
    if body.vary == "rerankers":
        comparison = rag.compare(body.question, reference=reference, progress=begin, **common)
        return comparison.questions[0]
    questions = [asked_with(body.question, reference)]
    (question,) = rag.compare_modes(questions, MODES, lambda stage: begin(stage.name), **common)
    return question


def _way(way: Output, job: BackgroundJob) -> dict[str, Any]:
    """One way: its answer as the page draws answers, and what it took."""
    return {
        "name": way.name,
        "times": words.times(way) if way.passages else "",
        "outcome": words.outcome(way.outcome),
        "remark": words.remark(way),
        "seconds": round(way.seconds + (way.rerank.seconds if way.rerank else 0.0), 3),
        "tokens": job.engine.model.llm.count_tokens(way.answer.text),
        "steps": len(way.answer.trace),
        "answer": told(job.library, way.answer, job.language),
        "before": [placed.before for placed in way.passages],
    }


def _ranks(question: Compared[Any], language: InterfaceLanguage) -> list[dict[str, Any]]:
    """Each passage that any reranker chose: its rank before, and its rank with each of them."""
    rows = list(words.ranks(question))
    records = passages([row["context"] for row in rows], language)
    return [
        {"before": row["before"], "ranks": row["ranks"], "passage": passage}
        for row, passage in zip(rows, records, strict=True)
    ]


def _judgement(question: Compared[Any], vary: str, language: InterfaceLanguage) -> dict[str, Any]:
    """What the judge found: lines on rerankers, a table on modes."""
    if vary == "rerankers":
        return {"lines": words.graded(question.found, language) if question.found else ()}
    return {"verdicts": list(words.verdicts(question))}
