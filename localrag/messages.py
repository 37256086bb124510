"""Texts that a person reads, in the languages of the interface.

The English text is the key; its translations stand in `messages_CODE.toml`. A further language is
such a file, a line in `INTERFACES`, and the page's words in `server/static/words.js`: CONTRIBUTING
has the recipe.
Imports nothing heavy: the command line needs it before anything else.
"""

from __future__ import annotations

import locale
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pkgutil import get_data
from typing import Literal

from localrag.errors import LocalragError
from localrag.printable import filled

InterfaceLanguage = Literal["en", "zh"]


@dataclass(frozen=True, slots=True)
class Interface:
    """A language of the interface.

    `tag` is what pages say they are in (BCP 47), `locales` how names of its locales begin, in lower
    case. `stop` ends a sentence; where punctuation is `full_width`, no blank follows it.
    """

    tag: str
    locales: tuple[str, ...]
    stop: str = "."
    full_width: bool = False


SOURCE: InterfaceLanguage = "en"
"""The language that texts are written in, and that of all who read no other."""

INTERFACES: Mapping[InterfaceLanguage, Interface] = {
    "en": Interface("en", ("en",)),
    "zh": Interface("zh-CN", ("zh", "chinese"), stop="。", full_width=True),
}

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
            return _of_locale(value)
    return _of_locale(locale.getlocale()[0] or "")


def _of_locale(name: str) -> InterfaceLanguage:
    """The language of a locale, such as zh_CN.UTF-8."""
    matches = (
        code for code, interface in INTERFACES.items() if name.lower().startswith(interface.locales)
    )
    return next(matches, SOURCE)


@cache
def translations(language: InterfaceLanguage, table: str = "messages") -> dict[str, str]:
    """English -> a language: a table of its `messages_CODE.toml`, our own texts or click's.

    Empty for the language that they are written in.
    """
    if language == SOURCE:
        return {}
    data = get_data("localrag", f"messages_{language}.toml") or b""  # it may lie in an archive
    texts: dict[str, str] = tomllib.loads(data.decode("utf-8"))[table]
    return texts


def translate(template: str, language: InterfaceLanguage | None = None) -> str:
    """The template in the reader's language; English where no translation stands."""
    return translations(language or interface_language()).get(template, template)


def phrase(template: str, reader: InterfaceLanguage | None, /, **values: object) -> str:
    """Translate for a reader and fill in: `phrase("{count} files", "zh", count=3)`.

    `reader` None is the person at this machine. A tuple is listed with the commas of the language.
    """
    replacements = {name: _value_in(value, reader) for name, value in values.items()}
    text = translate(template, reader)
    if reader is None and (option := library_option()):
        text, replacements["of_library"] = _OF_A_LIBRARY.sub("localrag{of_library}", text), option
    return filled(text, replacements)


def _value_in(value: object, reader: InterfaceLanguage | None) -> object:
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
    stop = INTERFACES[reader or interface_language()].stop
    # A message may end in a reason from elsewhere, which brings a full stop or does not.
    if not text.endswith((".", "!", "?", "。", "！", "？")):
        text += stop
    return text + hint if text.endswith(("。", "！", "？")) else f"{text} {hint}"
