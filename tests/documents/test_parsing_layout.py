from __future__ import annotations

import random

import pytest

from localrag.documents.formats.pdf.layout import (
    Block,
    TextRow,
    drop_running_text,
    merge_segments,
    paragraphs,
    reading_order,
    stacked,
)


def row(
    text: str, x0: float, y0: float, x1: float, size: float = 10, bold: bool = False
) -> TextRow:
    return TextRow(text, x0, y0, x1, y0 + size, size, bold)


def column(name: str, x0: float, x1: float, top: float, rows: int) -> Block:
    return Block([row(f"{name}{n}", x0, top + 12 * n, x1) for n in range(rows)])


def texts(blocks: list[Block]) -> list[str]:
    return [block.rows[0].text for block in blocks]


def test_columns_are_read_one_after_the_other_whatever_the_files_order() -> None:
    blocks = [
        Block([row("Title across both columns", 50, 40, 550, size=18)]),
        column("left-a", 50, 290, 80, 10),
        column("left-b", 50, 290, 230, 10),
        column("right-a", 310, 550, 80, 12),
        column("right-b", 310, 550, 240, 9),
        Block([row("full width below", 50, 500, 550)]),
        column("third-1", 50, 200, 540, 5),
        column("third-2", 220, 370, 540, 5),
        column("third-3", 390, 550, 540, 5),
    ]
    expected = texts(blocks)
    shuffled = list(blocks)
    for seed in range(20):
        random.Random(seed).shuffle(shuffled)
        assert texts(reading_order(shuffled)) == expected


def test_columns_whose_rows_are_blocks_of_their_own_are_columns() -> None:
    first_column = [row(f"left{n}", 50, 80 + 15 * n, 290) for n in range(6)]
    right = [row(f"right{n}", 310, 81 + 15 * n, 550) for n in range(6)]
    blocks = [Block([line]) for line in [*first_column, *right]]
    assert [line.text for line in rows_in_order(blocks)] == [
        line.text for line in [*first_column, *right]
    ]
    labels = [row(f"label{n}", 50, 80 + 15 * n, 160 + 30 * n) for n in range(4)]
    values = [row(f"value{n}", 310, 81 + 15 * n, 550 - 30 * n) for n in range(4)]
    blocks = [Block([line]) for line in [*labels, *values]]
    assert [line.text for line in rows_in_order(blocks)][:3] == ["label0", "value0", "label1"]


def rows_in_order(blocks: list[Block]) -> list[TextRow]:
    return [row for block in reading_order(stacked(blocks)) for row in block.rows]


def test_cells_side_by_side_are_read_row_by_row() -> None:
    blocks = [
        Block([row(f"{name}{n}", x, 80 + 30 * n, x + 60)])
        for n in range(4)
        for name, x in (("label", 50), ("value", 300))
    ]
    assert texts(reading_order(blocks[::-1])) == texts(blocks)


def test_bullets_in_a_column_of_their_own_stay_with_their_items() -> None:
    blocks = []
    for n in range(3):
        blocks.append(Block([row("•", 50, 80 + 40 * n, 55)]))
        blocks.append(
            Block([row(f"item {n}", 70, 80 + 40 * n, 400), row("goes on", 70, 92 + 40 * n, 300)])
        )
    items = paragraphs(reading_order(blocks), ())
    assert [p.text for p in items] == ["• item 0 goes on", "• item 1 goes on", "• item 2 goes on"]


def test_wide_gaps_are_cells_and_justified_gaps_are_spaces() -> None:
    cells = [row("Austria", 78, 10, 110), row("8.9", 204, 10, 217), row("Vienna", 356, 10, 387)]
    assert [(r.text, r.tabular) for r in merge_segments(cells)] == [
        ("Austria | 8.9 | Vienna", True)
    ]
    justified = [row("elit.", 72, 10, 118), row("Ut purus", 130, 10, 301)]
    assert [(r.text, r.tabular) for r in merge_segments(justified)] == [("elit. Ut purus", False)]
    item = [row("1.", 72, 10, 80), row("First item", 110, 10, 301)]
    assert [(r.text, r.tabular) for r in merge_segments(item)] == [("1. First item", False)]


