"""Jobs that were queued for a library in a database: listed, and cancelled.

`GET /api/jobs` takes `library` and gives `jobs`, the newest last, with what there is to say of
each; paths are told by their last name alone. `POST /api/jobs/{number}/cancel` takes `library`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import anyio
import msgspec
from starlette.requests import Request
from starlette.responses import Response

from localrag.documents.formats.table import shown_name
from localrag.errors import LibraryNotFoundError
from localrag.library.backends.postgres.queue import QueuedJob
from localrag.library.library import Library
from localrag.messages import spoken_to
from localrag.presentation.jobs import job_json, job_text
from localrag.rag.untrusted import GAP
from localrag.server.asker import preferred, recorded
from localrag.server.libraries import Libraries
from localrag.server.naming import without_paths
from localrag.server.replies import digits, reply
from localrag.server.routing import Routes, route


@dataclass(frozen=True, slots=True)
class Queued(Routes):
    """The routes below /api/jobs."""

    libraries: Libraries

    def _library(self, request: Request) -> Library:
        return self.libraries.engine(request.query_params.get("library", "")).library

    @route("/api/jobs")
    async def listed(self, request: Request) -> Response:
        """Those of a library; none where it is in a folder."""
        library, language = self._library(request), preferred(request)

        def told() -> list[dict[str, Any]]:
            with spoken_to(language):
                jobs = library.jobs.all() if library.jobs is not None else []
                paths = library.paths() if any(job.ended for job in jobs) else []
                named = [_name_paths(job, paths) for job in jobs]
                return [job_json(job) | {"text": job_text(job)} for job in named]

        return reply({"jobs": await anyio.to_thread.run_sync(told)})

    @route("/api/jobs/{number}/cancel", "POST")
    async def cancel(self, request: Request) -> Response:
        """Cancel one that waits or runs."""
        library, text = self._library(request), request.path_params["number"]
        number = digits(text)
        if library.jobs is None or number is None:
            raise LibraryNotFoundError("There is no job {name}.", hint="See /api/jobs.", name=text)
        name = self.libraries.named(request.query_params.get("library", ""))
        await recorded(name, "cancel")
        await anyio.to_thread.run_sync(library.jobs.cancel, number)
        return reply({"cancelled": number})


def _name_paths(job: QueuedJob, there: Sequence[str]) -> QueuedJob:
    """A job with names for paths; of one that has ended, of what is in the library alone.

    `there` are the library's paths, sorted: what was removed from it is not told of either.
    """
    gone = [bool(job.ended) and not _is_there(path, there) for path in job.arguments.paths]
    paths = tuple(
        GAP if is_gone else shown_name(path)
        for path, is_gone in zip(job.arguments.paths, gone, strict=True)
    )
    arguments = msgspec.structs.replace(job.arguments, paths=paths)
    fault = None if any(gone) else job.fault and without_paths(job.fault)
    return msgspec.structs.replace(job, arguments=arguments, fault=fault)


def _is_there(path: str, there: Sequence[str]) -> bool:
    """Whether a file is in a library, or one below a folder."""
    folder = path.rstrip("/\\")
    at = bisect_left(there, folder)
    below = (f"{folder}/", f"{folder}\\")
    # Others may stand between a folder and what is below it: "a", "a-b", "a/c".
    return any(
        (start := bisect_left(there, begin)) < len(there) and there[start].startswith(begin)
        for begin in below
    ) or (at < len(there) and there[at] == folder)
