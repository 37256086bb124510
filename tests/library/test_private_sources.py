from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from library_fixtures import add, bytes_on_disk, document, indexes, open_library

from localrag.indexing.paths import origins
from localrag.library.check import check_library
from localrag.library.folder.filesystem import CATALOGUE
from localrag.library.library import Library
from localrag.library.private import PrivateSources
from localrag.library.records import FileState
from localrag.library.transfer import export_library, import_library


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("contracts/*", "/home/ada/contracts/2026/rent.pdf"),
        ("contracts", "/home/ada/contracts/2026/rent.pdf"),
        ("contracts/", "/home/ada/contracts/rent.pdf"),
        ("contracts/**", "/home/ada/contracts/2026/rent.pdf"),
        ("/home/ada/contracts", "/home/ada/contracts/rent.pdf"),
        ("rent.pdf", "/home/ada/contracts/rent.pdf"),
        ("*.pdf", "/home/ada/rent.pdf"),
        ("CONTRACTS", "/home/ada/contracts/rent.pdf"),
        ("contracts", "/home/ada/Contracts/rent.pdf"),
        ("contracts\\2026", "C:\\Users\\ada\\contracts\\2026\\rent.pdf"),
        ("C:\\Users\\ada", "C:\\Users\\ada\\rent.pdf"),
        ("合同/*", "/home/ada/合同/租约.pdf"),
        ("re\u0301sume\u0301s", "/home/ada/r\u00e9sum\u00e9s/one.pdf"),
        (" contracts ", "/home/ada/contracts/rent.pdf"),
        ("./contracts", "/home/ada/contracts/rent.pdf"),
        ("contracts//2026", "/home/ada/contracts/2026/rent.pdf"),
        ("ada/./contracts", "/home/ada/contracts/rent.pdf"),
        ("[secret]", "/home/ada/[secret]/rent.pdf"),
        ("/home/ada/[secret]", "/home/ada/[secret]/2026/rent.pdf"),
        ("[st]ecret", "/home/ada/tecret/rent.pdf"),
    ],
)
def test_private(pattern: str, path: str) -> None:
    assert PrivateSources([pattern]).holds(path)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("contracts", "/home/ada/contracts.pdf"),
        ("contracts", "/home/ada/old-contracts/rent.pdf"),
        ("contracts/*", "/home/ada/papers/rent.pdf"),
        ("/contracts", "/home/ada/papers/rent.pdf"),
        ("*.pdf", "/home/ada/rent.md"),
    ],
)
def test_not_private(pattern: str, path: str) -> None:
    assert not PrivateSources([pattern]).holds(path)


@pytest.mark.parametrize("patterns", [[], [""], ["  "]])
def test_no_patterns_no_private_documents(patterns: list[str]) -> None:
    private = PrivateSources(patterns)
    assert not private
    assert not private.holds("/home/ada/rent.pdf")


def test_home_and_here_and_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "real"
    folder.mkdir()
    path = str(folder / "rent.pdf")
    assert PrivateSources(["~/real"]).holds(path)
    assert PrivateSources(["./real"]).holds(path)
    try:
        (tmp_path / "link").symlink_to(folder, target_is_directory=True)
    except OSError:
        pytest.skip("only where links can be made")
    assert PrivateSources([str(tmp_path / "link")]).holds(path)


