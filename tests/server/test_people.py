"""A server that people share: who asks, what each may, and what is not there for them."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import httpx
import pytest
from httpx_sse import ServerSentEvent, connect_sse
from library.library_fixtures import EMBEDDER, document
from server.conftest import GARDEN, LONG, LONG_PAUSE, Writing
from server.sharing import TEXTS, Kept, Node, fill, shared
from starlette.routing import Mount, Route

from localrag.errors import ConfigError, UsageError
from localrag.library.acting import Action, Role, acting
from localrag.library.catalogue.catalogue import SqliteCatalogue
from localrag.library.location import Location
from localrag.messages import InterfaceLanguage
from localrag.server import jobs, libraries, people
from localrag.server.access import Access
from localrag.server.app import make_app, routes_of
from localrag.server.endpoint import ServerEntry
from localrag.server.libraries import Libraries
from localrag.server.listening import in_thread, on_socket
from localrag.server.people import SECRET_HEADER, People, SignOn, sign_on_of
from localrag.server.roles import LEAST

ORDER = ["", *get_args(Role)]
WHO: dict[str, dict[str, Role]] = {
    "ada": {"garden": "owner", "tea": "editor"},
    "ben": {"garden": "reader"},
    "eve": {},
}
DOCUMENT = document(GARDEN, source="garden.txt").id
QUESTION = "When was the glass house opened?"


def folders(folder: Path) -> dict[str, Location]:
    """The libraries of `TEXTS`, each in a folder."""
    places: dict[str, Location] = {name: folder / name for name in TEXTS}
    fill(places)
    return places


def kept(node: Node) -> Kept:
    """The users of a node, which are a double."""
    assert isinstance(node.users, Kept)
    return node.users


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with shared(folders(tmp_path_factory.mktemp("shared")), Kept()) as shared_node:
        yield shared_node


@pytest.fixture(autouse=True)
def _those(request: pytest.FixtureRequest) -> None:
    """The users of every test are new: what is remembered of a token ends with its user."""
    if "node" in request.fixturenames:
        node: Node = request.getfixturevalue("node")
        users = kept(node)
        users.roles, users.secrets, users.log, users.down = {}, {}, [], False
        node.llm.pieces, node.llm.pause = Writing.pieces, Writing.pause
        node.llm.writes = None


def tokens(node: Node) -> dict[str, str]:
    return {name: kept(node).add(name, **roles) for name, roles in WHO.items()}


# What each route takes


def declared() -> set[tuple[str, str]]:
    """Every method of every route that a server has."""
    routes = set()
    for route in routes_of(Libraries([], lambda _: None), Access("x" * 20, 1)):  # type: ignore[arg-type,return-value]
        if isinstance(route, Mount):
            routes.add(("GET", route.path))
        else:
            assert isinstance(route, Route)
            methods = route.methods or {"GET", "POST", "DELETE"}  # an application of its own
            routes |= {(method, route.path) for method in methods - {"HEAD"}}
    return routes


def test_every_route_says_the_least_role_that_it_takes() -> None:
    assert declared() == set(LEAST)


def call(name: str, **fields: object) -> dict[str, object]:
    """A call of a tool."""
    parameters = {"name": name, "arguments": fields}
    return {
        "headers": {"accept": "application/json, text/event-stream"},
        "json": {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": parameters},
    }


def _query(library: str) -> dict[str, object]:
    return {"params": {"library": library}}


def _model(library: str, **fields: object) -> dict[str, object]:
    return {"json": {"model": f"localrag/{library}", **fields}}


SPAN = {"document": DOCUMENT, "start": "0", "end": "5"}
ASKED: dict[str, object] = {"question": QUESTION}
SENT: dict[tuple[str, str], Callable[[str], dict[str, Any]]] = {
    ("GET", "/api/documents"): _query,
    ("GET", "/api/unread"): _query,
    ("GET", "/api/page"): lambda name: {
        "params": {"library": name, "document": DOCUMENT, "number": "1"}
    },
    ("GET", "/api/view"): lambda name: {"params": {"library": name, **SPAN}},
    ("GET", "/api/view.png"): lambda name: {"params": {"library": name, **SPAN}},
    ("POST", "/api/search"): lambda name: {"json": {"library": name, **ASKED}},
    ("POST", "/api/ask"): lambda name: {"json": {"library": name, **ASKED}},
    ("POST", "/api/compare"): lambda name: {"json": {"library": name, "vary": "modes", **ASKED}},
    ("GET", "/api/history"): _query,
    ("DELETE", "/api/history"): _query,
    ("POST", "/api/history"): lambda name: {"json": {"library": name, "on": True}},
    ("GET", "/api/history/{conversation}"): _query,
    ("DELETE", "/api/history/{conversation}"): _query,
    ("POST", "/mcp"): lambda name: call("search", library=name, query=QUESTION),
    ("GET", "/v1/models/{name:path}"): lambda name: {"url": f"/v1/models/localrag/{name}"},
    ("POST", "/v1/chat/completions"): lambda name: _model(
        name, messages=[{"role": "user", "content": QUESTION}]
    ),
    ("POST", "/v1/responses"): lambda name: _model(name, input=QUESTION),
    ("POST", "/v1/embeddings"): lambda name: _model(name, input="tea"),
    ("POST", "/v1/rerank"): lambda name: _model(name, query="tea", documents=["tea"]),
    ("POST", "/v1/vector_stores/{name}/search"): lambda name: {
        "url": f"/v1/vector_stores/{name}/search",
        "json": {"query": QUESTION},
    },
    ("POST", "/api/documents"): lambda name: {
        "params": {"library": name, "name": "x.txt"},
        "content": b"x",
        "headers": {"content-type": "text/plain"},
    },
    ("DELETE", "/api/documents/{document}"): lambda name: {
        "url": "/api/documents/none",
        "params": {"library": name},
    },
    ("GET", "/api/tables"): _query,
    ("POST", "/api/tables"): lambda name: {"json": {"library": name, "columns": [ASKED]}},
    ("POST", "/api/tables/documents"): lambda name: {"json": {"library": name}},
    ("POST", "/api/tables/saved/{name}"): lambda name: {
        "url": "/api/tables/saved/x",
        "json": {"library": name, "columns": [ASKED]},
    },
    ("DELETE", "/api/tables/saved/{name}"): lambda name: {
        "url": "/api/tables/saved/none",
        "params": {"library": name},
    },
    ("POST", "/api/summaries"): lambda name: {"json": {"library": name}},
    ("GET", "/api/jobs"): _query,
    ("POST", "/api/jobs/{number}/cancel"): lambda name: {
        "url": "/api/jobs/1/cancel",
        "params": {"library": name},
    },
    ("POST", "/api/evaluate"): lambda name: {
        "json": {"library": name, "name": "x.json", "data": "nothing"}
    },
    ("GET", "/api/audit"): _query,
}
"""A request of each route that can name a library."""
ELSEWHERE = {key for key, least in LEAST.items() if least in ("anybody", "signed in", "nobody")} | {
    ("GET", "/mcp"),  # no request rests on another
    ("DELETE", "/mcp"),
    ("GET", "/api/reports/{name}"),
    ("GET", "/api/tables/{name}"),
}


def test_every_route_that_can_name_a_library_is_asked_below() -> None:
    assert set(SENT) == set(LEAST) - ELSEWHERE


@dataclass(frozen=True)
class Told:
    """How a request ended, with the name of its library put out of it."""

    status: int
    text: str

    @property
    def is_not_there(self) -> bool:
        return "There is no library NAME" in self.text


def told(http: httpx.Client, key: tuple[str, str], library: str) -> Told:
    """What a route answers about a library; of a stream that goes well only that it does."""
    method, path = key
    request = {"url": path.replace("{conversation}", "0" * 16), **SENT[key](library)}
    with http.stream(method, **request) as response:
        streams = response.headers.get("content-type", "").startswith("text/event-stream")
        if streams and path != "/mcp":
            return Told(response.status_code, "")
        text = response.read().decode(errors="replace")
    return Told(response.status_code, text.replace(library, "NAME"))


@pytest.mark.parametrize("key", SENT, ids=" ".join)
def test_a_library_of_others_is_answered_like_one_that_was_never_there(
    node: Node, key: tuple[str, str]
) -> None:
    for name, token in tokens(node).items():
        with node.client(token) as http:
            never = told(http, key, "nowhere")
            assert never.is_not_there
            assert never.status == (200 if key[1] == "/mcp" else 404)
            for library in TEXTS:
                has = WHO[name].get(library, "")
                reply = told(http, key, library)
                if not has:
                    assert reply == never, f"{name} is told of {library}"
                    assert (name, library) not in {entry[:2] for entry in kept(node).log}
                elif ORDER.index(has) < ORDER.index(LEAST[key]):
                    assert reply.status == 403
                    assert LEAST[key] in reply.text
                else:
                    assert not reply.is_not_there
                    assert reply.status not in (401, 403, 500, 503), reply.text


def test_lists_name_only_what_one_may_read(node: Node) -> None:
    for name, token in tokens(node).items():
        with node.client(token) as http:
            own_libraries = [library for library in TEXTS if library in WHO[name]]
            status = http.get("/api/status").json()
            assert status["user"] == {"name": name, "by_proxy": False}
            assert [library["name"] for library in status["libraries"]] == own_libraries
            assert [library["role"] for library in status["libraries"]] == [
                WHO[name][library] for library in own_libraries
            ]
            assert [
                library["name"] for library in http.get("/libraries").json()["libraries"]
            ] == own_libraries
            foreign_libraries = set(TEXTS) - set(own_libraries)
            listing: dict[str, Any] = {"headers": {"accept": "application/json, text/event-stream"}}
            resources = {"jsonrpc": "2.0", "id": 1, "method": "resources/list", "params": {}}
            for text in (
                http.get("/v1/models").text,
                http.get("/metrics").text,
                http.get("/api/settings").text if own_libraries else "",
                http.post("/mcp", **call("status")).text,
                http.post("/mcp", json=resources, **listing).text,
            ):
                assert not any(other in text for other in foreign_libraries), text
            if own_libraries:
                assert own_libraries[0] in http.get("/v1/models").text
                passages = http.post("/api/search", json=ASKED).json()["passages"]
                assert [passage["source"] for passage in passages] == [f"{own_libraries[0]}.txt"]
            else:
                assert http.post("/api/search", json=ASKED).status_code == 404
                assert http.get("/v1/models").json()["data"] == []


def test_a_reader_adds_removes_and_changes_nothing(node: Node) -> None:
    token = tokens(node)["ben"]
    with node.client(token) as http:
        response = http.post(
            "/api/documents?name=x.txt",
            content=b"A new document.",
            headers={"content-type": "application/octet-stream"},
        )
        assert response.status_code == 403
        assert http.delete(f"/api/documents/{DOCUMENT}").status_code == 403
        assert http.post("/api/history", json={"on": True}).status_code == 403
        offered = http.post(
            "/mcp",
            **{
                **call("x"),
                "json": {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}},
            },
        )
        assert '"add"' not in offered.text
    assert node.engines["garden"].library.counts().documents == 1


def test_nobody_changes_the_settings_of_the_server(node: Node) -> None:
    with node.client(tokens(node)["ada"]) as http:
        change = {"key": "answer.k", "value": 3}
        response = http.post("/api/settings", json=change)
        assert response.status_code == 403
        assert "people share" in response.json()["error"]["message"]
        response = http.post("/api/settings", json=change, headers={"accept-language": "zh"})
        assert "多人共用一台服务器" in response.json()["error"]["message"]
        settings = http.get("/api/settings").json()["settings"]
        assert {setting["key"].partition(".")[0] for setting in settings} == {
            "answer",
            "retrieval",
            "reranker",
        }
        assert not any(setting["changeable"] for setting in settings)


# Who asks


def test_the_rights_of_who_asks_go_with_the_request_wherever_its_work_is_done(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    users: set[object] = set()
    read_snapshot = SqliteCatalogue.read

    def watched(self: SqliteCatalogue) -> Any:
        if threading.current_thread().name != "following":
            users.add(acting.get())
        return read_snapshot(self)

    monkeypatch.setattr(SqliteCatalogue, "read", watched)
    ada, ben, _ = tokens(node).values()
    for key in SENT:
        for token in (ada, ben):
            with node.client(token) as http:
                told(http, key, "garden")
    with node.client(ada) as http, connect_sse(http, "POST", "/api/ask", json=ASKED) as source:
        assert "answer" in {event.event for event in source.iter_sse()}
    names = {getattr(user, "name", user) for user in users}
    assert names == {"ada", "ben"}


def test_without_a_token_of_a_user_nothing_is_told(node: Node) -> None:
    tokens(node)
    for value in ("", "Bearer", "Bearer wrong", f"Bearer {'x' * 2000}"):
        for path in ("/api/status", "/v1/models", "/mcp", "/metrics", "/nowhere"):
            with node.client(authorization=value) as http:
                assert http.get(path).status_code == 401
    with node.client(cookie=f"{node.access.cookie}={node.access.session}") as http:
        assert http.get("/api/status").status_code == 401
    with node.client() as http:
        assert http.get("/healthz").status_code == 200
        assert not any(name in http.get("/").text for name in TEXTS)


def test_a_token_that_is_revoked_counts_for_seconds_at_most(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert people.REMEMBERED <= 5
    clock = Clock()
    monkeypatch.setattr(people, "time", clock)
    token = tokens(node)["ada"]
    with node.client(token) as http:
        assert http.get("/api/status").status_code == 200
        before = kept(node).looked
        assert http.get("/api/status").status_code == 200
        assert kept(node).looked == before
        kept(node).roles["ada"] = {"garden": "reader"}
        clock.now += people.REMEMBERED
        assert http.post("/api/history", json={"on": True}).status_code == 403
        kept(node).remove("ada")
        clock.now += people.REMEMBERED
        assert http.get("/api/status").status_code == 401


SAID = [{"role": "user", "content": QUESTION}]
LONGER = ["slowly "] * len(LONG)
STREAMS: dict[str, dict[str, object]] = {
    "/api/ask": ASKED,
    "/api/compare": {"vary": "modes", **ASKED},
    "/v1/chat/completions": {"messages": SAID, "stream": True},
    "/v1/responses": {"input": QUESTION, "stream": True},
}
BARRED = "您已无权继续此操作：您的令牌或角色已被撤销。请联系文档库的所有者。"


class Clock:
    """Stands in for `time` in a module of the server."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rights that are taken away are noticed at once."""
    monkeypatch.setattr(people, "REMEMBERED", 0.1)
    monkeypatch.setattr(people, "LOOK", 0.5)


