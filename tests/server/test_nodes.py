"""Several servers over one database: their jobs, and what one was given that another shows."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pymupdf
import pytest
from fakes import HashEmbedder
from library.library_fixtures import EMBEDDER, add, bytes_on_disk, document, indexes, open_library
from server.conftest import GREETING, TOKEN, running
from server.live_server import PROGRAM, Machine
from server.test_uploads import send
from waiting import until

from localrag import factory
from localrag.config.settings import Settings
from localrag.documents import files
from localrag.egress.databases import Database, read_url
from localrag.engine import Engine
from localrag.errors import LibraryError, UsageError
from localrag.indexing import events
from localrag.library.backends.postgres.queue import Arguments, Jobs, QueuedJob
from localrag.library.library import Library, delete_library
from localrag.library.location import Location
from localrag.library.transfer import export_library, import_library, migrate_library
from localrag.server import following, looking, node
from localrag.server.libraries import Libraries
from localrag.server.node import Node
from localrag.types import Hit

FILES = 60
QUESTIONS = ("lamp of pier 3", "lit in 1837", "Note 50", "harbour")

SLOWLY = """
from localrag.server.node import Node
Node.lease = 6.0  # a node that is slow for so long has lost its job
from localrag.indexing import indexer, passages
indexer.BATCH = passages.BATCH = 16  # so that a part is committed, and a part is not
from fakes import HashEmbedder
import time
embed = HashEmbedder.embed_queries
def slowly(self, texts):
    time.sleep(0.025 * len(texts))
    return embed(self, texts)
