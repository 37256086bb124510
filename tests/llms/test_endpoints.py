"""Several servers of one model: who takes a call, who is set aside, and what goes to another."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from http_server import DONE, Exchange, Respond, Server, delta, error, events, reply, serving

from localrag.egress.audit import AuditLog
from localrag.egress.redaction import Redactor
from localrag.errors import BackendError, ConfigError, ContextOverflowError, NetworkBlockedError
from localrag.models.llms.base import Options
from localrag.models.llms.openai import endpoints
from localrag.models.llms.openai.endpoints import Endpoint, ready, standings, taken
from localrag.models.llms.openai.guard import Guard
from localrag.models.llms.openai.model import OpenAICompatibleModel
from localrag.types import Message

CHAT = [Message("user", "Where is the kettle?")]
KEY = "sk-very-secret"
YES = events(delta("Yes"), DONE, b"")


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    import tenacity

    monkeypatch.setattr(tenacity, "wait_random_exponential", lambda **_: lambda _state: 0.01)
    monkeypatch.setattr(endpoints, "_known", {})


@pytest.fixture
def servers() -> Iterator[list[Server]]:
    """Three, each of which answers with its number."""
    with ExitStack() as stack:
        yield [stack.enter_context(serving(reply(f"from {number}"))) for number in range(3)]


def model_of(servers: list[Server], **options: object) -> OpenAICompatibleModel:
    defaults = {"timeout_seconds": 60.0, "api_key": KEY} | options
    return OpenAICompatibleModel([f"{server.url}/v1" for server in servers], "tiny", **defaults)  # type: ignore[arg-type]


def counts(servers: list[Server]) -> list[int]:
    return [len(server.requests) for server in servers]


def drop(exchange: Exchange) -> None:
    exchange.close_connection = True


def test_calls_one_after_the_other_go_round(servers: list[Server]) -> None:
    model = model_of(servers)
    replies = [model.complete(CHAT, Options()).text for _ in range(6)]
    assert sorted(replies) == sorted([f"from {number}" for number in range(3)] * 2)
    assert counts(servers) == [2, 2, 2]


def test_a_call_goes_where_the_fewest_are_under_way(servers: list[Server]) -> None:
    release = threading.Event()

    def wait(exchange: Exchange) -> None:
        release.wait(60)
        YES(exchange)

    servers[0].respond = wait
    model = model_of(servers)
    answers: list[str] = []

    def ask() -> None:
        answers.append("".join(model.for_call(None, None).stream(CHAT, Options())))

    slow = threading.Thread(target=ask)
    slow.start()
    while not servers[0].requests:  # the first in turn
        time.sleep(0.01)
    assert [standing.calls for standing in standings()] == [1, 0, 0]
    for _ in range(4):
        model.complete(CHAT, Options())
    assert counts(servers) == [1, 2, 2]
    release.set()
    slow.join()
    assert answers == ["Yes"]
    assert [standing.calls for standing in standings()] == [0, 0, 0]


def test_a_stream_counts_until_it_is_read_or_closed(servers: list[Server]) -> None:
    for server in servers:
        server.respond = events(delta("One "), delta("two"), DONE, b"")
    model = model_of(servers)
    stream = model.stream(CHAT, Options())
    assert next(stream) == "One "
    assert sum(standing.calls for standing in standings()) == 1
    stream.close()  # type: ignore[attr-defined]
    assert sum(standing.calls for standing in standings()) == 0


def test_a_follow_up_goes_to_the_server_that_has_read_its_beginning(servers: list[Server]) -> None:
    model = model_of(servers)
    passages = ["kettle " * 200, "stove " * 200, "lamp " * 300]
    read_by: dict[str, int] = {}
    for _ in range(3):
        for passage in passages:
            reply_text = model.complete([Message("user", f"{passage} Where?")], Options()).text
            assert read_by.setdefault(passage, int(reply_text[-1])) == int(reply_text[-1])
    # Each is the first in turn once, as nobody has read anything of the next passage.
    assert sorted(read_by.values()) == [0, 1, 2]


def test_a_beginning_counts_less_than_a_server_that_is_free() -> None:
    endpoint, neighbour = Endpoint("http://127.0.0.1:1/v1"), Endpoint("http://127.0.0.1:2/v1")
    text = "kettle " * 200
    first = taken([endpoint, neighbour], text)
    other = taken([endpoint, neighbour], text)
    assert {first, other} == {endpoint, neighbour}  # the first one is busy with it
    other.release()
    assert taken([endpoint, neighbour], text) is other
    first.release()
    other.release()


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    "fault",
    [
        drop,
        error(500, "boom"),
        error(503, "loading"),
        error(429, "busy"),
        events(),  # headers, and then it is gone
        events(b": still reading\n\n"),
    ],
    ids=["drop", "500", "503", "429", "headers", "comment"],
)
def test_what_one_fails_before_a_word_is_shown_another_does(
    servers: list[Server], fault: Respond, streamed: bool
) -> None:
    good = YES if streamed else reply("Yes")
    servers[0].respond, servers[1].respond = fault, good
    model = model_of(servers[:2], max_retries=0)
    for _ in range(4):
        if streamed:
            assert list(model.stream(CHAT, Options())) == ["Yes"]
        else:
            assert model.complete(CHAT, Options()).text == "Yes"
    # It was left alone after that.
    assert counts(servers[:2]) == [1, 4]
    assert [standing.up for standing in standings()] == [False, True]


def test_one_that_is_not_there(servers: list[Server]) -> None:
    dead_url = "http://127.0.0.1:9/v1"
    model = OpenAICompatibleModel([dead_url, f"{servers[0].url}/v1"], "tiny", max_retries=0)
    for _ in range(3):
        assert model.complete(CHAT, Options()).text == "from 0"


def test_one_that_falls_silent(servers: list[Server]) -> None:
    asleep = threading.Event()
    servers[0].respond = lambda _: asleep.wait(60) and None
    model = model_of(servers[:2], timeout_seconds=3.0)  # which also bounds the other
    assert model.complete(CHAT, Options()).text == "from 1"
    asleep.set()


def test_an_answer_that_has_begun_is_never_begun_again(servers: list[Server]) -> None:
    servers[0].respond = servers[1].respond = events(delta("In the"))
    model = model_of(servers[:2])
    stream = model.stream(CHAT, Options())
    assert next(stream) == "In the"
    with pytest.raises(BackendError, match="cut off"):
        next(stream)
    assert counts(servers[:2]) == [1, 0]
    assert [standing.up for standing in standings()] == [False, True]
    assert sum(standing.calls for standing in standings()) == 0


@pytest.mark.parametrize(
    ("refusal", "kind"),
    [
        (error(400, "maximum context length is 2048 tokens"), ContextOverflowError),
        (error(401, "wrong key"), BackendError),
        (error(404, "no such model"), BackendError),
    ],
)
def test_what_is_wrong_with_the_request_is_wrong_everywhere(
    servers: list[Server], refusal: Respond, kind: type[Exception]
) -> None:
    servers[0].respond = refusal
    with pytest.raises(kind):
        model_of(servers).complete(CHAT, Options())
    assert counts(servers) == [1, 0, 0]
    assert all(standing.up for standing in standings())


def test_where_none_answers_each_is_named_without_the_key(servers: list[Server]) -> None:
    servers[0].respond, servers[1].respond = error(503, f"no {KEY}"), error(500, "boom")
    urls = [f"{host.url}/v1" for host in servers[:2]] + ["http://127.0.0.1:9/v1"]
    model = OpenAICompatibleModel(urls, "tiny", api_key=KEY, max_retries=1)
    with pytest.raises(BackendError) as failure:
        model.complete(CHAT, Options())
    message = str(failure.value)
    for server in (*servers[:2], "127.0.0.1:9"):
        assert str(getattr(server, "server_port", server)) in message
    assert KEY not in message
    assert "503" in message
    assert "boom" in message
    assert counts(servers[:2]) == [2, 2]  # all are set aside, so all are tried again


def test_a_server_that_comes_back_is_used_again(servers: list[Server]) -> None:
    servers[0].respond = error(503, "loading")
    model = model_of(servers[:2])
    began = time.monotonic()
    model.complete(CHAT, Options())
    servers[0].respond = reply("back")
    text = ""
    while text != "back":
        assert time.monotonic() - began < 60
        text = model.complete(CHAT, Options()).text
        time.sleep(0.02)
    assert time.monotonic() - began > 0.9
    assert all(standing.up for standing in standings())


def test_the_pause_grows_and_one_call_tries_first(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    endpoint, neighbour = Endpoint("http://127.0.0.1:1/v1"), Endpoint("http://127.0.0.1:2/v1")
    pauses = []
    for _ in range(8):
        endpoint.failed(now, 0.0)
        began = now
        endpoint.failed(began - 0.5, 0.0)  # a call that was under way at the same time
        while ready([endpoint, neighbour]) == [neighbour]:
            now += 0.5
        pauses.append(now - began)
        assert taken([endpoint], "x") is endpoint
        assert ready([endpoint, neighbour]) == [
            neighbour
        ]  # nobody else, while that one is under way
        endpoint.release()
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
    endpoint.answered()
    assert ready([endpoint, neighbour]) == [endpoint, neighbour]
    endpoint.failed(now, 25.0)  # it took so long, or asked for it
    now += 24
    assert ready([endpoint, neighbour]) == [neighbour]
    now += 1
    assert ready([endpoint, neighbour]) == [endpoint, neighbour]


def test_fifty_callers_and_a_server_that_dies(servers: list[Server]) -> None:
    for server in servers:
        server.respond = YES
    model = model_of(servers, max_retries=2)
    replies: list[str] = []

    def ask(number: int) -> None:
        for turn in range(4):
            if (number, turn) == (7, 1):
                servers[2].respond = drop
            replies.append("".join(model.for_call(None, None).stream(CHAT, Options())))

    callers = [threading.Thread(target=ask, args=(number,)) for number in range(50)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert replies == ["Yes"] * 200
    assert [standing.calls for standing in standings()] == [0, 0, 0]


# -- the doors ------------------------------------------------------------------------


def test_one_on_another_machine_keeps_all_of_them_shut(servers: list[Server]) -> None:
    urls = [f"{servers[0].url}/v1", "https://models.example/v1"]
    with pytest.raises(NetworkBlockedError, match=r"models\.example"):
        OpenAICompatibleModel(urls, "tiny")
    with pytest.raises(ValueError, match="guard"):
        OpenAICompatibleModel(urls, "tiny", allow_network=True)
    with pytest.raises(ConfigError, match="base URL"):
        OpenAICompatibleModel([urls[0], "nonsense"], "tiny", allow_network=True)
    assert not servers[0].requests


def test_each_machine_that_a_call_goes_to_is_logged(
    servers: list[Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers[0].respond = error(503, "loading")
    guard = Guard(audit=AuditLog(tmp_path / "log"), redactor=Redactor(), confirm=False)
    model = model_of(servers[:2], guard=guard, max_retries=0)
    assert model.complete(CHAT, Options()).text == "from 1"
    lines = (tmp_path / "log").read_text().splitlines()
    assert [('"sent"' in line, '"received"' in line) for line in lines] == [
        (True, False),
        (False, True),
    ] * 2
    assert '"status": 503' in lines[1]


def test_each_says_whether_it_is_there(servers: list[Server], tmp_path: Path) -> None:
    servers[1].respond = error(503, f"loading {KEY}")
    servers[2].respond = error(404)
    guard = Guard(audit=AuditLog(tmp_path / "log"), redactor=Redactor(), confirm=True)
    urls = [f"{server.url}/v1" for server in servers] + ["http://127.0.0.1:9/v1"]
    faults = OpenAICompatibleModel(urls, "tiny", api_key=KEY, guard=guard).faults()
    assert [fault is None for fault in faults.values()] == [True, False, True, False]
    assert "503" in str(faults[f"127.0.0.1:{servers[1].server_port}"])
    assert "cannot be reached" in str(faults["127.0.0.1:9"])
    assert KEY not in "".join(map(str, faults.values()))
    assert [(request.path, request.body) for request in servers[0].requests] == [
        ("/v1/models", b"")
    ]
    log = (tmp_path / "log").read_text()
    assert log.count('"sent"') == log.count('"received"') == 4
    assert '"bytes_out": 0' in log
