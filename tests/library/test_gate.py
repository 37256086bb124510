"""A library that somebody hands over: nothing outside its folder is opened, written or deleted."""

from __future__ import annotations

import os
import re
import shutil
import socket
import sqlite3
import stat
import struct
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest
from library_fixtures import add, document, found, indexes, open_library

from localrag.errors import LibraryError, UsageError
from localrag.library.check import check_library
from localrag.library.folder import gate
from localrag.library.folder.sharing import accept, share, unshare
from localrag.library.transfer import export_library, import_library

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.skipif(os.name == "nt", reason="only on POSIX"),
]


@pytest.fixture
def library(tmp_path: Path) -> Path:
    directory = tmp_path / "stick" / "library"
    with open_library(directory) as new_library:
        add(new_library, document("green tea is picked in spring", source="tea.txt"))
        add(new_library, document("the harbour holds many ships", source="ships.txt"))
        new_library.sync()
    (directory / "kv").mkdir()
    (directory / "kv" / f"{'0' * 40}.kv").write_bytes(b"a state")
    return directory


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    """Somebody's own files, all old enough to be taken for left over."""
    home = tmp_path / "home"
    for name in ("letters", "bm25-00000000", "reader-00000000", "kv"):
        (home / name).mkdir(parents=True)
        (home / name / f"{'1' * 40}.kv").write_text("mine")
        (home / name / "meta.json").write_text("mine")
    for name in ("index.json", "precious", "tmpabc.new", f"{'0' * 16}.segment"):
        (home / name).write_text("mine")
    shutil.copyfile(Path(__file__), home / "catalogue.sqlite")
    for path in (*home.rglob("*"), home):
        os.utime(path, (1, 1))
    return home


def state(folder: Path) -> dict[str, object]:
    return {
        str(path): (path.lstat().st_mtime_ns, path.read_bytes() if path.is_file() else "")
        for path in (folder, *folder.rglob("*"))
    }


def purge_due(library: Path) -> None:
    with closing(sqlite3.connect(library / "catalogue.sqlite")) as connection:
        connection.execute("INSERT INTO meta VALUES ('purge due', 1)")
        connection.commit()


def replaced(path: Path, by: Callable[[Path], object]) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    by(path)