HashEmbedder.embed_queries = slowly
"""


@dataclass
class Member(Machine):
    """A machine whose library is in a database; the folder is its own."""

    url: str = ""

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-c", SLOWLY + PROGRAM, "--library", self.url, *arguments]


def files_in(folder: Path, count: int = FILES) -> Path:
    folder.mkdir()
    for number in range(count):
        text = f"Note {number}: the lamp of pier {number % 17} was lit in {1800 + number}."
        (folder / f"{number:03}.txt").write_text(text)
    return folder


def members(url: str, folder: Path, count: int = 2) -> Iterator[Member]:
    for number in range(count):
        own = folder / f"node {number}"
        own.mkdir()
        yield Member(own, url=url)


def everything(location: Location) -> tuple[list[tuple[str, list[str]]], list[list[Hit]]]:
    """The documents with their paths, and what both legs find, to the last digit."""
    legs = factory.indexes_of(factory.make_tokenizer(Settings()), "inverted-index")
    with Library.open(location, create=False, embedding=None, indexes=legs) as library:
        documents = sorted((entry.id, sorted(entry.sources)) for entry in library.documents())
        hits = []
        for question in QUESTIONS:
            hits.append(library.vectors.search(EMBEDDER.embed_queries([question])[0], 50))
            hits.append(library.keywords.search(question.lower().split(), 50))
    return documents, hits


def of(job: QueuedJob) -> int:
    """The process of the node that has a job."""
    return int(job.node.split(":")[1])


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_another_node_finishes_what_a_killed_one_has_begun(postgres: str, tmp_path: Path) -> None:
    url = f"{postgres}#{tmp_path.name}"
    folder = files_in(tmp_path / "docs")
    with ExitStack() as stack:
        # Other tests have left libraries there: a server makes the first of a database alone.
        library = stack.enter_context(closing_engine(read_url(url))).library
        served = [
            stack.enter_context(member.serving("--add-from", str(folder)))
            for member in members(url, tmp_path)
        ]
        jobs = library.jobs
        assert jobs is not None
        assert "Queued as job" in next(members(url, tmp_path / "docs", 1)).run(
            "add", str(folder), "--queue"
        )
        until(lambda: jobs.all()[0].progress.done > FILES / 10)
        (job,) = jobs.all()
        killed = of(job)
        assert job.state == "running"
        os.kill(killed, signal.SIGKILL)
        before = library.counts().documents
        assert 0 < before < FILES
        until(lambda: jobs.all()[0].state != "running" or of(jobs.all()[0]) != killed)
        until(lambda: jobs.all()[0].state == "done")
        (job,) = jobs.all()
        assert of(job) in {server.process.pid for server in served} - {killed}
        assert (job.attempts, job.progress.done, job.progress.unread) == (2, FILES, 0)
        # What the first had committed was not embedded again.
        assert job.progress.passages <= FILES - before
    alone = Member(tmp_path / "alone", url=str(tmp_path / "uninterrupted"))
    alone.folder.mkdir()
    alone.run("add", str(folder))
    assert everything(read_url(url)) == everything(tmp_path / "uninterrupted")


# In one process: what a node takes, keeps and lets go


@pytest.fixture
def place(postgres: str, tmp_path: Path) -> Database:
    return read_url(f"{postgres}#{tmp_path.name}")


def engine_of(place: Location, embedder: HashEmbedder = EMBEDDER) -> Engine:
    settings = Settings()
    library = open_library(
        place,
        tokenize=factory.make_tokenizer(settings),
        embedding=factory.identity_of(embedder, settings),
    )
    return Engine(library, settings, embedder=embedder)


@pytest.fixture
def engine(place: Database) -> Iterator[Engine]:
    new_engine = engine_of(place)
    yield new_engine
    new_engine.close()


def jobs_of(engine: Engine) -> Jobs:
    assert engine.library.jobs is not None
    return engine.library.jobs


def node_of(engine: Engine, *folders: Path) -> Node:
    libraries = Libraries([engine.library.location], lambda _: engine)
    libraries.engine(libraries.names[0])
    return Node(libraries, folders)


def add_job(engine: Engine, *paths: Path) -> int:
    return jobs_of(engine).put("add", Arguments(tuple(map(str, paths))))


def test_a_node_adds_and_rebuilds(engine: Engine, tmp_path: Path) -> None:
    folder = files_in(tmp_path / "docs", 3)
    (folder / "broken.pdf").write_bytes(b"%PDF-1.4 nothing")
    own_node = node_of(engine, folder)
    add_job(engine, folder)
    jobs_of(engine).put("rebuild", Arguments())
    assert own_node.look(engine)
    assert own_node.look(engine)
    assert not own_node.look(engine)
    addition, rebuilt = jobs_of(engine).all()
    assert (addition.state, addition.progress.done, addition.progress.unread) == ("done", 4, 1)
    assert rebuilt.state == "done"
    assert engine.library.counts().documents == 3
    assert len(engine.library.problems()) == 1


def test_a_node_adds_only_what_it_was_told_to(engine: Engine, tmp_path: Path) -> None:
    """Whoever may write to the database does not read a node's files through it."""
    folder, other = files_in(tmp_path / "docs", 1), files_in(tmp_path / "private", 1)
    (folder / "way").symlink_to(other)
    (tmp_path / "docs and more").mkdir()
    own_node, nobody = node_of(engine, folder), node_of(engine)
    paths = (other, folder / "way", folder / ".." / "private", tmp_path / "docs and more")
    for path in paths:
        add_job(engine, path)
    add_job(engine, folder / "nowhere")
    add_job(engine, folder)
    while own_node.look(engine):
        pass
    *refusals, missing, last = jobs_of(engine).all()
    hostname = socket.gethostname()
    assert [job.declined for job in refusals] == [{hostname: "not allowed"}] * 4
    assert missing.declined == {hostname: "not there"}
    assert last.state == "done"
    # A link in a folder that leads out of it is not followed either.
    assert [entry.sources for entry in engine.library.documents()] == [(str(folder / "000.txt"),)]
    add_job(engine, folder)
    while nobody.look(engine):
        pass
    assert jobs_of(engine).all()[-1].declined == {hostname: "not allowed"}


