"""A chat server in this process that localrag takes for one on another machine."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

HOST = "models.example"


@dataclass
class Hosted:
    """`bodies` are the requests as they came; `reply` makes an answer from the messages."""

    url: str = ""
    bodies: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    reply: Callable[[str], str] = lambda prompt: "An answer. [1]"
    status: int = 200

    @property
    def heard(self) -> str:
        """All that ever came."""
        return "\n".join(
            message["content"] for body in self.bodies for message in json.loads(body)["messages"]
        )


@contextmanager
def serving(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hosted]:
    """Serve under a name that is not loopback and leads to it all the same."""
    state = Hosted()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            state.bodies.append(body)
            state.headers.append(dict(self.headers))
            given = json.loads(body)
            text = state.reply("\n".join(one["content"] for one in given["messages"]))
            self.send_response(state.status)
            if state.status != 200:
                data = json.dumps({"error": {"message": f"no: {dict(self.headers)}"}}).encode()
            elif given["stream"]:
                self.send_header("Content-Type", "text/event-stream")
                pieces: list[dict[str, Any]] = [
                    {"delta": {"content": text[start : start + 5]}}
                    for start in range(0, len(text), 5)
                ]
                pieces.append({"delta": {}, "finish_reason": "stop"})
                events = [f"data: {json.dumps({'choices': [piece]})}\n\n" for piece in pieces]
                data = "".join([*events, "data: [DONE]\n\n"]).encode()
            else:
                choice = {"message": {"content": text}, "finish_reason": "stop"}
                data = json.dumps({"choices": [choice]}).encode()
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://{HOST}:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    resolve = socket.getaddrinfo

    def getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> Any:
        return resolve("127.0.0.1" if host == HOST else host, *args, **kwargs)

    monkeypatch.setattr("socket.getaddrinfo", getaddrinfo)
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
