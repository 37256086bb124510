"""Prompts in English and Chinese, one text file each, and the code that fills them in."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

PromptLanguage = Literal["en", "zh"]

YES_NO: dict[PromptLanguage, tuple[str, str]] = {"en": ("Yes", "No"), "zh": ("是", "否")}
"""What a yes-or-no prompt asks for in each language, yes first."""


@cache
def _template(name: str, language: PromptLanguage) -> str:
    path = Path(__file__).parent / language / f"{name}.txt"
    return path.read_text(encoding="utf-8").strip("\n")


def render(name: str, language: PromptLanguage, /, **values: str) -> str:
    """The prompt `name` in `language` with `{placeholders}` filled in.

    Values are inserted as they are: braces in a passage mean nothing here.
    """
    return _template(name, language).format(**values)
