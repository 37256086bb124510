import hashlib
import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from counting import seconds

from localrag.documents.chunking import (
    LONGEST_TITLE,
    Chunker,
    SentenceChunker,
    WindowChunker,
    passage_text,
    whole_text,
)
from localrag.errors import ConfigError
from localrag.types import PAGE_BREAK, Chunk, Document, Heading, Page, TableSpan


def count_characters(texts: Sequence[str]) -> list[int]:
    """One token a character that is not white space."""
    return [sum(not char.isspace() for char in text) for text in texts]


def count_unevenly(texts: Sequence[str]) -> list[int]:
    """Tokens of the whole are more than those of the parts: the worst that a model may do."""
    return [len(text) + len(text) // 5 for text in texts]


def document(*pages: str, headings: Sequence[tuple[str, int]] = (), name: str = "d") -> Document:
    """A document whose headings are the first lines that read so, in their order."""
    text = PAGE_BREAK.join(pages)
    outline = []
    at = 0
    for title, level in headings:
        at = text.index(title, at)
        outline.append(Heading(at, level, title))
        at += len(title)
    numbered = tuple(Page(number, page) for number, page in enumerate(pages, start=1))
    return Document(name, f"{name}.txt", "", numbered, tuple(outline))


def random_document(seed: int) -> Document:
    source = random.Random(seed)
    words = ["检索", "增强", "生成", "model", "of", "U.S.", "3.14", "，", "的", "\u3000", "x" * 30]
    ends = ["。", "！", ". ", "? ", "；", "", "……", "\n\n"]
    pages, headings, offset = [], [], 0
    for _ in range(source.randint(1, 4)):
        page = ""
        for _ in range(source.randint(0, 8)):
            if source.random() < 0.4:
                title = "".join(source.choices("标题甲乙丙丁 ab", k=source.randint(1, 40))) + "。"
                start = offset + len(page) + len(title) - len(title.lstrip())
                headings.append(Heading(start, source.randint(1, 4), title.strip()))
                page += title + "\n"
            for _ in range(source.randint(0, 6)):
                page += "".join(source.choices(words, k=source.randint(1, 40)))
                page += source.choice(ends)
            page += "\n"
        pages.append(page)
        offset += len(page) + len(PAGE_BREAK)
    numbered = tuple(Page(number, page) for number, page in enumerate(pages, start=1))
    return Document(f"d{seed}", "d.txt", "", numbered, tuple(headings))


CHUNKERS: list[Chunker] = [
    WindowChunker(),
    WindowChunker(50, 10),
    WindowChunker(7, 0),
    SentenceChunker(count_characters, 512),
    SentenceChunker(count_characters, 16),
    SentenceChunker(count_characters, 64, 40, 0),
    SentenceChunker(count_characters, 64, 40, 3),
    SentenceChunker(count_unevenly, 48, 48, 2),
]


@pytest.mark.parametrize("chunker", CHUNKERS)
def test_contract(chunker: Chunker) -> None:
    for seed in range(150):
        source = random_document(seed)
        text = source.text
        chunks = chunker.chunk(source)
        assert chunks == chunker.chunk(source)
        assert [chunk.position for chunk in chunks] == list(range(len(chunks)))
        assert len({chunk.id for chunk in chunks}) == len(chunks)
        starts = [chunk.start for chunk in chunks]
        assert starts == sorted(set(starts))
        page_of = [page.number for page in source.pages for _ in page.text + PAGE_BREAK]
        covered = [False] * len(text)
        for chunk in chunks:
            assert chunk.document_id == source.id
            assert chunk.text == text[chunk.start : chunk.end] == chunk.text.strip() != ""
            assert 0 <= chunk.id < 2**63
            assert chunk.first_page == page_of[chunk.start]
            assert chunk.last_page == page_of[chunk.end - 1]
            covered[chunk.start : chunk.end] = [True] * (chunk.end - chunk.start)
        assert not [i for i, char in enumerate(text) if not char.isspace() and not covered[i]]


@pytest.mark.parametrize("count", [count_characters, count_unevenly])
@pytest.mark.parametrize(("maximum", "target"), [(16, 8), (40, 256), (128, 64)])
def test_no_passage_takes_more_tokens_than_the_limit(count, maximum: int, target: int) -> None:
    chunker = SentenceChunker(count, maximum, target, 2)
    for seed in range(150):
        passages = [passage_text(chunk) for chunk in chunker.chunk(random_document(seed))]
        assert max(count(passages), default=0) <= maximum


def texts(chunks: list[Chunk]) -> list[str]:
    return [chunk.text for chunk in chunks]


def test_sentences_stay_whole() -> None:
    sentences = [f"这是第{number}句话，它说明了一些事情。" for number in range(40)]
    chunks = SentenceChunker(count_characters, 100, 60, 0).chunk(document("".join(sentences)))
    assert "".join(texts(chunks)) == "".join(sentences)
    assert all(chunk.text.endswith("。") and chunk.text.startswith("这是") for chunk in chunks)
    # Shared evenly: no scrap at the end.
    sizes = [len(chunk.text) for chunk in chunks]
    assert max(sizes) - min(sizes) <= 2 * max(map(len, sentences))


def test_neighbours_share_a_sentence_inside_a_section_only() -> None:
    body = "".join(f"第{number}句。" for number in range(30))
    source = document(f"甲\n{body}\n乙\n{body}", headings=[("甲", 1), ("乙", 1)])
    chunks = SentenceChunker(count_characters, 100, 40, 1).chunk(source)
    for before, after in pairwise(chunks):
        if before.heading == after.heading:
            assert after.start < before.end
        else:
            assert after.text.startswith("乙")


def test_a_heading_starts_a_chunk_and_gives_its_path() -> None:
    body = "这里有一些正文，足够长。" * 10
    source = document(
        f"前言\n{body}\n第一章\n第一节\n{body}\n第二节\n{body}\n第二章\n{body}",
        headings=[("前言", 1), ("第一章", 1), ("第一节", 2), ("第二节", 2), ("第二章", 1)],
    )
    chunks = SentenceChunker(count_characters, 512, 200).chunk(source)
    assert [chunk.heading for chunk in chunks] == [
        "前言",
        "第一章 > 第一节",
        "第一章 > 第二节",
        "第二章",
    ]
    # The bare heading stands at the top of the text of its first section, and is not repeated.
    assert chunks[1].text.startswith("第一章\n第一节\n这里")
    assert passage_text(chunks[1]) == chunks[1].text
    assert passage_text(chunks[2]).startswith("第一章\n第二节\n这里")


def test_a_later_chunk_of_a_section_carries_its_heading() -> None:
    source = document("标题\n" + "这里有一些正文。" * 30, headings=[("标题", 1)])
    first, second, *_ = SentenceChunker(count_characters, 512, 100, 0).chunk(source)
    assert passage_text(first) == first.text
    assert passage_text(second) == "标题\n" + second.text


def test_short_sections_join_under_the_same_parent() -> None:
    long = "这里有一些正文，足够长。" * 10
    source = document(
        f"手册\n{long}\n甲\n短。\n乙\n也短。\n丙\n{long}\n附录\n完。",
        headings=[("手册", 1), ("甲", 2), ("乙", 2), ("丙", 2), ("附录", 1)],
    )
    chunks = SentenceChunker(count_characters, 512, 200).chunk(source)
    assert [chunk.heading for chunk in chunks] == ["手册", "手册", "附录"]
    assert chunks[1].text.startswith("甲\n短。\n乙\n也短。\n丙\n")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (document("标题", headings=[("标题", 1)]), ["标题"]),
        (document("正文。\n标题", headings=[("标题", 1)]), ["正文。\n标题"]),
        (document("页眉\n标题\n正文。", headings=[("标题", 1)]), ["页眉\n标题\n正文。"]),
        (document(""), []),
        (document(" \n", "\n"), []),
    ],
)
def test_small_documents(source: Document, expected: list[str]) -> None:
    assert texts(SentenceChunker(count_characters, 512).chunk(source)) == expected


