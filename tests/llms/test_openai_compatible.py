"""The adapter against a server that misbehaves on purpose."""

from __future__ import annotations

import gzip
import threading
import time
import tracemalloc
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path

import pytest
from http_server import DONE, Exchange, Respond, body, delta, error, events, reply, serving

from localrag.egress import network
from localrag.egress.audit import AuditLog
from localrag.egress.redaction import Redactor
from localrag.errors import (
    BackendError,
    ConfigError,
    ContextOverflowError,
    NetworkBlockedError,
    StoppedError,
)
from localrag.models.llms.base import Options
from localrag.models.llms.openai.guard import Guard
from localrag.models.llms.openai.model import OpenAICompatibleModel
from localrag.types import Message

CHAT = [Message("system", "Be brief."), Message("user", "水壶在哪里？")]
KEY = "sk-very-secret"


@dataclass
class Server:
    """`script` says how each request is answered, in order; `requests` holds their bodies."""

    url: str = ""
    script: list[Respond] = field(default_factory=list)
    requests: list[Mapping[str, object]] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)

    models: list[OpenAICompatibleModel] = field(default_factory=list)

    def model(self, **options: object) -> OpenAICompatibleModel:
        defaults = {"timeout_seconds": 60.0} | options
        self.models.append(OpenAICompatibleModel(self.url, "tiny", **defaults))  # type: ignore[arg-type]
        return self.models[-1]


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server()

    def respond(exchange: Exchange) -> None:
        state.requests.append(exchange.heard.json)
        state.headers.append(exchange.heard.headers)
        state.script.pop(0)(exchange)

    with serving(respond) as running:
        state.url = f"{running.url}/v1"
        yield state
        for model in state.models:
            model.close()


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    import tenacity

    monkeypatch.setattr(tenacity, "wait_random_exponential", lambda **_: lambda _state: 0.01)


# -- what is sent and what comes back -----------------------------------------------


def test_a_plain_completion(server: Server) -> None:
    usage = {"prompt_tokens": 21, "completion_tokens": 3}
    server.script = [reply("在炉子上。", usage=usage)]
    completion = server.model(api_key=KEY).complete(CHAT, Options(max_tokens=9))
    assert (completion.text, completion.prompt_tokens, completion.completion_tokens) == (
        "在炉子上。",
        21,
        3,
    )
    assert completion.finish_reason == "stop"
    assert server.requests == [
        {
            "model": "tiny",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "水壶在哪里？"},
            ],
            "temperature": 0.0,
            "stream": False,
            "max_tokens": 9,
        }
    ]
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"


def test_a_salt_keeps_what_a_server_has_read_apart(server: Server) -> None:
    server.script = [reply("Yes"), reply("Yes")]
    server.model(cache_salt="one").complete(CHAT, Options())
    server.model().complete(CHAT, Options())
    assert server.requests[0]["cache_salt"] == "one"
    assert "cache_salt" not in server.requests[1]


@pytest.mark.parametrize("status", [400, 422])
def test_a_server_that_knows_no_salt_is_asked_without(server: Server, status: int) -> None:
    server.script = [error(status, "Unknown parameter: 'cache_salt'."), reply("Yes"), reply("No")]
    model = server.model(cache_salt="one")
    assert model.complete(CHAT, Options()).text == "Yes"
    assert model.complete(CHAT, Options()).text == "No"
    assert ["cache_salt" in request for request in server.requests] == [True, False, False]
    server.script = [error(status, "Unknown parameter: 'messages'.")]
    with pytest.raises(BackendError):
        server.model(cache_salt="one").complete(CHAT, Options())


def test_a_thought_that_the_template_opened_is_no_part_of_the_reply(server: Server) -> None:
    server.script = [reply("The answer may be No.</think>\n\nYes")]
    assert server.model().complete(CHAT, Options()).text == "Yes"


