"""Texts that a person reads, in English and Chinese.

The English text is the key; the Chinese one stands in `messages_zh.toml`.
Imports nothing heavy: the command line needs it before anything else.
"""

from __future__ import annotations

import locale
import os
import re
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pkgutil import get_data
from typing import Literal

from localrag.errors import LocalragError
from localrag.printable import filled

InterfaceLanguage = Literal["en", "zh"]
Say = Callable[..., str]
"""Translates a template for some reader and fills in its named values."""


_reader: ContextVar[InterfaceLanguage | None] = ContextVar("reader", default=None)
_named: ContextVar[str] = ContextVar("named", default="")

_OF_A_LIBRARY = re.compile(
    "(?<![a-z])localrag(?= (?:add|ask|search|table|compute|compare|chat|status|watch|show|page"
    "|remove|rebuild|jobs|check|share|users|grant|audit)(?![a-z]))"
)
"""Commands that concern the library one works with; those that make another one do not."""


def name_library(option: str) -> None:
    """From now on, printed commands name the library as the person at this machine has done.

    `option`: as it is typed, such as "--library notes"; "" for none.
    """
    _named.set(f" {option}" if option else "")


def library_option() -> str:
    """What follows `localrag` in a command that is printed for the person at this machine."""
    return "" if _reader.get() else _named.get()


@contextmanager
def spoken_to(reader: InterfaceLanguage) -> Iterator[None]:
    """Within the block, and in this thread alone, messages are for somebody else."""
    before = _reader.set(reader)
    try:
        yield
    finally:
        _reader.reset(before)


def interface_language() -> InterfaceLanguage:
    """The language of messages: that of the reader, else of the environment."""
    return _reader.get() or environment_language()


@cache
def environment_language() -> InterfaceLanguage:
    """The language of who is at this machine: LOCALRAG_LANG, else the locale.

    The order of the variables is that of POSIX (LC_ALL, LC_MESSAGES, LANG).
    """
    for name in ("LOCALRAG_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        value = os.environ.get(name)
        if value:
            return "zh" if value.lower().startswith("zh") else "en"
    tag = locale.getlocale()[0] or ""
    return "zh" if tag.lower().startswith(("zh", "chinese")) else "en"


@cache
def chinese_texts(table: str = "messages") -> dict[str, str]:
    """English -> Chinese: a table of `messages_zh.toml`, our own texts or those of click."""
    data = get_data("localrag", "messages_zh.toml") or b""  # it may lie in an archive
    texts: dict[str, str] = tomllib.loads(data.decode("utf-8"))[table]
    return texts


def translate(template: str, language: InterfaceLanguage | None = None) -> str:
    """The template in the reader's language; English where no translation stands."""
    if (language or interface_language()) == "en":
        return template
    return chinese_texts().get(template, template)


def phrase(template: str, reader: InterfaceLanguage | None, /, **values: object) -> str:
    """Translate for a reader and fill in: `phrase("{count} files", "zh", count=3)`.

    `reader` None is the person at this machine. A tuple is listed with the commas of the language.
    """
    said = {name: _said(value, reader) for name, value in values.items()}
    text = translate(template, reader)
    if reader is None and (option := library_option()):
        text, said["of_library"] = _OF_A_LIBRARY.sub("localrag{of_library}", text), option
    return filled(text, said)


def _said(value: object, reader: InterfaceLanguage | None) -> object:
    if isinstance(value, tuple):
        return translate(", ", reader).join(map(str, value))
    return spoken(value, reader) if isinstance(value, LocalragError) else value


def speaker(reader: InterfaceLanguage | None) -> Say:
    """What speaks to one reader: `speaker("zh")("{count} files", count=3)`."""
    return lambda template, /, **values: phrase(template, reader, **values)


def tr(template: str, /, **values: object) -> str:
    """Translate and fill in: `tr("{count} files", count=3)`. Each value is shown on one line."""
    return phrase(template, None, **values)


def spoken(error: LocalragError, reader: InterfaceLanguage | None = None) -> str:
    """An error and what to do next as one paragraph in the reader's language."""
    text = phrase(error.message, reader, **error.values).rstrip()
    if not error.hint:
        return text
    hint = phrase(error.hint, reader, **error.values)
    chinese = (reader or interface_language()) == "zh"
    # A message may end in a reason from elsewhere, which brings a full stop or does not.
    if not text.endswith((".", "!", "?", "。", "！", "？")):
        text += "。" if chinese else "."
    return text + hint if text.endswith(("。", "！", "？")) else f"{text} {hint}"
