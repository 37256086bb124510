"""Who asked what of a library and when, for its owners."""

from __future__ import annotations

from dataclasses import dataclass

import anyio
from starlette.requests import Request
from starlette.responses import Response

from localrag.errors import ForbiddenError
from localrag.presentation.records import plain
from localrag.server.asker import asker
from localrag.server.libraries import Libraries
from localrag.server.replies import reply
from localrag.server.routing import Routes, route


@dataclass(frozen=True, slots=True)
class Audit(Routes):
    """The route below /api/audit."""

    libraries: Libraries

    @route("/api/audit")
    async def asked(self, request: Request) -> Response:
        """What was written down, the newest first; nothing where nobody signs in."""
        name = self.libraries.named(request.query_params.get("library", ""))
        self.libraries.engine(name)
        person = asker()
        if person is None:
            return reply({"asked": []})
        try:
            entries = await anyio.to_thread.run_sync(person.users.asked, name)
        except ForbiddenError as error:  # which names the database
            raise ForbiddenError(
                "This server may only add to the log.",
                hint="Its administrator reads it with `localrag audit`.",
            ) from error
        return reply({"asked": plain(entries[::-1])})