def test_a_document_that_was_added_over_a_link(tmp_path: Path) -> None:
    folder = tmp_path / "real"
    folder.mkdir()
    (folder / "rent.pdf").touch()
    try:
        (tmp_path / "link").symlink_to(folder, target_is_directory=True)
        (tmp_path / "one.pdf").symlink_to(folder / "rent.pdf")
    except OSError:
        pytest.skip("only where links can be made")
    private = PrivateSources([str(folder)])
    assert private.holds(str(tmp_path / "link" / "rent.pdf"))
    assert private.holds(str(tmp_path / "one.pdf"))
    assert not private.holds(str(tmp_path / "other.pdf"))


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("contracts", "/home/ada/ＣＯＮＴＲＡＣＴＳ/rent.pdf"),
        ("合同［一］", "/home/ada/合同[一]/rent.pdf"),
        ("contracts. ", "C:\\Users\\ada\\contracts\\rent.pdf"),
        ("contracts", "C:\\Users\\ada\\contracts. \\rent.pdf"),
        ("C:\\Users\\ada", "\\\\?\\C:\\Users\\ada\\rent.pdf"),
        ("\\\\?\\C:\\Users\\ada", "C:\\Users\\ada\\rent.pdf"),
        # A name on one system, the way back on another.
        ("contracts", "/home/ada/contracts/..\\..\\x.pdf"),
        ("contracts", "/home/ada/contracts/．．/x.pdf"),
        ("contracts", "/home/ada/contracts/../x.pdf"),
        ("contracts/2026", "/home/ada/contracts/x/../2026/rent.pdf"),
        ("~/contracts", "/home/somebody-else/contracts/rent.pdf"),
        ("~/contracts", "C:\\Users\\ada\\contracts\\rent.pdf"),
        ("/", "/home/ada/rent.pdf"),
        ("//", "/home/ada/rent.pdf"),
    ],
)
def test_private_in_every_way_of_writing(pattern: str, path: str) -> None:
    assert PrivateSources([pattern]).holds(path)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("./", "/home/ada/rent.pdf"),
        ("...", "/home/ada/rent.pdf"),
        ("~/contracts", "/data/contracts/rent.pdf"),
    ],
)
def test_not_everything_is_private(pattern: str, path: str) -> None:
    assert not PrivateSources([pattern]).holds(path)


def test_another_name_of_the_same_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "real"
    folder.mkdir()
    (folder / "rent.pdf").touch()
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    (mounted / "rent.pdf").touch()
    real_stat = os.stat

    def stat(path: Any, *rest: Any, **options: Any) -> os.stat_result:
        # A bind mount: two folders of one identity, of which no link tells.
        return real_stat(folder if str(path) == str(mounted) else path, *rest, **options)

    private = PrivateSources([str(folder)])
    assert not private.holds(str(mounted / "rent.pdf"))
    monkeypatch.setattr(os, "stat", stat)
    assert private.holds(str(mounted / "rent.pdf"))


def test_a_path_on_a_server_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    def called(*_: Any) -> None:
        raise AssertionError("a server was called")

    private = PrivateSources(["contracts"])
    monkeypatch.setattr("localrag.library.private.os.name", "nt")
    monkeypatch.setattr("localrag.library.private.os.path.realpath", called)
    assert not private.holds("\\\\elsewhere\\share\\rent.pdf")
    assert private.holds("\\\\elsewhere\\contracts\\rent.pdf")


def _added(library: Library, path: Path) -> str:
    """A file put into a library as `add` does it; the id of its document."""
    original = document(path.read_text(), source=str(path))
    add(library, original, str(path))
    state = FileState(str(path), 1, 1, 2, origins(path))
    library.set_sources([(state, original.id)])
    return original.id


@pytest.fixture
def links(tmp_path: Path) -> Path:
    """real/rent.txt, inner -> real, link -> inner, and single.txt -> real/rent.txt."""
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "rent.txt").write_text("the rent")
    try:
        (tmp_path / "inner").symlink_to("real", target_is_directory=True)
        (tmp_path / "link").symlink_to(tmp_path / "inner", target_is_directory=True)
        (tmp_path / "single.txt").symlink_to(tmp_path / "real" / "rent.txt")
    except OSError:
        pytest.skip("only where links can be made")
    return tmp_path


@pytest.mark.parametrize("pattern", ["real", "real/rent.txt", "inner/*", "{0}/real", "{0}/inner"])
@pytest.mark.parametrize("then", ["gone", "elsewhere", "all gone"])
def test_what_a_link_led_to_is_remembered(links: Path, pattern: str, then: str) -> None:
    with open_library(links / "library") as library:
        rent = _added(library, links / "link" / "rent.txt")
        (links / "link").unlink()
        if then == "elsewhere":
            (links / "other").mkdir()
            (links / "other" / "rent.txt").write_text("nothing")
            (links / "link").symlink_to(links / "other", target_is_directory=True)
        if then == "all gone":
            (links / "real" / "rent.txt").unlink()
        private = PrivateSources([pattern.format(links)])
        assert private.documents(library) == {rent}
        assert private.names(library) == {str(links / "link" / "rent.txt"), "rent.txt"}
        assert PrivateSources(["nothing"]).documents(library) == frozenset()
        assert PrivateSources([]).documents(library) == frozenset()


