"""What was computed of documents for an evaluation: it goes with them, whoever removes them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import platformdirs
import pytest
from library.library_fixtures import add, document, open_library

from localrag.evaluator.evaluator import CALLS_FILE, open_cache
from localrag.library.computed import clear_computed, computed_file, computed_with
from localrag.library.library import Library, delete_library
from localrag.library.location import Location

SECRET = "The vault opens with 4711."
SAYS = "It opens with 4711."


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda *_, **__: folder)
    monkeypatch.setattr("localrag.factory.cache_folder", lambda: folder)
    return folder


def holds(folder: Path, text: str) -> bool:
    """Whether any file below the folder has the text in it."""
    return any(text.encode() in path.read_bytes() for path in folder.rglob("*") if path.is_file())


def filled(location: Location) -> Library:
    library = open_library(location)
    add(library, document(SECRET, source="secret.txt"), size=200)
    add(library, document("The glass house.", source="garden.txt"), size=200)
    with open_cache(None, library) as store:
        store.put("key", {"answer": SAYS, "contexts": [SECRET]}, 1.0)
    return library


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    with filled(tmp_path / "library") as new_library:
        yield new_library


def test_it_goes_with_a_removal_and_before_it_is_reported(library: Library, cache: Path) -> None:
    assert holds(cache, SECRET)
    removal = library.remove(sources=["secret.txt"])
    assert removal.purged
    assert not holds(cache, "4711")
    with open_cache(None, library) as store:
        assert store.get("key") is None


def test_it_stays_for_as_long_as_nothing_is_removed(library: Library, cache: Path) -> None:
    add(library, document("Tea.", source="tea.txt"), size=200)
    library.forget()
    with open_library(library.location, create=False) as again, open_cache(None, again) as store:
        assert store.get("key") is not None
    with open_cache(None, library.location) as store:
        assert store.get("key") is not None


def test_it_goes_with_a_rebuild_and_with_the_library(tmp_path: Path, cache: Path) -> None:
    with filled(tmp_path / "one") as library:
        library.rebuild_indexes()
        assert not holds(cache, "4711")
        with open_cache(None, library) as store:
            store.put("key", SAYS, 1.0)
    assert holds(cache, "4711")
    delete_library(tmp_path / "one")
    assert not holds(cache, "4711")


def test_a_library_that_was_moved_takes_it_along(tmp_path: Path, cache: Path) -> None:
    filled(tmp_path / "one").close()
    shutil.move(tmp_path / "one", tmp_path / "two")
    with open_library(tmp_path / "two", create=False) as library:
        library.remove(sources=["secret.txt"])
    assert not holds(cache, "4711")


def test_what_another_account_removes_goes_when_the_library_is_opened_next(
    tmp_path: Path, cache: Path, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as other:
        other.setattr(platformdirs, "user_cache_path", lambda *_, **__: tmp_path / "other")
        with open_library(library.location, create=False) as foreign_library:
            foreign_library.remove(sources=["secret.txt"])
    assert holds(cache, "4711"), "they cannot reach it"
    library.forget()  # as a server does once it sees that something was removed
    assert not holds(cache, "4711")


def test_an_evaluation_that_goes_on_leaves_nothing_either(library: Library, cache: Path) -> None:
    with open_cache(None, library) as store:
        library.remove(sources=["secret.txt"])
        store.put("late", SAYS, 1.0)
        if os.name != "nt":
            assert not holds(cache, "4711")
    library.forget()
    assert not holds(cache, "4711")


def test_what_earlier_versions_kept_of_all_libraries_goes(library: Library, cache: Path) -> None:
    old = cache / "evaluation" / CALLS_FILE
    old.parent.mkdir(parents=True, exist_ok=True)
    old.write_bytes(SECRET.encode())
    library.remove(sources=["garden.txt"])
    assert not holds(cache, "4711")


def test_nothing_is_made_where_nothing_was_kept(library: Library, cache: Path) -> None:
    removals = library.removals()
    assert computed_with(library.location) == (computed_file(removals), "")
    assert clear_computed(removals)
    assert clear_computed(removals)
    before = sorted(cache.rglob("*"))
    assert clear_computed(removals, keep=True)
    assert sorted(cache.rglob("*")) == before
