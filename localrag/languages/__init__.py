"""The languages of documents, questions and answers, one record each.

A third one is a record beside these, its code in `LanguageCode` (`base.py`), its line here and its
prompts: CONTRIBUTING has the recipe, and `tests/languages/test_recipes.py` follows it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeGuard

from localrag.languages.base import DetectedLanguage, Language, LanguageCode
from localrag.languages.en import ENGLISH
from localrag.languages.zh import CHINESE

__all__ = [
    "CODES",
    "LANGUAGES",
    "DetectedLanguage",
    "Language",
    "LanguageCode",
    "any_of",
    "is_code",
    "is_spaced",
    "union_of",
]

LANGUAGES: Mapping[LanguageCode, Language] = {
    language.code: language for language in (ENGLISH, CHINESE)
}
CODES: tuple[LanguageCode, ...] = tuple(LANGUAGES)


def is_code(code: str | None) -> TypeGuard[LanguageCode]:
    """Whether this is the code of one of the languages: not "mixed", and nothing else."""
    return code in LANGUAGES


def is_spaced(language: str) -> bool | None:
    """Whether blanks stand between the words of a language; None for a mixed or unknown one."""
    return bool(LANGUAGES[language].space) if is_code(language) else None


def any_of(pattern: Callable[[Language], str]) -> str:
    """What one of the languages matches: their patterns as alternatives, for `re.compile`.

    `pattern` picks it: `any_of(lambda language: language.denial)`. Those that are empty are left
    out; where all are, the pattern matches nothing.
    """
    return "|".join(filter(None, map(pattern, LANGUAGES.values()))) or "(?!)"


def union_of(words: Callable[[Language], frozenset[str]]) -> frozenset[str]:
    """The words of all languages."""
    return frozenset[str]().union(*map(words, LANGUAGES.values()))
