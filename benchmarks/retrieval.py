"""Fusion measured: every leg and fusion on every set, sensitivity, other models, and size.

    python benchmarks/retrieval.py sets DATA [--queries 1200] [--model NAME]
    python benchmarks/retrieval.py fetch DATA           how many hits a leg is asked for
    python benchmarks/retrieval.py sensitivity DATA     each constant 30% down and up
    python benchmarks/retrieval.py models DATA          other embedding models, wrong languages
    python benchmarks/retrieval.py mixed DATA           both languages in one corpus
    python benchmarks/retrieval.py size 100000          random vectors, made-up words

DATA holds folders of retrieval sets. Each question is searched once in each leg; the fusions
then work on the same two lists. nDCG@10 throughout; "!" marks what falls more than .002 below
the better leg. What it printed is in retrieval.md.
"""

from __future__ import annotations

import argparse
import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path

import numpy as np

from localrag import factory
from localrag.config.settings import EmbeddingSettings, Settings
from localrag.evaluation.retrieval.beir import RetrievalSet, read_retrieval_set
from localrag.evaluation.retrieval.benchmark import WholePassages, document_vectors
from localrag.evaluation.retrieval.metrics import ndcg
from localrag.library.indexes.comparison import WithVectors
from localrag.library.indexes.faiss import FaissVectors
from localrag.library.indexes.inverted import InvertedKeywords
from localrag.library.indexes.rank_bm25 import RankBm25Keywords
from localrag.library.records import NEVER
from localrag.models.registry.spec import catalogue
from localrag.retrieval import evidence
from localrag.retrieval.evidence import EvidenceFusion
from localrag.retrieval.fusion import alpha_fusion, reciprocal_rank_fusion
from localrag.retrieval.hybrid import HybridRetriever, KeywordRetriever
from localrag.text.background import PASSAGES, idf
from localrag.text.tokenize import Tokenizer
from localrag.types import Hit

STARTER = "use-multilingual-v3"
SIX = (
    ("cmrc2018", "cmrc2018"),
    ("xquad_zh", "xquad_zh"),
    ("xquad_en", "xquad_en"),
    ("xquad_en", "xquad_zh"),
    ("xquad_zh", "xquad_en"),
    ("scifact", "scifact"),
)
OTHERS = (
    ("bge-small-en-v1.5-int8", "xquad_en", "xquad_en"),
    ("bge-small-en-v1.5-int8", "xquad_zh", "xquad_zh"),
    ("bge-small-en-v1.5-int8", "scifact", "scifact"),
    ("bge-small-en-v1.5-int8", "xquad_en", "xquad_zh"),
    ("bge-small-en-v1.5-int8", "xquad_zh", "xquad_en"),
    ("m3e-small", "xquad_zh", "xquad_zh"),
    ("m3e-small", "cmrc2018", "cmrc2018"),
    ("m3e-small", "xquad_en", "xquad_en"),
    ("m3e-small", "xquad_zh", "xquad_en"),
    ("m3e-small", "xquad_en", "xquad_zh"),
    ("all-minilm-l6-v2", "xquad_en", "xquad_en"),
    ("all-minilm-l6-v2", "xquad_zh", "xquad_zh"),
)
DEPTH = 300

Runs = tuple[list[Hit], list[Hit]]
Ranking = Callable[[str, Runs], Sequence[Hit]]

tokenizer = Tokenizer()


@cache
def embedder(model: str):
    settings = Settings(embedding=EmbeddingSettings(model=model))
    return factory.make_embedder(settings, factory.make_models())


