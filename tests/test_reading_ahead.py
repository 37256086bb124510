"""Reading ahead: the prefix that a question reads, in order, within bounds, gone if removed."""

from __future__ import annotations

import errno
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from datetime import date, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
from library.library_fixtures import EMBEDDER, add, document, open_library
from numpy.typing import NDArray
from scripted_llm import ScriptedLLM

from localrag import ahead, factory
from localrag.ahead import (
    AheadBounds,
    AheadReport,
    IdleReader,
    SectionRead,
    expect_possible,
    kept_ahead,
    read_ahead,
)
from localrag.config.settings import AheadSettings, LlamaCppSettings, OpenAISettings, Settings
from localrag.engine import AskOptions, Engine
from localrag.errors import UsageError
from localrag.library.folder import vaults
from localrag.library.folder.gate import KV_FOLDER
from localrag.library.library import Library
from localrag.models.llms.base import ReadAhead, check_stopped
from localrag.models.llms.llama_cpp import state_files
from localrag.models.llms.llama_cpp.context import LlamaContext
from localrag.models.llms.llama_cpp.state_files import StateFiles
from localrag.prompts import with_examples
from localrag.rag.base import answer_of
from localrag.rag.grading import Grader, Reading
from localrag.types import Message

SIZE = 1000
"""Bytes of each state of the model here."""
MEGABYTE = AheadBounds(1, 1e9)


class KeepingModel(ScriptedLLM):
    """A model that keeps states on disk by the text of what it read; `held` before it keeps one."""

    def __init__(self, library: Library, limit: int = 10**6, **options: Any) -> None:
        super().__init__(**options)
        self.files = StateFiles(library.directory / KV_FOLDER, limit, "model", library.seal)
        self.read: list[str] = []
        self.examples: list[str] = []
        self.reached, self.let_go = threading.Event(), threading.Event()
        self.let_go.set()
        self.stopped = threading.Event()

    def score_choices(
        self, messages: Sequence[Message], choices: Sequence[str], *, keep: int = 0
    ) -> NDArray[np.float64]:
        self.scored.append((tuple(messages), tuple(choices)))
        return np.array([0.97, *[0.03 / (len(choices) - 1)] * (len(choices) - 1)])

    def for_call(self, stopped: threading.Event | None) -> KeepingModel:
        view = copy(self)
        view.stopped = stopped or self.stopped
        return view

    def read_ahead(
        self,
        messages: Sequence[Message],
        *,
        keep: int,
        limit: int,
        tier: int | None,
        still: Callable[[], bool],
    ) -> ReadAhead:
        key = "\n".join(message.content for message in messages[:keep])
        if self.files.has(key.encode()):
            return ReadAhead("there")
        if tier is None:
            self.examples.append(key)
            self.files.put(key.encode(), bytes(SIZE))
            return ReadAhead("kept", len(key), SIZE)
        if not self.files.fits_ahead(SIZE, limit, tier):
            return ReadAhead("full")
        check_stopped(self.stopped)
        self.reached.set()
        while not self.let_go.wait(0.01):
            check_stopped(self.stopped)
        self.read.append(key)
        if not self.files.put_ahead(key.encode(), bytes(SIZE), limit, tier, still):
            return ReadAhead("gone", len(key))
        return ReadAhead("kept", len(key), SIZE)


def model_of(llm: KeepingModel) -> factory.Model:
    def view(stopped: threading.Event | None, _: object) -> factory.Model:
        return model_of(llm.for_call(stopped))

    return factory.Model(llm, llm, lambda: None, None, view, ahead=llm)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    settings = Settings()
    identity = factory.identity_of(EMBEDDER, settings)
    tokenize = factory.make_tokenizer(settings)
    library = open_library(tmp_path / "library", tokenize=tokenize, embedding=identity)
    engine = Engine(library, settings, embedder=EMBEDDER)
    yield engine
    engine.close()


