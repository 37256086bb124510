"""Where sentences end, in Chinese and English.

Rules of our own: they run over a whole book in well under a second, keep every
offset, and treat both languages in one pass, so a mixed paragraph needs no
choice. Knows nothing about headings or pages.
"""

from __future__ import annotations

import re
from itertools import takewhile
from typing import NamedTuple

from localrag.languages import LANGUAGES, union_of


class Span(NamedTuple):
    """A piece of a text: `text[start:end]`, in code points."""

    start: int
    end: int


_FULL_STOPS = "".join(language.sentences.marks for language in LANGUAGES.values())
_CANDIDATE = re.compile(
    rf"\n|(?P<mark>[{_FULL_STOPS}!?.．]+)(?P<closers>[”’」』）)\]】》〉\"']*)(?P<gap>[^\S\n]*)"
)
_FULL_STOP = re.compile(f"[{_FULL_STOPS}]")
_WORD_BEFORE = re.compile(r"[^\s(（\[“\"'‘—/]+$")
_WORD_AFTER = re.compile(r"[^\W\d_]+")
_LIST_MARKER = re.compile(r"[(（\[]?(?:\d{1,3}(?:\.\d{1,3})*|[A-Za-z]|[IVXivx]{1,5})")
_INITIALS = re.compile(r"(?:[A-Za-z]\.)*[A-Za-z]")
_LONGEST_MARKER = 64
_NOT_BLANK = re.compile(r"\S")


_ABBREVIATIONS = union_of(lambda language: language.sentences.abbreviations)
_BEFORE_NUMBER = union_of(lambda language: language.sentences.abbreviations_before_number)
_AT_END = union_of(lambda language: language.sentences.abbreviations_at_end)
_OPENERS = union_of(lambda language: language.sentences.openers)


def split_sentences(text: str) -> list[Span]:
    """Cut `text` into sentences.

    A newline always ends a sentence. Spans are in order, do not overlap, begin
    and end with a character that is not white space, and leave out nothing but
    white space.
    """
    spans: list[Span] = []
    # Of the sentence under way: where its first character is, and how many quotes it has up to
    # `counted`. A sentence without an end is read once, not once for each of its stops.
    first, counted, quotes = _first(text, 0), 0, {'"': 0, "'": 0}

    def close(end: int) -> None:
        nonlocal first, counted
        body = text[first:end].rstrip()
        if body:
            spans.append(Span(first, first + len(body)))
        if first < end:
            first = _first(text, end)
        counted = end
        quotes.update(dict.fromkeys(quotes, 0))

    for match in _CANDIDATE.finditer(text):
        if match[0] == "\n":
            close(match.start())
            continue
        end = match.end("closers")
        closers = match["closers"]
        # A straight quote after the stop may open the next sentence: "…。"你好" against "…。" 你好.
        if closers.endswith(('"', "'")) and not match["gap"]:
            for quote in quotes:
                quotes[quote] += text.count(quote, counted, end)
            counted = end
            if quotes[closers[-1]] % 2:
                end -= 1
                closers = closers[:-1]
        if _ends(text, first, match, closers, end):
            close(end)
    close(len(text))
    return spans


def _ends(text: str, first: int, match: re.Match[str], closers: str, end: int) -> bool:
    after = text[match.end() : match.end() + 1] if match["gap"] else text[end : end + 1]
    if not after or after == "\n":
        return True
    if after in "，、,;:；：)）」』”’】》〉…—":
        return False
    # An aside that closes inside its sentence: 他（真的吗？）走了.
    if closers and closers[-1] in ")）】]" and text[first] not in "(（【[":
        return False
    mark = match["mark"]
    if _FULL_STOP.search(mark):
        # English writes … too, and goes on in lower case after it.
        return not (set(mark) == {"…"} and (after.islower() or after.isdigit()))
    if mark[-1] in "!?":
        return _is_han(after) or (bool(match["gap"]) and not after.islower())
    return _stop_ends(text, first, match, after)


def _stop_ends(text: str, first: int, match: re.Match[str], after: str) -> bool:
    """Whether a full stop of the Latin script ends the sentence."""
    at = match.start()
    if at - first <= _LONGEST_MARKER and _LIST_MARKER.fullmatch(text, first, at):
        return False
    if not match["gap"]:
        # Chinese with Latin stops: 我用RAG.它很好. A name such as Node.js goes on in Latin.
        return _is_han(after) and not text[at - 1 : at].isdigit()
    if after.islower():
        return False
    if len(match["mark"]) > 1:
        return True
    preceding = _WORD_BEFORE.search(text, max(first, at - 24), at)
    word = preceding[0] if preceding else ""
    key = word.lower()
    if key in _ABBREVIATIONS:
        return False
    if key in _BEFORE_NUMBER and after.isdigit():
        return False
    if key in _AT_END or _INITIALS.fullmatch(word):
        following = _WORD_AFTER.match(text, match.end())
        return following is not None and following[0].lower() in _OPENERS
    return True


def _first(text: str, start: int) -> int:
    """Offset of the first character from `start` on that is not white space."""
    match = _NOT_BLANK.search(text, start)
    return match.start() if match else len(text)


def _is_han(char: str) -> bool:
    return "\u3400" <= char <= "\u9fff" or char >= "\U00020000"


def told_and_asked(question: str) -> tuple[str, str]:
    """What a question tells before it asks, "" for nothing, and the sentences that ask.

    "The head teacher has rung." and "What does a school pay?"
    """
    text = " ".join(question.split())
    spans = [text[span.start : span.end].strip() for span in split_sentences(text)]
    asking = list(takewhile(_asks, reversed(spans)))[::-1]
    told = spans[: len(spans) - len(asking)]
    if not asking or any(map(_asks, told)):
        return "", text
    return " ".join(told), " ".join(asking)


def _asks(sentence: str) -> bool:
    """Whether it ends as a question does: "May I?!"."""
    return sentence.rstrip("!！\"”’'」』").endswith(("?", "？"))
