"""Signing in and out in a browser: a token is changed for a cookie that no script can read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypedDict

import anyio
from starlette.requests import Request
from starlette.responses import Response

from localrag.server.access import Access
from localrag.server.asker import asker
from localrag.server.routing import Routes, route

PATH = "/session"


class _CookieAttributes(TypedDict):
    """How the browser keeps the cookie."""

    httponly: bool
    samesite: Literal["strict"]
    secure: bool


@dataclass(frozen=True, slots=True)
class Signing(Routes):
    """The route of the cookie."""

    access: Access

    @property
    def _attributes(self) -> _CookieAttributes:
        return {"httponly": True, "samesite": "strict", "secure": self.access.is_secure}

    @route(PATH, "POST")
    async def begin(self, request: Request) -> Response:
        """The cookie for a page that brought a token."""
        response, person = Response(status_code=204), asker()
        session = self.access.session
        if person is not None:
            bearers, _ = self.access.brought(request.headers)
            if not bearers or person.by_proxy:  # whoever has a cookie, or needs none
                return response
            session = await anyio.to_thread.run_sync(person.users.begin_session, bearers[0])
        response.set_cookie(self.access.cookie, session, **self._attributes)
        return response

    @route(PATH, "DELETE")
    async def end(self, request: Request) -> Response:
        """Let the session end for which the cookie stands."""
        response, person = Response(status_code=204), asker()
        if person is not None and self.access.people is not None:
            for session in self.access.brought(request.headers)[1]:
                await anyio.to_thread.run_sync(person.users.end_session, session)
            self.access.people.forget()
        response.delete_cookie(self.access.cookie, **self._attributes)
        return response
