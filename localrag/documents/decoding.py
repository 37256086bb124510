"""Bytes of a text file -> text, for the encodings that Chinese and English files come in.

charset-normalizer alone takes short GB18030 texts for Big5, Korean or Cyrillic
ones, so the Chinese encodings are weighed here by how common the resulting
characters are, and it is asked only when none of them fits.
"""

from __future__ import annotations

import codecs
from functools import cache

from localrag.documents.formats.table import SourceFile
from localrag.documents.lines import empty
from localrag.errors import CorruptFileError, UnsupportedFileError

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

_WEB = """
    utf-8 cp866 cp874 cp932 cp949 euc_jp iso2022_jp gb18030 big5hkscs koi8-r koi8-u mac-roman
    mac-cyrillic cp1250 cp1251 cp1252 cp1253 cp1254 cp1255 cp1256 cp1257 cp1258 iso8859-2 iso8859-3
    iso8859-4 iso8859-5 iso8859-6 iso8859-7 iso8859-8 iso8859-10 iso8859-13 iso8859-14 iso8859-15
    iso8859-16
"""
_OF_THE_WEB = {name: name for name in _WEB.split()} | {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "big5": "big5hkscs",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
}
"""Python's codecs that are encodings of the WHATWG Encoding Standard, and by which of them a
browser reads each. UTF-16 has a mark, or is told by its zeros. With any other (UTF-7, IDNA, ROT13),
a text would be read that no browser shows."""

_SAMPLE = 20_000
"""Characters beyond ASCII that are weighed; more do not change the verdict."""

_MOST_COMMON = frozenset(
    "的一是不了在人有我他这这个們们中来來上大为為和国國地到以说說时時要就出会會可也你对對生能而子"
    "那得于於着著下自之年过過发發后後作里裡用道行所然家种種事成方多经經么麼去法学學如都同现現当當没沒动動面起看"
    "定天分还還进進好小部其些主样樣理心她本前开開但因只从從想实實日军軍者意无無力它与與长長把机機十民第公此已"
    "工使情明性知全三又关關点點正业業外将將两兩高间間由问問很最重并並物手应應战戰向头頭文体體政美相见見被利什"
    "二等产產或新己制身果加西斯月话話合回特代内內信表化老给給世位次度门門任常先海通教儿兒原东東声聲提立及比员員"
    "解水名真论論处處走义義各入几幾口认認条條平系气氣题題活尔爾更别別打女变變四神总總何电電数數安少报報才结結"
    "反受目太量再感建务務做接必场場件计計管期市直德资資命山金指许許统統区區保至队隊形社便空决決治展马馬科司五"
    "基眼书書非则則听聽白却卻界达達光放强強即像难難且权權思王象完设設式色路记記南品住告类類求据據程北边邊死张張"
    "该該交规規万萬取拉格望觉覺术術领領共确確传傳师師观觀清今切院让讓识識候带帶导導争爭运運请請型网網技图圖据數"
    "，。、：；？！「」『』（）《》“”‘’…—"
)


def decode_declared(data: bytes, label: str) -> str | None:
    """The text of `data` in the encoding that a web page declares; None where that is not it.

    `label` is what the page says: None also for whatever is no encoding of the web.
    """
    try:
        encoding = _OF_THE_WEB[codecs.lookup(label).name]
    except (LookupError, ValueError):
        return None
    return _exactly(data, encoding)


def _exactly(data: bytes, encoding: str) -> str | None:
    """The text of `data`, None where a byte does not fit."""
    try:
        return data.decode(encoding)
    except UnicodeError:
        return None


def decode(file: SourceFile) -> str:
    """Return the text of a file.

    Byte order marks first, then UTF-8, UTF-16 without a mark, GB18030 or Big5,
    and last whatever charset-normalizer finds. A few broken bytes become
    U+FFFD. Raises EmptyFileError, UnsupportedFileError for a binary file and
    CorruptFileError where no encoding fits.
    """
    data = file.data
    if not data.strip(b" \t\r\n\0"):
        raise empty(file.source)
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, errors="replace")
    wide = _utf16_encoding(data)
    if wide is not None:
        return data.decode(wide, errors="replace")
    if _is_binary(data):
        raise UnsupportedFileError(
            "{source} is not a text file: it contains binary data.",
            hint="Save it as PDF, Office file, text or picture and add that: `localrag doctor` "
            "lists all types.",
            source=file.source,
        )
    text = _utf8(data)
    if text is not None:
        return text
    score, text = max(((weigh(text), text) for text in _chinese(data)), default=(-2.0, ""))
    if score >= _CHINESE:
        return text
    return _other(file, score, text)


_CHINESE = 0.35
"""The least weight of a Chinese reading, from 2 (only the most common characters) down."""


