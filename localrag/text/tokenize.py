"""Terms of the keyword index: the same cut for documents and queries.

Chinese is cut by jieba's dictionary in search mode (a long word and the words
inside it) without the hidden Markov model, which cuts a name differently in
different sentences. Latin words are stemmed; codes such as GB/T3620.1 give the
whole and its parts. Knows nothing about ranking.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
import warnings
from collections.abc import Callable, Iterable
from functools import cache, cached_property, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from localrag.errors import ConfigError
from localrag.languages import union_of
from localrag.system.memory import kept
from localrag.text.han import HAN
from localrag.text.normalize import fold

_ALGORITHM = 1
"""Raise whenever the same text may give other terms than before."""

_LONGEST = 64
"""Code points of a term: longer ones are noise (base64, rulers) and bloat the index."""

_WORD = rf"[^\W_{HAN}]+"
PIECE = re.compile(
    rf"(?P<han>[{HAN}]+)"
    # A word or a code: GB/T3620.1, 2024-05-01, bge-m3, AT&T, don't, C++, C#.
    rf"|(?P<code>{_WORD}(?:['\-./_&@+]{_WORD})*(?:\+\+|\#(?!\w))?)"
)
# What stands between the signs of a code, then its letters and numbers; 3620.1 stays one.
_PARTS = re.compile(rf"{_WORD}(?:(?<=\d)\.(?=\d){_WORD})*")
_ATOMS = re.compile(r"\d+(?:\.\d+)*|[^\W\d_]+")
_GLUE = re.compile(r"(?<!\d)[\-/_&@+](?=\w)|(?<=\d)[\-/_&@+](?=[^\W\d])")
THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
"""The comma in 1,000."""

STOP_WORDS = union_of(lambda language: language.stop_words)
"""Words that carry the grammar of a sentence or a question, not its subject."""

_ACCENTS = {
    code: unicodedata.normalize("NFD", chr(code))[0]
    for first, last in ((0xC0, 0x24F), (0x1E00, 0x1EFF))
    for code in range(first, last + 1)
}


class Tokenizer:
    """Cuts a text into the terms that the keyword index counts.

    `user_dictionary` is a text file in jieba's format, a word a line, optionally
    with a frequency and a tag. It is read here; an unreadable one raises
    `ConfigError`. Segmenters load at the first Chinese character.
    """

    def __init__(self, user_dictionary: Path | None = None) -> None:
        self._words = _read_dictionary(user_dictionary) if user_dictionary else {}
        # A word with Latin letters in it is not one run of characters: found by itself.
        mixed = [word for word in self._words if not re.fullmatch(f"[{HAN}]+", word)]
        longest_first = sorted(mixed, key=lambda word: (-len(word), word))
        self._mixed = re.compile("|".join(map(re.escape, longest_first))) if mixed else None
        self._code_terms = kept(1 << 16)(_code_terms)

    def __call__(self, text: str) -> list[str]:
        """Return the terms of `text` in their order, repeated as often as they occur."""
        folded = THOUSANDS.sub("", fold(text))
        terms: list[str] = []
        for match in PIECE.finditer(folded):
            piece = match[0]
            if match.lastgroup == "han":
                terms.extend(word for word in self._cut(piece) if word not in STOP_WORDS)
            else:
                terms.extend(self._code_terms(piece))
        if self._mixed:
            terms.extend(self._mixed.findall(folded))
        return terms

    @cached_property
    def fingerprint(self) -> str:
        """Changes when the same text may give other terms: the index must then be rebuilt."""
        lines = [f"{word} {frequency}" for word, frequency in sorted(self._words.items())]
        parts = [f"terms {_ALGORITHM}", f"stemmer {version('PyStemmer')}"]
        parts += [f"jieba {version('jieba')}"] if lines else [f"rjieba {version('rjieba')}"]
        return hashlib.sha256("\n".join(parts + lines).encode()).hexdigest()[:16]

    @cached_property
    def _cut(self) -> Callable[[str], Iterable[str]]:
        if self._words:
            return partial(_segmenter(self._words).cut_for_search, HMM=False)
        import rjieba

        return partial(rjieba.cut_for_search, hmm=False)


def _read_dictionary(path: Path) -> dict[str, int | None]:
    """Words, folded, with their frequency where the file gives one."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            "The user dictionary {path} cannot be read: {reason}.",
            hint="Provide a UTF-8 text file with one word per line, or remove the setting.",
            path=path,
            reason=error,
        ) from error
    words: dict[str, int | None] = {}
    for line in text.splitlines():
        match = re.fullmatch(r"\s*(.+?)(?:\s+(\d+))?(?:\s+([a-z]+))?\s*", line)
        if match and (word := fold(match[1])):
            words[word] = int(match[2]) if match[2] else None
    return words


def _segmenter(words: dict[str, int | None]) -> Any:
    """What cuts as jieba does, with words of one's own."""
    with warnings.catch_warnings():
        # jieba 0.42 has invalid escapes in its patterns and imports pkg_resources.
        warnings.simplefilter("ignore")
        import jieba  # type: ignore[import-untyped]
    segmenter = jieba.Tokenizer()
    # jieba would unmarshal a cache file from the temporary folder, where anybody
    # may have put one, and log to stderr; parsing its dictionary avoids both.
    segmenter.FREQ, segmenter.total = segmenter.gen_pfdict(segmenter.get_dict_file())
    segmenter.initialized = True
    for word, frequency in words.items():
        segmenter.add_word(word, frequency)
    return segmenter


def _code_terms(code: str) -> tuple[str, ...]:
    """Terms of a Latin word, a number or a code: the whole first, then its parts."""
    if not code.isascii():
        code = code.translate(_ACCENTS)
    if code.replace("'", "").isalpha():
        return () if code in STOP_WORDS else (_stem(code)[:_LONGEST],)
    # covid-19 and covid19 give one whole; digits keep what stands between them.
    whole = _GLUE.sub("", code)
    parts = dict.fromkeys([whole, *_PARTS.findall(code), *_ATOMS.findall(code)])
    return tuple(
        _stem(part) if part.isalpha() else part
        for part in parts
        if part not in STOP_WORDS and len(part) <= _LONGEST
    )


def _stem(word: str) -> str:
    return str(_stemmer().stemWord(word)) if word.isascii() else word


@cache
def _stemmer() -> Any:
    import Stemmer  # type: ignore[import-not-found]

    return Stemmer.Stemmer("english", 0)  # what it keeps cannot be forgotten