@pytest.fixture
def llm(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> KeepingModel:
    llm = KeepingModel(engine.library)
    monkeypatch.setattr(factory, "make_model", lambda *_: model_of(llm))
    return llm


@pytest.fixture(autouse=True)
def no_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sections alone."""
    monkeypatch.setattr(ahead, "EXAMPLES", ())


def report_of(engine: Engine, bounds: AheadBounds = MEGABYTE, **options: Any) -> AheadReport:
    *_, last = read_ahead(engine, bounds, threading.Event(), battery=lambda: False, **options)
    assert isinstance(last, AheadReport)
    return last


def words(name: str, count: int) -> str:
    """So many sections of a document: each is of two passages of 400 code points."""
    return "".join(f"{name}{number:03}".ljust(8, ".") for number in range(count * 100))


def begins(key: str) -> str:
    """The first word of the passage in a system message: "new042"."""
    return re.findall(r"[a-z]{3}[0-9]{3}", key)[0]


def states(engine: Engine) -> list[str]:
    folder = engine.library.directory / KV_FOLDER
    return sorted(path.name for path in folder.glob("*")) if folder.exists() else []


def age(engine: Engine, source: str) -> None:
    """Let a document have been added long ago."""
    with engine.library.writing(), engine.library._catalogue.write() as transaction:
        transaction.sql.execute(
            "UPDATE documents SET added_at = '2020-01-01T00:00:00+00:00' WHERE title = ?",
            (source,),
        )


# What is read, and in which order


def test_what_is_kept_is_the_prefix_of_the_question(engine: Engine, llm: KeepingModel) -> None:
    add(engine.library, document("The glass house was opened in 1907.", source="/a/house.txt"))
    add(engine.library, document("云溪茶园在三月采摘春茶。", source="/a/茶.txt"), language="zh")
    report = report_of(engine)
    assert (report.sections, report.ending) == (2, "all")
    for question in ("When was the glass house opened?", "云溪茶园在几月采摘春茶？"):
        llm.scored.clear()
        llm.replies.extend(["It was [1]."] * 9)
        answer_of(engine.stream(question, AskOptions(k=1)))
        prompts = [messages[0].content for messages, _ in llm.scored if len(messages) == 2]
        assert prompts
        assert prompts[0] in llm.read, "the state that is kept is the one that is looked for"
        assert llm.history[-1][0][0].content in llm.read, "and the answer is written behind it"


def test_new_documents_go_first_then_answers_then_the_others(
    engine: Engine, llm: KeepingModel
) -> None:
    library = engine.library
    for name in ("old", "mid", "new"):
        add(library, document(words(name, 4), source=f"/a/{name}.txt"), size=400)
    for name in ("old", "mid"):
        age(engine, f"/a/{name}.txt")
    old = next(record for record in library.documents() if "old" in record.sources[0])
    cited_chunk, passed_over = (engine.sections_of(old.id)[at][-1] for at in (3, 2))
    library.keep_history(on=True)
    record = {
        "statements": [{"citations": [{"citation": {"chunk_id": cited_chunk}}]}],
        "contexts": [
            {"chunk": {"id": chunk, "document_id": old.id}} for chunk in (passed_over, cited_chunk)
        ],
    }
    content = msgspec.json.encode(record).decode()
    assert library.keep_answer("c", "Which?", content, [old.id], after=0)
    assert report_of(engine).ending == "all"
    order = [begins(key) for key in llm.read]
    step = len(engine.sections_of(old.id))
    assert order[0] == "new000"
    assert order[1].startswith("new")
    assert [name[:3] for name in order[2:4]] == ["old", "old"]
    assert order[2] > order[3], "what was cited goes before what was passed over"
    assert [name[:3] for name in order[4:8]] == ["mid", "old", "mid", "old"]
    rest = [*["new"] * (step - 2), *["mid"] * (step - 2), *["old"] * (step - 4)]
    assert [name[:3] for name in order[8:]] == rest
    assert len(set(order)) == len(order), "nothing is read twice"


def test_examples_in_the_languages_of_the_documents_go_first_and_count_as_no_sections(
    engine: Engine, llm: KeepingModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ahead, "EXAMPLES", ("scope",))
    add(engine.library, document("The glass house was opened in 1907.", source="/a/house.txt"))
    events = list(read_ahead(engine, MEGABYTE, threading.Event(), battery=lambda: False))
    *_, report = events
    assert [event.source for event in events if isinstance(event, SectionRead)] == [
        "",
        "/a/house.txt",
    ]
    assert isinstance(report, AheadReport)
    assert (report.sections, report.size) == (1, 2 * SIZE)
    assert len(kept_ahead(engine.library)) == 1
    messages = with_examples("scope", "en", "When?")
    assert llm.examples == ["\n".join(message.content for message in messages[:-1])]
    add(engine.library, document("云溪茶园在三月采摘春茶。", source="/a/茶.txt"), language="zh")
    assert report_of(engine).sections == 1
    assert len(llm.examples) == 2


def test_a_damaged_answer_stops_nothing(engine: Engine, llm: KeepingModel) -> None:
    add(engine.library, document("One passage.", source="/a/one.txt"))
    engine.library.keep_history(on=True)
    assert engine.library.keep_answer("c", "Which?", "{", [], after=0)
    assert report_of(engine).sections == 1


def test_what_is_there_is_not_read_again(engine: Engine, llm: KeepingModel) -> None:
    add(engine.library, document(words("one", 3), source="/a/one.txt"), size=400)
    first = report_of(engine)
    llm.read.clear()
    again = report_of(engine)
    assert first.sections == again.there > 1
    assert (again.sections, again.tokens, llm.read) == (0, 0, [])


# Removal, closing, errors


def test_a_document_that_is_removed_while_it_is_read_leaves_nothing(
    engine: Engine, llm: KeepingModel
) -> None:
    add(engine.library, document("The secret of the glass house.", source="/a/secret.txt"))
    llm.let_go.clear()
    reports: list[AheadReport] = []
    reading = threading.Thread(target=lambda: reports.append(report_of(engine)))
    reading.start()
    assert llm.reached.wait(20)
    engine.library.remove(sources=["/a/secret.txt"])
    llm.let_go.set()
    reading.join(20)
    assert reports[0].sections == 0
    assert llm.read, "it was read to its end"
    assert states(engine) == []


def test_a_removal_between_the_two_looks_leaves_nothing(
    engine: Engine, llm: KeepingModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is purged before the state is written, and committed after the first look."""
    add(engine.library, document("The secret of the glass house.", source="/a/secret.txt"))
    write = state_files.replace_file

    def removed_first(*arguments: Any, **options: Any) -> None:
        engine.library.remove(sources=["/a/secret.txt"])
        write(*arguments, **options)

    (engine.library.directory / KV_FOLDER).mkdir()
    monkeypatch.setattr(state_files, "replace_file", removed_first)
    monkeypatch.setattr("localrag.library.library.clear_states", lambda _: True)
    assert report_of(engine).sections == 0
    assert states(engine) == []


def test_the_follower_stops_it_and_so_does_who_closes(engine: Engine, llm: KeepingModel) -> None:
    add(engine.library, document("The secret of the glass house.", source="/a/secret.txt"))
    llm.let_go.clear()
    stop = threading.Event()
    events: list[Any] = []
    reading = threading.Thread(
        target=lambda: events.extend(read_ahead(engine, MEGABYTE, stop, battery=lambda: False))
    )
    reading.start()
    assert llm.reached.wait(20)
    assert engine.outdated() == []
    engine.library.remove(sources=["/a/secret.txt"])
    (answer,) = engine.outdated()
    answer.stop()
    reading.join(20)
    assert events[-1].ending == "stopped"
    with engine.reading_ahead("any", stop := threading.Event()):
        engine.close()
        assert stop.is_set()
    with engine.reading_ahead("any", threading.Event()) as reader:
        assert reader is None, "what is closed loads no model"


def test_a_full_disk_ends_it_and_says_why(
    engine: Engine, llm: KeepingModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(engine.library, document("One passage.", source="/a/one.txt"))

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(state_files, "replace_file", full)
    report = report_of(engine)
    assert (report.ending, report.reason) == ("disk", "No space left on device")
    assert states(engine) == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (Settings(llm=OpenAISettings()), "behind a server"),
        (Settings(llm=LlamaCppSettings(kv_disk_mb=0)), "keep nothing"),
        (Settings(ahead=AheadSettings(megabytes=0)), "keep nothing"),
    ],
)
def test_where_nothing_is_kept_it_says_why(
    engine: Engine, settings: Settings, message: str
) -> None:
    engine.settings = settings
    with pytest.raises(UsageError, match=message):
        expect_possible(engine)
    assert IdleReader(threading.Event()).step(engine) is None


