"""Whether the text layer of a page says what the page shows, judged from the text alone.

A PDF shows glyphs, and may map them to no characters or to wrong ones: to codes counted from the
first glyph used, to codes shifted by a constant, to private ones. Such text is like no language
and no other honest text. What is asked of it, font by font:

- unmapped: characters that stand for nothing (U+FFFD, private, unassigned, control).
- signs: pairs of characters that prose, code, formulas and tables of numbers hardly have.
- letters: letters as unevenly frequent as in a language, whose pairs fit English no better than
  the same text does with its letters exchanged at random (a permutation test). All languages in
  Latin letters that were tried fit far better; codes, checksums and sequences are told apart by
  the evenness of their letters (index of coincidence, W. F. Friedman, 1922).
- accents: more accented letters and signs than any language has.
- scripts: letters of many scripts beside each other.
- characters: Chinese characters or Korean syllables of which most are not in everyday use.
- words: Chinese characters that hardly make words.

Other scripts are judged by the first only. This is a suspicion: recognition settles it
(`sample.py`), and it alone finds text under a picture that shows something else ("picture").
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from localrag.text.han import HAN, SIMPLIFIED

Reason = Literal[
    "unmapped", "signs", "letters", "accents", "scripts", "characters", "words", "picture"
]


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why a page's text is not trusted, and the share of its characters that this concerns."""

    reason: Reason
    share: float
    fonts: frozenset[str]
    """Whose text it is."""

    @property
    def certain(self) -> bool:
        """Whether nothing needs to be compared: there is no text to speak of."""
        return self.reason == "unmapped" and self.share >= 0.5


LEAST_SHARE = 0.1
"""Of a page's characters; a formula or a row of symbols is less."""
LEAST = 20
"""Characters."""
LEAST_PAIRS = 100
"""Of characters or letters, for their statistics."""


def judge(fonts: Mapping[str, str]) -> Doubt | None:
    """The doubt about a page's text, given by font as the PDF has it, its lines parted by newlines.

    None where the text is as honest text is, or too little to tell.
    """
    total = sum(len("".join(text.split())) for text in fonts.values())
    reasons: Counter[Reason] = Counter()
    doubtful = set()
    for font, text in fonts.items():
        reason, count = _doubt(text)
        if reason is not None and count:
            reasons[reason] += count
            doubtful.add(font)
    if not reasons and len(fonts) > 1:  # with little text each
        reason, count = _doubt("\n".join(fonts.values()))
        if reason is not None:
            reasons[reason], doubtful = count, set(fonts)
    share = reasons.total() / total if total else 0.0
    enough = reasons.total() >= LEAST and share >= LEAST_SHARE
    # Nothing to read at all is nothing to trust, however little it is.
    if not enough and (not total or reasons["unmapped"] < 0.5 * total):
        return None
    return Doubt(reasons.most_common(1)[0][0], share, frozenset(doubtful))


def _doubt(text: str) -> tuple[Reason | None, int]:
    """What is wrong with a font's text, and with how many of its characters."""
    seen = Counter("".join(text.split()))
    size = seen.total()
    unmapped = sum(count for character, count in seen.items() if _is_unmapped(character))
    if unmapped > 0.1 * size:
        return "unmapped", unmapped
    if size < LEAST:
        return None, 0
    if _surprise(text) > MOST_SURPRISE:
        return "signs", size
    if _are_no_words(text):
        return "letters", size
    if text.isascii():
        return None, 0
    if _accents(seen) > MOST_ACCENTS * size:
        return "accents", size
    if _foreign(seen) > 0.1 * size:
        return "scripts", size
    if _are_rare(seen):
        return "characters", size
    if _in_words(text) < LEAST_IN_WORDS:
        return "words", size
    return None, 0


@cache
def _is_unmapped(character: str) -> bool:
    # Most symbol fonts put their bullets and signs into this block of the private use area.
    if "\uf020" <= character <= "\uf0ff":
        return False
    return character == "\ufffd" or unicodedata.category(character) in ("Cc", "Cn", "Co", "Cs")


# Pairs of characters

_SIGNS = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
KINDS = 5 + len(_SIGNS)
"""White space, small letters, capitals, digits, each sign of ASCII, and those of Latin-1."""


def _kind(code: int) -> int:
    character = chr(code)
    if character.isspace():
        return 0
    if character.isalpha():
        return 1 if character.islower() else 2
    if "0" <= character <= "9":
        return 3
    return 4 + _SIGNS.index(character) if character in _SIGNS else KINDS - 1


_KIND = np.array([KINDS, *map(_kind, range(1, 256))])
_SPACE = re.compile(r"\s+")
_OTHER = re.compile("[^\x01-\xff]")
_REPEATED = re.compile(r"(.)\1+")

MOST_SURPRISE = 6.0
"""Bits a pair. Honest text of all kinds has less, and nearly all less than 5; random characters
of an encoding (base85) have 6.8, codes counted from the first glyph 6.5 to 10."""


