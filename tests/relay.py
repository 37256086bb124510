"""A way to a server that counts how often a client waits for it, and lets it wait longer."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from localrag.egress.databases import read_url


class Relay:
    """Sends on what clients and one server say to each other, each pair in a thread of its own."""

    def __init__(self, address: str | tuple[str, int], delay: float) -> None:
        self.waits = 0
        """Answers so far; what is sent without waiting for the answer before has one with it."""
        self.connections = 0
        self.listening = socket.create_server(("127.0.0.1", 0))
        self._address, self._delay = address, delay
        self._guard = threading.Lock()
        self._threads: list[threading.Thread] = []

    def start(self, act: Callable[..., None], *arguments: object) -> None:
        """Do it in a thread that `close` waits for."""
        self._threads.append(threading.Thread(target=act, args=arguments, daemon=True))
        self._threads[-1].start()

    def accept(self) -> None:
        """Take in clients until the socket is closed."""
        with suppress(OSError):
            while True:
                client, _ = self.listening.accept()
                self.connections += 1
                self.start(self._pass_on, client)

    def close(self) -> None:
        """Take in no more, once those that came have gone."""
        # Closing alone does not wake who waits in `accept`.
        with suppress(OSError):
            self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()
        for thread in self._threads:
            thread.join(10)

    def _pass_on(self, client: socket.socket) -> None:
        # Windows has sockets with an address only.
        family = getattr(socket, "AF_UNIX", None) if isinstance(self._address, str) else None
        question = False
        with client, socket.socket(family or socket.AF_INET) as server:
            server.connect(self._address)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while True:
                for source in select.select([client, server], [], [])[0]:
                    try:
                        data = source.recv(1 << 16)
                    except OSError:
                        data = b""
                    if not data:
                        return
                    if source is server and question:
                        with self._guard:
                            self.waits += 1
                        time.sleep(self._delay)
                    question = source is client
                    with suppress(OSError):  # who is gone is noticed above
                        (server if source is client else client).sendall(data)


@contextmanager
def relayed(postgres: str, *, delay: float = 0.0) -> Iterator[tuple[str, Relay]]:
    """The URL of the same databases by way of a relay, and that relay.

    `delay`: seconds for which the beginning of each answer is held back.
    """
    server = read_url(f"{postgres}#x")
    unix = server.host.startswith("/")
    relay = Relay(
        f"{server.host}/.s.PGSQL.{server.port}" if unix else (server.host, server.port), delay
    )
    relay.start(relay.accept)
    location = replace(server, host="127.0.0.1", port=relay.listening.getsockname()[1])
    try:
        yield str(location).partition("#")[0], relay
    finally:
        relay.close()
