"""`localrag users`, `grant` and `audit`: who may use which library of a database, and who did."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

import click

from localrag.cli.output import (
    CONTEXT_LIBRARY,
    any_library_option,
    common_options,
    emit_json,
    json_option,
    library_location,
    note_tr,
    say,
    say_tr,
    stdout_console,
    table,
)
from localrag.errors import UsageError
from localrag.messages import tr
from localrag.printable import as_name

if TYPE_CHECKING:
    from localrag.library.acting import Role
    from localrag.library.backends.postgres.users import Users
    from localrag.library.location import Location

_ROLES = ("reader", "editor", "owner", "none")
"""Those of `library.acting`, and none; repeated here because `--help` needs no library."""

_MOST_DAYS = 36_500
_MOST_ENTRIES = 10_000


def _for_all(context: click.Context, option: click.Parameter, value: str | None) -> Location:
    """The library, also for a sub-command that names none itself."""
    if value is not None:
        context.ensure_object(dict)[CONTEXT_LIBRARY] = value
    return library_location(context, option, value)


@contextmanager
def _users_of(library: Location) -> Iterator[Users]:
    from localrag.config.settings import load_settings
    from localrag.hosted import reachable
    from localrag.library.backends.opening import backend_of

    place = reachable(library, load_settings())
    users = backend_of(place).users(place)
    if users is None:
        raise UsageError(
            "Users are for libraries in a database, and {library} is a folder.",
            hint="Name one with --library postgresql://HOST/DATABASE#NAME.",
            library=str(library),
        )
    with users:
        yield users


user_argument = click.argument("name", metavar=tr("USER"))


@click.group(
    invoke_without_command=True,
    subcommand_metavar=tr("[COMMAND] [ARGS]..."),
    help=tr("List or change the users of a database with libraries."),
)
@partial(any_library_option, chosen=_for_all)
@json_option
@click.pass_context
def users(context: click.Context, library: Location, as_json: bool) -> None:
    """Without a sub-command: list them."""
    if context.invoked_subcommand is None:
        _list(library, as_json)


@users.command(name="list", help=tr("List the users, and what they may do in which library."))
@common_options
def list_(library: Location, as_json: bool) -> None:
    """Print all users."""
    _list(library, as_json)


def _list(library: Location, as_json: bool) -> None:
    with _users_of(library) as those:
        accounts = those.all() if those.are_used() else []
        is_open, database = those.is_open(), those.database.name
    if as_json:
        emit_json(
            {
                "users": [
                    {"name": user.name, "since": user.since.isoformat(), "roles": dict(user.roles)}
                    for user in accounts
                ]
            }
        )
    elif not accounts:
        say_tr("There are no users. Add the first one: localrag users add NAME")
    else:
        rows = [
            (
                as_name(user.name),
                ", ".join(f"{as_name(name)}: {role}" for name, role in user.roles.items()),
                f"{user.since.astimezone():%Y-%m-%d}",
            )
            for user in accounts
        ]
        stdout_console().print(table((tr("User"), tr("Roles"), tr("Since")), rows))
        if is_open:
            note_tr(
                "Every account of the PostgreSQL server may connect to this database, also one "
                "that acts for the users of another database. Its owner ends that: {statements}",
                statements=f'GRANT CONNECT ON DATABASE "{database}" TO ACCOUNT; '
                f'REVOKE CONNECT ON DATABASE "{database}" FROM PUBLIC',
            )


@users.command(
    help=tr(
        "Add a user and print the token, which is shown only once. The first user turns "
        "row-level security on for all libraries of the database."
    )
)
@user_argument
@common_options
def add(name: str, library: Location, as_json: bool) -> None:
    """Add one, who may use nothing yet."""
    with _users_of(library) as those:
        first, database = not those.are_used(), those.database.name
        token = those.add(name)
    _print_token(name, token, as_json)
    if as_json:
        return
    if first:
        note_tr(
            "The database now has users: an account that does not own its tables sees no "
            "library any more, except through a server that serves it."
        )
        note_tr(
            "Only accounts that are named may connect to it from now on; its owner names each "
            "that a server uses: {statement}",
            statement=f'GRANT CONNECT ON DATABASE "{database}" TO ACCOUNT',
        )
        note_tr(
            "Start every `localrag serve` of this database again: until then it answers nobody."
        )
    note_tr(
        "This user may not use any library yet: {command}",
        command=shlex.join(["localrag", "grant", name, "reader", "--library", str(library)]),
    )


@users.command(help=tr("Print a new token; the old one and all sessions of the user end at once."))
@user_argument
@common_options
def renew(name: str, library: Location, as_json: bool) -> None:
    """Another secret for the same user."""
    with _users_of(library) as those:
        token = those.renew(name)
    _print_token(name, token, as_json)


@users.command(help=tr("Remove a user; the token and all sessions end at once."))
@user_argument
@common_options
def remove(name: str, library: Location, as_json: bool) -> None:
    """Remove one, and say so."""
    with _users_of(library) as those:
        those.remove(name)
    if as_json:
        emit_json({"user": name})
    else:
        say_tr("{name} is no longer a user.", name=name)


def _print_token(name: str, token: str, as_json: bool) -> None:
    if as_json:
        emit_json({"user": name, "token": token})
        return
    say(token)
    note_tr("This is the token of {name}. It is not shown again.", name=name)


@click.command(
    help=tr(
        "Say what a user may do in a library: a reader asks and reads, an editor also adds and "
        "removes documents, an owner everything; none ends it."
    )
)
@user_argument
@click.argument("role", metavar=tr("ROLE|none"), type=click.Choice(_ROLES))
@common_options
def grant(name: str, role: Role | str, library: Location, as_json: bool) -> None:
    """Change one grant."""
    from localrag.library.location import name_of

    own = name_of(library)
    with _users_of(library) as those:
        those.grant(name, own, None if role == "none" else role)  # type: ignore[arg-type]
    if as_json:
        emit_json({"user": name, "library": own, "role": role})
    elif role == "none":
        say_tr("{name} may no longer use {library}.", name=name, library=own)
    else:
        say_tr("{name} is now {role} of {library}.", name=name, role=role, library=own)


@click.command(
    help=tr(
        "List who asked, read and changed a library of a database, and when. The words of "
        "questions are recorded only with --texts on."
    )
)
@click.option("--user", "name", metavar=tr("USER"), help=tr("Only what this user did."))
@click.option(
    "--since",
    metavar=tr("DATE"),
    type=click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M"]),
    help=tr("Only from this day on, such as 2026-11-30."),
)
@click.option(
    "--texts",
    type=click.Choice(["on", "off"]),
    help=tr("Whether the words of questions are recorded from now on; off deletes those there."),
)
@click.option(
    "--keep",
    metavar=tr("DAYS"),
    type=click.IntRange(1, _MOST_DAYS),
    help=tr("For how many days the records of the database are kept (90)."),
)
@common_options
def audit(
    name: str | None,
    since: datetime | None,
    texts: str | None,
    keep: int | None,
    library: Location,
    as_json: bool,
) -> None:
    """Change what is kept, or print it."""
    from localrag.library.location import name_of

    own = name_of(library)
    with _users_of(library) as those:
        words = those.keeps_words(own, on=None if texts is None else texts == "on")
        days = those.kept_days(keep)
        local = since.astimezone() if since else None
        asked = those.asked(own, user=name, since=local, most=_MOST_ENTRIES)
        if name is not None and not asked:
            _expect_known(those, name)
    if as_json:
        emit_json(
            {
                "library": own,
                "texts": words,
                "days": days,
                "list": [
                    {
                        "at": entry.at.isoformat(),
                        "user": entry.user,
                        "what": entry.what,
                        "text": entry.words,
                    }
                    for entry in asked
                ],
            }
        )
        return
    actions = _actions()
    rows = [
        (
            f"{entry.at.astimezone():%Y-%m-%d %H:%M:%S}",
            as_name(entry.user),
            actions.get(entry.what) or as_name(entry.what),
            as_name(entry.words or ""),
        )
        for entry in asked
    ]
    heads = tr("Time"), tr("User"), tr("Action"), tr("Text")
    if texts is None and keep is None:
        stdout_console().print(table(heads, rows, overflow="fold"))
        if len(asked) == _MOST_ENTRIES:
            note_tr("Only the newest {count} are shown.", count=_MOST_ENTRIES)
    if words:
        note_tr("Records are kept for {days} days, with the words of questions.", days=days)
    else:
        note_tr("Records are kept for {days} days, without the words of questions.", days=days)


def _expect_known(users: Users, name: str) -> None:
    """Raise UsageError for a name that no user has, nor had one in the log."""
    if not users.asked(user=name, most=1) and all(user.name != name for user in users.all()):
        raise UsageError(
            "There is no user {name}.", hint="See who there is: localrag users.", name=name
        )


def _actions() -> dict[str, str]:
    """What the log has, in words: each of `acting.Action`."""
    return {
        "ask": tr("asked"),
        "search": tr("searched"),
        "page": tr("read"),
        "list": tr("listed"),
        "conversations": tr("switched the history on or off"),
        "add": tr("added"),
        "remove": tr("removed"),
        "rebuild": tr("rebuilt"),
        "cancel": tr("cancelled a job"),
        "evaluate": tr("evaluated"),
        "export": tr("exported"),
    }