def journal_that_deletes(path: Path, victim: Path) -> None:
    """A hot journal, as SQLite writes it for several files, that names `victim` as theirs."""
    magic, name = bytes.fromhex("d9d505f920a163d7"), os.fsencode(victim)
    pages = path.with_name("catalogue.sqlite").stat().st_size // 4096
    header = (magic + struct.pack(">5I", 0, 1, pages, 512, 4096)).ljust(512, b"\0")
    page = struct.pack(">I", 0x40000000 // 4096 + 1)
    path.write_bytes(header + page + name + struct.pack(">2I", len(name), sum(name)) + magic)


_PID = os.getppid()
"""Of a process that runs, and the same in all that run tests beside each other."""
LINKS = (
    *("keywords", "kv", "vectors", "vectors.faiss", "write.lock", "write.lock.json", "seal.key"),
    *("catalogue.sqlite", "catalogue.sqlite-wal", "catalogue.sqlite-shm"),
    *("catalogue.sqlite-swept", "catalogue.sqlite-swept.0a1b2c3d.part"),
    *("catalogue.sqlite-journal", "keywords/index.json", "keywords/bm25-01234567"),
    *("keywords/reader-01234567", f"kv/{'2' * 40}.kv", "kv/tmpx.new", "holidays", "kv/holidays"),
    *(f"vectors.faiss.{_PID}.part", f"write.lock.json.{_PID}.part"),
    *(f"catalogue.sqlite.import.{_PID}.part", "vectors.faiss.0a1b2c3d.part"),
    *("vectors/index.json", f"vectors/{'4' * 16}.segment", "vectors/index.json.0a1b2c3d.part"),
)

OPERATIONS: dict[str, Callable[[Path, Path], object]] = {
    "search": lambda directory, _: search(directory),
    "status": lambda directory, _: status(directory),
    "add": lambda directory, _: more(directory),
    "remove": lambda directory, _: forget(directory),
    "rebuild": lambda directory, _: rebuild(directory),
    "check": lambda directory, _: check(directory),
    "export": lambda directory, out: export_library(directory, out / "export", "0"),
    "import": lambda directory, out: bring(directory, out),
    "share": lambda directory, _: share(directory, group_here()),
    "unshare": lambda directory, _: unshare(directory),
    "accept": lambda directory, _: accept(directory),
}


def search(directory: Path) -> object:
    with open_library(directory, create=False) as library:
        return found(library, "tea")


def status(directory: Path) -> object:
    with open_library(directory, create=False, embedding=None) as library:
        return library.status()


def more(directory: Path) -> None:
    with open_library(directory) as library:
        add(library, document("one more", source="more.txt"))
        library.sync()


def forget(directory: Path) -> None:
    with open_library(directory) as library:
        library.remove(sources=["tea.txt"])


def rebuild(directory: Path) -> None:
    with open_library(directory) as library:
        library.rebuild_indexes()


def check(directory: Path) -> list[str]:
    inspection = check_library(directory, indexes())
    return [f"{finding.part}:{finding.code}" for finding in inspection.findings]


def bring(directory: Path, out: Path) -> None:
    with open_library(out / "other") as library:
        add(library, document("another library", source="other.txt"))
    export_library(out / "other", out / "archive", "0")
    import_library(out / "archive", directory, indexes=indexes())


def group_here() -> str:
    import grp

    return grp.getgrgid(os.getgid()).gr_name


def refused(library: Path, canary: Path, out: Path, operation: str, match: str = "") -> None:
    before, inside = state(canary), {path.name for path in library.rglob("*")}
    with pytest.raises(LibraryError, match=match or "never creates"):
        OPERATIONS[operation](library, out)
    assert state(canary) == before
    assert {path.name for path in library.rglob("*")} == inside


@pytest.mark.parametrize("name", LINKS)
@pytest.mark.parametrize("due", [False, True], ids=["", "purge due"])
def test_nothing_goes_over_a_link(
    library: Path, canary: Path, tmp_path: Path, name: str, due: bool
) -> None:
    if due:
        purge_due(library)
    target = canary if name in ("keywords", "kv") else canary / "letters"
    if not name.startswith("keywords/") and name not in ("keywords", "kv"):
        target = canary / "precious"
    replaced(library / name, lambda path: path.symlink_to(target))
    for operation in OPERATIONS:
        refused(library, canary, tmp_path, operation, "is a link")


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_link_that_leads_nowhere_makes_no_file(
    library: Path, canary: Path, tmp_path: Path, operation: str
) -> None:
    for name in ("write.lock", "catalogue.sqlite-wal", f"vectors.faiss.{os.getpid()}.part"):
        replaced(library / name, lambda path: path.symlink_to(canary / "new"))
    refused(library, canary, tmp_path, operation)


def fifo(path: Path) -> None:
    os.mkfifo(path)


def listening(path: Path) -> None:
    folder = Path.cwd()
    os.chdir(path.parent)  # a socket's path is short
    try:
        with closing(socket.socket(socket.AF_UNIX)) as listener:
            listener.bind(path.name)
    finally:
        os.chdir(folder)


def device(path: Path) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))  # /dev/zero
    except PermissionError:
        pytest.skip("only where devices may be made")


@pytest.mark.parametrize("kind", [fifo, listening, device])
@pytest.mark.parametrize("name", LINKS)
def test_neither_pipes_nor_devices_are_opened(
    library: Path, canary: Path, tmp_path: Path, name: str, kind: Callable[[Path], None]
) -> None:
    replaced(library / name, kind)
    for operation in ("search", "status", "check", "add"):
        refused(library, canary, tmp_path, operation, "is a (pipe|device)")


@pytest.mark.parametrize("name", ["catalogue.sqlite", "write.lock", "catalogue.sqlite-wal"])
def test_what_is_written_in_place_has_no_other_name(
    library: Path, canary: Path, tmp_path: Path, name: str
) -> None:
    replaced(library / name, lambda path: path.hardlink_to(canary / "precious"))
    for operation in OPERATIONS:
        refused(library, canary, tmp_path, operation, "hard link")


HARD = (
    "vectors.faiss",
    "vectors/index.json",
    "keywords/index.json",
    "write.lock.json",
    "seal.key",
    f"kv/{'3' * 40}.kv",
)


@pytest.mark.parametrize("name", HARD)
def test_what_is_replaced_whole_leaves_its_other_name_alone(
    library: Path, canary: Path, tmp_path: Path, name: str
) -> None:
    for operation in OPERATIONS:
        (library / name).parent.mkdir(exist_ok=True)
        replaced(library / name, lambda path: path.hardlink_to(canary / "precious"))
        (canary / "precious").chmod(0o644)
        library.chmod(0o755)
        before = state(canary)
        with suppress(LibraryError, UsageError):  # importing into documents; accepting no key
            OPERATIONS[operation](library, tmp_path)
        assert state(canary) == before, operation
        assert stat.S_IMODE((canary / "precious").stat().st_mode) == 0o644, operation
        for file in ("export", "archive"):
            (tmp_path / file).unlink(missing_ok=True)


