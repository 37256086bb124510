"""Commands that let a running server of the same user work for them, and when they do not."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest
from library.library_fixtures import EMBEDDER
from server.conftest import LONG, LONG_PAUSE, TOKEN, Served

from localrag import factory
from localrag.cli import served as cli_served
from localrag.cli.group import cli
from localrag.config.settings import Settings, load_settings
from localrag.engine import Engine
from localrag.errors import BackendError
from localrag.library.catalogue.filters import Filter
from localrag.server import client, endpoint, listening
from localrag.server.calls import Call, CallEvent, CallResult, TextEvent, WaitingEvent
from localrag.server.client import GoneError, RunningServer
from localrag.server.commands import command_app
from localrag.server.endpoint import Kind, ServerEntry, endpoints
from localrag.server.libraries import Libraries
from localrag.server.listening import Server, bind, configured
from localrag.server.queue import ModelQueue
from localrag.server.setups import Setup, setup_of

QUESTION = "When was the glass house opened?"
POSIX = pytest.mark.skipif(os.name == "nt", reason="only where files have modes")


@dataclass
class Home:
    """A user's machine: the folder for servers, a library, and who opened it in this process."""

    folder: Path
    library: Path
    opened: list[Path]
    served: Served
    log: list[str] = field(default_factory=list)

    @property
    def setup(self) -> Setup:
        return setup_of(load_settings(), self.library)


