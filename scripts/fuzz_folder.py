"""Library folders made to harm: what is done to them, what is asked of them, what must hold.

Each case is a small sound library, changed by somebody who may write anything into its folder,
and one command, as somebody runs it who was handed that folder. Beside it lies a folder of that
person's own, the canary. Wrong is: a canary that was touched, anything new outside the library,
an exception that is no clear error, removed text that `check` does not know of, and an answer
other than the sound library's that `check` calls in order.
"""

from __future__ import annotations

import hashlib
import io
import os
import random
import shutil
import socket
import sqlite3
import stat
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from durability import EMBEDDING, SlowEmbedder, make_indexer
from fuzz_catalogue import (
    KEEPING,
    STATEMENTS,
    VALUES,
    connected,
    make_deleting,
    make_endless,
)

from localrag import __version__
from localrag.errors import LocalragError
from localrag.factory import indexes_of
from localrag.indexing.reading import from_library
from localrag.library.check import check_library
from localrag.library.library import Library
from localrag.library.transfer import export_library, import_library
from localrag.models.llms.llama_cpp.state_files import StateFiles
from localrag.presentation.reading import (
    advice_text,
    reading_json,
    reason_text,
    with_starts,
)
from localrag.system.seals import own_seal
from localrag.text.tokenize import Tokenizer

PROSE = "The harbour of Greyholm is old. 港口很古老，灯塔建于一八七四年。"
QUESTIONS = ("harbour", "灯塔", "term1x", "term2x")
STATE = b"what a model made of a passage" * 40
STATE_KEY, IDENTITY, STATE_LIMIT = b"tokens", "a model", 1 << 20
Answers = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Scene:
    """One case: the library, the canary, and what draws lots."""

    base: Path
    draw: random.Random
    own: Path
    """The library as it was, sound."""
    other: Path
    """Another one of the same user."""

    @property
    def library(self) -> Path:
        """The folder that was handed over."""
        return self.base / "stick" / "library"

    @property
    def catalogue(self) -> Path:
        """Its truth."""
        return self.library / "catalogue.sqlite"

    @property
    def canary(self) -> Path:
        """What nobody may touch."""
        return self.base / "home"

    def victim(self) -> Path:
        """A file or folder of the canary."""
        return self.draw.choice(sorted(self.canary.rglob("*")))

    def victim_file(self) -> Path:
        """A plain file of the canary."""
        files = (path for path in self.canary.rglob("*") if path.is_file())
        return self.draw.choice(sorted(files))

    def entry(self) -> Path:
        """A file or folder of the library, or one that there might be."""
        names = [path.relative_to(self.library) for path in self.library.rglob("*")]
        names += [Path(f"catalogue.sqlite-{kind}") for kind in ("wal", "shm", "journal")]
        names += [Path("write.lock.json"), Path("keywords/index.json"), Path("vectors.faiss")]
        names += [Path("vectors/index.json"), Path(f"vectors/{'0' * 16}.segment")]
        return self.library / self.draw.choice(sorted(set(names)))


# The libraries that everything begins with


def sound_libraries() -> list[bytes]:
    """Two small libraries of one user, each with the user's keys, as archives."""
    with tempfile.TemporaryDirectory() as name:
        made = []
        Path(name, "keys").mkdir()
        for label in "ab":
            base = Path(name, label)
            with _as_user(base, Path(name, "keys")):
                _make_library(base, label)
            shutil.copytree(Path(name, "keys"), base / "keys")
            made.append(_packed(base))
        return made


def _make_library(base: Path, label: str) -> None:
    documents, library = base / "documents", base / "library"
    documents.mkdir(parents=True)
    for number in range(4):
        text = f"term{number}x {label} {PROSE * 4}"
        (documents / f"{number}.txt").write_text(text, encoding="utf-8")
    with opened(library, create=True) as one:
        (documents / "empty.txt").touch()  # cannot be read, and is remembered
        make_indexer(one, 0).add([documents])
        one.remove(sources=[str(documents / "3.txt")])
        one.sync()
    _states(library).put(STATE_KEY, STATE)
    (base / "source").write_text(str(documents / "0.txt"), encoding="utf-8")


def _packed(base: Path) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as packed:
        for path in sorted(base.rglob("*")):
            packed.write(path, path.relative_to(base).as_posix())
    return target.getvalue()


