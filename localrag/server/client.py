"""Talking to a running server of the same user: found, proven, then asked. Imports little."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse

import msgspec

from localrag import __version__
from localrag.server.calls import CALL, HELLO, PING, Call, CallResult, FailedCall, Hello, Told
from localrag.server.endpoint import ServerEntry
from localrag.server.setups import Difference, Setup

HOST = "localrag"
"""By this name commands call a server; no browser does."""
_PATIENCE = 5.0
"""Seconds in which a server must say who it is: it may be busy."""
_LARGEST_HELLO = 4096
_LARGEST_EVENT = 256 * 2**20
_DATA = b"data: "
"""Begins the line of an event; a sign of life is a comment, as in `: ping`."""
_decoder = msgspec.json.Decoder(Told)


class GoneError(Exception):
    """The server is not there any more, has nothing to say, or is none of this user's."""


class UnprovenError(GoneError):
    """Whoever listens there does not prove that they know this user's token."""


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server of this user; what it is told goes to whoever proves that they know the token."""

    endpoint: ServerEntry
    token: str

    def difference(self, setup: Setup) -> Difference | None:
        """In what it differs from `setup`, so that its results might, too. Raises `GoneError`."""
        with _faults(), closing(_Connection(self.endpoint)) as connection:
            if connection.proven(self.token) != __version__:
                return "version"
            response = connection.answer(Call(what="compare", setup=setup), self.token)
            return _difference(response)

    def told(self, call: Call) -> Generator[Told]:
        """What the server tells, up to the result. Closing the iterator stops it.

        Raises `GoneError` where there is no result.
        """
        with _faults(), closing(_Connection(self.endpoint)) as connection:
            if connection.proven(self.token) != __version__:
                raise GoneError("another server")
            response = connection.answer(call, self.token)
            if _difference(response) is not None:
                raise GoneError("changed")
            connection.wait(3 * PING)
            while line := response.readline(_LARGEST_EVENT):
                if not line.startswith(_DATA):
                    continue
                event: Told = _decoder.decode(line.removeprefix(_DATA))
                if isinstance(event, FailedCall):
                    raise GoneError("failed")
                yield event
                if isinstance(event, CallResult):
                    return
            raise GoneError("ended")


class _Connection:
    """HTTP over one connection, which is never opened again to whoever may listen there then."""

    def __init__(self, endpoint: ServerEntry) -> None:
        self._endpoint = endpoint
        self._socket = endpoint.connect(_PATIENCE)
        self._http = HTTPConnection(HOST)
        self._http.sock = self._socket
        self._http.auto_open = 0

    def close(self) -> None:
        self._http.close()
        self._socket.close()

    def wait(self, seconds: float) -> None:
        """From now on so many seconds of silence are borne."""
        self._socket.settimeout(seconds)

    def proven(self, token: str) -> str:
        """The server's version. Raises `UnprovenError`."""
        nonce = secrets.token_hex(16)
        self._http.request("GET", f"{HELLO}?nonce={nonce}")
        response = self._http.getresponse()
        hello = msgspec.json.decode(response.read(_LARGEST_HELLO), type=Hello)
        proof = self._endpoint.proof(token, nonce, hello.version)
        if response.status != 200 or not hmac.compare_digest(hello.proof.encode(), proof.encode()):
            raise UnprovenError("unproven")
        return hello.version

    def answer(self, call: Call, token: str) -> HTTPResponse:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._http.request("POST", CALL, msgspec.json.encode(call), headers)
        return self._http.getresponse()


def _difference(response: HTTPResponse) -> Difference | None:
    if response.status == 200:
        return None
    if response.status != 409:
        raise GoneError(str(response.status))
    return msgspec.json.decode(response.read(_LARGEST_HELLO), type=Difference)  # type: ignore[no-any-return]


@contextmanager
def _faults() -> Iterator[None]:
    """Whatever goes wrong on the way, as one error."""
    try:
        yield
    except (OSError, HTTPException, msgspec.MsgspecError, ValueError) as error:
        raise GoneError(str(error)) from error
