"""The server on its port: uvicorn over the application, until somebody ends it."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import cast

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from localrag.errors import LocalragError, UsageError
from localrag.server.access import HEADERS
from localrag.server.endpoint import ServerEntry, unix_listener

GRACE = 8
"""Seconds that answers under way have once the server is told to end."""
LAST = 9.5
"""Seconds after which it ends whatever is under way."""
SLOWEST_HEAD = 30.0
"""Seconds from a connection, or from the end of an answer, to all headers of the next request.

Also those in which who is answered has to have read something of what waits for it.
"""
MOST_CONNECTIONS = 400
"""At once; those beyond are closed. A process may often have no more than 1,024 files open."""


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens there. Raises `UsageError` where that is not possible."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        if sys.platform == "win32":  # where the other one lets any program take the port over
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
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


@contextmanager
def on_socket(path: Path) -> Iterator[socket.socket]:
    """A Unix socket that listens at `path` while the block lasts.

    It is for this account and the group of the socket, as a setgid folder gives it its own. What a
    server that was killed has left there is deleted. Raises `UsageError`.
    """
    try:
        listening = _open_listener(path)
    except OSError as error:
        raise _unusable_socket(path, error.strerror or error) from error
    own = _mark(path)
    try:
        yield listening
    finally:
        listening.close()
        # Which may have been closed before, so that the next server has made its own there by now.
        with suppress(FileNotFoundError):
            if _mark(path) == own:
                path.unlink()


def _mark(path: Path) -> tuple[int, int, int]:
    """What tells one socket from another at the same path; a number alone may come again."""
    status = path.lstat()
    return status.st_dev, status.st_ino, status.st_mtime_ns


def _open_listener(path: Path) -> socket.socket:
    if not hasattr(socket, "AF_UNIX"):
        raise _unusable_socket(path, LocalragError("this system has no Unix sockets"))
    if path.parent.stat().st_mode & stat.S_IWOTH:
        raise _unusable_socket(path, LocalragError("others could put a socket of their own there"))
    if path.is_socket():
        try:
            ServerEntry(path).connect(1).close()
        except ConnectionRefusedError:
            path.unlink()
    return unix_listener(path, 0o660)


def _unusable_socket(path: Path, reason: object) -> UsageError:
    return UsageError(
        "The server cannot listen on the socket {path}: {reason}.",
        hint="Give a path of at most a hundred characters, in a folder that only this account and "
        "the proxy's group can write to.",
        path=path,
        reason=reason,
    )


class _Protocol(H11Protocol):
    """HTTP that waits neither for a request nor for the rest of one without end."""

    _waiting: asyncio.TimerHandle | None = None
    _unread = sys.maxsize

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.close()
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._waiting is not None:
            self._waiting.cancel()

    def _watch(self) -> None:
        """Have the clock run while no request is being answered, or nobody reads the answer."""
        answering = self.cycle is not None and not self.cycle.response_complete
        if answering and not self.flow.write_paused:
            if self._waiting is not None:
                self._waiting.cancel()
                self._waiting = None
        elif self._waiting is None and not self.transport.is_closing():
            self._unread = sys.maxsize
            self._wait()

    def _wait(self) -> None:
        self._waiting = self.loop.call_later(SLOWEST_HEAD, self._give_up)

    def _give_up(self) -> None:
        unread = self.transport.get_write_buffer_size()
        if 0 < unread < self._unread:  # a slow line, on which an answer still is
            self._unread = unread
            self._wait()
        else:
            self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        """To what is no HTTP, with the headers of every other answer."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True  # its answer cannot be sent any more
            self.cycle.message_event.set()
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):  # amid an answer
            self.transport.close()
            return
        headers = {**HEADERS, "content-type": "text/plain; charset=utf-8", "connection": "close"}
        lines = [(name.encode(), value.encode()) for name, value in headers.items()]
        for event in (
            h11.Response(status_code=400, headers=lines, reason=b"Bad Request"),
            h11.Data(data=msg.encode("ascii")),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


def configured(app: ASGIApp, tls: ssl.SSLContext | None = None) -> uvicorn.Config:
    """How uvicorn serves it."""
    config = uvicorn.Config(
        app,
        access_log=False,  # paths would name documents
        log_config=None,
        server_header=False,
        date_header=False,
        lifespan="on",
        ws="none",
        http=_Protocol,
        loop="asyncio",
        timeout_keep_alive=30,
        timeout_graceful_shutdown=GRACE,
        h11_max_incomplete_event_size=64 * 1024,
        proxy_headers=False,
    )
    config.load()
    config.ssl = tls
    return config


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
        self._last: threading.Timer | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen."""
        await super().startup(sockets)
        if self._commands is not None:
            app, listening = self._commands
            config = configured(app)
            protocol = partial(
                cast(Callable[..., asyncio.Protocol], config.http_protocol_class),
                config=config,
                server_state=self.server_state,
                app_state=self.lifespan.state,
            )
            loop = asyncio.get_running_loop()
            self.servers.append(await loop.create_server(protocol, sock=listening))
        self._on_ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End, at last without the threads that do not hear of it: what is stored loses nothing."""
        if self._last is None:
            self._last = threading.Timer(LAST, os._exit, (128 + sig,))
            self._last.daemon = True
            self._last.start()
        super().handle_exit(sig, frame)

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until it is told to end; whoever called it may go on."""
        try:
            super().run(sockets)
        finally:
            if self._last is not None:
                self._last.cancel()


def run(
    app: ASGIApp,
    listening: socket.socket,
    on_ready: Callable[[], None],
    commands: tuple[ASGIApp, socket.socket] | None = None,
    tls: ssl.SSLContext | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM, which it raises again once all is closed."""
    Server(configured(app, tls), on_ready, commands).run(sockets=[listening])


@contextmanager
def in_thread(
    app: ASGIApp, listening: socket.socket, tls: ssl.SSLContext | None = None
) -> Iterator[None]:
    """Serve in a thread until the block ends, which closes the application and the socket."""
    server = uvicorn.Server(configured(app, tls))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    with listening:
        thread.start()
        try:
            while not server.started:
                if not thread.is_alive():
                    raise RuntimeError("the server did not start")
                time.sleep(0.01)
            yield
        finally:
            server.should_exit = True
            thread.join()
