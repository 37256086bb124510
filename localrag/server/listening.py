"""The server on its port: uvicorn over the application, until somebody ends it."""

from __future__ import annotations

import socket
from collections.abc import Callable

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


def run(app: ASGIApp, listening: socket.socket, on_ready: Callable[[], None]) -> None:
    """Serve until SIGINT or SIGTERM, which it raises again once all is closed."""

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            on_ready()

    Server(configured(app)).run(sockets=[listening])