def test_pages() -> None:
    source = document("一页。" * 5, "", "三页。" * 5, "四页。" * 5)
    chunks = SentenceChunker(count_characters, 512, 20, 0).chunk(source)
    pages = [(chunk.first_page, chunk.last_page) for chunk in chunks]
    assert pages[0][0] == 1
    assert pages[-1][1] == 4
    for chunk in chunks:
        assert chunk.text[0] == {1: "一", 3: "三", 4: "四"}[chunk.first_page]
        assert chunk.text[-3] == {1: "一", 3: "三", 4: "四"}[chunk.last_page]


def test_a_long_sentence_is_cut_at_commas_then_spaces_then_characters() -> None:
    chunker = SentenceChunker(count_characters, 32, 32, 0)
    commas = "这是一个很长的分句子，" * 10
    assert all(text.endswith("，") for text in texts(chunker.chunk(document(commas))))
    spaces = "wordword " * 20
    assert {word for text in texts(chunker.chunk(document(spaces))) for word in text.split()} == {
        "wordword"
    }
    solid = "字" * 100
    assert "".join(texts(chunker.chunk(document(solid)))) == solid


def test_a_long_heading_is_shortened_from_the_top() -> None:
    source = document(
        "甲" * 30 + "\n乙乙\n" + "正文在此。" * 40, headings=[("甲" * 30, 1), ("乙乙", 2)]
    )
    chunks = SentenceChunker(count_characters, 64, 64, 0).chunk(source)
    assert {chunk.heading for chunk in chunks} == {"乙乙"}


