"""Which language a passage or a question is written in.

Counts characters and function words; no model, no randomness. A language with letters of its own
shows by these; of Chinese and English, which are used in one text, the grammar decides. A language
without a record in `localrag.languages` counts as the one whose script it shares.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from localrag.languages import LANGUAGES, DetectedLanguage, LanguageCode
from localrag.languages.en import ENGLISH
from localrag.languages.zh import CHINESE
from localrag.text.han import HAN, SIMPLIFIED

_HAN_CHARACTER = re.compile(f"[{HAN}]")
_LATIN_WORD = re.compile(r"[A-Za-z\u00c0-\u024f]+(?:['’][A-Za-z]+)?")
_CHINESE_PUNCTUATION = re.compile(r"[\u3001-\u303f\uff01-\uff1f]")
_CHINESE_GRAMMAR = re.compile(CHINESE.detection.grammar)
_ENGLISH_OPENING = re.compile(ENGLISH.detection.opening, re.IGNORECASE)
_WISHES = {
    code: re.compile(language.detection.wish, re.IGNORECASE)
    for code, language in LANGUAGES.items()
    if language.detection.wish
}
_CHARACTERS = {
    code: re.compile(f"[{language.detection.characters}]")
    for code, language in LANGUAGES.items()
    if language.detection.characters
}
"""Of languages that no other language shares its letters with."""

_CHARACTERS_SHARE = 0.1
"""The least share of these among the letters of a text in such a language."""

_CHARACTERS_A_WORD = 1.7
"""A Chinese word of running text has about so many characters; makes the shares comparable."""

_CLEAR_SHARE = 0.7
"""A language with this share of the words owns the passage; below it both do."""

_TERMS_SHARE = 0.2
"""A list of English terms with fewer Chinese words than this is English."""


_RUNNING_TEXT = 20
"""Words from which on a text tells its language."""


_GRAMMAR_SHARE = 0.05
"""The least share of these in English prose, however terse."""


def detect(text: str) -> DetectedLanguage:
    """Tell the language of a passage or a question.

    Terms of the other language do not count against it: grammar decides, so
    "RAG 是什么？" is Chinese, "What does 人工智能 mean?" English. "mixed" is a text
    with sentences of both. Without any letters, Chinese punctuation makes it
    Chinese, anything else English.
    """
    for code, characters in _CHARACTERS.items():
        if len(characters.findall(text)) > _CHARACTERS_SHARE * sum(map(str.isalpha, text)):
            return code
    chinese = len(_HAN_CHARACTER.findall(text)) / _CHARACTERS_A_WORD
    words = _LATIN_WORD.findall(text)
    if not chinese or not words:
        if chinese or (not words and _CHINESE_PUNCTUATION.search(text)):
            return "zh"
        return "en"
    share = chinese / (chinese + len(words))
    english_grammar = sum(word.lower() in ENGLISH.detection.grammar_words for word in words)
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


def shares(texts: Iterable[str]) -> dict[LanguageCode, float]:
    """How much of the texts is in a language, in [0, 1], the largest share first.

    All are 0 without any text.

    Texts of a few words, as of tables, are not asked. What is written in Latin letters and hardly
    has an English function word is neither: German, say, or code. Half of a mixed text is each.
    """
    counts: dict[LanguageCode, float] = dict.fromkeys(LANGUAGES, 0.0)
    text_count = 0
    for text in texts:
        words = [word.lower() for word in _LATIN_WORD.findall(text)]
        if len(words) + len(_HAN_CHARACTER.findall(text)) / _CHARACTERS_A_WORD < _RUNNING_TEXT:
            continue
        text_count += 1
        language = detect(text)
        if language == "mixed":
            counts[ENGLISH.code] += 0.5
            counts[CHINESE.code] += 0.5
        elif language != ENGLISH.code or _is_english(words):
            counts[language] += 1
    most_first = sorted(counts.items(), key=lambda item: -item[1])
    return {code: count / (text_count or 1) for code, count in most_first}


def _is_english(words: Sequence[str]) -> bool:
    grammar = ENGLISH.detection.only_grammar_words
    return sum(word in grammar for word in words) > _GRAMMAR_SHARE * len(words)


def answer_language(question: str) -> LanguageCode:
    """Tell the language in which a question wants its answer.

    A wish such as "用中文回答" or "answer in English" is granted. Where both
    languages are in use, an English opening ("What", "Please explain") makes it
    English; otherwise the English part is a title or a quotation.
    """
    simplified = question.translate(SIMPLIFIED)
    wishes = {code: wish.search(simplified) for code, wish in _WISHES.items()}
    if granted := {code: wish.start() for code, wish in wishes.items() if wish}:
        return min(granted, key=granted.__getitem__)
    language = detect(question)
    if language == "mixed":
        return ENGLISH.code if _ENGLISH_OPENING.match(question) else CHINESE.code
    return language


def main_language(text: str) -> LanguageCode:
    """The language of a text; of one with sentences of Chinese and English, Chinese."""
    language = detect(text)
    return CHINESE.code if language == "mixed" else language


def are_foreign(first: DetectedLanguage, other: DetectedLanguage) -> bool:
    """Whether texts in these languages share no words: they differ, and neither is mixed."""
    return first != other and "mixed" not in (first, other)
