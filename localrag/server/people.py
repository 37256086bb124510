"""Who asks, where the libraries are in a database that knows its users.

By a token or a session of theirs, or by single sign-on: then a reverse proxy, which has asked them
itself, names them in a header. That header counts where nobody but the proxy can have sent it: over
a Unix socket, or beside a secret that the proxy has.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
from starlette.datastructures import Headers
from starlette.types import Message, Scope, Send

from localrag.errors import ForbiddenError, LibraryUnreachableError, LocalragError, UsageError
from localrag.library.acting import User
from localrag.library.backends.opening import backend_of
from localrag.library.location import Location
from localrag.server.asker import Asker, UserDirectory, no_longer
from localrag.server.token import given_secret

if TYPE_CHECKING:
    from localrag.library.backends.postgres.users import Users as Kept

SECRET_HEADER: Final = "x-localrag-secret"  # noqa: S105 - the name of one
"""Beside the header that names a user: what only the proxy knows."""
REMEMBERED = 2.0
"""Seconds for which what the database said of a token counts: one that is revoked, and a right
that is taken away, lasts so long for a new request."""
PATIENCE = 10.0
"""Seconds after which a database that has not said who asks cannot be asked."""
LOOK = 5.0
"""Seconds between two looks whether a request that is still being answered may go on."""
SECRET_VARIABLE: Final = "LOCALRAG_SIGN_ON_SECRET"  # noqa: S105 - the name of one
_HEADER = re.compile("[a-z][a-z0-9-]{0,60}")
_TAKEN = frozenset({SECRET_HEADER, "authorization", "cookie", "host", "origin"})
_MOST_REMEMBERED = 1000
_LONGEST = 1024
"""Characters of a token or a name."""

_log = logging.getLogger(__name__)


class RefusedError(Exception):
    """A request is not answered, with the status that says so."""

    def __init__(self, status: int, reason: LocalragError) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


@dataclass(frozen=True, slots=True)
class SignOn:
    """The header in which the proxy names the user, and what proves that it did."""

    header: str
    secret: str = ""
    """Sent along in `SECRET_HEADER`; "" where the proxy alone can reach the server's socket."""


class People:
    """Finds out who asks. For one event loop."""

    def __init__(self, users: UserDirectory, sign_on: SignOn | None = None) -> None:
        self.users = users
        self._sign_on = sign_on
        self._known: dict[bytes, tuple[float, User]] = {}
        # Threads of its own: those that a silent database holds up are never more.
        self._looking = ThreadPoolExecutor(8, "who asks")

    async def asker(self, scope: Scope, secrets: Sequence[str]) -> Asker | None:
        """Who sends a request with the one of these secrets; None for nobody that is known.

        Raises `RefusedError` where the proxy's header does not count or names nobody, and where
        the database cannot be asked.
        """
        named = self._proxy_user(scope)
        if named is not None:
            user = await self._look_up(self.users.by_name, named)
            if user is None:
                raise RefusedError(403, _nobody())
            return Asker(user, self.users, by_proxy=True)
        if len(secrets) != 1 or not 0 < len(secrets[0]) <= _LONGEST:
            return None
        user = await self._look_up(self.users.by_token, secrets[0])
        return None if user is None else Asker(user, self.users)

    def _proxy_user(self, scope: Scope) -> str | None:
        """Whom the proxy names, None where it names nobody."""
        if self._sign_on is None:
            return None
        headers = Headers(scope=scope)
        names = headers.getlist(self._sign_on.header)
        if not names:
            return None
        proofs, secret = headers.getlist(SECRET_HEADER), self._sign_on.secret
        if secret:
            is_proxy = len(proofs) == 1 and is_secret(proofs[0], secret)
        else:
            is_proxy = _over_socket(scope)
        if not is_proxy or len(names) != 1:
            raise RefusedError(403, ForbiddenError("Only the proxy may say who asks."))
        try:
            name = names[0].encode("latin-1").decode()  # as bytes travel in a header
        except UnicodeError:
            name = ""
        name = name.strip(" \t")  # of the header; any other space could be part of a name
        if not 0 < len(name) <= _LONGEST or name != name.strip():
            raise RefusedError(403, _nobody())
        return name

    async def _look_up(self, find: Callable[[str], User | None], value: str) -> User | None:
        key = hashlib.sha256(f"{find.__name__}\0{value}".encode("utf-8", "replace")).digest()
        until, known = self._known.get(key, (0.0, None))
        if time.monotonic() < until:
            return known
        try:
            with anyio.fail_after(PATIENCE):
                loop = asyncio.get_running_loop()
                user = await loop.run_in_executor(self._looking, find, value)
        except (LocalragError, TimeoutError) as error:
            _log.warning("Who asks could not be looked up: %s", str(error) or "no answer in time")
            raise RefusedError(
                503,
                LibraryUnreachableError(
                    "The database that knows who may do what cannot be asked; try again soon."
                ),
            ) from error
        self._known.pop(key, None)
        if user is not None:
            while len(self._known) >= _MOST_REMEMBERED:
                self._known.pop(next(iter(self._known)))
            self._known[key] = (time.monotonic() + REMEMBERED, user)
        return user

    def forget(self) -> None:
        """Remember nobody, as after somebody has signed out."""
        self._known.clear()