def test_nor_in_a_library_of_another_user(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(engine.library), "is_of_others", True)
    with pytest.raises(UsageError, match="another user"):
        expect_possible(engine)


def test_in_a_vault_it_is_encrypted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, folder = Settings(), tmp_path / "vault"
    vaults.create(folder, "correct horse battery")
    vaults.open_here(folder, "correct horse battery")
    library = open_library(
        folder,
        tokenize=factory.make_tokenizer(settings),
        embedding=factory.identity_of(EMBEDDER, settings),
    )
    add(library, document("The secret of the glass house.", source="/a/secret.txt"))
    engine = Engine(library, settings, embedder=EMBEDDER)
    llm = KeepingModel(library)
    monkeypatch.setattr(factory, "make_model", lambda *_: model_of(llm))
    assert report_of(engine).sections == len(kept_ahead(library)) == 1
    (state,) = (folder / KV_FOLDER).iterdir()
    assert bytes(SIZE)[:64] not in state.read_bytes()
    engine.close()
    vaults.close_here(vaults.header_of(folder).id)
    assert IdleReader(threading.Event(), battery=lambda: False).step(engine) is None
    assert len(llm.read) == 1, "a closed engine loads no model"
    assert len(list((folder / KV_FOLDER).iterdir())) == 1


# Bounds


