"""Watching folders: what is done when, with a clock and hints of the test's own."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Sequence
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from fakes import HashEmbedder

from localrag.documents import files
from localrag.documents.chunking import WindowChunker
from localrag.documents.files import parse_file
from localrag.errors import OldFormatError, UnsupportedFileError, UsageError
from localrag.factory import indexes_of
from localrag.indexing import hints, watching
from localrag.indexing.events import (
    Away,
    Back,
    Committed,
    Failed,
    IndexingEvent,
    Linked,
    Polled,
    Removed,
    Restless,
    Watching,
    Withheld,
)
from localrag.indexing.hints import NoHintsError, system_hints
from localrag.indexing.indexer import Indexer
from localrag.indexing.watching import Watch
from localrag.library.check import check_library
from localrag.library.library import Library
from localrag.library.records import EmbeddingIdentity
from localrag.types import Document


class Words:
    fingerprint = "words"

    def __call__(self, text: str) -> list[str]:
        return text.split()


class World:
    """A folder, a library, a clock that runs as fast as it is asked, and things that happen."""

    def __init__(self, base: Path) -> None:
        self.files = base / "files"
        self.files.mkdir(exist_ok=True)
        self.embedder = HashEmbedder()
        self.identity = EmbeddingIdentity(
            self.embedder.fingerprint, "hash", self.embedder.dimension
        )
        self.library = Library.open(
            base / "library", create=True, embedding=self.identity, indexes=indexes_of(Words())
        )
        self.now, self.offset = 1000.0, time.time() - 1000.0
        self.stop = threading.Event()
        self.events: list[IndexingEvent] = []
        self.plan: list[tuple[float, Callable[[], object]]] = []
        self.hinting = True
        self.made = self.released = self.looks = 0
        self.idled: list[float] = []

    # A clock

    def time(self) -> float:
        return self.now + self.offset

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.happen()

    # What happens

    def at(self, moment: float, action: Callable[[], object]) -> None:
        self.plan.append((1000 + moment, action))

    def happen(self) -> bool:
        due = [action for moment, action in self.plan if moment <= self.now]
        self.plan = [step for step in self.plan if step[0] > self.now]
        for action in due:
            action()
        return bool(due)

    def hints(
        self, folders: Sequence[Path], stop: threading.Event
    ) -> Generator[set[str], None, None]:
        self.heard = list(folders)
        while not stop.is_set():
            self.now += 1
            event_happened = self.happen()
            yield {str(self.files / "something")} if event_happened and self.hinting else set()

    def write(self, name: str, text: str, *, age: float = 1000) -> Path:
        path = self.files / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        moment = self.time() - age
        os.utime(path, (moment, moment))
        return path

    # Watching

    def indexer(self) -> Indexer:
        self.made += 1
        return Indexer(
            self.library,
            chunker=WindowChunker(60, 0),
            chunking="window 60",
            embedder=self.embedder,
            embedding=self.identity,
            detect_language=lambda _: "en",
            parse=parse_file,
        )

    def release(self) -> None:
        self.released += 1

    def watch(self, *paths: Path, until: float = 0, prune: bool = False) -> bool:
        """Once, or until so many seconds have passed."""
        self.events.clear()
        self.stop.clear()
        if until:
            self.plan.append((self.now + until, self.stop.set))
        watch = Watch(
            self.library,
            paths or (self.files,),
            self.events.append,
            make=self.indexer,
            release=self.release,
            clock=self,
            prune=prune,
            stop=self.stop,
            idle=lambda: self.idled.append(self.now - 1000),
            hints=self.hints,
        )
        looking = watch._look

        def look(holder: Any) -> object:
            self.looks += 1
            return looking(holder)

        watch._look = look  # type: ignore[assignment,method-assign]
        return watch.run(once=not until)

    def told(self, *kinds: type[IndexingEvent]) -> list[tuple[str, str]]:
        """Kind and name of what was told, in order."""
        outcomes = []
        for event in self.events:
            if isinstance(event, kinds or (Committed, Linked, Removed, Failed, Restless)):
                name = Path(getattr(event, "source", "")).name
                outcomes.append((type(event).__name__, name))
        return outcomes

    def sources(self) -> list[str]:
        return [Path(record.state.path).name for record in self.library.sources()]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_one_pass_makes_the_library_true_to_the_folder(world: World) -> None:
    world.write("a.txt", "apples")
    world.write("b.txt", "bananas")
    assert world.watch()
    assert world.told() == [("Committed", "a.txt"), ("Committed", "b.txt")]
    assert world.events[0] == Watching((str(world.files),), 2)
    world.write("a.txt", "apples and pears")
    (world.files / "b.txt").unlink()
    world.write("c.txt", "cherries")
    assert world.watch()
    assert world.told() == [("Committed", "a.txt"), ("Committed", "c.txt"), ("Removed", "b.txt")]
    assert all(index.behind == 0 for index in world.library.status().derived)
    count = world.made
    assert world.watch()
    assert (world.told(), world.made) == ([], count)  # no model for nothing


def test_changes_are_followed(world: World) -> None:
    world.at(10, lambda: world.write("a.txt", "apples"))
    world.at(20, lambda: world.write("a.txt", "apples and pears"))
    world.at(30, (world.files / "a.txt").unlink)
    world.watch(until=60)
    assert world.told() == [("Committed", "a.txt"), ("Committed", "a.txt"), ("Removed", "a.txt")]
    assert [event.replaced for event in world.events if isinstance(event, Committed)] == [
        False,
        True,
    ]
    assert world.sources() == []


def test_what_no_hint_tells_is_found_by_looking(world: World) -> None:
    world.hinting = False
    world.at(10, lambda: world.write("a.txt", "apples"))
    world.watch(until=watching.INTERVAL - 20)
    assert world.told() == []
    world.watch(until=watching.INTERVAL + 20)
    assert world.told() == [("Committed", "a.txt")]
    world.looks = 0
    world.watch(until=10 * watching.INTERVAL)
    assert world.looks <= 12


def test_a_clock_that_jumps_lets_it_look(world: World) -> None:
    world.hinting = False

    def sleep() -> None:
        world.write("a.txt", "apples")
        world.offset += 3600

    world.at(10, sleep)
    world.watch(until=30)
    assert world.told() == [("Committed", "a.txt")]


def test_a_file_is_read_when_it_is_still(world: World) -> None:
    for second in range(10, 40):
        world.at(second, lambda: world.write("a.txt", "apples " * int(world.now), age=0))
    committed: list[float] = []
    tell = world.events.append
    world.events = type("Timed", (list,), {})()

    def note(event: IndexingEvent) -> None:
        if isinstance(event, Committed):
            committed.append(world.now)
        tell(event)

    world.events.append = note  # type: ignore[method-assign]
    world.watch(until=60)
    assert len(committed) == 1
    assert 1039 + watching.STILL <= committed[0] <= 1039 + 3 * watching.STILL


def test_one_pass_waits_a_moment_for_a_file_and_no_longer(world: World) -> None:
    world.write("a.txt", "apples", age=1)
    for second in range(100):
        world.at(second / 2, lambda: world.write("b.txt", "bananas " * int(world.now), age=0))
    assert world.watch()
    assert world.told() == [("Committed", "a.txt"), ("Restless", "b.txt")]
    assert world.now < 1030


def test_a_renamed_file_never_leaves_the_library(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(30):
        world.write(f"old/{number}.txt", f"text {number}")
    world.watch()
    ids = {record.id for record in world.library.documents()}
    monkeypatch.setattr(world.embedder, "embed_documents", lambda *_: pytest.fail("embedded again"))
    (world.files / "old").rename(world.files / "new")
    listings: list[set[str]] = []
    append = world.events.append
    world.events = type("Held", (list,), {})()

    def note(event: IndexingEvent) -> None:
        listings.append({record.id for record in world.library.documents()})
        append(event)

    world.events.append = note  # type: ignore[method-assign]
    assert world.watch()
    assert listings
    assert all(listing == ids for listing in listings)
    assert {Path(source.state.path).parent.name for source in world.library.sources()} == {"new"}


@pytest.mark.parametrize("way", ["missing", "empty", "unreadable"])
def test_a_folder_that_is_away_is_not_emptied(world: World, way: str) -> None:
    if way == "unreadable" and (os.name == "nt" or os.geteuid() == 0):
        pytest.skip("only where a folder can be closed to its owner")
    for number in range(3):
        world.write(f"{number}.txt", f"text {number}")
    world.watch()
    aside = world.files.with_name("aside")

    def leave() -> None:
        if way == "unreadable":
            world.files.chmod(0)
            return
        world.files.rename(aside)
        if way == "empty":  # the mount point that is left
            world.files.mkdir()

    def come_back() -> None:
        if way == "unreadable":
            world.files.chmod(0o700)
            return
        if way == "empty":
            world.files.rmdir()
        aside.rename(world.files)
        world.write("new.txt", "new")

    began = world.now - 1000
    world.at(began + 10, leave)
    world.at(began + 500, come_back)
    world.watch(until=800)
    (away,) = (event for event in world.events if isinstance(event, Away))
    assert (away.source, away.why) == (str(world.files), way)
    assert [type(event) for event in world.events if isinstance(event, Away | Back)] == [Away, Back]
    assert "Removed" not in dict(world.told())
    assert len(world.sources()) >= 3
    # Also where it is away from the beginning, and for a single pass, which says so.
    leave()
    assert not world.watch()
    assert world.told(Away) == [("Away", "files")]
    assert len(world.sources()) >= 3
    come_back()


def test_a_folder_that_a_person_empties_is_empty(world: World) -> None:
    path = world.write("a.txt", "apples")
    world.at(10, path.unlink)
    world.watch(until=30)
    assert world.told() == [("Committed", "a.txt"), ("Removed", "a.txt")]


def test_more_than_half_of_many_files_is_not_removed_unasked(world: World) -> None:
    for number in range(20):
        world.write(f"{number:02}.txt", f"text {number}")
    world.watch()
    for number in range(11):
        (world.files / f"{number:02}.txt").unlink()
    assert not world.watch()
    assert [event for event in world.events if isinstance(event, Withheld)] == [
        Withheld(str(world.files), 11, 20)
    ]
    assert len(world.sources()) == 20
    world.watch(until=1000)
    assert len(world.told(Withheld)) == 1  # said once
    assert world.watch(prune=True)
    assert len(world.sources()) == 9
    (world.files / "19.txt").unlink()
    assert world.watch()
    assert len(world.sources()) == 8


def test_a_lower_folder_on_another_device_is_not_emptied(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.write("a.txt", "apples")
    world.write("drive/b.txt", "bananas")
    mounted = [True]
    real_seen, real_place = watching._file_state, watching._place

    def seen(path: Path) -> watching._FileState | None:
        file = real_seen(path)
        return file._replace(device=77) if file and path.parent.name == "drive" else file

    def place(folder: Path) -> tuple[int, int]:
        location = real_place(folder)
        return (77, 1) if folder.name == "drive" and mounted[0] else location

    monkeypatch.setattr(watching, "_file_state", seen)
    monkeypatch.setattr(watching, "_place", place)

    def unplug() -> None:
        mounted[0] = False
        (world.files / "drive" / "b.txt").unlink()

    world.at(10, unplug)
    world.watch(until=60)
    assert world.told() == [("Committed", "a.txt"), ("Committed", "b.txt")]
    assert world.told(Withheld) == [("Withheld", "files")]
    assert world.sources() == ["a.txt", "b.txt"]


@pytest.mark.parametrize("way", ["emptied", "gone"])
def test_a_single_pass_does_not_take_an_unmounted_folder_for_deleted(
    world: World, way: str
) -> None:
    for number in range(12):
        world.write(f"{number}.txt", f"text {number}")
    message = EmailMessage()
    message.set_content("see below")
    message.add_attachment("plums", filename="plums.txt")
    world.write("drive/mail.eml", message.as_string())
    world.write("drive/b.txt", "bananas")
    assert world.watch()
    before = world.sources()
    aside = world.files.with_name("aside")

    def unmount() -> None:
        (world.files / "drive").rename(aside)
        if way == "emptied":  # the mount point that is left
            (world.files / "drive").mkdir()

    unmount()
    assert not world.watch()
    assert [event for event in world.events if isinstance(event, Withheld | Removed)] == [
        Withheld(str(world.files), 3, 15)
    ]
    assert world.sources() == before
    if way == "emptied":
        (world.files / "drive").rmdir()
    aside.rename(world.files / "drive")
    assert world.watch()
    # What is deleted of a folder that holds more is gone, and what was in it.
    (world.files / "drive" / "mail.eml").unlink()
    (world.files / "0.txt").unlink()
    assert world.watch()
    assert world.told() == [
        ("Removed", "0.txt"),
        ("Removed", "mail.eml"),
        ("Removed", "plums.txt"),
    ]
    unmount()
    assert world.watch(prune=True)
    assert "b.txt" not in world.sources()


def test_what_is_away_twice_is_told_twice(world: World) -> None:
    for number in range(20):
        world.write(f"drive/{number}.txt", f"text {number}")
    world.write("a.txt", "apples")
    world.watch()
    drive, aside = world.files / "drive", world.files.with_name("aside")
    began = world.now - 1000
    world.at(began + 10, lambda: drive.rename(aside))
    world.at(began + 400, lambda: aside.rename(drive))
    world.at(began + 800, lambda: drive.rename(aside))
    assert not world.watch(until=1100)
    assert world.told(Withheld, Removed) == [("Withheld", "files")] * 2
    world.at(world.now - 1000 + 10, lambda: aside.rename(drive))
    assert world.watch(until=400)
    assert len(world.sources()) == 21


def test_a_file_that_cannot_be_read_is_said_once_and_tried_when_it_changes(world: World) -> None:
    world.write("a.txt", "")
    world.at(400, lambda: world.write("b.txt", "bananas"))
    world.at(800, lambda: world.write("a.txt", "apples"))
    world.watch(until=1200)
    assert world.told() == [("Failed", "a.txt"), ("Committed", "b.txt"), ("Committed", "a.txt")]


def test_what_was_read_in_vain_is_not_said_by_the_next_watch(world: World) -> None:
    for name in ("bomb.txt", "old.txt", "locked.txt"):
        world.write(name, "words")
    reads: list[str] = []
    make = world.indexer
    errors = {
        "bomb.txt": UnsupportedFileError("{source} is a bomb.", source="bomb.txt"),
        "old.txt": OldFormatError("{source} is old.", source="old.txt"),
    }

    def parse(path: Path, data: bytes, **_: object) -> Document:
        reads.append(path.name)
        raise errors[path.name]

    def read(path: Path, **_: object) -> bytes:
        if path.name == "locked.txt":
            raise PermissionError(13, "Permission denied")
        return path.read_bytes()

    def indexer() -> Indexer:
        new_indexer = make()
        new_indexer.parse, new_indexer.read = parse, read
        return new_indexer

    world.indexer = indexer  # type: ignore[method-assign]
    assert world.watch()
    assert sorted(world.told()) == [
        ("Failed", "bomb.txt"),
        ("Failed", "locked.txt"),
        ("Failed", "old.txt"),
    ]
    assert world.watch()
    assert world.told() == []
    assert reads == ["bomb.txt", "old.txt", "old.txt"]  # what is installed may read it now
    world.write("bomb.txt", "larger", age=500)
    world.watch()
    assert world.told() == [("Failed", "bomb.txt")]


def test_what_is_passed_over_is_remembered(world: World) -> None:
    def mail(text: str) -> None:
        message = EmailMessage()
        message.set_content(text)
        for name in ("one.bin", "two.bin"):
            message.add_attachment(b"\0\1", maintype="a", subtype="b", filename=name)
        world.write("m.eml", message.as_string())

    def unread() -> dict[str, object]:
        start = len(str(world.files)) + 1
        return {
            source.state.path[start:].replace(os.sep, "/"): source.error.values.get("count")
            for source in world.library.unread()
        }

    mail("see below")
    clip = world.write("sub/clip.mp4", "\0\1\2")
    world.write("empty.txt", "")
    world.write("a.txt", "apples")
    expected = {"m.eml/*.bin": 2, "sub/*.mp4": 1, "empty.txt": None}
    assert world.watch()
    assert unread() == expected
    for _ in range(2):  # by one that knows nothing, and where only the mail changed
        assert world.watch()
        assert unread() == expected
        mail("see below, please")
    clip.unlink()
    (world.files / "empty.txt").unlink()
    assert world.watch()
    assert unread() == {"m.eml/*.bin": 2}
    (world.files / "m.eml").unlink()
    assert world.watch()
    assert unread() == {}


@pytest.mark.skipif(os.name == "nt", reason="needs a folder that cannot be opened")
def test_a_folder_that_cannot_be_opened_is_a_problem_until_it_can(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed_folder = world.write("closed/a.txt", "apples").parent
    entries = files._entries

    def refuse(folder: str) -> object:
        if folder == str(closed_folder):
            raise PermissionError(13, "Permission denied")
        return entries(folder)

    with monkeypatch.context() as patch:
        patch.setattr(files, "_entries", refuse)
        world.watch()
        assert [source.state.path for source in world.library.unread()] == [str(closed_folder)]
    world.watch()
    assert world.library.unread() == []


def test_a_file_whose_time_is_in_the_future_is_read_once(world: World) -> None:
    reads: list[Path] = []
    world.write("a.txt", "apples", age=-10_000_000)
    make = world.indexer

    def indexer() -> Indexer:
        new_indexer = make()
        read_file = new_indexer.read
        new_indexer.read = lambda path, **how: (reads.append(path), read_file(path, **how))[1]
        return new_indexer

    world.indexer = indexer  # type: ignore[method-assign]
    world.watch(until=5 * watching.INTERVAL)
    assert world.told() == [("Committed", "a.txt")]
    assert len(reads) == 1


def test_models_are_let_go_after_a_while_and_made_when_needed(world: World) -> None:
    world.write("a.txt", "apples")
    world.at(2 * watching.IDLE, lambda: world.write("b.txt", "bananas"))
    world.watch(until=watching.IDLE / 2)
    assert (world.made, world.released) == (1, 1)
    world.watch(until=4 * watching.IDLE)
    assert world.made == 2
    assert world.released == 3  # after b.txt, and at the end


def test_where_nothing_is_told_it_looks_more_often(world: World) -> None:
    def deaf(_: object, __: object) -> Generator[set[str], None, None]:
        raise NoHintsError("OS file watch limit reached.", limit=True)
        yield set()

    world.hints = deaf  # type: ignore[assignment,method-assign]
    world.at(10, lambda: world.write("a.txt", "apples"))
    world.watch(until=3 * watching.POLLING)
    assert world.told() == [("Committed", "a.txt")]
    assert [event for event in world.events if isinstance(event, Polled)] == [
        Polled("", "limit", watching.POLLING, "OS file watch limit reached.")
    ]


def test_a_network_drive_is_polled(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "network_drive", lambda _: "nfs4")
    world.at(10, lambda: world.write("a.txt", "apples"))
    world.watch(until=2 * watching.POLLING)
    assert world.told(Polled, Committed) == [("Polled", "files"), ("Committed", "a.txt")]
    assert world.heard == []


def test_paths_that_cannot_be_watched(world: World) -> None:
    with pytest.raises(UsageError, match="no file or folder"):
        world.watch(world.files / "gone")
    with pytest.raises(UsageError, match="belongs to the library itself"):
        world.watch(world.library.directory)
    # The library within the folder is passed over.
    world.write("a.txt", "apples")
    (world.library.directory / "notes.txt").write_text("not a document", encoding="utf-8")
    assert world.watch(world.files.parent)
    assert world.told() == [("Committed", "a.txt")]


def test_others_can_write_meanwhile(world: World, tmp_path: Path) -> None:
    for number in range(3):
        world.write(f"{number}.txt", f"text {number} " * 400)
    other = Library.open(
        tmp_path / "library", create=False, embedding=None, indexes=indexes_of(Words())
    )
    free: list[bool] = []
    embed = world.embedder.embed_documents

    def embedding(*args: object) -> object:
        with other._lock.try_hold() as held_lock:
            free.append(held_lock)
        return embed(*args)  # type: ignore[arg-type]

    world.embedder.embed_documents = embedding  # type: ignore[assignment,method-assign]
    threads: list[threading.Thread] = []
    world.write("a/x.txt", "x")

    def in_a_thread() -> None:  # the lock belongs to a thread
        thread = threading.Thread(target=world.watch)
        thread.start()
        threads.append(thread)
        thread.join(60)

    in_a_thread()
    assert free
    assert all(free)
    assert len(world.sources()) == 4
    other.close()


def test_hints_of_the_system(tmp_path: Path) -> None:
    lower = tmp_path / "lower"
    lower.mkdir()
    stop = threading.Event()
    ticks = system_hints([tmp_path, lower], stop)
    next(ticks)
    (lower / "a.txt").write_text("apples")
    paths: set[str] = set()
    until = time.monotonic() + 60
    while str(lower / "a.txt") not in paths and time.monotonic() < until:
        paths |= next(ticks)
    assert str(lower / "a.txt") in {os.path.realpath(path) for path in paths} | paths
    stop.set()
    assert list(ticks) == []


@pytest.mark.skipif(sys.platform != "linux", reason="limits of inotify")
def test_the_limit_of_the_system_is_known_by_what_it_says(tmp_path: Path) -> None:
    for number in range(50):
        (tmp_path / str(number)).mkdir()
    code = (
        "import sys, threading\n"
        "from pathlib import Path\n"
        "from localrag.indexing.hints import NoHintsError, system_hints\n"
        "folders = [Path(sys.argv[1], str(n)) for n in range(50)]\n"
        "try: next(system_hints(folders, threading.Event()))\n"
        "except NoHintsError as error: print(error.limit)\n"
    )
    for limit in ("max_inotify_watches", "max_inotify_instances"):
        command = f"echo 0 > /proc/sys/user/{limit} && exec {sys.executable} -c '{code}' {tmp_path}"
        unshare = shutil.which("unshare")
        result = subprocess.run(
            [unshare or "false", "-Ur", "sh", "-c", command],
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode:
            pytest.skip("only where limits of one's own can be set")
        assert result.stdout == "True\n"
    assert hints.ONE_BY_ONE


WATCHING = """
import sys, time
from pathlib import Path
sys.path[:0] = sys.argv[2:]
from test_watching import World
world = World(Path(sys.argv[1]))
world.time, world.monotonic, world.sleep = time.time, time.monotonic, time.sleep
world.hints = __import__("localrag.indexing.hints").indexing.hints.system_hints
embed = world.embedder.embed_documents
world.embedder.embed_documents = lambda *given: (time.sleep(0.05), embed(*given))[1]
world.watch(until=1e9)
"""


def test_a_watch_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    draw = random.Random(7)
    files = tmp_path / "files"
    files.mkdir()
    test_file = Path(__file__).resolve()
    paths = [str(test_file.parent), str(test_file.parents[1]), str(test_file.parents[2])]
    texts = {f"{number:03}.txt": f"text {number} " * 40 for number in range(200)}
    old = time.time() - 1000
    for name, text in texts.items():
        (files / name).write_text(text, encoding="utf-8")
        os.utime(files / name, (old, old))
    for kill in range(4):
        process = subprocess.Popen(
            [sys.executable, "-c", WATCHING, str(tmp_path), *paths], stderr=subprocess.PIPE
        )
        time.sleep(draw.uniform(1.2, 3))
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        process.kill()
        process.communicate()
        for name in draw.sample(sorted(texts), 20):  # renamed while nobody looks
            (files / name).rename(files / f"{kill}{name}")
            texts[f"{kill}{name}"] = texts.pop(name)
    world = World(tmp_path)
    world.now += 10
    assert world.watch()
    assert world.sources() == sorted(texts)
    for record in world.library.sources():
        document = world.library.document(record.document_id)
        assert document is not None
        assert document.text.strip() == texts[Path(record.state.path).name].strip()
    world.library.close()
    assert check_library(tmp_path / "library", indexes_of(Words())).ok


def test_what_is_done_meanwhile_waits_while_a_file_is_written(world: World) -> None:
    world.write("a.txt", "apples")
    world.at(100, lambda: world.write("b.txt", "bananas", age=0))
    world.watch(until=200)
    assert world.sources() == ["a.txt", "b.txt"]
    between = {moment for moment in world.idled if 100 <= moment < 100 + watching.STILL}
    assert not between
    assert min(world.idled) < 100 < max(world.idled)
    world.idled.clear()
    world.watch()
    assert not world.idled, "a single pass does nothing else"