def is_secret(given: str, known: str) -> bool:
    """Compare in the same time, whatever is the same."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), known.encode())


def _nobody() -> LocalragError:
    return ForbiddenError("There is no user of the name that the proxy gives.")


def _over_socket(scope: Scope) -> bool:
    """Whether a request came over a Unix socket, which has no port.

    Not that its client has no address: that one of a connection just cut off has none either.
    """
    server = scope.get("server")
    return server is not None and server[1] is None


async def while_allowed(
    find: Callable[[], Awaitable[Asker | None]],
    person: Asker,
    answer: Callable[[Send], Awaitable[None]],
    send: Send,
) -> None:
    """Answer a request as long as who asked keeps every right that they had; then break off.

    Looks before anything is sent, which asks the database only where what it said is no longer
    remembered, and again and again. What says so itself (`until_barred`) has until the next look.

    Raises `RefusedError` where nothing of the answer had been sent.
    """
    begun = notified = False

    async def barred() -> bool:
        try:
            now = await find()
        except RefusedError as error:
            return error.status != 503  # then nobody has taken anything away
        return now is None or not all(now.user.may(*had) for had in person.user.roles.items())

    async def noting(message: Message) -> None:
        nonlocal begun
        # A reply without a body tells nothing, such as that one's session has ended.
        if not (begun or notified) and message.get("status") != 204 and await barred():
            block.cancel()
            return
        begun = True
        await send(message)

    async def watch() -> None:
        nonlocal notified
        while True:
            await anyio.sleep(LOOK)
            if await barred():
                if notified or not person.at_work:
                    block.cancel()
                for work in person.at_work:
                    work.cancel()
                notified = True

    with anyio.CancelScope() as block:
        watching = asyncio.create_task(watch())
        try:
            await answer(noting)
        finally:
            watching.cancel()
    if block.cancel_called and not begun:
        raise RefusedError(401, no_longer())


def sign_on_of(header: str | None, secret: Path | None, *, over_socket: bool) -> SignOn | None:
    """Single sign-on as it was asked for, None where it was not; `secret` is a file.

    Raises `UsageError` where nothing would prove that a header is the proxy's, `ConfigError`.
    """
    if header is None:
        if secret is None:
            return None
        raise UsageError(
            "The secret of single sign-on is given, but no header.", hint="Give --sign-on-header."
        )
    name = header.lower()
    if not _HEADER.fullmatch(name) or name in _TAKEN:
        raise UsageError(
            "{header} cannot be the header that names a user.",
            hint="Give one that your reverse proxy sets, such as X-Remote-User.",
            header=header,
        )
    known = given_secret(SECRET_VARIABLE, secret)
    if known is None and not over_socket:
        raise UsageError(
            "Any program on this machine could send the header {header} and be anybody.",
            hint="Listen on a socket that only the reverse proxy can open (--socket), or let it "
            "send a secret (--sign-on-secret).",
            header=header,
        )
    return SignOn(name, known or "")


@contextmanager
def users_of(places: Sequence[Location]) -> Iterator[Kept | None]:
    """The users of the one database in which all these libraries are; None where there are none.

    Raises `UsageError` where some are elsewhere: nobody could tell who may see those.
    """
    with ExitStack() as stack:
        of_places = (backend_of(place).users(place) for place in places)
        stores = {users and users.server: users for users in of_places}
        known = [stack.enter_context(users) for users in stores.values() if users]
        used = [users for users in known if users.are_used()]
        if used and len(stores) > 1:
            raise UsageError(
                "The libraries are not all in one database, and one of these has users: nobody "
                "else could say who may see the others.",
                hint="Serve the libraries of that database by a server of their own.",
            )
        yield used[0] if used else None
