"""What SQLite leaves in its pages goes with the change that left it, at the cost of the change."""

from __future__ import annotations

import random
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from library_fixtures import (
    add,
    bytes_on_disk,
    document,
    indexes,
    new_document,
    open_library,
)
from test_deletion import left, marked

from localrag.library.catalogue.catalogue import SqliteCatalogue
from localrag.library.catalogue.sweeping import sweep
from localrag.library.check import check_library
from localrag.library.library import Library
from localrag.types import Document


def unused(catalogue: Path) -> Iterator[tuple[int, bytes]]:
    """Of each page the bytes that belong to nothing, by the file format and not by our code."""
    with closing(sqlite3.connect(catalogue)) as connection:
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        roots = {1} | {
            row[0]
            for row in connection.execute("SELECT rootpage FROM sqlite_master WHERE rootpage > 0")
        }
    content = catalogue.read_bytes()
    todo = list(roots)
    while todo:  # from the roots down: no pointer map is believed
        number = todo.pop()
        page = content[(number - 1) * size : number * size]
        begin = 100 if number == 1 else 0
        kind, head = page[begin], page[begin:]
        count = int.from_bytes(head[3:5], "big")
        start = int.from_bytes(head[5:7], "big") or 65536
        cells = begin + (12 if kind in (2, 5) else 8)
        if kind in (2, 5):
            todo.append(int.from_bytes(head[8:12], "big"))
            for cell in range(count):
                place = int.from_bytes(page[cells + 2 * cell : cells + 2 * cell + 2], "big")
                todo.append(int.from_bytes(page[place : place + 4], "big"))
        yield number, page[cells + 2 * count : start]
        free = int.from_bytes(head[1:3], "big")
        while free:
            after, length = (int.from_bytes(page[free + n : free + n + 2], "big") for n in (0, 2))
            yield number, page[free + 4 : free + length]
            free = after


def leftovers(directory: Path) -> list[int]:
    return [number for number, space in unused(directory / "catalogue.sqlite") if any(space)]


def changed(library: Library, draw: random.Random, steps: int) -> list[tuple[str, Document]]:
    """Random additions, changes and removals; what was removed."""
    alive: dict[str, Document] = {}
    removals: list[tuple[str, Document]] = []
    for step in range(steps):
        action = draw.choice("aaacr") if alive else "a"
        tag = draw.choice(sorted(alive)) if action in "cr" else f"t{step}n"
        if action == "r":
            removals.append((tag, alive.pop(tag)))
            assert library.remove(sources=[f"/files/{tag}.txt"]).purged
            continue
        version = marked(
            f"v{step}" if action == "c" else tag, draw.randrange(1, 200), draw.randrange(9)
        )
        if action == "c":
            removals.append((next(iter(tag.split())), alive[tag]))
        alive[tag] = version
        add(library, version, f"/files/{tag}.txt")
    return removals


