"""`localrag jobs`: work that servers do for a library in a database; and `--queue`."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from localrag.cli.output import (
    CONTEXT_LIBRARY,
    any_library_option,
    common_options,
    emit_json,
    note_tr,
    say,
    say_tr,
)
from localrag.errors import UsageError
from localrag.messages import tr

if TYPE_CHECKING:
    from localrag.api import LocalRAG
    from localrag.library.backends.postgres.queue import Jobs, Kind
    from localrag.library.location import Location


def queue_options(text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add `--queue` and `--as`; the command receives `queue: bool` and `user: str`."""

    def added(command: Callable[..., Any]) -> Callable[..., Any]:
        whom = tr("With --queue, in a database that has users: the editor for whom it is done.")
        command = click.option("--as", "user", metavar=tr("USER"), default="", help=whom)(command)
        return click.option("--queue", is_flag=True, help=text)(command)

    return added


def put(
    library: Location,
    kind: Kind,
    paths: Sequence[str] = (),
    *,
    user: str,
    prune: bool = False,
    embedding: str | None = None,
    as_json: bool = False,
) -> None:
    """Have a server of the library do it, and say its number."""
    if embedding is not None:
        raise UsageError(
            "--embedding and --queue exclude each other: a server takes the model of its settings.",
            hint="Leave one of them out.",
        )
    from localrag.api import LocalRAG
    from localrag.library.backends.postgres.queue import Arguments

    whole = tuple(os.path.abspath(Path(path).expanduser()) for path in paths)  # noqa: PTH100
    with LocalRAG.open(library, create=False) as rag:
        jobs = _jobs(rag)
        _expect_editor(rag, user)
        number = jobs.put(kind, Arguments(whole, prune), user)
    if as_json:
        emit_json({"queued": number})
        return
    say_tr("Queued as job {number}; see `localrag jobs`.", number=number)
    if paths:
        note_tr(
            "It is done by a server that sees the same path and was started with `localrag "
            "serve --add-from` for it."
        )


@click.group(
    invoke_without_command=True,
    subcommand_metavar=tr("[COMMAND] [ARGS]..."),
    help=tr("Show the jobs that were queued for a library in a database."),
)
@common_options
@click.pass_context
def jobs(context: click.Context, library: Location, as_json: bool) -> None:
    """Without a sub-command: list them."""
    context.obj = {**(context.obj or {}), CONTEXT_LIBRARY: library}
    if context.invoked_subcommand is not None:
        return
    from localrag.api import LocalRAG
    from localrag.presentation.jobs import job_json, job_text, reasons

    with LocalRAG.open(library, create=False) as rag:
        all_jobs = _jobs(rag).all()
    if as_json:
        emit_json({"jobs": [job_json(job) for job in all_jobs]})
        return
    for job in all_jobs:
        say(job_text(job))
        for reason in reasons(job):
            say(f"   {reason}")
    if not all_jobs:
        note_tr("There are no jobs.")


@jobs.command(help=tr("Cancel a job that waits or runs; what it has committed stays."))
@click.argument("number", metavar=tr("JOB"), type=int)
@any_library_option
def cancel(number: int, library: Location) -> None:
    """Cancel one."""
    from localrag.api import LocalRAG

    with LocalRAG.open(library, create=False) as rag:
        _jobs(rag).cancel(number)
    say_tr("Job {number} is cancelled.", number=number)


def _expect_editor(rag: LocalRAG, user: str) -> None:
    """A server does everything for somebody where the database has users, and for nobody else."""
    from localrag.library.backends.opening import backend_of
    from localrag.library.location import name_of

    place = rag.library.location
    users = backend_of(place).users(place)
    assert users is not None  # noqa: S101 - it has jobs
    with users:
        if not users.are_used():
            return
        account = users.by_name(user)
    library = name_of(place)
    if not user:
        raise UsageError(
            "The database has users, and a server does this for one who may edit {library}.",
            hint="Name one with --as USER; see who there is: localrag users.",
            library=library,
        )
    if account is None:
        raise UsageError(
            "There is no user {name}.", hint="See who there is: localrag users.", name=user
        )
    if not account.may(library, "editor"):
        role = account.roles.get(library)
        raise UsageError(
            "{name} is {role} of {library}, and this takes editor."
            if role
            else "{name} may not use {library}, and this takes editor.",
            hint="Grant it with `{command}`, or name another with --as.",
            name=user,
            role=role or "",
            library=library,
            command=shlex.join(["localrag", "grant", user, "editor", "--library", str(place)]),
        )


def expect_queue(user: str) -> None:
    """Raise UsageError where `--as` is given though no server is to do it."""
    if user:
        raise UsageError(
            "--as names for whom a server does this, and no server is asked.",
            hint="Add --queue, or leave --as out.",
        )


def _jobs(rag: LocalRAG) -> Jobs:
    if rag.library.jobs is None:
        raise UsageError(
            "Only a library in a database has jobs, and {library} is in a folder.",
            hint="Name one with --library postgresql://HOST/DATABASE#NAME.",
            library=str(rag.library.location),
        )
    return rag.library.jobs
