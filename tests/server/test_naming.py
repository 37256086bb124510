"""Names in place of paths in all that leaves the server."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterator
from email.message import EmailMessage
from pathlib import Path, PurePosixPath
from typing import Any, get_args

import httpx
import pymupdf
import pytest
from documents.test_linear_time import assert_linear
from server.conftest import TOKEN, Served, running
from starlette.routing import Match, Route

import localrag
from localrag import factory
from localrag.api import LocalRAG
from localrag.config.settings import Settings, set_in_file
from localrag.egress.databases import read_url
from localrag.engine import AskOptions, Engine, open_engine
from localrag.errors import (
    BackendError,
    CorruptFileError,
    ForbiddenError,
    LibraryError,
    LibraryLockedError,
    LibraryUnreachableError,
    LocalragError,
    UsageError,
)
from localrag.library.backends.postgres.policies import no_roles, open_to_all
from localrag.library.catalogue.filters import Filter
from localrag.messages import InterfaceLanguage
from localrag.server.access import Access
from localrag.server.app import routes_of
from localrag.server.libraries import Libraries
from localrag.server.naming import (
    LONGEST_VALUE,
    Naming,
    below_shared,
    own_names,
    without_paths,
)
from localrag.server.replies import error_body, no_library

QUESTION = "When was the glass house opened?"
SUPERUSER = str(PurePosixPath("/", "root"))
RAW = {"content-type": "application/octet-stream"}


def test_a_file_goes_by_its_name() -> None:
    assert own_names(["/srv/a/tea.pdf", "/srv/a/b/garden.pdf"]) == {
        "/srv/a/tea.pdf": "tea.pdf",
        "/srv/a/b/garden.pdf": "garden.pdf",
    }


@pytest.mark.parametrize("name", ["report.txt", f"{'r' * 246}.txt"])
def test_many_files_of_one_name_are_numbered_in_linear_time(name: str) -> None:
    def numbered(count: int) -> None:
        names = own_names(f"/home/u{number}/{name}" for number in range(count)).values()
        stem = name.removesuffix(".txt")
        assert set(names) == {name, *(f"{stem} ({n}).txt" for n in range(2, count + 1))}

    assert_linear(lambda count: lambda: numbered(count), 2500)


def test_files_without_a_name_are_told_apart_too() -> None:
    names = own_names(["/home/a/", "/home/b/", "/home/a/.x", "/home/b/.x", "C:/", "D:/"])
    assert len(set(names.values())) == 6


URLS = (
    "postgresql://keeper@db.inside.example:6543/secrets#tea house",
    "postgresql://keeper@/secrets?host=/var/run/inside&port=6543#tea house",
    "postgresql://[fd00::6543]/secrets#tea house",
)
PRIVATE = ("keeper", "inside", "secrets", "6543", "postgresql", "localrag index")
FAULT = 'connection to server at "db.inside.example", port 6543 failed: no role "keeper"'


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize(
    "make",
    [
        lambda url: LibraryError("{database} fails: {reason}", database=url, reason=FAULT),
        lambda url: LibraryUnreachableError("{database}: {reason}", database=url, reason=FAULT),
        lambda url: ForbiddenError("{database}: {reason}", database=url, reason=FAULT),
        lambda url: no_roles(read_url(url), "keeper"),
        lambda url: open_to_all(read_url(url), "keeper"),
        lambda url: LibraryLockedError(
            "{directory} is written to by {command}, {pid} on {host}, since {since}",
            hint="",
            directory=url,
            pid=6543,
            host="inside",
            command="localrag index",
            since="?",
        ),
        lambda url: LibraryError("{library} was lost.", library=url),
        lambda url: LibraryError("Not here: {reason}", reason=f"nobody: {url} is gone"),
        lambda url: LibraryError(
            "{path}: {reason}",
            path="x",
            reason=LibraryError("{database}: {reason}", database=url, reason=FAULT),
        ),
    ],
)
def test_of_a_database_only_the_library_is_told(
    url: str, make: Callable[[str], LocalragError]
) -> None:
    for language in get_args(InterfaceLanguage):
        _, body, _ = error_body(make(url), language)
        text = body["error"]["message"]
        assert "tea house" in text
        assert not [word for word in PRIVATE if word in text], text
        assert str(without_paths(without_paths(make(url)))) == str(without_paths(make(url)))


@pytest.mark.parametrize(
    "names",
    [
        # Told apart by folders, but never by what all files share.
        {"/s/p/r.pdf": "r.pdf", "/s/p/a/r.pdf": "a/r.pdf", "/s/p/b/a/r.pdf": "b/a/r.pdf"},
        # What is attached to a mail goes by the mail.
        {"/s/m.eml": "m.eml", "/s/m.eml/r.pdf": "m.eml/r.pdf", "/s/r.pdf": "r.pdf"},
        {"/s/a/m.eml/r.pdf": "a/m.eml/r.pdf", "/s/b/m.eml/r.pdf": "b/m.eml/r.pdf"},
        # An upload tells no more than that it is one, wherever its library lay.
        {"/lib/uploads/r.pdf": "uploads/r.pdf", "/home/ada/papers/r.pdf": "r.pdf"},
        {"/lib/uploads/r.pdf": "uploads/r.pdf", "/old/uploads/r.pdf": "uploads/r (2).pdf"},
        # Nobody's account, and no drive.
        {
            "/home/ada/r.pdf": "r.pdf",
            "/mnt/nas/r.pdf": "nas/r.pdf",
            f"{SUPERUSER}/r.pdf": "r (2).pdf",
        },
        {r"C:\Users\ada\r.pdf": "r.pdf", r"D:\r.pdf": "r (2).pdf", r"D:\b\r.pdf": "b/r.pdf"},
        {r"C:\Users\ada\m.eml\r (2).pdf": "m.eml/r (2).pdf", r"\\nas\x\q.pdf": "q.pdf"},
        # A number is never that of another file.
        {
            "/home/a/r.pdf": "r.pdf",
            f"{SUPERUSER}/r.pdf": "r (3).pdf",
            f"{SUPERUSER}/r (2).pdf": "r (2).pdf",
        },
        {"/s/a/*.xyz": "a/*.xyz", "/s/*.xyz": "*.xyz"},
    ],
)
def test_names_tell_files_apart(names: dict[str, str]) -> None:
    assert own_names(names) == names


def test_a_name_stays_until_another_file_has_it() -> None:
    class Holding:
        """A library, as far as it is asked."""

        held = ("/s/a/r.pdf", "/s/tea.pdf")
        asked = 0

        def paths(self) -> tuple[str, ...]:
            self.asked += 1
            return self.held

    library: Any = Holding()
    naming = Naming(library)
    assert [naming.of("/s/a/r.pdf"), naming.of("/s/tea.pdf")] == ["r.pdf", "tea.pdf"]
    library.held = (*library.held, "/s/b/r.pdf")
    assert naming.of("/s/a/r.pdf") == "r.pdf"
    assert [naming.of("/s/b/r.pdf"), naming.of("/s/a/r.pdf")] == ["b/r.pdf", "a/r.pdf"]
    assert library.asked == 2, "nothing is made anew but for a new path"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (Path("/home/o'brien/my papers/a b.pdf"), "a b.pdf"),
        ("/home/o'brien/my papers/m.eml/a b.pdf", "m.eml/a b.pdf"),
        (OSError(13, "denied", "/srv/my papers/a b.pdf"), "[Errno 13] denied: 'a b.pdf'"),
        ("/srv/my papers/a.pdf: not a PDF (see /tmp/x)", "a.pdf: not a PDF (see x)"),
        (r"cannot open C:\Users\ada\a.txt", "cannot open a.txt"),
        ("file:///home/ada/a.pdf", "a.pdf"),
        (CorruptFileError("{source} is bad.", source="/srv/x/a.pdf"), "a.pdf is bad."),
        (
            "http://127.0.0.1:1234/v1 and/or 2024/茶.pdf",
            "http://127.0.0.1:1234/v1 and/or 2024/茶.pdf",
        ),
        ("localrag://garden/1", "localrag://garden/1"),
        (7, "7"),
    ],
)
def test_an_error_names_files(value: object, said: str) -> None:
    error = UsageError("{value}", value=value)
    assert str(without_paths(error)) == said


@pytest.mark.parametrize("unit", ["a ", " /a", "\n/a b", "a.eml/", "postgres://", ": /a b"])
@pytest.mark.parametrize("end", ["", "/", "|"])
def test_what_an_error_says_of_a_long_value_takes_no_longer_than_it_is(unit: str, end: str) -> None:
    def told(length: int) -> Callable[[], object]:
        error = no_library(f"x: /{unit * (length // len(unit))}{end}")
        return lambda: (error_body(error), error_body(UsageError("{value}", value=error)))

    assert_linear(told, 10_000)


def test_an_error_tells_no_more_of_a_value_than_can_be_read() -> None:
    long = "a b " * 10_000
    error = UsageError(
        "{long}, {reason}, {several}", long=long, reason="", several=("x" * 400,) * 9
    )
    for value in (error, UsageError("Not here: {reason}", reason=error)):
        _, body, _ = error_body(value)
        text = body["error"]["message"]
        assert "a b a b" in text
        assert "…" in text
        assert len(text) < 3 * LONGEST_VALUE
    assert str(without_paths(UsageError("{value}", value="x" * LONGEST_VALUE))) == "x" * 500


@pytest.mark.parametrize(
    "value",
    [
        "/srv/SECRET" + "/SECRET" * 200 + "/a.pdf",
        "not here: /srv/SECRET" + "/SECRET" * 200 + "/a.pdf",
        f"nobody: postgresql://SECRET@{'SECRET' * 200}/x#tea house",
    ],
)
def test_a_long_value_is_shortened_once_its_paths_are_names(value: str) -> None:
    error = without_paths(UsageError("{value}", value=value))
    assert "SECRET" not in str(error)
    assert str(error).endswith(("a.pdf", "tea house"))


@pytest.fixture
def place(served: Served, tmp_path: Path) -> Path:
    """A folder of files that were added: also such that cannot be read or are gone."""
    folder = tmp_path / "papers"
    (folder / "2024").mkdir(parents=True)
    (folder / "report.txt").write_text("The glass house was opened in 1907.", encoding="utf-8")
    (folder / "2024" / "report.txt").write_text("The glass house was closed.", encoding="utf-8")
    (folder / "gone.txt").write_text("A glass house without panes.", encoding="utf-8")
    (folder / "broken.pdf").write_bytes(b"%PDF-1.4 nothing")
    (folder / "data.bin").write_bytes(bytes(range(256)))
    with pymupdf.open() as paper:
        paper.new_page(width=300, height=200).insert_text((20, 40), "Orchids of the glass house.")
        paper.save(folder / "orchids.pdf")
    mail = EmailMessage()
    mail["Subject"], mail["From"], mail["To"] = "The house", "a@b.example", "c@d.example"
    mail.set_content("See what is attached.")
    content = b"The glass house was sold."
    mail.add_attachment(content, maintype="text", subtype="plain", filename="report.txt")
    (folder / "m.eml").write_bytes(mail.as_bytes())
    report = LocalRAG(served.engine).add([folder])
    assert len(report.committed) == 6
    assert len(report.failed) == 1
    (folder / "gone.txt").unlink()
    return folder


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"path": "*report.txt"}, {"report.txt", "2024/report.txt", "m.eml/report.txt"}),
        ({"path": "2024/*"}, {"2024/report.txt"}),
        ({"sources": ["2024/report.txt"]}, {"2024/report.txt"}),
        ({"path": "*/{folder}/*"}, set()),
        ({"path": "{folder}/*"}, set()),
        ({"path": "{whole}/*"}, set()),
        ({"sources": ["{whole}/report.txt"]}, set()),
        ({"sources": ["{folder}/report.txt"]}, set()),
        ({"path": "gone*", "within": ["{whole}/report.txt"]}, {"gone.txt"}),
        ({"path": "*orchids*", "types": ["pdf"]}, {"orchids.pdf"}),
    ],
)
def test_a_filter_takes_the_names_that_are_shown_and_no_path(
    served: Served, place: Path, given: dict[str, Any], found: set[str]
) -> None:
    text = json.dumps(given).replace("{folder}", place.name).replace("{whole}", str(place))
    with served.client() as http:
        body = {"question": QUESTION, "k": 100, "filter": json.loads(text)}
        reply = http.post("/api/search", json=body).raise_for_status().json()
        assert {passage["source"] for passage in reply["passages"]} == found
        whole = {"question": QUESTION, "filter": {"within": [str(place / "report.txt")]}}
        passages = http.post("/api/search", json=whole).raise_for_status().json()["passages"]
        assert "garden.txt" in {passage["source"] for passage in passages}


def test_commands_of_the_same_user_are_filtered_by_paths(served: Served, place: Path) -> None:
    condition = Filter(path=f"{place}/2024/*")
    (hit,) = served.engine.search(QUESTION, AskOptions(filter=condition, paths=True))
    assert hit.source == str(place / "2024" / "report.txt")


def test_a_list_is_narrowed_by_the_names_that_are_shown(served: Served, place: Path) -> None:
    with served.client() as http:

        def listed(words: str) -> set[str]:
            response = http.get("/api/documents", params={"words": words}).raise_for_status()
            return {
                name for document in response.json()["documents"] for name in document["sources"]
            }

        assert listed("2024/REPORT") == {"2024/report.txt"}
        assert listed("m.eml") == {"m.eml", "m.eml/report.txt"}
        for part in (str(place), place.name, f"{place.name}/gone"):
            assert listed(part) == set(), part


class Walk:
    """Asks, and keeps all that came back, and which routes it came from."""

    def __init__(self, http: httpx.Client) -> None:
        self.http = http
        self.asked: list[tuple[str, str]] = []
        self.replies: list[str] = []

    def __call__(self, method: str, path: str, **more: Any) -> httpx.Response:
        reply = self.http.request(method, path, **more)
        self.asked.append((method, reply.url.path))
        self.replies.append(f"{method} {path} {more}\n{reply.headers}\n{reply.text}")
        return reply

    def ask(self, path: str, **body: object) -> httpx.Response:
        return self("POST", path, json=body)

    def call(self, method: str, **params: object) -> httpx.Response:
        """A request of the Model Context Protocol."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        headers = {"accept": "application/json, text/event-stream"}
        return self("POST", "/mcp", json=body, headers=headers)


