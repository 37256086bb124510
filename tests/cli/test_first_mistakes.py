"""What somebody meets who types the first thing that comes to mind."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from in_process import Localrag, in_process

from localrag import messages
from localrag.cli.group import COMMANDS, cli
from localrag.config.settings import load_settings
from localrag.errors import ConfigError
from localrag.messages import spoken


@pytest.fixture
def localrag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Localrag:
    monkeypatch.setenv("LOCALRAG_LIBRARY", str(tmp_path / "library"))
    monkeypatch.setenv("LOCALRAG_CONFIG", str(tmp_path / "config.toml"))
    return in_process(tmp_path, monkeypatch)


@pytest.mark.parametrize("words", [(), ("bundle",), ("models",)], ids=" ".join)
def test_without_a_command_the_help_is_shown_line_by_line(
    localrag: Localrag, words: tuple[str, ...]
) -> None:
    run = localrag(*words)
    assert run.code == 2
    assert run.err.startswith(f"Usage: {' '.join(('localrag', *words))} ")
    assert "\n\nCommands:\n  " in run.err
    assert "\ufffd" not in run.err


@pytest.mark.parametrize("words", [(), ("bundle",), ("models",), ("eval",)], ids=" ".join)
def test_a_list_of_commands_says_the_first_sentence_of_each_whole(words: tuple[str, ...]) -> None:
    text = CliRunner().invoke(cli, [*words, "--help"]).stdout
    commands = " ".join(text.partition("\nCommands:\n")[2].partition("\n\n")[0].split())
    assert "..." not in commands
    if not words:
        assert all(f"{name} " in commands for name in COMMANDS)
        assert "text of any suffix" not in commands
        assert "mail, web pages, text. ask" in commands  # and no second sentence


def test_a_misspelt_command_is_answered_with_the_one_like_it(localrag: Localrag) -> None:
    run = localrag("serach", "tea")
    assert run.code == 2
    assert "No such command 'serach'. Did you mean `localrag search`?" in run.err
    assert "Did you mean" not in localrag("xyzzy").err


@pytest.mark.parametrize("command", ["ask", "search"])
def test_a_question_without_quotes_is_given_back_with_them(
    localrag: Localrag, command: str
) -> None:
    run = localrag(command, "who", "wrote", "it?", "-k", "2")
    assert run.code == 2
    assert "The question came as 3 words" in run.err
    assert "Put it in quotes: 'who wrote it?'" in run.err
    assert localrag(command).code == 2


def test_an_empty_folder_and_an_empty_library_are_said(localrag: Localrag, tmp_path: Path) -> None:
    folder = tmp_path / "papers"
    folder.mkdir()
    run = localrag("add", str(folder))
    assert (run.code, run.err.strip()) == (0, f"There is no file in {folder} that localrag reads.")
    run = localrag("search", "tea")
    assert (run.code, run.out.strip()) == (0, "Nothing found.")
    assert "The library is empty. Add documents first: localrag add PATH" in run.err
    (folder / "tea.md").write_text("tea is picked in spring")
    assert localrag("add", str(folder)).err == ""
    assert localrag("search", "xyzzy", "--mode", "keyword").err == ""


@pytest.mark.parametrize("command", [("add",), ("watch", "--once"), ("show",)], ids=" ".join)
def test_an_address_is_no_file(localrag: Localrag, command: tuple[str, ...]) -> None:
    run = localrag(*command, "https://example.org/x.pdf")
    assert run.code == 2
    assert "https://example.org/x.pdf is an address on the network" in run.err
    assert "Download it yourself" in run.err


def test_a_place_without_rights_is_no_fault_of_localrag(
    localrag: Localrag, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any, **__: Any) -> Any:
        raise PermissionError(13, "Permission denied", "/shut/catalogue.sqlite")

    monkeypatch.setattr("localrag.api.LocalRAG.open", refused)
    run = localrag("status")
    assert run.code == 1
    assert "/shut/catalogue.sqlite cannot be used: Permission denied. Check that" in run.err
    assert "inside localrag" not in run.err


@pytest.mark.skipif(sys.platform == "win32", reason="only where files have modes")
def test_one_path_without_rights_does_not_keep_the_others_out(
    localrag: Localrag, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Click would refuse the command line whole, before anything is read."""
    fine, shut = tmp_path / "fine.md", tmp_path / "shut.md"
    fine.write_text("tea is picked in spring")
    shut.write_text("words")
    monkeypatch.setattr("os.access", lambda path, _: Path(path) != shut)
    shut.chmod(0)
    run = localrag("add", str(fine), str(shut))
    assert "1 added" in run.out or "2 added" in run.out  # root reads all


def test_names_in_a_chinese_message_have_chinese_commas(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "interface_language", lambda: "zh")
    settings = tmp_path / "config.toml"
    settings.write_text("[answer]\nkk = 3\n")
    with pytest.raises(ConfigError) as error:
        load_settings(environment={"LOCALRAG_CONFIG": str(settings)})
    assert re.search(r"可用的有：mode、k、max_tokens、", spoken(error.value))
