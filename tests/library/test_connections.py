"""Connections to a catalogue: as many as are used at once, and none that outlives `forget`."""

from __future__ import annotations

import gc
import threading
from pathlib import Path

from library.library_fixtures import add, document, open_library

from localrag.library.catalogue import guarded


def test_threads_that_come_and_go_leave_no_connections(tmp_path: Path) -> None:
    with open_library(tmp_path / "library") as library:
        for _ in range(20):
            thread = threading.Thread(target=library.counts)
            thread.start()
            thread.join()
        assert len(library._catalogue._idle) == 1


def test_a_read_within_a_read_sees_the_same_state(tmp_path: Path) -> None:
    with open_library(tmp_path / "library") as library:
        with library._catalogue.read() as outer:
            before = outer.counts()
            writer = threading.Thread(target=add, args=(library, document("One.")))
            writer.start()
            writer.join()
            assert library.counts() == before
        assert library.counts().documents == 1


def test_what_is_used_while_all_is_forgotten_is_closed_after_its_use(tmp_path: Path) -> None:
    with open_library(tmp_path / "library") as library:
        add(library, document("One."))
        with library._catalogue.read() as snapshot:
            library.forget()
            assert not library._catalogue._idle
            assert snapshot.counts().documents == 1
        assert not library._catalogue._idle
        assert library.counts().documents == 1


def test_removals_tell_one_from_another_and_their_end(tmp_path: Path) -> None:
    with open_library(tmp_path / "library") as library:
        states = [library.removals()]
        add(library, document("One.", source="a.txt"))
        add(library, document("Two.", source="b.txt"))
        assert library.removals() == states[0]
        for name in ("a.txt", "b.txt"):
            library.remove(sources=[name])
            states.append(library.removals())
        assert len(set(states)) == 3
        assert not any(removal.due for removal in states)


def test_a_library_that_nobody_closes_leaves_no_file_open(tmp_path: Path) -> None:
    library = open_library(tmp_path / "library")
    add(library, document("One.", source="a.txt"))
    assert library.remove(sources=["a.txt"]).purged
    swept = library._catalogue.identity()
    assert swept in guarded._in_place
    del library
    gc.collect()
    assert swept not in guarded._in_place
