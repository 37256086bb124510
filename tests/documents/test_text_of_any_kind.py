"""Text is read by what it holds, whatever its file is called; and rows of tables in text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from localrag.documents.content import LARGEST, LONGEST_LINE
from localrag.documents.files import parse_file, walk
from localrag.errors import EmptyFileError, ParsingError, ProgramTextError, UnsupportedFileError
from localrag.library.catalogue.filters import Filter, source_conditions

CODE = "def area(radius):\n  # two columns\n  if radius < 0:\n\n    raise ValueError\n"


def lines(data: str | bytes, name: str) -> list[str]:
    data = data.encode() if isinstance(data, str) else data
    return parse_file(Path(name), data).text.split("\n")


@pytest.mark.parametrize(
    "name", ["area.py", "a.yaml", "a.sql", "a.xyz", "Makefile", "b.srt", "c.vtt", "a.b.conf"]
)
def test_text_of_any_suffix_is_read_and_keeps_its_lines(name: str) -> None:
    rows = lines(CODE, name)
    assert [line.strip() for line in rows] == [line.strip() for line in CODE.split("\n") if line]
    if "." in name:
        assert rows[2] == "  if radius < 0:"


def test_titles_of_code_are_the_names_of_files() -> None:
    assert parse_file(Path("area.py"), CODE.encode()).title == "area.py"
    assert parse_file(Path("README"), b"Read me").title == "README"


def test_code_in_any_encoding() -> None:
    text = "# 计算圆的面积，半径不能为负数\nprint(1)\n"
    for encoding in ("utf-8", "gb18030", "utf-16"):
        assert lines(text.encode(encoding), "a.py") == text.strip().split("\n")


def test_json_is_readable() -> None:
    items = [{"name": f"茶园 {number}", "note": 'a "b", c', "size": 1.10} for number in range(40)]
    rows = lines(json.dumps(items), "a.json")
    assert rows[0] == '[{"name": "茶园 0",'
    assert rows[1] == '"note": "a \\"b\\", c",'
    assert rows[2] == '"size": 1.1},'
    assert lines('{"a":\n  "b"}', "a.json") == ['{"a":', '  "b"}']


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.bin", b"\x7fELF\0\0"),
        ("a.dat", bytes(range(256)) * 4),
        ("a.key", b"-----BEGIN PRIVATE KEY-----\nAAAA\n"),
        ("id_rsa", b"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n"),
        ("app.min.js", b"var a=1;"),
        ("poetry.lock", b"[[package]]\nname = 'a'\n"),
        ("package-lock.json", b'{"name": "a"}'),
        ("bundle.js", b"var a = 1;" * LONGEST_LINE),
        ("part.obj", b"v 0.123 0.456 0.789\n" * 100),
        ("val.json", b'[{"question": "Who?", "ideal_answer": "Ann"}]'),
        ("renamed.xyz", b"%PDF-1.4"),
    ],
)
def test_what_is_for_programs_is_left_out(name: str, data: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    skipped: list[ParsingError] = []
    assert list(walk([tmp_path], skipped)) == []
    [error] = skipped
    assert isinstance(error, UnsupportedFileError)
    no_text = name in ("a.bin", "a.dat", "renamed.xyz")
    assert isinstance(error, ProgramTextError) == (not no_text)
    with pytest.raises(UnsupportedFileError):
        parse_file(tmp_path / name)


@pytest.mark.parametrize("data", [b"", b" \n"])
def test_an_empty_file_without_a_format_is_said_to_be_empty_where_it_is_named(
    data: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "__init__.py"
    path.write_bytes(data)
    skipped: list[ParsingError] = []
    assert (list(walk([tmp_path], skipped)), skipped) == ([], [])
    assert list(walk([path], skipped)) == [path]
    with pytest.raises(EmptyFileError):
        parse_file(path)


def test_text_without_a_format_is_bounded(tmp_path: Path) -> None:
    with (tmp_path / "dump.sql").open("wb") as file:
        file.write(b"insert into a values\n" * 1000)
        file.truncate(LARGEST + 1)
    skipped: list[ParsingError] = []
    assert list(walk([tmp_path], skipped)) == []
    assert "text of 17 MB" in str(skipped[0])


def test_what_is_known_is_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"\0")
    assert list(walk([tmp_path], [], known={str(path)})) == [path]


def test_the_type_text_is_whatever_has_no_other() -> None:
    sql, values = source_conditions(Filter(types=("text",)))
    assert "NOT (" in sql
    assert "*.pdf" in values
    assert "NOT" not in source_conditions(Filter(types=("pdf",)))[0]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("名称;价格\n茶;1,5\n茶壶;12,25\n", ["名称 | 价格", "茶 | 1,5", "茶壶 | 12,25"]),
        ("sep=;\na;b,c\nd;e\n", ["a | b,c", "d | e"]),
        ("price\n1,5\n2,25\n", ["price", "1,5", "2,25"]),
        ("remark\nHello, world\nnothing\nnone\n", ["remark", "Hello, world", "nothing", "none"]),
        ("# made by x\n# at noon\na,b\n1,2\n", ["# made by x", "# at noon", "a | b", "1 | 2"]),
        ('a,b\n"two\nlines","x ""y"""\n', ["a | b", 'two lines | x "y"']),
        ("a\tb\n330,435.30\t007\n", ["a | b", "330,435.30 | 007"]),
        ("a|b|c\n1||3\n", ["a | b | c", "1 |  | 3"]),
    ],
)
def test_rows(text: str, rows: list[str]) -> None:
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        assert lines(text.encode(encoding), "a.csv") == rows
    assert lines(text.replace("\n", "\r\n"), "a.csv") == rows


def test_a_quotation_mark_without_another_swallows_nothing() -> None:
    text = "a,b\n1,2\n" + '"3,4\n' + "5,6\n" * 3000
    rows = lines(text, "a.csv")
    assert rows[:4] == ["a | b", "1 | 2", '"3 | 4', "5 | 6"]
    assert len(rows) == 3003
