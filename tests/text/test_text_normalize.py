import random
import unicodedata

import pytest

from localrag.text.han import RADICAL_FORMS, RADICALS, SIMPLIFIED
from localrag.text.normalize import clean, fold, mend_radicals, script_of

POOL = [
    chr(code)
    for first, last in (
        (0x00, 0x600),
        (0x900, 0x1000),
        (0x1100, 0x1200),
        (0x2000, 0x3400),
        (0x4E00, 0x9FFF),
        (0xAC00, 0xAC60),
        (0xF900, 0xFFFF),
        (0x1D100, 0x1D800),
        (0x2F800, 0x2FA20),
    )
    for code in range(first, last)
]


def random_texts(count: int) -> list[str]:
    source = random.Random(7)
    return ["".join(source.choices(POOL, k=source.randint(0, 8))) for _ in range(count)]


@pytest.mark.parametrize(
    ("broken", "mended"),
    [
        ("⼈⼯智能", "人工智能"),  # Kangxi radicals
        ("氵⺡", "氵氵"),  # U+2EA1, which NFKC leaves
        ("⾭年", "青年"),
        ("\uf900", "豈"),  # compatibility ideograph
        ("\U0002f800", "丽"),
        ("e\ufb03cient ﬁne ﬂow", "efficient fine flow"),
        ("infor\u00admation", "information"),
        ("\ufeff人\u200b工\u2060", "人工"),
        ("\u202eevil\u202c", "evil"),
        ("a\x00b\x07c\x7f", "abc"),
        ("line\r\nline\rline\u2028line\x0cline", "line\nline\nline\nline\nline"),
        ("10\u00a0km\u3000东", "10 km 东"),
        ("cafe\u0301", "café"),
        ("hidden\U000e0041\U000e0042", "hidden"),
        ("\ud800x", "\ufffdx"),
    ],
)
def test_clean_mends(broken: str, mended: str) -> None:
    assert clean(broken) == mended


@pytest.mark.parametrize(
    "text", ["，。！？；：“”（）《》、……——", "①②③", "ＡＢＣ１２３", "體驗", "tab\tnew\nline"]
)
def test_clean_leaves_what_a_reader_sees(text: str) -> None:
    assert clean(text) == text


def mended(text: str, script: str | None = None) -> str:
    return mend_radicals(clean(text), script)  # type: ignore[arg-type]


@pytest.mark.parametrize("script", [None, "simplified", "traditional", "japanese"])
def test_every_radical_is_mended(script: str | None) -> None:
    block = [code for code in range(0x2E80, 0x2EF4) if unicodedata.category(chr(code)) != "Cn"]
    codes = [code for code in block if mended(chr(code), script) == chr(code)]
    assert len(block) == 115
    # Neither Unicode table has a character for CJK RADICAL REPEAT.
    assert [code for code in codes if code not in RADICALS] == [0x2E80]
    assert all(mended(chr(code), script) >= "\u3400" for code in block if code != 0x2E80)
    kangxi = [mended(chr(code), script) for code in range(0x2F00, 0x2FD6)]
    assert all("\u4e00" <= character <= "\u9fff" for character in kangxi)


@pytest.mark.parametrize(
    ("printed", "simplified", "traditional", "japanese"),
    [
        ("用⼾", "用户", "用戶", "用戸"),
        ("增⻓", "增长", "增長", "増長"),
        ("⾒", "见", "見", "見"),
        ("⾞⾨⻢", "车门马", "車門馬", "車門馬"),
        ("⿊⾊⾭", "黑色青", "黑色青", "黒色青"),
        ("⻭⻯", "齿龙", "齒龍", "歯竜"),
        ("⽃⾥⾯", "斗里面", "斗里面", "斗里面"),
    ],
)
def test_radicals_become_the_characters_of_the_script(
    printed: str, simplified: str, traditional: str, japanese: str
) -> None:
    assert mended(printed, "simplified") == simplified
    assert mended(printed, "traditional") == traditional
    assert mended(printed.replace("增", "増"), "japanese") == japanese


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("这个系统的用⼾可以随时查看自己的信息", "simplified"),
        ("這個系統的用⼾可以隨時查看自己的資訊", "traditional"),
        ("利用者は⼾を開けて中に入ることができる", "japanese"),
        ("用⼾", None),
        ("the users", None),
    ],
)
def test_a_text_tells_its_script(text: str, script: str | None) -> None:
    assert script_of(text) == script


def test_forms_of_radicals_follow_from_the_tables() -> None:
    """`RADICAL_FORMS`, made anew: of a character's forms the one that the charset has."""
    japanese = dict(zip("户黑齐齿龙龟", "戸黒斉歯竜亀", strict=True))

    def modern(character: str) -> str:
        simple = chr(SIMPLIFIED.get(ord(character), ord(character)))
        return next((key for key, form in japanese.items() if form == simple), simple)

    def has(charset: str, character: str) -> bool:
        return "?" not in character.encode(charset, "replace").decode(charset)

    kangxi = {unicodedata.normalize("NFKC", chr(code)) for code in range(0x2F00, 0x2FD6)}
    tables: dict[str, dict[int, int]] = {"simplified": {}, "traditional": {}, "japanese": {}}
    for code in [*range(0x2E81, 0x2EF4), *range(0x2F00, 0x2FD6)]:
        plain = chr(RADICALS.get(code, ord(unicodedata.normalize("NFKC", chr(code))[0])))
        short = modern(plain)
        family = [
            plain,
            short,
            *(character for character in sorted(kangxi) if modern(character) == short),
        ]
        family += [japanese[short]] if short in japanese else []
        forms = [
            next((character for character in family if has(charset, character)), plain)
            for charset in ("gb2312", "big5", "shift_jis")
        ]
        if len(set(forms)) > 1:
            for script, form in zip(tables, forms, strict=True):
                tables[script][code] = ord(form)
    assert tables == RADICAL_FORMS


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("體", "体"),
        ("Ａ", "a"),
        ("乾淨", "干净"),
        ("以後", "以后"),
        ("看著", "看着"),
        ("瞭解", "了解"),
        ("藉口", "借口"),
        ("答覆", "答复"),
        ("臺灣檯燈颱風", "台湾台灯台风"),
        ("STRASSE", "straße"),
        ("①", "1"),
        ("“quote”", '"quote"'),
        ("RAG—系统", "rag-系统"),
        ("⼈⼯智能", "人工智能"),
        ("葛\U000e0100", "葛"),
    ],
)
def test_fold_makes_equal(one: str, other: str) -> None:
    assert fold(one) == fold(other)


def test_fold_keeps_apart_what_differs() -> None:
    assert len({fold(text) for text in ("人工", "人士", "a", "b", "1.5", "15")}) == 6


def test_simplified_table_is_closed() -> None:
    assert not [code for code in SIMPLIFIED.values() if code in SIMPLIFIED]


def test_folding_twice_changes_nothing() -> None:
    for text in random_texts(3000):
        assert clean(clean(text)) == clean(text)
        assert fold(fold(text)) == fold(text)
        assert fold(clean(text)) == fold(text)
