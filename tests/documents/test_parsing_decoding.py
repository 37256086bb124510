from __future__ import annotations

import contextlib
import random

import pytest

from localrag.documents.decoding import decode
from localrag.documents.formats.table import SourceFile
from localrag.errors import CorruptFileError, EmptyFileError, UnsupportedFileError

SIMPLIFIED = (
    "茶园位于山的东坡，海拔三百米。春茶从三月下旬开始采摘，四月二十日以前结束；"
    "雨天和露水未干时不采。"
)
TRADITIONAL = (
    "茶園位於山的東坡，海拔三百米。春茶從三月下旬開始採摘，四月二十日以前結束；"
    "雨天和露水未乾時不採。"
)
ENGLISH = "The tea garden lies on the eastern slope. "


@pytest.mark.parametrize("text", [SIMPLIFIED[:5], SIMPLIFIED[9:17], SIMPLIFIED, SIMPLIFIED * 500])
@pytest.mark.parametrize(
    "encoding",
    ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "gb18030", "gbk", "gb2312"],
)
def test_simplified(text: str, encoding: str) -> None:
    assert decode(SourceFile("a.txt", text.encode(encoding))) == text


@pytest.mark.parametrize(
    "text", [TRADITIONAL[:5], TRADITIONAL[9:17], TRADITIONAL, TRADITIONAL * 500]
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "big5", "big5hkscs", "gb18030"])
def test_traditional(text: str, encoding: str) -> None:
    assert decode(SourceFile("a.txt", text.encode(encoding))) == text


@pytest.mark.parametrize("encoding", ["gb18030", "utf-16-le", "utf-16-be", "utf-8-sig"])
def test_chinese_among_english(encoding: str) -> None:
    text = ENGLISH * 20 + "灯笼早" + ENGLISH * 20
    assert decode(SourceFile("a.txt", text.encode(encoding))) == text


@pytest.mark.parametrize(
    "text", [ENGLISH, "It’s “quoted” – and done.", "Café, naïve, Größe, déjà vu: all of them."]
)
def test_western(text: str) -> None:
    assert decode(SourceFile("a.txt", text.encode("cp1252"))) == text


def test_a_few_broken_bytes_do_not_change_the_verdict() -> None:
    data = (SIMPLIFIED * 20).encode()
    assert decode(SourceFile("a.txt", data[:-1])).startswith(SIMPLIFIED)
    assert decode(SourceFile("a.txt", data[:300] + b"\xff" + data[300:])).count("\ufffd") == 1
    text = decode(SourceFile("a.txt", (SIMPLIFIED * 20).encode("gb18030")[:-1]))
    assert text.startswith(SIMPLIFIED)


def test_empty_and_binary() -> None:
    with pytest.raises(EmptyFileError, match=r"a\.txt is empty"):
        decode(SourceFile("a.txt", b" \r\n\t"))
    with pytest.raises(UnsupportedFileError, match=r"a\.txt is not a text file"):
        decode(SourceFile("a.txt", bytes(range(256)) * 20))


def test_noise_is_refused_or_read_but_never_crashes() -> None:
    chance = random.Random(3)
    for _ in range(500):
        data = chance.randbytes(chance.randrange(1, 80))
        with contextlib.suppress(CorruptFileError, EmptyFileError, UnsupportedFileError):
            decode(SourceFile("a.txt", data))