def take_once_it_writes(node: Node, what: str) -> threading.Thread:
    """A thread that takes it as soon as the model writes an answer."""
    writes = node.llm.writes = threading.Event()

    def work() -> None:
        assert writes.wait(60)
        take(node, what)

    taking = threading.Thread(target=work)
    taking.start()
    return taking


def take(node: Node, what: str) -> None:
    """From ben."""
    if what == "token":
        kept(node).secrets.clear()
    else:
        kept(node).roles["ben"] = {}


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("path", STREAMS)
@pytest.mark.parametrize("what", ["token", "role"])
def test_an_answer_under_way_is_broken_off_and_says_why(node: Node, what: str, path: str) -> None:
    token = tokens(node)["ben"]
    node.llm.pieces, node.llm.pause = LONGER, LONG_PAUSE
    events: list[ServerSentEvent] = []
    # A comparison says nothing of an answer before its end.
    taking = take_once_it_writes(node, what) if path == "/api/compare" else None
    with (
        node.client(token, **{"accept-language": "zh"}) as http,
        connect_sse(http, "POST", path, json=STREAMS[path]) as source,
    ):
        for event in source.iter_sse():
            events.append(event)
            if len(events) == 12 and taking is None:
                take(node, what)
    if taking is not None:
        taking.join()
    assert len(events) < len(LONGER) / 2
    error = {"message": BARRED, "type": "invalid_request_error", "param": None}
    error |= {"code": "not_allowed"}
    *before, last = events
    if path == "/v1/chat/completions":
        assert last.data == "[DONE]"
        assert before[-1].json() == {"error": error}
        assert all(part.json()["choices"][0]["finish_reason"] is None for part in before[:-1])
    elif path == "/v1/responses":
        numbers = [part.json()["sequence_number"] for part in events]
        assert numbers == list(range(len(events)))
        assert before[-1].event == before[-1].json()["type"] == "error"
        assert (before[-1].json()["code"], before[-1].json()["message"]) == ("not_allowed", BARRED)
        failure = last.json()["response"]
        assert (last.event, failure["status"]) == ("response.failed", "failed")
        assert failure["error"] == {"code": "not_allowed", "message": BARRED}
        assert failure["id"] == events[0].json()["response"]["id"]
    else:
        assert (last.event, last.json()) == ("error", error)
    assert not {"answer", "compared", "response.completed"} & {part.event for part in events}