def follows(text: str) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The kinds of neighbouring characters, none for other scripts; leaders count once."""
    plain = _REPEATED.sub(r"\1", _OTHER.sub("\0", _SPACE.sub(" ", text)))
    kinds = _KIND[np.frombuffer(plain.encode("latin-1"), np.uint8)]
    before, after = kinds[:-1], kinds[1:]
    known = (before < KINDS) & (after < KINDS)
    return before[known], after[known]


def _surprise(text: str) -> float:
    """How unusual its pairs of characters are, in bits; 0 for too few."""
    before, after = follows(text)
    return float(_FOLLOWS[before, after].mean()) if len(before) >= LEAST_PAIRS else 0.0


# Pairs of letters

_WORDS = re.compile(r"(?<![a-z])[a-z]{3,20}(?![a-z])")


def letters(text: str) -> NDArray[np.float64]:
    """How often each Latin letter follows each other one in the words of the text, 26 x 26."""
    pairs = np.zeros((26, 26))
    codes = np.frombuffer(" ".join(_WORDS.findall(text.lower())).encode("ascii"), np.uint8)
    before, after = codes[:-1].astype(np.intp) - 97, codes[1:].astype(np.intp) - 97
    inside = (before >= 0) & (after >= 0)
    np.add.at(pairs, (before[inside], after[inside]), 1)
    return pairs


LEAST_FIT = 1.7
"""Standard deviations. 30 languages in Latin letters have 2.4 and more at 120 pairs, and 3 at
1000; English 4 and more; letters that were exchanged or shifted 0, give or take one."""


def _are_no_words(text: str) -> bool:
    pairs = letters(text)
    single = pairs.sum(axis=1)
    count = single.sum()
    if count < LEAST_PAIRS:
        return False
    coincidence = (single * (single - 1)).sum() / (count * (count - 1))
    if not 0.05 < coincidence < 0.11:  # random letters have .038, the four of DNA .25
        return False
    scores = -(_EXCHANGED @ pairs.ravel())
    score = -(_LETTERS * pairs).sum()
    return bool(score - scores.mean() < LEAST_FIT * scores.std())


# Other characters

MOST_ACCENTS = 0.4
"""Of the characters; Vietnamese has .25 outside ASCII, and fewer of them are in these blocks."""


def _accents(seen: Counter[str]) -> int:
    return sum(
        count
        for letter, count in seen.items()
        if "\xa1" <= letter <= "\u024f" and letter not in "·×"
    )


def _foreign(seen: Counter[str]) -> int:
    """How many letters are of other scripts than the one that the text has most of.

    Beside it stand Latin, Greek, Chinese, Japanese and Korean.
    """
    scripts: Counter[str] = Counter()
    for character, count in seen.items():
        scripts[_script(character)] += count
    del scripts[""]
    return scripts.total() - max(scripts.values(), default=0)


@cache
def _script(character: str) -> str:
    if character <= "\u024f" or not character.isalpha():
        return ""
    script = unicodedata.name(character, "").partition(" ")[0]
    return "" if script in _COMMON else script


_COMMON_SCRIPTS = """
    LATIN GREEK CJK HIRAGANA KATAKANA HALFWIDTH FULLWIDTH HANGUL BOPOMOFO KANGXI MATHEMATICAL
    MODIFIER SCRIPT DOUBLE-STRUCK BLACK-LETTER FEMININE MASCULINE KATAKANA-HIRAGANA
"""
_COMMON = frozenset(_COMMON_SCRIPTS.split())

MOST_RARE = 0.25
"""Of the Chinese characters and Korean syllables: everyday text has .02, names and classics .10;
chance .65 and more."""


def _are_rare(seen: Counter[str]) -> bool:
    """Whether many characters are not among the everyday ones of any national set.

    GB 2312, Big5 and JIS X 0208 call them level 1; for Korean, KS X 1001 has them all.
    """
    used = {
        letter: count
        for letter, count in seen.items()
        if "\u3400" <= letter <= "\u9fff" or "\uac00" <= letter <= "\ud7a3"
    }
    total = sum(used.values())
    return total >= LEAST and all(
        sum(count for letter, count in used.items() if not _is_everyday(letter, charset))
        > MOST_RARE * total
        for charset in ("gb2312", "big5", "euc_jp")
    )


_LAST_OF_LEVEL_1 = {"gb2312": 0xD7, "big5": 0xC6, "euc_jp": 0xCF, "euc_kr": 0xC8}


@cache
def _is_everyday(character: str, charset: str) -> bool:
    if character >= "\uac00":
        charset = "euc_kr"
    try:
        code = character.encode(charset)
    except UnicodeEncodeError:
        return False
    return len(code) == 2 and code[0] <= _LAST_OF_LEVEL_1[charset]


LEAST_IN_WORDS = 0.2
"""Of at least 40 Chinese characters; running text has .6, chance .05."""
_HAN_RUN = re.compile(f"[{HAN}]{{5,}}")  # names in a list are shorter
_KANA = re.compile(r"[\u3041-\u30ff]")


def _in_words(text: str) -> float:
    """The share of Chinese characters in words of two and more; 1 where there is nothing to say."""
    runs = _HAN_RUN.findall(unicodedata.normalize("NFKC", text).translate(SIMPLIFIED))
    count = sum(map(len, runs))
    if count < 40 or _KANA.search(text):
        return 1.0
    import rjieba  # its dictionary takes 0.1 s

    words = (word for run in runs for word in rjieba.cut(run, False))
    return sum(len(word) for word in words if len(word) > 1) / count


# How often letters follow each other in words, and kinds of characters each other, as
# `scripts/text_statistics.py` counts it.


def _table(rows: str) -> NDArray[np.float64]:
    return np.array([[int(digit, 32) / 2 for digit in row] for row in rows.split()])


_LETTERS, _FOLLOWS = map(
    _table, files(__package__).joinpath("pairs.txt").read_text("ascii").strip().split("\n\n")
)
_EXCHANGED = np.stack(
    [
        _LETTERS[np.ix_(order, order)].ravel()
        for order in map(np.random.default_rng(26).permutation, [26] * 200)
    ]
)
"""The letters exchanged at random."""
