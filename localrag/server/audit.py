"""Who asked what of a library and when, for its owners."""

from __future__ import annotations

from dataclasses import dataclass

import anyio
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from localrag.errors import ForbiddenError
from localrag.presentation.records import plain
from localrag.server.asker import asker
from localrag.server.libraries import Libraries
from localrag.server.replies import reply


@dataclass(frozen=True, slots=True)
class Audit:
    """The route below /api/audit."""

    libraries: Libraries

    def routes(self) -> list[Route]:
        """The one there is."""
        return [Route("/api/audit", self.asked)]

    async def asked(self, request: Request) -> Response:
        """What was written down, the newest first; nothing where nobody signs in."""
        name = self.libraries.named(request.query_params.get("library", ""))
        self.libraries.engine(name)
        person = asker()
        try:
            entries = (
                [] if person is None else await anyio.to_thread.run_sync(person.users.asked, name)
            )
        except ForbiddenError as error:  # which names the database
            raise ForbiddenError(
                "This server may only add to the log.",
                hint="Its administrator reads it with `localrag audit`.",
            ) from error
        return reply({"asked": plain(entries[::-1])})
