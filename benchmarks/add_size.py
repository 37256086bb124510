"""Time and memory of `add` against the size of one file (text, Markdown, HTML, PDF), or of many.

    python benchmarks/add_size.py --json OUT.json --svg benchmarks/add_size.svg
    python benchmarks/add_size.py --kinds txt --sizes 1 --model models/use-multilingual-v3
    python benchmarks/add_size.py --kinds files --sizes 2

`files` is a folder of text files of 2 KB. Each measurement is a process of its own, with the
reading process that `localrag add` uses. The text is in half Chinese and half English words that
are drawn; the text file is hard-wrapped at 66 columns without a blank line, as logs are. Without
--model a stand-in counts tokens and embeds, at next to no cost: read, parse, chunk, segment, store
and index are what is measured.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from localrag.documents.chunking import SentenceChunker
from localrag.documents.worker import ParsingProcess
from localrag.factory import indexes_of
from localrag.indexing.indexer import Indexer
from localrag.library.library import Library
from localrag.library.records import EmbeddingIdentity
from localrag.models.embeddings.base import Embedder, Progress, Vectors
from localrag.presentation.plots import element, picture, text
from localrag.text.language import detect
from localrag.text.tokenize import Tokenizer

KINDS = ("txt", "md", "html", "pdf")
FOLDER = "files"
"""A kind beside these: a folder of small files."""
SMALL = 2048
"""Bytes of each."""
COLOURS = {"txt": "#2f6f9f", "md": "#b5651d", "html": "#3a7d44", "pdf": "#7a4988"}
MB = 1_000_000
ENGLISH = """
    the of and to in a is that for it as was with be by on not he his but at are this have from
    river engine market winter theory signal garden policy vector memory teacher harbour paper
    students measured improved carried gathered described compared several important local small
"""
CHINESE = """
    的 是 在 和 了 我们 城市 研究 模型 系统 数据 方法 学生 老师 经济 发展 问题 结果 机器 学习
    检索 文档 知识 河流 冬天 信号 花园 政策 记忆 港口 图书馆 技术 可以 通过 提高 重要 不同 使用
"""


def sentences(seed: int) -> Iterator[str]:
    """Sentences of about 90 bytes, in English and Chinese by turns."""
    draw = random.Random(seed)
    english, chinese = ENGLISH.split(), CHINESE.split()
    while True:
        yield " ".join(draw.choices(english, k=14)).capitalize() + ". "
        yield "".join(draw.choices(chinese, k=16)) + "。"


def text_file(size: int) -> bytes:
    """Lines of 66 columns (a Chinese character takes two), no blank line."""
    lines, line, width, length = [], "", 0, 0
    for sentence in sentences(1):
        for word in sentence.split(" ") if sentence.isascii() else sentence:
            piece = f"{word} " if word.isascii() else word
            columns = len(piece) if word.isascii() else 2
            if width + columns > 66:
                lines.append(line.strip())
                length += len(line.strip().encode()) + 1
                line, width = "", 0
            line, width = line + piece, width + columns
        if length >= size:
            return "\n".join(lines).encode()
    raise AssertionError


def markup_file(size: int, markdown: bool) -> bytes:
    """Sections with a heading, paragraphs with emphasis and links, a list and a table."""
    parts, length, words = [], 0, sentences(2)
    for number in range(sys.maxsize):
        text = [next(words).strip() for _ in range(12)]
        if markdown:
            part = (
                f"## Section {number}\n\n{text[0]} **{text[1]}** [{text[2]}](#a).\n{text[3]}\n\n"
                f"- {text[4]}\n- {text[5]}\n\n| a | b |\n|---|---|\n| {text[6]} | {text[7]} |\n\n"
                f"{' '.join(text[8:])}\n\n"
            )
        else:
            part = (
                f"<h2>Section {number}</h2><p>{text[0]} <b>{text[1]}</b> <a href='#'>{text[2]}</a>"
                f"\n{text[3]}</p><ul><li>{text[4]}</li><li>{text[5]}</li></ul><table><tr>"
                f"<td>{text[6]}</td><td>{text[7]}</td></tr></table><p>{' '.join(text[8:])}</p>\n"
            )
        parts.append(part)
        length += len(part.encode())
        if length >= size:
            return "".join(parts).encode()
    raise AssertionError


def pdf_file(size: int) -> bytes:
    """Pages of text lines, uncompressed, so that the size is the text's."""
    import pymupdf

    library: Any = pymupdf
    document, words, length = library.open(), sentences(3), 0
    while length < size:
        page = document.new_page()
        lines = [f"{next(words)}{next(words)}"[:76] for _ in range(54)]
        # A font that every reader of PDFs brings along: nothing of it is in the file.
        page.insert_text((40, 40), lines, fontname="china-s", fontsize=9, lineheight=1.5)
        length += sum(4 * len(line) + 12 for line in lines) + 500
    data: bytes = document.tobytes(expand=1)
    return data


