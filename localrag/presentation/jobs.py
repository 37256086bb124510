"""Jobs that wait for a server, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from localrag.messages import spoken, tr
from localrag.presentation.records import picked

if TYPE_CHECKING:
    from localrag.library.backends.postgres.queue import QueuedJob


def job_text(job: QueuedJob) -> str:
    """What it is, and how far."""
    what = (
        tr("Rebuild")
        if job.kind == "rebuild"
        else tr("Add {paths}", paths=", ".join(job.arguments.paths))
    )
    return tr("{number}  {what}: {state}", number=job.number, what=what, state=_state(job))


def reasons(job: QueuedJob) -> Iterator[str]:
    """Why it failed, or why it still waits."""
    if job.fault is not None and job.state != "done":
        yield spoken(job.fault)
    if job.state == "waiting":
        for server, why in job.declined.items():
            if why == "not there":
                yield tr("The server on {server} does not see that path.", server=server)
            else:
                yield tr(
                    "The server on {server} may not add that path: start it with `localrag serve "
                    "--add-from FOLDER`.",
                    server=server,
                )


def job_json(job: QueuedJob) -> dict[str, Any]:
    """A job as JSON."""
    return {
        **picked(job, "number", "kind"),
        **picked(job.arguments, "paths", "prune"),
        **picked(job, "asked_by", "state", "node", "attempts"),
        **picked(job.progress, "files", "done", "unread", "passages"),
        "reasons": list(reasons(job)),
        **picked(job, "made", "began", "ended"),
    }


def _state(job: QueuedJob) -> str:
    from localrag.library.backends.postgres.queue import machine

    done, files, unread = job.progress.done, job.progress.files, job.progress.unread
    server = machine(job.node)
    progress = tr(
        "{done} of {files} file" if files == 1 else "{done} of {files} files",
        done=done,
        files=files,
    )
    match job.state:
        case "waiting":
            return tr("waiting for a server")
        case "running":
            if not files:
                return tr("under way, on {server}", server=server)
            return tr("{progress}, on {server}", progress=progress, server=server)
        case "done":
            if not files:  # indexes alone were rebuilt
                return tr("done")
            if unread:
                return tr(
                    "done, {done} file, which is not readable"
                    if done == 1
                    else "done, {done} files, {unread} of them not readable",
                    done=done,
                    unread=unread,
                )
            return tr("done, {done} file" if done == 1 else "done, {done} files", done=done)
        case "failed":
            return tr("failed after {progress}", progress=progress) if files else tr("failed")
        case _:
            return tr("cancelled after {progress}", progress=progress) if files else tr("cancelled")