@cache
def _unpacked(data: bytes, folder: Path) -> Path:
    base = folder / hashlib.sha256(data).hexdigest()[:8]
    if not base.exists():
        with zipfile.ZipFile(io.BytesIO(data)) as packed:
            packed.extractall(base)
    return base


def _states(library: Path) -> StateFiles:
    return StateFiles(library / "kv", STATE_LIMIT, IDENTITY, own_seal())


@cache
def _tokenizer() -> Tokenizer:
    return Tokenizer()


def opened(directory: Path, *, create: bool = False) -> Library:
    """Open a library as the commands do."""
    return Library.open(
        directory,
        create=create,
        embedding=EMBEDDING if create else None,
        indexes=indexes_of(_tokenizer()),
    )


def answers(library: Library) -> Answers:
    """What a few questions find: texts, sources, and scores of both legs."""
    found: list[object] = []
    for question in QUESTIONS:
        dense = library.vectors.search(SlowEmbedder(0).embed_queries([question])[0], 3)
        keyword = library.keywords.search(_tokenizer()(question), 3)
        chunks = library.chunks([hit.chunk_id for hit in (*dense, *keyword)])
        sources = library.sources_of({chunk.document_id for chunk in chunks.values()})
        for hit in (*dense, *keyword):
            chunk = chunks.get(hit.chunk_id)
            where = sources.get(chunk.document_id) if chunk else None
            found.append((hit.chunk_id, round(hit.score, 3), chunk, where))
    return tuple(found)


@cache
def _sound_answers(base: Path) -> Answers:
    with opened(base / "library") as library:
        return answers(library)


@contextmanager
def _as_user(home: Path, keys: Path) -> Iterator[None]:
    """Let localrag's own folders lie below `home`."""
    places = {"HOME": home, "LOCALRAG_KEYS": keys}
    for kind in ("CACHE", "DATA", "CONFIG", "STATE"):
        places[f"XDG_{kind}_HOME"] = home / kind.lower()
    before = {name: os.environ.get(name) for name in places}
    os.environ.update({name: str(place) for name, place in places.items()})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


# The canary


def make_canary(folder: Path) -> None:
    """Files and folders of a person, some of which have names that localrag deletes."""
    names = (
        *("letter.txt", "index.json", "secret/key.pem", "old/thesis/a.txt", "old/x.kv"),
        *("bm25-00000000/meta.json", "reader-11111111/a.store", "a.kv", f"{'0' * 40}.kv"),
        *(
            "vectors.faiss.1.part",
            f"{'0' * 16}.segment",
            "write.lock.json",
            "seal.key",
            "catalogue.sqlite",
        ),
    )
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"precious {name}\n", encoding="utf-8")
    (folder / "empty").mkdir()
    (folder / "secret" / "key.pem").chmod(0o600)
    (folder / "secret").chmod(0o700)
    past = time.time() - 3 * 24 * 3600
    for path in (*folder.rglob("*"), folder):
        os.utime(path, (past, past))


def portrait(folder: Path) -> dict[str, tuple[object, ...]]:
    """All that can be told of each entry, without following links."""
    found: dict[str, tuple[object, ...]] = {}
    for path in (folder, *sorted(folder.rglob("*"))):
        status = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
        kept = (status.st_mode, status.st_uid, status.st_gid, status.st_mtime_ns)
        found[str(path.relative_to(folder))] = (*kept, content)
    return found


def expect_untouched(before: dict[str, tuple[object, ...]], folder: Path) -> None:
    """Raise where anything in the folder is other than it was."""
    after = portrait(folder)
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            change = "gone" if name not in after else "new" if name not in before else "altered"
            raise AssertionError(f"canary: {name} is {change}")


def expect_nothing_new(before: set[Path], base: Path) -> None:
    """Raise where there is more beside the library than before, or in the current folder."""
    if new := {*base.iterdir(), *(base / "here").iterdir()} - before:
        raise AssertionError(f"new outside: {sorted(path.name for path in new)}")


# What is done to the folder


def _cleared(path: Path) -> Path:
    """The place of an entry, free for another."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _is_plain(path: Path) -> bool:
    """Whether it is a file of the library alone, or nothing yet."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_nlink == 1