def test_tokens_are_counted_for_the_whole_document_at_once() -> None:
    calls = []

    def count(texts: Sequence[str]) -> list[int]:
        calls.append(len(texts))
        return count_characters(texts)

    SentenceChunker(count, 512).chunk(document("一句话。" * 2000))
    assert calls == [2000]


def test_ids_differ_between_documents_and_stay() -> None:
    chunker = WindowChunker()
    (chunk,), (other,) = chunker.chunk(document("文")), chunker.chunk(document("文", name="e"))
    assert chunk.id != other.id
    # Pinned: an id that moves orphans every library on disk.
    assert chunk.id == PINNED_ID


PINNED_ID = 1606730864057746330


def test_windows() -> None:
    chunks = WindowChunker(10, 4).chunk(document("abcdefghijklmnopqrstuv"))
    assert texts(chunks) == ["abcdefghij", "ghijklmnop", "mnopqrstuv"]


@pytest.mark.parametrize(("size", "overlap"), [(0, 0), (10, 10), (10, -1)])
def test_impossible_windows(size: int, overlap: int) -> None:
    with pytest.raises(ConfigError, match=f"{size} characters cannot overlap by {overlap}"):
        WindowChunker(size, overlap)


@pytest.mark.parametrize("numbers", [(15, 256, 1), (512, 0, 1), (512, 256, -1)])
def test_impossible_sizes(numbers: tuple[int, int, int]) -> None:
    with pytest.raises(ConfigError, match="at least 16"):
        SentenceChunker(count_characters, *numbers)


def test_speed() -> None:
    text = "".join(f"这是第{number}句话，它说明了一些事情。" for number in range(25_000))
    chunker = SentenceChunker(lambda texts: [len(text) for text in texts], 512)
    # A megabyte a second is the aim; a slow machine gets ten times as long.
    assert seconds(lambda: chunker.chunk(document(text))) < 10 * len(text.encode()) / 1e6


def tabled(
    rows: Sequence[str], before: str = "", after: str = "", *, header_rows: int = 1
) -> Document:
    """A document of one table, with text around it; its columns are named by the first row."""
    text = "\n".join(rows)
    start = len(before)
    names = tuple(rows[0].split(" | ")) if header_rows else ()
    table = TableSpan(start, start + len(text), names, header_rows)
    page = Page(1, before + text + after)
    return Document("d", "d.txt", "", (page,), tables=(table,))


def rows_of_alloys(count: int) -> list[str]:
    return [
        "牌号 | Composition | 密度",
        *(f"TA{n} | Ti-{n}Al,2Zr。x | {n}.5" for n in range(count)),
    ]


