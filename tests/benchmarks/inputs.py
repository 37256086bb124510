"""Tiny inputs for the benchmarks, of the layout that their real ones have."""

from __future__ import annotations

import json
import runpy
from collections.abc import Iterable
from itertools import product
from pathlib import Path

import pymupdf
import xlsxwriter
from docx import Document

ARTICLES, PASSAGES = 4, 5
"""Of a retrieval set; each passage has three questions."""
NAMES = ("Avon", "Birch", "Cedar", "Dover")
TEXTS = {
    "en": (
        "The {name} bridge number {n} was opened to all the people of the valley in {year} at last",
        "It was planned by the engineer {who}, who had learned his trade in a harbour far away",
        "About {men} workers built the {name} bridge number {n}, and the last left in the autumn",
        "Before that, a ferry had carried people, cattle and grain over the river every morning",
    ),
    "zh": (
        "{name}第{n}桥终于在{year}年向山谷里的全体居民开放通行并举行了盛大的仪式",
        "这座桥由工程师{who}设计，他早年在遥远的港口学会了这门手艺并带回家乡",
        "大约有{men}名工人参加修建{name}第{n}桥，最后一批人在秋天离开了山谷",
        "在那以前，每天早晨都靠一条渡船把居民、牲口和粮食运送到河的对岸去",
    ),
}
QUESTIONS = {
    "en": (
        "In which year was the {name} bridge number {n} opened to the people?",
        "Which engineer planned the {name} bridge number {n}?",
        "How many workers built the {name} bridge number {n}?",
    ),
    "zh": (
        "{name}第{n}桥是哪一年开放通行的？",
        "{name}第{n}桥是哪位工程师设计的？",
        "有多少名工人修建了{name}第{n}桥？",
    ),
}


def write_lines(path: Path, rows: Iterable[object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_text("".join(lines), encoding="utf-8")


def retrieval_set(folder: Path, language: str) -> None:
    """`corpus.jsonl`, `queries.jsonl` with answers, `qrels.tsv`; the same ids in both languages."""
    corpus, queries, qrels = [], [], []
    for article, place in product(range(ARTICLES), range(PASSAGES)):
        number = article * PASSAGES + place
        values = {"name": NAMES[article], "n": place, "year": 1851 + 3 * number}
        values |= {"men": 120 + 7 * number, "who": f"W{number:02}x"}
        stop = ". " if language == "en" else "。"
        text = stop.join(sentence.format(**values) for sentence in TEXTS[language]) + stop.strip()
        corpus.append({"id": f"p{number:02}", "title": NAMES[article], "text": text})
        answers = (values["year"], values["who"], values["men"])
        for part, (question, answer) in enumerate(zip(QUESTIONS[language], answers, strict=True)):
            row = {"id": f"q{number:02}{part}", "text": question.format(**values)}
            queries.append(row | {"answers": [str(answer)]})
            qrels.append(f"q{number:02}{part}\tp{number:02}\t1\n")
    write_lines(folder / "corpus.jsonl", corpus)
    write_lines(folder / "queries.jsonl", queries)
    (folder / "qrels.tsv").write_text("".join(qrels), encoding="utf-8")


def write_pdf(path: Path, *pages: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with pymupdf.open() as document:
        for page in pages:
            document.new_page().insert_textbox((40, 40, 550, 800), page, fontname="china-s")
        document.save(path)


def write_file(path: Path, rows: Iterable[str]) -> None:
    """A file of its suffix with these lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".xlsx":
        with xlsxwriter.Workbook(path) as book:
            sheet = book.add_worksheet()
            for number, row in enumerate(rows):
                sheet.write_string(number, 0, row)
    elif path.suffix == ".docx":
        document = Document()
        for row in rows:
            document.add_paragraph(row)
        document.save(str(path))
    else:
        write_pdf(path, "\n".join(rows))


def write_inputs(folder: Path, benchmarks: Path) -> None:
    """Everything that a command may name."""
    for name, language in (
        ("xquad_en", "en"), ("xquad_zh", "zh"), ("cmrc2018", "zh"), ("scifact", "en"),
    ):  # fmt: skip
        retrieval_set(folder / name, language)
    corpus = (folder / "cmrc2018" / "corpus.jsonl").read_text("utf-8").splitlines()
    texts = [json.loads(line)["text"] for line in corpus]
    items = [
        {"id": n, "query": f"第{n}座桥是哪一年开放通行的？", "answer": ["1854"]}
        | {"positive": texts[n : n + 3], "negative": texts[n + 6 : n + 11]}
        for n in range(6)
    ]
    write_lines(folder / "rgb" / "zh_refine_first150.jsonl", items)
    first, second, *_ = texts[0].split("。")
    write_pdf(folder / "small.pdf", f"{first}。{second}。", "The bridge was opened in 1854.")
    (folder / "checked").mkdir()
    (folder / "checked" / "a.md").write_text("One bridge\n\n| a | b |\n|---|---|\n| c | d |\n")
    (folder / "checked" / "a.md.truth.md").write_text("One bridge\n\n| a | b |\n|---|---|\n")
    for number, text in enumerate(texts[:3]):
        write_file(folder / "office" / "docs" / f"{number}.docx", text.split("。"))
    question = {"lang": "zh", "question": "哪一年开放通行？", "answer": "1854"}
    rest = {"must": [["1854"]], "no": [], "files": ["0.docx"], "refuse": False}
    kinds = (("fact", []), ("follow", ["桥在哪里？"]))
    write_lines(
        folder / "office" / "questions.jsonl",
        [question | rest | {"id": kind, "kind": kind, "history": turns} for kind, turns in kinds],
    )
    referenced = {"id": "1", "kind": "factual", "lang": "zh", "question": "哪一年开放通行？"}
    write_lines(
        folder / "office" / "sample.jsonl",
        [referenced | {"references": [texts[0].split("。")[0]], "docs": ["0.docx"]}],
    )
    for name in ("a", "b"):
        turns = [f"Speaker {n}: The {name} bridge number {n} is to be painted." for n in range(30)]
        path = folder / "meetings" / "transcripts" / f"{name}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(turns), encoding="utf-8")
    meeting = {"meeting": "transcripts/a.txt", "question": "What is painted?", "spans": [[3, 17]]}
    write_lines(folder / "meetings" / "questions.jsonl", [meeting])
    for name in ("a", "b"):
        path = folder / "wtq" / "csv" / f"{name}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("Bridge,Opened\nAvon,1851\nBirch,1866\n", encoding="utf-8")
    query = {"id": "1", "question": "When was Avon opened?", "answers": ["1851"]}
    write_lines(
        folder / "wtq" / "questions.jsonl", [query | {"table": f"csv/{name}.csv"} for name in "ab"]
    )
    tables = runpy.run_path(str(benchmarks / "table_questions.py"))
    rows: dict[str, list[str]] = {name: ["nothing"] for name in tables["NOISE"]}
    for row in tables["QUESTIONS"]:
        rows.setdefault(row.file, []).append(f"{row.key} | {row.value}")
    for name, lines in rows.items():
        write_file(folder / "tables" / name, lines)