@pytest.mark.skipif(sys.platform == "win32", reason="only on POSIX: links need no rights")
def test_what_becomes_a_link_once_it_was_listed_is_not_read(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever may write to a share does not read a node's files through it."""
    folder, private = files_in(tmp_path / "docs", 2), tmp_path / "pgpass"
    private.write_text("the password of the database")
    deeper = folder / "sub"
    deeper.mkdir()
    (deeper / "pgpass").write_text("nothing")

    def swap() -> None:
        (folder / "000.txt").unlink()
        (folder / "000.txt").symlink_to(private)
        (deeper / "pgpass").unlink()
        deeper.rmdir()
        deeper.symlink_to(tmp_path)

    monkeypatch.setattr(node._JobLease, "hear", at(events.FilesFound, swap))
    add_job(engine, folder)
    assert node_of(engine, folder).look(engine)
    (job,) = jobs_of(engine).all()
    assert (job.state, job.progress.done, job.progress.unread) == ("done", 3, 2)
    assert [entry.sources for entry in engine.library.documents()] == [(str(folder / "001.txt"),)]
    assert {problem.source for problem in engine.library.problems()} == {
        str(folder / "000.txt"),
        str(deeper / "pgpass"),
    }


@pytest.mark.skipif(sys.platform == "win32", reason="only on POSIX: links need no rights")
def test_what_becomes_a_link_while_it_is_listed_is_not_opened(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not for its kind either: what is said of that would tell of the first bytes."""
    folder, private = files_in(tmp_path / "docs", 1), tmp_path / "pgpass"
    private.write_bytes(b"\0\1\2")
    unknown = folder / "notes.unknown"
    unknown.write_text("The lamp was lit.")
    list_folder = files._entries

    def swap(path: str) -> list[os.DirEntry[str]]:
        paths = list_folder(path)
        unknown.unlink()
        unknown.symlink_to(private)
        return paths

    monkeypatch.setattr(files, "_entries", swap)
    add_job(engine, folder)
    assert node_of(engine, folder).look(engine)
    (problem,) = engine.library.problems()
    assert problem.error is not None
    assert problem.source == str(unknown)
    assert "outside what is being added" in problem.error.message


def test_a_rebuild_reads_only_what_a_node_was_told_to(engine: Engine, tmp_path: Path) -> None:
    folder, other = files_in(tmp_path / "docs", 1), tmp_path / "private"
    other.mkdir()
    (other / "secret.txt").write_text("something else")
    own_node = node_of(engine, folder, other)
    add_job(engine, folder, other)
    assert own_node.look(engine)
    with engine.library._catalogue.write() as transaction:
        transaction.sql.execute("UPDATE documents SET reader = 0")
    jobs_of(engine).put("rebuild", Arguments())
    assert node_of(engine, folder).look(engine)
    assert jobs_of(engine).all()[-1].state == "done"
    outdated = engine.library.outdated()
    assert [entry.sources for entry in engine.library.documents() if entry.id in outdated] == [
        (str(other / "secret.txt"),)
    ]


def test_a_folder_that_is_not_mounted_takes_nothing_out(engine: Engine, tmp_path: Path) -> None:
    """Its place is there on such a node, and empty."""
    folder = files_in(tmp_path / "docs", 2)
    own_node = node_of(engine, folder)
    add_job(engine, folder)
    assert own_node.look(engine)
    for path in folder.iterdir():
        path.unlink()
    jobs_of(engine).put("add", Arguments((str(folder),), prune=True))
    while own_node.look(engine):
        pass
    assert jobs_of(engine).all()[-1].declined == {socket.gethostname(): "not there"}
    assert engine.library.counts().documents == 2
    (folder / "002.txt").write_text("another one")
    jobs_of(engine).put("add", Arguments((str(folder),), prune=True))
    while own_node.look(engine):
        pass
    assert engine.library.counts().documents == 1


def prune(engine: Engine, folder: Path) -> QueuedJob:
    """The folder added once more, and what is gone from it removed."""
    jobs_of(engine).put("add", Arguments((str(folder),), prune=True))
    assert node_of(engine, folder).look(engine)
    return jobs_of(engine).all()[-1]


def left(engine: Engine) -> set[str]:
    return {Path(source.state.path).name for source in engine.library.sources()}


def test_one_mount_of_several_that_is_missing_takes_nothing_out(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = files_in(tmp_path / "docs", 2)
    for name in ("mounted", "deleted"):
        (folder / name / "deep").mkdir(parents=True)
        (folder / name / "deep" / f"{name}.txt").write_text(f"what was {name}")
    assert prune(engine, folder).progress.done == 4
    shutil.rmtree(folder / "mounted" / "deep")  # its place is left, and empty
    shutil.rmtree(folder / "deleted")
    assert prune(engine, folder).state == "done"
    assert left(engine) == {"000.txt", "001.txt", "mounted.txt"}
    (folder / "mounted" / "other.txt").write_text("it is there")
    prune(engine, folder)
    assert left(engine) == {"000.txt", "001.txt", "other.txt"}

    # Nor does one that goes after it was looked for.
    def unmount() -> None:
        for path in folder.rglob("*.txt"):
            path.unlink()
        shutil.rmtree(folder / "mounted")

    monkeypatch.setattr(node._JobLease, "hear", at(events.FilesFound, unmount))
    assert prune(engine, folder).state == "done"
    assert left(engine) == {"000.txt", "001.txt", "other.txt"}


def test_others_may_remove_what_a_job_is_about_to(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = files_in(tmp_path / "docs", 4)
    prune(engine, folder)
    paths = [folder / "000.txt", folder / "001.txt", folder / "002.txt"]
    for path in paths:
        path.unlink()

    def meanwhile() -> None:
        engine.library.remove(sources=[str(paths[0])])
        paths[2].write_text("somebody has brought it back")

    monkeypatch.setattr(node._JobLease, "hear", at(events.Vanished, meanwhile))
    job = prune(engine, folder)
    assert (job.state, job.fault) == ("done", None)
    assert left(engine) == {"002.txt", "003.txt"}


def test_a_node_goes_on_after_whatever_has_failed(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look, fails = Node.look, [OSError("no space"), LibraryError("away"), ValueError("a bug")]

    def failing(self: Node, served_engine: Engine) -> bool:
        if fails:
            raise fails.pop()
        return look(self, served_engine)

    monkeypatch.setattr(node, "LOOK", 0.05)
    monkeypatch.setattr(Node, "look", failing)
    folder = files_in(tmp_path / "docs", 1)
    add_job(engine, folder)
    with node_of(engine, folder):
        until(lambda: jobs_of(engine).all()[0].state == "done")


def test_jobs_of_a_library_that_was_made_again_wait_for_no_request(
    place: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(location: Location) -> Engine:
        library = open_library(
            location,
            create=False,
            tokenize=factory.make_tokenizer(Settings()),
            embedding=factory.identity_of(EMBEDDER, Settings()),
        )
        return Engine(library, Settings(), embedder=EMBEDDER)

    monkeypatch.setattr(node, "LOOK", 0.05)
    monkeypatch.setattr(following, "LOOK", 0.05)
    with closing_engine(place):
        libraries = Libraries([place], opened)
        libraries.begin()
    folder = files_in(tmp_path / "docs", 1)
    with closing(libraries), following.Follower(libraries), Node(libraries, [folder]):
        delete_library(place)
        until(lambda: not libraries.opened())
        time.sleep(0.3)
        assert not libraries.opened()  # and none is made
        with closing_engine(place) as again:
            add_job(again, folder)
            until(lambda: jobs_of(again).all()[0].state == "done")


def at(
    kind: type[events.IndexingEvent], act: Callable[[], None]
) -> Callable[[object, events.IndexingEvent], None]:
    """`_JobLease.hear` that does something at the first event of that kind."""
    hear, happenings = node._JobLease.hear, []

    def heard(lease: node._JobLease, happened: events.IndexingEvent) -> None:
        if isinstance(happened, kind) and not happenings:
            happenings.append(happened)
            act()
        hear(lease, happened)

    return heard  # type: ignore[return-value]


def test_who_lost_a_job_commits_nothing_further(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = files_in(tmp_path / "docs", 3)
    number = add_job(engine, folder)
    cancel = at(events.Embedded, lambda: jobs_of(engine).cancel(number))
    monkeypatch.setattr(node._JobLease, "hear", cancel)
    assert node_of(engine, folder).look(engine)
    assert jobs_of(engine).all()[0].state == "cancelled"
    assert engine.library.counts().documents == 0


def test_a_node_that_was_stopped_for_long_lets_go(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have been suspended: the lease is over, and nobody has told it."""
    folder = files_in(tmp_path / "docs", 3)
    add_job(engine, folder)
    with monkeypatch.context() as pause:
        pause.setattr(Node, "lease", 0.2)
        pause.setattr(node._JobLease, "look_around", lambda _: None)
        pause.setattr(node._JobLease, "hear", at(events.Parsed, lambda: time.sleep(0.5)))
        assert node_of(engine, folder).look(engine)
    assert engine.library.counts().documents == 0
    assert node_of(engine, folder).look(engine)
    (job,) = jobs_of(engine).all()
    assert (job.state, engine.library.counts().documents) == ("done", 3)


def test_others_write_while_a_folder_is_added(
    engine: Engine, place: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = files_in(tmp_path / "docs", 3)
    add_job(engine, folder)

    def write() -> None:
        with closing_engine(place) as other:
            add(other.library, document("in between", source="between.txt"))

    monkeypatch.setattr(node._JobLease, "hear", at(events.Parsed, write))
    assert node_of(engine, folder).look(engine)
    assert jobs_of(engine).all()[0].state == "done"
    assert engine.library.counts().documents == 4


@contextmanager
def closing_engine(place: Location) -> Iterator[Engine]:
    new_engine = engine_of(place)
    try:
        yield new_engine
    finally:
        new_engine.close()


@pytest.mark.parametrize(
    ("error", "state", "told"),
    [
        (LibraryError("The disk is full."), "waiting", "The disk is full."),
        (RuntimeError("a bug"), "waiting", "RuntimeError: a bug"),
        (UsageError("No such thing."), "failed", "No such thing."),
    ],
)
def test_what_goes_wrong_is_kept(
    engine: Engine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    state: str,
    told: str,
) -> None:
    def fail() -> None:
        raise error

    folder = files_in(tmp_path / "docs", 1)
    add_job(engine, folder)
    monkeypatch.setattr(node._JobLease, "hear", at(events.Parsed, fail))
    assert node_of(engine, folder).look(engine)
    (job,) = jobs_of(engine).all()
    assert (job.state, job.attempts) == (state, 1)
    assert told in str(job.fault)


def test_a_node_that_ends_gives_its_job_back(
    place: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looking, "_FAREWELL", 60.0)
    going = threading.Event()

    class Waiting(HashEmbedder):
        def embed_documents(self, texts, progress=None):  # type: ignore[no-untyped-def]
            going.set()
            assert end.wait(60)
            return super().embed_documents(texts, progress)

    slow, folder = engine_of(place, Waiting()), files_in(tmp_path / "docs", 3)
    add_job(slow, folder)
    worker = node_of(slow, folder)
    end = worker.ended
    with worker:
        assert going.wait(60)
    (job,) = jobs_of(slow).all()
    assert (job.state, job.attempts) == ("waiting", 0)
    assert slow.library.counts().documents == 0
    slow.close()


def test_a_list_for_clients_names_no_path(engine: Engine, tmp_path: Path) -> None:
    folder = files_in(tmp_path / "docs", 1)
    first, second = add_job(engine, folder), add_job(engine, tmp_path / "nowhere")
    assert node_of(engine, folder).look(engine)
    name = engine.library.location.library  # type: ignore[union-attr]
    with running(Libraries([engine.library.location], lambda _: engine)) as port:
        fields = {"authorization": f"Bearer {TOKEN}", "accept-language": "zh"}
        with httpx.Client(
            base_url=f"http://127.0.0.1:{port}", headers=fields, trust_env=False
        ) as http:
            rows = http.get("/api/jobs", params={"library": name}).json()["jobs"]
            assert [(job["number"], job["state"]) for job in rows] == [
                (first, "done"),
                (second, "waiting"),
            ]
            assert rows[0]["text"] == f"{first}  添加 docs：完成，1 个文件"
            assert str(tmp_path) not in str(rows)
            assert http.post(f"/api/jobs/{second}/cancel").json() == {"cancelled": second}
            assert http.post(f"/api/jobs/{second}/cancel").status_code == 400
            assert http.get("/api/jobs").json()["jobs"][1]["state"] == "cancelled"


# Uploads: what one node was given, every node shows


def house(words: str) -> bytes:
    pdf = pymupdf.open()
    pdf.new_page().insert_text((72, 72), words)
    data: bytes = pdf.tobytes()
    pdf.close()
    return data


@contextmanager
def on_nodes(
    place: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[httpx.Client, httpx.Client, Engine, Engine]]:
    """Two servers of one library, each with a cache folder of its own."""
    with ExitStack() as stack:
        clients, engines = [], []
        for name in ("one", "two"):
            cache = tmp_path / name
            monkeypatch.setattr("platformdirs.user_cache_path", lambda *_, cache=cache, **__: cache)
            engines.append(engine := stack.enter_context(closing_engine(place)))
            port = stack.enter_context(running(Libraries([place], lambda _, e=engine: e)))
            fields = {"authorization": f"Bearer {TOKEN}"}
            url = f"http://127.0.0.1:{port}"
            client = httpx.Client(base_url=url, headers=fields, trust_env=False, timeout=60)
            clients.append(stack.enter_context(client))
        yield clients[0], clients[1], engines[0], engines[1]


def test_a_page_is_drawn_by_a_node_that_was_not_given_the_file(
    place: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = "The unmistakablesecret house was opened in 1907."
    data = house(words)
    with on_nodes(place, tmp_path, monkeypatch) as (
        first_node,
        second_node,
        first_engine,
        second_engine,
    ):
        *_, (kind, record) = send(first_node, "house.pdf", data)
        assert (kind, record["failed"]) == ("done", False)
        send(second_node, "house.pdf", house("Another house."))
        (second, first) = second_node.get("/api/documents").json()["documents"]
        assert {first["state"], second["state"]} == {"same"}
        assert sorted((*first["sources"], *second["sources"])) == ["house (2).pdf", "house.pdf"]
        fields = {"document": first["id"], "start": 0, "end": 10}
        view = second_node.get("/api/view", params=fields).json()
        assert (view["state"], view["marked"]) == ("same", True)
        assert second_node.get(view["image"]).content.startswith(b"\x89PNG")
        size = second_engine.library.status().size_on_disk
        assert size > len(data)
        for engine in (first_engine, second_engine):  # what is kept is kept in the database alone
            assert data[:200] not in bytes_on_disk(engine.library.directory)
        assert second_node.delete(f"/api/documents/{first['id']}").json()["purged"]
        assert second_node.get("/api/view", params=fields).status_code == 404
        with second_engine.library._catalogue.read() as snapshot:
            rows = snapshot.sql.execute("SELECT source FROM files").fetchall()
            assert [Path(row[0]).name for row in rows] == ["house (2).pdf"]


def test_an_assistants_next_request_may_come_to_another_node(
    place: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of a client of an older version, which begins with a handshake."""
    with on_nodes(place, tmp_path, monkeypatch) as (first_node, second_node, _, _):

        def call(http: httpx.Client, method: str, params: object) -> httpx.Response:
            body = {"jsonrpc": "2.0", "method": method, "params": params, "id": 1}
            accept = {"accept": "application/json, text/event-stream"}
            return http.post("/mcp", json=body, headers=accept)

        greeting = call(first_node, "initialize", GREETING)
        assert "mcp-session-id" not in greeting.raise_for_status().headers
        assert '"search"' in call(second_node, "tools/list", {}).raise_for_status().text


def test_an_upload_moves_with_its_library(
    place: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres: str
) -> None:
    data = house("The house was opened in 1907.")
    with on_nodes(place, tmp_path, monkeypatch) as (first_node, _, _, _):
        send(first_node, "house.pdf", data)
    folder, back = tmp_path / "folder", read_url(f"{postgres}#{tmp_path.name} back")
    migrate_library(place, folder, indexes=indexes())
    assert (folder / "uploads" / "house.pdf").read_bytes() == data
    migrate_library(folder, back, indexes=indexes())
    with closing_engine(back) as engine:
        (record,) = engine.library.sources()
        assert engine.library.uploads.kept(record.state.path) == data
    export_library(back, tmp_path / "archive", version="1")
    import_library(tmp_path / "archive", tmp_path / "imported", indexes=indexes())
    assert (tmp_path / "imported" / "uploads" / "house.pdf").read_bytes() == data