def test_documents_without_tables_are_cut_as_before_there_were_any() -> None:
    digests = []
    for chunker in (
        SentenceChunker(count_unevenly, 60, 40),
        SentenceChunker(count_characters, 200, 100),
        WindowChunker(90, 20),
    ):
        digest = hashlib.sha256()
        for seed in range(60):
            for chunk in chunker.chunk(random_document(seed)):
                digest.update(f"{chunk.id} {chunk.position} {passage_text(chunk)}\n".encode())
        digests.append(digest.hexdigest()[:16])
    assert digests == ["7fc2116723d94e4b", "0155c7764b39988c", "cbe61b9ada12d426"]


def test_each_row_stands_with_its_header_and_tables_are_cut_between_rows() -> None:
    rows = rows_of_alloys(60)
    chunks = SentenceChunker(count_characters, 300, 200).chunk(tabled(rows, "Table 1: alloys\n"))
    assert len(chunks) > 5
    lines = [line for chunk in chunks for line in chunk.text.split("\n")]
    assert lines == ["Table 1: alloys", *rows]  # whole rows, none twice
    assert "TA7 | Ti-7Al,2Zr。x | 7.5" in lines
    text = "\n".join(map(passage_text, chunks))
    assert text.startswith("Table 1: alloys\n牌号: TA0 | Composition: Ti-0Al")
    assert rows[0] not in text  # each row says it
    assert "牌号: TA59 | Composition: Ti-59Al,2Zr。x | 密度: 59.5" in text
    assert text.count("牌号: TA") == 60