@pytest.mark.parametrize("seed", range(3))
def test_no_page_keeps_a_byte_that_belongs_to_nothing(tmp_path: Path, seed: int) -> None:
    with open_library(tmp_path, keyword_engine="rank-bm25") as library:
        removals = changed(library, random.Random(seed), 60)
        library.purge_if_due()
        content = bytes_on_disk(tmp_path)
        assert len(removals) > 10
        assert [version.id for _, version in removals if version.id.encode() in content] == []
    assert leftovers(tmp_path) == []
    assert check_library(tmp_path, indexes(engine="rank-bm25")).ok
    with closing(sqlite3.connect(tmp_path / "catalogue.sqlite")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_sqlite_alone_leaves_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the tests above would prove nothing."""
    monkeypatch.setattr("localrag.library.catalogue.catalogue.sweep", lambda *_: True)
    with open_library(tmp_path, keyword_engine="rank-bm25") as library:
        changed(library, random.Random(0), 60)
        library.purge_if_due()
    assert leftovers(tmp_path) != []


def test_a_removal_writes_the_pages_of_the_document_and_no_others(tmp_path: Path) -> None:
    draw = random.Random(0)
    with open_library(tmp_path, keyword_engine="rank-bm25") as library:
        library.add(
            new_document(document(draw.randbytes(6000).hex(), source=f"{number}.txt"), size=1200)
            for number in range(300)
        )
        before = (tmp_path / "catalogue.sqlite").read_bytes()
        library.remove(sources=["150.txt"])
    after = (tmp_path / "catalogue.sqlite").read_bytes()
    pages = range(0, len(after), 4096)
    count = sum(before[start : start + 4096] == after[start : start + 4096] for start in pages)
    assert count > 0.9 * len(pages) > 500


@pytest.mark.parametrize("moment", ["before", "between", "after"])
def test_a_process_that_ends_while_it_sweeps_leaves_the_rest_for_the_next(
    tmp_path: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ended(BaseException):
        pass

    def ends(*arguments: object) -> bool:
        if moment == "after":
            sweep(*arguments)  # type: ignore[arg-type]
        if moment == "between":
            file, pages = arguments
            sweep(file, sorted(pages)[:3])  # type: ignore[arg-type,call-overload]
        raise Ended

    secret = marked("SECRET", 200, 5)
    with open_library(tmp_path, keyword_engine="rank-bm25") as library:
        for number in range(20):
            add(library, marked(f"n{number}", 100))
        add(library, secret)
        library.sync()
    library = open_library(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("localrag.library.catalogue.catalogue.sweep", ends)
        with pytest.raises(Ended):
            library.remove(sources=[secret.source])
    library.close()
    with open_library(tmp_path, create=False, embedding=None) as again:
        assert again.counts().documents == 20
    assert left(tmp_path, secret, "SECRET") == []
    assert leftovers(tmp_path) == []
    assert check_library(tmp_path, indexes(engine="rank-bm25")).ok


def vacuums(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What writes the whole file anew from now on."""
    calls: list[str] = []
    true = SqliteCatalogue.purge

    def purge(catalogue: SqliteCatalogue) -> bool:
        if not catalogue.swept:
            calls.append("anew")
        return true(catalogue)

    monkeypatch.setattr(SqliteCatalogue, "purge", purge)
    return calls


def test_a_file_that_somebody_else_wrote_is_written_anew_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_library(tmp_path, keyword_engine="rank-bm25") as library:
        for tag in "abcd":
            add(library, marked(tag))
        library.sync()
    calls = vacuums(monkeypatch)
    with open_library(tmp_path, keyword_engine="rank-bm25") as library:
        library.remove(sources=[marked("a").source])
        assert calls == []
    with closing(sqlite3.connect(tmp_path / "catalogue.sqlite")) as connection:
        connection.execute("UPDATE documents SET language = 'zh'")
        connection.commit()
    with open_library(tmp_path, keyword_engine="rank-bm25") as library:
        library.remove(sources=[marked("b").source])
        library.remove(sources=[marked("c").source])
    assert calls == ["anew"]
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("damage", ["altered", "of another key", "empty"])
def test_a_mark_that_is_not_ours_counts_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    with open_library(tmp_path, keyword_engine="rank-bm25") as library:
        add(library, marked("a"))
        add(library, marked("b"))
    mark = tmp_path / "catalogue.sqlite-swept"
    content = mark.read_bytes()
    contents = {
        "altered": content.replace(b'"seal":"', b'"seal":"0'),
        "of another key": content.replace(b'"key":"', b'"key":"0'),
        "empty": b"",
    }
    mark.write_bytes(contents[damage])
    calls = vacuums(monkeypatch)
    with open_library(tmp_path, keyword_engine="rank-bm25") as library:
        library.remove(sources=[marked("a").source])
    assert calls == ["anew"]
    assert left(tmp_path, marked("a"), "a") == []


def test_a_reader_in_an_older_state_holds_the_log_and_loses_nothing(tmp_path: Path) -> None:
    secret = marked("SECRET", 200)
    with open_library(tmp_path) as library, open_library(tmp_path, create=False) as reader:
        add(library, secret)
        add(library, marked("other"))
        with reader._catalogue.read() as snapshot:
            assert snapshot.has_document(secret.id)
            assert not library.remove(sources=[secret.source]).purged
            assert snapshot.text(secret.id, 0, 4)
        library.purge_if_due()
        assert left(tmp_path, secret, "SECRET") == []
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("seed", range(2))
def test_a_reader_that_lets_go_during_a_purge_leaves_nothing_unswept(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle = SqliteCatalogue.settle

    def patient(catalogue: SqliteCatalogue, *, patience: float = 0.0) -> bool:
        return settle(catalogue, patience=60 * patience)  # of a slow machine

    monkeypatch.setattr(SqliteCatalogue, "settle", patient)
    with (
        open_library(tmp_path, keyword_engine="rank-bm25") as library,
        open_library(tmp_path, create=False, keyword_engine="rank-bm25") as reader,
    ):
        changed(library, random.Random(seed), 20)
        library.add(
            new_document(marked(f"more{number}n", 150), f"/files/more{number}.txt")
            for number in range(40)
        )
        library.purge()
        start, end = threading.Event(), threading.Event()

        def hold() -> None:
            with reader._catalogue.read() as snapshot:
                assert snapshot.has_document(marked("more0n", 150).id)
                start.set()
                end.wait(0.4)  # less than a purge waits for readers

        holding = threading.Thread(target=hold)
        holding.start()
        start.wait()
        paths = [f"/files/more{number}.txt" for number in range(0, 40, 3)]
        assert library.remove(sources=paths).purged
        holding.join()
        assert leftovers(tmp_path) == []


def test_what_has_no_pointer_map_is_not_written_to(tmp_path: Path) -> None:
    path = tmp_path / "plain.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE a(b)")
        connection.commit()
    before = path.read_bytes()
    with path.open("r+b") as file:
        assert not sweep(file, range(1, 10))
    assert path.read_bytes() == before
