"""The user's guide does what it says: its commands run as they stand, in a home of their own."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from http_server import allowed_answers, chat, serving
from platformdirs.macos import MacOS
from platformdirs.unix import Unix
from platformdirs.windows import Windows

from localrag.bundle.creation import GUIDE

ROOT = Path(__file__).resolve().parents[2]
ENGLISH, CHINESE = (
    [ROOT / "docs" / "guide" / f"{page}{suffix}" for page in GUIDE]
    for suffix in (".md", ".zh-CN.md")
)
INDEXES = [ROOT / "docs" / name for name in ("guide.md", "guide.zh-CN.md")]
KINDS = ("config", "data", "cache", "state")
BACKUP, UPGRADE, REMOVAL = "library.zip", "before-upgrade.zip", "rm -rf ~/.local"
QUESTION = "Who presented the perceptron?"
needs_sh = pytest.mark.skipif(sys.platform != "linux", reason="only on Linux: paths of this system")


def fenced(text: str, kind: str) -> list[str]:
    """What stands between fences of one kind."""
    matches = re.findall(r"^ *```(\w*)\n(.*?)^ *```$", text, re.S | re.M)
    return [inside for tag, inside in matches if tag == kind]


def blocks(holding: str) -> list[str]:
    """The commands in the section of the guide in which one of them holds this text."""
    whole = "\n".join(page.read_text("utf-8") for page in ENGLISH)
    sections = re.split(r"^## ", whole, flags=re.M)
    section_text = next(
        section for section in sections if holding in "".join(fenced(section, "sh"))
    )
    return fenced(section_text, "sh")


class Home:
    """A person's home and shell, and `localrag` in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "home"
        self.scratch = folder / "tmp"
        commands = folder / "bin"
        for directory in (self.folder, self.scratch, commands):
            directory.mkdir()
        command = commands / "localrag"
        command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m localrag "$@"\n')
        command.chmod(0o700)
        self.environment = {
            "HOME": str(self.folder),
            "TMPDIR": str(self.scratch),
            "PATH": f"{commands}:/usr/bin:/bin",
            "LOCALRAG_LANG": "en",
            "LOCALRAG_MODELS": os.environ.get("LOCALRAG_MODELS", str(ROOT / "models")),
        }

    def run(self, commands: str, **environment: str) -> str:
        """Run them as `sh` does, in a folder that is not the checkout; returns what they said."""
        result = subprocess.run(
            ["/bin/sh", "-e", "-c", commands],
            cwd=self.scratch,
            env=self.environment | environment,
            capture_output=True,
            encoding="utf-8",
            timeout=300,
            check=False,
        )
        assert result.returncode == 0, f"{commands}\n{result.stdout}{result.stderr}"
        return result.stdout

    def found(self, question: str) -> list[dict[str, Any]]:
        hits: list[dict[str, Any]] = json.loads(
            self.run(f"localrag search --json {shlex.quote(question)}")
        )["hits"]
        return hits

    def answer(self, question: str) -> tuple[str, list[dict[str, Any]]]:
        """Text and citations of what the model says."""
        record = json.loads(self.run(f"localrag ask --json {shlex.quote(question)}"))
        return record["answer"], record["citations"]

    def left(self) -> list[str]:
        """Every file and folder there is."""
        return sorted(
            str(path.relative_to(self.folder.parent))
            for top in (self.folder, self.scratch)
            for path in top.rglob("*")
        )


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@needs_sh
@pytest.mark.slow
@pytest.mark.models("use-multilingual-v3")
def test_what_was_backed_up_comes_back_and_what_is_removed_leaves_nothing(
    home: Home, models_dir: Callable[[str], Path]
) -> None:
    models_dir("use-multilingual-v3")
    backup, restore = blocks(BACKUP)
    linux = next(block for block in blocks(REMOVAL) if ".local/share" in block)
    home.run(f"localrag add {shlex.quote(str(ROOT / 'data'))}; localrag config set answer.k 7")
    before = home.found(QUESTION)
    with serving(chat(lambda _: "Frank Rosenblatt presented it. [1]")) as server:
        home.environment |= {
            "LOCALRAG_LLM_BACKEND": "openai",
            "LOCALRAG_LLM_BASE_URL": f"{server.url}/v1",
        }
        reply = home.answer(QUESTION)
        home.run(backup)
        assert len(home.left()) > 10
        home.run(linux)
        remains = [
            path for path in home.left() if not re.match(r"home/(backup|\.\w+(/\w+)?$)", path)
        ]
        assert remains == []

        home.run(restore)
        assert home.found(QUESTION) == before
        assert home.answer(QUESTION) == reply
    assert json.loads(home.run("localrag config --json"))["settings"]["answer"]["k"] == 7

    home.run(f"{linux}\nrm -r ~/backup\nrmdir ~/.local/share ~/.local/state ~/.local || true")
    assert [path for path in home.left() if "localrag" in path] == []


