"""`localrag ahead`: what it says, as JSON too, and `localrag status` beside it."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from library.library_fixtures import EMBEDDER, add, document, open_library
from test_reading_ahead import KeepingModel, model_of, no_examples, states, words

from localrag import factory
from localrag.api import LocalRAG
from localrag.cli.group import cli
from localrag.config.settings import AheadSettings, LlamaCppSettings, OpenAISettings, Settings
from localrag.engine import Engine

__all__ = ["no_examples"]


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    settings = Settings()
    library = open_library(
        tmp_path / "library",
        tokenize=factory.make_tokenizer(settings),
        embedding=factory.identity_of(EMBEDDER, settings),
    )
    add(library, document(words("one", 3), source="/a/one.txt"), size=400)
    new_engine = Engine(library, settings, embedder=EMBEDDER)
    monkeypatch.setattr(new_engine, "close", lambda: None)
    monkeypatch.setattr("localrag.cli.ahead.open_library", lambda _: LocalRAG(new_engine))
    monkeypatch.setattr("localrag.ahead.on_battery", lambda: False)
    with library:
        yield new_engine


@pytest.fixture
def llm(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> KeepingModel:
    llm = KeepingModel(engine.library)
    monkeypatch.setattr(factory, "make_model", lambda *_: model_of(llm))
    return llm


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, [*arguments])


def test_it_says_what_it_reads_and_what_came_of_it(engine: Engine, llm: KeepingModel) -> None:
    result = run("ahead")
    assert result.exit_code == 0, result.output
    assert "Documents: 1. Read are first" in result.stderr
    assert result.stderr.count("one.txt (") == len(llm.read) == len(states(engine)) > 2
    assert re.search(rf"Sections read: {len(llm.read)}, in \d+ s \(", result.stdout)
    assert "All sections have been read." in result.stdout
    assert f"Read ahead and not used yet: {len(llm.read)} sections, 0 MB, the last" in result.stdout
    again = json.loads(run("ahead", "--json").stdout)
    seconds = again.pop("seconds")
    assert seconds == 0
    assert again.pop("kept")["sections"] == len(llm.read)
    assert again == {
        "sections": 0,
        "there": len(llm.read),
        "tokens": 0,
        "ending": "all",
        "reason": "",
        "bytes": 0,
    }


def test_ctrl_c_keeps_what_was_read(
    engine: Engine, llm: KeepingModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_section = llm.read.append

    class Interrupting(list[str]):
        def append(self, key: str) -> None:
            read_section(key)
            if len(llm_read) == 2:
                signal.raise_signal(signal.SIGINT)

    llm_read, llm.read = llm.read, Interrupting()
    result = run("ahead")
    assert result.exit_code == 0, result.output
    assert "Stopping; what was read is kept." in result.stderr
    assert "Sections read: 2, " in result.stdout
    assert "Stopped; the next run goes on there." in result.stdout
    assert len(states(engine)) == 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (Settings(llm=OpenAISettings()), "runs behind a server"),
        (Settings(llm=LlamaCppSettings(kv_disk_mb=0)), "keep nothing"),
        (Settings(ahead=AheadSettings(megabytes=0)), "keep nothing"),
    ],
)
def test_where_there_is_nothing_to_read_it_says_why(
    engine: Engine, settings: Settings, message: str
) -> None:
    engine.settings = settings
    result = run("ahead")
    assert message in str(result.exception)


def test_bad_options(engine: Engine) -> None:
    assert run("ahead", "--seconds", "0").exit_code == 2
    assert run("ahead", "--seconds", "soon").exit_code == 2
    result = run("watch", "somewhere", "--once", "--ahead")
    assert "--once would have ended" in str(result.exception)


def test_the_status_says_it(
    engine: Engine, llm: KeepingModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalRAG, "open", lambda *_, **__: LocalRAG(engine))
    monkeypatch.setattr("localrag.cli.served.running", lambda *_: (None, None))
    assert "Read ahead" not in run("status").stdout
    assert json.loads(run("status", "--json").stdout)["ahead"] == {
        "sections": 0,
        "bytes": 0,
        "last": None,
    }
    run("ahead")
    assert f"{len(llm.read)} sections, 0 MB, the last on 20" in run("status").stdout
    record = json.loads(run("status", "--json").stdout)["ahead"]
    assert record["sections"] == len(llm.read)
    assert record["last"].startswith("20")
