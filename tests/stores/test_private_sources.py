from __future__ import annotations

from pathlib import Path

import pytest

from localrag.stores.private import PrivateSources


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