def _fits(path: Path) -> bool:
    """Not what was made huge before: it does not fit into the memory of this process."""
    return _is_plain(path) and path.stat().st_size < 1 << 24


def link_entry(scene: Scene) -> None:
    """A link to the canary, to nothing in it, to a device, or to itself."""
    target: Path | str = scene.victim()
    match scene.draw.randrange(6):
        case 0:
            target = scene.canary / "not there yet"
        case 1:
            target = scene.draw.choice(("/dev/zero", "/dev/null", "/dev/random"))
        case 2:
            target = scene.canary
    path = scene.entry()
    if scene.draw.random() < 0.1:
        target = path.name
    elif scene.draw.random() < 0.5:
        target = os.path.relpath(target, path.parent)
    _cleared(path).symlink_to(target)


def link_part(scene: Scene) -> None:
    """A link where a process writes before it renames."""
    names = [f"vectors.faiss.{os.getpid()}.part", f"write.lock.json.{os.getpid()}.part"]
    names += [f"catalogue.sqlite.import.{os.getpid()}.part", "keywords/reader-00000000"]
    names += [f"vectors/index.json.{os.getpid()}.part", f"vectors/{'0' * 16}.segment"]
    names += [f"keywords/index.json.{os.getpid()}.part", "keywords/bm25-ffffffff"]
    names += [f"keywords/{'0' * 16}.segment"]
    names += ["kv/a.kv", f"kv/{'0' * 40}.kv", "x.part", "keywords/old"]
    path = scene.library / scene.draw.choice(names)
    if not path.parent.is_symlink():
        _cleared(path).symlink_to(scene.victim())


def hard_link(scene: Scene) -> None:
    """Another name for a file of the canary."""
    _cleared(scene.entry()).hardlink_to(scene.victim_file())


def pipe(scene: Scene) -> None:
    """A FIFO."""
    os.mkfifo(_cleared(scene.entry()))


def listening(scene: Scene) -> None:
    """A socket, where its name is short enough."""
    path = _cleared(scene.entry())
    with suppress(OSError), closing(socket.socket(socket.AF_UNIX)) as made:
        made.bind(os.path.relpath(path))


def device(scene: Scene) -> None:
    """A device, which only root can make."""
    path = _cleared(scene.entry())
    with suppress(OSError):
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, scene.draw.choice((3, 5, 7, 8))))


def other_kind(scene: Scene) -> None:
    """A folder where a file was, or a file where a folder was."""
    path = scene.entry()
    folder = path.is_dir()
    _cleared(path)
    if folder:
        path.write_bytes(b"x")
    else:
        (path / "inner").mkdir(parents=True)


def rights(scene: Scene) -> None:
    """Other modes and owners."""
    path = scene.draw.choice([scene.library, scene.entry()])
    if path.exists() and not path.is_symlink():
        path.chmod(scene.draw.choice((0, 0o444, 0o555, 0o777, 0o4755, 0o2770, 0o1777)))
        if os.geteuid() == 0 and scene.draw.random() < 0.5:
            os.chown(path, 65534, 65534)


def damage(scene: Scene) -> None:
    """Cut short, emptied, made huge, or with other bytes."""
    path = scene.draw.choice(sorted(filter(_fits, scene.library.rglob("*"))))
    data = bytearray(path.read_bytes())
    match scene.draw.randrange(5):
        case 0:
            path.write_bytes(data[: scene.draw.randrange(len(data) + 1)])
        case 1:
            path.write_bytes(b"")
        case 2:
            os.truncate(path, scene.draw.choice((1 << 32, 1 << 40)))
        case 3:
            path.write_bytes(data + scene.draw.randbytes(100))
        case _:
            for _ in range(scene.draw.choice((1, 1, 10))):
                if data:
                    data[scene.draw.randrange(len(data))] ^= 1 << scene.draw.randrange(8)
            path.write_bytes(data)


def odd_names(scene: Scene) -> None:
    """Entries that nobody expects."""
    names = (
        *("a\nb", "\x1b[2J.part", "\x1b]0;x\x07", "x" * 250, "-rf", "名\u202e", ".hidden"),
        *("Catalogue.SQLite", "KEYWORDS", "Vectors.faiss", "KV", os.fsdecode(b"\xff\xfe")),
    )
    folder = scene.draw.choice([scene.library, scene.library / "keywords", scene.library / "kv"])
    if folder.is_symlink() or not folder.is_dir():
        return
    path = folder / scene.draw.choice(names)
    with suppress(OSError):
        if scene.draw.random() < 0.5:
            path.write_bytes(b"x")
        elif scene.draw.random() < 0.5:
            path.mkdir()
        else:
            path.symlink_to(scene.victim())