def test_a_folder_is_no_file_and_a_file_no_folder(
    library: Path, canary: Path, tmp_path: Path
) -> None:
    for name, make in (("keywords", Path.touch), ("vectors", Path.touch)):
        backup = tmp_path / "kept"
        (library / name).rename(backup)
        make(library / name)
        for operation in ("search", "check"):
            refused(library, canary, tmp_path, operation, f"{name} is a f(older|ile)")
        replaced(library / name, lambda path, aside=backup: aside.rename(path))  # type: ignore[misc]
    search(library)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_sqlite_deletes_no_file_that_a_journal_names(
    library: Path, canary: Path, tmp_path: Path, operation: str
) -> None:
    journal_that_deletes(library / "catalogue.sqlite-journal", canary / "precious")
    refused(library, canary, tmp_path, operation, "journal that points")


def test_a_journal_of_our_own_is_recovered(library: Path) -> None:
    journal_that_deletes(library / "catalogue.sqlite-journal", library / "nothing")
    whole = (library / "catalogue.sqlite-journal").read_bytes()
    (library / "catalogue.sqlite-journal").write_bytes(whole[:512])
    assert search(library) != ([], [])


OTHERS = (".DS_Store", "Thumbs.db", "keywords/.DS_Store", "kv/.DS_Store", "notes.part", "me.kv")


def test_what_other_programs_leave_is_left_alone(library: Path) -> None:
    for name in OTHERS:
        (library / name).write_text("theirs")
        os.utime(library / name, (1, 1))
    for name in ("lost+found", ".stfolder", "keywords/old", "keywords/bm25-mine", "kv/more"):
        (library / name).mkdir()
        (library / name / "file").write_text("theirs")
        os.utime(library / name, (1, 1))
    for operation in ("status", "add", "rebuild", "remove", "search"):
        OPERATIONS[operation](library, library)
    assert all((library / name).read_text() == "theirs" for name in OTHERS)
    for name in ("lost+found", ".stfolder", "keywords/old", "keywords/bm25-mine", "kv/more"):
        assert (library / name / "file").read_text() == "theirs"
    assert check(library) == []
    assert not list((library / "kv").glob("0*.kv")), "our own are gone"


def test_a_library_that_the_user_reaches_over_a_link(library: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").symlink_to(library)
    (tmp_path / "shelf").symlink_to(library.parent)
    for way in (tmp_path / "mine", tmp_path / "shelf" / "library"):
        assert search(way) == search(library)
        with open_library(way) as opened_library:
            assert opened_library.directory == library


def test_a_folder_of_other_things_is_called_that(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/")
    with pytest.raises(LibraryError, match="contains other files but no library"):
        open_library(tmp_path)


def test_every_name_that_a_library_makes_is_known(library: Path) -> None:
    more(library)
    library_files = set(gate.all_of_ours(library))
    paths = {library, *library.rglob("*")}
    assert {path for path in paths - library_files if not path.name.endswith(".lock")} == set()


def test_whoever_opens_a_catalogue_or_takes_a_lock_has_come_through_the_gate() -> None:
    package = Path(gate.__file__).parents[1]
    # The last two: in the user's own cache.
    inside = {"catalogue.py", "locking.py", "backend.py", "places.py"}
    opening = [
        path
        for path in package.rglob("*.py")
        if "localrag.library" in (text := path.read_text("utf-8"))
        and re.search(r"(?<!class )\b(SqliteCatalogue|WriteLock)\(", text)
        and path.name not in inside
    ]
    assert len(opening) >= 3
    for path in opening:
        assert re.search("enter_library|open_backend", path.read_text("utf-8")), path


@pytest.mark.parametrize("before", [0o022, 0o077, 0])
def test_a_library_is_its_owners_alone(tmp_path: Path, before: int) -> None:
    mask = os.umask(before)
    try:
        with open_library(tmp_path / "library") as library:
            add(library, document("green tea", source="tea.txt"))
            library.sync()
            add(library, document("black tea", source="black.txt"))
            library.sync()
            modes = {
                path: stat.S_IMODE(path.lstat().st_mode)
                for path in ((tmp_path / "library"), *(tmp_path / "library").rglob("*"))
            }
        export_library(tmp_path / "library", tmp_path / "export", "0")
    finally:
        os.umask(mask)
    assert len(modes) > 10
    assert {path.name: mode for path, mode in modes.items() if mode & 0o077} == {}
    assert stat.S_IMODE((tmp_path / "export").stat().st_mode) == 0o600


def test_an_older_library_is_closed_to_others_at_the_next_change(library: Path) -> None:
    for path in (library, *library.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    search(library)
    assert stat.S_IMODE(library.stat().st_mode) == 0o755
    more(library)
    for path in (library, *library.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