def test_without_usage_the_tokens_are_estimated(server: Server) -> None:
    server.script = [reply("<think>hm</think>Yes", finish="length")]
    model = server.model()
    completion = model.complete(CHAT, Options(max_tokens=0, temperature=0.5, seed=7))
    assert (completion.text, completion.finish_reason) == ("Yes", "length")
    assert completion.prompt_tokens == model.count_prompt_tokens(CHAT)
    assert completion.completion_tokens == 1
    assert "max_tokens" not in server.requests[0]
    assert server.requests[0]["seed"] == 7
    assert "Authorization" not in server.headers[0]


def test_the_estimate_is_rather_too_high(server: Server) -> None:
    model = server.model()
    assert model.count_tokens("") == 0
    assert model.count_tokens("水壶在炉子上。") == 7
    assert model.count_tokens("The kettle stands on the stove.") == 11


@pytest.mark.parametrize("status", [400, 422, 500])
def test_a_schema_falls_back_to_the_form_that_llama_cpp_knows(server: Server, status: int) -> None:
    schema = {"type": "object"}
    server.script = [error(status, "unknown response_format"), reply("{}")]
    assert server.model().complete(CHAT, Options(schema=schema)).text == "{}"
    first, second = (request["response_format"] for request in server.requests)
    assert first["type"] == "json_schema"  # type: ignore[index]
    assert first["json_schema"]["schema"] == schema  # type: ignore[index]
    assert second == {"type": "json_object", "schema": schema}


def test_a_form_that_the_server_refuses_by_name_is_not_tried_again(server: Server) -> None:
    options = Options(schema={"type": "object"})
    model = server.model()
    server.script = [error(500, "response_format: unknown"), reply("{}"), reply("{}")]
    for _ in range(2):
        model.complete(CHAT, options)
    assert forms(server) == ["json_schema", "json_object", "json_object"]


def test_a_form_is_tried_again_where_something_else_went_wrong(server: Server) -> None:
    options = Options(schema={"type": "object"})
    model = server.model()
    server.script = [error(422, "no such model"), reply("{}"), reply("{}")]
    for _ in range(2):
        model.complete(CHAT, options)
    assert forms(server) == ["json_schema", "json_object", "json_schema"]


def forms(server: Server) -> list[str]:
    return [request["response_format"]["type"] for request in server.requests]  # type: ignore[index]


