"""What the commands that read many files end with, and that a program can rely on it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from in_process import Localrag, in_process

from localrag.api import LocalRAG
from localrag.cli.output import UNREAD
from localrag.documents import files
from localrag.errors import CorruptFileError
from localrag.indexing.events import AddReport, Failed


@pytest.fixture
def localrag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Localrag:
    monkeypatch.setenv("LOCALRAG_LIBRARY", str(tmp_path / "library"))
    return in_process(tmp_path, monkeypatch)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    papers = tmp_path / "papers"
    papers.mkdir()
    write(papers / "fine.md", "tea is picked in spring")
    return papers


def write(path: Path, text: str) -> Path:
    """A file that nobody has touched for a while."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    os.utime(path, (1_700_000_000, 1_700_000_000 + len(text)))
    return path


@pytest.fixture
def close(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Let the system refuse a folder, as it would to others than root."""

    def closed(folder: Path) -> None:
        def entries(path: str) -> Any:
            if Path(path) == folder:
                raise PermissionError(13, "Permission denied", path)
            return list_entries(path)

        list_entries = files._entries
        monkeypatch.setattr(files, "_entries", entries)

    return closed


@pytest.mark.parametrize("command", [("add",), ("watch", "--once")], ids=" ".join)
def test_a_file_that_was_not_read_counts_until_it_is_read_or_gone(
    command: tuple[str, ...], localrag: Localrag, folder: Path
) -> None:
    broken = write(folder / "broken.pdf", "%PDF-1.7 nothing")
    for _ in range(2):  # the second time it is known, and not tried again
        run = localrag(*command, str(folder))
        assert run.code == UNREAD == 3
        assert "broken.pdf" in run.err or "status --problems" in run.err
    assert localrag(*command, str(folder), "--json").code == 3
    assert localrag("search", "tea", "--json").json["hits"]
    broken.unlink()
    assert localrag(*command, str(folder)).code == 0


def test_what_was_asked_for_and_nothing_else_counts(localrag: Localrag, folder: Path) -> None:
    other = write(folder.parent / "others" / "broken.pdf", "%PDF-1.7 nothing")
    assert localrag("add", str(other)).code == 1  # nothing could be read
    assert localrag("add", str(folder)).code == 0
    assert localrag("watch", "--once", str(folder)).code == 0
    assert localrag("add", str(folder), str(other.parent)).code == 3


def test_what_localrag_does_not_read_is_no_failure(localrag: Localrag, folder: Path) -> None:
    (folder / "program.exe").write_bytes(b"MZ\x90\0" * 100)
    (folder / "more.zip").write_bytes(b"PK\x03\x04" + bytes(100))
    (folder / "empty").touch()
    if os.name != "nt":
        (folder / "elsewhere").symlink_to(folder.parent)
        os.mkfifo(folder / "pipe")
    for command in (("add",), ("add", "--json"), ("watch", "--once")):
        assert localrag(*command, str(folder)).code == 0
    assert localrag("add", str(folder / "program.exe"), str(folder)).code == 3  # it was named


def test_a_folder_that_cannot_be_opened_counts_as_not_read(
    localrag: Localrag, folder: Path, close: Callable[[Path], None]
) -> None:
    write(folder / "closed" / "secret.md", "words")
    close(folder / "closed")
    run = localrag("add", str(folder))
    assert run.code == 3
    assert "1 not readable" in run.out
    assert "closed" in run.err
    assert "Permission denied" in run.err
    record = localrag("add", str(folder), "--json").json
    assert [Path(failure["source"]).name for failure in record["failed"]] == ["closed"]
    assert record["skipped"] == []
    run = localrag("watch", "--once", str(folder))
    assert run.code == 3
    assert "status --problems" in run.err
    assert localrag("add", str(folder / "closed")).code == 1


def test_watching_says_which_folder_it_cannot_open(
    localrag: Localrag, folder: Path, close: Callable[[Path], None]
) -> None:
    write(folder / "closed" / "secret.md", "words")
    close(folder / "closed")
    run = localrag("watch", "--once", str(folder))
    assert run.code == 3
    assert f"The folder {folder / 'closed'} cannot be opened: Permission denied" in run.out


def test_a_folder_that_is_not_there_says_more_than_a_file_that_is_not_read(
    localrag: Localrag, folder: Path
) -> None:
    write(folder / "broken.pdf", "%PDF-1.7 nothing")
    missing_folder = folder.parent / "gone"
    write(missing_folder / "other.md", "words")
    assert localrag("add", str(missing_folder)).code == 0
    (missing_folder / "other.md").unlink()
    missing_folder.rmdir()
    assert localrag("watch", "--once", str(folder), str(missing_folder)).code == 1


@pytest.mark.parametrize("as_json", [True, False])
def test_documents_that_could_not_be_read_again_count(
    as_json: bool, localrag: Localrag, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert localrag("add", str(folder)).code == 0
    error = CorruptFileError("{source} is damaged.", source="/a/b.pdf")
    report = AddReport(failed=(Failed("/a/b.pdf", error),))
    assert localrag("rebuild", *["--json"] * as_json).code == 0
    monkeypatch.setattr(LocalRAG, "rebuild", lambda *_, **__: report)
    run = localrag("rebuild", *["--json"] * as_json)
    assert run.code == 3
    assert "/a/b.pdf is damaged" in (run.out if as_json else run.err)
