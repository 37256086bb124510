"""Prompts in English and Chinese, one text file each, and the code that fills them in."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

PromptLanguage = Literal["en", "zh"]

YES_NO: dict[PromptLanguage, tuple[str, str]] = {"en": ("Yes", "No"), "zh": ("是", "否")}
"""What a yes-or-no prompt asks for in each language, yes first."""

SUPPORT: dict[PromptLanguage, tuple[str, str, str]] = {
    "en": ("Fully supported", "Partially supported", "No support"),
    "zh": ("完全支持", "部分支持", "不支持"),
}
"""What `support` asks for, most support first."""

REQUEST_KINDS: dict[PromptLanguage, tuple[str, ...]] = {
    "en": ("information", "writing", "imagination", "chat", "arithmetic", "translation"),
    "zh": ("信息", "写作", "想象", "闲聊", "算术题", "翻译"),
}
"""The classes of `request_kinds`; the first one is what documents are needed for."""


@cache
def template(name: str, language: PromptLanguage) -> str:
    """The text of a prompt with its `{placeholders}`."""
    path = Path(__file__).parent / language / f"{name}.txt"
    return path.read_text(encoding="utf-8").strip("\n")


def all_prompts() -> str:
    """Every prompt with its name, one after the other: for what must notice a change."""
    files = sorted(Path(__file__).parent.glob("*/*.txt"))
    # As text: line ends differ between systems, and mean nothing to a model.
    return "\n".join(f"{f.parent.name}/{f.name}\n{f.read_text('utf-8')}" for f in files)


def render(name: str, language: PromptLanguage, /, **values: str) -> str:
    """The prompt `name` in `language` with `{placeholders}` filled in.

    Values are inserted as they are: braces in a passage mean nothing here.
    """
    return template(name, language).format(**values)
