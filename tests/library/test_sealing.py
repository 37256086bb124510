"""What is derived from a library counts only where this user's localrag has made it."""

from __future__ import annotations

import json
import mmap
import os
import shutil
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from library_fixtures import add, document, found, indexes, open_library, write_protected

from localrag.errors import UsageError
from localrag.library.check import check_library
from localrag.library.folder import sharing
from localrag.library.folder.gate import KV_FOLDER
from localrag.library.folder.sealing import DamagedIndexError, sealed, unsealed
from localrag.library.indexes.inverted import InvertedKeywords
from localrag.models.llms.llama_cpp.state_files import StateFiles
from localrag.system import seals
from localrag.system.seals import own_seal

HONEST = "the deposit is 500 euros"
FORGED = "the deposit is 900 euros"
QUESTION = "deposit euros"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platformdirs.user_cache_path", lambda *_, **__: tmp_path / "cache")


@pytest.fixture
def library(tmp_path: Path) -> Path:
    return filled(tmp_path / "library", HONEST)


def filled(directory: Path, text: str) -> Path:
    with open_library(directory) as library:
        add(library, document(text, source="contract.txt"))
        add(library, document("the harbour holds many ships", source="ships.txt"))
        library.sync()
    return directory


@contextmanager
def somebody_else(tmp_path: Path, name: str = "mallory") -> Iterator[None]:
    """Another account: another home, and so another key."""
    with pytest.MonkeyPatch.context() as account:
        account.setenv("LOCALRAG_KEYS", str(tmp_path / name / "keys"))
        account.setattr("platformdirs.user_cache_path", lambda *_, **__: tmp_path / name / "cache")
        yield


def search(directory: Path) -> tuple[Any, list[str]]:
    """What both legs find, and which indexes were not used."""
    noted: list[Path] = []
    with open_library(directory, create=False, note=noted.append) as library:
        return found(library, QUESTION), sorted(path.name for path in noted)


def codes(directory: Path) -> list[str]:
    inspection = check_library(directory, indexes())
    assert inspection.ok
    return [f"{finding.part}:{finding.code}" for finding in inspection.findings]


FOREIGN = ["vectors:foreign", "keywords:foreign"]
BOTH = ["keywords", "vectors"]


