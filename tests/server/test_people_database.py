"""The same server over a real database with users, which decides once more for itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest
from httpx_sse import connect_sse
from library.library_fixtures import EMBEDDER, open_library
from server.conftest import GARDEN
from server.live_server import Machine
from server.sharing import TEXTS, Node, fill, shared
from server.test_people import ASKED, DOCUMENT, ORDER, QUESTION, SENT, WHO, cookie_of, told
from waiting import until

from localrag.egress.databases import Database, read_url
from localrag.errors import UsageError
from localrag.library.backends.postgres import policies
from localrag.library.backends.postgres.catalogue import PostgresCatalogue
from localrag.library.backends.postgres.queue import Arguments
from localrag.library.backends.postgres.users import Users
from localrag.library.location import Location
from localrag.server import people
from localrag.server.libraries import Libraries
from localrag.server.node import Node as Worker
from localrag.server.people import users_of
from localrag.server.roles import LEAST

_numbers = count()


@dataclass
class Team:
    """A database with the libraries of `TEXTS`, and the tokens of its users."""

    place: Database
    users: Users
    tokens: dict[str, str]

    @property
    def places(self) -> dict[str, Location]:
        return {name: replace(self.place, library=name) for name in TEXTS}


@pytest.fixture
def place(postgres: str) -> Iterator[Database]:
    """Where a library may be, in a database of its own."""
    location = read_url(f"{postgres}#garden")
    name = f"people_{os.getpid()}_{next(_numbers)}"
    with closing(PostgresCatalogue(location)) as catalogue, catalogue.session() as session:
        session.execute(f"CREATE DATABASE {name}")
        yield replace(location, name=name)
        session.execute(f"DROP DATABASE {name} WITH (FORCE)")
        session.execute(f"DROP ROLE IF EXISTS {policies.MEMBER}, {policies.SERVER}")


@pytest.fixture
def team(place: Database) -> Iterator[Team]:
    with Users(place) as users:
        new_team = Team(place, users, {})
        fill(new_team.places)
        for name, roles in WHO.items():
            new_team.tokens[name] = users.add(name)
            for library, role in roles.items():
                users.grant(name, library, role)
        yield new_team


def ask(http: httpx.Client, **fields: object) -> dict[str, Any]:
    with connect_sse(http, "POST", "/api/ask", json={**ASKED, **fields}) as source:
        return {event.event: json.loads(event.data) for event in source.iter_sse()}


def test_three_users_over_every_route(team: Team) -> None:
    with shared(team.places, team.users) as node:
        for name, token in team.tokens.items():
            with node.client(token) as http:
                own_libraries = [entry for entry in TEXTS if entry in WHO[name]]
                libraries = http.get("/api/status").json()["libraries"]
                assert [(entry["name"], entry["documents"]) for entry in libraries] == [
                    (entry, 1) for entry in own_libraries
                ]
                for key in SENT:
                    never = told(http, key, "nowhere")
                    for library in TEXTS:
                        has, reply = WHO[name].get(library, ""), told(http, key, library)
                        if not has:
                            assert reply == never, f"{name}, {library}, {key}"
                        elif ORDER.index(has) < ORDER.index(LEAST[key]):
                            assert reply.status == 403, (key, reply)
                        else:
                            assert reply.status not in (401, 403, 500, 503), (key, reply)
                for library in own_libraries:
                    reply = http.post("/api/search", json={**ASKED, "library": library}).json()
                    assert [passage["source"] for passage in reply["passages"]] == [
                        f"{library}.txt"
                    ]
    requests = team.users.asked("garden", user="ben")
    assert {"ask", "search", "page"} <= {request.what for request in requests}
    assert all(request.words is None for request in requests)


def test_a_log_that_the_server_cannot_read_is_read_elsewhere(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policies, "OWNER", "false")
    owner = next(name for name in WHO if WHO[name].get("garden") == "owner")
    with shared(team.places, team.users) as node, node.client(team.tokens[owner]) as http:
        for language, text in (
            ("en", "may only add to the log"),
            ("zh-CN", "只能追加审计记录。请"),
        ):
            response = http.get("/api/audit?library=garden", headers={"accept-language": language})
            assert response.status_code == 403
            assert text in response.json()["error"]["message"]
            assert "localrag audit" in response.text
            assert team.place.name not in response.text


def test_the_log_names_no_path_of_a_job(team: Team, tmp_path: Path) -> None:
    folder = tmp_path / "private" / "reports"
    folder.mkdir(parents=True)
    (folder / "a.txt").write_text("A report.")
    team.users.keeps_words("garden", on=True)
    with (
        shared(team.places, team.users) as served,
        served.client(team.tokens["ada"]) as http,
    ):
        engine = served.engines["garden"]
        with open_library(team.place, embedding=None) as library:  # as the command line does
            assert library.jobs is not None
            library.jobs.put("add", Arguments((str(folder), str(folder / "a.txt"))), "ada")
        assert Worker(Libraries([team.place], lambda _: engine), [folder]).look(engine)
        (entry,) = http.get("/api/audit?library=garden").json()["asked"]
        assert (entry["what"], entry["words"]) == ("add", "reports, a.txt")


def test_a_conversation_is_of_who_asked(team: Team) -> None:
    team.users.grant("eve", "garden", "reader")
    with shared(team.places, team.users) as node:
        owner, http, other = (node.client(team.tokens[name]) for name in ("ada", "ben", "eve"))
        with owner, http, other:
            assert owner.post("/api/history", json={"on": True}).json()["on"] is True
            answer = ask(http)
            key = answer["kept"]["conversation"]
            assert [
                conversation["key"]
                for conversation in http.get("/api/history").json()["conversations"]
            ] == [key]
            turn = {"question": QUESTION, "answer": answer["answer"]["answer"]}
            for foreign in (owner, other):
                assert foreign.get("/api/history").json()["conversations"] == []
                assert foreign.get(f"/api/history/{key}").status_code == 404
                foreign.delete(f"/api/history/{key}")
                foreign.delete("/api/history")
                node.llm.replies.append("How many orchids does the glass house have?")
                on = {"history": [turn], "conversation": key, "library": "garden"}
                record = ask(foreign, **{**on, "question": "And how many orchids?"})["kept"]
                assert record["conversation"] == ""
            assert len(http.get(f"/api/history/{key}").json()["answers"]) == 1
            assert http.delete(f"/api/history/{key}").json() == {"purged": True}
            assert http.get("/api/history").json()["conversations"] == []


def test_what_an_editor_removes_takes_others_answers_along(team: Team) -> None:
    with shared(team.places, team.users) as node:
        owner, http = (node.client(team.tokens[name]) for name in ("ada", "ben"))
        with owner, http:
            owner.post("/api/history", json={"on": True})
            assert ask(http)["kept"]["conversation"]
            (document,) = owner.get("/api/documents").json()["documents"]
            assert owner.delete(f"/api/documents/{document['id']}").status_code == 200
            assert http.get("/api/history").json()["conversations"] == []
            assert http.get("/api/documents").json()["documents"] == []


def test_sessions_and_rights_count_on_every_node_and_end_on_every_node(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(people, "REMEMBERED", 0.0)
    proxy, host = "https://docs.example", {"host": "docs.example"}
    nodes = [shared(team.places, team.users, proxy=proxy) for _ in range(2)]

    def status(node: Node, **headers: str) -> httpx.Response:
        with node.client(**host, **headers) as http:
            response: httpx.Response = http.get("/api/status")
        return response

    with nodes[0] as first_node, nodes[1] as second_node:
        cookies = {}
        for name in ("ada", "ben"):
            with first_node.client(team.tokens[name], **host) as http:
                cookies[name] = cookie_of(http.post("/session"))
        assert status(second_node, cookie=cookies["ben"]).json()["user"]["name"] == "ben"
        with first_node.client(cookies["ben"].partition("=")[2], **host) as http:  # as a bearer
            assert http.get("/api/status").status_code == 200
            assert http.post("/session").status_code == 403
        with second_node.client(cookie=cookies["ben"], **host) as http:
            assert http.delete("/session").status_code == 204
        assert status(first_node, cookie=cookies["ben"]).status_code == 401
        team.users.grant("ada", "tea", None)
        (entry,) = status(second_node, cookie=cookies["ada"]).json()["libraries"]
        assert entry["name"] == "garden"
        renewed = team.users.renew("ada")
        for node in (first_node, second_node):
            assert status(node, cookie=cookies["ada"]).status_code == 401
            assert status(node, authorization=f"Bearer {team.tokens['ada']}").status_code == 401
            assert status(node, authorization=f"Bearer {renewed}").status_code == 200


def test_a_right_that_is_gone_is_gone_though_it_is_remembered_for_a_moment(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(people, "REMEMBERED", 60.0)
    with (
        shared(team.places, team.users) as node,
        node.client(team.tokens["ada"]) as http,
        node.client(team.tokens["eve"]) as stranger,
    ):
        assert http.post("/api/search", json=ASKED).status_code == 200
        never = told(stranger, ("POST", "/api/search"), "garden")
        team.users.grant("ada", "garden", "reader")
        (document,) = http.get("/api/documents").json()["documents"]
        assert http.delete(f"/api/documents/{document['id']}").status_code == 403
        team.users.grant("ada", "garden", None)
        assert told(http, ("POST", "/api/search"), "garden") == never


def test_what_a_search_has_found_is_not_told_to_who_lost_the_library_meanwhile(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(people, "REMEMBERED", 60.0)
    embed = EMBEDDER.embed_queries

    def meanwhile(texts: Sequence[str]) -> Any:
        team.users.grant("ada", "garden", None)
        return embed(texts)

    with (
        shared(team.places, team.users) as node,
        node.client(team.tokens["ada"]) as http,
        node.client(team.tokens["eve"]) as stranger,
    ):
        assert http.post("/api/search", json=ASKED).status_code == 200
        never = told(stranger, ("POST", "/api/search"), "garden")
        monkeypatch.setattr(EMBEDDER, "embed_queries", meanwhile)
        assert told(http, ("POST", "/api/search"), "garden") == never


def test_libraries_that_nobody_can_tell_apart_are_not_served_together(
    team: Team, postgres: str, tmp_path: Path
) -> None:
    other = read_url(f"{postgres}#elsewhere")
    tea = replace(team.place, library="tea")
    with users_of([team.place, tea]) as users:
        assert users is not None
    without: list[list[Location]] = [[other], [other, tmp_path], [tmp_path]]
    for places in without:
        with users_of(places) as users:
            assert users is None
    for wrong in (tmp_path, other):
        with (
            pytest.raises(UsageError, match="not all in one database"),
            users_of([team.place, wrong]),
        ):
            pass


@pytest.mark.skipif(sys.platform == "win32", reason="only on POSIX: signals")
def test_serve_lets_people_sign_in_and_its_own_account_not(place: Database, tmp_path: Path) -> None:
    machine = Machine(tmp_path, url=str(place))
    (tmp_path / "garden.txt").write_text(GARDEN)
    machine.run("add", str(tmp_path / "garden.txt"))
    bearer = {"authorization": f"Bearer {machine.run('users', 'add', 'ben').strip()}"}
    machine.run("grant", "ben", "reader")
    with machine.serving() as server, server.client() as http:
        assert http.get("/api/status").status_code == 401
        assert http.get("/api/status", headers=bearer).json()["user"]["name"] == "ben"
        (passage,) = http.post("/api/search", json=ASKED, headers=bearer).json()["passages"]
        assert passage["source"] == "garden.txt"
        assert http.delete(f"/api/documents/{DOCUMENT}", headers=bearer).status_code == 403
        assert not list(tmp_path.rglob("*.sock"))
        server.process.send_signal(signal.SIGTERM)
        output = server.process.communicate()[0].decode()
    assert "People sign in" in output
    assert "token=" not in output
    assert "Traceback" not in output


@pytest.mark.skipif(sys.platform == "win32", reason="the tests of a server's process are on POSIX")
def test_a_server_that_began_without_users_answers_nobody_and_says_why(
    place: Database, tmp_path: Path
) -> None:
    machine = Machine(tmp_path, url=str(place))
    (tmp_path / "garden.txt").write_text(GARDEN)
    machine.run("add", str(tmp_path / "garden.txt"))
    with machine.serving("--no-jobs") as server, server.client() as http:
        assert http.post("/api/search", json=ASKED).status_code == 200
        machine.run("users", "add", "ben")
        # What follows the indexes finds out.
        until(lambda: http.get("/healthz").status_code != 200)
        response = http.post("/api/search", json=ASKED)
        assert response.status_code == 503
        assert response.json()["error"]["code"] == "library_unavailable"
        assert "Start the server again" in response.json()["error"]["message"]
        assert http.get("/api/documents").status_code == 503


@pytest.mark.skipif(sys.platform == "win32", reason="the tests of a server's process are on POSIX")
def test_a_mistyped_library_is_not_made_by_serve_and_add_says_that_it_is_new(
    place: Database, tmp_path: Path
) -> None:
    machine = Machine(tmp_path, url=str(place))
    mistyped = Machine(tmp_path, url=str(replace(place, library="gadren")))
    (tmp_path / "garden.txt").write_text(GARDEN)

    def told(of: Machine, *arguments: str) -> tuple[int, str]:
        result = subprocess.run(
            of.command(*arguments), env=of.environment(), capture_output=True, text=True
        )
        return result.returncode, result.stderr

    with machine.serving("--no-jobs"):  # an empty database gets one
        pass
    code, output = told(mistyped, "serve", "--no-jobs")
    assert code == 1
    assert "There is no library gadren" in output
    assert "There are: garden." in output
    assert "is new in this database" not in told(machine, "add", str(tmp_path / "garden.txt"))[1]
    code, output = told(mistyped, "add", str(tmp_path / "garden.txt"))
    assert (code, "The library gadren is new in this database." in output) == (0, True)
