"""A whole library is taken away, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from library_fixtures import Where, add, bytes_on_disk, document, open_library

from localrag.config.settings import Settings
from localrag.egress.databases import Database, read_url
from localrag.engine import Engine
from localrag.errors import LibraryError, LibraryLockedError, LibraryNotFoundError
from localrag.library.backends.opening import is_there
from localrag.library.backends.postgres import dialect
from localrag.library.backends.postgres.catalogue import PostgresCatalogue
from localrag.library.catalogue.filters import Filter
from localrag.library.library import Library, delete_library
from localrag.library.location import Location
from localrag.server.following import Follower
from localrag.server.libraries import Libraries


@pytest.fixture
def place(postgres: str, tmp_path: Path) -> Database:
    return read_url(f"{postgres}#{tmp_path.name}")


def filled(place: Location) -> Library:
    library = open_library(place)
    for number in range(3):
        add(library, document(f"green tea is picked in spring {number}", source=f"{number}.txt"))
    library.sync()
    return library


def test_all_of_it_goes_and_its_neighbour_stays(where: Where) -> None:
    place, other = where("one"), where("other")
    with filled(other) as neighbour:
        with filled(place) as library:
            folder = library.directory
            (folder / "uploads").mkdir(exist_ok=True)
            (folder / "uploads" / "tea.txt").write_text("green tea")
        assert delete_library(place) == ""
        assert not folder.exists()
        assert not is_there(place)
        with pytest.raises(LibraryNotFoundError):
            delete_library(place)
        neighbour.remove(sources=["0.txt"])  # what makes rows go with their document still stands
        assert neighbour.counts().documents == 2
        assert neighbour.chunk_set().size == len(neighbour.chunk_ids(Filter()))
    with open_library(place) as anew:
        assert anew.counts().documents == 0


def test_tables_and_their_schema_go(place: Database) -> None:
    with filled(place) as library:
        number = library._catalogue.number  # type: ignore[attr-defined]
    delete_library(place)
    with closing(PostgresCatalogue(place)) as catalogue, catalogue.session() as session:
        home = dialect.home(number)
        assert session.execute("SELECT to_regnamespace(%s)", [home]).fetchone() == (None,)
        count = session.execute(
            f"SELECT count(*) FROM {dialect.SCHEMA}.chunks WHERE library = %s", [number]
        ).fetchone()
        assert count == (0,)


def test_what_others_put_into_the_folder_stays(tmp_path: Path) -> None:
    place = tmp_path / "library"
    filled(place).close()
    own_files = {"notes.md": "mine", "vectors/own.bin": "mine", "uploads.bak": "mine"}
    for name, text in own_files.items():
        (place / name).write_text(text)
    assert delete_library(place) == "others"
    names = {str(path.relative_to(place)) for path in place.rglob("*") if path.is_file()}
    assert names == {str(Path(name)) for name in own_files}
    assert b"green tea" not in bytes_on_disk(place)


def test_a_folder_that_is_no_library_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "one.jpg").write_bytes(b"1")
    with pytest.raises(LibraryNotFoundError):
        delete_library(tmp_path / "photos")
    filled(tmp_path / "real").close()
    (tmp_path / "real" / "kv").mkdir()
    (tmp_path / "real" / "kv" / "away").symlink_to(tmp_path / "photos")
    with pytest.raises(LibraryError, match="never creates"):
        delete_library(tmp_path / "real")
    assert (tmp_path / "photos" / "one.jpg").exists()
    assert is_there(tmp_path / "photos") is False


HOLD = """
import sys, time
from localrag.library.backends.opening import open_backend
from localrag.library.location import location_of
with open_backend(location_of(sys.argv[1])).lock.hold(0):
    print("held", flush=True)
    time.sleep(60)
"""


def test_who_writes_is_named_and_nothing_goes(where: Where) -> None:
    place = where()
    with filled(place) as library:
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(place)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "held\n"
            with pytest.raises(LibraryLockedError, match=f"process {process.pid} on"):
                delete_library(place, timeout=0.2)
        finally:
            process.kill()
            process.communicate()
        assert library.counts().documents == 3


def test_who_reads_for_long_is_not_cut_off(
    place: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("localrag.library.backends.postgres.catalogue._DROP_PATIENCE", "100ms")
    with filled(place) as library:
        with library.one_state():
            assert library.counts().documents == 3
            with pytest.raises(LibraryError, match="is in use and was not deleted"):
                delete_library(place)
            assert library.counts().documents == 3
        assert delete_library(place) == ""


def test_another_node_is_told_that_it_is_gone(place: Database) -> None:
    with filled(place) as library:
        assert library.is_there
        delete_library(place)
        for question in (library.counts, library.sync, lambda: library.remove(sources=["0.txt"])):
            with pytest.raises(LibraryNotFoundError, match=place.library):
                question()
        assert not library.is_there
    with filled(place) as library, open_library(place, create=False) as other:
        delete_library(place)
        filled(place).close()  # one of the same name, made anew
        with pytest.raises(LibraryNotFoundError):
            library.counts()
        assert not other.is_there


def test_a_server_lets_go_of_it(where: Where) -> None:
    place = where("served")

    def opened(location: Location) -> Engine:
        return Engine(open_library(location, create=False), Settings())

    filled(place).close()
    libraries = Libraries([place], opened)
    (name,) = libraries.names
    folder = libraries.engine(name).library.directory
    follower = Follower(libraries)
    follower.look_around()
    delete_library(place)
    if isinstance(place, Database):  # an index that was written while it went
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "left").write_text("green tea")
    follower.look_around()
    assert libraries.opened() == {}
    assert not folder.exists()
    with pytest.raises(LibraryNotFoundError):  # 404
        libraries.engine(name)
    libraries.close()
