"""nDCG@10 of both keyword engines on retrieval sets, and what they cost.

    python benchmarks/keyword_engines.py FOLDER...

A folder holds corpus.jsonl (id, title, text), queries.jsonl (id, text) and qrels.tsv
(query, passage, relevance).
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from localrag.library.indexes.base import Storage
from localrag.library.indexes.inverted import InvertedKeywords
from localrag.library.indexes.rank_bm25 import RankBm25Keywords
from localrag.system.seals import own_seal
from localrag.text.tokenize import Tokenizer
from localrag.types import Hit

Qrels = dict[str, dict[str, int]]


def read_lines(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def read_qrels(path: Path) -> Qrels:
    qrels: Qrels = defaultdict(dict)
    for line in path.read_text(encoding="utf-8").splitlines():
        columns = line.split("\t")
        query, passage, relevance = columns[0], columns[-2], columns[-1]
        if relevance.lstrip("-").isdigit():
            qrels[query][passage] = int(relevance)
    return qrels


def ndcg(ranking: list[str], relevant: dict[str, int], k: int = 10) -> float:
    """Gain 2^rel - 1, discount log2(rank + 1), ranks from 1 (Burges et al. 2005)."""
    gains = [2 ** relevant.get(passage, 0) - 1 for passage in ranking[:k]]
    ideal = sorted((2**grade - 1 for grade in relevant.values()), reverse=True)[:k]
    score, best = (
        sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains_, start=1))
        for gains_ in (gains, ideal)
    )
    return score / best if best else 0.0


def measure(folder: Path, limit: int) -> list[float]:
    """Print what each engine does on one set, and return its nDCG@10: ours, rank_bm25."""
    means: list[float] = []
    tokenize = Tokenizer()
    corpus = read_lines(folder / "corpus.jsonl")
    qrels = read_qrels(folder / "qrels.tsv")
    queries = [query for query in read_lines(folder / "queries.jsonl") if qrels.get(query["id"])]
    queries = queries[:limit]
    started = time.perf_counter()
    passages = [tokenize(f"{row.get('title', '')}\n{row['text']}") for row in corpus]
    questions = [tokenize(query["text"]) for query in queries]
    cut = time.perf_counter() - started
    print(f"{folder.name}: {len(corpus)} passages, {len(queries)} queries, cut in {cut:.2f} s")
    with tempfile.TemporaryDirectory() as base:
        at = Storage(Path(base), own_seal())
        for index in (InvertedKeywords(), RankBm25Keywords()):
            started = time.perf_counter()
            index.apply((), enumerate(passages), ("benchmark", 1), at)
            index.search(["warm"], 1)
            built = time.perf_counter() - started
            started = time.perf_counter()
            found: list[list[Hit]] = [index.search(terms, 10) for terms in questions]
            each = (time.perf_counter() - started) / len(questions) * 1000
            scores = [
                ndcg([corpus[hit.chunk_id]["id"] for hit in hits], qrels[query["id"]])
                for query, hits in zip(queries, found, strict=True)
            ]
            means.append(sum(scores) / len(scores))
            print(
                f"  {type(index).__name__:17} nDCG@10 {means[-1]:.4f}"
                f"  built in {built:.2f} s, {each:.2f} ms a query"
            )
        started = time.perf_counter()
        again = InvertedKeywords()
        again.open(at)
        again.search(questions[0], 10)
        print(f"  opened and first answer in {(time.perf_counter() - started) * 1000:.1f} ms")
    return means


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--queries", type=int, default=400, help="queries a set (400)")
    arguments = parser.parse_args()
    for folder in arguments.folders:
        measure(folder, arguments.queries)


if __name__ == "__main__":
    main()