def swap(scene: Scene) -> None:
    """Something of another library of the same user."""
    name = scene.draw.choice(("vectors", "keywords", "kv", "catalogue.sqlite"))
    source, path = scene.other / "library" / name, _cleared(scene.library / name)
    if source.is_dir():
        shutil.copytree(source, path)
    else:
        shutil.copy(source, path)


def foreign_segments(scene: Scene) -> None:
    """Other bytes in the place of a segment, as many or not, with the times of the old ones."""
    for path in sorted(scene.library.glob("*/*.segment")):
        if not _fits(path):
            continue
        found = path.stat()
        size = scene.draw.choice((found.st_size, 0, 1, found.st_size + 1, 1 << 20))
        _cleared(path).write_bytes(scene.draw.randbytes(size))
        os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))


def list_that_leads_away(scene: Scene) -> None:
    """A list of segments that names files of somebody else."""
    for pointer in sorted(scene.library.glob("*/index.json")):
        if _is_plain(pointer) and not pointer.parent.is_symlink():
            there = os.path.relpath(scene.draw.choice((scene.canary, scene.base)), pointer.parent)
            name = b'"name":"'
            data = pointer.read_bytes().replace(name, name + there.encode() + b"/")
            pointer.write_bytes(data)


def planted_state(scene: Scene) -> None:
    """A state of the language model that says something else."""
    folder = scene.library / "kv"
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        return
    folder.mkdir(exist_ok=True)
    key = hashlib.blake2b(IDENTITY.encode() + b"\0" + STATE_KEY, digest_size=20).hexdigest()
    lie = b"another passage altogether" * 40
    digest = hashlib.blake2b(IDENTITY.encode() + b"\0" + STATE_KEY, digest_size=32)
    digest.update(lie)
    _cleared(folder / f"{key}.kv").write_bytes(digest.digest() + lie)
    if scene.draw.random() < 0.2:
        (folder / "huge.kv").touch()
        os.truncate(folder / "huge.kv", 1 << 40)


def lock_of_another(scene: Scene) -> None:
    """A lock that says that somebody else writes."""
    said = scene.draw.choice(
        (
            b'{"pid": 1, "host": "\\u001b[2J", "command": "x", "since": "now"}',
            b'{"pid": "x", "host": [], "command": {}, "since": null}',
            b"[" * 100_000,
            b"\xff" * 100,
            b'{"pid": 1}',
        )
    )
    _cleared(scene.library / "write.lock.json").write_bytes(said)
    _cleared(scene.library / "write.lock").write_bytes(said)


# What is done to the catalogue


def alter(scene: Scene) -> None:
    """Statements that localrag never runs."""
    with _database(scene) as connection:
        if connection is not None:
            connection.executescript(scene.draw.choice(STATEMENTS))


def keep_removed(scene: Scene) -> None:
    """Triggers by which a removal removes nothing, or not all."""
    with _database(scene) as connection:
        if connection is not None:
            connection.executescript(scene.draw.choice(KEEPING))


def alter_values(scene: Scene) -> None:
    """Values that no document has."""
    with _database(scene) as connection:
        if connection is None:
            return
        query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name != 'sqlite_sequence'"
        tables = [row[0] for row in connection.execute(query)]
        table = scene.draw.choice(sorted(tables))
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        column, value = scene.draw.choice(columns), scene.draw.choice(VALUES)
        one = f' WHERE "{column}" = (SELECT min("{column}") FROM {table})'
        where = scene.draw.choice(("", one))
        connection.execute(f'UPDATE OR IGNORE {table} SET "{column}" = {value}{where}')


@contextmanager
def _database(scene: Scene) -> Iterator[sqlite3.Connection | None]:
    """A connection for doing harm; None where another harm has left no catalogue."""
    names = [f"catalogue.sqlite{kind}" for kind in ("-wal", "-shm", "-journal")]
    beside = [scene.library / name for name in names]
    if not _is_plain(scene.catalogue) or any(
        os.path.lexists(path) and not _is_plain(path) for path in beside
    ):
        yield None
        return
    with (
        suppress(sqlite3.Error),
        closing(connected(scene.catalogue)) as connection,
    ):
        yield connection