@pytest.mark.usefixtures("quick")
def test_a_call_of_a_tool_is_broken_off_and_says_why(node: Node) -> None:
    token = tokens(node)["ben"]
    node.llm.pieces, node.llm.pause = LONGER, LONG_PAUSE
    taking = take_once_it_writes(node, "role")
    with node.client(token) as http:
        reply = http.post("/mcp", **call("ask", question=QUESTION))
    taking.join()
    assert '"isError":true' in reply.text
    assert "taken away" in reply.text


@pytest.mark.usefixtures("quick")
def test_an_answer_at_once_is_refused(node: Node) -> None:
    token = tokens(node)["ben"]
    node.llm.pieces, node.llm.pause = LONGER, LONG_PAUSE
    taking = take_once_it_writes(node, "token")
    with node.client(token, **{"accept-language": "zh"}) as http:
        reply = http.post("/v1/chat/completions", json={"messages": SAID})
    taking.join()
    assert reply.status_code == 401
    assert reply.json()["error"]["message"] == BARRED


@pytest.mark.parametrize("what", ["token", "role"])
@pytest.mark.parametrize("path", ["/api/search", "/v1/vector_stores/default/search"])
def test_what_a_search_has_found_is_not_told_to_who_lost_a_right_meanwhile(
    node: Node, monkeypatch: pytest.MonkeyPatch, what: str, path: str
) -> None:
    monkeypatch.setattr(people, "REMEMBERED", 0.1)
    token, embed = tokens(node)["ben"], EMBEDDER.embed_queries

    def slowly(texts: Sequence[str]) -> Any:
        take(node, what)
        time.sleep(0.2)
        return embed(texts)

    body = ASKED if path == "/api/search" else {"query": QUESTION}
    with node.client(token, **{"accept-language": "zh"}) as http:
        assert GARDEN in http.post(path, json=body).text
        monkeypatch.setattr(EMBEDDER, "embed_queries", slowly)
        reply = http.post(path, json=body)
    assert reply.status_code == 401
    assert reply.json()["error"]["message"] == BARRED


