"""Evaluations for the page: `localrag eval run` as events, and its reports while they are here."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Final

import anyio
import msgspec
from starlette.requests import Request
from starlette.responses import Response as Reply

from localrag import factory
from localrag.engine import Engine
from localrag.errors import LibraryNotFoundError, UsageError
from localrag.evaluation import events
from localrag.evaluation.dataset import Sample, evenly, read_dataset
from localrag.evaluation.metric import Response
from localrag.evaluation.results import Report
from localrag.evaluator.evaluator import Evaluator, open_cache
from localrag.messages import spoken_to
from localrag.presentation.csv_table import csv_table
from localrag.presentation.reports import event_text, render_page, report_json
from localrag.server.asker import linked_language
from localrag.server.jobs import BackgroundJob, WorkRoutes
from localrag.server.naming import Naming
from localrag.server.replies import decoded, reply
from localrag.server.results import Results
from localrag.server.routing import route
from localrag.system.files import create_file, scratch_folder

if TYPE_CHECKING:
    from localrag.models.embeddings.base import Embedder

ALONE: Final = {
    "content-security-policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'; "
    "frame-ancestors 'self'",
}
"""For a page of a report: nothing in it runs or is fetched, and it stands in our page alone."""


class ToEvaluate(msgspec.Struct, forbid_unknown_fields=True):
    """A data set as the text of its file, and what to measure; no `metrics` are all."""

    name: str
    data: str
    library: str = ""
    judged: bool = False
    questions: Annotated[int, msgspec.Meta(ge=1)] | None = None
    metrics: list[str] = []


@dataclass(frozen=True, slots=True)
class Evaluating(WorkRoutes):
    """The routes that evaluate and show reports. Events: waiting, progress, note, report, error."""

    results: Results = field(default_factory=Results)

    @route("/api/evaluate", "POST")
    async def evaluate(self, request: Request) -> Reply:
        """Answer and score the questions of a data set."""
        body = await decoded(request, ToEvaluate)
        self.libraries.engine(body.library)  # before the data: others' libraries are not there
        samples = evenly(await anyio.to_thread.run_sync(_samples, body), body.questions)

        def work(job: BackgroundJob) -> None:
            def tell(happened: events.Event) -> None:
                if isinstance(happened, events.Progressed):
                    job.give_way()
                    done = {"done": happened.done, "total": happened.total, "left": happened.left}
                    job.say("progress", said=event_text(happened), **done)
                else:
                    job.say("note", said=event_text(happened))

            engine, settings = job.engine, job.engine.settings
            before = engine.library.removals()
            with open_cache(None, engine.library) as cache:
                report = Evaluator(_Stoppable(engine, job.stopped), cache, tell=tell).evaluate(
                    body.name,
                    samples,
                    [("default", settings)],
                    settings if body.judged else None,
                    body.metrics,
                )
            report = _name_sources(report, job.naming)
            job.say("report", name=self.results.keep(report, job.library, before))

        return await self.stream(request, body.library, "evaluate", body.name, work)

    @route("/api/reports/{name}")
    async def report(self, request: Request) -> Reply:
        """A report as a page (`.html`), as JSON (`.json`) or as a table (`.csv`)."""
        path = PurePath(request.path_params["name"])
        gone = LibraryNotFoundError(
            "This report is not here any more.", hint="Evaluate again: it goes quickly."
        )
        report = await self.results.exported(path.stem, Report, self.libraries, gone)
        with spoken_to(linked_language(request)):
            if path.suffix == ".json":
                return reply(report_json(report))
            if path.suffix == ".csv":
                return Reply(csv_table(report), media_type="text/csv")
            return Reply(render_page(report), media_type="text/html", headers=ALONE)


def _name_sources(report: Report, naming: Naming) -> Report:
    """The report with names of files for their paths."""

    def named(response: Response) -> Response:
        passages = response.contexts
        contexts = passages and tuple(
            replace(context, source=naming.of(context.source)) for context in passages
        )
        return replace(response, contexts=contexts)

    runs = [
        replace(
            run,
            scored=tuple(replace(answer, response=named(answer.response)) for answer in run.scored),
        )
        for run in report.runs
    ]
    return replace(report, runs=tuple(runs))


def _samples(body: ToEvaluate) -> list[Sample]:
    """The questions of the data set; errors name it as the client does."""
    suffix = PurePath(body.name).suffix.lower()
    with scratch_folder() as folder:
        path = folder / f"data{suffix if suffix in ('.csv', '.json', '.jsonl') else ''}"
        with create_file(path) as file:
            file.write(body.data.encode("utf-8", "replace"))
        try:
            return read_dataset(path)
        except UsageError as error:
            error.values["path"] = body.name
            raise


class _Stoppable(Engine):
    """An engine with its models, whose language model lets go once `stopped` is set."""

    def __init__(self, engine: Engine, stopped: threading.Event) -> None:
        super().__init__(engine.library, engine.settings)
        self._engine = engine
        self._stopped = stopped

    @property
    def embedder(self) -> Embedder:
        """The engine's."""
        return self._engine.embedder

    @property
    def model(self) -> factory.Model:
        """The engine's, for this work."""
        return self._engine.model.for_call(self._stopped, None)
