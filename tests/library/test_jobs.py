"""Jobs of a library in a database: who takes them, who loses them, and what becomes of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from library_fixtures import open_library

from localrag.egress.databases import Database, read_url
from localrag.errors import LibraryDamagedError, LibraryError, UsageError
from localrag.library.backends.postgres import queue
from localrag.library.backends.postgres.catalogue import PostgresCatalogue
from localrag.library.backends.postgres.queue import (
    ATTEMPTS,
    Arguments,
    Declined,
    Jobs,
    Progress,
)
from localrag.presentation.jobs import reasons

DOCS = Arguments(("/docs",))
SHORT = 0.2
"""Seconds of a lease that is to run out."""


@pytest.fixture
def place(postgres: str, tmp_path: Path) -> Database:
    return read_url(f"{postgres}#{tmp_path.name}")


@pytest.fixture
def jobs(place: Database) -> Iterator[Jobs]:
    with open_library(place) as library:
        assert library.jobs is not None
        yield library.jobs


def states(jobs: Jobs) -> list[str]:
    return [job.state for job in jobs.all()]


def test_a_library_in_a_folder_has_none(tmp_path: Path) -> None:
    with open_library(tmp_path / "library") as library:
        assert library.jobs is None


def test_one_job_of_a_library_runs_at_a_time(jobs: Jobs) -> None:
    assert jobs.take("a") is None
    first, second = jobs.put("add", DOCS), jobs.put("rebuild", Arguments())
    taken_job = jobs.take("a")
    assert taken_job is not None
    assert (taken_job.number, taken_job.node, taken_job.attempts, taken_job.state) == (
        first,
        "a",
        1,
        "running",
    )
    assert taken_job.arguments == DOCS
    assert jobs.take("b") is None
    assert jobs.renew(taken_job, Progress(files=5, done=2))
    assert [job.progress.done for job in jobs.all()] == [2, 0]
    assert jobs.done(taken_job, Progress(files=5, done=5, unread=1))
    assert states(jobs) == ["done", "waiting"]
    then = jobs.take("b")
    assert then is not None
    assert (then.number, then.kind) == (second, "rebuild")
    ended_job = jobs.all()[0]
    assert ended_job.began
    assert ended_job.made <= ended_job.ended
    assert ended_job.progress.unread == 1


def test_libraries_have_jobs_of_their_own(jobs: Jobs, place: Database, postgres: str) -> None:
    jobs.put("add", DOCS)
    with open_library(read_url(f"{postgres}#{place.library} other")) as other:
        assert other.jobs is not None
        assert other.jobs.all() == []
        assert other.jobs.take("a") is None
        number = jobs.all()[0].number
        with pytest.raises(UsageError):
            other.jobs.cancel(number)
        job_number = other.jobs.put("rebuild", Arguments())
        assert (jobs.take("a"), other.jobs.take("a")) != (None, None)
        assert other.jobs.all()[0].number == job_number


def test_nodes_that_look_at_once_take_a_job_once(jobs: Jobs, place: Database) -> None:
    for _ in range(6):
        jobs.put("add", DOCS)
    jobs_taken: list[object] = []
    start = threading.Barrier(8)

    def look(name: str) -> None:
        with closing(PostgresCatalogue(place)) as catalogue:
            own_jobs = Jobs(catalogue)
            start.wait()
            if (job := own_jobs.take(name)) is not None:
                jobs_taken.append(job)

    threads = [threading.Thread(target=look, args=(f"node {n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(jobs_taken) == 1
    assert states(jobs).count("running") == 1


def test_a_node_that_falls_silent_loses_its_job_and_can_say_nothing_of_it(jobs: Jobs) -> None:
    jobs.put("add", DOCS)
    lost = jobs.take("silent")
    assert lost is not None
    assert jobs.take("other") is None
    assert jobs.renew(lost, Progress(), SHORT)
    time.sleep(2 * SHORT)
    job = jobs.take("other")
    assert job is not None
    assert (job.number, job.attempts) == (lost.number, 2)
    assert "silent" in str(job.fault)
    error = LibraryError("too late")
    assert not jobs.renew(lost, Progress())
    assert not jobs.done(lost, Progress())
    assert not jobs.failed(lost, Progress(), error, again=True)
    assert not jobs.give_back(lost)
    assert states(jobs) == ["running"]
    assert jobs.done(job, Progress())
    assert jobs.all()[0].fault is None


def test_a_job_that_ends_every_node_is_given_up(jobs: Jobs) -> None:
    jobs.put("add", DOCS)
    for number in range(ATTEMPTS):
        assert jobs.take(f"node {number}", SHORT) is not None
        time.sleep(2 * SHORT)
    assert jobs.take("another") is None
    (job,) = jobs.all()
    assert (job.state, job.attempts) == ("failed", ATTEMPTS)
    assert job.ended
    assert f"node {ATTEMPTS - 1}" in str(job.fault)


def test_a_job_that_fails_is_tried_again_in_a_while(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs.put("add", DOCS)
    error = LibraryError("No room on {disk}: {reason}.", hint="Make room.", disk="a", reason="full")
    monkeypatch.setattr(queue, "_AGAIN", 60.0)
    first = jobs.take("a")
    assert first is not None
    jobs.failed(first, Progress(), error, again=True)
    assert states(jobs) == ["waiting"]
    assert jobs.take("a") is None  # not yet
    assert str(jobs.all()[0].fault) == "No room on a: full. Make room."
    jobs.put("rebuild", Arguments())
    monkeypatch.setattr(queue, "_AGAIN", 0.0)
    for kind in ("rebuild", "rebuild", "rebuild"):
        then = jobs.take("a")
        assert then is not None
        assert then.kind == kind
        jobs.failed(then, Progress(), error, again=True)
    assert states(jobs) == ["waiting", "failed"]
    jobs.put("rebuild", Arguments())
    last = jobs.take("a")
    assert last is not None
    jobs.failed(last, Progress(), error, again=False)
    assert states(jobs) == ["waiting", "failed", "failed"]


def test_a_node_leaves_to_others_what_it_cannot_do(jobs: Jobs) -> None:
    jobs.put("add", DOCS)
    taken_job = jobs.take("blind")
    assert taken_job is not None
    jobs.decline(taken_job, "not there")
    assert jobs.take("blind") is None
    (job,) = jobs.all()
    assert (job.state, job.attempts, job.declined) == ("waiting", 0, {"blind": "not there"})
    # Every start of a node has a name of its own, and looks again; a machine is told of once.
    declined: dict[str, Declined] = {
        "vm:1:ab": "not there",
        "vm:22:cd": "not allowed",
        "vm:1:ef": "not there",
        "pc:3:ef": "not allowed",
    }
    for name, why in declined.items():
        again = jobs.take(name)
        assert again is not None
        jobs.decline(again, why)
    for name in declined:  # also two on one machine, in whatever order
        assert jobs.take(name) is None
    (job,) = jobs.all()
    assert job.declined == {"blind": "not there", "vm": "not there", "pc": "not allowed"}
    assert sorted(reason.split()[3] for reason in reasons(job)) == ["blind", "pc", "vm"]
    again = jobs.take("vm:1:gh")  # from where it can be done now
    assert again is not None
    assert again.declined == {"blind": "not there", "pc": "not allowed"}
    jobs.give_back(again)
    other = jobs.take("seeing")
    assert other is not None
    jobs.give_back(other)
    again = jobs.take("seeing")
    assert again is not None
    assert again.attempts == 1


def test_cancelling(jobs: Jobs) -> None:
    running, waiting = jobs.put("add", DOCS), jobs.put("rebuild", Arguments())
    taken_job = jobs.take("a")
    assert taken_job is not None
    jobs.cancel(running)
    assert not jobs.renew(taken_job, Progress())
    jobs.cancel(waiting)
    assert states(jobs) == ["cancelled", "cancelled"]
    assert jobs.take("a") is None
    for number in (running, 10**12):
        with pytest.raises(UsageError, match="waits or runs"):
            jobs.cancel(number)


def test_jobs_go_with_their_library(jobs: Jobs, place: Database) -> None:
    jobs.put("add", DOCS)
    with closing(PostgresCatalogue(place)) as other:
        number = other.number
        other.drop()
        with other.session() as session:
            rows = session.execute("SELECT 1 FROM localrag.jobs WHERE library = %s", [number])
            assert rows.fetchall() == []


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("arguments", '{"paths": 3}'),
        ("kind", "explode"),
        ("fault", '{"message": "{reason:>1000000000}", "values": {"reason": 1}}'),
        ("declined", '{"a": "no wish"}'),
    ],
)
def test_what_nobody_of_ours_has_written_is_said(
    jobs: Jobs, place: Database, column: str, value: str
) -> None:
    number = jobs.put("add", DOCS)
    with closing(PostgresCatalogue(place)) as other, other.session() as session:
        session.execute(f"UPDATE localrag.jobs SET {column} = %s WHERE number = {number}", [value])
        with pytest.raises(LibraryDamagedError, match="cannot have stored"):
            jobs.all()
        session.execute(f"DELETE FROM localrag.jobs WHERE number = {number}")


def test_a_node_forgets_jobs_that_ended_long_ago(place: Database, jobs: Jobs) -> None:
    """Though nobody queues anything any more, which forgets them, too."""
    old, recent, waiting = (jobs.put("add", DOCS) for _ in range(3))
    jobs.cancel(old)
    jobs.cancel(recent)
    with open_library(place) as library:
        assert isinstance(library._catalogue, PostgresCatalogue)
        assert library.jobs is not None
        with library._catalogue.chore() as inner:
            inner.execute(
                "UPDATE localrag.jobs SET ended = ended - interval '31 days' WHERE number = %s",
                [old],
            )
        taken_job = library.jobs.take("a")
    assert taken_job is not None
    assert taken_job.number == waiting
    assert [job.number for job in jobs.all()] == [recent, waiting]
