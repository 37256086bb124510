"""For whom statements about a library are: a user, the server itself, or nobody.

It goes with the thread or task (a `ContextVar`): `anyio.to_thread.run_sync` takes it along, bare
threads and executors do not. Only a database that has users asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal, get_args

from localrag.errors import UsersBeganError

Role = Literal["reader", "editor", "owner"]
"""What a user may do in a library, each more than the one before."""

Action = Literal[
    "ask",
    "search",
    "page",
    "list",
    "conversations",
    "add",
    "remove",
    "rebuild",
    "cancel",
    "evaluate",
    "export",
]
"""What the log can say that a user did with a library."""

ROLES: Final[tuple[Role, ...]] = get_args(Role)


def covers(role: Role | None, wanted: Role) -> bool:
    """Whether one role is at least another; None is no role at all."""
    return role is not None and ROLES.index(role) >= ROLES.index(wanted)


@dataclass(frozen=True, slots=True)
class User:
    """Somebody who may use libraries of a database; `roles` by the library's name there."""

    name: str
    roles: Mapping[str, Role]

    def may(self, library: str, role: Role) -> bool:
        """Whether this user has that role in a library, or more."""
        return covers(self.roles.get(library), role)


class _Itself(Enum):
    SERVER = "the server"


SERVER: Final = _Itself.SERVER
"""Who acts where a server sees to its own: indexes that follow, secrets, the log."""

Actor = str | _Itself | None
"""The name of a user, the server, or nobody."""

acting: Final[ContextVar[Actor]] = ContextVar("acting", default=None)


@contextmanager
def _acting(who: Actor) -> Iterator[None]:
    token = acting.set(who)
    try:
        yield
    finally:
        acting.reset(token)


def acting_as(name: str) -> AbstractContextManager[None]:
    """What is asked and changed in the block is so for the user of this name."""
    return _acting(name)


def acting_as_server() -> AbstractContextManager[None]:
    """What is read in the block is a chore of the server, and for no user."""
    return _acting(SERVER)


def users_began() -> UsersBeganError:
    """What a server says that knows nobody, where somebody must ask by now."""
    return UsersBeganError(
        "The database has users since this server began.",
        hint="Start the server again; people then sign in.",
    )
