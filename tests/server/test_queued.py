"""What the clients of a server are told of queued jobs: nothing of what has been removed since."""

from __future__ import annotations

from localrag.errors import LibraryError
from localrag.library.backends.postgres.queue import Arguments, Progress, QueuedJob
from localrag.presentation.jobs import job_json, job_text
from localrag.server.queued import _name_paths

THERE = sorted(["/docs/plan.txt", "/docs/plan-b.txt", "/docs/plan/one.txt", "/mail.eml/x.pdf"])


def job(*paths: str, ended: str = "2026-11-23T10:00:00+00:00", failed: bool = False) -> QueuedJob:
    fault = LibraryError("It broke at {path}.", path=paths[0]) if failed else None
    state = "failed" if failed else "done" if ended else "running"
    times = ("2026-11-23T09:00:00+00:00", "2026-11-23T09:00:00+00:00", ended)
    return QueuedJob(
        1, "add", Arguments(paths), "ada", state, "n:1:2", 1, Progress(1, 1), {}, fault, *times
    )


def told(entry: QueuedJob) -> str:
    renamed = _name_paths(entry, THERE)
    return f"{job_json(renamed)} {job_text(renamed)}"


def test_a_removed_file_is_not_named_by_the_job_that_added_it() -> None:
    text = told(job("/docs/secret-merger.txt", "/docs/plan.txt"))
    assert "secret" not in text
    assert "plan.txt" in text
    assert "[…]" in text
    assert "secret" not in told(job("/docs/secret-merger.txt", failed=True))


def test_what_is_there_or_on_its_way_is_named() -> None:
    for path, name in (
        ("/docs/plan", "plan"),
        ("/docs/plan/", "plan"),
        ("/docs", "docs"),
        ("/mail.eml", "mail.eml"),
    ):
        assert "[…]" not in told(job(path))
        assert name in told(job(path))
    assert "secret-merger.txt" in told(job("/docs/secret-merger.txt", ended=""))
    assert "[…]" in told(job("/docs/pla"))