@pytest.mark.usefixtures("quick")
def test_what_goes_on_without_rights_is_cut(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has until the next look to say why."""
    fail = jobs.as_event

    def stubborn(language: InterfaceLanguage) -> Any:
        def failed(error: Exception) -> Any:
            while True:
                yield from fail(language)(error)

        return failed

    monkeypatch.setattr("localrag.server.rest.as_event", stubborn)
    token = tokens(node)["ben"]
    node.llm.pieces, node.llm.pause = LONGER, LONG_PAUSE

    def listen() -> None:
        with (
            node.client(token) as http,
            connect_sse(http, "POST", "/api/ask", json=ASKED) as source,
        ):
            for number, _ in enumerate(source.iter_sse()):
                if number == 5:
                    take(node, "role")

    with pytest.raises(httpx.TransportError):
        listen()


@pytest.mark.parametrize(
    ("asks", "said"),
    [
        ({}, "A valid token is needed."),
        ({"accept-language": "zh-CN,en"}, "需要有效的令牌。"),
        ({"accept-language": "en,zh"}, "A valid token is needed."),
        ({"accept-language": "zh", "origin": "http://evil.example"}, "不接受来自其他源"),
        ({"accept-language": "zh", "host": "evil.example"}, "本服务器不响应该主机名。"),
    ],
)
def test_a_refusal_is_said_in_the_language_of_who_asks(
    node: Node, asks: dict[str, str], said: str
) -> None:
    with node.client(**asks) as http:
        assert said in http.get("/api/status").json()["error"]["message"]


def test_where_the_users_cannot_be_asked_it_is_said(node: Node) -> None:
    token = tokens(node)["ada"]
    kept(node).down = True
    with node.client(token) as http:
        response = http.get("/api/status")
        assert response.status_code == 503
        assert "database" in response.json()["error"]["message"]
        response = http.get("/api/status", headers={"accept-language": "zh"})
        assert "数据库，请稍后重试" in response.json()["error"]["message"]
        assert http.get("/healthz").status_code == 200


def test_a_silent_database_holds_up_nobody(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(people, "PATIENCE", 0.5)
    token = tokens(node)["ada"]
    speaks, users, ask = threading.Event(), kept(node), kept(node).by_token

    def by_token(secret: str) -> object:
        assert speaks.wait(180)  # longer than clients wait
        return ask(secret)

    monkeypatch.setattr(users, "by_token", by_token)
    codes: list[int] = []

    def look() -> None:
        with node.client(token) as http:
            codes.append(http.get("/api/status").status_code)

    waiting = [threading.Thread(target=look) for _ in range(20)]
    for thread in waiting:
        thread.start()
    for thread in waiting:
        thread.join()
    threads = [
        survivor for survivor in threading.enumerate() if survivor.name.startswith("who asks")
    ]
    speaks.set()
    assert codes == [503] * 20
    assert len(threads) <= 8
    look()
    assert codes[-1] == 200


def test_what_cannot_be_written_down_is_not_told(node: Node) -> None:
    token = tokens(node)["ada"]
    with node.client(token) as http:
        assert http.get("/api/status").status_code == 200
        kept(node).down = True  # who asks is remembered for a moment
        response = http.post("/api/search", json=ASKED)
        assert response.status_code == 503
        assert "1907" not in response.text


def test_what_is_done_is_written_down(node: Node) -> None:
    token = tokens(node)["ada"]
    with node.client(token) as http:
        for key in SENT:
            told(http, key, "garden")
    deeds = {(action, words) for user, library, action, words in kept(node).log}
    assert {(user, library) for user, library, _, _ in kept(node).log} == {("ada", "garden")}
    assert {("search", QUESTION), ("ask", QUESTION), ("page", DOCUMENT)} <= deeds
    assert {("add", "x.txt"), ("remove", "none")} <= deeds
    assert {action for action, _ in deeds} <= set(get_args(Action))
    with node.client(token) as http:
        log = http.get("/api/audit?library=garden").json()["asked"]
    assert log == [list(entry) for entry in reversed(kept(node).log)]


def test_a_list_is_written_down_once_a_minute(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page asks for it again after each file that was added, and with each word of a filter."""
    clock = Clock()
    clock.now = time.monotonic() + libraries.LISTED  # after those of other tests
    monkeypatch.setattr(libraries, "time", clock)
    who = tokens(node)
    token = who["ada"]

    def listed() -> list[tuple[str, str]]:
        for entry in kept(node).log:
            assert entry[2:] == ("list", None)
        return [line[:2] for line in kept(node).log]

    with node.client(token) as http:
        for path in ("/api/documents", "/api/unread", "/api/documents"):
            assert http.get(path, params={"library": "garden"}).status_code == 200
        http.post("/mcp", **call("list_documents", library="garden"))
        assert listed() == [("ada", "garden")]
        http.get("/api/documents", params={"library": "tea"})
        with node.client(who["ben"]) as other:
            other.get("/api/documents")
        assert {("ada", "tea"), ("ben", "garden")} < set(listed())
        assert http.get("/api/documents", params={"library": "attic"}).status_code == 404
        assert not any(library == "attic" for _, library in listed())
        clock.now += libraries.LISTED
        before = listed().count(("ada", "garden"))
        http.get("/api/documents", params={"library": "garden"})
        assert listed().count(("ada", "garden")) == before + 1


# Signing in


def cookie_of(response: httpx.Response) -> str:
    assert response.status_code == 204
    parts = [attribute.strip().lower() for attribute in response.headers["set-cookie"].split(";")]
    assert {"httponly", "samesite=strict"} <= set(parts)
    return str(response.headers["set-cookie"].split(";")[0])


def test_a_session_of_one_node_counts_on_another_and_ends_on_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(people, "REMEMBERED", 0.0)
    users = Kept()
    token = users.add("ada", garden="owner")
    proxy = "https://docs.example"
    host = {"host": "docs.example"}
    nodes = [shared(folders(tmp_path / name), users, proxy=proxy) for name in ("one", "two")]
    with nodes[0] as first_node, nodes[1] as second_node:
        with first_node.client(token, **host) as http:
            cookie = cookie_of(http.post("/session"))
        assert token not in cookie
        for node in (first_node, second_node):
            with node.client(cookie=cookie, **host) as http:
                assert http.get("/api/status").json()["user"]["name"] == "ada"
        with second_node.client(cookie=cookie, **host) as http:
            assert "Max-Age=0" in http.delete("/session").headers["set-cookie"]
        for node in (first_node, second_node):
            with node.client(cookie=cookie, **host) as http:
                assert http.get("/api/status").status_code == 401
    assert users.by_token(token) is not None


def test_the_header_of_a_proxy_counts_only_with_its_secret(tmp_path: Path) -> None:
    users = Kept()
    token = users.add("ada", garden="reader")
    secret = "a-secret-of-the-proxy-alone"
    sign_on = SignOn("x-remote-user", secret)
    fields = {"x-remote-user": "ada"}
    with shared(folders(tmp_path), users, sign_on=sign_on, proxy="https://docs.example") as node:

        def status(**headers: str) -> httpx.Response:
            with node.client(host="docs.example", **headers) as http:
                response: httpx.Response = http.get("/api/status")
            return response

        for proof in ({}, {SECRET_HEADER: "wrong"}, {SECRET_HEADER: ""}):
            assert status(**fields, **proof).status_code == 403
            bearer = {"authorization": f"Bearer {token}"}
            assert status(**fields, **proof, **bearer).status_code == 403
        reply = status(**fields, **{SECRET_HEADER: secret})
        assert reply.json()["user"] == {"name": "ada", "by_proxy": True}
        names = ("bob", "", "ada\tx", "ada\xa0", "\u2003ada", "ada\u3000", "ada\x85")
        for other in (*(name.encode() for name in names), b"ada\xa0"):
            pairs = [("host", "docs.example"), ("x-remote-user", other), (SECRET_HEADER, secret)]
            with node.client() as http:
                assert http.get("/api/status", headers=pairs).status_code == 403, other
        twice = [("host", "docs.example"), (SECRET_HEADER, secret)]
        twice += [("x-remote-user", "ada"), ("x-remote-user", "ben")]
        url = f"http://127.0.0.1:{node.port}/api/status"
        assert httpx.get(url, headers=twice, trust_env=False).status_code == 403
        assert status(**{SECRET_HEADER: secret}).status_code == 401
        assert status(authorization=f"Bearer {token}").status_code == 200
    with shared(folders(tmp_path), users, proxy="https://docs.example") as node:  # none is stated
        assert status(**fields, **{SECRET_HEADER: secret}).status_code == 401


def test_without_a_secret_it_counts_over_a_socket_alone(tmp_path: Path) -> None:
    users = Kept()
    users.add("ada", garden="reader")
    sign_on, fields = SignOn("x-remote-user"), {"x-remote-user": "ada"}
    with (
        shared(folders(tmp_path), users, sign_on=sign_on, proxy="https://docs.example") as node,
        node.client(host="docs.example", **fields) as http,
    ):
        assert http.get("/api/status").status_code == 403


@pytest.mark.skipif(sys.platform == "win32", reason="there are no Unix sockets")
def test_over_a_socket_the_proxy_is_believed(tmp_path: Path) -> None:
    users = Kept()
    users.add("ada")
    path = tmp_path / "s"
    access = Access(
        "", 1, proxy="https://docs.example", people=People(users, SignOn("x-remote-user"))
    )
    app = make_app(Libraries([], lambda _: None, shared=True), access)  # type: ignore[arg-type,return-value]
    with on_socket(path) as listening, in_thread(app, listening):
        assert path.stat().st_mode & 0o007 == 0
        transport = httpx.HTTPTransport(uds=str(path))
        with httpx.Client(transport=transport, base_url="http://docs.example") as http:
            response = http.get("/api/status", headers={"x-remote-user": "ada"})
            assert response.json()["user"] == {"name": "ada", "by_proxy": True}
            assert http.get("/api/status", headers={"x-remote-user": "eve"}).status_code == 403
            assert http.get("/api/status").status_code == 401
        with pytest.raises(UsageError, match="socket"), on_socket(path):
            pass
    assert not path.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="there are no Unix sockets")
