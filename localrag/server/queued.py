"""Jobs that were queued for a library in a database: listed, and cancelled.

`GET /api/jobs` takes `library` and gives `jobs`, the newest last, with what there is to say of
each; paths are told by their last name alone. `POST /api/jobs/{number}/cancel` takes `library`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import anyio
import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from localrag.documents.formats.table import shown_name
from localrag.errors import LibraryNotFoundError
from localrag.library.catalogue.postgres.queue import Job
from localrag.library.library import Library
from localrag.messages import spoken_to
from localrag.presentation.jobs import job_json, job_text
from localrag.server.asker import preferred, recorded
from localrag.server.libraries import Libraries
from localrag.server.naming import without_paths
from localrag.server.replies import digits, reply


@dataclass(frozen=True, slots=True)
class Queued:
    """The routes below /api/jobs."""

    libraries: Libraries

    def routes(self) -> list[Route]:
        """All of them."""
        return [
            Route("/api/jobs", self.listed),
            Route("/api/jobs/{number}/cancel", self.cancel, methods=["POST"]),
        ]

    def _library(self, request: Request) -> Library:
        return self.libraries.engine(request.query_params.get("library", "")).library

    async def listed(self, request: Request) -> Response:
        """Those of a library; none where it is in a folder."""
        library, language = self._library(request), preferred(request)

        def told() -> list[dict[str, Any]]:
            with spoken_to(language):
                jobs = library.jobs.all() if library.jobs is not None else []
                return [job_json(one) | {"text": job_text(one)} for one in map(_named, jobs)]

        return reply({"jobs": await anyio.to_thread.run_sync(told)})

    async def cancel(self, request: Request) -> Response:
        """Cancel one that waits or runs."""
        library, given = self._library(request), request.path_params["number"]
        number = digits(given)
        if library.jobs is None or number is None:
            raise LibraryNotFoundError("There is no job {name}.", hint="See /api/jobs.", name=given)
        name = self.libraries.named(request.query_params.get("library", ""))
        await recorded(name, "cancel")
        await anyio.to_thread.run_sync(library.jobs.cancel, number)
        return reply({"cancelled": number})


def _named(job: Job) -> Job:
    """A job with names for paths."""
    paths = tuple(map(shown_name, job.arguments.paths))
    arguments = msgspec.structs.replace(job.arguments, paths=paths)
    fault = job.fault and without_paths(job.fault)
    return msgspec.structs.replace(job, arguments=arguments, fault=fault)
