"""Every text that a person reads exists in English and in Chinese."""

from __future__ import annotations

import ast
import re
import string
import tomllib
from pathlib import Path

import pytest

from localrag import errors
from localrag.messages import interface_language, tr, translate

PACKAGE = Path(__file__).resolve().parents[1] / "localrag"
CATALOGUE = tomllib.loads((PACKAGE / "messages_zh.toml").read_text(encoding="utf-8"))["messages"]
ERROR_NAMES = {
    name
    for name, value in vars(errors).items()
    if isinstance(value, type) and issubclass(value, errors.LocalragError)
}


def literal(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def templates() -> dict[str, str]:
    """Template -> where it stands."""
    found: dict[str, str] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            where = f"{path.relative_to(PACKAGE)}:{node.lineno}"
            if name in ERROR_NAMES or name == "tr":
                if node.args and (text := literal(node.args[0])):
                    found[text] = where
                for keyword in node.keywords:
                    if keyword.arg == "hint" and (text := literal(keyword.value)):
                        found[text] = where
    return found


def placeholders(template: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(template) if name is not None}


TEMPLATES = templates()


def test_the_collection_finds_errors_hints_and_messages() -> None:
    assert any(where.startswith("config.py") for where in TEMPLATES.values())
    assert any(where.startswith("cli/") for where in TEMPLATES.values())
    assert len(TEMPLATES) > 50


@pytest.mark.parametrize("template", sorted(TEMPLATES), ids=lambda t: TEMPLATES[t])
def test_every_text_has_a_chinese_one_with_the_same_placeholders(template: str) -> None:
    assert template in CATALOGUE, f"{TEMPLATES[template]}: add it to messages_zh.toml"
    assert placeholders(CATALOGUE[template]) == placeholders(template)
    needs_han = re.search(r"[A-Za-z]{3}", re.sub(r"`[^`]*`|\{[^}]*\}", "", template))
    if needs_han and CATALOGUE[template] != template:
        assert re.search(r"[\u4e00-\u9fff]", CATALOGUE[template])


def test_the_catalogue_has_no_leftovers() -> None:
    assert sorted(set(CATALOGUE) - set(TEMPLATES)) == []


@pytest.mark.parametrize(
    ("variables", "language"),
    [
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "en_US.UTF-8"}, "en"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, "en"),
        ({"LANG": "en_US.UTF-8", "LOCALRAG_LANG": "zh"}, "zh"),
    ],
)
def test_the_language_follows_the_locale(
    variables: dict[str, str], language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LOCALRAG_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    interface_language.cache_clear()
    assert interface_language() == language
    interface_language.cache_clear()


def test_values_go_in_after_translation() -> None:
    assert tr("Nothing found.") == "Nothing found."
    assert translate("Nothing found.", "zh") == CATALOGUE["Nothing found."]
