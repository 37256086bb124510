"""Who may speak to the server: asked before a body is read, in front of every route.

Against a page in the user's browser stand the Host that the browser names (DNS rebinding), the
Origin (a foreign page), the token (another user) and a cookie that no other site's request brings
along (SameSite=Strict). Nothing answers across origins: there is no CORS. Where many people share
a server, each has a token of their own: `people` says whose it is, and `roles` what they may.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from http.cookies import CookieError, SimpleCookie
from typing import Final

import anyio
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from localrag.egress.addresses import is_loopback
from localrag.errors import ForbiddenError, LocalragError, UsageError
from localrag.messages import InterfaceLanguage, spoken
from localrag.server.asker import Asker, asked_by, preferred
from localrag.server.people import People, RefusedError, is_secret, while_allowed
from localrag.server.roles import Least

SHELLS: Final = frozenset({"/", "/view"})
"""Empty pages; whatever is in them is asked for with a token, a cookie or a view's key."""
OPEN: Final = SHELLS | {"/healthz", "/source"}
"""What may be read without a token; the source is due to whoever uses it, by a link too."""
HERE_ONLY: Final = frozenset({"/metrics"})
"""What is told to programs on this machine alone."""

LOCAL_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")
"""As a program on this machine may call the server."""
_DEFAULT_PORTS: Final = {"http": ":80", "https": ":443"}
"""What browsers leave out of Host and Origin."""

Refusal = tuple[int, LocalragError]
"""A status, and why."""
UNKNOWN: Final[Refusal] = 401, ForbiddenError("A valid token is needed.")

LARGEST_BODY = 4 * 2**20
"""Bytes of a request, where its route does not allow more."""
DRAINED, DRAINING = 2 * LARGEST_BODY, 2.0
"""Bytes and seconds of a body that is refused which are still read: a connection that is closed
while its client sends takes the refusal with it."""
LARGEST_HEAD = 32 * 2**10
"""Bytes of all headers of a request."""
SLOWEST_BODY = 30.0
"""Seconds without a byte of a body that was announced."""
SLOWEST_RATE = 8 * 2**10
"""Bytes a second that a body has to come with, once those seconds are over."""

HEADERS: Final = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' blob:; connect-src 'self'; font-src 'self'; manifest-src 'self'; "
    "frame-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for "
    "'script'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""What every response carries."""


