"""The one way to show text from outside: a name, a text, JSON, HTML or a table's cell.

File names, titles, passages, models' replies and errors of libraries may hold what drives a
terminal, turns the direction of writing or is not seen at all. On a screen, a page or a table such
a character becomes U+FFFD. JSON escapes it instead, so that what is read back is what was there.
Knows nothing of commands and files.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from string import Formatter

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

# Unicode's control, format, surrogate and separator characters (Cc, Cf, Cs, Zl, Zp), but for the
# signs among them that are seen (U+0600 and the like), and what else is a letter without a shape.
_BOTH = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u070f\u180e\u200b\u200e\u200f\u2028-\u202e"
    r"\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\ud800-\udfff\U00013430-\U0001343f"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"
)
_IN_TEXT = re.compile(f"[{_BOTH}]")
# Joiners belong to Persian and to emoji; in a name they make two that look the same.
_IN_NAME = re.compile(rf"[\t\n\u200c\u200d{_BOTH}]")
_IN_JSON = re.compile(rf"[\u200c\u200d{_BOTH}]")


def as_text(value: object) -> str:
    """What may have several lines, such as a passage: line ends and tabs stay."""
    text = str(value)
    if text.isascii() and text.isprintable():
        return text
    return _IN_TEXT.sub(_REPLACEMENT, text.replace("\r\n", "\n"))


def as_name(value: object) -> str:
    """What is on one line, such as a path, a title or a reason: also without line ends and tabs."""
    text = str(value)
    return text if text.isascii() and text.isprintable() else _IN_NAME.sub(_REPLACEMENT, text)


def filled(template: str, values: Mapping[str, object]) -> str:
    """`template.format(**values)`, each value as a name, and a tuple as a list of them.

    `{count:page|pages}` is the word for that many, which has no place in Chinese.
    """
    return _NAMES.vformat(template, (), values)


def as_json(value: object, *, indent: int | None = None) -> str:
    r"""JSON in which what is not seen is written as `\u....`, and Chinese as it is.

    Half a surrogate pair, by which Python stands for a byte of a file name that is no UTF-8, is
    written like that too, and is the same name when it is read back.
    """
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return text if text.isascii() and "\x7f" not in text else _IN_JSON.sub(_escaped, text)


def as_html(value: object) -> str:
    """Text for a page or a picture (HTML, SVG), never markup."""
    return html.escape(as_text(value))


def _escaped(match: re.Match[str]) -> str:
    return json.dumps(match[0])[1:-1]


class _Names(Formatter):
    def format_field(self, value: object, format_spec: str) -> str:
        singular, several, many = format_spec.partition("|")
        if several:
            return singular if value == 1 else many
        listed = ", ".join(map(str, value)) if isinstance(value, tuple) else value
        return as_name(super().format_field(listed, format_spec))


_NAMES = _Names()