def endless(scene: Scene) -> None:
    """A table that gives its rows for ever, without a loop that SQLite notices."""
    table = scene.draw.choice(
        ("documents", "chunks", "blocks", "embeddings", "removals", "checksums", "staged_chunks")
    )
    with _database(scene) as connection:
        usable = connection is not None
    if usable and _fits(scene.catalogue):
        with suppress(sqlite3.Error, TypeError):
            make_endless(scene.catalogue, table)


def journal(scene: Scene) -> None:
    """A journal that is garbage, or that names a file of the canary for SQLite to delete."""
    path = _cleared(scene.library / "catalogue.sqlite-journal")
    if scene.draw.random() < 0.3 or not _is_plain(scene.catalogue):
        path.write_bytes(scene.draw.randbytes(4096))
        return
    make_deleting(scene.catalogue, scene.victim_file())


def log(scene: Scene) -> None:
    """A write-ahead log that is garbage, or that brings what the file alone does not show."""
    path = scene.catalogue
    wal = _cleared(path.with_name(f"{path.name}-wal"))
    if scene.draw.random() < 0.3 or not _is_plain(path):
        wal.write_bytes(scene.draw.randbytes(5000))
        return
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder, "a")
        shutil.copy(path, scratch)
        with (
            suppress(sqlite3.Error),
            closing(connected(scratch)) as connection,
        ):
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA wal_autocheckpoint = 0")
            shutil.copy(scratch, path)
            with suppress(sqlite3.Error):
                connection.executescript(scene.draw.choice(STATEMENTS))
            shutil.copy(f"{scratch}-wal", wal)


def header(scene: Scene) -> None:
    """Other words in the first hundred bytes."""
    if not _is_plain(scene.catalogue):
        return
    data = bytearray(scene.catalogue.read_bytes())
    place = scene.draw.choice((16, 18, 19, 20, 28, 32, 36, 40, 44, 48, 52, 56, 60, 64, 68, 92))
    if len(data) > 100:
        data[place : place + 4] = scene.draw.choice(
            (b"\0\0\0\2", b"\0\0\0\1", b"\xff" * 4, b"\0" * 4, b"\x7f\xff\xff\xff", b"\2\2\2\2")
        )
    scene.catalogue.write_bytes(data)


_POSIX = ((pipe, 3), (listening, 1), (device, 2), (rights, 2)) if os.name == "posix" else ()
MUTATIONS: tuple[tuple[Callable[[Scene], None], int], ...] = (
    *((link_entry, 5), (link_part, 5), (hard_link, 2), *_POSIX),
    *((other_kind, 2), (damage, 3), (odd_names, 2), (swap, 3), (planted_state, 3)),
    *((foreign_segments, 4), (list_that_leads_away, 2), (lock_of_another, 1)),
    *((alter, 12), (keep_removed, 4), (alter_values, 6), (endless, 3)),
    *((journal, 2), (log, 4), (header, 2)),
)
"""What may be done to a folder, and how often."""


# What is asked of it


def _status(scene: Scene) -> None:
    with opened(scene.library) as library:
        library.status()
        library.documents()
        for problem in library.problems():
            reason_text(problem)
            advice_text(problem)


def _show(scene: Scene) -> None:
    with opened(scene.library) as library:
        for record in library.sources():
            reading = from_library(library, record.state.path)
            if reading is not None:
                reading_json(reading, with_starts(reading.document), reading.chunks or ())


def _check(scene: Scene) -> None:
    _in_order(scene.library)


def _in_order(library: Path) -> bool:
    return check_library(library, indexes_of(_tokenizer())).ok


def _expect_sound_answers(scene: Scene, found: Answers) -> None:
    sound = [_sound_answers(base) for base in (scene.own, scene.other)]
    if found not in sound and _in_order(scene.library):
        raise AssertionError("other answers than the sound library's, and check finds nothing")


def _search(scene: Scene) -> None:
    with opened(scene.library) as library:
        found = answers(library)
        for record in library.documents():
            library.document(record.id)
            library.document_chunks(record.id)
    _expect_sound_answers(scene, found)