def test_indents_short_rows_and_list_items_begin_paragraphs() -> None:
    block = Block(
        [
            row("The first paragraph fills its row", 50, 10, 300),
            row("and ends here.", 50, 22, 150),
            row("The second is indented and fills", 65, 34, 300),
            row("the row.", 50, 46, 90),
            row("- an item that is long enough to", 50, 58, 298),
            row("go on", 60, 70, 90),
            row("- another", 50, 82, 100),
        ]
    )
    assert [p.text for p in paragraphs([block], ())] == [
        "The first paragraph fills its row and ends here.",
        "The second is indented and fills the row.",
        "- an item that is long enough to go on",
        "- another",
    ]


def test_a_paragraph_goes_on_in_the_next_column() -> None:
    first_column = Block([row("text that fills", 50, 10 + 12 * n, 290) for n in range(4)])
    right = Block([row("and goes on over there.", 310, 10, 440)])
    assert len(paragraphs([first_column, right], ())) == 1


def test_spaces_between_chinese_characters_close_up_in_running_text_only() -> None:
    block = Block(
        [
            row("自动驾驶汽车利用人 工智能感知周围环境，", 50, 10, 300),
            row("并安全行驶。", 50, 22, 120),
        ]
    )
    single = Block([row("姓名 张三丰", 50, 60, 120)])
    spaced = Block([row("目 录", 50, 90, 90, size=14)])
    assert [p.text for p in paragraphs([block, single, spaced], ())] == [
        "自动驾驶汽车利用人工智能感知周围环境，并安全行驶。",
        "姓名 张三丰",
        "目录",
    ]


def test_running_text_goes_and_chapter_headings_at_the_top_stay() -> None:
    pages = [
        [
            Block([row("Annual Report 2023", 50, 20, 150)]),
            Block([row(f"Chapter {n}", 50, 50, 150, size=20)]),
            Block(
                [
                    row(f"text {name * n} of the page", 50, 100 + 12 * i, 300)
                    for i, name in enumerate("abcdefgh")
                ]
            ),
            Block([row(f"- {n} -", 280, 800, 300)]),
        ]
        for n in range(1, 6)
    ]
    for blocks in drop_running_text(pages):
        remainder = [r.text for block in blocks for r in block.rows]
        assert remainder[0].startswith("Chapter")
        assert remainder[-1].startswith("text h")
    assert drop_running_text(pages[:1]) == pages[:1]


@pytest.mark.parametrize(
    ("foot", "stays"),
    [
        (["1", "2", "3", "4"], False),
        (["Page 7 of 30", "Page 8 of 30", "Page 9 of 30", "Page 10 of 30"], False),
        (["iii", "iv", "v", "vi"], False),
        (["第 1 页", "第 2 页", "第 3 页", "第 4 页"], False),
        (["Confidential", "Confidential", "Confidential", "Confidential"], False),
        (["Subtotal 310.50", "Subtotal 99.00", "Subtotal 1,204.00", "Subtotal 12.75"], True),
        (["Total 14", "Total 3", "Total 92", "Total 40"], True),
    ],
)
def test_a_foot_is_running_text_if_it_repeats_or_counts(foot: list[str], stays: bool) -> None:
    words = ["alpha", "beta", "gamma", "delta"]
    pages = [
        [
            Block(
                [row(f"{word} {name}", 50, 100 + 12 * i, 300) for i, name in enumerate("abcdef")]
            ),
            Block([row(text, 280, 800, 300)]),
        ]
        for text, word in zip(foot, words, strict=True)
    ]
    for blocks, text in zip(drop_running_text(pages), foot, strict=True):
        remainder = [r.text for block in blocks for r in block.rows]
        assert (text in remainder) == stays
        assert len(remainder) == 6 + stays
    counts = not stays and len(set(foot)) == 4
    assert len(drop_running_text(pages[:2])[0]) == (1 if counts else 2)


def test_no_page_is_too_strange_to_be_ordered() -> None:
    many = [column(f"c{n}-", 40 * n, 40 * n + 30, 10 + n % 3, 4) for n in range(499)]
    steps = [column(f"s{n}-", 40 * n, 40 * n + 30, 9 * n, 3) for n in range(499)]
    for blocks in (many, steps, many + steps):
        assert sorted(map(id, reading_order(blocks))) == sorted(map(id, blocks))