def test_what_a_link_led_to_at_an_earlier_reading_counts(links: Path) -> None:
    with open_library(links / "library") as library:
        rent = _added(library, links / "single.txt")
        (links / "copy.txt").write_text("the rent")
        (links / "single.txt").unlink()
        (links / "single.txt").symlink_to(links / "copy.txt")
        assert _added(library, links / "single.txt") == rent
        assert PrivateSources(["real"]).documents(library) == {rent}
        (links / "copy.txt").write_text("other words")
        other = _added(library, links / "single.txt")
        assert other != rent
        assert PrivateSources(["real"]).documents(library) == frozenset()
        assert PrivateSources(["copy.txt"]).documents(library) == {other}


def test_of_a_file_that_is_gone_and_an_older_version_added_nothing_is_known(links: Path) -> None:
    path = links / "link" / "rent.txt"
    with open_library(links / "library") as library:
        original = document("the rent", source=str(path))
        add(library, original, str(path))  # as a version before origins were kept
        document_id = _added(library, _written(links / "other.txt"))
        private = PrivateSources(["nothing"])
        assert private.documents(library) == frozenset()
        assert private.unknown(library) == 0
        assert PrivateSources(["real"]).documents(library) == {original.id}
        (links / "link").unlink()
        (links / "other.txt").unlink()
        for pattern in ("nothing", "real"):
            assert PrivateSources([pattern]).documents(library) == {original.id}
            assert PrivateSources([pattern]).unknown(library) == 1
        assert PrivateSources([]).documents(library) == frozenset()
        assert PrivateSources([]).unknown(library) == 0
        assert document_id not in PrivateSources(["nothing"]).documents(library)


def _written(path: Path) -> Path:
    path.write_text("something else")
    return path


def test_origins_travel_are_checked_and_go_with_their_source(links: Path) -> None:
    with open_library(links / "library") as library:
        rent = _added(library, links / "link" / "rent.txt")
        assert rent == _added(library, _copy(links / "public.txt"))
    export_library(links / "library", links / "out.zip", "0")
    import_library(links / "out.zip", links / "there", indexes=indexes())
    (links / "link").unlink()
    with open_library(links / "there") as library:
        assert PrivateSources(["real"]).documents(library) == {rent}
        library.remove(sources=[str(links / "link" / "rent.txt")])
        assert PrivateSources(["real"]).documents(library) == frozenset()
    assert b"real/rent.txt" not in bytes_on_disk(links / "there")
    with closing(sqlite3.connect(links / "library" / CATALOGUE)) as raw, raw:
        raw.execute("DELETE FROM origins WHERE path LIKE '%/inner/%'")
    inspection = check_library(links / "library", indexes())
    assert "sources" in [finding.code for finding in inspection.findings]


def _copy(path: Path) -> Path:
    path.write_text("the rent")
    return path


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("contracts/**/*.pdf", "/x/contracts/a.pdf"),
        ("contracts/**/*.pdf", "/x/contracts/b/c/a.pdf"),
        ("/home/**/secret", "/home/secret/a"),
        ("~/**/secret", "/home/ada/secret/a"),
        ("**/secret", "/secret/a"),
        ("*.{pdf,docx}", "/x/a.docx"),
        ("{a,b{c,d}}/x", "/q/bd/x/1"),
        ("a{1,2}", "/x/a{1,2}/b"),
        ("{a,b}" * 40, "/x/anything"),
    ],
)
def test_patterns_as_shells_have_them(pattern: str, path: str) -> None:
    assert PrivateSources([pattern]).holds(path)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [("contracts/**/*.pdf", "/contractsx/a.pdf"), ("*.{pdf,docx}", "/x/a.md"), ("a**/b", "/x/b")],
)
def test_what_such_patterns_do_not_name(pattern: str, path: str) -> None:
    assert not PrivateSources([pattern]).holds(path)
