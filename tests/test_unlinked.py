"""A path of which no part is a link, by each way that a system has for it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from localrag.system import unlinked

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such call")

Open = Callable[[str, int], int]


@pytest.fixture(params=["the system's own", "step by step", "no such call"])
def open_unlinked(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Open]:
    """The way of this system, the one of others, and what is done on an older kernel."""
    if request.param == "no such call":
        monkeypatch.setattr(unlinked, "_OPENAT2", 100_000)
    unlinked._has_openat2.cache_clear()
    stepwise = request.param == "step by step"
    yield unlinked._step_by_step if stepwise else unlinked.open_unlinked
    unlinked._has_openat2.cache_clear()


def test_a_path_without_links_opens(tmp_path: Path, open_unlinked: Open) -> None:
    folder = Path(os.path.realpath(tmp_path), "文件 夹", os.fsdecode(b"latin \xe9"))
    folder.mkdir(parents=True)
    (folder / "a.txt").write_bytes(b"words")
    with os.fdopen(open_unlinked(str(folder / "a.txt"), os.O_RDONLY), "rb") as file:
        assert file.read() == b"words"
        assert not os.get_inheritable(file.fileno())
    for place in (folder, Path(os.sep)):
        descriptor = open_unlinked(str(place), os.O_RDONLY | os.O_DIRECTORY)
        assert os.path.samestat(os.fstat(descriptor), place.stat())
        os.close(descriptor)
    with pytest.raises(FileNotFoundError):
        open_unlinked(str(folder / "b.txt"), os.O_RDONLY)


def test_nothing_is_written_this_way(tmp_path: Path) -> None:
    for flags in (os.O_WRONLY, os.O_RDWR, os.O_RDONLY | os.O_CREAT):
        with pytest.raises(ValueError, match="for reading"):
            unlinked.open_unlinked(str(tmp_path / "a.txt"), flags)


def open_descriptors() -> int:
    return sum(1 for _ in Path("/dev/fd").iterdir())


@pytest.mark.parametrize("absolute", [True, False])
def test_a_link_in_any_part_of_it_is_refused(
    tmp_path: Path, open_unlinked: Open, absolute: bool
) -> None:
    """Also one that stays in the folder: what was asked for is a path without any."""
    base = Path(os.path.realpath(tmp_path))
    (base / "real" / "deep").mkdir(parents=True)
    (base / "real" / "deep" / "a.txt").write_text("words")
    before = str(base) + os.sep if absolute else ""
    (base / "way").symlink_to(f"{before}real")
    (base / "real" / "link.txt").symlink_to(f"{before}deep/a.txt")
    open_files = open_descriptors()
    for path in ("way/deep/a.txt", "way/link.txt", "real/link.txt", "way"):
        with pytest.raises(OSError, match=r"Too many levels|Not a directory|symbolic link"):
            open_unlinked(str(base / path), os.O_RDONLY)
    assert open_descriptors() == open_files


def test_a_folder_that_may_only_be_passed_through(tmp_path: Path, open_unlinked: Open) -> None:
    folder = Path(os.path.realpath(tmp_path), "closed")
    folder.mkdir()
    (folder / "a.txt").write_text("words")
    folder.chmod(0o100)
    try:
        os.close(open_unlinked(str(folder / "a.txt"), os.O_RDONLY))
    finally:
        folder.chmod(0o700)