class Searched:
    """A set with both legs' lists for each question."""

    def __init__(self, dataset: RetrievalSet, model: str) -> None:
        self.dataset = dataset
        cached = factory.cache_folder() / "bench"
        vectors = document_vectors(embedder(model), list(dataset.corpus.values()), cached)
        self.passages = WholePassages(dataset.corpus, vectors, factory.indexes_of(tokenizer))
        spec = catalogue().find(model.split("+")[0])
        self.fuse = EvidenceFusion(
            tokenizer, self.passages.keywords, self.passages.texts, spec.languages if spec else ()
        )
        keyword = KeywordRetriever(tokenizer, self.passages.keywords)
        self.runs: dict[str, Runs] = {}
        texts = [dataset.queries[query] for query in dataset.qrels]
        asked = embedder(model).embed_queries(texts)
        search = factory.by_language(embedder(model), self.passages.vectors, self.passages.texts)
        for query, text, vector in zip(dataset.qrels, texts, asked, strict=True):
            dense = search.search(vector, DEPTH)
            self.runs[query] = (dense, keyword.retrieve(text, DEPTH))

    def score(self, ranking: Ranking) -> float:
        scores = []
        for query, relevance in self.dataset.qrels.items():
            hits = ranking(self.dataset.queries[query], self.runs[query])[:10]
            found = [self.passages.ids[hit.chunk_id] for hit in hits]
            scores.append(ndcg(found, relevance, k=10))
        return float(np.mean(scores))


def cut(runs: Runs, count: int) -> Runs:
    return runs[0][:count], runs[1][:count]


def linear(alpha: float, count: int = 30) -> Ranking:
    return lambda _, runs: alpha_fusion(*cut(runs, count), alpha=alpha)


def rrf(count: int = 30) -> Ranking:
    return lambda _, runs: reciprocal_rank_fusion(cut(runs, count))


def default(searched: Searched, count: int = 100) -> Ranking:
    return lambda question, runs: searched.fuse(question, cut(runs, count))


def rankings(searched: Searched) -> dict[str, Ranking]:
    return {
        "keyword": lambda _, runs: runs[1],
        "dense": lambda _, runs: runs[0],
        "rrf": rrf(),
        **{f"lin {alpha}": linear(alpha) for alpha in (0.3, 0.4, 0.5, 0.6)},
        "default": default(searched),
    }


def line(name: str, scores: dict[str, float]) -> str:
    legs = [value for key, value in scores.items() if key in ("keyword", "dense")]
    floor = max(legs, default=0.0) - 0.002
    cells = [f"{value:.4f}{'!' if value < floor else ''}" for value in scores.values()]
    return f"| {name} | " + " | ".join(cells) + " |"


def table(rows: Iterator[tuple[str, dict[str, float]]]) -> None:
    total: list[list[float]] = []
    for name, scores in rows:
        if not total:
            print(f"| set | {' | '.join(scores)} |\n|---|{'---|' * len(scores)}")
        total.append(list(scores.values()))
        print(line(name, scores), flush=True)
    print("| mean | " + " | ".join(f"{value:.4f}" for value in np.mean(total, axis=0)) + " |")


def load(data: Path, queries: str, corpus: str, count: int) -> RetrievalSet:
    other = data / queries if queries != corpus else None
    return read_retrieval_set(data / corpus, other).sample(count)


def label(queries: str, corpus: str) -> str:
    return corpus if queries == corpus else f"{queries} over {corpus}"


def six(data: Path, count: int, model: str) -> Iterator[tuple[str, Searched]]:
    for queries, corpus in SIX:
        yield label(queries, corpus), Searched(load(data, queries, corpus, count), model)


def measure_sets(data: Path, count: int, model: str) -> None:
    table(
        (name, {key: each.score(ranking) for key, ranking in rankings(each).items()})
        for name, each in six(data, count, model)
    )
    dataset = read_retrieval_set(data / "scifact")
    plain = partial(re.findall, r"\w+")
    index = InvertedKeywords()
    places = list(dataset.corpus)
    terms = (plain(passage.lower()) for passage in dataset.corpus.values())
    index.apply((), enumerate(terms), NEVER)
    scores = []
    for query, relevance in dataset.qrels.items():
        hits = index.search(plain(dataset.queries[query].lower()), 10)
        scores.append(ndcg([places[hit.chunk_id] for hit in hits], relevance, k=10))
    print(f"\nscifact, BM25 over plain lower-case words: {np.mean(scores):.4f} (published .665)")


def measure_fetch(data: Path, count: int, model: str) -> None:
    def row(each: Searched) -> dict[str, float]:
        return {
            f"{name} {count}": each.score(ranking)
            for name, make in (("rrf", rrf), ("lin .5", partial(linear, 0.5)))
            for count in (30, 100, 300)
            for ranking in [make(count=count)]
        } | {f"default {count}": each.score(default(each, count)) for count in (30, 100, 300)}

    table((name, row(each)) for name, each in six(data, count, model))


