"""`localrag export` and `localrag import`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "library"))

from library_fixtures import add, document, open_library

from localrag.cli.group import cli
from localrag.errors import UsageError
from localrag.text.tokenize import Tokenizer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    directory = tmp_path / "library"
    with open_library(directory, tokenize=Tokenizer()) as library:
        add(library, document("green tea is picked in spring 茶叶在春天采摘", source="tea.txt"))
        library.sync()
    return directory


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, list(arguments))
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.output


def test_out_and_in(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive, target = str(tmp_path / "x.zip"), str(tmp_path / "there")
    code, output = run("export", archive, "--library", str(folder), "--json")
    assert (code, json.loads(output)["documents"]) == (0, 1)
    code, output = run("import", archive, "--library", target)
    assert code == 0
    assert "1 documents, 1 passages" in output
    assert "embedding.model" not in output
    monkeypatch.setenv("LOCALRAG_EMBEDDING_MODEL", "use-multilingual-v3")
    code, output = run("import", archive, "--library", str(tmp_path / "pinned"))
    assert code == 0
    assert "set embedding.model to hash, or unset it" in output
    monkeypatch.delenv("LOCALRAG_EMBEDDING_MODEL")
    assert run("check", "--library", target)[0] == 0
    code, output = run("import", archive, "--library", str(tmp_path / "other"), "--json")
    report = json.loads(output)
    assert (code, report["documents"], report["embedding"]) == (0, 1, "hash")
    assert report["embedding_installed"] is False


def test_a_known_model_that_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from library_fixtures import EMBEDDER

    from localrag.library.records import EmbeddingIdentity

    monkeypatch.setenv("LOCALRAG_MODELS", str(tmp_path / "models"))
    identity = EmbeddingIdentity("f", "bge-m3", EMBEDDER.dimension)
    with open_library(tmp_path / "library", embedding=identity) as library:
        add(library, document("green tea", source="tea.txt"))
    archive = str(tmp_path / "x.zip")
    code, output = run("export", archive, "--library", str(tmp_path / "library"))
    assert code == 0
    assert "bge-m3" in output
    code, output = run("import", archive, "--library", str(tmp_path / "there"))
    assert code == 0
    assert "localrag models pull bge-m3" in output


def test_they_are_listed() -> None:
    code, output = run("--help")
    assert code == 0
    assert "export " in output
    assert "import " in output


def refused(*arguments: str) -> UsageError:
    with pytest.raises(UsageError) as error:
        CliRunner().invoke(cli, list(arguments), catch_exceptions=False)
    assert error.value.exit_code == 2
    return error.value


def test_an_export_needs_a_name_in_a_folder_that_is_there(folder: Path, tmp_path: Path) -> None:
    message = str(refused("export", str(tmp_path / "none" / "x.zip"), "--library", str(folder)))
    assert f"There is no folder {tmp_path / 'none'}." in message
    assert "disk space" not in message
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("command", ["export", "import"])
def test_an_empty_name_is_refused(folder: Path, command: str) -> None:
    assert "The name of the file is empty." in str(refused(command, "", "--library", str(folder)))
