"""Two forms of a text: `clean` is what a person reads, `fold` is what is compared.

`clean` mends what a file format broke (radicals for characters, ligatures,
invisible characters) and leaves everything that a reader can see as it is.
`fold` also drops the differences that a reader does not mean: width, case,
traditional or simplified. Knows nothing about words or sentences.

A PDF may print the radical ⼾ for 户, 戶 or 戸: `clean` leaves such radicals to `mend_radicals`,
which needs a whole page or document to see its script.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from functools import cache
from typing import Any, Literal

from localrag.text.han import RADICAL_FORMS, RADICALS, SIMPLIFIED

Script = Literal["simplified", "traditional", "japanese"]


def _canonical(first: int, last: int) -> dict[int, str]:
    """NFKC of each character of a block, where it is another one."""
    table = {}
    for code in range(first, last + 1):
        mended = unicodedata.normalize("NFKC", chr(code))
        if mended != chr(code):
            table[code] = mended
    return table


def _each(replacement: str, *spans: tuple[int, int]) -> dict[int, str]:
    return {code: replacement for first, last in spans for code in range(first, last + 1)}


_RADICALS: dict[int, str | int] = {
    **_canonical(0x2F00, 0x2FD5),  # Kangxi radicals
    0x2FAD: "青",  # not 靑, an old form
    **RADICALS,
}
_HAS_FORMS = re.compile(f"[{''.join(map(chr, RADICAL_FORMS['simplified']))}]")

_CLEAN: dict[int, str | int] = {
    **{code: form for code, form in _RADICALS.items() if code not in RADICAL_FORMS["simplified"]},
    **_canonical(0xF900, 0xFAFF),  # CJK compatibility ideographs
    **_canonical(0x2F800, 0x2FA1F),  # and their supplement
    **_canonical(0xFB00, 0xFB06),  # Latin ligatures
    # Soft hyphen, grapheme joiner, zero-width, bidi, annotation, tag characters.
    **_each("", (0x00, 0x08), (0x0E, 0x1F), (0x7F, 0x84), (0x86, 0x9F), (0xAD, 0xAD)),
    **_each("", (0x034F, 0x034F), (0x061C, 0x061C), (0x180E, 0x180E), (0x200B, 0x200F)),
    **_each("", (0x202A, 0x202E), (0x2060, 0x206F), (0xFEFF, 0xFEFF), (0xFFF9, 0xFFFB)),
    **_each("", (0xE0000, 0xE007F)),
    **_each(" ", (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x202F, 0x202F)),
    **_each(" ", (0x205F, 0x205F), (0x3000, 0x3000)),
    **_each("\n", (0x0B, 0x0D), (0x85, 0x85), (0x2028, 0x2029)),
    **_each("\N{REPLACEMENT CHARACTER}", (0xD800, 0xDFFF)),  # UTF-8 cannot hold half a pair
}

_MARKS = 30
"""How many marks (accents, vowel signs) a character keeps."""

_FOLD: dict[int, str | int] = {
    **SIMPLIFIED,
    **RADICAL_FORMS["simplified"],
    **_each("", (0xFE00, 0xFE0F), (0xE0100, 0xE01EF)),  # variation selectors
    **dict.fromkeys(map(ord, "‘’‚‛′"), "'"),
    **dict.fromkeys(map(ord, "“”„‟"), '"'),
    **dict.fromkeys(map(ord, "‐‑‒–—―−"), "-"),
}


def clean(text: str) -> str:
    """Return the text as it should be stored and shown.

    Radicals (but see `mend_radicals`) and compatibility ideographs become the ordinary
    character, Latin ligatures their letters; soft hyphens, zero-width, bidi and control
    characters go (tab and newline stay); every kind of space becomes a space,
    every kind of line end a newline; accents are composed (NFC), of which a
    character keeps thirty. Punctuation,
    full-width letters and signs such as ① stay as they are.
    """
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    if text.isascii() and text.isprintable():
        return text
    return unicodedata.normalize("NFC", _bounded(text.translate(_CLEAN)))


def script_of(text: str) -> Script | None:
    """The script of a Chinese or Japanese text; None where its characters do not tell.

    Simplified is what GB 2312 has and Big5 has not, traditional the reverse; Japanese has kana.
    """
    seen = Counter(character for character in text[:_TELLS] if character >= "\u3041")
    kana = sum(count for character, count in seen.items() if character <= "\u30ff")
    han = {c: count for c, count in seen.items() if "\u4e00" <= c <= "\u9fff"}
    if kana > 0.1 * sum(han.values()):
        return "japanese"
    simplified = traditional = 0
    for character, count in han.items():
        in_gb, in_big5 = (_encodes(character, charset) for charset in ("gb2312", "big5"))
        simplified += count * (in_gb and not in_big5)
        traditional += count * (in_big5 and not in_gb)
    if simplified == traditional:
        return None
    return "simplified" if simplified > traditional else "traditional"


_TELLS = 20_000
"""Code points that are enough to tell a script."""


def _encodes(character: str, charset: str) -> bool:
    try:
        character.encode(charset)
    except UnicodeEncodeError:
        return False
    return True


def has_radicals(text: str) -> bool:
    """Whether `mend_radicals` would change the text."""
    return not text.isascii() and _HAS_FORMS.search(text) is not None


def mend_radicals(text: str, script: Script | None) -> str:
    """The text with the radicals that `clean` left as the script's own characters.

    As long as before. Where the script is not known, the character looks like the radical.
    """
    if not has_radicals(text):
        return text
    return text.translate(_RADICALS if script is None else RADICAL_FORMS[script])


def _bounded(text: str) -> str:
    """The text with bounded runs of marks, as in Unicode's Stream-Safe Text Format (UAX #15).

    Normalising sorts the marks of a character in time that grows with the square of their number.
    """
    return str(_too_many_marks().sub("", text)) if len(text) > _MARKS else text


@cache
def _too_many_marks() -> Any:
    import regex  # type: ignore[import-untyped]  # not needed for ASCII, which most commands see

    return regex.compile(rf"(?<=\p{{M}}{{{_MARKS}}})\p{{M}}+")


def fold(text: str) -> str:
    """Return the text for matching: equal where a reader sees the same words.

    `clean`, then NFKC, case folding, traditional to simplified characters, and
    curly quotes and dashes to their ASCII forms. Folding twice changes nothing.
    """
    text = clean(text)
    if text.isascii():
        return text.lower()
    text = unicodedata.normalize("NFKC", text).translate(_FOLD).casefold()
    return unicodedata.normalize("NFKC", text)