def test_a_caption_a_header_and_the_first_row_stay_together() -> None:
    for filler in range(0, 400, 7):
        text = "".join(f"句{n}。" for n in range(filler // 4)) + "\n"
        source = tabled(rows_of_alloys(40), f"{text}表 1 合金\n")
        (holds,) = [
            chunk
            for chunk in SentenceChunker(count_characters, 300, 200, 0).chunk(source)
            if "表 1" in chunk.text
        ]
        assert "表 1 合金\n牌号 | Composition | 密度\nTA0 |" in holds.text


@pytest.mark.parametrize("rows", [2, 5, 8, 11])
def test_a_table_that_fits_into_a_passage_stays_whole(rows: int) -> None:
    table = rows_of_alloys(rows)
    chunker = SentenceChunker(count_characters, 500, 300)
    for filler in range(0, 150, 3):
        text = "".join(f"句{n}。" for n in range(filler)) + "\n"
        chunks = chunker.chunk(tabled(table, f"{text}表 1 合金\n", "\n以上。" + "完毕。" * filler))
        (holds,) = [chunk for chunk in chunks if "牌号" in chunk.text]
        assert "\n".join(["表 1 合金", *table]) in holds.text
        assert max(count_characters([passage_text(chunk) for chunk in chunks])) <= 500


def test_a_small_table_is_one_passage_with_its_caption_and_heading() -> None:
    before = "合金表\n表 1 合金\n"
    source = tabled(rows_of_alloys(9), before, "\n" + "后记。" * 60)
    source = replace(source, headings=(Heading(0, 1, "合金表"),))
    first, *_ = SentenceChunker(count_characters, 500, 200).chunk(source)
    assert first.text.startswith(before + "牌号")
    assert "TA8 |" in first.text


def test_text_before_a_table_is_cut_from_it_where_both_are_too_much() -> None:
    table = rows_of_alloys(7)
    before = "".join(f"这是第{n}句话。" for n in range(25)) + "\n"
    chunks = SentenceChunker(count_characters, 500, 300, 0).chunk(tabled(table, before + "表 1\n"))
    assert [chunk.text for chunk in chunks] == [before.strip(), "\n".join(["表 1", *table])]


def test_rows_wider_than_a_passage_are_cut_between_cells_that_keep_their_names() -> None:
    names = " | ".join(f"column number {n}" for n in range(200))
    cells = " | ".join("" if n % 7 == 0 else f"{n},{n}.0" for n in range(200))
    chunker = SentenceChunker(count_unevenly, 200, 100)
    chunks = chunker.chunk(tabled([names, cells, cells]))
    contents = [passage_text(chunk) for chunk in chunks]
    assert max(count_unevenly(contents)) <= 200
    parts = [part for text in contents for line in text.split("\n") for part in line.split(" | ")]
    assert parts.count("column number 123: 123,123.0") == 2
    assert sum(part.endswith(": 13,13.0") for part in parts) == 2


@pytest.mark.parametrize("count", [count_characters, count_unevenly])
@pytest.mark.parametrize(("maximum", "target"), [(16, 8), (40, 256), (128, 64)])
def test_no_row_with_its_header_takes_more_tokens_than_the_limit(
    count, maximum: int, target: int
) -> None:
    for seed in range(60):
        source = random.Random(seed)
        width = source.randint(1, 12)
        rows = [
            " | ".join("值x, " * source.randint(0, 6) + str(source.random()) for _ in range(width))
            for _ in range(source.randint(2, 12))
        ]
        document = tabled(rows, "前言。\n", "\n后记。")
        chunks = SentenceChunker(count, maximum, target, 2).chunk(document)
        assert max(count([passage_text(chunk) for chunk in chunks])) <= maximum
        covered = {at for chunk in chunks for at in range(chunk.start, chunk.end)}
        text = document.text
        assert not [at for at, char in enumerate(text) if not char.isspace() and at not in covered]


def test_a_header_stands_only_where_no_row_says_it() -> None:
    rows = ["Region | 2023 Q1", "North | 5", "Region | 2023 Q1", "South | 7"]
    (chunk,) = SentenceChunker(count_characters, 300).chunk(tabled(rows))
    assert chunk.text.split("\n") == rows
    assert passage_text(chunk).split("\n") == [
        "Region: North | 2023 Q1: 5",
        "Region: South | 2023 Q1: 7",
    ]
    (alone,) = SentenceChunker(count_characters, 300).chunk(tabled(rows[:1]))
    assert passage_text(alone) == rows[0]


def test_tables_without_a_header_have_none_and_identities_tell() -> None:
    rows = rows_of_alloys(3)
    chunker = SentenceChunker(count_characters, 300)
    (plain,) = chunker.chunk(tabled(rows, header_rows=0))
    (passage,) = chunker.chunk(tabled(rows))
    assert passage_text(plain) == plain.text == passage.text
    assert plain.columns == ()
    assert plain.id != passage.id


def test_a_passage_repeats_no_names_of_columns_that_its_rows_do_not_reach() -> None:
    rows = [f"a{n} | {n}" for n in range(999)]
    source = tabled([" | ".join(f"n{n}" for n in range(5000)), *rows])
    for chunker in (SentenceChunker(count_characters, 300), WindowChunker(300, 0)):
        chunks = chunker.chunk(source)
        names = [name for chunk in chunks for run in chunk.columns for name in run.names]
        assert len(names) < len(source.text)
        assert "n0: a500 | n1: 500" in "\n".join(map(passage_text, chunks))


@pytest.mark.parametrize(("width", "cells"), [(200, 2), (256, 1), (2000, 2000)])
def test_passages_of_ordinary_sheets_keep_the_names_of_all_columns(width: int, cells: int) -> None:
    """Whose identities depend on these: they stay as earlier versions made them."""
    rows = [" | ".join(f"{n:04}"[:cells] for n in range(cells)) for _ in range(9)]
    source = tabled([" | ".join(f"n{n}" for n in range(width)), *rows])
    chunks = SentenceChunker(lambda texts: [1] * len(texts), 30_000).chunk(source)
    assert {len(run.names) for chunk in chunks for run in chunk.columns} == {width}


def test_a_passage_begins_with_the_title_of_its_document() -> None:
    pages = (Page(1, "Terms\nAt most 400,000. " + "It ends in May. " * 20),)
    lease = Document("l", "l.txt", "Lease, Ottway", pages, (Heading(0, 1, "Terms"),))
    chunks = SentenceChunker(count_characters, 160, 80).chunk(lease)
    assert len(chunks) > 2
    for chunk in chunks:
        assert passage_text(chunk).startswith("Lease, Ottway")
        assert not chunk.text.startswith("Lease")
        assert len(passage_text(chunk)) <= 160
    long = replace(chunks[-1], title="A" * 200)
    assert passage_text(long).startswith("A" * (LONGEST_TITLE - 1) + "\N{HORIZONTAL ELLIPSIS}")
    assert whole_text(long).startswith("A" * 200)
    twin = replace(chunks[0], title="Terms")
    assert passage_text(twin).count("Terms") == 1
