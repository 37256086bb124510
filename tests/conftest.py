"""Fixtures that every room's tests share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import count
from pathlib import Path

import choosing
import pytest

from localrag import messages
from localrag.egress import network

ROOT = Path(__file__).resolve().parents[1]

NON_COMMERCIAL = "m3e-small"
"""Nobody pulls it for a test; where its licence was accepted, tests use it."""


@pytest.fixture(scope="session")
def models_dir(request: pytest.FixtureRequest) -> Callable[[str], Path]:
    """The folder of a model that the test's `models` marker names.

    Skips, with the reason, where it is not on disk: `scripts/test.py` pulls what markers name.
    """
    base = Path(os.environ.get("LOCALRAG_MODELS", ROOT / "models"))

    def folder(model: str) -> Path:
        path = base / model
        if model == NON_COMMERCIAL:
            if not path.is_dir():
                pytest.skip(f"only where the non-commercial licence of {model} was accepted")
            return path
        assert model in request.session.stash[_NEEDED], f'mark it: @pytest.mark.models("{model}")'
        if not path.is_dir():
            pytest.skip(f"model {model} is not on disk: run `localrag models pull {model}`")
        return path

    return folder


_NEEDED = pytest.StashKey[set[str]]()
_CONCERNED = pytest.StashKey[set[Path]]()


def _models_of(item: pytest.Item) -> set[str]:
    return {model for mark in item.iter_markers("models") for model in mark.args}


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tell `models_dir`, which outlives a test, what this one has named."""
    item.session.stash[_NEEDED] = _models_of(item)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let `scripts/test.py` ask which models the tests need that a command line chooses."""
    parser.addoption("--list-models", metavar="FILE", help="write the models that are needed")
    parser.addoption(
        "--changed",
        nargs="?",
        const="main",
        metavar="REF",
        help="the tests of rooms that differ from REF (main), and of those above them",
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `--changed`, leave out what the change does not concern."""
    paths = config.stash.get(_CONCERNED, None)
    is_test = collection_path.match("test_*.py")
    return True if paths is not None and is_test and collection_path not in paths else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by what they start."""
    for item in items:
        if isinstance(item, pytest.Function):
            for mark in choosing.marks_of(item):
                item.add_marker(mark)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Write what was asked for, and run nothing."""
    if path := session.config.getoption("list_models"):
        models = set().union(*map(_models_of, session.items))
        Path(path).write_text("\n".join(sorted(models)), encoding="utf-8")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Evaluation data that is not part of the project; skips where it is not beside it."""
    path = ROOT.parent / "shared" / "data"
    if not path.is_dir():
        pytest.skip("no evaluation data in ../shared/data beside the checkout")
    return path


@pytest.fixture(scope="session", autouse=True)
def _own_keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One user for all tests: libraries that several of them share stay that user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOCALRAG_KEYS", str(tmp_path_factory.mktemp("keys")))
        yield


@pytest.fixture(scope="session")
def _user_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Paths for one folder after the other, in a folder of their own.

    To find the next number, `mktemp` looks through all that the tests before have made.
    """
    return map(tmp_path_factory.mktemp("users").joinpath, map(str, count()))


@pytest.fixture(autouse=True)
def _own_user_folders(_user_folders: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """No test comes upon the user's own settings or servers, and messages are in English."""
    folder = next(_user_folders)
    for name in ("state", "config"):
        (folder / name).mkdir(parents=True)
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    monkeypatch.setenv("LOCALRAG_CONFIG", str(folder / "config" / "config.toml"))
    monkeypatch.setenv("LOCALRAG_LANG", "en")
    monkeypatch.delenv("LOCALRAG_LIBRARY", raising=False)
    messages.name_library("")  # which a command of another test may have left


@pytest.fixture(scope="session")
def _postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One server for all tests of a worker, which takes two seconds; behind a pooler if asked."""
    from pooler import pooled
    from postgres_server import running

    behind = pooled if "TEST_BEHIND_POOLER" in os.environ else nullcontext
    with running(tmp_path_factory.mktemp("postgres")) as url, behind(url) as reached:
        yield reached


@pytest.fixture
def postgres(_postgres_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a database, and a cache folder for this test alone, as on a node of its own."""
    pytest.importorskip("psycopg", reason="only where psycopg is installed")
    cache = tmp_path / "cache"
    monkeypatch.setattr("platformdirs.user_cache_path", lambda *_, **__: cache)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    return _postgres_server


class _NoSkips:
    """In CI a skip is a failure, unless its reason says where only the test can run."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and isinstance(report.longrepr, tuple):
            reason = report.longrepr[2].removeprefix("Skipped: ")
            if not reason.startswith(("only on ", "only where ")):
                self.reasons.append(f"{report.nodeid}: {reason}")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.reasons and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.reasons:
            terminalreporter.section("skipped, which CI must not")
            for reason in self.reasons:
                terminalreporter.line(reason)


def pytest_configure(config: pytest.Config) -> None:
    """Keep libraries from reporting, and register the check where CI runs."""
    # PyMuPDF imports ONNX Runtime, which looks a host of its maker up; tests import it first.
    network.quieten()
    for mark, meaning in choosing.SLOW.items():
        config.addinivalue_line("markers", f"{mark}: {meaning}; set by what a test uses")
    if reference := config.getoption("changed"):
        config.stash[_CONCERNED] = choosing.concerned(choosing.changed_since(reference))
    if config.getoption("list_models"):
        config.option.collectonly = True
    is_worker = hasattr(config, "workerinput")  # its reports are counted where they come together
    if is_worker:
        for name in ("COLUMNS", "LINES"):  # set by readline, which execnet's interpreter imports
            os.environ.pop(name, None)
    elif os.environ.get("CI") == "true":
        config.pluginmanager.register(_NoSkips())
