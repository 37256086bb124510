"""Work ahead: in order, several at once, within bounds, and nothing is left behind."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from test_watching import World

from localrag.documents import worker
from localrag.documents.files import parse_file
from localrag.documents.formats.table import Attach, leave_out
from localrag.documents.worker import ParsingProcess, ParsingProcesses
from localrag.indexing import ahead
from localrag.indexing import indexer as indexer_of
from localrag.indexing.ahead import Ahead
from localrag.indexing.events import Committed, IndexingEvent, Linked, Parsed
from localrag.types import Document


def test_several_at_once_and_results_in_order() -> None:
    barrier = threading.Barrier(2, timeout=60)
    slow = threading.Event()

    def work(number: int) -> int:
        if number < 2:
            barrier.wait()  # only where two are done at once
        if number == 1:
            assert slow.wait(60)  # one that takes long keeps nobody
        return number * number

    with Ahead(work, 2, size=lambda _: 1) as running:
        tasks = [running.submit(number) for number in range(50)]
        assert tasks[0].result() == 0
        for task in tasks[2:]:
            assert task._done.wait(60)
        slow.set()
        assert [task.result() for task in tasks[1:]] == [n * n for n in range(1, 50)]


def test_results_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "HELD", 10)
    starts: list[int] = []

    def work(number: int) -> int:
        starts.append(number)
        return number

    with Ahead(work, 2, size=lambda _: 5) as running:
        tasks = [running.submit(number) for number in range(20)]
        assert tasks[1]._done.wait(60)
        assert not tasks[4]._done.wait(0.2)
        assert len(starts) <= 3
        assert [task.result() for task in tasks] == list(range(20))


def test_errors_come_where_the_result_is_asked_for() -> None:
    def work(number: int) -> int:
        if number == 1:
            raise KeyboardInterrupt
        return number

    with Ahead(work, 1, size=lambda _: 0) as running:
        tasks = [running.submit(number) for number in range(3)]
        assert tasks[0].result() == 0
        with pytest.raises(KeyboardInterrupt):
            tasks[1].result()
        assert tasks[2].result() == 2


def test_what_is_not_begun_at_the_end_never_is() -> None:
    starts: list[int] = []
    go = threading.Event()

    def work(number: int) -> int:
        starts.append(number)
        go.wait(60)
        return number

    with Ahead(work, 1, size=lambda _: 0) as running:
        first = running.submit(0)
        running.submit(1)
        while not starts:
            pass
    go.set()
    assert first.result() == 0
    assert starts == [0]


def test_files_are_committed_in_the_order_of_the_walk(tmp_path: Path) -> None:
    world = World(tmp_path)
    for number in range(40):
        world.write(f"{number:02}.txt", f"text {number // 2}")  # each twice
    last = threading.Event()
    file_names: list[str] = []

    def parse(path: Path, data: bytes, *, attach: Attach = leave_out, **_: object) -> Document:
        if path.name == "00.txt":
            assert last.wait(60)  # the first is ready last
        document = parse_file(path, data, attach=attach)
        file_names.append(path.name)
        if path.name == "38.txt":
            last.set()
        return document

    indexer = world.indexer()
    indexer.parse, indexer.parsers = parse, 3
    events: list[IndexingEvent] = []
    report = indexer.add([world.files], events.append)
    assert file_names[-1] == "00.txt"
    assert sorted(file_names) == [f"{number:02}.txt" for number in range(0, 40, 2)]  # each once
    names = [Path(e.source).name for e in events if isinstance(e, Parsed)]
    assert names == sorted(names)
    order = [Path(e.source).name for e in events if isinstance(e, Committed | Linked)]
    assert order == [f"{number:02}.txt" for number in range(40)]
    assert len(report.committed) == len(report.linked) == 20


def test_what_is_ready_does_not_wait_for_a_file_that_is_read_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexer_of, "SLOW", 0.0)
    world = World(tmp_path)
    world.write("0.txt", "text")
    world.write("1.txt", "a scan")
    committed = threading.Event()

    def parse(path: Path, data: bytes, *, attach: Attach = leave_out, **_: object) -> Document:
        if path.name == "1.txt":
            assert committed.wait(60)
        return parse_file(path, data, attach=attach)

    indexer = world.indexer()
    indexer.parse, indexer.parsers = parse, 2
    names: list[str] = []

    def tell(event: IndexingEvent) -> None:
        if isinstance(event, Committed):
            names.append(Path(event.source).name)
            committed.set()

    indexer.add([world.files], tell)
    assert names == ["0.txt", "1.txt"]


def test_each_thread_has_a_process_of_its_own() -> None:
    processes = [ParsingProcess() for _ in range(2)]
    parse = ParsingProcesses(processes)
    names = [Path(f"{number}.txt") for number in range(8)]
    with Ahead(lambda path: parse(path, path.name.encode()), 2, size=lambda _: 0) as running:
        tasks = [running.submit(path) for path in names]
        assert [task.result().text for task in tasks] == [path.name for path in names]
    assert all(process._running for process in processes)
    for process in processes:
        process.close()


@pytest.mark.parametrize(
    ("cores", "gigabytes", "expected"), [(1, 8, 1), (2, 8, 1), (8, 4, 2), (8, 8, 2), (8, 32, 7)]
)
def test_there_are_as_many_as_cores_and_memory_allow(
    cores: int, gigabytes: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Memory:
        total = gigabytes * 2**30

    monkeypatch.setattr("os.cpu_count", lambda: cores)
    monkeypatch.setattr("psutil.virtual_memory", Memory)
    assert worker.processes_at_once() == expected
    most = worker.OWN_MEMORY + expected * worker.PROCESS_MEMORY
    assert most <= max(worker.LEAST_MEMORY, Memory.total // 2)
