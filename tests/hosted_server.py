"""A chat server in this process that localrag takes for one on another machine."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import http_server
import pytest
from http_server import Exchange, asked_text, chat

HOST = "models.example"


@dataclass
class Hosted:
    """`bodies` are the requests as they came; `reply` makes an answer from the messages."""

    url: str = ""
    bodies: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    reply: Callable[[str], str] = lambda prompt: "An answer. [1]"
    status: int = 200
    remote_hosts: dict[str, str] = field(default_factory=dict)

    @property
    def heard(self) -> str:
        """All that ever came."""
        return "\n".join(asked_text(json.loads(body)) for body in self.bodies)


@contextmanager
def serving(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hosted]:
    """Serve under a name that is not loopback and leads to it all the same."""
    state = Hosted()

    def respond(exchange: Exchange) -> None:
        state.bodies.append(exchange.heard.body)
        state.headers.append(exchange.heard.headers)
        if state.status == 200:
            chat(lambda request: state.reply(asked_text(request)))(exchange)
        else:
            # It repeats what it was sent, the key too.
            http_server.error(state.status, f"no: {exchange.heard.headers}")(exchange)

    resolve = socket.getaddrinfo

    def getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> Any:
        return resolve("127.0.0.1" if host == HOST else host, *args, **kwargs)

    monkeypatch.setattr("socket.getaddrinfo", getaddrinfo)
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    with http_server.serving(respond) as server:
        server.remote_hosts = state.remote_hosts
        state.url = f"http://{HOST}:{server.server_port}/v1"
        yield state