@dataclass(frozen=True, slots=True)
class Access:
    """What a request must bring to be answered by the server at `port`.

    The token; or where there are `people` one of theirs, and the server has none.
    """

    token: str
    port: int
    names: tuple[str, ...] = ()
    """What it is called beside the names of this machine: lower case, IPv6 in brackets."""
    tls: bool = False
    proxy: str = ""
    """The origin by which a reverse proxy is called, if one stands in front: then the only one."""
    opens: Callable[[str, str], bool] = lambda path, query: False  # noqa: ARG005
    """Whether a path with this query brings a key of its own."""
    people: People | None = None

    @property
    def origins(self) -> tuple[str, ...]:
        """Where pages of this server come from, as browsers write it; the first is for links."""
        if self.proxy:
            return (self.proxy,)
        scheme = "https" if self.tls else "http"
        return tuple(
            f"{scheme}://{name}:{self.port}".removesuffix(_DEFAULT_PORTS[scheme])
            for name in (*self.names, *LOCAL_NAMES)
        )

    @property
    def is_secure(self) -> bool:
        """Whether browsers speak TLS with it."""
        return self.origins[0].startswith("https:")

    @property
    def cookie(self) -> str:
        """The cookie's name; another server on another port has its own.

        Where people sign in, all servers of one origin are one, whatever their ports.
        """
        if self.people is None:
            return f"localrag-{self.port}"
        return f"localrag-{hashlib.sha256(self.origins[0].encode()).hexdigest()[:12]}"

    @property
    def session(self) -> str:
        """The cookie's value: follows from token and port, neither can be told from it."""
        message = f"session {self.port}".encode()
        return hmac.new(self.token.encode(), message, hashlib.sha256).hexdigest()

    def serves(self, host: str) -> bool:
        """Whether a request that names this host is for this server."""
        scheme, _, _ = self.origins[0].partition("://")
        plain = host.lower().removesuffix(_DEFAULT_PORTS[scheme])
        return f"{scheme}://{plain}" in self.origins

    def refusal(self, scope: Scope, headers: Headers) -> Refusal | None:
        """Status and reason, None for a request that is to be answered."""
        path, reads = scope["path"], scope["method"] in ("GET", "HEAD")
        named = headers.getlist("host")
        if len(named) != 1 or not self.serves(named[0]):
            return 421, UsageError("This server does not answer to that host name.")
        if any(origin not in self.origins for origin in headers.getlist("origin")):
            return 403, ForbiddenError("Requests from other origins are refused.")
        sites = headers.getlist("sec-fetch-site")
        foreign = any(site not in ("same-origin", "none") for site in sites)
        if foreign and not (
            reads and path in SHELLS and headers.get("sec-fetch-mode") == "navigate"
        ):
            return 403, ForbiddenError("Requests from other sites are refused.")
        if path in HERE_ONLY and not self._is_from_here(scope):
            return 403, ForbiddenError("This is told on the server's own machine alone.")
        if self.is_open(scope) or self.people is not None or self._is_known(headers):
            return None
        return UNKNOWN

    def is_open(self, scope: Scope) -> bool:
        """Whether a request is answered whoever sends it."""
        path = scope["path"]
        if scope["method"] not in ("GET", "HEAD"):
            return False
        if path in OPEN or path.startswith("/static/"):
            return True
        return self.opens(path, scope["query_string"].decode("ascii", "replace"))

    def brought(self, headers: Headers) -> tuple[list[str], list[str]]:
        """The tokens that a request brings in a header, and in a cookie."""
        credentials = [header.partition(" ") for header in headers.getlist("authorization")]
        bearers = [value.strip() for kind, _, value in credentials if kind.lower() == "bearer"]
        try:
            cookies = SimpleCookie("; ".join(headers.getlist("cookie")))
        except CookieError:
            return bearers, []
        return bearers, [cookies[self.cookie].value] if self.cookie in cookies else []

    def _is_from_here(self, scope: Scope) -> bool:
        """Whether the request was made on this machine; behind a proxy nobody knows."""
        client = scope.get("client")
        return not self.proxy and (client is None or is_loopback(client[0]))

    def _is_known(self, headers: Headers) -> bool:
        bearers, cookies = self.brought(headers)
        if bearers:
            return is_secret(bearers[0], self.token)
        return bool(cookies) and is_secret(cookies[0], self.session)


