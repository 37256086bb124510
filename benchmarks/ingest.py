"""Chunks a second in each phase of adding 1,000 text files of 2 KB, and what opening costs.

    python benchmarks/ingest.py --model models/use-multilingual-v3

Half the files are Chinese, half English, drawn from word lists. Without --model a stand-in
embeds, so that every other phase is measured alone. "segment" is cutting words for the keyword
index, "index" the rest of bringing both indexes up to date.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from localrag.documents.chunking import SentenceChunker
from localrag.documents.files import parse_file
from localrag.factory import indexes_of
from localrag.indexing.indexer import Indexer
from localrag.library.library import Library
from localrag.library.records import EmbeddingIdentity
from localrag.models.embeddings.base import Embedder, Progress, Vectors
from localrag.text.language import detect
from localrag.text.tokenize import Tokenizer

ENGLISH = """
    the of and to in a is that for it as was with be by on not he his but at are this have from
    river engine market winter theory signal garden policy vector memory teacher harbour paper
    students measured improved carried gathered described compared several important local small
"""
CHINESE = """
    的 是 在 和 了 我们 城市 研究 模型 系统 数据 方法 学生 老师 经济 发展 问题 结果 机器 学习
    检索 文档 知识 河流 冬天 信号 花园 政策 记忆 港口 图书馆 技术 可以 通过 提高 重要 不同 使用
"""


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


class Timed:
    """A tokenizer with a stop-watch."""

    def __init__(self) -> None:
        self._tokenize = Tokenizer()
        self.fingerprint = self._tokenize.fingerprint
        self.seconds = 0.0

    def __call__(self, text: str) -> list[str]:
        started = time.perf_counter()
        terms = self._tokenize(text)
        self.seconds += time.perf_counter() - started
        return terms


def write_files(folder: Path, count: int, size: int) -> None:
    draw = random.Random(20)
    for number in range(count):
        words, gap, stop = (CHINESE, "", "。") if number % 2 else (ENGLISH, " ", ". ")
        text = ""
        while len(text.encode()) < size:
            sentence = gap.join(draw.choices(words.split(), k=draw.randint(8, 20)))
            text += sentence + stop + ("\n" if draw.random() < 0.1 else "")
        (folder / f"{number:05}.txt").write_text(text, encoding="utf-8")


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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--size", type=int, default=2048, help="bytes a file")
    parser.add_argument("--model", type=Path, help="folder of an ONNX embedding model")
    arguments = parser.parse_args()
    embedder = make_embedder(arguments.model)
    embedding = EmbeddingIdentity(embedder.fingerprint, "benchmark", embedder.dimension)
    with tempfile.TemporaryDirectory() as base:
        files, directory = Path(base, "files"), Path(base, "library")
        files.mkdir()
        write_files(files, arguments.files, arguments.size)
        tokenize = Timed()
        tokenize("热身")  # loading the dictionary is not counted
        tokenize.seconds = 0.0

        def opened() -> Library:
            return Library.open(
                directory,
                create=True,
                embedding=embedding,
                indexes=indexes_of(tokenize),
            )

        with opened() as library:
            indexer = Indexer(
                library,
                chunker=SentenceChunker(embedder.count_tokens, embedder.max_tokens),
                chunking="benchmark",
                embedder=embedder,
                embedding=embedding,
                detect_language=detect,
                parse=parse_file,
            )
            started = time.perf_counter()
            report = indexer.add([files])
            total = time.perf_counter() - started
            started = time.perf_counter()
            indexer.add([files])
            again = time.perf_counter() - started
        seconds = dict(report.seconds)
        seconds["segment"] = tokenize.seconds
        seconds["index"] -= tokenize.seconds
        print(f"{arguments.files} files, {report.chunks} chunks, {total:.2f} s in all")
        for phase in ("read", "parse", "chunk", "embed", "store", "segment", "index"):
            rate = report.chunks / seconds[phase]
            print(f"  {phase:8} {seconds[phase]:7.2f} s {rate:10.0f} chunks/s")
        print(f"  a second add, nothing changed: {again:.2f} s")
        query, terms = embedder.embed_queries(["机器学习 memory"])[0], tokenize("机器学习 memory")
        started = time.perf_counter()
        with opened() as library:
            times = {"open": time.perf_counter() - started}
            for name, search in (
                ("first vector search", lambda: library.vectors.search(query, 20)),
                ("next vector search", lambda: library.vectors.search(query, 20)),
                ("first keyword search", lambda: library.keywords.search(terms, 20)),
                ("next keyword search", lambda: library.keywords.search(terms, 20)),
            ):
                started = time.perf_counter()
                hits = search()
                times[name] = time.perf_counter() - started
            started = time.perf_counter()
            library.chunks(hit.chunk_id for hit in hits)
            times["reading 20 chunks"] = time.perf_counter() - started
            one = library.sources()[0].state.path
            started = time.perf_counter()
            library.remove(sources=[one])
            times["removing a file"] = time.perf_counter() - started
        for name, taken in times.items():
            print(f"  {name:21} {taken * 1000:8.1f} ms")


if __name__ == "__main__":
    main()
