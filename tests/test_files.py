"""Files are made for their owner alone, and nothing goes over a link."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from localrag.system import files

posix = pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")


@pytest.fixture(autouse=True)
def _usual_umask() -> object:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@posix
def test_what_is_made_is_for_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    files.make_folder(folder)
    files.replace_file(folder / "replaced", lambda file: file.write(b"x"))
    files.write_output(folder / "written", "文")
    assert mode(tmp_path / "a") == mode(folder) == 0o700
    assert mode(folder / "replaced") == mode(folder / "written") == 0o600
    assert (folder / "written").read_text(encoding="utf-8") == "文"
    assert sorted(path.name for path in folder.iterdir()) == ["replaced", "written"]


@posix
def test_a_folder_opened_to_its_group_hands_that_on(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o2770)
    files.make_folder(shared / "sub")
    files.replace_file(shared / "sub" / "file", lambda file: None)
    assert mode(shared / "sub") == 0o2770
    assert mode(shared / "sub" / "file") == 0o660


@posix
@pytest.mark.timeout(20)
def test_only_plain_files_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    for name in ("pipe", "link"):
        assert not files.is_plain_file(tmp_path / name)
        with pytest.raises(files.NotPlainError):
            files.open_plain(tmp_path / name)
    with pytest.raises(files.NotPlainError):
        files.open_plain(Path("/dev/zero"))
    with pytest.raises(FileNotFoundError):
        files.open_plain(tmp_path / "none")
    with files.open_plain(tmp_path / "file") as file:
        assert file.read() == b"x"


@posix
def test_a_link_is_replaced_and_its_target_stays(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"mine")
    (tmp_path / "link").symlink_to(target)
    files.replace_file(tmp_path / "link", lambda file: file.write(b"new"))
    assert target.read_bytes() == b"mine"
    assert (tmp_path / "link").read_bytes() == b"new"
    with pytest.raises(FileExistsError):
        files.create_file(tmp_path / "link")


@posix
def test_a_file_of_ones_own_is_opened_over_no_link(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"mine")
    (tmp_path / "link").symlink_to(target)
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe"):
        for opener in (files.append_file, files.overwrite_file):
            with pytest.raises(files.NotPlainError):
                opener(tmp_path / name)
    assert target.read_bytes() == b"mine"
    for content in (b"long", b"x"):
        with files.overwrite_file(tmp_path / "own") as file:
            file.write(content)
    with files.append_file(tmp_path / "own") as file:
        file.write(b"y")
    assert (tmp_path / "own").read_bytes() == b"xy"
    assert mode(tmp_path / "own") == 0o600


@posix
def test_what_the_user_keeps_is_replaced_where_it_lies_with_its_mode(tmp_path: Path) -> None:
    config = tmp_path / "dotfiles" / "config"
    config.parent.mkdir()
    config.write_text("old")
    config.chmod(0o640)
    (tmp_path / "config").symlink_to(config)
    files.rewrite(tmp_path / "config", "new")
    files.rewrite(tmp_path / "fresh", "new")
    assert (tmp_path / "config").is_symlink()
    assert (config.read_text(), mode(config)) == ("new", 0o640)
    assert mode(tmp_path / "fresh") == 0o600


@posix
def test_a_copy_has_the_time_and_its_own_mode(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"x")
    os.utime(source, ns=(1, 10**18 + 1))
    files.copy_file(source, tmp_path / "copy")
    assert (tmp_path / "copy").stat().st_mtime_ns == 10**18 + 1
    assert mode(tmp_path / "copy") == 0o600
    with pytest.raises(FileExistsError):
        files.copy_file(source, tmp_path / "copy")


@posix
def test_what_another_program_made_is_taken_from_others(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir(mode=0o755)
    (folder / "program").write_bytes(b"x")
    (folder / "program").chmod(0o755)
    (folder / "text").write_bytes(b"x")
    (folder / "link").symlink_to("/etc/hosts")
    files.make_private(folder)
    assert (mode(folder), mode(folder / "program"), mode(folder / "text")) == (0o700, 0o700, 0o600)


@posix
def test_a_home_that_can_only_be_read_has_its_scratch_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").write_bytes(b"")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with files.scratch_folder() as folder:
        place = folder.parent
        assert (place.parent, mode(place), mode(folder)) == (tmp_path, 0o700, 0o700)
    place.chmod(0o755)  # as somebody else would have made it
    with files.scratch_folder() as folder:
        assert folder.parent != place
        assert mode(folder.parent) == 0o700


@posix
def test_deleting_does_not_follow_links(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    canary.mkdir()
    (canary / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to(canary)
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "inner").symlink_to(canary)
    files.delete_tree(tmp_path / "link")
    files.delete_tree(tree)
    files.delete_tree(tmp_path / "never was")
    assert (canary / "file").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["canary"]


def test_a_scratch_folder_is_swept_when_its_process_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_scratch_place", lambda **_: tmp_path)
    code = (
        "import os, sys, pathlib\nfrom localrag.system import files\n"
        "files._scratch_place = lambda **_: pathlib.Path(sys.argv[1])\n"
        "with files.scratch_folder() as folder:\n"
        "    (folder / 'text').write_text('secret')\n    os._exit(9)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    folders = [path for path in tmp_path.iterdir() if path.is_dir()]
    assert len(folders) == 1
    with files.scratch_folder() as own_folder, files.scratch_folder() as other:
        assert not folders[0].exists()
        assert own_folder.is_dir()
        assert other.is_dir()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("unnamed", [True, False])
def test_a_new_file_is_there_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unnamed: bool
) -> None:
    if not unnamed:
        monkeypatch.setattr(files, "_written_unnamed", lambda *_: False)
    listings: list[list[str]] = []

    def write(file: object) -> None:
        listings.append([path.name for path in tmp_path.iterdir()])
        file.write(b"x")  # type: ignore[attr-defined]

    files.new_file(tmp_path / "new", write)
    assert (tmp_path / "new").read_bytes() == b"x"
    assert "new" not in listings[0]
    if os.name != "nt":
        assert mode(tmp_path / "new") == 0o600
    (tmp_path / "there").write_bytes(b"mine")
    with pytest.raises(FileExistsError):
        files.new_file(tmp_path / "there", write)
    with pytest.raises(ZeroDivisionError):
        files.new_file(tmp_path / "failed", lambda _: 1 // 0)
    assert (tmp_path / "there").read_bytes() == b"mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "there"]


def test_a_part_that_a_kill_left_goes_and_others_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_written_unnamed", lambda *_: False)
    for name in ("new.01234567.part", "new.part", "newer.01234567.part", "new.0123456.part"):
        (tmp_path / name).write_bytes(b"left")
    files.new_file(tmp_path / "new", lambda file: file.write(b"x"))
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["new", "new.0123456.part", "new.part", "newer.01234567.part"]


def test_a_name_as_long_as_may_be(tmp_path: Path) -> None:
    for name in ("n" * 255, "文" * 85):
        files.new_file(tmp_path / name, lambda file: file.write(b"x"))
        files.replace_file(tmp_path / name, lambda file: file.write(b"y"))
        assert (tmp_path / name).read_bytes() == b"y"
