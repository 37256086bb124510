"""Click's own texts ("Usage:", "Missing argument ...") in the language of the interface.

Click asks gettext for them, and has no catalogues of its own. Each of its
modules keeps gettext's functions under names of its own; they are replaced there. What
a later click keeps elsewhere stays English, and all else works.
"""

from __future__ import annotations

import gettext
import sys
from collections.abc import Callable
from typing import Any
from unicodedata import east_asian_width

from localrag.messages import INTERFACES, interface_language, translations

_JOINED_ERRORS = ("MissingParameter", "NoSuchCommand", "NoSuchOption")
"""Errors that click puts together from several texts, with English punctuation between."""


def install() -> None:
    """Turn click to the interface's language for this process.

    Call it after `import click` and before commands are defined: some take a text then.
    """
    for name, module in list(sys.modules.items()):
        if name.startswith("click."):
            for alias, value in list(vars(module).items()):
                if value is gettext.gettext:
                    setattr(module, alias, _text)
                elif value is gettext.ngettext:
                    setattr(module, alias, _plural)
    if INTERFACES[interface_language()].full_width:
        _set_full_width()


def _set_full_width() -> None:
    formatting: Any = sys.modules.get("click.formatting")
    if hasattr(formatting, "term_len"):
        formatting.term_len = _cells
    formatter: Any = getattr(formatting, "HelpFormatter", None)
    if hasattr(formatter, "write_heading"):
        formatter.write_heading = _write_heading
    if hasattr(formatter, "write_usage"):
        formatter.write_usage = _without_space(formatter.write_usage)
    for name in _JOINED_ERRORS:
        error: Any = getattr(sys.modules.get("click.exceptions"), name, None)
        if hasattr(error, "format_message"):
            error.format_message = _with_full_width_stops(error.format_message)


def _text(text: str) -> str:
    return translations(interface_language(), "click").get(text, text)


def _plural(singular: str, many: str, count: int) -> str:
    return _text(singular if count == 1 else many)


def _cells(text: str) -> int:
    """Columns in a terminal: a Chinese character takes two, which click does not count."""
    import click

    return sum(1 + (east_asian_width(character) in "WF") for character in click.unstyle(text))


def _write_heading(formatter: Any, heading: str) -> None:
    formatter.write(f"{'':>{formatter.current_indent}}{heading}：\n")


def _without_space(original: Callable[..., None]) -> Callable[..., None]:
    def write_usage(formatter: Any, prog: str, args: str = "", prefix: str | None = None) -> None:
        original(formatter, prog, args, _text("Usage:") if prefix is None else prefix)

    return write_usage


def _with_full_width_stops(original: Callable[[Any], str]) -> Callable[[Any], str]:
    def format_message(error: Any) -> str:
        text = original(error).replace("'. ", "'。").replace("。 ", "。")
        return text[:-1] + "。" if text.endswith("'.") else text

    return format_message
