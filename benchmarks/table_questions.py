"""Twenty questions about single cells of tables: is the row found, and what is answered?

    python benchmarks/table_questions.py FOLDER [--each] [--answers OUT.jsonl]

FOLDER holds the evaluation files (`files/`, `pdf/`). All that are named here go into one library
with the two overviews of AI, once as they are and once with their tables taken away (`before`:
rows are lines like others). A row is found where a passage of its file holds a line with the key
and the value.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import NamedTuple

from localrag.api import LocalRAG
from localrag.text.normalize import fold
from localrag.types import Document, ScoredChunk


class Question(NamedTuple):
    """`key` and `value` stand in one row of a table of `file`; the answer holds the value."""

    file: str
    text: str
    key: str
    value: str


ZH = "pdf/chinese-tables.pdf"
CINEMA = "files/scans/movie-theater-booking-2024.pdf"
DUCKS = "files/xlsx/xlsx_comments.xlsx"
FOOD = "files/docx/word_sample.docx"
ISSUES = "files/zh/closed_issues.xlsx"
QUESTIONS = (
    Question(ZH, "徽商银行给了发行人多少授信？", "徽商银行", "330,435.30"),
    Question(ZH, "发行人在民生银行还有多少额度没有用？", "民生银行", "173,500.00"),
    Question(ZH, "恒丰银行的授信里已经用掉的是多少？", "恒丰银行", "43,500.00"),
    Question(ZH, "2021年是哪家机构给发行人评的级？", "2021", "联合资信评估有限公司"),
    Question(ZH, "渤海银行的额度还剩多少？", "渤海银行", "98,000.00"),
    Question(
        CINEMA, "In which format is Winter Wonderland shown?", "Winter Wonderland", "Standard"
    ),
    Question(CINEMA, "What is the rate of a show of New Year Mystery?", "New Year Mystery", "$300"),
    Question(
        CINEMA, "Which territory does Sarah Johnson look after?", "Sarah Johnson", "NYC Metro"
    ),
    Question(CINEMA, "How high was the occupancy in December?", "December 2024", "85%"),
    Question(
        "files/pdf/2305.03393v1-pg9.pdf",
        "Which mAP does OTSL reach with six encoder and six decoder layers?",
        "6 | 6",
        "0.88",
    ),
    Question(FOOD, "How many calories does a portion of berries have?", "Berries", "150"),
    Question(FOOD, "Which kinds of grain may a duck eat?", "Grain", "Buckwheat"),
    Question(DUCKS, "How many saltwater ducks were there in 2021?", "2021", "100"),
    Question(DUCKS, "2023年有多少只淡水鸭（freshwater ducks）？", "2023", "160"),
    Question(
        "files/scans/xlsx_image_middle.xlsx", "How high is the profit margin?", "Margin", "40%"
    ),
    Question("files/scans/test.xlsx", "What is Gamma where Alpha is 83?", "83 | 37", "43"),
    Question(
        ISSUES, "M1 芯片的 Macbook 上 webui 报错，这个问题的网址是什么？", "Macbook M1", "issues/80"
    ),
    Question(
        ISSUES, "希望支持 RWKV 模型的那条记录在哪个文件（file）里？", "RWKV", "2023-05-01.0216"
    ),
    Question(ISSUES, "流程图是用哪个软件画的？", "请问流程图", "draw.io"),
    Question(
        ISSUES, "faiss 不能为中文文件名生成向量库的问题是几月几日的？", "中文文件名", "2023-05-11"
    ),
)
NOISE = ("pdf/AI_Information.pdf", "pdf/AI_Information.en.zh-CN.pdf")


def without_tables(document: Document) -> Document:
    """The document as it would be were its tables lines like others."""
    return replace(document, tables=())


def build(rag: LocalRAG, folder: Path, *, before: bool) -> None:
    """Add all files."""
    indexer = rag._indexer
    parse = indexer.parse
    if before:
        indexer.parse = lambda *file, **calls: without_tables(parse(*file, **calls))
    names = dict.fromkeys([*(question.file for question in QUESTIONS), *NOISE])
    report = indexer.add([folder / name for name in names])
    assert not report.failed, report.failed


def rank_of(question: Question, hits: Sequence[ScoredChunk]) -> int:
    """The rank of the first passage with the row, from 1; 0 for none."""
    for rank, hit in enumerate(hits, start=1):
        lines = hit.chunk.text.split("\n")
        if PurePath(hit.source).name == PurePath(question.file).name and any(
            question.key in line and question.value in line for line in lines
        ):
            return rank
    return 0


def number(text: str) -> str:
    """The text with numbers as they are, however they are written: 173,500.00 is 173500."""
    return re.sub(r"(?<=\d)\.0+(?!\d)", "", fold(text).replace(",", ""))


def answers(rag: LocalRAG, name: str, out: Path) -> None:
    """Ask what OUT does not hold yet, a line of it each."""
    done = {row["question"] for row in lines(out) if row["way"] == name}
    for question in QUESTIONS:
        if question.text in done:
            continue
        started = time.perf_counter()
        answer = rag.ask(question.text)
        row = {
            "way": name,
            "question": question.text,
            "right": number(question.value) in number(answer.text),
            "grounded": answer.grounded,
            "cited": [citation.quote for citation in answer.citations],
            "answer": answer.text,
            "wanted": question.value,
            "seconds": round(time.perf_counter() - started, 1),
        }
        with out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def lines(path: Path) -> Iterator[dict[str, object]]:
    """The rows written so far."""
    if path.exists():
        yield from map(json.loads, path.read_text("utf-8").splitlines())


def main() -> None:
    """Ask before and after, and print a line each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--answers", type=Path, help="ask the language model, too")
    parser.add_argument("--each", action="store_true", help="the rank of each question")
    parser.add_argument("--ways", nargs="+", default=["before", "after"])
    arguments = parser.parse_args()
    for name in arguments.ways:
        with tempfile.TemporaryDirectory() as library, LocalRAG.open(library) as rag:
            build(rag, arguments.folder, before=name == "before")
            ranks = [rank_of(each, rag.search(each.text, k=10)) for each in QUESTIONS]
            if arguments.each:
                for question, rank in zip(QUESTIONS, ranks, strict=True):
                    print(f"{rank:3}  {question.text}")
            within = [sum(0 < rank <= k for rank in ranks) for k in (1, 3, 10)]
            reciprocal = sum(1 / rank for rank in ranks if rank) / len(ranks)
            print(
                f"{name}: rank 1 {within[0]}, 1-3 {within[1]}, 1-10 {within[2]} of {len(ranks)};",
                end=" ",
            )
            print(f"mean reciprocal rank {reciprocal:.3f}")
            if arguments.answers:
                answers(rag, name, arguments.answers)
                own = [row for row in lines(arguments.answers) if row["way"] == name]
                print(f"{name}: right {sum(bool(row['right']) for row in own)} of {len(own)}")


if __name__ == "__main__":
    main()
