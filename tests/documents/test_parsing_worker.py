from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from localrag.documents import worker
from localrag.documents.files import parse_file
from localrag.documents.formats.table import Limits, ParseOptions
from localrag.documents.worker import PROGRAM, ParsingProcess
from localrag.egress import network
from localrag.errors import (
    CorruptFileError,
    EmptyFileError,
    ParsingError,
    SlowFileError,
    UnsupportedFileError,
)

DATA = Path(__file__).resolve().parents[2] / "data"

HOSTILE = """
import os, socket, time
import localrag.documents.files as files
from localrag.types import Document, Page

def work(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass

def parse_file(path, data, options, tick, **_):
    match path.stem:
        case "abort":
            os.abort()
        case "leave":
            os._exit(0)
        case "hang":
            work(600)
        case "sleep":
            time.sleep(9)
        case "slow":
            for _ in range(16):
                work(0.5)
                tick()
        case "endless":
            while True:
                work(0.05)
                tick()
        case "memory":
            return len(bytearray(8 * 2**30))
        case "creeping":
            held = []
            while True:
                held.append(b"x" * (2**24 + len(held)))
        case "bug":
            raise RecursionError("too deep \\ud800")
        case "print":
            print("noise")
        case "connect":
            try:
                socket.create_connection(("tracker.invalid", 80))
            except OSError:
                pass
    return Document("id", str(path), "title \\ud800", (Page(1, "text \\ud800"),), (), {"a": "b"})

files.parse_file = parse_file
"""


@pytest.fixture
def process() -> Iterator[ParsingProcess]:
    parser = ParsingProcess(limits=Limits(6.0, 12.0, 2**28), program=HOSTILE + PROGRAM)
    yield parser
    parser.close()


@pytest.fixture(scope="module")
def honest() -> Iterator[ParsingProcess]:
    parser = ParsingProcess()
    yield parser
    parser.close()


@pytest.mark.parametrize("path", sorted(DATA.glob("*.[mp]d*")), ids=lambda path: path.name)
def test_documents_are_those_of_this_process(path: Path, honest: ParsingProcess) -> None:
    assert honest(path, path.read_bytes()) == parse_file(path)


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("a.pdf", b"%PDF-1.4 rubbish", CorruptFileError),
        ("b.txt", b"", EmptyFileError),
        ("c.exe", b"MZ\0", UnsupportedFileError),
        ("d.txt", b"PK\3\4 a zip bomb", CorruptFileError),
    ],
)
def test_refusals_are_those_of_this_process(
    name: str, data: bytes, kind: type[ParsingError], honest: ParsingProcess, tmp_path: Path
) -> None:
    with pytest.raises(ParsingError) as worker_error:
        honest(tmp_path / name, data)
    with pytest.raises(ParsingError) as local_error:
        parse_file(tmp_path / name, data)
    assert type(worker_error.value) is type(local_error.value) is kind
    assert str(worker_error.value) == str(local_error.value)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("abort", "crashed"),
        ("leave", "crashed"),
        ("hang", "reading it made no progress for 6 s"),
        ("endless", "Gave up"),
        ("memory", "MemoryError"),
        ("creeping", "memory|MemoryError"),
        ("bug", "RecursionError"),
    ],
)
def test_a_file_made_to_harm_ends_only_its_own_reading(
    process: ParsingProcess, name: str, says: str
) -> None:
    start = time.monotonic()
    with pytest.raises(ParsingError, match=says):
        process(Path(f"/somewhere/{name}.txt"), b"data")
    assert time.monotonic() - start < 6 * 60
    assert process(Path("/somewhere/good.txt"), b"data").pages[0].number == 1


def test_time_is_that_of_the_processor(
    process: ParsingProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that is busy with other things makes no file a bad one; one that sleeps is."""
    assert process(Path("/somewhere/sleep.txt"), b"data").title
    monkeypatch.setattr(worker, "PATIENCE", 1)
    with pytest.raises(SlowFileError, match="made no progress for 6 s"):
        process(Path("/somewhere/sleep.txt"), b"data")


def test_what_the_process_says_does_not_pile_up() -> None:
    """One that was taken over by a file could fill the memory of this process otherwise."""
    flood = "import sys\nwhile True: sys.stdout.buffer.write((2**24).to_bytes(8, 'little'))"
    flood += " and sys.stdout.buffer.write(bytes(2**24))"
    threads = threading.active_count()
    running = worker._Running(flood)
    try:
        assert running.receive(30) is not None
        before = psutil.Process().memory_info().rss
        time.sleep(2)
        assert psutil.Process().memory_info().rss - before < 2**27
    finally:
        running.end()
    deadline = time.monotonic() + 30
    while threading.active_count() > threads:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_long_file_that_goes_on_is_not_given_up(process: ParsingProcess) -> None:
    assert process(Path("slow.txt"), b"data").title == "title \ufffd"


def test_output_of_libraries_does_not_mix_with_replies(process: ParsingProcess) -> None:
    assert process(Path("print.txt"), b"data").metadata == {"a": "b"}


def test_names_that_are_no_text_travel(process: ParsingProcess) -> None:
    name = "na\udcffme.txt" if sys.platform == "linux" else "na\u00ffme.txt"
    assert process(Path(name), b"data").source == name


def test_what_tries_to_connect_there_is_known_here(process: ParsingProcess) -> None:
    before = len(network.attempts())
    process(Path("connect.txt"), b"data")
    assert [attempt.host for attempt in network.attempts()[before:]] == ["tracker.invalid"]


def test_hidden_text_is_taken_where_it_is_asked_for(tmp_path: Path) -> None:
    import pymupdf

    document = pymupdf.open()
    document.new_page().insert_text((72, 72), "seen")
    document[0].insert_text((72, 100), "unseen", render_mode=3)
    for hidden, text in ((False, "seen"), (True, "seen\nunseen")):
        process = ParsingProcess(ParseOptions(hidden_text=hidden))
        paper = process(Path("a.pdf"), document.tobytes())
        assert (paper.text, bool(paper.pages[0].notes)) == (text, not hidden)
        process.close()


def test_one_process_reads_many_files(process: ParsingProcess) -> None:
    process(Path("one.txt"), b"data")
    assert process._running is not None
    first = process._running.process.pid
    for number in range(20):
        process(Path(f"{number}.txt"), b"data")
    assert process._running.process.pid == first


def test_nothing_is_imported_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("msgspec", "psutil", "selectolax", "localrag"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(9)")
    monkeypatch.chdir(tmp_path)
    process = ParsingProcess()
    assert process(Path("a.txt"), b"some text").text == "some text"
    process.close()


def test_an_unknown_error_class_is_a_plain_refusal() -> None:
    from localrag.documents.worker import _error_of, _Refused

    error = _error_of(_Refused("ConfigError", "{a} is wrong", "do {a}", {"a": "x"}))
    assert type(error) is ParsingError
    assert str(error) == "x is wrong do x"