def test_what_questions_have_kept_stays_and_what_is_ahead_goes_first(tmp_path: Path) -> None:
    folder = tmp_path / "kv"
    files = StateFiles(folder, 5 * 1100, "model")
    files.put(b"asked", bytes(SIZE))
    keys = [b"%d" % number for number in range(9)]
    results = [files.put_ahead(key, bytes(SIZE), 10**6, 3, lambda: True) for key in keys]
    assert results == [True] * 4 + [False] * 5, "as many as the limit of all leaves"
    assert files.has(b"asked")
    files.put(b"next", bytes(SIZE))
    assert [files.has(key) for key in (b"asked", b"next", *keys[:4])] == [
        *(True, True),
        *(False, True, True, True),
    ]
    assert files.get(keys[1]), "a question uses it, and it is a question's from now on"
    assert len(state_files.states_ahead(folder)) == 2
    for number in range(3):
        files.put(b"more %d" % number, bytes(SIZE))
    assert files.has(keys[1])
    assert not files.put_ahead(b"again", bytes(SIZE), 10**6, 0, lambda: True)


def test_an_earlier_tier_takes_the_place_of_a_later_one_alone(tmp_path: Path) -> None:
    files = StateFiles(tmp_path / "kv", 10**6, "model")
    limit = 2 * 1100
    for key, tier in ((b"rest", 4), (b"new", 0)):
        assert files.put_ahead(key, bytes(SIZE), limit, tier, lambda: True)
    assert not files.put_ahead(b"more rest", bytes(SIZE), limit, 4, lambda: True)
    assert files.put_ahead(b"cited", bytes(SIZE), limit, 1, lambda: True)
    assert [files.has(key) for key in (b"rest", b"new", b"cited")] == [False, True, True]
    assert not files.put_ahead(b"passed over", bytes(SIZE), limit, 2, lambda: True)
    tiers = [(state.tier, state.size > SIZE) for state in state_files.states_ahead(tmp_path / "kv")]
    assert tiers == [(1, True), (0, True)]


def test_it_ends_where_there_is_no_more_room(engine: Engine, llm: KeepingModel) -> None:
    llm.files = StateFiles(engine.library.directory / KV_FOLDER, 3 * 1100, "model")
    add(engine.library, document(words("one", 6), source="/a/one.txt"), size=400)
    report = report_of(engine)
    assert (report.sections, report.ending) == (3, "full")
    assert len(states(engine)) == len(kept_ahead(engine.library)) == 3


def test_seconds_battery_and_a_stop(engine: Engine, llm: KeepingModel) -> None:
    add(engine.library, document(words("one", 6), source="/a/one.txt"), size=400)
    ticks = iter(range(1000))
    report = report_of(engine, AheadBounds(1, 2.0), clock=lambda: float(next(ticks)))
    assert (report.sections, report.seconds, report.ending) == (2, 2.0, "time")
    (battery,) = read_ahead(engine, MEGABYTE, threading.Event(), battery=lambda: True)
    assert isinstance(battery, AheadReport)
    assert (battery.sections, battery.ending) == (0, "battery")
    stop = threading.Event()
    events = []
    for event in read_ahead(engine, MEGABYTE, stop, battery=lambda: False):
        events.append(event)
        stop.set()
    assert [type(event) for event in events] == [SectionRead, AheadReport]
    assert events[-1].ending == "stopped"  # type: ignore[union-attr]
    assert len(states(engine)) == 3, "what was read is kept"