def test_a_proxy_is_never_asked_for_this_machine(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    server.script = [reply("Yes")]
    assert server.model(max_retries=0).complete(CHAT, Options()).text == "Yes"


# -- streaming ------------------------------------------------------------------------


def test_a_stream_with_comments_pieces_of_characters_and_odd_lines(server: Server) -> None:
    text = delta("在炉子\u2028上")
    server.script = [
        events(
            b": keep-alive\r\n\r\n",
            delta(),
            delta("<thi"),
            delta("nk>hm</think>"),
            text[:41],
            text[41:],
            b"\ndata:\n\n",
            b'event: message\ndata: {"choices":\ndata: [{"delta": {"content": "!"}}]}\n\n',
            delta(None, "stop"),
            b'data: {"choices": [], "usage": {"prompt_tokens": 3}}\n\n',
            DONE,
            b"",
        )
    ]
    assert "".join(server.model().stream(CHAT, Options())) == "在炉子\u2028上!"
    assert server.requests[0]["stream"] is True


@pytest.mark.parametrize("last", [DONE, delta(None, "length")], ids=["done", "finish_reason"])
def test_either_end_mark_ends_a_stream(server: Server, last: bytes) -> None:
    server.script = [events(delta("Yes"), last, b"")]
    assert list(server.model().stream(CHAT, Options())) == ["Yes"]


@pytest.mark.parametrize("tail", [(), (b"",)], ids=["connection lost", "ended early"])
def test_a_stream_that_is_cut_says_so_after_what_came(
    server: Server, tail: tuple[bytes, ...]
) -> None:
    server.script = [events(delta("In the"), *tail)]
    stream = server.model().stream(CHAT, Options())
    assert next(stream) == "In the"
    with pytest.raises(BackendError, match="cut off"):
        next(stream)
    assert len(server.requests) == 1


def test_a_closed_stream_closes_the_connection(server: Server) -> None:
    server.script = [events(*[delta("word ")] * 500, pause=0.01), reply("again")]
    model = server.model()
    stream = model.stream(CHAT, Options())
    assert next(stream) == "word "
    stream.close()  # type: ignore[attr-defined]
    assert model.complete(CHAT, Options()).text == "again"


@pytest.mark.parametrize(
    ("respond", "message"),
    [
        (events(b"data: {oops\n\n", b""), "not a chat completion"),
        (events(b'data: "text"\n\n', b""), "not a chat completion"),
        (events(b'data: {"choices": [3]}\n\n', b""), "not a chat completion"),
        (events(delta("x"), kind="text/html"), "Content-Type: text/html"),
        (events(b'data: {"error": {"message": "out of memory"}}\n\n', b""), "out of memory"),
        (error(500, "boom"), "boom"),
    ],
)
def test_a_stream_of_something_else(server: Server, respond: Respond, message: str) -> None:
    server.script = [respond]
    with pytest.raises(BackendError, match=message):
        list(server.model(max_retries=0).stream(CHAT, Options()))


# -- retries --------------------------------------------------------------------------


def drop(exchange: Exchange) -> None:
    exchange.close_connection = True


@pytest.mark.parametrize("first", [error(500, "x"), error(503, "x"), error(429, "x"), drop])
@pytest.mark.parametrize("streamed", [False, True])
def test_a_passing_failure_is_tried_again(server: Server, first: Respond, streamed: bool) -> None:
    server.script = [first, events(delta("Yes"), DONE, b"") if streamed else reply("Yes")]
    model = server.model(max_retries=1)
    if streamed:
        assert list(model.stream(CHAT, Options())) == ["Yes"]
    else:
        assert model.complete(CHAT, Options()).text == "Yes"


def test_patience_ends(server: Server) -> None:
    server.script = [error(503, f"attempt {number}") for number in range(9)]
    with pytest.raises(BackendError, match="attempt 2"):
        server.model(max_retries=2).complete(CHAT, Options())
    assert len(server.requests) == 3


@pytest.mark.parametrize("form", ["seconds", "date"])
def test_the_wait_that_the_server_asks_for_is_kept(
    server: Server, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = list[float | None]()

    class Stopped(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waits.append(timeout)
            return False

    monkeypatch.setattr("localrag.models.llms.openai.model.LONGEST_PAUSE", 400.0)
    value = "25" if form == "seconds" else formatdate(time.time() + 300, usegmt=True)
    server.script = [error(429, "slow down", Retry_After=value), events(delta("Yes"), DONE, b"")]
    assert "".join(server.model().for_call(Stopped(), None).stream(CHAT, Options())) == "Yes"
    (waited,) = waits
    assert waited == 25 if form == "seconds" else 200 < (waited or 0) <= 300


@pytest.mark.parametrize("value", ["soon", "-1", "²"])
def test_a_wait_that_nobody_understands_is_ignored(server: Server, value: str) -> None:
    server.script = [error(429, "slow down", Retry_After=value.encode().decode("latin-1"))]
    server.script.append(reply("Yes"))
    assert server.model().complete(CHAT, Options()).text == "Yes"


@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 422])
def test_a_refusal_is_not_tried_again(server: Server, status: int) -> None:
    server.script = [error(status, "no such thing"), reply("never")]
    with pytest.raises(BackendError, match=rf"status {status}\): no such thing"):
        server.model().complete(CHAT, Options())
    assert len(server.requests) == 1


# -- what a person is told ------------------------------------------------------------


def test_the_key_is_shown_nowhere(server: Server) -> None:
    server.script = [error(401, f"Incorrect API key provided: {KEY}.")]
    model = server.model(api_key=KEY)
    with pytest.raises(BackendError) as failure:
        model.complete(CHAT, Options())
    assert "Incorrect API key provided: ***." in str(failure.value)
    assert "API key in the environment" in str(failure.value)
    assert KEY not in str(failure.value) + repr(failure.value) + repr(model) + model.name


def test_a_prompt_that_is_too_long_for_the_server(server: Server) -> None:
    server.script = [error(400, "This model's maximum context length is 2048 tokens.")]
    with pytest.raises(ContextOverflowError, match="2048"):
        server.model().complete(CHAT, Options())


@pytest.mark.parametrize(
    ("respond", "message"),
    [
        (body(b"<html>Sign in</html>", kind="text/html"), "not a chat completion: <html>Sign in"),
        (body(b'{"choices": ['), "not a chat completion"),
        (body(b"[]"), "not a chat completion"),
        (body(b'{"choices": []}'), "not a chat completion: {'choices': "),
        (body(b'{"choices": [{"message": {"content": null}}]}'), "not a chat completion"),
        (body(b'{"choices": "none"}'), "not a chat completion"),
        (body(b""), "not a chat completion: -"),
        (body(b"\xff\xfe\x00"), "not a chat completion"),
        (body(b'{"error": {"message": "no such model"}}'), "no such model"),
    ],
)
def test_a_reply_that_is_none(server: Server, respond: Respond, message: str) -> None:
    server.script = [respond]
    with pytest.raises(BackendError, match=message):
        server.model().complete(CHAT, Options())


def test_a_huge_error_body_is_shortened(server: Server) -> None:
    server.script = [body(b"x" * 5_000_000, status=400, kind="text/plain")]
    with pytest.raises(BackendError) as failure:
        server.model().complete(CHAT, Options())
    assert len(str(failure.value)) < 700
    assert "xxx…" in str(failure.value)


def test_an_endless_reply_is_given_up(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("localrag.models.llms.openai.model._REPLY_BYTES", 1000)
    server.script = [body(b" " * 5_000_000)]
    with pytest.raises(BackendError, match="more than 1000 bytes"):
        server.model().complete(CHAT, Options())


@pytest.mark.parametrize("piece", [delta("x "), b": still here", b"data: " + b"x" * 10_000])
def test_an_endless_stream_is_given_up(
    server: Server, monkeypatch: pytest.MonkeyPatch, piece: bytes
) -> None:
    monkeypatch.setattr("localrag.models.llms.openai.model._STREAM_BYTES", 100_000)
    server.script = [events(*[piece] * 10_000)]
    with pytest.raises(BackendError, match="more than 100000 bytes"):
        list(server.model().stream(CHAT, Options()))


@pytest.mark.parametrize("layers", [1, 2])
def test_a_packed_reply_is_unpacked_a_little_at_a_time(server: Server, layers: int) -> None:
    compressed = bytes(100_000_000)
    for _ in range(layers):
        compressed = gzip.compress(compressed, 1)
    server.script = [body(compressed, Content_Encoding=", ".join(["gzip"] * layers))]
    tracemalloc.start()
    try:
        with pytest.raises(BackendError):
            server.model(max_retries=0).complete(CHAT, Options())
        assert tracemalloc.get_traced_memory()[1] < 60_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("streamed", [False, True])
def test_a_server_that_falls_silent(server: Server, streamed: bool) -> None:
    asleep = threading.Event()

    def sleep(exchange: Exchange) -> None:
        if streamed:
            events(delta("One"), b": keep-alive\n\n", pause=0.01)(exchange)
        asleep.wait(60)

    server.script = [sleep]
    model = server.model(timeout_seconds=0.2)
    with pytest.raises(BackendError, match=r"nothing for 0\.2 seconds"):
        list(model.stream(CHAT, Options())) if streamed else model.complete(CHAT, Options())
    asleep.set()
    assert len(server.requests) == 1


@pytest.mark.parametrize("begun", [False, True], ids=["prefill", "decode"])
def test_a_stop_from_another_thread_hangs_up(server: Server, begun: bool) -> None:
    reading, hung_up = threading.Event(), threading.Event()

    def read_long(exchange: Exchange) -> None:
        if begun:
            events(delta("One"))(exchange)
        reading.set()
        exchange.connection.settimeout(60)
        if exchange.connection.recv(1) == b"":
            hung_up.set()

    stop_event = threading.Event()

    def stop() -> None:
        reading.wait(60)
        time.sleep(0.2)  # until it waits for a reply
        stop_event.set()

    server.script = [read_long]
    model = server.model(timeout_seconds=600.0).for_call(stop_event, None)
    stopping = threading.Thread(target=stop)
    stopping.start()
    with pytest.raises(StoppedError):
        list(model.stream(CHAT, Options()))
    assert hung_up.wait(60)
    stopping.join()
    assert len(server.requests) == 1


def test_nobody_listens(server: Server) -> None:
    model = OpenAICompatibleModel("http://127.0.0.1:9/v1", "tiny", max_retries=1)
    with pytest.raises(BackendError, match=r"127\.0\.0\.1:9 cannot be reached"):
        model.complete(CHAT, Options())


# -- the door -------------------------------------------------------------------------


def test_another_host_needs_permission_before_its_name_is_looked_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: pytest.fail("resolved a name"))
    with pytest.raises(NetworkBlockedError, match="allow_network = true"):
        OpenAICompatibleModel("https://api.example.com/v1", "tiny", api_key=KEY)
    with pytest.raises(NetworkBlockedError, match=r"192\.168\.1\.5:8080"):
        OpenAICompatibleModel("http://192.168.1.5:8080/v1", "tiny")


def test_with_permission_only_that_host_is_let_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import contextlib

    urls: list[set[str]] = []
    door = False

    @contextlib.contextmanager
    def allow(hosts: list[str]) -> Iterator[None]:
        nonlocal door
        urls.append(set(hosts))
        door = True
        yield
        door = False

    def resolve(*_: object, **__: object) -> None:
        assert door
        raise OSError("no such name")

    monkeypatch.setattr(network, "allow", allow)
    monkeypatch.setattr("socket.getaddrinfo", resolve)
    guard = Guard(audit=AuditLog(tmp_path / "log"), redactor=Redactor(), confirm=False)
    model = OpenAICompatibleModel(
        "https://api.example.com/v1", "tiny", allow_network=True, max_retries=0, guard=guard
    )
    with pytest.raises(BackendError, match=r"api\.example\.com cannot be reached"):
        model.complete(CHAT, Options())
    assert urls == [{"https://api.example.com/v1/chat/completions"}]


def test_what_the_door_says_is_not_hidden_by_the_http_library(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(*_: object, **__: object) -> None:
        raise NetworkBlockedError("stopped at the door")

    monkeypatch.setattr("socket.create_connection", closed)
    with pytest.raises(NetworkBlockedError, match="stopped at the door"):
        server.model().complete(CHAT, Options())


@pytest.mark.parametrize(
    "url",
    [
        "localhost:8080/v1",
        "ftp://localhost/v1",
        "http://",
        "http://user:secret@localhost/v1",
        "http://localhost:port/v1",
        "http://[::1/v1",
        "http://localhost/v1?key=secret",
    ],
)
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(ConfigError, match="base URL") as failure:
        OpenAICompatibleModel(url, "tiny")
    assert "secret" not in str(failure.value)


@pytest.mark.parametrize("key", ["sk-钥匙", "sk-a\nb"])
def test_a_key_that_is_none(key: str) -> None:
    with pytest.raises(ConfigError) as failure:
        OpenAICompatibleModel("http://localhost/v1", "tiny", api_key=key)
    assert key not in str(failure.value)