class Gate:
    """ASGI middleware: refuses what `Access` refuses, and bounds what a request may send."""

    def __init__(
        self,
        app: ASGIApp,
        access: Access,
        larger: Iterable[str] = (),
        least: Callable[[Scope], Least] = lambda _: "nobody",
    ) -> None:
        """`larger` are paths whose routes bound their bodies themselves.

        `least` is the least role that a request takes, where people sign in.
        """
        self._app = app
        self._access = access
        self._larger = tuple(larger)
        self._least = least

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or hand on."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # there are no WebSockets here
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = Headers(scope=scope)

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                response_headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    response_headers.setdefault(name, value)
            await send(message)

        refusal = _too_long(headers) or self._access.refusal(scope, headers)
        refusal = refusal or self._too_large(scope["path"], headers)
        language = preferred(HTTPConnection(scope))
        if refusal is not None:
            await _refuse(guarded, language, *refusal, partial(_drain, receive))
            return
        most = None if self._is_larger(scope["path"]) else LARGEST_BODY
        bounded = _BoundedReceive(receive, most)
        if self._access.people is None or self._access.is_open(scope):
            await self._app(scope, bounded, guarded)
            return
        people, (bearers, cookies) = self._access.people, self._access.brought(headers)
        find = partial(people.asker, scope, bearers or cookies)
        try:
            person = self._admit(await find(), scope)
            with asked_by(person):
                await while_allowed(
                    find, person, lambda send: self._app(scope, bounded, send), guarded
                )
        except RefusedError as error:
            await _refuse(guarded, language, error.status, error.reason)

    def _admit(self, person: Asker | None, scope: Scope) -> Asker:
        """Who asks, with the role that the request takes. Raises `RefusedError`."""
        if person is None:
            raise RefusedError(*UNKNOWN)
        least = self._least(scope)
        if least == "nobody":
            raise RefusedError(
                403, ForbiddenError("Nobody may do this over HTTP where people share a server.")
            )
        if least == "anybody" or least == "signed in":
            return person
        return replace(person, least=least)

    def _is_larger(self, path: str) -> bool:
        return any(path.startswith(prefix) for prefix in self._larger)

    def _too_large(self, path: str, headers: Headers) -> Refusal | None:
        if "transfer-encoding" in headers and "content-length" in headers:
            # A proxy that goes by the other one sees another end of it (request smuggling).
            return 400, UsageError("The request says twice how long its body is.")
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit() and len(length) <= 20):
            return 400, UsageError("The length of the body is no number.")
        if int(length) > LARGEST_BODY and not self._is_larger(path):
            return 413, _too_large_body()
        return None


def _too_long(headers: Headers) -> Refusal | None:
    """Before anything is read out of them."""
    if sum(len(name) + len(value) for name, value in headers.raw) > LARGEST_HEAD:
        return 431, UsageError("The headers are too long.")
    return None


class TooMuchError(Exception):
    """A body is too large or too slow, with the status that says so."""

    def __init__(self, status: int, reason: LocalragError) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


def _too_large_body() -> LocalragError:
    return UsageError("The body is too large.")


class _BoundedReceive:
    """`receive` that ends a body which is too large or too slow."""

    def __init__(self, receive: Receive, most: int | None) -> None:
        self._receive = receive
        self._most = most
        self._taken = 0
        self._more = True
        self._begun = time.monotonic()

    async def __call__(self) -> Message:
        if not self._more:  # what comes now is that the client is gone
            return await self._receive()
        try:
            with anyio.fail_after(self._patience()):
                message = await self._receive()
        except TimeoutError as error:
            raise TooMuchError(408, UsageError("The body did not come in time.")) from error
        self._taken += len(message.get("body", b""))
        self._more = bool(message.get("more_body", False))
        if self._most is not None and self._taken > self._most:
            if self._more:
                await _drain(self._receive)
            raise TooMuchError(413, _too_large_body())
        return message

    def _patience(self) -> float:
        """Seconds until the next bytes have to be there; a trickle runs out of them."""
        due = self._begun + SLOWEST_BODY + self._taken / SLOWEST_RATE
        return min(SLOWEST_BODY, due - time.monotonic())


async def _drain(receive: Receive) -> None:
    """Read what a client still sends, and leave it."""
    size = 0
    with anyio.move_on_after(DRAINING):
        while size < DRAINED:
            message = await receive()
            size += len(message.get("body", b""))
            if not message.get("more_body", False):  # it is whole, or the client has gone
                return


async def _do_nothing() -> None:
    """What a request without a body of its own leaves to be done."""


async def _refuse(
    send: Send,
    language: InterfaceLanguage,
    status: int,
    reason: LocalragError,
    drained: Callable[[], Awaitable[None]] = _do_nothing,
) -> None:
    """In the form of OpenAI's protocol; what is still sent is read before the connection ends."""
    kind = "authentication_error" if status == 401 else "invalid_request_error"
    code = "invalid_api_key" if status == 401 else None
    details = {"message": spoken(reason, language), "type": kind, "param": None, "code": code}
    body = json.dumps({"error": details}, ensure_ascii=False).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": True})
    await drained()
    await send({"type": "http.response.body", "body": b""})
