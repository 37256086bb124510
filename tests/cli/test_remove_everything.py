"""`localrag remove --everything`: a whole library, after its name was typed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "library"))

from library_fixtures import add, document, open_library

from localrag.cli import remove as command
from localrag.cli.group import cli
from localrag.errors import LocalragError
from localrag.library.backends.opening import is_there
from localrag.library.location import Location, location_of, name_of
from localrag.messages import spoken, spoken_to


@pytest.fixture(params=["folder", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    if request.param == "folder":
        location = location_of(tmp_path / "handbook")
    else:
        location = location_of(f"{request.getfixturevalue('postgres')}#{tmp_path.name}")
    with open_library(location) as library:
        add(library, document("green tea is picked in spring", source="tea.txt"))
    return location


def run(*arguments: object, typed: str = "") -> tuple[int, str]:
    result = CliRunner().invoke(cli, [*map(str, arguments)], input=typed)
    if isinstance(result.exception, LocalragError):
        return result.exception.exit_code, f"{result.output}{spoken(result.exception)}"
    assert result.exception is None
    return result.exit_code, result.output


def test_it_asks_for_the_name(place: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ("remove", "--everything", "--library", place)
    code, output = run(*arguments)
    assert code == 2
    assert "needs a yes" in output
    monkeypatch.setattr(command, "_interactive", lambda: True)
    code, output = run(*arguments, typed="y\n")
    assert code == 2
    assert "'y' is not its name; nothing was deleted" in output
    assert is_there(place)
    code, output = run(*arguments, typed=f"{name_of(place)}\n")
    assert (code, is_there(place)) == (0, False)
    assert f"The library {place} is deleted." in output
    code, output = run(*arguments)
    assert code == 1
    assert "There is no library" in output


def test_with_a_yes_in_chinese_and_as_json(place: Location) -> None:
    with spoken_to("zh"):
        code, output = run("remove", "--everything", "--library", place)
        assert code == 2
        assert "需要确认" in output
        code, output = run("remove", "--everything", "--yes", "--library", place)
    assert (code, is_there(place)) == (0, False)
    assert f"文档库 {place} 已删除。" in output
    with open_library(place) as library:
        add(library, document("green tea", source="tea.txt"))
    code, output = run("remove", "--everything", "--yes", "--json", "--library", place)
    assert (code, is_there(place)) == (0, False)
    assert json.loads(output) == {"library": str(place), "deleted": True, "left": ""}


def test_files_and_everything_are_two_things(tmp_path: Path) -> None:
    for arguments in ((), ("tea.txt", "--everything")):
        code, output = run("remove", *arguments, "--library", tmp_path / "none")
        assert code == 2
        assert "Give the files to remove, or --everything." in output


def test_what_is_not_ours_is_said_to_stay(tmp_path: Path) -> None:
    place = tmp_path / "handbook"
    with open_library(place) as library:
        add(library, document("green tea", source="tea.txt"))
    (place / "notes.md").write_text("mine")
    code, output = run("remove", "--everything", "--yes", "--library", place)
    assert code == 0
    assert "holds files that are not localrag's" in output
    assert [path.name for path in place.iterdir()] == ["notes.md"]