@contextmanager
def changed(name: str, value: object) -> Iterator[None]:
    old = getattr(evidence, name)
    setattr(evidence, name, value)
    try:
        yield
    finally:
        setattr(evidence, name, old)


def confidence(terms, held, passages, frequencies, *, power=0.5, chance=1.0) -> float:
    """`keyword_confidence` with another power than the square root, or a multiple of ln N."""
    information = {term: idf(term, frequencies[term], passages) for term in terms}
    shared = sum(information[term] for term in terms if term in held)
    if shared <= 0:
        return 0.0
    beyond_chance = shared / (shared + chance * math.log(passages + PASSAGES))
    return (shared / sum(information.values()) * beyond_chance) ** power


def measure_sensitivity(data: Path, count: int, model: str) -> None:
    variants: dict[str, tuple[str, object]] = {"as is": ("WINDOW", 100)}
    variants |= {f"window {value}": ("WINDOW", value) for value in (30, 70, 130)}
    variants |= {
        f"power {value}": ("keyword_confidence", partial(confidence, power=value))
        for value in (0.35, 0.65)
    }
    variants |= {
        f"ln N x {value}": ("keyword_confidence", partial(confidence, chance=value))
        for value in (0.7, 1.3)
    }
    variants |= {f"depth {value}": ("LANGUAGE_DEPTH", value) for value in (20, 40)}

    def row(each: Searched) -> dict[str, float]:
        legs = {
            "keyword": each.score(lambda _, runs: runs[1]),
            "dense": each.score(lambda _, runs: runs[0]),
        }
        for name, change in variants.items():
            with changed(*change):
                legs[name] = each.score(default(each, 130))
        return legs

    table((name, row(each)) for name, each in six(data, count, model))


def measure_models(data: Path, count: int) -> None:
    def rows() -> Iterator[tuple[str, dict[str, float]]]:
        for model, queries, corpus in OTHERS:
            each = Searched(load(data, queries, corpus, count), model)
            scores = {key: each.score(ranking) for key, ranking in rankings(each).items()}
            each.fuse._served = frozenset()
            scores["not told"] = each.score(default(each))
            for trust in (0.07, 0.13):
                each.fuse._served = frozenset(catalogue().get(model).languages)
                with changed("UNSERVED_TRUST", trust):
                    scores[f"trust {trust}"] = each.score(default(each))
            yield f"{model}: {label(queries, corpus)}", scores

    table(rows())


def measure_mixed(data: Path, count: int, model: str) -> None:
    """Both xquad corpora in one; in "half", each passage stands there in one language only.

    Then cmrc2018 and scifact in one, which have nothing in common.
    """
    sets = {language: read_retrieval_set(data / f"xquad_{language}") for language in ("en", "zh")}
    places = list(sets["en"].corpus)
    only = {key: ("en", "zh")[number % 2] for number, key in enumerate(places)}

    def row(dataset: RetrievalSet) -> tuple[str, dict[str, float]]:
        searched = Searched(dataset.sample(count), model)
        return dataset.name, {
            name: searched.score(ranking) for name, ranking in rankings(searched).items()
        }

    def rows() -> Iterator[tuple[str, dict[str, float]]]:
        for half in (False, True):
            corpus = {
                f"{language} {key}": text
                for language, each in sets.items()
                for key, text in each.corpus.items()
                if not half or only[key] == language
            }
            for language, each in sets.items():
                relevant = {
                    "both": lambda key, _=language: [f"en {key}", f"zh {key}"],
                    "own": lambda key, own=language: [f"{own} {key}"],
                }
                for which, ids in relevant.items():
                    if half and which == "own":
                        continue
                    qrels = {
                        query: {name: 1 for key in grades for name in ids(key) if name in corpus}
                        for query, grades in each.qrels.items()
                    }
                    name = f"{language} questions, {'half of each' if half else which}"
                    yield row(RetrievalSet(name, corpus, each.queries, qrels))
        parts = [read_retrieval_set(data / name) for name in ("cmrc2018", "scifact")]
        corpus = {f"{part.name} {key}": text for part in parts for key, text in part.corpus.items()}
        for part in parts:
            qrels = {
                query: {f"{part.name} {key}": grade for key, grade in grades.items()}
                for query, grades in part.qrels.items()
            }
            yield row(RetrievalSet(f"{part.name}, beside the other", corpus, part.queries, qrels))

    table(rows())


