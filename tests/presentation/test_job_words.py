"""Jobs in words, in both languages: how many files, how many of them not readable, and where."""

from __future__ import annotations

import pytest

from localrag.library.backends.postgres.queue import Arguments, Progress, QueuedJob, State
from localrag.messages import spoken_to
from localrag.presentation.jobs import job_text


def job(state: State, progress: Progress) -> QueuedJob:
    arguments = Arguments(("/docs",))
    return QueuedJob(7, "add", arguments, "", state, "vm:12:ab", 1, progress, {}, None, "", "", "")


@pytest.mark.parametrize(
    ("state", "progress", "english", "chinese"),
    [
        ("done", Progress(1, 1), "done, 1 file", "完成，1 个文件"),
        ("done", Progress(2, 2), "done, 2 files", "完成，2 个文件"),
        ("done", Progress(0, 0), "done", "完成"),
        (
            "done",
            Progress(1, 1, unread=1),
            "done, 1 file, which is not readable",
            "完成，1 个文件，但无法读取",
        ),
        (
            "done",
            Progress(9, 9, unread=1),
            "done, 9 files, 1 of them not readable",
            "完成，9 个文件，其中 1 个无法读取",
        ),
        ("waiting", Progress(), "waiting for a server", "等待服务器"),
        ("running", Progress(), "under way, on vm", "进行中，服务器 vm"),
        ("running", Progress(1), "0 of 1 file, on vm", "已完成 0 / 1 个文件，服务器 vm"),
        ("running", Progress(4, 3), "3 of 4 files, on vm", "已完成 3 / 4 个文件，服务器 vm"),
        ("failed", Progress(4, 3), "failed after 3 of 4 files", "失败，此前完成 3 / 4 个文件"),
        ("failed", Progress(), "failed", "失败"),
        ("cancelled", Progress(1), "cancelled after 0 of 1 file", "已取消，此前完成 0 / 1 个文件"),
        ("cancelled", Progress(), "cancelled", "已取消"),
    ],
)
def test_how_far_a_job_is(state: State, progress: Progress, english: str, chinese: str) -> None:
    with spoken_to("en"):
        assert job_text(job(state, progress)) == f"7  Add /docs: {english}"
    with spoken_to("zh"):
        assert job_text(job(state, progress)) == f"7  添加 /docs：{chinese}"
