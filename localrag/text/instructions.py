"""Sentences that speak to a language model in place of the reader: "ignore the above".

A document is read by a person; a sentence in it that tells "the assistant" what to answer is
meant for another reader. The rules add up signs of that, sentence by sentence, for no sign
alone is enough: manuals say "ignore the lamp", exams say "answer only", and texts about
language models speak of assistants. Knows words only; whoever words an instruction as an
innocent sentence is not noticed (`benchmarks/injections.md`).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from localrag.text.normalize import fold
from localrag.text.sentences import Span, split_sentences

ENOUGH = 3
"""Points from which on a sentence is taken for an instruction to a model."""
CONTINUES = 2
"""Points with which a neighbour of such a sentence belongs to it."""


class _Sign(NamedTuple):
    """Something that such sentences have, and the points that it is worth."""

    name: str
    points: int
    pattern: re.Pattern[str]


@cache
def _signs_known() -> tuple[_Sign, ...]:
    """The signs of `instructions.toml`; compiled when first wanted, which takes some 50 ms."""
    table = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    words = {f"<{name}>": pattern for name, pattern in table["words"].items()}

    def compiled(patterns: Sequence[str]) -> re.Pattern[str]:
        text = "|".join(patterns)
        for name, pattern in words.items():
            text = text.replace(name, pattern)
        return re.compile(text, re.MULTILINE)

    return tuple(
        _Sign(each["name"], each["points"], compiled(each["patterns"])) for each in table["sign"]
    )


_QUOTED = re.compile(r"\"[^\"\n]{4,200}\"")
_SPOKEN_OF = re.compile(
    r"\b(?:attack(?:s|ers?)?|injections?|jailbreaks?|malicious)\b|攻击|注入|越狱|恶意"
)
_SPACED = re.compile(
    r"\b(?:\w {1,3}(?=\w\b)){4,}\w\b|(?:[\u4e00-\u9fff,] (?=[\u4e00-\u9fff,])){3,}"
)
_CELL = re.compile(r" ?\| ?")
_CONTROL = r"(?:<\|[a-z_]{2,24}\|>|\[/?INST\]|<</?SYS>>|</?(?:start|end)_of_turn>)"
_BLOCK = re.compile(
    r"<!--.*?-->|<(span|div|p|font)\b[^>]*(?:display: ?none|visibility: ?hidden|font-size: ?0)"
    rf"[^>]*>.*?</\1>"
    rf"|{_CONTROL}.*{_CONTROL}(?: ?(?:system|user|assistant|model)\n)?[^\n。.]*[。.]?",
    re.DOTALL | re.IGNORECASE,
)
"""Markup that is one thing: a comment, a hidden element, a faked chat with its last turn."""


@lru_cache(maxsize=512)
def find_instructions(text: str) -> tuple[Span, ...]:
    """The parts of `text` that tell a language model what to do, in order, none empty.

    Whole sentences, cells of a table or comments of HTML.
    """
    pieces = _pieces(text)
    signs = [_signs(text[start:end]) for start, end in pieces]
    points = [_points(each) for each in signs]
    taken = {number for number, each in enumerate(points) if each >= ENOUGH}
    for number in range(len(pieces) - 1):
        # Two sentences that share the work: a game is proposed, then its rules are given.
        pair = signs[number], signs[number + 1]
        turn = any("turn" in each for each in pair)
        least, together = min(points[number : number + 2]), _points(pair[0] | pair[1])
        if (least >= CONTINUES and together > ENOUGH) or (least and turn and together >= ENOUGH):
            taken |= {number, number + 1}
    for step in (1, -1):
        for number in range(len(pieces))[::step]:
            turn = bool(signs[number] & {"turn", "template"})
            if number - step in taken and (points[number] >= CONTINUES or turn):
                taken.add(number)
    return _joined(text, [pieces[number] for number in sorted(taken)])


def without_instructions(text: str) -> str:
    """`text` without them; unchanged, byte for byte, where there are none."""
    return "".join(text[start:end] for start, end in left(text, find_instructions(text)))


def left(text: str, spans: Sequence[Span]) -> tuple[Span, ...]:
    """What stays of `text` when these spans go, without the gaps that they would leave."""
    if not spans:
        return (Span(0, len(text)),)
    stays: list[Span] = []
    begin, blank = 0, True
    for start, end in (*spans, Span(len(text), len(text))):
        while blank and begin < start and text[begin].isspace():
            begin += 1
        if begin < start:
            stays.append(Span(begin, start))
            blank = text[start - 1].isspace()
        begin = end
    if stays:
        start, end = stays[-1]
        stays[-1] = Span(start, start + len(text[start:end].rstrip()))
    return tuple(stays)


def _pieces(text: str) -> list[Span]:
    """Blocks of markup, and between them sentences and cells of tables."""
    pieces: list[Span] = []
    start = 0
    for block in _BLOCK.finditer(text):
        pieces += [*_sentences(text, start, block.start()), Span(*block.span())]
        start = block.end()
    return [*pieces, *_sentences(text, start, len(text))]


def _sentences(text: str, start: int, end: int) -> list[Span]:
    found: list[Span] = []
    for sentence in split_sentences(text[start:end]):
        first, last = start + sentence.start, start + sentence.end
        cuts = [first, *(cell.end() for cell in _CELL.finditer(text, first, last)), last]
        for begin, stop in pairwise(cuts):
            body = text[begin:stop].rstrip(" |")
            if body:
                found.append(Span(begin, begin + len(body)))
    return found


def _signs(piece: str) -> frozenset[str]:
    folded = _SPACED.sub(lambda found: _together(found[0]), fold(piece))
    if _SPOKEN_OF.search(folded):
        # "An attack such as '…'": what is quoted is spoken of, not said.
        folded = _QUOTED.sub('""', folded)
    return frozenset(sign.name for sign in _signs_known() if sign.pattern.search(folded))


def _together(spaced: str) -> str:
    """I g n o r e   t h i s: as words again."""
    return re.sub(" +", " ", re.sub(r"(\w) (?=\w\b)", r"\1", spaced))


def _points(names: frozenset[str]) -> int:
    if "turn" in names:
        names -= {"address", "mention"}  # "Assistant: …" is one sign, not three
    elif "address" in names:
        names -= {"mention"}
    return sum(sign.points for sign in _signs_known() if sign.name in names)


def _joined(text: str, spans: Sequence[Span]) -> tuple[Span, ...]:
    """Neighbours with nothing but white space between them as one."""
    joined: list[Span] = []
    for span in spans:
        if joined and not text[joined[-1].end : span.start].strip(" "):
            joined[-1] = Span(joined[-1].start, span.end)
        else:
            joined.append(span)
    return tuple(joined)