@pytest.mark.parametrize(
    ("battery", "runs_on_it"),
    [
        (None, False),
        (SimpleNamespace(power_plugged=None), False),
        (SimpleNamespace(power_plugged=True), False),
        (SimpleNamespace(power_plugged=False), True),
    ],
)
def test_only_a_battery_that_is_known_to_be_used_counts(
    battery: object, runs_on_it: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("psutil.sensors_battery", lambda: battery, raising=False)
    assert ahead.on_battery() is runs_on_it
    monkeypatch.delattr("psutil.sensors_battery")
    assert ahead.on_battery() is False


def test_an_idle_process_reads_so_many_minutes_a_day(engine: Engine, llm: KeepingModel) -> None:
    engine.settings = Settings(ahead=AheadSettings(minutes_a_day=1, share=1.0))
    add(engine.library, document(words("one", 8), source="/a/one.txt"), size=400)
    now, day = [0.0], [date(2026, 1, 1)]

    def clock() -> float:
        now[0] += 15
        return now[0]

    reader = IdleReader(threading.Event(), clock=clock, today=lambda: day[0], battery=lambda: False)

    def steps() -> int:
        count = 0
        while reader.step(engine):
            count += 1
        return count

    assert steps() == 4, "of 15 seconds each"
    assert steps() == 0
    day[0] += timedelta(days=1)
    assert steps() == 4


def test_what_is_done_is_looked_at_again_once_something_has_changed(
    engine: Engine, llm: KeepingModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(engine.library, document("One passage.", source="/a/one.txt"))
    now = [0.0]
    reader = IdleReader(threading.Event(), clock=lambda: now[0], battery=lambda: False)
    assert isinstance(reader.step(engine), SectionRead)
    assert reader.step(engine) is None
    looks: list[object] = []
    likely = ahead._likely
    monkeypatch.setattr(ahead, "_likely", lambda engine: looks.append(1) or likely(engine))
    assert reader.step(engine) is None
    assert not looks
    now[0] = ahead.AGAIN + 1
    assert reader.step(engine) is None
    assert len(looks) == 1
    add(engine.library, document("Another passage.", source="/a/two.txt"))
    assert isinstance(reader.step(engine), SectionRead)


# With a model


@pytest.mark.models("smollm2-135m-instruct-q4")
def test_a_first_question_reads_fewer_tokens(
    models_dir: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = next(models_dir("smollm2-135m-instruct-q4").glob("*.gguf"))
    settings = Settings(llm=LlamaCppSettings(model=str(path), context_window=2048))
    identity, tokenize = factory.identity_of(EMBEDDER, settings), factory.make_tokenizer(settings)
    counts: list[int] = []
    whole = LlamaContext.read

    def counted(context: LlamaContext, *arguments: Any, **options: Any) -> int:
        counts.append(whole(context, *arguments, **options))
        return counts[-1]

    monkeypatch.setattr(LlamaContext, "read", counted)

    def opened(name: str) -> Engine:
        library = open_library(tmp_path / name, tokenize=tokenize, embedding=identity)
        return Engine(library, settings, embedder=EMBEDDER)

    def ask(name: str) -> tuple[int, float]:
        """Tokens read for the grade that a first question asks of a section, and the grade."""
        engine = opened(name)
        (section,) = engine._widened(engine.retrieve("When is the lamp lit?", 1), 1, None)
        grader = Grader(engine.model.chooser)
        counts.clear()
        grade = grader.relevance("When is the lamp lit?", Reading("en", (section,)))
        engine.close()
        return sum(counts), grade.value

    for name in ("cold", "ahead"):
        engine = opened(name)
        for thing in ("lamp", "stove", "bell"):
            text = f"The {thing} is lit at dusk by its keeper, who writes down the hour. " * 10
            add(engine.library, document(text, source=f"/a/{thing}.txt"), size=300)
        if name == "ahead":
            report = report_of(engine, AheadBounds(100, 1e9))
            assert report.ending == "all"
            assert report.sections == len(kept_ahead(engine.library)) >= 3
            assert report.tokens == sum(counts)
            assert report_of(engine, AheadBounds(100, 1e9)).tokens == 0
        engine.close()
    cold, grade = ask("cold")
    ahead, repeat = ask("ahead")
    assert ahead < cold / 3
    assert repeat == grade, "bit by bit"