@pytest.fixture
def walk(served: Served, tmp_path: Path) -> Iterator[Walk]:
    """Over the library, and over one that cannot be opened."""

    def opened(folder: Path) -> Engine:
        return (
            served.engine
            if folder.name == "garden"
            else open_engine(folder, Settings(), create=False)
        )

    fields = {"authorization": f"Bearer {TOKEN}"}
    libraries = Libraries([tmp_path / "garden", tmp_path / "absent"], opened)
    with (
        running(libraries) as port,
        httpx.Client(
            base_url=f"http://127.0.0.1:{port}", headers=fields, timeout=60, trust_env=False
        ) as http,
    ):
        yield Walk(http)


def test_no_path_leaves_by_any_route(
    served: Served, place: Path, walk: Walk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(factory, "cache_folder", lambda: tmp_path / "cache")
    for module in ("pipeline", "evaluator"):
        name = f"localrag.evaluator.{module}.model_fingerprint"
        monkeypatch.setattr(name, lambda _: "scripted")
    for path in ("/", "/view", "/source", "/static/app.js", "/metrics", "/healthz", "/api/status"):
        walk("GET", path)
    walk("POST", "/session")
    listing = walk("GET", "/api/documents").json()
    names = {name for document in listing["documents"] for name in document["sources"]}
    assert {"report.txt", "2024/report.txt", "m.eml/report.txt", "gone.txt"} < names
    sources = walk("GET", "/api/unread").json()["unread"]
    assert {source["source"] for source in sources} == {"broken.pdf", "*.bin"}
    walk("GET", "/api/search")
    ids = {document["sources"][0]: document["id"] for document in listing["documents"]}
    for name in ("report.txt", "gone.txt", "orchids.pdf", "m.eml/report.txt"):
        where = {"document": ids[name], "start": 0, "end": 5}
        view = walk("GET", "/api/view", params=where).json()
        assert view["source"] == name
        assert view["cited"].startswith(name)
        walk("GET", "/api/view.png", params=where)
        walk("GET", "/api/page", params={"document": ids[name], "offset": 0})
    served.llm.replies += ['["orchids", "panes"]', "word", "word", "word"]
    _questions(walk)
    _assistants(walk, ids)
    _kept(walk, tmp_path)
    for name, data in (("a.pdf", b"%PDF-1.4 no"), ("../b.txt", b"A hut."), ("c.zip", b"PK\3\4")):
        walk("POST", "/api/documents", params={"name": name}, content=data, headers=RAW)
    for name in ("gone.txt", "m.eml", "nothing"):
        walk("DELETE", f"/api/documents/{ids.get(name, name)}")
    _failures(served, walk, tmp_path)
    _expect_all_routes(walk, tmp_path)
    secrets = (tmp_path.name, f"{tempfile.gettempdir()}/", str(Path(localrag.__file__).parent))
    for reply in walk.replies:
        for secret in secrets:
            assert secret not in reply, reply


def _questions(walk: Walk) -> None:
    messages = [{"role": "user", "content": QUESTION}]
    walk("GET", "/libraries")
    for path, body in (
        ("/api/search", {"question": QUESTION}),
        ("/api/ask", {"question": QUESTION}),
        ("/api/ask", {"question": QUESTION, "mode": "self-rag", "expand": "multi-query"}),
        ("/v1/embeddings", {"input": "x"}),
        ("/v1/rerank", {"query": "x", "documents": ["y"]}),
        ("/v1/vector_stores/default/search", {"query": QUESTION}),
    ):
        assert walk.ask(path, **body).status_code == 200
        assert walk.ask(path, **body | {"library": "absent"}).status_code in (200, 400, 404)
    walk.ask("/v1/vector_stores/absent/search", query="x")
    for vary in ("rerankers", "modes"):
        walk.ask("/api/compare", question=QUESTION, vary=vary)
    _tables(walk)
    walk.ask("/api/evaluate", name="a.json", data="no")
    said_so = {"question": QUESTION, "reference": "In 1907."}
    response = walk.ask("/api/evaluate", name="a.jsonl", data=json.dumps(said_so), metrics=["f1"])
    (name,) = re.findall(r'"name": "([0-9a-f]{16})"', response.text)
    for ending in ("html", "json", "csv"):
        assert walk("GET", f"/api/reports/{name}.{ending}").status_code == 200
    for stream in (False, True):
        for model in ("localrag", "localrag:self-rag", "localrag/absent"):
            walk.ask("/v1/chat/completions", messages=messages, stream=stream, model=model)
            walk.ask("/v1/responses", input=QUESTION, stream=stream, model=model)
    walk("GET", "/v1/models")
    walk("GET", "/v1/models/localrag")
    walk("GET", "/v1/models/localrag/absent")
    assert any('"filename":"2024/report.txt"' in reply for reply in walk.replies)


def _kept(walk: Walk, tmp_path: Path) -> None:
    walk.ask("/api/history", on=True)
    walk.ask("/api/ask", question=QUESTION)
    (conversation,) = walk("GET", "/api/history").json()["conversations"]
    (turn,) = walk("GET", f"/api/history/{conversation['key']}").json()["answers"]
    assert turn["answer"]["contexts"][0]["source"] == turn["answer"]["citations"][0]["source"] != ""
    walk("DELETE", f"/api/history/{conversation['key']}")
    walk("DELETE", "/api/history")
    assert walk("GET", "/api/jobs").json() == {"jobs": []}
    walk("POST", "/api/jobs/1/cancel")
    walk("GET", "/api/audit")
    walk("DELETE", "/session")
    set_in_file("embedding.model", str(tmp_path / "a model"))
    walk.ask("/api/settings", key="answer.k", value=3)
    walk.ask("/api/settings", key="answer.k", value=0)
    settings = walk("GET", "/api/settings").json()["settings"]
    assert any(setting["later"] for setting in settings if setting["key"] == "embedding.model")


def _tables(walk: Walk) -> None:
    columns = [{"question": QUESTION}, {"question": "Is it open?", "kind": "yes/no"}]
    for choice in ({}, {"patterns": ["2024"]}, {"patterns": [str(Path("/etc/*"))]}):
        walk.ask("/api/tables/documents", **choice)
        response = walk.ask("/api/tables", columns=columns, **choice)
        walk.ask("/api/tables/saved/x", columns=columns, **choice)
        for name in re.findall(r'"name": "([0-9a-f]{16})"', response.text):
            for ending in ("html", "json", "csv", "md", "xlsx"):
                assert walk("GET", f"/api/tables/{name}.{ending}").status_code == 200
        walk.ask("/api/summaries", **choice)
        walk.ask("/api/summaries", about=QUESTION, **choice)
    assert "2024" in walk("GET", "/api/tables").text
    walk.ask("/api/tables", saved="x")
    walk("DELETE", "/api/tables/saved/x")
    walk("DELETE", "/api/tables/saved/x")


def _assistants(walk: Walk, ids: dict[str, str]) -> None:
    client = {"name": "t", "version": "1"}
    greeting = walk.call(
        "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client
    )
    walk.http.headers["mcp-session-id"] = greeting.headers["mcp-session-id"]
    for name, arguments in (
        ("search", {"query": QUESTION}),
        ("ask", {"question": QUESTION}),
        ("table", {"columns": [QUESTION, "Is it open?"]}),
        ("table", {"columns": [QUESTION], "documents": [str(Path("/etc/*"))]}),
        ("summarise", {"documents": ["2024"]}),
        ("summarise", {"documents": [str(Path("/etc/*"))], "about": QUESTION}),
        ("compute", {"question": "How many?", "documents": ["2024"]}),
        ("list_documents", {}),
        ("list_documents", {"containing": "2024/"}),
        ("get_page", {"document": "2024/report.txt"}),
        ("get_page", {"document": "report.txt"}),
        ("get_page", {"document": "m.eml/report.txt", "page": 9}),
        ("get_page", {"document": str(Path("/etc/passwd"))}),
        ("status", {}),
        ("search", {"query": "x", "library": "absent"}),
    ):
        walk.call("tools/call", name=name, arguments=arguments)
    assert "The glass house was closed." in walk.replies[-6]
    assert "There is no document passwd." in walk.replies[-3]
    walk.call("tools/list")
    walk.call("resources/list")
    walk.call("resources/templates/list")
    walk.call("resources/read", uri=f"localrag://garden/{ids['report.txt']}/1")
    walk.call("resources/read", uri="localrag://garden/nothing/1")
    del walk.http.headers["mcp-session-id"]


def _failures(served: Served, walk: Walk, tmp_path: Path) -> None:
    """What fails in the middle of things, with paths in what it says."""
    walk.http.headers["connection"] = "close"  # as the server does after an error that is not ours
    lost = OSError(5, "Input/output error", str(tmp_path / "my models" / "a.gguf"))

    def failing(error: Exception) -> Callable[..., Any]:
        def fail(*_: object, **__: object) -> None:
            raise error

        return fail

    model = BackendError("The model {path} failed: {reason}", path=tmp_path / "m", reason=lost)
    served.llm.complete = failing(model)  # type: ignore[method-assign]
    walk.ask("/api/ask", question=QUESTION, expand="multi-query")
    walk.ask("/v1/chat/completions", messages=[{"role": "user", "content": QUESTION}])
    served.llm.stream = failing(model)  # type: ignore[method-assign]
    for stream in (False, True):
        _questions_again(walk, stream)
    for error in (
        model,
        lost,
        LocalragError("{directory} is damaged.", directory=tmp_path / "garden"),
    ):
        served.engine.search = failing(error)  # type: ignore[method-assign]
        walk.ask("/api/search", question=QUESTION)
        walk.ask("/v1/vector_stores/default/search", query=QUESTION)
    served.engine.library.documents = failing(lost)  # type: ignore[method-assign]
    walk("GET", "/api/documents")


def _questions_again(walk: Walk, stream: bool) -> None:
    walk.ask("/api/ask", question=QUESTION)
    walk.ask("/v1/responses", input=QUESTION, stream=stream)
    messages = [{"role": "user", "content": QUESTION}]
    walk.ask("/v1/chat/completions", messages=messages, stream=stream)


def _expect_all_routes(walk: Walk, tmp_path: Path) -> None:
    """A route that is new is to be asked above, too."""
    routes: Any = routes_of(Libraries([tmp_path], lambda _: None), Access(TOKEN, 1))  # type: ignore[arg-type,return-value]
    for route in routes:
        methods = route.methods or {"POST"} if isinstance(route, Route) else {"GET"}
        for method in methods - {"HEAD"}:
            scopes = (
                {"type": "http", "method": method, "path": path, "root_path": "", "headers": []}
                for verb, path in walk.asked
                if verb == method
            )
            matched = any(route.matches(scope)[0] is Match.FULL for scope in scopes)
            assert matched, f"{method} {route.path}"


def test_the_user_of_this_machine_gets_paths(served: Served, place: Path) -> None:
    served.engine.display_name = Naming(served.engine.library).of
    whole = served.engine.search(QUESTION, AskOptions(paths=True))
    hits = served.engine.search(QUESTION)
    assert str(place / "report.txt") in {hit.source for hit in whole}
    assert "report.txt" in {hit.source for hit in hits}


@pytest.mark.parametrize(
    ("paths", "told"),
    [
        (["/data/a/x.txt", "/data/a/b/y.txt"], ["x.txt", "b/y.txt"]),
        (["/home/ada/x.txt", "/home/ada/b/y.txt"], ["x.txt", "b/y.txt"]),
        (["/srv/secret/a/x.txt", "/mnt/private/b/y.txt"], ["a/x.txt", "b/y.txt"]),
        (["/home/ada/a/x.txt", "/home/bob/y.txt"], ["a/x.txt", "y.txt"]),
        (
            ["x.txt", "/srv/secret/a/y.txt", "/srv/secret/a/b/z.txt"],
            ["x.txt", "a/y.txt", "a/b/z.txt"],
        ),
        (["C:\\Users\\ada\\a\\x.txt", "C:\\Users\\ada\\b\\y.txt"], ["a/x.txt", "b/y.txt"]),
    ],
)
def test_folders_that_all_share_are_not_told(paths: list[str], told: list[str]) -> None:
    assert list(below_shared(paths).values()) == told
