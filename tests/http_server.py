"""The one HTTP server of the tests: it answers as a function says and keeps what it heard.

    with serving(chat(lambda asked: "Yes")) as server:
        ...  # server.url, server.requests

A `Respond` is given the exchange and may do what servers do, well or badly: send, redirect,
compress, cut a reply off, let it drip, stream events, fall silent. Knows nothing of localrag.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True)
class Request:
    """What a client sent."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        record: dict[str, Any] = json.loads(self.body)
        return record


class Exchange(BaseHTTPRequestHandler):
    """One request and the ways to answer it."""

    protocol_version = "HTTP/1.1"
    server: Server
    heard: Request

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length)
        if len(body) < length:  # as a client does that is killed while it sends
            raise ConnectionResetError(f"{len(body)} of {length} bytes came")
        self.heard = Request(self.command, self.path, dict(self.headers), body)
        if self.path == "/api/show":
            self._show()
            return
        self.server.requests.append(self.heard)
        self.server.respond(self)

    def _show(self) -> None:
        """Say of a model what Ollama says, if the test made it one: that is no traffic to keep."""
        remote = self.server.remote_hosts
        model = self.heard.json["model"]
        if model in remote:
            record = {"remote_host": remote[model], "remote_model": "big", "details": {}}
            self.send(json.dumps(record), kind="application/json")
        else:
            self.send(status=404)

    do_GET = do_HEAD = do_POST = do_CONNECT = _answer  # noqa: N815

    def send(
        self, data: bytes | str = b"", status: int = 200, kind: str = "text/plain", **headers: str
    ) -> None:
        """A whole reply. An underscore in a header's name stands for a hyphen."""
        data = data.encode() if isinstance(data, str) else data
        self.begin(status, Content_Type=kind, Content_Length=str(len(data)), **headers)
        if self.command != "HEAD":
            self.wfile.write(data)

    def begin(self, status: int = 200, **headers: str) -> None:
        """Status and headers; a reply without a length ends with the connection."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if not {"Content_Length", "Transfer_Encoding"} & headers.keys():
            self.send_header("Connection", "close")
        self.end_headers()

    def write(self, data: bytes) -> bool:
        """Send a part at once; whether the client is still there."""
        try:
            self.wfile.write(data)
            self.wfile.flush()
        except OSError:
            return False
        return True

    def log_message(self, *_: object) -> None:
        """Say nothing."""


Respond = Callable[[Exchange], None]


class Server(ThreadingHTTPServer):
    """`respond` may be changed while it runs; `requests` are in the order in which they came."""

    daemon_threads = True
    request_queue_size = 128
    """Connections that wait to be taken in: a busy machine is slow to, and refuses those beyond."""

    def __init__(self, respond: Respond) -> None:
        super().__init__(("127.0.0.1", 0), Exchange)
        self.respond = respond
        self.requests: list[Request] = []
        self.faults: list[BaseException] = []
        self.remote_hosts: dict[str, str] = {}
        """By model, where it is handed on to; of others /api/show knows nothing."""
        self.url = f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, *_: object) -> None:
        """A client that hangs up is part of the tests; a mistake in `respond` is not."""
        error = sys.exception()
        if error is not None and not isinstance(error, OSError):
            self.faults.append(error)


@contextmanager
def serving(respond: Respond) -> Iterator[Server]:
    """A running server on a port that the system chose. Raises what went wrong in `respond`."""
    server = Server(respond)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    if server.faults:
        raise server.faults[0]


# Ways to answer


def body(data: bytes, status: int = 200, kind: str = "application/json", **headers: str) -> Respond:
    return lambda exchange: exchange.send(data, status, kind, **headers)


def error(status: int, message: str = "no", **headers: str) -> Respond:
    """An error as OpenAI's protocol has it."""
    return body(json.dumps({"error": {"message": message}}).encode(), status, **headers)


def reply(text: str, *, finish: str = "stop", **extra: object) -> Respond:
    """A whole chat completion."""
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return body(json.dumps({"choices": [choice], **extra}).encode())


def delta(text: str | None = None, finish: str | None = None) -> bytes:
    """One event of a streamed chat completion."""
    content = {} if text is None else {"content": text}
    choice = {"index": 0, "delta": content, "finish_reason": finish}
    return f"data: {json.dumps({'choices': [choice]}, ensure_ascii=False)}\n\n".encode()


def events(
    *parts: bytes, pause: float = 0.0, kind: str = "text/event-stream", chunked: bool = True
) -> Respond:
    """A stream of events, `pause` seconds apart, to its end or until the client hangs up.

    In chunks it ends as a server that died does, unless the last part is empty.
    """

    def respond(exchange: Exchange) -> None:
        if chunked:
            exchange.begin(Content_Type=kind, Transfer_Encoding="chunked")
        else:
            exchange.begin(Content_Type=kind)
        for part in parts:
            if not exchange.write(b"%x\r\n%s\r\n" % (len(part), part) if chunked else part):
                break
            time.sleep(pause)
        exchange.close_connection = True

    return respond


def chat(say: Callable[[dict[str, Any]], str]) -> Respond:
    """OpenAI's protocol: `say` makes the text from the request, streamed where that was asked."""

    def respond(exchange: Exchange) -> None:
        if exchange.command != "POST":
            exchange.send(status=404)
            return
        request = exchange.heard.json
        text = say(request)
        if request.get("stream"):
            pieces = [delta(text[start : start + 5]) for start in range(0, len(text), 5)]
            events(*pieces, delta(None, "stop"), DONE, b"")(exchange)
        else:
            reply(text)(exchange)

    return respond


def asked_text(request: dict[str, Any]) -> str:
    """All messages of a request, one below the other."""
    return "\n".join(message["content"] for message in request["messages"])


def allowed_answers(request: dict[str, Any]) -> list[str]:
    """The answers among which a request has the model choose; none where it may write."""
    schema = request.get("response_format", {}).get("json_schema", {}).get("schema", {})
    choices: list[str] = schema.get("properties", {}).get("answer", {}).get("enum", [])
    return choices