@needs_sh
def test_a_library_of_the_version_before_is_upgraded(home: Home) -> None:
    export, check = blocks(UPGRADE)
    fixture = ROOT / "tests" / "library" / "fixtures" / "schema-2.zip"
    with zipfile.ZipFile(fixture) as archive:
        archive.extractall(home.folder / ".local" / "share" / "localrag" / "library")
    home.run(export)
    assert "All is in order" in home.run(check)
    home.run("localrag import ~/before-upgrade.zip --library ~/again")
    assert "All is in order" in home.run("localrag check --library ~/again")


@needs_sh
@pytest.mark.slow
@pytest.mark.models("use-multilingual-v3", "bge-small-en-v1.5-int8")
def test_what_the_guide_shows_is_what_is_printed(
    home: Home, models_dir: Callable[[str], Path]
) -> None:
    models_dir("use-multilingual-v3")
    models_dir("bge-small-en-v1.5-int8")
    home.run(f"localrag add {shlex.quote(str(ROOT / 'data'))}")
    sentence = "感知机是弗兰克·罗森布拉特在1958年提出的[1]。"  # so the starter model

    def say(request: dict[str, Any]) -> str:
        choices = allowed_answers(request)
        return json.dumps({"answer": choices[0]}) if choices else sentence

    with serving(chat(say)) as server:
        home.environment |= {
            "LOCALRAG_LLM_BACKEND": "openai",
            "LOCALRAG_LLM_BASE_URL": f"{server.url}/v1",
        }
        for pages, language in ((ENGLISH, "en"), (CHINESE, "zh")):
            for example in [
                block for page in pages for block in fenced(page.read_text("utf-8"), "console")
            ]:
                command, _, output = example.removeprefix("$ ").partition("\n")
                output_text = home.run(command, LOCALRAG_LANG=language)
                # "0.7 s", on a busy machine "0.7 s (1.8 s with loading the model …)"
                seconds = re.compile(r"^[\d.]+ (?:s|秒)(?: \(.*\)|（.*）)?\n\Z", re.M)
                assert seconds.sub("", output_text) == output


@pytest.mark.parametrize("pages", [*zip(ENGLISH, CHINESE, strict=True)], ids=GUIDE)
def test_both_guides_have_the_same_sections_and_commands(pages: tuple[Path, Path]) -> None:
    english, chinese = (page.read_text("utf-8") for page in pages)
    assert fenced(english, "sh") == fenced(chinese, "sh")
    for mark in (r"^#+ ", r"^```", r"^\|", r"^ *\d\. ", r"^\$ "):
        assert len(re.findall(mark, english, re.M)) == len(re.findall(mark, chinese, re.M)), mark
    without_notes = (re.sub(r" +[#].*| \"[^\"]*\"", "", text) for text in (english, chinese))
    english_blocks, chinese_blocks = (fenced(text, "") for text in without_notes)
    assert english_blocks == chinese_blocks


@pytest.mark.parametrize(
    ("index", "pages"), [*zip(INDEXES, (ENGLISH, CHINESE), strict=True)], ids=["en", "zh"]
)
def test_the_index_has_every_section(index: Path, pages: list[Path]) -> None:
    sections = re.findall(r"\[([^\]]+)\]\(guide/", index.read_text("utf-8"))
    whole = "\n".join(page.read_text("utf-8") for page in pages)
    assert set(
        re.findall(r"^##?#? (.*)$", re.sub(r"```.*?```", "", whole, flags=re.S), re.M)
    ) <= set(sections)


def test_the_tables_of_commands_and_settings_are_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "draw_guide.py"), "--check"]
    result = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    assert result.returncode == 0, result.stderr


def test_the_guide_names_every_folder_that_localrag_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = {
        kind
        for path in (ROOT / "localrag").rglob("*.py")
        for kind in re.findall(r"\buser_(\w+)_(?:path|dir)\(", path.read_text("utf-8"))
    }
    assert kinds == set(KINDS)
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("platformdirs.windows.get_win_folder", lambda _: "%LOCALAPPDATA%")
    home = str(Path.home())
    for kind in KINDS:
        cells = [
            getattr(system("localrag", appauthor=False), f"user_{kind}_dir").replace(home, "~")
            for system in (Unix, MacOS, Windows)
        ]
        cells[2] = cells[2].replace("/", "\\")
        row = "".join(f" `{cell}` |" for cell in cells)
        for pages in (ENGLISH, CHINESE):
            assert any(row in page.read_text("utf-8") for page in pages), row