def measure_size(passages: int) -> None:
    """Words by Zipf's law, 150 a passage; vectors of 512 random numbers."""
    generator = np.random.default_rng(0)
    ranks = np.arange(1, 200_001)
    share = 1 / ranks
    words = np.array([f"w{rank}" for rank in ranks])
    drawn = generator.choice(words, size=(passages, 150), p=share / share.sum())
    vectors = generator.standard_normal((passages, 512)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    corpus = [row.tolist() for row in drawn]
    # Twelve words of a passage, without the fifty that stand nearly everywhere.
    questions = []
    for row in generator.integers(passages, size=200):
        rare = [word for word in corpus[row] if int(word[1:]) > 50]
        questions.append(rare[:12])
    ours, reference = InvertedKeywords(), RankBm25Keywords()
    ours.apply((), enumerate(corpus), NEVER)
    reference.apply((), enumerate(corpus), NEVER)
    reference.search(["w1"], 1)
    ours_ms = timed(lambda terms: ours.search(terms, 100), questions)
    reference_ms = timed(lambda terms: reference.search(terms, 100), questions[:10])
    print(f"keyword leg, p50 ms: ours {np.median(ours_ms):.2f}", end=", ")
    print(f"rank_bm25 {np.median(reference_ms):.1f}", end=", ")
    print(f"ratio of means {np.mean(reference_ms) / np.mean(ours_ms):.0f}")

    store = WithVectors(FaissVectors(), np.asarray(vectors, dtype=np.float16).__getitem__)
    store.index.apply((), enumerate(vectors), NEVER)

    class Dense:
        def retrieve(self, query: str, k: int) -> list[Hit]:
            return store.search(vectors[int(query.split()[0][1:]) % passages], k)

    def texts(ids: Sequence[int]) -> dict[int, str]:
        return {number: " ".join(corpus[number]) for number in ids}

    legs = {"dense": Dense(), "keyword": KeywordRetriever(str.split, ours)}
    hybrid = HybridRetriever(legs, EvidenceFusion(str.split, ours, texts))
    asked = [" ".join(terms) for terms in questions if terms]
    dense_ms = timed(lambda query: Dense().retrieve(query, 100), asked)
    hybrid_ms = timed(lambda query: hybrid.retrieve(query, 10), asked)
    runs = [(Dense().retrieve(q, 100), legs["keyword"].retrieve(q, 100)) for q in asked]
    fuse = EvidenceFusion(str.split, ours, texts)
    pairs = list(zip(asked, runs, strict=True))
    fuse_ms = timed(lambda pair: fuse(*pair), pairs)
    for name, values in (("dense", dense_ms), ("hybrid", hybrid_ms), ("fusion alone", fuse_ms)):
        low, high = np.percentile(values, (50, 95))
        print(f"{name}: p50 {low:.2f} ms, p95 {high:.2f} ms")


def timed(call: Callable, items: Sequence) -> list[float]:
    times = []
    for item in items:
        started = time.perf_counter()
        call(item)
        times.append((time.perf_counter() - started) * 1000)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    kinds = ("sets", "fetch", "sensitivity", "models", "mixed", "size")
    parser.add_argument("what", choices=kinds)
    parser.add_argument("data", help="a folder of retrieval sets, or a number of passages")
    parser.add_argument("--queries", type=int, default=400, help="questions a set (400)")
    parser.add_argument("--model", default=STARTER)
    arguments = parser.parse_args()
    count, model, data = arguments.queries, arguments.model, Path(arguments.data)
    match arguments.what:
        case "sets":
            measure_sets(data, count, model)
        case "fetch":
            measure_fetch(data, count, model)
        case "sensitivity":
            measure_sensitivity(data, count, model)
        case "models":
            measure_models(data, count)
        case "mixed":
            measure_mixed(data, count, model)
        case "size":
            measure_size(int(arguments.data))


if __name__ == "__main__":
    main()
