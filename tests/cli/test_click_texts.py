"""Click speaks Chinese where it can, and English where a later click keeps things elsewhere."""

from __future__ import annotations

import gettext
import subprocess
import sys
from types import ModuleType

import click
import pytest

from localrag.cli import click_texts


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the real click, which must stay English for the other tests."""
    for name in [name for name in sys.modules if name.startswith("click.")]:
        monkeypatch.delitem(sys.modules, name)


def module(monkeypatch: pytest.MonkeyPatch, name: str, **names: object) -> ModuleType:
    new_module = ModuleType(name)
    vars(new_module).update(names)
    monkeypatch.setitem(sys.modules, name, new_module)
    return new_module


@pytest.mark.usefixtures("alone")
def test_a_click_that_keeps_gettext_elsewhere_is_still_translated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(click_texts, "interface_language", lambda: "zh")
    texts = module(monkeypatch, "click.texts", say=gettext.gettext, many=gettext.ngettext)
    click_texts.install()
    assert texts.say("Options") == "选项"
    assert texts.say("Something new") == "Something new"
    assert texts.many("Option {name!r} requires an argument.", "", 1).startswith("选项")
    assert texts.many("{n} thing", "{n} things", 2) == "{n} things"


@pytest.mark.usefixtures("alone")
def test_a_click_without_these_names_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    core = module(monkeypatch, "click.core", _=str.upper)
    module(monkeypatch, "click.formatting")
    module(monkeypatch, "click.exceptions", MissingParameter=type("MissingParameter", (), {}))
    click_texts.install()
    assert core._("Options") == "OPTIONS"


def test_columns_line_up_with_chinese_names() -> None:
    script = (
        "import click\n"
        "from localrag.cli import click_texts\n"
        "click_texts.interface_language = lambda: 'zh'\n"
        "click_texts.install()\n"
        "formatter = click.HelpFormatter()\n"
        "formatter.write_dl([('--library 文件夹', 'one'), ('--json', 'two')])\n"
        "click.echo(formatter.getvalue())\n"
    )
    result = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", script],
        capture_output=True,
        encoding="utf-8",
        check=True,
        timeout=60,
    )
    first, second = result.stdout.rstrip().splitlines()
    assert first == "--library 文件夹  one"
    assert second == "--json" + " " * 12 + "two"


def test_english_users_keep_the_click_they_know() -> None:
    formatter = click.HelpFormatter()
    formatter.write_usage("localrag")
    assert formatter.getvalue() == "Usage: localrag\n"