def made(kind: str, size: int) -> bytes:
    """A file of about `size` bytes."""
    if kind == "txt":
        return text_file(size)
    return pdf_file(size) if kind == "pdf" else markup_file(size, kind == "md")


class StandIn:
    """Vectors from the length of the text's hash: costs next to nothing."""

    dimension = 512
    fingerprint = "stand-in"
    max_tokens = 512

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [max(1, len(text.encode()) // 4) for text in texts]

    def embed_documents(self, texts: Sequence[str], progress: Progress | None = None) -> Vectors:
        if progress is not None:
            progress(len(texts))
        return self.embed_queries(texts)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        seeds = [int.from_bytes(hashlib.sha256(t.encode()).digest()[:8], "big") for t in texts]
        rows = [np.random.default_rng(seed).standard_normal(512, np.float32) for seed in seeds]
        vectors = np.array(rows, dtype=np.float32).reshape(-1, 512)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def make_embedder(model: Path | None) -> Embedder:
    if model is None:
        return StandIn()
    from localrag.models.embeddings.onnx import OnnxEmbedder
    from localrag.models.embeddings.use import UniversalSentenceEncoder

    return (
        OnnxEmbedder(model)
        if (model / "tokenizer.json").exists()
        else UniversalSentenceEncoder(model)
    )


def write(kind: str, size: int, path: Path) -> None:
    """A file of about `size` bytes, or a folder of small ones that have it together."""
    if kind != FOLDER:
        path.write_bytes(made(kind, size))
        return
    path.mkdir()
    text = sentences(4)
    for number in range(max(1, size // SMALL)):
        small = ""
        while len(small.encode()) < SMALL:
            small += next(text)
        (path / f"{number:06}.txt").write_text(small, encoding="utf-8")


class Watch(threading.Thread):
    """The most memory that this process and its children have held at once."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most = self.most_here = 0
        self.over = threading.Event()

    def run(self) -> None:
        here = psutil.Process()
        while not self.over.wait(0.1):
            own = here.memory_info().rss
            total = own
            for child in here.children(recursive=True):
                try:
                    total += child.memory_info().rss
                except psutil.Error:
                    continue
            self.most, self.most_here = max(self.most, total), max(self.most_here, own)


def measure(path: Path, model: Path | None) -> dict[str, Any]:
    """Add one file to a new library."""
    embedder = make_embedder(model)
    tokenizer = Tokenizer()
    identity = EmbeddingIdentity(embedder.fingerprint, "measured", embedder.dimension)
    watch = Watch()
    with tempfile.TemporaryDirectory() as folder:
        library = Library.open(
            Path(folder) / "library",
            create=True,
            embedding=identity,
            indexes=indexes_of(tokenizer),
        )
        tokenizer("中")  # the segmenter's dictionary
        watch.start()
        before = time.process_time()
        started = time.perf_counter()
        with library:
            report = Indexer(
                library,
                chunker=SentenceChunker(embedder.count_tokens, embedder.max_tokens),
                chunking="measured",
                embedder=embedder,
                embedding=identity,
                detect_language=detect,
                parse=ParsingProcess(),
            ).add([path])
        seconds = time.perf_counter() - started
        here = psutil.Process()
        both = [one.cpu_times() for one in (here, *here.children())]
        processor = sum(one.user + one.system for one in both) - before
        watch.over.set()
    if report.failed:
        raise SystemExit(f"{path.name}: {report.failed[0].error}")
    return {
        "bytes": sum(file.stat().st_size for file in (path, *path.rglob("*")) if file.is_file()),
        "seconds": round(seconds, 2),
        "processor": round(processor, 2),
        "chunks": report.chunks,
        "memory_mb": round(watch.most / 2**20),
        "parent_mb": round(watch.most_here / 2**20),
        **{phase: round(value, 2) for phase, value in report.seconds.items()},
    }


def plot(rows: list[dict[str, Any]]) -> str:
    """Processor seconds against megabytes, on logarithmic axes: linear is a line of 45 degrees."""
    left, top, step = 70, 50, 150  # step: pixels of a factor of ten
    low_x = math.floor(math.log10(min(row["bytes"] for row in rows) / MB) + 0.1)
    low_y = math.floor(math.log10(min(row["processor"] for row in rows)))
    high_x = math.ceil(math.log10(max(row["bytes"] for row in rows) / MB) - 0.1)
    high_y = math.ceil(math.log10(max(row["processor"] for row in rows)))
    bottom = top + step * (high_y - low_y)

    def at(row: dict[str, Any]) -> tuple[float, float]:
        x = left + step * (math.log10(row["bytes"] / MB) - low_x)
        return x, bottom - step * (math.log10(row["processor"]) - low_y)

    width = left + step * (high_x - low_x) + 120
    parts = [text(20, 26, "localrag add: processor seconds by file size")]
    for power in range(low_x, high_x + 1):
        x = left + step * (power - low_x)
        parts.append(element("path", d=f"M{x} {top}V{bottom}", stroke="#ddd"))
        parts.append(text(x, bottom + 20, f"{10**power:g} MB", "middle"))
    for power in range(low_y, high_y + 1):
        y = bottom - step * (power - low_y)
        end = left + step * (high_x - low_x)
        parts.append(element("path", d=f"M{left} {y}H{end}", stroke="#ddd"))
        parts.append(text(left - 8, y + 4, f"{10**power:g} s", "end"))
    for kind, colour in COLOURS.items():
        points = [at(row) for row in rows if row["kind"] == kind]
        if not points:
            continue
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(element("polyline", points=line, fill="none", stroke=colour))
        parts += [element("circle", cx=x, cy=y, r=4, fill=colour) for x, y in points]
        x, y = points[-1]
        parts.append(text(x + 10, y + 4, kind, fill=colour))
    return picture("localrag add", width, bottom + 60, parts, font_size=13).text + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--kinds", nargs="+", choices=(*KINDS, FOLDER), default=KINDS)
    parser.add_argument("--sizes", nargs="+", type=float, default=[1, 10, 100], help="megabytes")
    parser.add_argument("--model", type=Path, help="an embedding model's folder")
    parser.add_argument("--json", type=Path, help="measurements; those that are there are kept")
    parser.add_argument("--svg", type=Path, help="write a plot")
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        print(json.dumps(measure(chosen.one, chosen.model)))
        return
    rows: list[dict[str, Any]] = []
    if chosen.json and chosen.json.exists():
        rows = json.loads(chosen.json.read_text())
    for kind in chosen.kinds:
        for size in chosen.sizes:
            if any((row["kind"], row["size"]) == (kind, size) for row in rows):
                continue
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / f"measured.{kind}"
                write(kind, int(size * MB), path)
                command = [sys.executable, __file__, "--one", str(path)]
                if chosen.model:
                    command += ["--model", str(chosen.model)]
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
            if done.returncode:
                sys.exit(f"{kind} {size:g} MB: {done.stdout}")
            rows.append({"kind": kind, "size": size} | json.loads(done.stdout))
            print(json.dumps(rows[-1]), flush=True)
            if chosen.json:
                chosen.json.write_text(json.dumps(rows, indent=1) + "\n")
    if chosen.svg:
        chosen.svg.write_text(plot(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