def _ask(scene: Scene) -> None:
    _search(scene)
    states = _states(scene.library)
    state = states.get(STATE_KEY)
    if state is not None and bytes(state) != STATE:
        raise AssertionError("the model reads from a state what nobody has computed")
    states.put(STATE_KEY, STATE)
    states.put(b"others", STATE)


def _add(scene: Scene) -> None:
    more = scene.base / "more"
    more.mkdir()
    (more / "new.txt").write_text(f"termnx {PROSE}", encoding="utf-8")
    try:
        with opened(scene.library, create=True) as library:
            make_indexer(library, 0).add([scene.own / "documents", more])
    finally:
        shutil.rmtree(more)


def _remove(scene: Scene) -> None:
    source = (scene.own / "source").read_text(encoding="utf-8")
    with opened(scene.library) as library:
        purged = library.remove(sources=[source]).purged
    if not purged or not _in_order(scene.library):
        return
    for path in scene.library.rglob("*"):
        status = path.lstat()
        small = stat.S_ISREG(status.st_mode) and status.st_size < 1 << 25
        if small and b"term0x" in path.read_bytes():
            raise AssertionError(f"removed text is still in {path.name}")


def _rebuild(scene: Scene) -> None:
    with opened(scene.library) as library:
        make_indexer(library, 0).rebuild()
        answers(library)


def _export(scene: Scene) -> None:
    archive = scene.base / "export"
    try:
        export_library(scene.library, archive, __version__)
    finally:
        archive.unlink(missing_ok=True)


def _import(scene: Scene) -> None:
    archive = scene.base / "export"
    export_library(scene.own / "library", archive, __version__)
    try:
        import_library(archive, scene.library, indexes=indexes_of(_tokenizer()))
    finally:
        archive.unlink()


COMMANDS: dict[str, Callable[[Scene], None]] = {
    "status": _status,
    "show": _show,
    "check": _check,
    "search": _search,
    "ask": _ask,
    "add": _add,
    "remove": _remove,
    "rebuild": _rebuild,
    "export": _export,
    "import": _import,
}
"""By name; each is what the command of that name does, without a model and a terminal."""


def read_folder(folder: Path, draw: random.Random, seeds: list[bytes]) -> None:
    """Make one case of a folder, run one command, and look at what has come of it."""
    own, other = (_unpacked(data, folder) for data in seeds)
    scene = Scene(folder / "case" / f"{draw.getrandbits(32):08x}", draw, own, other)
    _remove_case(scene.base.parent)
    for place in ("stick", "home", "user", "here", "temporary"):
        (scene.base / place).mkdir(parents=True)
    make_canary(scene.canary)
    shutil.copytree(own / "library", scene.library)
    # Half of the folders are the user's own, who lent them out; half were made by others.
    keys = own / "keys" if draw.random() < 0.5 else folder / "other-keys"
    command = draw.choice(sorted(COMMANDS))
    with _as_user(scene.base / "user", keys), _in_folder(scene.base / "here"):
        done = _mutated(scene)
        before, outside = portrait(scene.canary), {*scene.base.iterdir()}
        refused: LocalragError | None = None
        try:
            try:
                COMMANDS[command](scene)
            except LocalragError as error:
                refused = error
            expect_untouched(before, scene.canary)
            expect_nothing_new(outside, scene.base)
        except MemoryError:
            raise
        except Exception as error:
            raise AssertionError(
                f"{command} after {done}: {type(error).__name__}: {error}"
            ) from error
    if refused is not None:
        raise refused


def _mutated(scene: Scene) -> str:
    kinds, weights = zip(*MUTATIONS, strict=True)
    chosen = scene.draw.choices(kinds, weights, k=scene.draw.choice((1, 1, 1, 2, 3)))
    for kind in chosen:
        with suppress(OSError, IndexError):  # what an earlier harm has left cannot take this one
            kind(scene)
    return " + ".join(kind.__name__ for kind in chosen)


def _remove_case(base: Path) -> None:
    if base.exists():
        for folder, names, _ in os.walk(base):
            for path in (Path(folder, name) for name in names):
                if not path.is_symlink():
                    path.chmod(0o700)
        shutil.rmtree(base)


@contextmanager
def _in_folder(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
