"""Jobs that wait for a node, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from localrag.messages import spoken, tr

if TYPE_CHECKING:
    from localrag.library.catalogue.postgres.queue import Job


def job_text(job: Job) -> str:
    """What it is, and how far."""
    what = (
        tr("Rebuild")
        if job.kind == "rebuild"
        else tr("Add {paths}", paths=", ".join(job.arguments.paths))
    )
    return tr("{number}  {what}: {state}", number=job.number, what=what, state=_state(job))


def reasons(job: Job) -> Iterator[str]:
    """Why it failed, or why it still waits."""
    if job.fault is not None and job.state != "done":
        yield spoken(job.fault)
    if job.state == "waiting":
        # A node has a name of its own each time that it starts; its machine is what people know.
        for node, why in dict.fromkeys(
            (node.rsplit(":", 2)[0], why) for node, why in job.declined.items()
        ):
            if why == "not there":
                yield tr("The node {node} does not see that path.", node=node)
            else:
                yield tr(
                    "The node {node} may not add that path: start it with `localrag serve "
                    "--add-from FOLDER`.",
                    node=node,
                )


def job_json(job: Job) -> dict[str, Any]:
    """A job as JSON."""
    progress = job.progress
    return {
        "number": job.number,
        "kind": job.kind,
        "paths": list(job.arguments.paths),
        "prune": job.arguments.prune,
        "asked_by": job.asked_by,
        "state": job.state,
        "node": job.node,
        "attempts": job.attempts,
        "files": progress.files,
        "done": progress.done,
        "unread": progress.unread,
        "passages": progress.passages,
        "reasons": list(reasons(job)),
        "made": job.made,
        "began": job.began,
        "ended": job.ended,
    }


def _state(job: Job) -> str:
    progress = job.progress
    told = {"done": progress.done, "files": progress.files, "unread": progress.unread}
    match job.state:
        case "waiting":
            return tr("waiting for a node")
        case "running" if not progress.files:
            return tr("under way, on {node}", node=job.node)
        case "done" if not progress.files:  # indexes alone were rebuilt
            return tr("done")
        case "running":
            return tr("{done} of {files} files, on {node}", node=job.node, **told)
        case "done":
            return tr("done, {done} files, {unread} of them not readable", **told)
        case "failed":
            return tr("failed after {done} of {files} files", **told)
        case _:
            return tr("cancelled after {done} of {files} files", **told)
