"""Prompts in a person's own words."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from localrag import factory, prompts
from localrag.config.settings import Settings, load_settings
from localrag.errors import ConfigError
from localrag.languages import CODES
from localrag.prompts import render, template
from localrag.prompts.own import OWN, Wording, read_wording, write_prompts


def put(folder: Path, name: str, text: str | bytes, language: str = "en") -> Path:
    file = folder / language / f"{name}.txt"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def test_own_words_stand_in_for_those_that_are_there_and_no_others(tmp_path: Path) -> None:
    put(tmp_path, "answer", "\ufeffAnswer in verse.\n")
    put(tmp_path, "write_from_passages", "问题：{question}\n只说一句。", "zh")
    wording = read_wording(tmp_path)
    assert wording.render("answer", "en") == "Answer in verse."
    assert wording.render("answer", "zh") == render("answer", "zh")
    text = wording.render("write_from_passages", "zh", question="{几个}？")
    assert text == "问题：{几个}？\n只说一句。"


def test_what_is_written_out_is_what_is_in_use(tmp_path: Path) -> None:
    paths = write_prompts(tmp_path / "mine")
    assert len(paths) == len(OWN) * len(CODES)
    wording = read_wording(tmp_path / "mine")
    assert all(text == template(name, language) for (name, language), text in wording.own.items())
    with pytest.raises(ConfigError, match="already exists"):
        write_prompts(tmp_path / "mine")
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written"):
        write_prompts(tmp_path / "file")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("relevance", "Is it?", "can be replaced"),
        ("anwser", "Answer.", "can be replaced"),
        ("answer", "Answer {question}.", "placeholders and no others: -"),
        ("answer", " \n", "placeholders"),
        ("answer_or_refuse", "Answer.", "placeholders and no others: {refusal}"),
        ("write_from_passages", "{question.__class__}", "placeholders"),
        ("write_from_passages", "{question!r:>9}", "placeholders"),
        ("answer", "Answer {", "cannot be read"),
        ("answer", b"\xff\xfe", "cannot be read"),
    ],
)
def test_what_cannot_be_used_is_named(
    name: str, text: str | bytes, said: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=said) as error:
        read_wording(put(tmp_path, name, text))
    assert f"{name}.txt" in str(error.value)
    assert error.value.hint


def test_a_folder_without_prompts_is_named(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(ConfigError, match="contains no prompts"):
            read_wording(folder)


def test_doubled_braces_are_braces(tmp_path: Path) -> None:
    wording = read_wording(put(tmp_path, "answer", "Answer as {{json}}."))
    assert wording.render("answer", "en") == "Answer as {json}."


def test_the_settings_name_the_folder(tmp_path: Path) -> None:
    assert factory.make_wording(Settings()) == Wording()
    put(tmp_path, "answer", "Answer in verse.")
    settings = load_settings({"answer.prompts": str(tmp_path)}, {})
    assert factory.make_wording(settings).render("answer", "en") == "Answer in verse."


def test_from_the_command_line(tmp_path: Path) -> None:
    environment = os.environ | {"LOCALRAG_CONFIG": str(tmp_path / "c.toml"), "LOCALRAG_LANG": "en"}

    def localrag(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "localrag", "config", *map(str, arguments)]
        return subprocess.run(
            command, env=environment, capture_output=True, encoding="utf-8", check=False, timeout=60
        )

    result = localrag("prompts", tmp_path / "mine")
    assert result.returncode == 0, result.stderr
    assert str(tmp_path / "mine" / "zh" / "answer.txt") in result.stdout.splitlines()
    assert "localrag config set answer.prompts" in result.stderr
    spaced = localrag("prompts", tmp_path / "my own")
    assert f"answer.prompts '{tmp_path / 'my own'}'" in " ".join(spaced.stderr.split())
    again = localrag("prompts", tmp_path / "mine")
    assert again.returncode != 0
    assert "already exists" in again.stderr
    assert "Traceback" not in again.stderr


def test_every_prompt_is_there_in_both_languages() -> None:
    folder = Path(prompts.__file__).parent
    english, chinese = (
        {path.name for path in (folder / language).iterdir()} for language in ("en", "zh")
    )
    assert english == chinese