def test_a_server_that_ends_leaves_the_socket_of_the_next(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with ExitStack() as ending:
        ending.enter_context(on_socket(path)).close()  # as uvicorn does before the last answers
        time.sleep(0.05)
        with on_socket(path):
            ending.close()
            ServerEntry(path).connect(1).close()
    assert not path.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="there are no Unix sockets")
def test_a_socket_stands_where_no_other_user_can_put_one(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(UsageError, match="others could"), on_socket(tmp_path / "s"):
        pass


def test_single_sign_on_needs_a_proof(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOCALRAG_SIGN_ON_SECRET", raising=False)
    secret = tmp_path / "secret"
    secret.write_text("a-secret-of-the-proxy-alone\n")
    assert sign_on_of(None, None, over_socket=False) is None
    for header, file in (
        ("X-Remote-User", None),
        (None, secret),
        ("Cookie", secret),
        ("é", secret),
    ):
        with pytest.raises(UsageError):
            sign_on_of(header, file, over_socket=False)
    settings = sign_on_of("X-Remote-User", secret, over_socket=False)
    assert settings == SignOn("x-remote-user", "a-secret-of-the-proxy-alone")
    assert sign_on_of("X-Remote-User", None, over_socket=True) == SignOn("x-remote-user")
    with pytest.raises(ConfigError):
        sign_on_of("X-Remote-User", tmp_path / "none", over_socket=False)
    monkeypatch.setenv("LOCALRAG_SIGN_ON_SECRET", "another-secret-of-the-proxy")
    assert sign_on_of("X-Remote-User", None, over_socket=False) == SignOn(
        "x-remote-user", "another-secret-of-the-proxy"
    )