def unopened(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing be mapped from disk but what this process has made."""
    # A new file may get the number of one that is gone, but not its time, too.
    files = {
        (status.st_ino, status.st_mtime_ns)
        for status in (path.stat() for path in library.rglob("*.segment"))
    }
    mapped = mmap.mmap

    def only_new(descriptor: int, *arguments: Any, **more: Any) -> mmap.mmap:
        status = os.fstat(descriptor)
        assert (status.st_ino, status.st_mtime_ns) not in files
        return mapped(descriptor, *arguments, **more)

    monkeypatch.setattr("mmap.mmap", only_new)


def test_an_index_that_somebody_else_made_is_never_opened(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hits, noted = search(library)
    assert noted == []
    with somebody_else(tmp_path):
        forged = filled(tmp_path / "forged", FORGED)
    for name in ("vectors", "keywords"):
        shutil.rmtree(library / name)
        (forged / name).rename(library / name)
    assert codes(library) == FOREIGN
    with monkeypatch.context() as patch:
        unopened(library, patch)
        assert search(library) == (hits, BOTH)
    assert search(library) == (hits, []), "made anew once"
    assert codes(library) == []


def test_one_key_for_two_libraries_does_not_mix_them(library: Path, tmp_path: Path) -> None:
    hits, _ = search(library)
    other = filled(tmp_path / "other", FORGED)
    for name in ("vectors", "keywords"):
        shutil.rmtree(library / name)
        (other / name).rename(library / name)
    assert search(library)[0] == hits


def test_an_altered_index_is_damaged_and_not_opened(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hits, _ = search(library)
    for segment in library.glob("*/*.segment"):
        content = bytearray(segment.read_bytes())
        content[30] ^= 1
        segment.write_bytes(content)
    inspection = check_library(library, indexes())
    assert not inspection.ok
    assert [finding.code for finding in inspection.findings] == ["unreadable", "unreadable"]
    unopened(library, monkeypatch)
    assert search(library) == (hits, BOTH)


def test_an_index_nested_as_deep_as_json_is_read_is_damaged() -> None:
    """What can be read can be too deep to write, and so to be sealed again."""
    deep = 0
    for depth in range(50, 1100):
        content = f'{{"seal": "00", "a": {"[" * depth}{"]" * depth}}}'.encode()
        with suppress(RecursionError):
            json.loads(content)
            deep = depth
        with pytest.raises(DamagedIndexError):
            unsealed(content, own_seal())
    assert deep > 500


def test_a_restored_backup_goes_on_at_once(library: Path, tmp_path: Path) -> None:
    hits, _ = search(library)
    backup = shutil.copytree(library, tmp_path / "backup")
    shutil.rmtree(library)
    assert search(backup) == (hits, [])
    shutil.copytree(backup, library)
    assert search(library) == (hits, [])


def test_a_lost_key_loses_nothing(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hits, _ = search(library)
    monkeypatch.setenv("LOCALRAG_KEYS", os.environ["LOCALRAG_KEYS"] + "-new")
    assert codes(library) == FOREIGN
    assert search(library) == (hits, BOTH)
    assert search(library) == (hits, [])


def test_where_no_key_can_be_kept_all_works(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hits, _ = search(library)
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("LOCALRAG_KEYS", str(tmp_path / "file" / "keys"))
    assert search(library) == (hits, BOTH)


def test_indexes_of_0_1_are_made_anew_once(library: Path) -> None:
    hits, _ = search(library)
    shutil.rmtree(library / "vectors")
    with open_library(library) as opened_library, opened_library._catalogue.read() as snapshot:
        epoch, generation = snapshot.stamp()
    (library / "vectors.faiss").write_bytes(b"IxMp and what else FAISS wrote")
    shutil.rmtree(library / "keywords")
    folder = library / "keywords" / "bm25-0123abcd"
    folder.mkdir(parents=True)
    (folder / "meta.json").write_text("{}")
    pointer = {"folder": folder.name, "epoch": epoch, "generation": generation, "terms": "words"}
    (library / "keywords" / "index.json").write_text(json.dumps(pointer))
    assert codes(library) == FOREIGN
    assert search(library) == (hits, BOTH)
    assert search(library) == (hits, [])
    assert not (library / "vectors.faiss").exists()
    assert not folder.exists()


@pytest.mark.parametrize(("name", "form"), [("vectors", 4), ("keywords", 4)])
def test_an_index_of_another_form_is_made_anew_once(library: Path, name: str, form: int) -> None:
    hits, _ = search(library)
    path = library / name / "index.json"
    fields = unsealed(path.read_bytes(), own_seal())
    path.write_bytes(sealed(fields | {"format": f"localrag-{name}-{form}"}, own_seal()))
    assert codes(library) == [f"{name}:foreign"]
    assert search(library) == (hits, [name])
    assert search(library) == (hits, [])
    assert codes(library) == []


def test_a_read_only_library_of_somebody_else_is_quick_the_second_time(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hits, _ = search(library)
    with somebody_else(tmp_path), write_protected(library, monkeypatch):
        before = {path: path.lstat().st_mtime_ns for path in library.rglob("*")}
        assert search(library) == (hits, [])
        assert search(library) == (hits, [])
        assert {path: path.lstat().st_mtime_ns for path in library.rglob("*")} == before
        (folder,) = (tmp_path / "mallory" / "cache" / "derived").iterdir()
        assert {"vectors", "keywords"} <= {path.name for path in folder.iterdir()}
        if os.name != "nt":
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        with monkeypatch.context() as patch:
            patch.setattr("localrag.library.indexes.faiss.FaissVectors.apply", None)
            assert search(library)[0][0] == hits[0]
        with open_library(library, create=False) as opened_library:
            assert all(
                index.present and not index.behind for index in opened_library.status().derived
            )


def test_the_owners_indexes_are_left_alone_by_others(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hits, _ = search(library)
    with somebody_else(tmp_path), monkeypatch.context() as account:
        account.setattr("localrag.library.folder.places._is_ours", lambda _: False)
        assert search(library)[0] == hits
        with open_library(library) as opened_library:
            add(opened_library, document("one more deposit", source="more.txt"))
            opened_library.sync()
    assert search(library)[1] == [], "behind, and not foreign"
    with somebody_else(tmp_path), monkeypatch.context() as account:
        account.setattr("localrag.library.folder.places._is_ours", lambda _: False)
        with open_library(library) as opened_library:
            opened_library.remove(sources=["contract.txt"])
    assert not (library / "vectors").exists(), "what was removed is in no file"
    assert not (library / "keywords").exists()
    assert len(search(library)[0][0]) == 2


# States of the language model


def test_a_planted_state_is_never_read(tmp_path: Path) -> None:
    folder = tmp_path / KV_FOLDER
    with somebody_else(tmp_path):
        StateFiles(folder, 10_000, "weights").put(b"tokens", b"900 euros")
    assert StateFiles(folder, 10_000, "weights").get(b"tokens") is None
    assert list(folder.iterdir()) == []


def test_check_counts_states_that_are_not_ours(library: Path, tmp_path: Path) -> None:
    folder = library / KV_FOLDER
    StateFiles(folder, 10_000, "weights").put(b"mine", b"500 euros")
    assert codes(library) == []
    with somebody_else(tmp_path):
        StateFiles(folder, 10_000, "weights").put(b"theirs", b"900 euros")
    assert codes(library) == ["files:foreign"]


def test_states_delete_nothing_but_states(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "letter").write_text("mine" * 100)
    os.utime(home / "letter", (1, 1))
    StateFiles(home, 100, "weights").put(b"tokens", b"state")
    assert (home / "letter").exists()
    if os.name != "nt":
        (tmp_path / KV_FOLDER).symlink_to(home)
        StateFiles(tmp_path / KV_FOLDER, 100, "weights").put(b"other", b"state")
        assert len(list(home.iterdir())) == 2


@pytest.mark.timeout(60)
def test_files_that_claim_a_terabyte_are_not_read(library: Path) -> None:
    hits, _ = search(library)
    StateFiles(library / KV_FOLDER, 10_000, "weights").put(b"mine", b"500 euros")
    names = (
        "vectors/index.json",
        "vectors/*.segment",
        "keywords/index.json",
        "keywords/*.segment",
        "kv/*.kv",
    )
    for name in names:
        (path,) = library.glob(name)
        os.truncate(path, 1 << 40)
        check_library(library, indexes())
        assert StateFiles(library / KV_FOLDER, 10_000, "weights").get(b"none") is None
        assert search(library)[0] == hits
        if name != "kv/*.kv":
            assert StateFiles(library / KV_FOLDER, 10_000, "weights").get(b"mine") is not None
    assert StateFiles(library / KV_FOLDER, 10_000, "weights").get(b"mine") is None


# A group's library

posix = pytest.mark.skipif(os.name == "nt", reason="only on POSIX")


def group() -> str:
    import grp

    return grp.getgrgid(os.getgid()).gr_name


@posix
def test_a_group_shares_indexes_once_each_has_accepted(library: Path, tmp_path: Path) -> None:
    sharing.share(library, group())
    hits, noted = search(library)
    assert noted == []
    with somebody_else(tmp_path, "bob"):
        assert codes(library) == FOREIGN
        sharing.accept(library)
        assert codes(library) == []
        assert search(library) == (hits, [])
        with open_library(library) as opened_library:
            assert opened_library.status().shared
            add(opened_library, document("one more deposit", source="more.txt"))
            opened_library.sync()
    assert search(library)[1] == []
    assert codes(library) == []
    for path in (library, *library.rglob("*")):
        wanted_mode = 0o2770 if path.is_dir() else 0o660
        if not path.name.endswith(".lock"):
            assert stat.S_IMODE(path.stat().st_mode) == wanted_mode, path


@posix
def test_a_key_that_comes_with_a_library_is_not_taken(library: Path, tmp_path: Path) -> None:
    hits, _ = search(library)
    with somebody_else(tmp_path):
        forged = filled(tmp_path / "forged", FORGED)
        sharing.share(forged, group())
        search(forged)
    for name in ("vectors", "keywords"):
        shutil.rmtree(library / name)
        (forged / name).rename(library / name)
    (forged / "seal.key").rename(library / "seal.key")
    assert search(library) == (hits, BOTH)
    with open_library(library) as opened_library:
        assert not opened_library.status().shared


@posix
def test_a_shared_library_is_closed_again(library: Path) -> None:
    sharing.share(library, group())
    hits, _ = search(library)
    sharing.unshare(library)
    assert not (library / "seal.key").exists()
    assert search(library) == (hits, [])
    for path in (library, *library.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


@posix
def test_what_cannot_be_shared(library: Path) -> None:
    with pytest.raises(UsageError, match="no group"):
        sharing.share(library, "no-such-group-here")
    with pytest.raises(UsageError, match="no group key"):
        sharing.accept(library)


# The key itself


def test_the_key_is_made_once_and_is_its_owners_alone(tmp_path: Path) -> None:
    with somebody_else(tmp_path):
        first = seals.own_seal()
        seals._own.cache_clear()
        assert seals.own_seal().name == first.name
        path = seals.keys_folder() / "seal.key"
        assert len(path.read_bytes()) == 32
        if os.name != "nt":
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
            path.chmod(0o644)
            seals._own.cache_clear()
            seals.own_seal()
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
        path.write_bytes(b"short")
        seals._own.cache_clear()
        assert seals.own_seal().name != first.name
        assert len(path.read_bytes()) == 32


def test_a_seal_is_over_parts_and_not_over_their_sum() -> None:
    seal = seals.Seal(b"k" * 32)
    assert seal.fits(seal.of(b"ab", b"c"), b"ab", b"c")
    assert not seal.fits(seal.of(b"ab", b"c"), b"a", b"bc")
    assert not seals.Seal(b"l" * 32).fits(seal.of(b"ab"), b"ab")


def test_both_indexes_are_kept_where_both_are_made_at_once(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(library / "vectors")
    (library / "keywords" / "index.json").unlink()
    filling, go_on = threading.Event(), threading.Event()
    pack = InvertedKeywords._packed

    def slowly(*arguments: Any, **more: Any) -> Any:
        filling.set()
        go_on.wait(60)
        return pack(*arguments, **more)

    monkeypatch.setattr(InvertedKeywords, "_packed", slowly)
    with open_library(library, create=False) as opened_library:
        first = threading.Thread(target=opened_library.keywords.current)
        second = threading.Thread(target=opened_library.vectors.current)
        first.start()
        assert filling.wait(60)
        second.start()
        second.join(0.2)
        go_on.set()
        first.join()
        second.join()
    assert (library / "vectors" / "index.json").exists()
    assert codes(library) == []


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only for root")
def test_root_leaves_nothing_of_its_own_in_somebodys_library(library: Path) -> None:
    nobody = 65534
    (library / "write.lock").unlink()
    for path in (library, *library.rglob("*")):
        os.chown(path, nobody, nobody)
    before = sorted(path for path in library.rglob("*") if "-" not in path.name)
    with open_library(library) as opened_library:
        assert opened_library.is_of_others
        assert found(opened_library, QUESTION)[1]
        add(opened_library, document("a ferry leaves at nine", source="ferry.txt"))
        opened_library.remove(sources=["ships.txt"])
        assert found(opened_library, "ferry")[1]
    assert {path.lstat().st_uid for path in library.rglob("*")} == {nobody}
    foreign_files = {library / "write.lock", library / "catalogue.sqlite-swept"}
    assert set(library.rglob("*")) <= {*before, *foreign_files}


@pytest.mark.skipif(os.name == "nt", reason="only on POSIX")
def test_an_index_that_cannot_be_listed_shuts_nobody_out(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = library / "keywords" / "bm25-00000000"
    other.mkdir()
    true = Path.iterdir

    def iterdir(path: Path) -> Iterator[Path]:
        if path == other:
            raise PermissionError(13, "Permission denied", str(path))
        return true(path)

    monkeypatch.setattr(Path, "iterdir", iterdir)
    assert search(library)[1] == []


def test_a_state_longer_than_any_disk_is_not_read_to_its_end(library: Path) -> None:
    folder = library / KV_FOLDER
    folder.mkdir()
    for digit in "0123":
        state = folder / f"{digit * 40}.kv"
        state.write_bytes(b"")
        os.truncate(state, 3 << 30)
    start = time.monotonic()
    assert codes(library) == ["files:foreign"]
    assert time.monotonic() - start < 10
