"""Whose request is being answered, where people sign in; nobody's in a server of one user.

And in which language they read. Who it is is set once for a request, before its route runs, and
found again wherever its work goes: in tasks, in threads that take the context along, and in what a
stream still sends.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import anyio
from starlette.requests import HTTPConnection

from localrag.errors import ForbiddenError
from localrag.library.acting import Action, Role, User, acting_as
from localrag.messages import INTERFACES, SOURCE, InterfaceLanguage

T = TypeVar("T")


class UserDirectory(Protocol):
    """Who there is, as the database of the libraries knows them; see `postgres.users.Users`."""

    def by_token(self, token: str) -> User | None:
        """Whose token or session this is."""

    def by_name(self, name: str) -> User | None:
        """The user of that name."""

    def begin_session(self, token: str) -> str:
        """A secret that stands for the token's user until it ends; ForbiddenError for no token."""

    def end_session(self, secret: str) -> None:
        """End it."""

    def record(self, user: str, library: str, what: Action, words: str | None) -> None:
        """Write down who does what in which library."""

    def asked(self, library: str) -> Sequence[Any]:
        """What was written down of a library, oldest first."""


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks, and the role that their request takes in a library that it names."""

    user: User
    users: UserDirectory
    least: Role = "reader"
    by_proxy: bool = False
    """Whether a reverse proxy vouches for them, so that there is no session to end here."""
    at_work: set[anyio.CancelScope] = field(default_factory=set, compare=False)
    """What is broken off where they lose a right, and says so itself."""


_asker: ContextVar[Asker | None] = ContextVar("asker", default=None)


def asker() -> Asker | None:
    """Who asks; None in a server of one user, and for what the server does by itself."""
    return _asker.get()


def own_name() -> str:
    """Under which name what is somebody's own is kept; "" in a server of one user."""
    person = _asker.get()
    return "" if person is None else person.user.name


@contextmanager
def asked_by(person: Asker) -> Iterator[None]:
    """Answer their request within this block, with the rights that they have in the database."""
    token = _asker.set(person)
    try:
        with acting_as(person.user.name):
            yield
    finally:
        _asker.reset(token)


def no_longer() -> ForbiddenError:
    """What is said to who loses a right while they are answered."""
    return ForbiddenError(
        "You may no longer do this: your token or your role was taken away.",
        hint="Ask an owner of the library.",
    )


async def until_barred(work: Awaitable[T]) -> T:
    """What `work` returns; `ForbiddenError`, and no more of it, once who asks loses a right."""
    person = _asker.get()
    if person is None:
        return await work
    with anyio.CancelScope() as block:
        person.at_work.add(block)
        try:
            return await work
        finally:
            person.at_work.discard(block)
    raise no_longer()


def preferred(request: HTTPConnection) -> InterfaceLanguage:
    """The language that a client asks for; English where it says nothing."""
    header = request.headers.get("accept-language", "").lower()
    places = {code: header.find(code) for code in INTERFACES}
    return min(
        (code for code, place in places.items() if place >= 0),
        key=places.__getitem__,
        default=SOURCE,
    )


def linked_language(request: HTTPConnection) -> InterfaceLanguage:
    """The language that a link asks for, which cannot say it in a header; else as `preferred`."""
    language = request.query_params.get("language")
    return next((code for code in INTERFACES if code == language), None) or preferred(request)


async def recorded(library: str, what: Action, words: str | None = None) -> None:
    """Write down what is done in a library, before anything of it is told.

    `words` are what was asked for, of which the database keeps what the library's owner wants.
    """
    person = _asker.get()
    if person is not None:
        await anyio.to_thread.run_sync(person.users.record, person.user.name, library, what, words)