def _chinese(data: bytes) -> list[str]:
    """The data as GB18030 and as Big5, where that leaves next to nothing broken."""
    texts = [data.decode(encoding, errors="replace") for encoding in ("gb18030", "big5hkscs")]
    return [text for text in texts if text.count("\ufffd") <= 0.005 * _beyond(text)]


def _utf8(data: bytes) -> str | None:
    """The data as UTF-8; with single broken bytes if they are rare enough to be damage."""
    if (exact := _exactly(data, "utf-8")) is not None:
        return exact
    text = data.decode("utf-8", errors="replace")
    beyond, broken = _beyond(text), text.count("\ufffd")
    return text if broken < 0.02 * beyond or (broken <= 2 and beyond >= 20) else None


def _beyond(text: str) -> int:
    """How many of its characters are beyond ASCII."""
    return len(text) - len(text.encode("ascii", "ignore"))


def _utf16_encoding(data: bytes) -> str | None:
    """Which UTF-16 the data is in, None if it is not: told by zeros, or by common characters."""
    if len(data) % 2:
        return None
    sample = data[: 2 * _SAMPLE]
    zeros = (sample[0::2].count(0), sample[1::2].count(0))
    half = len(sample) // 2
    if max(zeros) > 0.4 * half and min(zeros) < 0.05 * half:
        return "utf-16-be" if zeros[0] > zeros[1] else "utf-16-le"
    if _exactly(sample, "utf-8") is not None:
        return None
    best: tuple[float, str] = (0.9, "")
    for encoding in ("utf-16-le", "utf-16-be"):
        if (text := _exactly(sample, encoding)) is not None:
            best = max(best, (weigh(text), encoding))
    return best[1] or None


def looks_like_text(start: bytes) -> bool:
    """Whether a file that begins with these bytes may be text: not for sure, but cheaply."""
    if not start.strip(b" \t\r\n\0"):
        return False
    return any(start.startswith(mark) for mark, _ in _MARKS) or not _is_binary(start)


def _is_binary(data: bytes) -> bool:
    sample = data[:65536]
    controls = sum(sample.count(byte) for byte in (*range(1, 7), *range(14, 27), *range(28, 32)))
    return sample.count(0) > 0 or controls > 0.01 * len(sample)


@cache
def _weight(character: str) -> float:
    """How likely a character is in Chinese text, either script: 2 common, 1 usual, below 0 rare."""
    if character in _MOST_COMMON:
        return 2.0
    code = ord(character)
    if 0x4E00 <= code <= 0x9FFF:
        # The first levels of GB 2312 and of Big5 are the characters in everyday use.
        for encoding, last in (("gb2312", 0xD7), ("big5", 0xC6)):
            try:
                if character.encode(encoding)[0] <= last:
                    return 1.0
            except UnicodeEncodeError:
                continue
        return -1.0
    if 0x3000 <= code <= 0x303F or 0xFF00 <= code <= 0xFF5E or 0x2010 <= code <= 0x2040:
        return 0.5
    if 0x2460 <= code <= 0x25FF or code in (0xB7, 0xD7, 0xB0, 0xB1):
        return 0.0
    return -2.0


def weigh(text: str) -> float:
    """The mean likelihood of the text's characters beyond ASCII, from -2 to 2, as Chinese.

    Control characters and ASCII letters count for nothing.
    """
    beyond = [c for c in text[: 4 * _SAMPLE] if not c.isascii()][:_SAMPLE]
    controls = sum(1 for c in text[: 4 * _SAMPLE] if c < " " and c not in "\t\n\r\f")
    if not beyond:
        return -2.0
    return (sum(map(_weight, beyond)) - 2 * controls) / (len(beyond) + controls)


_WESTERN_SIGNS = "‘’“”–—…•€£¥§©®°±·½¼¾²³×÷«»¿¡™\xa0\xad"


def _other(file: SourceFile, score: float, chinese: str) -> str:
    from charset_normalizer import from_bytes

    data = file.data
    western = data.decode("cp1252", errors="replace")
    signs = {c for c in set(western) if not c.isascii() and not c.isalpha()}
    if _beyond(western) < 0.2 * len(data) and signs <= set(_WESTERN_SIGNS):
        return western  # charset-normalizer tends elsewhere where there is little to go by
    known = sorted({name.replace("-", "_") for name in _OF_THE_WEB.values()})
    match = from_bytes(data[: 4 * _SAMPLE], cp_isolation=known).best()
    if match is not None:
        return data.decode(match.encoding, errors="replace")
    if score > 0:
        return chinese
    raise CorruptFileError(
        "localrag cannot tell how the text of {source} is encoded.",
        hint="Open it in an editor and save it as UTF-8.",
        source=file.source,
    )
