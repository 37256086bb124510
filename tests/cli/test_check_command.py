from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "library"))

from library_fixtures import add, document, open_library

from localrag.cli.group import cli
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


def test_a_sound_library(folder: Path) -> None:
    assert run("check", "--library", str(folder))[0] == 0
    code, output = run("check", "--library", str(folder), "--json")
    report = json.loads(output)
    assert (code, report["ok"], report["documents"], report["findings"]) == (0, True, 1, [])


def test_damage_is_named_with_its_repair(folder: Path) -> None:
    (folder / "vectors" / "index.json").write_bytes(b"\x1b[2Jrubbish")
    code, output = run("check", "--library", str(folder))
    assert code == 1
    assert "vector index (vectors)" in output
    assert f"localrag --library {folder} rebuild" in output
    assert "\x1b" not in output
    code, output = run("check", "--library", str(folder), "--json")
    report = json.loads(output)
    assert (code, report["ok"]) == (1, False)
    assert [
        (finding["part"], finding["code"], finding["damage"]) for finding in report["findings"]
    ] == [("vectors", "unreadable", True)]


def test_a_lost_catalogue(folder: Path) -> None:
    (folder / "catalogue.sqlite").unlink()
    code, output = run("check", "--library", str(folder), "--json")
    assert (code, json.loads(output)["documents"]) == (1, None)
