"""The server on its port: uvicorn over the application, until somebody ends it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from functools import partial
from typing import cast

import uvicorn
from starlette.types import ASGIApp

from localrag.errors import UsageError

GRACE = 8
"""Seconds that answers under way have once the server is told to end; it is gone within ten."""


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens there. Raises `UsageError` where that is not possible."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(128)
    except OSError as error:
        listening.close()
        raise UsageError(
            "The server cannot listen on {host}:{port}: {reason}.",
            hint="Another program may use that port: choose one with --port.",
            host=host,
            port=port,
            reason=error.strerror or error,
        ) from error
    return listening


def configured(app: ASGIApp) -> uvicorn.Config:
    """How uvicorn serves it."""
    return uvicorn.Config(
        app,
        access_log=False,  # paths would name documents
        log_config=None,
        server_header=False,
        date_header=False,
        lifespan="on",
        ws="none",
        http="h11",
        loop="asyncio",
        timeout_keep_alive=30,
        timeout_graceful_shutdown=GRACE,
        h11_max_incomplete_event_size=64 * 1024,
        proxy_headers=False,
    )


class Server(uvicorn.Server):
    """Tells when it is ready, and listens for commands, too: by an application of its own."""

    def __init__(
        self,
        config: uvicorn.Config,
        on_ready: Callable[[], None],
        commands: tuple[ASGIApp, socket.socket] | None = None,
    ) -> None:
        super().__init__(config)
        self._on_ready = on_ready
        self._commands = commands

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen."""
        await super().startup(sockets)
        if self._commands is not None:
            app, listening = self._commands
            config = configured(app)
            config.load()
            protocol = partial(
                cast(Callable[..., asyncio.Protocol], config.http_protocol_class),
                config=config,
                server_state=self.server_state,
                app_state=self.lifespan.state,
            )
            loop = asyncio.get_running_loop()
            self.servers.append(await loop.create_server(protocol, sock=listening))
        self._on_ready()


def run(
    app: ASGIApp,
    listening: socket.socket,
    on_ready: Callable[[], None],
    commands: tuple[ASGIApp, socket.socket] | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM, which it raises again once all is closed."""
    Server(configured(app), on_ready, commands).run(sockets=[listening])