@pytest.fixture
def home(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """No server is running here yet."""
    monkeypatch.setenv("LOCALRAG_TOKEN", TOKEN)
    monkeypatch.setattr(client, "_PATIENCE", 60.0)  # of a slow machine
    monkeypatch.setattr(factory, "make_embedder", lambda *_: EMBEDDER)
    state, library = tmp_path / "state", tmp_path / "garden"
    monkeypatch.setattr(cli_served, "server_folder", lambda: state)
    folders: list[Path] = []

    def opening(folder: Path, settings: Settings) -> object:
        folders.append(folder)
        return original(folder, settings)

    original = cli_served.open_library
    monkeypatch.setattr(cli_served, "open_library", opening)
    return Home(state, library, folders, served)


@pytest.fixture
def start(home: Home) -> Iterator[Callable[..., ServerEntry]]:
    """Starts a server for commands."""
    with ExitStack() as stack:

        def started(kind: Kind | None = None) -> ServerEntry:
            door = stack.enter_context(endpoint.listening(home.folder, kind))
            assert door is not None
            libraries = Libraries([home.library], lambda _: home.served.engine)
            app = command_app(libraries, ModelQueue(), door[0], TOKEN, home.log.append)
            ready, public = threading.Event(), bind("127.0.0.1", 0)
            server = Server(configured(app), ready.set, (app, door[1]))
            thread = threading.Thread(target=server.run, kwargs={"sockets": [public]})

            def end() -> None:
                server.should_exit = True
                thread.join(60)
                assert not thread.is_alive()

            thread.start()
            stack.callback(end)
            assert ready.wait(60)
            return door[0]

        yield started


@pytest.fixture
def run(home: Home, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """A command in this process; returns what it printed."""

    def command(*words: str) -> str:
        capsys.readouterr()
        where = ["--library", str(home.library)]
        cli.main([*where, *words], prog_name="localrag", standalone_mode=False)
        return capsys.readouterr().out

    return command


def timeless(output: str) -> object:
    """What a command printed as JSON, without times."""

    def without(value: object) -> object:
        if isinstance(value, dict):
            return {name: without(item) for name, item in value.items() if name != "seconds"}
        return [without(item) for item in value] if isinstance(value, list) else value

    return without(json.loads(output))


ASKED = (
    ("search", QUESTION),
    ("search", "茶园", "-k", "1", "--mode", "keyword", "--language", "zh"),
    ("search", QUESTION, "--source", "garden.txt", "--rerank", "keyword", "--since", "2020-01-01"),
    ("search", QUESTION, "--rerank", "llm"),
    ("ask", QUESTION),
    ("ask", QUESTION, "--mode", "self-rag", "--budget", "2m"),
    ("ask", QUESTION, "--path", "nowhere/*"),
)


@pytest.mark.parametrize("words", ASKED, ids=" ".join)
def test_results_are_the_same(
    home: Home, start: Callable[..., ServerEntry], run: Callable[..., str], words: tuple[str, ...]
) -> None:
    start()
    with_server = run(*words, "--json")
    assert home.opened == [], "no library was opened here"
    without = run(*words, "--json", "--no-server")
    assert home.opened == [home.library]
    assert timeless(with_server) == timeless(without)


def test_each_call_is_a_line_of_the_log_without_its_text(
    home: Home, start: Callable[..., ServerEntry], run: Callable[..., str]
) -> None:
    start()
    run("search", QUESTION)
    run("ask", QUESTION)
    assert len(home.log) >= 2
    assert all(re.fullmatch(r"\S+ \S+ POST /call 200 \d+\.\d\d s", line) for line in home.log)


@pytest.mark.parametrize("kind", [".sock", ".port"])
def test_an_answer_comes_as_it_is_written(
    home: Home, start: Callable[..., ServerEntry], run: Callable[..., str], kind: Kind
) -> None:
    if kind == ".sock" and not hasattr(socket, "AF_UNIX"):
        pytest.skip("only where there are Unix sockets")
    assert start(kind).path.suffix == kind
    output = run("ask", QUESTION, "--explain")
    assert home.opened == []
    home.served.engine.release_embedder()
    assert "It was opened in 1907 [1]." in output
    local = run("ask", QUESTION, "--explain", "--no-server")
    assert output.split("garden.txt")[0] == local.split("garden.txt")[0]


def test_a_follow_up_is_understood_by_the_server(
    home: Home,
    start: Callable[..., ServerEntry],
    run: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start()
    home.served.llm.replies.append("When was the glass house with orchids opened?")
    inputs = iter([QUESTION, "And its orchids?", ""])
    monkeypatch.setattr("builtins.input", lambda _: next(inputs))
    output = run("chat", "--json")
    assert home.opened == []
    assert not home.served.llm.replies
    assert output.count('\n  "asked"') == 2


def why_not(run: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> str:
    """What --debug says of a server that is not used."""
    run("--debug", "search", QUESTION)
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("version", "another version"),
        ("settings", "other settings"),
        ("library", "another library"),
        ("models", "models have changed"),
    ],
)
def test_a_server_that_differs_is_not_used(
    home: Home,
    start: Callable[..., ServerEntry],
    run: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    change: str,
    reason: str,
) -> None:
    models = tmp_path / "models"
    models.mkdir()
    monkeypatch.setenv("LOCALRAG_MODELS", str(models))
    start()
    address, why = cli_served.running(home.library, load_settings())
    assert (address is None, why) == (False, None)
    library = home.library
    match change:
        case "version":
            monkeypatch.setattr(client, "__version__", "0.0.1")
        case "settings":
            monkeypatch.setenv("LOCALRAG_ANSWER_MAX_TOKENS", "17")
        case "library":
            library = shutil.copytree(home.library, tmp_path / "copy")
        case "models":
            (models / "another").mkdir()
    address, why = cli_served.running(library, load_settings())
    assert address is None
    assert why is not None
    assert reason in cli_served.reason_text(why)
    run("search", QUESTION)
    assert bool(home.opened) == (change != "library")


def test_a_hosted_model_is_confirmed_in_the_terminal(
    home: Home, start: Callable[..., ServerEntry], monkeypatch: pytest.MonkeyPatch
) -> None:
    start()
    monkeypatch.setenv("LOCALRAG_LLM_BACKEND", "openai")
    monkeypatch.setenv("LOCALRAG_LLM_BASE_URL", "https://models.example/v1")
    assert cli_served.running(home.library, load_settings()) == (None, "hosted")


@POSIX
@pytest.mark.parametrize("who", ["folder", "socket", "link", "linked folder", "another user"])
def test_what_others_may_have_put_there_is_not_even_called(
    home: Home,
    run: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    who: str,
) -> None:
    monkeypatch.setattr(client, "_PATIENCE", 0.5)
    home.folder.mkdir(mode=0o700)
    place = home.folder / "hostile.sock"
    with closing(socket.socket(socket.AF_UNIX)) as hostile:
        hostile.bind(str(place))
        place.chmod(0o600)
        hostile.listen()
        hostile.settimeout(0.1)
        assert [address.path for address in endpoints(home.folder)] == [place]
        match who:
            case "folder":
                home.folder.chmod(0o777)
            case "socket":
                place.chmod(0o666)
            case "link":
                place.rename(tmp_path / "real.sock")
                place.symlink_to(tmp_path / "real.sock")
            case "linked folder":
                home.folder.rename(tmp_path / "elsewhere")
                home.folder.symlink_to(tmp_path / "elsewhere")
            case "another user":
                user_id = os.getuid()
                monkeypatch.setattr(os, "getuid", lambda: user_id + 1)
        connection, why = cli_served.running(home.library, load_settings())
        assert connection is None
        assert why == ("open" if who in ("folder", "another user") else None)
        with pytest.raises(TimeoutError):
            hostile.accept()
        monkeypatch.undo()


class Impostor:
    """Listens where a server may have been, and says what it likes; `heard` is what it was sent."""

    def __init__(self, home: Home, kind: Kind, *replies: Callable[[str], bytes]) -> None:
        self._listening = endpoint.listening(home.folder, kind)
        door = self._listening.__enter__()
        assert door is not None
        self.endpoint, self._listener = door
        self._replies = replies
        self.heard = b""
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        self._listener.settimeout(60)
        while True:
            connection, _ = self._listener.accept()
            with connection, suppress(ConnectionError):  # the caller has heard enough
                connection.settimeout(60)
                for reply in self._replies:
                    request = _request(connection)
                    self.heard += request
                    if b"/end" in request:
                        return
                    if not request:
                        break
                    connection.sendall(reply(request.decode("latin-1")))

    def close(self) -> None:
        with closing(self.endpoint.connect(5)) as last:
            last.sendall(b"/end")
        self._thread.join(60)
        self._listening.__exit__(None, None, None)


def _request(connection: socket.socket) -> bytes:
    """One request with its body, which comes apart."""
    request = connection.recv(1 << 16)
    head, _, body = request.partition(b"\r\n\r\n")
    size = re.search(rb"Content-Length: (\d+)", head)
    while size and len(body) < int(size[1]):
        more = connection.recv(1 << 16)
        request, body = request + more, body + more
    return request


def replied(body: bytes, *, more: bool = False) -> bytes:
    """An HTTP response; with `more` it is never finished."""
    length = len(body) + more * 1000
    return f"HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n".encode() + body


KINDS = (".sock", ".port") if hasattr(socket, "AF_UNIX") else (".port",)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["wrong", "relayed", "nonsense", "without end"])
def test_a_server_that_does_not_know_the_token_is_told_nothing(
    home: Home,
    start: Callable[..., ServerEntry],
    run: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    kind: Kind,
    how: str,
) -> None:
    """Also one that asks a real server for the proof: it would be that server's, not its own."""
    monkeypatch.setattr(client, "_PATIENCE", 1.0)
    real = start()

    def hello(request: str) -> bytes:
        nonce = request.split("nonce=")[1][:32]
        match how:
            case "nonsense":
                return b"\0" * 1000
            case "without end":
                return b"HTTP/1.1 200 OK\r\n\r\n" + b" " * 10_000
            case "relayed":
                proof = real.proof(TOKEN, nonce, "0.2.0")
            case _:
                proof = "0" * 64
        return replied(json.dumps({"version": "0.2.0", "proof": proof}).encode())

    with closing(Impostor(home, kind, hello, lambda _: replied(b""))) as impostor:
        server = RunningServer(impostor.endpoint, TOKEN)
        if how in ("wrong", "relayed"):
            monkeypatch.setattr(cli_served, "endpoints", lambda _: [impostor.endpoint])
            assert cli_served.running(home.library, load_settings()) == (None, "unproven")
            monkeypatch.setattr(cli_served, "endpoints", endpoints)
        with pytest.raises(GoneError):
            server.difference(home.setup)
        run("search", "a secret question")
        assert home.opened == [], "the real one was found"
        assert TOKEN.encode() not in impostor.heard
        assert b"secret" not in impostor.heard
        assert impostor.heard.count(b"GET /hello") >= 1


def ending_early(home: Home, *events: CallEvent) -> Impostor:
    """A server of this user that ends after these events."""
    impostors: list[Impostor] = []

    def hello(request: str) -> bytes:
        nonce = request.split("nonce=")[1][:32]
        proof = impostors[0].endpoint.proof(TOKEN, nonce, "0.2.0")
        return replied(json.dumps({"version": "0.2.0", "proof": proof}).encode())

    def called(request: str) -> bytes:
        call = msgspec.json.decode(request.split("\r\n\r\n")[1].encode("latin-1"), type=Call)
        more = call.what != "compare"
        stream = b"".join(b"data: %b\r\n\r\n" % msgspec.json.encode(event) for event in events)
        return replied(stream if more else b"", more=more)

    impostors.append(Impostor(home, KINDS[0], hello, called))  # type: ignore[arg-type]
    return impostors[0]


@pytest.mark.parametrize(
    "words", [("search", QUESTION), ("ask", QUESTION, "--json"), ("ask", QUESTION)]
)
def test_a_server_that_ends_before_the_answer_is_not_missed(
    home: Home, run: Callable[..., str], words: tuple[str, ...]
) -> None:
    with closing(ending_early(home)):
        output = run(*words)
    assert home.opened == [home.library]
    assert "1907" in output


def test_a_server_that_ends_in_the_answer(home: Home, run: Callable[..., str]) -> None:
    """What was printed stands on the screen: the rest of another answer would not go with it."""
    with closing(ending_early(home, TextEvent("It was "))):
        with pytest.raises(BackendError, match="ended before the answer"):
            run("ask", QUESTION)
        assert home.opened == []
        assert "1907" in run("ask", QUESTION, "--json")
        assert home.opened == [home.library]


def test_a_failure_is_said_in_the_command_s_own_words(
    home: Home,
    start: Callable[..., ServerEntry],
    run: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*_: object) -> object:
        raise BackendError("The model failed.")

    start()
    monkeypatch.setattr(home.served.llm, "stream", fails)
    with pytest.raises(BackendError, match="The model failed"):
        run("ask", QUESTION)
    assert home.opened == [home.library], "it was tried here"


def asking(home: Home, server: ServerEntry) -> Iterator[CallEvent]:
    call = Call(what="ask", setup=home.setup, question=QUESTION)
    return RunningServer(server, TOKEN).told(call)


def test_who_leaves_frees_the_model(home: Home, start: Callable[..., ServerEntry]) -> None:
    server = start()
    home.served.llm.pieces, home.served.llm.pause = LONG, LONG_PAUSE
    with closing(asking(home, server)) as events:  # type: ignore[type-var]
        assert any(isinstance(event, TextEvent) for event in events)
    departure = time.monotonic()
    home.served.llm.pieces, home.served.llm.pause = ("It was opened in 1907 [1].",), 0.0
    *_, last = asking(home, server)
    assert time.monotonic() - departure < len(LONG) * LONG_PAUSE / 2
    assert isinstance(last, CallResult)


def test_who_does_not_read_frees_the_model(
    home: Home, start: Callable[..., ServerEntry], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a command that was suspended in its terminal."""
    monkeypatch.setattr(listening, "SLOWEST_HEAD", 600.0)  # which would free it, too
    server, llm = start(), home.served.llm
    llm.pieces, llm.pause = ["a "] * 8000, 0.0
    with closing(asking(home, server)) as event_stream:  # type: ignore[type-var]
        assert any(isinstance(event, TextEvent) for event in event_stream)
        llm.pieces = ("It was opened in 1907 [1].",)
        events: list[CallEvent] = []
        second = threading.Thread(target=lambda: events.extend(asking(home, server)))
        second.start()
        second.join(60)
        in_time = list(events)
    second.join(60)
    assert in_time
    assert isinstance(in_time[-1], CallResult)


def test_who_waits_is_told_so(
    home: Home,
    start: Callable[..., ServerEntry],
    run: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = start()
    gate = home.served.llm.held = threading.Event()
    with closing(asking(home, server)) as first:  # type: ignore[type-var]
        next(first)
        second = asking(home, server)
        assert isinstance(next(second), WaitingEvent)
        second.close()  # type: ignore[attr-defined]

        def let_go(event: WaitingEvent) -> None:
            note(event)
            gate.set()

        note = cli_served._note_waiting
        monkeypatch.setattr(cli_served, "_note_waiting", let_go)
        cli.main(
            ["--library", str(home.library), "ask", QUESTION],
            prog_name="localrag",
            standalone_mode=False,
        )
    assert "Waiting for the server: 1 before you" in capsys.readouterr().err


def test_what_killed_servers_left_is_swept(home: Home, start: Callable[..., ServerEntry]) -> None:
    live = start()
    remains = endpoint.listening(home.folder)
    door = remains.__enter__()
    assert door is not None
    door[1].close()
    assert len(endpoints(home.folder)) == 2
    connection, _ = cli_served.running(home.library, load_settings())
    assert connection is not None
    assert connection[0].endpoint == live
    other = start(".port")
    assert {address.path for address in endpoints(home.folder)} == {live.path, other.path}


@POSIX
def test_a_path_that_is_too_long_for_a_socket(tmp_path: Path) -> None:
    with endpoint.listening(tmp_path / ("x" * 120)) as door:
        assert door is not None
        assert door[0].path.suffix == ".port"
        assert door[0].path.stat().st_mode & 0o777 == 0o600
        door[0].connect(1).close()
    assert list((tmp_path / ("x" * 120)).iterdir()) == []


def test_where_nothing_can_be_made_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with endpoint.listening(tmp_path / "file" / "server") as door:
        assert door is None


@pytest.mark.parametrize(
    ("request_line", "headers", "status"),
    [
        ("GET /hello?nonce=" + "0" * 32, "Host: 127.0.0.1", 421),
        ("GET /hello?nonce=x", "Host: localrag", 400),
        ("POST /call", "Host: localrag", 401),
        ("POST /call", "Host: localrag\r\nAuthorization: Bearer wrong", 401),
        ("POST /call", f"Host: localrag\r\nAuthorization: Bearer {TOKEN}", 400),
        ("GET /api/status", f"Host: localrag\r\nAuthorization: Bearer {TOKEN}", 404),
    ],
)
def test_only_commands_are_answered_there(
    start: Callable[..., ServerEntry], request_line: str, headers: str, status: int
) -> None:
    with closing(start().connect(5)) as raw:
        head = f"{request_line} HTTP/1.1\r\n{headers}\r\nContent-Length: 0\r\n\r\n"
        raw.sendall(head.encode())
        assert raw.recv(100).split()[1] == str(status).encode()


def test_an_event_of_any_size_is_not_read(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_LARGEST_EVENT", 40)
    with closing(ending_early(home, TextEvent("a" * 100))) as impostor:
        call = Call(what="ask", setup=home.setup, question=QUESTION)
        with pytest.raises(GoneError):
            next(RunningServer(impostor.endpoint, TOKEN).told(call))


def test_a_filter_means_the_same_in_another_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from localrag.library.catalogue.filters import source_conditions

    monkeypatch.chdir(tmp_path)
    condition = Filter(
        sources=("a.txt", "b/c.txt", "./d.txt", "e/../f.txt", "/g/h.txt"),
        path="./*.txt",
    )
    assert condition.anywhere().anywhere() == condition.anywhere()
    assert condition.anywhere().sources[:2] == ("a.txt", "b/c.txt"), "ends of paths stay so"
    _, parameters = source_conditions(condition)
    (tmp_path / "elsewhere").mkdir()
    remote_condition = condition.anywhere()
    monkeypatch.chdir(tmp_path / "elsewhere")
    _, moved = source_conditions(remote_condition)
    root = tmp_path.as_posix()
    assert {f"{root}/d.txt", f"{root}/f.txt", f"{root}/*.txt"} <= set(parameters) & set(moved)
    assert not any("elsewhere/d" in str(value) for value in moved)


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="only on systems with a TZ variable")
def test_days_are_those_of_who_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    from datetime import date

    from localrag.library.catalogue.filters import source_conditions

    condition = Filter(since=date(2026, 7, 1), until=date(2026, 7, 31))
    try:
        monkeypatch.setenv("TZ", "Asia/Shanghai")
        time.tzset()
        parameters, moved = source_conditions(condition), condition.anywhere()
        monkeypatch.setenv("TZ", "America/New_York")
        time.tzset()
        assert source_conditions(moved) == parameters
        assert source_conditions(condition) != parameters
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_library_that_is_made_anew_is_another_one(tmp_path: Path) -> None:
    def setup() -> Setup:
        return setup_of(Settings(), tmp_path)

    (tmp_path / "catalogue.sqlite").write_bytes(b"1")
    first = setup()
    assert setup() == first
    (tmp_path / "another").write_bytes(b"1")
    (tmp_path / "another").replace(tmp_path / "catalogue.sqlite")
    assert setup().difference(first) == "library"


def test_importing_the_client_is_cheap() -> None:
    import subprocess

    code = "import sys, localrag.server.client; print(*sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    modules = set(result.stdout.split())
    assert not modules & {"numpy", "httpx", "starlette", "anyio", "localrag.engine", "localrag.api"}


def test_the_engine_takes_the_mode_of_a_search_with_the_question(served: Served) -> None:
    engine: Engine = served.engine
    from localrag.engine import AskOptions

    hits = engine.search("茶园", AskOptions(retrieval="keyword"))
    assert {rank.leg for hit in hits for rank in hit.ranks} == {"keyword"}
