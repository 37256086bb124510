"""Which language a passage or a question is written in: Chinese or English.

Counts characters and function words; no model, no randomness. Other languages
are out of scope: they count as the one whose script they share.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal

from localrag.text.han import HAN, SIMPLIFIED

Language = Literal["zh", "en"]

_HAN_CHARACTER = re.compile(f"[{HAN}]")
_LATIN_WORD = re.compile(r"[A-Za-z\u00c0-\u024f]+(?:['’][A-Za-z]+)?")
_CHINESE_PUNCTUATION = re.compile(r"[\u3001-\u303f\uff01-\uff1f]")

_CHINESE_GRAMMAR = re.compile(
    "[的是了在和与吗呢吧有不这那请被把对从将会能我你他她它们及或也就都于谁哪几怎]"
    "|什么|如何|多少|为何|是否|可以|介绍|解释|说明|哪里"
)
_ENGLISH_GRAMMAR_WORDS = """
a an the and or but if as at by for from in into of on to with than that this these those there is
are was were be been do does did has have had can could will would should may might must not it its
they their he she his her we our you your i my me what which who whom whose when where why how mean
means meant between about
"""
_ENGLISH_GRAMMAR = frozenset(_ENGLISH_GRAMMAR_WORDS.split())
_ENGLISH_OPENING = re.compile(
    r"\W*(?:what|which|who|whom|whose|when|where|why|how|is|are|was|were|do|does|did|can|could|"
    r"will|would|should|has|have|may|please|explain|describe|define|tell|give|list|name|"
    r"summari[sz]e|translate|compare|find|show|in|according|i|we)(?:'s|’s)?\s",
    re.IGNORECASE,
)

_WISH = re.compile(
    r"(?P<zh>用(?:中文|汉语|普通话)|(?:answer|reply|respond) in (?:(?:simpl|trad)\w+ )?chinese)"
    r"|(?P<en>用(?:英文|英语)|(?:answer|reply|respond) in english)",
    re.IGNORECASE,
)

_CHARACTERS_A_WORD = 1.7
"""A Chinese word of running text has about so many characters; makes the shares comparable."""

_CLEAR_SHARE = 0.7
"""A language with this share of the words owns the passage; below it both do."""

_TERMS_SHARE = 0.2
"""A list of English terms with fewer Chinese words than this is English."""


_RUNNING_TEXT = 20
"""Words from which on a text tells its language."""


_ONLY_ENGLISH = _ENGLISH_GRAMMAR - frozenset(
    ["a", "an", "as", "at", "has", "he", "in", "is", "me", "of", "on", "or", "was", "we", "will"]
)
"""Those of the function words that German, Dutch and French do not have."""

_GRAMMAR_SHARE = 0.05
"""The least share of these in English prose, however terse."""


def detect(text: str) -> Literal["zh", "en", "mixed"]:
    """Tell the language of a passage or a question.

    Terms of the other language do not count against it: grammar decides, so
    "RAG 是什么？" is Chinese, "What does 人工智能 mean?" English. "mixed" is a text
    with sentences of both. Without any letters, Chinese punctuation makes it
    Chinese, anything else English.
    """
    chinese = len(_HAN_CHARACTER.findall(text)) / _CHARACTERS_A_WORD
    words = _LATIN_WORD.findall(text)
    if not chinese or not words:
        if chinese or (not words and _CHINESE_PUNCTUATION.search(text)):
            return "zh"
        return "en"
    share = chinese / (chinese + len(words))
    english_grammar = sum(word.lower() in _ENGLISH_GRAMMAR for word in words)
    chinese_grammar = len(_CHINESE_GRAMMAR.findall(text.translate(SIMPLIFIED)))
    # A title or a quotation has a function word too; a language in use has one word in ten.
    english_used = english_grammar > 0.1 * len(words)
    chinese_used = chinese_grammar > 0.1 * chinese
    if english_used != chinese_used:
        if english_used:
            return "en" if share < _CLEAR_SHARE else "zh"
        return "zh" if share > 1 - _CLEAR_SHARE else "en"
    if english_used:
        if share >= _CLEAR_SHARE:
            return "zh"
        return "en" if share <= 1 - _CLEAR_SHARE else "mixed"
    # Terms only: whoever writes Chinese characters reads Chinese.
    return "en" if share < _TERMS_SHARE or _ENGLISH_OPENING.match(text) else "zh"


def shares(texts: Iterable[str]) -> dict[Literal["zh", "en"], float]:
    """How much of the texts is Chinese, and English, each in [0, 1]; both 0 without any text.

    Texts of a few words, as of tables, are not asked. What is written in Latin letters and hardly
    has an English function word is neither: German, say, or code. Half of a mixed text is each.
    """
    found = {"zh": 0.0, "en": 0.0}
    asked = 0
    for text in texts:
        words = [word.lower() for word in _LATIN_WORD.findall(text)]
        if len(words) + len(_HAN_CHARACTER.findall(text)) / _CHARACTERS_A_WORD < _RUNNING_TEXT:
            continue
        asked += 1
        language = detect(text)
        if language == "mixed":
            found = {name: share + 0.5 for name, share in found.items()}
        elif language == "zh" or _is_english(words):
            found[language] += 1
    return {"zh": found["zh"] / (asked or 1), "en": found["en"] / (asked or 1)}


def _is_english(words: Sequence[str]) -> bool:
    return sum(word in _ONLY_ENGLISH for word in words) > _GRAMMAR_SHARE * len(words)


def answer_language(question: str) -> Language:
    """Tell the language in which a question wants its answer.

    A wish such as "用中文回答" or "answer in English" is granted. Where both
    languages are in use, an English opening ("What", "Please explain") makes it
    English; otherwise the English part is a title or a quotation.
    """
    if wish := _WISH.search(question.translate(SIMPLIFIED)):
        return "zh" if wish["zh"] else "en"
    language = detect(question)
    if language == "mixed":
        return "en" if _ENGLISH_OPENING.match(question) else "zh"
    return language
